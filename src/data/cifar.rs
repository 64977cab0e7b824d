//! CIFAR-10, binary version: records of a label and three color planes, in six batches or in their archive.
//!
//! The Python version is read elsewhere. The planes are put channels-last while reading.

use super::Shape;
use super::dataset::{Bytes, Dataset, Origin, Samples, Scaling};
use super::ends;
use super::files::{self, Published, Source};
use super::parts::{HEADER, with_header};
use crate::base::{Fault, Outcome, text};
use flate2::read::MultiGzDecoder;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;

const SIDE: usize = 32;
const PLANE: usize = SIDE * SIDE;
const RECORD: usize = 1 + 3 * PLANE;
/// Records of an official batch.
const BATCH: usize = 10_000;
/// The most records of a batch of one's own.
const GREATEST_BATCH: u64 = 100_000;
const SUBFOLDERS: &[&str] = &["CIFAR10", "CIFAR10/cifar-10-batches-bin", "cifar10", "cifar-10-batches-bin"];
const ARCHIVES: [&str; 2] = ["cifar-10-binary.tar.gz", "cifar-10-binary-subset.tar.gz"];

const BATCHES: [Published; 6] = [
    batch("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    batch("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    batch("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    batch("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    batch("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    batch("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
];

const fn batch(name: &'static str, plain: &'static str) -> Published {
    Published { name, packed: "", plain, size: (RECORD * BATCH) as u64 }
}

/// The values of `subset`, with their meaning; the position is 0 for all and otherwise the number of training batches.
pub(super) const SUBSETS: &[(&str, &str)] = &[
    ("all", "all six batches: 50,000 training and 10,000 test images"),
    ("first-1", "the first training batch and the test batch: 20,000 images"),
    ("first-2", "the first two training batches and the test batch: 30,000 images"),
    ("first-3", "the first three training batches and the test batch: 40,000 images"),
    ("first-4", "the first four training batches and the test batch: 50,000 images"),
];

/// Loads CIFAR-10 from the batches or their archive.
///
/// `subset` is a position in [`SUBSETS`]; `limit` keeps the first images only.
///
/// # Errors
/// A storage fault when a file is missing, damaged, or not what its name says.
pub(super) fn load(dirs: &[PathBuf], subset: usize, verify: bool, limit: Option<usize>) -> Outcome<Dataset> {
    let train = if subset == 0 { 5 } else { subset };
    let wanted: Vec<&Published> = BATCHES[..train].iter().chain(&BATCHES[5..]).collect();
    let contents = find(dirs, &wanted, verify)?;
    let total: usize = contents.iter().map(|content| content.len() / RECORD).sum();
    let kept = limit.unwrap_or(total);
    if kept > total {
        return Err(Fault::stage(format!("`limit` is {kept}, but data set `cifar10` has {total} samples here")));
    }
    let mut bytes = with_header(kept, 3 * PLANE);
    let mut labels = Vec::with_capacity(kept);
    for record in contents.iter().flat_map(|content| content.chunks_exact(RECORD)).take(kept) {
        labels.push(u32::from(record[0]));
        let (red, rest) = record[1..].split_at(PLANE);
        let (green, blue) = rest.split_at(PLANE);
        bytes.extend(red.iter().zip(green).zip(blue).flat_map(|((&r, &g), &b)| [r, g, b]));
    }
    let train_count: usize = contents[..train].iter().map(|content| content.len() / RECORD).sum();
    let samples = Samples::bytes(Bytes::new(bytes, HEADER), Scaling::symmetric(255));
    let origin = Origin {
        source: "A. Krizhevsky, Learning multiple layers of features from tiny images, technical report, University of Toronto, 2009"
            .into(),
        license: "no formal license; offered for research".into(),
    };
    let shape = Shape { channels: 3, height: SIDE, width: SIDE };
    Dataset::new("cifar10", shape, 10, samples, labels, train_count.min(kept), origin)
}

/// The content of each wanted batch, from the first folder that holds any of them or an archive.
fn find(dirs: &[PathBuf], wanted: &[&Published], verify: bool) -> Outcome<Vec<Vec<u8>>> {
    for folder in files::folders(dirs, SUBFOLDERS) {
        let found = wanted.iter().map(|file| Source::at(folder.join(file.name))).collect::<Outcome<Vec<_>>>()?;
        if found.iter().any(Option::is_some) {
            let gone = wanted.iter().zip(&found).filter(|(_, f)| f.is_none()).map(|(file, _)| file.name).collect::<Vec<_>>();
            if !gone.is_empty() {
                return Err(lacks(&folder.display().to_string(), &gone));
            }
            let found = found.into_iter().flatten().zip(wanted);
            return found.map(|(source, file)| from_file(&source, file, verify)).collect();
        }
        for archive in ARCHIVES {
            if let Some(source) = Source::at(folder.join(archive))? {
                return from_archive(&source, wanted, verify);
            }
        }
    }
    let files = "`cifar-10-binary.tar.gz`, or `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`,";
    Err(files::missing("cifar10", files, SUBFOLDERS[0], dirs))
}

/// Whether a fault says that no file of the binary version is there.
pub(super) fn is_missing(fault: &Fault) -> bool {
    fault.what.starts_with("the files of data set `cifar10` are not there")
}

fn lacks(place: &str, gone: &[&str]) -> Fault {
    let fault = Fault::storage(format!("`{place}` lacks {}", text::quoted(gone.iter().copied())));
    fault.help("add the missing batches, or ask for fewer: `subset: first-1` takes the first training batch and the test batch")
}

/// Refuses a batch that is not a whole number of records, or when `verify`, not exactly the official one.
fn check_size(source: &Source, name: &str, size: u64, verify: bool) -> Outcome<()> {
    let record = RECORD as u64;
    let official = record * BATCH as u64;
    if verify && size != official {
        let how = if size < official { "truncated" } else { "too long" };
        return Err(source.fault(format_args!("is {how}: `{name}` has {size} bytes, expected {official}")));
    }
    if size == 0 || !size.is_multiple_of(record) || size / record > GREATEST_BATCH {
        return Err(source.fault(format_args!(
            "is no batch of CIFAR-10: `{name}` has {size} bytes, expected 1 to {GREATEST_BATCH} records of {record} bytes"
        )));
    }
    Ok(())
}

fn from_file(source: &Source, file: &Published, verify: bool) -> Outcome<Vec<u8>> {
    check_size(source, file.name, source.size, verify)?;
    let mut content = Vec::new();
    let mut reader = source.open()?;
    reader.exactly(source.size, &mut content, "records")?;
    reader.ended()?;
    if verify {
        source.verify(&[&content], file, &BATCHES)?;
    }
    Ok(content)
}

fn from_archive(source: &Source, wanted: &[&Published], verify: bool) -> Outcome<Vec<Vec<u8>>> {
    let unsound =
        |e: std::io::Error| source.fault(format_args!("is not a sound archive: {e}")).help("fetch the file again: it may be truncated");
    let file = File::open(&source.path).map_err(|e| Fault::io("read", &source.path, &e))?;
    // All that is ever unpacked: six batches and some small files.
    let most = if verify { 7 * (RECORD * BATCH) as u64 } else { 6 * GREATEST_BATCH * RECORD as u64 };
    let unpacked = MultiGzDecoder::new(BufReader::with_capacity(1 << 17, file)).take(most);
    let mut archive = tar::Archive::new(unpacked);
    let mut found: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for entry in archive.entries().map_err(unsound)? {
        let mut entry = entry.map_err(unsound)?;
        let path = entry.path().map_err(unsound)?.into_owned();
        let name = path.file_name().unwrap_or_default();
        let Some(file) = wanted.iter().find(|file| name == file.name && entry.header().entry_type().is_file()) else { continue };
        if found.contains_key(file.name) {
            return Err(source.fault(format_args!("holds `{}` twice", file.name)));
        }
        let size = entry.size();
        check_size(source, file.name, size, verify)?;
        let mut content = Vec::new();
        entry.by_ref().take(size).read_to_end(&mut content).map_err(unsound)?;
        if content.len() as u64 != size {
            return Err(source.fault(format_args!("is truncated inside `{}`", file.name)).help("fetch the file again"));
        }
        if verify {
            let sum = files::hex(&<sha2::Sha256 as sha2::Digest>::digest(&content));
            if sum != file.plain {
                let inside = Source { path: source.path.join(&path), size };
                return Err(inside.wrong_checksum(file.plain, &sum, &BATCHES));
            }
        }
        found.insert(file.name, content);
    }
    ends::tar(archive.into_inner()).map_err(unsound)?;
    let gone: Vec<&str> = wanted.iter().map(|file| file.name).filter(|name| !found.contains_key(name)).collect();
    if !gone.is_empty() {
        return Err(lacks(&source.path.display().to_string(), &gone));
    }
    Ok(wanted.iter().filter_map(|file| found.remove(file.name)).collect())
}
