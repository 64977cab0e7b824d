//! Numbers of one's own: rows of csv, arrays of npz and of safetensors; and Semeion's rows of pixels.

use super::Shape;
use super::assemble::{Rows, of_bytes, of_floats};
use super::dataset::{Dataset, Scaling};
use super::files::Source;
use super::npy::{Array, Kind, Npz};
use super::registry::Request;
use crate::base::fault::Placed;
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Field, Type};
use std::collections::BTreeSet;

/// The most bytes of a file.
const GREATEST: u64 = 8 << 30;

fn file_field(doc: &'static str) -> Field {
    Field::required("file", Type::Text, doc)
}

pub(super) fn csv_fields() -> Vec<Field> {
    vec![
        file_field("The file inside a data folder, with a header line."),
        Field::optional(
            "label",
            Type::Text,
            "The column of the class; the last one when absent. Whole numbers from 0 are classes as they are, with those between them that no \
             row has; where others stand there, negative ones too, all of them are words, which are numbered in the order of their \
             characters.",
        ),
        Field::optional("group", Type::Text, "The column that says who a row comes from, for natural clients."),
        Field::with("delimiter", Type::Text, ",", "What separates the columns: one character."),
        Field::with("standardize", Type::Bool, true, "Bring every column to mean 0 and standard deviation 1 over all rows."),
    ]
}

/// Classes that are whole numbers may leave out others; from here on not nine in ten.
const SPARSE: u32 = 1000;

/// The character between columns.
pub(super) fn delimiter(given: Option<&str>) -> Outcome<u8> {
    match given.unwrap_or(",").as_bytes() {
        &[one] => Ok(one),
        _ => Err(Fault::stage(format!("`delimiter` is `{}`, but must be one character of ASCII", given.unwrap_or_default()))
            .help("say `delimiter: \";\"`, or `\"\\t\"` for tabs")),
    }
}

/// Refuses one column for both the class and the group.
pub(super) fn columns(label: Option<&str>, group: Option<&str>) -> Outcome<()> {
    match (label, group) {
        (Some(label), Some(group)) if label == group => Err(Fault::stage(format!("`group` and `label` are both `{label}`"))
            .help("say which other column holds the class, or leave `group` out")),
        _ => Ok(()),
    }
}

/// Rows of csv: numbers, a class and maybe a group.
pub(super) fn rows_of_csv(request: &Request<'_>) -> Outcome<Dataset> {
    let name = request.params.required("file", request.params.text("file")?)?;
    let delimiter = delimiter(request.params.text("delimiter")?)?;
    let source = request.own_file(name)?;
    let content = source.whole(GREATEST)?;
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(content.as_slice());
    let unsound = |e: csv::Error| source.fault(format_args!("cannot be read: {e}"));
    let header = reader.headers().map_err(unsound)?.clone();
    let column = |name: &str| {
        header.iter().position(|field| field.trim() == name).ok_or_else(|| {
            source.fault(format_args!("has no column `{name}`")).help(format!("its columns are {}", text::quoted(header.iter())))
        })
    };
    let (label, group) = (request.params.text("label")?, request.params.text("group")?);
    // Without a name the class is the last column, which may be that of the groups, too.
    columns(Some(label.unwrap_or(header.iter().next_back().unwrap_or_default().trim())), group)?;
    let label = label.map_or(Ok(header.len().saturating_sub(1)), column)?;
    let group = group.map(column).transpose()?;
    let (mut values, mut labels, mut rows) = (Vec::new(), Vec::new(), Rows { what: "group", ..Rows::default() });
    for (number, row) in reader.records().enumerate() {
        request.go_on_at(number)?;
        let row = row.map_err(unsound)?;
        let wrong = |what: &str, at: usize| {
            source.fault(format_args!("has {what} in column `{}` of row {}", header.get(at).unwrap_or_default().trim(), number + 2))
        };
        for (at, field) in row.iter().enumerate() {
            let shown = || field.trim().chars().take(20).collect::<String>();
            if at == label || Some(at) == group {
                let what = if at == label { "class" } else { "group" };
                if field.contains(['\n', '\r']) {
                    let fault = wrong(&format!("a {what} of several lines"), at);
                    return Err(fault.help(format!("close the quote before `{}`", shown().lines().next().unwrap_or_default())));
                }
                if field.trim().is_empty() {
                    return Err(wrong(&format!("no {what}"), at).help("fill it in, or leave the row out"));
                }
                if at == label { &mut labels } else { &mut rows.groups }.push(field.trim().to_owned());
                continue;
            }
            let value: f32 = field.trim().parse().map_err(|_| wrong("no number", at))?;
            if !value.is_finite() {
                let fault = wrong(&format!("`{}`, which is no number to train on,", shown()), at);
                return Err(fault.help("put a number there, or leave the row out"));
            }
            values.push(value);
        }
    }
    let width = header.len() - 1 - usize::from(group.is_some());
    if labels.is_empty() || width == 0 {
        return Err(source.fault("has no rows of numbers and a class"));
    }
    // Classes that are whole numbers keep them; words count in their order.
    let whole: Option<Vec<u32>> = labels.iter().map(|label| label.parse().ok().filter(|label| *label < 100_000)).collect();
    if let Some(whole) = &whole {
        let (highest, distinct) = (whole.iter().max().copied().unwrap_or_default(), whole.iter().collect::<BTreeSet<_>>().len());
        if highest >= SPARSE && distinct.saturating_mul(10) <= highest as usize {
            let what =
                format!("has the class {highest}, but only {} in all: whole numbers are taken as they are", text::count(distinct, "class"));
            return Err(source.fault(what).help("number the classes from 0 without such gaps, or put a letter before each number"));
        }
    }
    rows.labels = whole.unwrap_or_else(|| {
        let names: BTreeSet<&String> = labels.iter().collect();
        let sorted: Vec<&&String> = names.iter().collect();
        labels.iter().map(|label| sorted.binary_search(&&label).unwrap_or_default() as u32).collect()
    });
    rows.train = rows.labels.len();
    if request.params.flag("standardize", true)? {
        for column in 0..width {
            let own = || values.iter().skip(column).step_by(width).map(|value: &f32| f64::from(*value));
            let n = rows.labels.len() as f64;
            let mean = own().sum::<f64>() / n;
            let sd = (own().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n).sqrt();
            // A column that never changes says nothing.
            let sd = if sd > 0.0 { sd } else { 1.0 };
            values.iter_mut().skip(column).step_by(width).for_each(|value| *value = ((f64::from(*value) - mean) / sd) as f32);
        }
    }
    let classes = rows.labels.iter().max().map_or(1, |&most| most as usize + 1);
    of_floats(request.name, Shape { channels: width, height: 1, width: 1 }, classes, &values, rows, request.origin())
}

const LAYOUTS: &[(&str, &str)] =
    &[("channels-last", "height, width, channels"), ("channels-first", "channels, height, width, as torch has them")];

pub(super) fn array_fields() -> Vec<Field> {
    vec![
        file_field(
            "The file inside a data folder. Its arrays are `x` and `y`, or `x_train`, `y_train`, `x_test` and `y_test`, or `train_images`, \
             `train_labels`, `test_images` and `test_labels`; `group` (for all samples, training ones first) is optional.",
        ),
        Field::with("layout", Type::Choice(LAYOUTS), "channels-last", "The order of the dimensions of pictures with several channels."),
        Field::optional("classes", Type::Int { min: 1, max: 1 << 20 }, "The number of classes; the highest label and one when absent."),
    ]
}

/// The arrays of a file by name.
trait Arrays {
    fn names(&self) -> Vec<String>;
    fn array(&mut self, name: &str) -> Outcome<Array>;
}

impl<R: std::io::Read + std::io::Seek> Arrays for Npz<R> {
    fn names(&self) -> Vec<String> {
        Npz::names(self)
    }
    fn array(&mut self, name: &str) -> Outcome<Array> {
        Npz::array(self, name)
    }
}

struct Tensors<'a>(safetensors::SafeTensors<'a>);

impl Arrays for Tensors<'_> {
    fn names(&self) -> Vec<String> {
        self.0.names().into_iter().map(|name| name.to_string()).collect()
    }
    fn array(&mut self, name: &str) -> Outcome<Array> {
        use safetensors::Dtype;
        let view = self.0.tensor(name).map_err(|e| Fault::storage(format!("it has no sound tensor `{name}`: {e}")))?;
        let kind = match view.dtype() {
            Dtype::BOOL => Kind::Bool,
            Dtype::U8 => Kind::Unsigned(1),
            Dtype::I8 => Kind::Signed(1),
            Dtype::I16 => Kind::Signed(2),
            Dtype::U16 => Kind::Unsigned(2),
            Dtype::I32 => Kind::Signed(4),
            Dtype::U32 => Kind::Unsigned(4),
            Dtype::I64 => Kind::Signed(8),
            Dtype::U64 => Kind::Unsigned(8),
            Dtype::F16 => Kind::Float(2),
            Dtype::F32 => Kind::Float(4),
            Dtype::F64 => Kind::Float(8),
            other => return Err(Fault::storage(format!("tensor `{name}` is of the type {other:?}, which is not supported"))),
        };
        Ok(Array { kind, shape: view.shape().to_vec(), swapped: false, fortran: false, bytes: std::sync::Arc::new(view.data().to_vec()) })
    }
}

/// Arrays of npz.
pub(super) fn npz(request: &Request<'_>) -> Outcome<Dataset> {
    let source = request.own_file(request.params.required("file", request.params.text("file")?)?)?;
    if source.path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
        return Err(source
            .fault("is a single array, but samples and labels are two")
            .help("put both into one file: `numpy.savez(\"file.npz\", x=samples, y=labels)`"));
    }
    of_arrays(request, &source, &mut Npz::open(&source)?)
}

/// Tensors of safetensors.
pub(super) fn safetensors(request: &Request<'_>) -> Outcome<Dataset> {
    let source = request.own_file(request.params.required("file", request.params.text("file")?)?)?;
    let content = source.whole(GREATEST)?;
    let tensors =
        safetensors::SafeTensors::deserialize(&content).map_err(|e| source.fault(format_args!("is no sound file of safetensors: {e}")))?;
    of_arrays(request, &source, &mut Tensors(tensors))
}

fn of_arrays(request: &Request<'_>, source: &Source, file: &mut dyn Arrays) -> Outcome<Dataset> {
    let first = request.params.choice("layout", LAYOUTS)? == Some(1);
    let names = file.names();
    let has = |name: &str| names.iter().any(|own| own == name);
    let sides: &[(&str, &str)] = match () {
        () if has("x_train") => &[("x_train", "y_train"), ("x_test", "y_test")],
        () if has("train_images") => &[("train_images", "train_labels"), ("val_images", "val_labels"), ("test_images", "test_labels")],
        () => &[("x", "y")],
    };
    let place = || format!("`{}`", source.path.display());
    let (mut bytes, mut floats, mut rows, mut shape) = (Vec::new(), Vec::new(), Rows { what: "group", ..Rows::default() }, None);
    for (number, (x, y)) in sides.iter().enumerate() {
        // MedMNIST has a third set; others do without.
        if number > 0 && !has(x) {
            continue;
        }
        request.go_on()?;
        let (pictures, labels) = (file.array(x).at(place)?, file.array(y).at(place)?.integers(y).at(place)?);
        let (count, own) = match (pictures.shape.as_slice(), first) {
            (&[count, width], _) => (count, Shape { channels: width, height: 1, width: 1 }),
            (&[count, height, width], _) => (count, Shape { channels: 1, height, width }),
            (&[count, height, width, channels], false) | (&[count, channels, height, width], true) => {
                (count, Shape { channels, height, width })
            }
            (other, _) => return Err(source.fault(format_args!("holds `{x}` of the shape {other:?}, but samples have 1 to 3 dimensions"))),
        };
        if labels.len() != count {
            return Err(source.fault(format_args!("holds {count} samples in `{x}`, but {} labels in `{y}`", labels.len())));
        }
        if *shape.get_or_insert(own) != own || own.numel() == 0 {
            return Err(source.fault(format_args!("holds samples of another shape in `{x}`")));
        }
        let plane = own.height * own.width;
        let place_of = |at: usize| if first && plane > 1 { at % own.channels * plane + at / own.channels } else { at };
        if pictures.kind == Kind::Unsigned(1) && !pictures.fortran {
            pictures.bytes.chunks_exact(own.numel()).for_each(|one| bytes.extend((0..own.numel()).map(|at| one[place_of(at)])));
        } else {
            let values = pictures.floats(x).at(place)?;
            // What was read is not needed any more, and may be large.
            drop(pictures);
            if floats.is_empty() && !(first && plane > 1) {
                floats = values;
            } else {
                values.chunks_exact(own.numel()).for_each(|one| floats.extend((0..own.numel()).map(|at| one[place_of(at)])));
            }
        }
        for label in labels {
            rows.labels.push(u32::try_from(label).map_err(|_| source.fault(format_args!("holds the label {label} in `{y}`")))?);
        }
        if number == 0 {
            rows.train = rows.labels.len();
        }
    }
    if has("group") {
        rows.groups = file.array("group").at(place)?.integers("group").at(place)?.iter().map(ToString::to_string).collect();
        if rows.groups.len() != rows.labels.len() {
            return Err(source.fault(format_args!("holds {} groups, but {} labels", rows.groups.len(), rows.labels.len())));
        }
    }
    let highest = rows.labels.iter().max().map_or(1, |&most| most as usize + 1);
    let classes = request.params.count("classes", 1)?.unwrap_or(highest);
    let shape = shape.ok_or_else(|| Fault::internal("there is at least one array"))?;
    match (bytes.is_empty(), floats.is_empty()) {
        (false, true) => of_bytes(request.name, shape, classes, &bytes, Scaling::symmetric(255), rows, request.origin()),
        (true, false) => of_floats(request.name, shape, classes, &floats, rows, request.origin()),
        _ => Err(source.fault("holds no samples, or bytes and other numbers")),
    }
}

/// Semeion: 1,593 digits of 16 x 16 black and white pixels, ten columns for the class.
pub(super) fn semeion(request: &Request<'_>) -> Outcome<Dataset> {
    let mut found = None;
    for folder in super::files::folders(request.dirs, request.folders()) {
        found = Source::plain_or_packed(&folder, "semeion.data")?;
        if found.is_some() {
            break;
        }
    }
    let source = found.ok_or_else(|| request.missing())?;
    let mut content = Vec::new();
    let read = std::io::Read::read_to_end(&mut std::io::Read::take(source.open()?.inner, 1 << 26), &mut content);
    read.map_err(|e| source.fault(format_args!("cannot be unpacked: {e}")))?;
    if let Some(published) = request.published("semeion.data") {
        published.check(&content, &source.path)?;
    }
    let text = std::str::from_utf8(&content).map_err(|_| source.fault("is no text"))?;
    let (mut values, mut rows) = (Vec::new(), Rows::default());
    for (number, line) in text.lines().enumerate() {
        let wrong = || source.fault(format_args!("has something else than 256 pixels and 10 columns of a class in line {}", number + 1));
        let fields = line.split_ascii_whitespace().map(|field| field.parse::<f32>().map_err(|_| wrong())).collect::<Outcome<Vec<_>>>()?;
        let (pixels, class) = fields.split_at_checked(256).filter(|(_, class)| class.len() == 10).ok_or_else(wrong)?;
        values.extend(pixels.iter().map(|pixel| u8::from(*pixel > 0.5)));
        rows.labels.push(class.iter().position(|column| *column > 0.5).ok_or_else(wrong)? as u32);
    }
    rows.train = rows.labels.len();
    of_bytes(request.name, Shape { channels: 1, height: 16, width: 16 }, 10, &values, Scaling::symmetric(1), rows, request.origin())
}
