//! The rule `imported`: clients as somebody else made them.
//!
//! Without a file they are those that came with the data set, such as a folder of PFLlib's: its groups are the clients and its
//! original split is theirs. A file holds index lists: json or npz as `pflpipe partition export` writes them, or json with a list
//! of samples for each client, as many programs dump them, which is then split here.

use super::super::files::{self, Source};
use super::super::npy;
use super::super::params::Params;
use super::super::pfllib::Made;
use super::super::registry::inside;
use super::numpy::Legacy;
use super::request::Request;
use super::{Drawn, Flags, export};
use crate::base::fault::Placed;
use crate::base::{Digest, Fault, Outcome};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The most bytes of a file of index lists.
pub(super) const GREATEST: u64 = 1 << 30;

pub(super) fn fields() -> Vec<Field> {
    vec![Field::optional(
        "file",
        Type::Text,
        "A file of index lists (json or npz) in a data folder; when absent, the clients are those that the data set came with.",
    )]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, _: Option<&mut Legacy>) -> Outcome<Drawn> {
    let Some(name) = params.text("file")? else {
        let Some((groups, of)) = request.groups else {
            return Err(Fault::stage("the data set came without clients").help("say which `file` holds the index lists"));
        };
        let (mut clients, mut tests) = (vec![Vec::new(); groups.names.len()], vec![Vec::new(); groups.names.len()]);
        for (sample, &group) in of.iter().enumerate() {
            let side = if request.is_training(sample as u32) { &mut clients } else { &mut tests };
            side[group as usize].push(sample as u32);
        }
        return Ok(Drawn::split(clients, tests, Flags { attempts: 1, ..Flags::default() }));
    };
    let source = find(name, request.folders)?;
    let lists = read(&source).at(|| format!("`{}`", source.path.display()))?;
    lists.of_data(&source, request.labels.len(), request.classes())?;
    let Lists { clients, mut tests, hold_out, overlaps, .. } = lists;
    // A test set that all clients share is written out for each of them.
    let shared = !hold_out.is_empty() && tests.as_ref().is_some_and(|tests| tests.iter().all(|test| *test == hold_out));
    if shared {
        tests.iter_mut().flatten().for_each(Vec::clear);
    }
    let flags = holders(&source, request.labels.len(), [&clients, tests.as_deref().unwrap_or_default()], &hold_out, overlaps)?;
    Ok(Drawn { clients, tests, flags, hold_out, shared_test: shared })
}

/// Whose each sample is: how many are left out, held out and given twice.
pub(super) fn holders(source: &Source, samples: usize, sides: [&[Vec<u32>]; 2], hold_out: &[u32], overlaps: u64) -> Outcome<Flags> {
    let whose = |id: usize| if id == usize::MAX { "the hold-out".to_owned() } else { format!("client {id}") };
    let of_clients = sides.into_iter().flat_map(|side| side.iter().enumerate()).flat_map(|(id, own)| own.iter().map(move |s| (id, *s)));
    let mut holders = vec![None; samples];
    let mut twice = 0;
    for (id, sample) in of_clients.chain(hold_out.iter().map(|sample| (usize::MAX, *sample))) {
        let holder = holders
            .get_mut(sample as usize)
            .ok_or_else(|| source.fault(format_args!("gives {} sample {sample}, but the data set has {samples} samples", whose(id))))?;
        match holder.replace(id) {
            None => {}
            // As many as the file says that there are, as ProFed's procedure has them.
            Some(_) if twice < overlaps => twice += 1,
            Some(other) => {
                return Err(source
                    .fault(format_args!("gives sample {sample} to {} and to {}", whose(other), whose(id)))
                    .help("every sample may belong to one client, and there to the training or the test set"));
            }
        }
    }
    if twice != overlaps {
        return Err(source.fault(format_args!("says that {overlaps} samples are given twice, but {twice} are")));
    }
    let left_out = holders.iter().filter(|holder| holder.is_none()).count() as u64;
    Ok(Flags { attempts: 1, left_out, held_out: hold_out.len() as u64, overlaps, ..Flags::default() })
}

/// The digest of the file that a partition with these parameters reads; none where it reads none.
///
/// # Errors
/// A storage fault when the file is not there.
pub fn fingerprint(params: &Map<String, Value>, folders: &[PathBuf]) -> Outcome<Option<Digest>> {
    if params.get("kind").and_then(Value::as_str) != Some("imported") {
        return Ok(None);
    }
    let Some(name) = Params::new(params, "imported").text("file")? else { return Ok(None) };
    Ok(Some(Digest::of(&find(name, folders)?.whole(GREATEST)?)))
}

fn find(name: &str, folders: &[PathBuf]) -> Outcome<Source> {
    inside("file", name)?;
    for folder in folders {
        if let Some(source) = Source::at(folder.join(name))? {
            return Ok(source);
        }
    }
    let looked = files::looked_in(folders);
    Err(Fault::storage(format!("there is no file `{name}` of index lists; {looked}"))
        .help("put it into a data folder and say `--data DIR`"))
}

/// What a file holds.
#[derive(Default)]
pub(super) struct Lists {
    pub clients: Vec<Vec<u32>>,
    /// Where the file has them; otherwise the clients are split here.
    pub tests: Option<Vec<Vec<u32>>>,
    pub hold_out: Vec<u32>,
    /// How often a sample is given to one client more.
    pub overlaps: u64,
    /// Samples and classes of the data set that was partitioned, where the file says them.
    pub of: (Option<u64>, Option<u64>),
}

impl Lists {
    /// Refuses a file without clients, and one of another data set.
    fn of_data(&self, source: &Source, samples: usize, classes: usize) -> Outcome<()> {
        if self.clients.is_empty() {
            return Err(source.fault("has no clients").help("a file of index lists has one list of samples, or two, for each client"));
        }
        for (told, there, what) in [(self.of.0, samples, "sample"), (self.of.1, classes, "class")] {
            if let Some(told) = told.filter(|told| *told != there as u64) {
                let counted = |n| crate::base::text::count(n, what);
                let told = counted(usize::try_from(told).unwrap_or(usize::MAX));
                return Err(source
                    .fault(format_args!("is a partition of {told}, but the data set has {}", counted(there)))
                    .help("give the partition the data set that it was made of, with the same parameters"));
            }
        }
        Ok(())
    }
}

/// What `partition export` writes as json; of the manifest what matters here.
#[derive(Deserialize)]
struct Own {
    clients: Vec<Pair>,
    #[serde(default)]
    hold_out: Vec<u32>,
    samples: Option<u64>,
    classes: Option<u64>,
    manifest: Option<Told>,
}

/// What a map of json may say about itself.
#[derive(Deserialize)]
struct Keys {
    clients: Option<IgnoredAny>,
    /// Of another program it may be anything.
    format: Option<Value>,
}

/// What of the manifest matters here.
#[derive(Default, Deserialize)]
struct Told {
    #[serde(default)]
    flags: ToldFlags,
}

#[derive(Default, Deserialize)]
struct ToldFlags {
    #[serde(default)]
    overlaps: u64,
}

#[derive(Deserialize)]
struct Pair {
    train: Vec<u32>,
    #[serde(default)]
    test: Vec<u32>,
}

fn read(source: &Source) -> Outcome<Lists> {
    let content = source.whole(GREATEST)?;
    if content.starts_with(b"PK") { from_npz(&content) } else { from_json(source, &content) }
}

/// The lists in json: as [`Partition::to_json`](super::Partition::to_json) writes them, a list of lists, or a map of lists by client.
pub(super) fn from_json(source: &Source, content: &[u8]) -> Outcome<Lists> {
    if !content.trim_ascii_start().starts_with(b"{") {
        return Ok(Lists { clients: parsed(source, content)?, ..Lists::default() });
    }
    let keys: Keys = parsed(source, content)?;
    let own = |format: &&str| format.starts_with("pflpipe-") && *format != export::FORMAT;
    if let Some(format) = keys.format.as_ref().and_then(Value::as_str).filter(own) {
        return Err(source
            .fault(format_args!("is of the format `{format}`, but this version reads `{}`", export::FORMAT))
            .help("export the partition again with this version, or read the file with the one that wrote it"));
    }
    if keys.clients.is_some() {
        let Own { clients, hold_out, samples, classes, manifest } = parsed(source, content)?;
        let (train, test) = clients.into_iter().map(|pair| (pair.train, pair.test)).unzip();
        let overlaps = manifest.unwrap_or_default().flags.overlaps;
        return Ok(Lists { clients: train, tests: Some(test), hold_out, overlaps, of: (samples, classes) });
    }
    let mut lists: Vec<(u64, Vec<u32>)> = Vec::new();
    for (id, list) in parsed::<BTreeMap<String, Vec<u32>>>(source, content)? {
        lists.push((id.parse().map_err(|_| source.fault(format_args!("has a client `{id}`, but clients are numbers")))?, list));
    }
    lists.sort_by_key(|(id, _)| *id);
    Ok(Lists { clients: lists.into_iter().map(|(_, list)| list).collect(), ..Lists::default() })
}

fn parsed<T: DeserializeOwned>(source: &Source, content: &[u8]) -> Outcome<T> {
    serde_json::from_slice(content).map_err(|error| {
        source
            .fault(format_args!("is neither npz nor json of index lists: {error}"))
            .help("`pflpipe partition export` writes such files; a list of samples for each client is taken too")
    })
}

/// How the clients in the file of a partition with these parameters were made, where the file says it.
///
/// # Errors
/// A storage fault when the file is not there or not sound.
pub fn made(params: &Map<String, Value>, folders: &[PathBuf]) -> Outcome<Option<Made>> {
    let Some(name) = params.get("file").and_then(Value::as_str) else { return Ok(None) };
    let content = find(name, folders)?.whole(GREATEST)?;
    if content.starts_with(b"PK") {
        let mut arrays = npy::Npz::new(&content)?;
        let has = arrays.names().iter().any(|name| name == "alpha");
        let array = if has { Some(arrays.array("alpha")?) } else { None };
        let alpha = array
            .filter(|array| array.kind == npy::Kind::Float(8))
            .and_then(|array| array.bytes.first_chunk().map(|bytes| f64::from_le_bytes(*bytes)));
        return Ok(Some(Made { alpha, ..Made::default() }));
    }
    let Ok(Value::Object(told)) = serde_json::from_slice(&content) else { return Ok(None) };
    let kind = told.get("manifest").and_then(|manifest| manifest.get("kind")).and_then(Value::as_str);
    Ok(kind.map(|kind| Made::by(kind, told.get("alpha").and_then(Value::as_f64))))
}

fn from_npz(content: &[u8]) -> Outcome<Lists> {
    let mut arrays = npy::Npz::new(content)?;
    let mut side = |name: &str| -> Outcome<Vec<Vec<u32>>> {
        let flat = arrays.integers(name)?;
        let offsets = arrays.integers(&format!("{name}_offsets"))?;
        let ordered = offsets.first() == Some(&0) && offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        if !ordered || offsets.last() != Some(&(flat.len() as i64)) {
            return Err(Fault::storage(format!("`{name}_offsets` must rise from 0 to the length of `{name}`, {}", flat.len())));
        }
        let index = |value: &i64| u32::try_from(*value).map_err(|_| Fault::storage(format!("`{name}` holds {value}, which is no sample")));
        offsets.windows(2).map(|pair| flat[pair[0] as usize..pair[1] as usize].iter().map(index).collect()).collect()
    };
    let (train, test) = (side("train")?, side("test")?);
    if train.len() != test.len() {
        return Err(Fault::storage(format!("`train` is of {} clients, but `test` of {}", train.len(), test.len())));
    }
    let names = arrays.names();
    let has = |name: &str| names.iter().any(|own| own == name);
    let hold_out = if has("hold_out") { arrays.integers("hold_out")? } else { Vec::new() };
    let sample = |value: i64| u32::try_from(value).map_err(|_| Fault::storage(format!("`hold_out` holds {value}, which is no sample")));
    let hold_out = hold_out.into_iter().map(sample).collect::<Outcome<_>>()?;
    let overlaps = if has("overlaps") { arrays.integers("overlaps")?.first().copied().unwrap_or_default() } else { 0 };
    let samples = if has("samples") { arrays.integers("samples")?.first().and_then(|n| u64::try_from(*n).ok()) } else { None };
    Ok(Lists { clients: train, tests: Some(test), hold_out, overlaps: u64::try_from(overlaps).unwrap_or_default(), of: (samples, None) })
}

#[cfg(test)]
mod tests {
    use super::super::{Partition, build_from, population::Population};
    use super::*;
    use serde_json::json;

    fn make(kind: &str, setting: &Value, labels: &[u32], folders: &[PathBuf]) -> Outcome<Partition> {
        build_from(kind, setting.as_object().expect("a map"), &Population::of_labels(labels, 3), folders)
    }

    #[test]
    fn own_exports_come_back_with_what_is_held_out_or_given_twice() {
        let labels: Vec<u32> = (0..900).map(|i| i % 3).collect();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let dirs = [dir.path().to_path_buf()];
        for (kind, setting) in [
            ("iid", json!({"clients": 4, "variant": "clean", "hold_out": 0.2, "test": "hold-out"})),
            ("iid", json!({"clients": 4, "variant": "clean", "hold_out": 0.2})),
            ("regions", json!({"clients": 9, "regions": 3, "skew": "iid", "variant": "profed"})),
        ] {
            let made = make(kind, &setting, &labels, &[]).expect("feasible");
            let json = made.to_json(&labels, None).expect("its labels").to_string().into_bytes();
            for (name, content) in [("p.json", json), ("p.npz", made.to_npz(None).expect("memory"))] {
                std::fs::write(dir.path().join(name), content).expect("a temporary file");
                let back = make("imported", &json!({"file": name}), &labels, &dirs).expect("own export");
                assert_eq!((back.clients(), back.hold_out(), back.shared_test()), (made.clients(), made.hold_out(), made.shared_test()));
                let kept = |flags: Flags| (flags.left_out, flags.held_out, flags.overlaps);
                assert_eq!(kept(back.flags()), kept(made.flags()), "{kind} {name}");
            }
        }
    }

    #[test]
    fn lists_that_say_nothing_or_lead_out_are_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let dirs = [dir.path().to_path_buf()];
        for (content, said) in [
            (r#"{"clients": []}"#, "has no clients"),
            (r#"{"clients": [{"train": [0, 1, 2]}], "samples": 5620}"#, "is a partition of 5620 samples, but the data set has 3 samples"),
            (r#"{"clients": [{"train": [0, 1, 2]}], "classes": 1}"#, "is a partition of 1 class, but the data set has 3 classes"),
            (r#"{"clients": [{"train": [0]}], "format": "pflpipe-partition-2"}"#, "is of the format `pflpipe-partition-2`, but this"),
            (r#"{"clients": [{"train": [0, "x"]}]}"#, "invalid type: string \"x\", expected u32 at line 1 column 30"),
            ("[[0, 1], [-2]]", "invalid value: integer `-2`, expected u32 at line 1"),
            (r#"{"first": [0, 1]}"#, "has a client `first`, but clients are numbers"),
            ("what", "is neither npz nor json of index lists: expected value at line 1 column 1"),
        ] {
            std::fs::write(dir.path().join("none.json"), content).expect("a temporary file");
            let fault = make("imported", &json!({"file": "none.json"}), &[0, 1, 2], &dirs).expect_err(content);
            assert!(fault.to_string().contains(said), "{content}: {fault}");
        }
        for name in ["../x.json", "/etc/x.json", ""] {
            let fault = make("imported", &json!({"file": name}), &[0, 1, 2], &dirs).expect_err("outside");
            assert!(fault.what.contains("inside a data folder"), "{fault}");
        }
    }
}
