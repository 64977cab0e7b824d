//! PFLlib's generated folders, both ways: `train/ID.npz` and `test/ID.npz` with a pickled dictionary of `x` and `y`, `config.json`.
//!
//! The clients of a folder become the groups of the data set and its split the original one, so that the partition `imported` is
//! exactly the reference's. Samples are written with channels first, as torch has them; here they are channels-last.

use super::Shape;
use super::dataset::{Bytes, Dataset, Groups, Origin, Samples, Vocabulary};
use super::files::Source;
use super::npy::{self, Array, Kind, Npz};
use super::partition::{Manifest, Partition};
use super::parts::{HEADER, with_header};
use super::pickle::{Node, Pickle, Values, View, dictionary};
use crate::base::fault::Placed;
use crate::base::{Fault, Outcome};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::Path;

/// `config.json`: how many clients and classes there are, and how the clients were made.
#[derive(Default, Deserialize)]
struct Config {
    num_clients: Option<usize>,
    num_classes: Option<usize>,
    #[serde(flatten)]
    made: Made,
}

/// How clients were made, as far as somebody says it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Made {
    /// PFLlib's word for the rule.
    pub partition: Option<String>,
    /// Whether label distributions differ.
    pub non_iid: Option<bool>,
    /// Whether sizes are alike.
    pub balance: Option<bool>,
    /// The concentration of a Dirichlet distribution.
    pub alpha: Option<f64>,
    /// The batch size for which clients have samples enough.
    pub batch_size: Option<u64>,
}

impl Made {
    /// Made by the rule of that name, as a pipeline writes it.
    #[must_use]
    pub fn by(kind: &str, alpha: Option<f64>) -> Self {
        let word = match kind {
            "iid" | "pathological" => "pat",
            "dirichlet" => "dir",
            "extended-dirichlet" => "exdir",
            other => other,
        };
        Self { partition: Some(word.to_owned()), non_iid: Some(kind != "iid"), alpha, ..Self::default() }
    }
    /// What the configuration of a folder says.
    ///
    /// # Errors
    /// A storage fault when it is not sound.
    pub(super) fn of(folder: &Path) -> Outcome<Self> {
        Ok(configuration(folder)?.made)
    }

    /// How the clients were made, as far as the configuration says it.
    fn describe(&self) -> String {
        let mut said: Vec<String> = Vec::new();
        let words = [(self.non_iid, "noniid", "iid"), (self.balance, "balanced", "unbalanced")];
        said.extend(words.iter().filter_map(|(is, yes, no)| is.map(|is| if is { *yes } else { *no }.to_owned())));
        // The scripts write an alpha whatever the partition is; it means something for these two only.
        let of_alpha = self.partition.as_deref().is_some_and(|partition| partition.ends_with("dir"));
        said.extend(self.partition.clone());
        said.extend(self.alpha.filter(|_| of_alpha).map(|alpha| format!("alpha {alpha}")));
        said.extend(self.batch_size.map(|size| format!("batch size {size}")));
        if said.is_empty() { String::new() } else { format!(": {}", said.join(", ")) }
    }
}

/// The configuration of a folder, where it has one.
fn configuration(folder: &Path) -> Outcome<Config> {
    let Some(source) = Source::at(folder.join("config.json"))? else { return Ok(Config::default()) };
    serde_json::from_slice(&source.whole(1 << 30)?).map_err(|e| source.fault(format_args!("cannot be read: {e}")))
}

/// The most classes.
const CLASSES: usize = 1 << 20;

/// The samples of all clients so far.
#[derive(Default)]
struct Pile {
    shape: Vec<usize>,
    /// Values of a sample that are whole numbers, as a text has them.
    tokens: Option<bool>,
    values: Vec<f32>,
    labels: Vec<u32>,
    groups: Vec<u32>,
}

/// Reads a folder as a data set of the name; asks from client to client whether to go on.
///
/// # Errors
/// A storage fault when a file is missing or damaged, or holds something else.
pub(super) fn load(name: &str, folder: &Path, go_on: &dyn Fn() -> Outcome<()>) -> Outcome<Dataset> {
    let config = configuration(folder)?;
    let mut pile = Pile::default();
    let mut clients = 0;
    // A client without a training file ends the list, unless the configuration says how many there are.
    while config.num_clients.is_none_or(|count| clients < count) {
        go_on()?;
        let path = folder.join("train").join(format!("{clients}.npz"));
        match Source::at(path)? {
            Some(source) => pile.read(&source, clients as u32, config.num_classes)?,
            None if config.num_clients.is_none() => break,
            None => return Err(lacks(folder, "train", clients)),
        }
        clients += 1;
    }
    let train = pile.labels.len();
    for client in 0..clients {
        go_on()?;
        let source = Source::at(folder.join("test").join(format!("{client}.npz")))?.ok_or_else(|| lacks(folder, "test", client))?;
        pile.read(&source, client as u32, config.num_classes)?;
    }
    if clients == 0 {
        return Err(lacks(folder, "train", 0));
    }
    let classes = config.num_classes.unwrap_or_else(|| pile.labels.iter().max().map_or(1, |&most| most as usize + 1));
    if classes > CLASSES {
        return Err(Fault::storage(format!("`{}` has {classes} classes, but at most {CLASSES} are read", folder.display())));
    }
    let groups = Groups { what: "client".into(), names: (0..clients).map(|id| id.to_string()).collect(), of: pile.groups };
    let shape = match pile.shape.as_slice() {
        &[channels, height, width] => Shape { channels, height, width },
        &[height, width] => Shape { channels: 1, height, width },
        &[width] if pile.tokens == Some(true) => Shape { channels: 1, height: 1, width },
        &[channels] => Shape { channels, height: 1, width: 1 },
        other => return Err(Fault::storage(format!("`{}` has samples of the shape {other:?}, which is not supported", folder.display()))),
    };
    let samples = samples(&pile.values, shape, pile.tokens == Some(true), pile.labels.len()).at(|| format!("`{}`", folder.display()))?;
    let origin = Origin {
        source: format!("generated by PFLlib's scripts{}", config.made.describe()),
        license: "that of the original data set".into(),
    };
    Dataset::new(name, shape, classes, samples, pile.labels, train, origin)?.with_groups(groups)
}

fn lacks(folder: &Path, side: &str, client: usize) -> Fault {
    Fault::storage(format!("`{}` lacks `{side}/{client}.npz`", folder.display()))
        .help("give a folder that PFLlib's scripts made, with `train/`, `test/` and `config.json`")
}

fn samples(values: &[f32], shape: Shape, tokens: bool, count: usize) -> Outcome<Samples> {
    let plane = shape.height * shape.width;
    let mut bytes = with_header(count, shape.numel() * 4);
    if tokens {
        let greatest = values.iter().copied().fold(0.0, f32::max);
        if let Some(wrong) = values.iter().find(|value| **value < 0.0 || **value != value.trunc()) {
            return Err(Fault::storage(format!("a text holds {wrong}, which is no word of a vocabulary")));
        }
        bytes.extend(values.iter().flat_map(|&value| (value as u32).to_le_bytes()));
        let vocabulary = Vocabulary { size: greatest as u32 + 1, padding: 0 };
        return Ok(Samples::Tokens { ids: Bytes::new(bytes, HEADER), vocabulary });
    }
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let sample = at / shape.numel().max(1);
        return Err(Fault::storage(format!("sample {sample} (training samples first, client by client) holds {}", values[at]))
            .help("numbers to train on are finite; mend the folder's files"));
    }
    for sample in values.chunks_exact(shape.numel().max(1)) {
        for place in 0..plane {
            bytes.extend((0..shape.channels).flat_map(|channel| sample[channel * plane + place].to_le_bytes()));
        }
    }
    Ok(Samples::F32(Bytes::new(bytes, HEADER)))
}

impl Pile {
    /// Adds the samples of a file, whose labels are below `classes` where the configuration says how many there are.
    fn read(&mut self, source: &Source, client: u32, classes: Option<usize>) -> Outcome<()> {
        let mut npz = Npz::open(source)?;
        let before = self.labels.len();
        let read = self.add(&mut npz, client).and_then(|()| match classes.zip(self.labels[before..].iter().max()) {
            Some((classes, most)) if *most as usize >= classes => {
                Err(Fault::storage(format!("it has the label {most}, but `config.json` says {classes} classes")))
            }
            _ => Ok(()),
        });
        read.at(|| format!("`{}`", source.path.display()))
    }
    fn add(&mut self, npz: &mut Npz<impl Read + Seek>, client: u32) -> Outcome<()> {
        let array = npz.array("data")?;
        if array.kind != Kind::Object {
            return Err(Fault::storage("its array `data` holds numbers, but should hold a dictionary of `x` and `y`"));
        }
        let pickle = Pickle::parse(&array.bytes)?;
        // The values are in the pickle now.
        drop(array);
        let data = pickle.root().inner();
        let labels = whole_numbers(data.field("y")?)?;
        let before = self.labels.len();
        for label in labels {
            self.labels.push(u32::try_from(label).map_err(|_| Fault::storage(format!("a label is {label}")))?);
        }
        let count = self.labels.len() - before;
        self.groups.resize(self.labels.len(), client);
        if count == 0 {
            return Ok(());
        }
        let x = data.field("x")?;
        if let Node::Array(array) = x.node() {
            let (rows, shape) = array.shape.split_first().ok_or_else(|| Fault::storage("`x` is a single number"))?;
            let tokens = shape.len() == 1 && matches!(array.kind, Kind::Signed(_) | Kind::Unsigned(2..));
            return self.put(*rows, count, shape, tokens, array);
        }
        let items: Vec<View<'_>> = x.items().ok_or_else(|| Fault::storage(format!("`x` is {}", x.what())))?.collect();
        // An array of two columns of objects, or a list of pairs: words and their number.
        let texts: Vec<View<'_>> = match x.node() {
            Node::Objects(shape, _) if shape.len() == 2 && shape[1] == 2 => items.iter().step_by(2).copied().collect(),
            _ => items.iter().filter_map(|item| item.items().and_then(|mut pair| pair.next())).collect(),
        };
        if texts.len() == count && texts.iter().all(|text| text.items().is_some()) {
            for text in texts {
                let words = whole_numbers(text)?;
                self.check(&[words.len()], true)?;
                self.values.extend(words.iter().map(|&word| word as f32));
            }
            return Ok(());
        }
        if items.len() != count {
            return Err(Fault::storage(format!("`x` has {} samples, but `y` {count}", items.len())));
        }
        for item in items {
            let Node::Array(array) = item.node() else { return Err(Fault::storage(format!("`x` holds {}", item.what()))) };
            self.put(1, 1, &array.shape, false, array)?;
        }
        Ok(())
    }
    fn put(&mut self, rows: usize, count: usize, shape: &[usize], tokens: bool, array: &Array) -> Outcome<()> {
        if rows != count {
            return Err(Fault::storage(format!("`x` has {rows} samples, but `y` {count}")));
        }
        self.check(shape, tokens)?;
        self.values.extend(array.floats("x")?);
        Ok(())
    }
    fn check(&mut self, shape: &[usize], tokens: bool) -> Outcome<()> {
        let first = self.tokens.is_none();
        if first {
            (self.shape, self.tokens) = (shape.to_vec(), Some(tokens));
        }
        if self.shape == shape && self.tokens == Some(tokens) {
            return Ok(());
        }
        Err(Fault::storage(format!("a sample has the shape {shape:?}, but others have {:?}", self.shape)))
    }
}

/// The whole numbers in an array or a list.
fn whole_numbers(view: View<'_>) -> Outcome<Vec<i64>> {
    if let Node::Array(array) = view.node() {
        return array.integers("y");
    }
    let wrong = |view: View<'_>| Fault::storage(format!("it holds {} where whole numbers belong", view.what()));
    view.items().ok_or_else(|| wrong(view))?.map(|item| item.whole().ok_or_else(|| wrong(item))).collect()
}

/// The files of a folder of PFLlib by their path, one after the other so that only one is in memory. `made` says how the clients
/// were made; what it leaves open is seen from them.
///
/// # Errors
/// A stage fault when the partition is one of another data set, and whatever `write` returns.
pub fn export(data: &Dataset, partition: &Partition, made: &Made, write: &mut dyn FnMut(&str, &[u8]) -> Outcome<()>) -> Outcome<()> {
    partition.fits(data.len(), data.classes())?;
    let manifest = partition.manifest(data.labels())?;
    for (side, train) in [("train", true), ("test", false)] {
        for (id, client) in partition.clients().iter().enumerate() {
            let own = if train { &client.train } else { &client.test };
            write(&format!("{side}/{id}.npz"), &file(data, own)?)?;
        }
    }
    let config = config(&manifest, data.labels(), partition, made);
    write("config.json", &serde_json::to_vec(&config).map_err(|e| Fault::internal(format!("a configuration has no JSON form: {e}")))?)
}

/// Whether PFLlib reads the texts as pairs of words and their number, as it has news; Shakespeare's characters it has as plain rows.
fn is_news(data: &Dataset) -> bool {
    let full = |sample: usize| data.length(sample as u32) == data.shape().numel();
    data.vocabulary().is_some() && !data.name().contains("shakespeare") && !(0..data.len()).all(full)
}

fn file(data: &Dataset, samples: &[u32]) -> Outcome<Vec<u8>> {
    let shape = data.shape();
    let (mut values, mut labels) = (Vec::new(), Vec::new());
    data.gather(samples, &mut values);
    data.gather_labels(samples, &mut labels);
    let y: Vec<u8> = labels.iter().flat_map(|&label| u64::from(label).to_le_bytes()).collect();
    let n = samples.len();
    let labels = Values::Array("<i8", &[n], &y);
    if is_news(data) {
        let width = shape.numel();
        let words = values.chunks_exact(width.max(1)).map(|text| text.iter().map(|&word| word as u32).collect::<Vec<u32>>());
        let texts: Vec<(Vec<u32>, u32)> = words.zip(samples).map(|(words, &sample)| (words, data.length(sample) as u32)).collect();
        let pickle = dictionary(&[("x", Values::Texts(&texts)), ("y", labels)]);
        return npy::npz(&[("data", npy::npy("|O", &[], &pickle))]);
    }
    let (descr, dimensions, x): (_, Vec<usize>, Vec<u8>) = if data.vocabulary().is_some() {
        ("<i8", vec![n, shape.numel()], values.iter().flat_map(|&word| (word as u64).to_le_bytes()).collect())
    } else if shape.height * shape.width == 1 {
        ("<f4", vec![n, shape.channels], values.iter().flat_map(|value| value.to_le_bytes()).collect())
    } else {
        let plane = shape.height * shape.width;
        let mut x = Vec::with_capacity(values.len() * 4);
        for sample in values.chunks_exact(shape.numel()) {
            for channel in 0..shape.channels {
                x.extend((0..plane).flat_map(|place| sample[place * shape.channels + channel].to_le_bytes()));
            }
        }
        ("<f4", vec![n, shape.channels, shape.height, shape.width], x)
    };
    let pickle = dictionary(&[("x", Values::Array(descr, &dimensions, &x)), ("y", labels)]);
    npy::npz(&[("data", npy::npy("|O", &[], &pickle))])
}

fn config(manifest: &Manifest, labels: &[u32], partition: &Partition, made: &Made) -> serde_json::Value {
    let of = |client: &super::Client| {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        client.train.iter().chain(&client.test).for_each(|&index| *counts.entry(labels[index as usize]).or_default() += 1);
        counts.into_iter().collect::<Vec<_>>()
    };
    let statistic: Vec<Vec<(u32, u64)>> = partition.clients().iter().map(of).collect();
    let mut config = json!({
        "num_clients": manifest.clients.len(),
        "num_classes": manifest.classes,
        "non_iid": made.non_iid.unwrap_or(manifest.kind != "iid"),
        "balance": made.balance.unwrap_or(manifest.indices.size_max - manifest.indices.size_min <= manifest.classes),
        "partition": made.partition.as_deref().unwrap_or(&manifest.kind),
        "Size of samples for labels in clients": statistic,
        "batch_size": made.batch_size.unwrap_or(10),
    });
    if let (Some(alpha), Some(fields)) = (made.alpha, config.as_object_mut()) {
        fields.insert("alpha".to_owned(), alpha.into());
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::partition::{Population, build};
    use serde_json::json;

    #[test]
    fn news_are_pairs_of_words_and_their_number_and_come_back() {
        let ids: Vec<u8> = [5_u32, 300, 70_000, 7, 0, 0].iter().flat_map(|id| id.to_le_bytes()).collect();
        let samples = Samples::Tokens { ids: Bytes::new(ids, 0), vocabulary: Vocabulary { size: 70_001, padding: 0 } };
        let shape = Shape { channels: 1, height: 1, width: 3 };
        let data = Dataset::new("ag-news", shape, 2, samples, vec![0, 1], 2, Origin::default()).expect("fits");
        let content = file(&data, &[0, 1]).expect("memory");
        let array = Npz::new(&content).expect("own format").array("data").expect("there");
        let pickle = Pickle::parse(&array.bytes).expect("plain");
        let x = pickle.root().inner().field("x").expect("there");
        let pairs: Vec<Vec<View<'_>>> = x.items().expect("a list").map(|pair| pair.items().expect("a pair").collect()).collect();
        let words = |at: usize| whole_numbers(pairs[at][0]).expect("words");
        assert_eq!((words(0), pairs[0][1].whole(), words(1), pairs[1][1].whole()), (vec![5, 300, 70_000], Some(3), vec![7, 0, 0], Some(1)));
        // What is exported as a folder is read as the same texts, and its configuration says the parameter.
        let setting = json!({"clients": 1, "variant": "clean"});
        let made = build("iid", setting.as_object().expect("a map"), data.labels(), 2).expect("feasible");
        let dir = tempfile::tempdir().expect("a temporary folder");
        for side in ["train", "test"] {
            std::fs::create_dir(dir.path().join(side)).expect("a temporary folder");
        }
        let mut put =
            |name: &str, content: &[u8]| std::fs::write(dir.path().join(name), content).map_err(|e| Fault::io("write", dir.path(), &e));
        export(&data, &made, &Made::by("iid", Some(0.1)), &mut put).expect("sound");
        let config: serde_json::Value =
            serde_json::from_slice(&std::fs::read(dir.path().join("config.json")).expect("written")).expect("json");
        assert_eq!(config["alpha"], 0.1);
        let back = load("mine", dir.path(), &|| Ok(())).expect("own format");
        let imported =
            crate::data::partition::build_from("imported", &serde_json::Map::new(), &Population::of(&back), &[]).expect("clients");
        let values = |data: &Dataset, of: &[u32]| {
            let mut values = Vec::new();
            data.gather(of, &mut values);
            values
        };
        assert_eq!(values(&data, &made.clients()[0].train), values(&back, &imported.clients()[0].train));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let shape = Shape { channels: 2, height: 1, width: 1 };
        let fault = samples(&[1.0, 2.0, f32::NAN, 4.0], shape, false, 2).expect_err("not a number");
        assert!(fault.what.contains("sample 1") && fault.what.contains("NaN"), "{fault}");
    }
}
