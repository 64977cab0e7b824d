//! CIFAR-100 in its binary version, and CIFAR-10 and CIFAR-100 in their Python version, from archives or unpacked.
//!
//! A batch of the Python version is a pickled dictionary with an array of 3,072 bytes a picture. CIFAR-100's coarse classes become the
//! classes above its fine ones.

use super::Shape;
use super::assemble::{Rows, of_bytes};
use super::dataset::{Dataset, Scaling};
use super::members::Place;
use super::pickle::{Node, Pickle};
use super::registry::Request;
use crate::base::{Fault, Outcome};

const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
const PICTURE: usize = 3 * PLANE;
/// The most bytes of a batch of CIFAR-10 (10,000 pictures in about 31 MB), and of a side of CIFAR-100 (50,000 in about 155 MB).
const GREATEST: u64 = 64 << 20;
const GREATEST_SIDE: u64 = 256 << 20;

/// Pictures with their planes, and their labels.
#[derive(Default)]
struct Batch {
    pictures: Vec<u8>,
    fine: Vec<u32>,
    coarse: Vec<u32>,
}

/// CIFAR-10 from the Python version, where the binary one is not there.
pub(super) fn cifar10_python(request: &Request<'_>, batches: usize) -> Outcome<Option<Dataset>> {
    let folders = ["CIFAR10", "CIFAR10/cifar-10-batches-py", "cifar10", "cifar-10-batches-py"];
    let Some(place) = Place::find(request.dirs, &folders, &["cifar-10-python.tar.gz"], &["test_batch"])?.into_iter().next() else {
        return Ok(None);
    };
    let names: Vec<String> = (1..=batches).map(|number| format!("data_batch_{number}")).chain(["test_batch".to_owned()]).collect();
    let mut contents = place.read_all(&names, GREATEST)?;
    let (mut all, mut train) = (Batch::default(), 0);
    for name in &names {
        train = all.fine.len();
        all.add_pickle(&place, name, &contents.remove(name).unwrap_or_default(), "labels", request)?;
    }
    all.finish(request, 10, train).map(Some)
}

/// CIFAR-100 from either version.
pub(super) fn cifar100(request: &Request<'_>) -> Outcome<Dataset> {
    let folders =
        ["CIFAR100", "CIFAR100/cifar-100-binary", "CIFAR100/cifar-100-python", "cifar100", "cifar-100-binary", "cifar-100-python"];
    let archives = ["cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"];
    let place =
        Place::find(request.dirs, &folders, &archives, &["train.bin", "meta"])?.into_iter().next().ok_or_else(|| request.missing())?;
    let python = match &place {
        Place::Folder(folder) => !folder.join("train.bin").exists(),
        Place::Archive(source) => source.path.to_string_lossy().contains("python"),
    };
    if let Place::Archive(source) = &place {
        request.verify(source)?;
    }
    let names = ["train", "test"].map(|side| if python { side.to_owned() } else { format!("{side}.bin") });
    let mut contents = place.read_all(&names, GREATEST_SIDE)?;
    let (mut all, mut train) = (Batch::default(), 0);
    for name in &names {
        train = all.fine.len();
        let content = contents.remove(name).unwrap_or_default();
        if python {
            all.add_pickle(&place, name, &content, "fine_labels", request)?;
        } else {
            all.add_binary(&place, name, &content)?;
        }
    }
    let mut above = vec![None; 100];
    for (&fine, &coarse) in all.fine.iter().zip(&all.coarse) {
        let known = above.get_mut(fine as usize).map(|above: &mut Option<u32>| *above.get_or_insert(coarse));
        if known.is_some_and(|known| known != coarse) {
            return Err(
                place.fault(format_args!("puts the fine class {fine} into the coarse classes {} and {coarse}", known.unwrap_or_default()))
            );
        }
    }
    let superclasses = above.into_iter().map(|above| above.unwrap_or(0)).collect();
    all.finish(request, 100, train)?.with_superclasses(superclasses)
}

impl Batch {
    fn add_binary(&mut self, place: &Place, name: &str, content: &[u8]) -> Outcome<()> {
        let record = 2 + PICTURE;
        if content.is_empty() || !content.len().is_multiple_of(record) {
            return Err(place.fault(format_args!("holds `{name}` of {} bytes, but records have {record}", content.len())));
        }
        for record in content.chunks_exact(record) {
            self.coarse.push(u32::from(record[0]));
            self.fine.push(u32::from(record[1]));
            self.pictures.extend_from_slice(&record[2..]);
        }
        Ok(())
    }
    fn add_pickle(&mut self, place: &Place, name: &str, content: &[u8], labels: &str, request: &Request<'_>) -> Outcome<()> {
        if let Some(published) = request.published(name) {
            published.check(content, &place.path().join(name))?;
        }
        let at = |fault: Fault| fault.at(format!("`{}`: `{name}`", place.path().display()));
        let pickle = Pickle::parse(content).map_err(at)?;
        let root = pickle.root();
        let pictures = root.field("data").map_err(at)?;
        let Node::Array(array) = pictures.node() else {
            return Err(at(Fault::storage(format!("`data` is {}, but must be an array", pictures.what()))));
        };
        if array.kind.width() != 1 || array.shape.len() != 2 || array.shape[1] != PICTURE || array.fortran {
            return Err(at(Fault::storage(format!("`data` has the shape {:?}, but must be rows of {PICTURE} bytes", array.shape))));
        }
        let read = |field: &str, out: &mut Vec<u32>| -> Outcome<()> {
            let all = root.field(field)?;
            let items = all.items().ok_or_else(|| Fault::storage(format!("`{field}` is {}", all.what())))?;
            for item in items {
                let label = item.whole().and_then(|label| u32::try_from(label).ok());
                out.push(label.ok_or_else(|| Fault::storage(format!("`{field}` holds {}", item.what())))?);
            }
            Ok(())
        };
        read(labels, &mut self.fine).map_err(at)?;
        if labels == "fine_labels" {
            read("coarse_labels", &mut self.coarse).map_err(at)?;
        }
        self.pictures.extend_from_slice(&array.bytes);
        if self.pictures.len() != self.fine.len() * PICTURE || labels == "fine_labels" && self.coarse.len() != self.fine.len() {
            return Err(at(Fault::storage(format!("{} pictures have other labels than there are pictures", array.shape[0]))));
        }
        Ok(())
    }
    fn finish(self, request: &Request<'_>, classes: usize, train: usize) -> Outcome<Dataset> {
        let mut values = Vec::with_capacity(self.pictures.len());
        for picture in self.pictures.chunks_exact(PICTURE) {
            values.extend((0..PLANE).flat_map(|at| [picture[at], picture[PLANE + at], picture[2 * PLANE + at]]));
        }
        let rows = Rows { labels: self.fine, train, ..Rows::default() };
        of_bytes(
            request.name,
            Shape { channels: 3, height: SIDE, width: SIDE },
            classes,
            &values,
            Scaling::symmetric(255),
            rows,
            request.origin(),
        )
    }
}
