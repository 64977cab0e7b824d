//! Moving results between stores: an archive holds the objects and the records of some keys, and nothing that it claims is believed.
//!
//! It is a plain tar file of `cas/` and `rec/` entries, objects first; compressing it is up to others.

use super::object::digest;
use super::{Published, Record, Store, record};
use crate::base::{Digest, Fault, ObjectRef, Outcome};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

/// What an archive is.
pub const MEDIA_TYPE: &str = "application/x-tar";
/// A record is small; a larger one in an archive is not ours.
const RECORD_LIMIT: u64 = 64 << 20;

/// What importing came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// New results.
    pub new: usize,
    /// Results that were there already.
    pub same: usize,
    /// Labels of results that differ from those there; both are kept, the old ones hold.
    pub different: Vec<String>,
    /// Objects read.
    pub objects: usize,
}

impl Store {
    /// Writes the results of the keys, with all their objects, as a tar file at `path`; the number of results.
    ///
    /// # Errors
    /// A storage fault when a result is missing or damaged, or the file cannot be written.
    pub fn export(&self, keys: &[Digest], path: &Path) -> Outcome<usize> {
        let io = |e: std::io::Error| Fault::io("write", path, &e);
        let mut records = Vec::new();
        let there = self.objects();
        let mut trees = HashMap::new();
        let mut objects: BTreeMap<Digest, ObjectRef> = BTreeMap::new();
        for key in keys {
            let record = self.record(key)?.ok_or_else(|| {
                Fault::storage(format!("there is no result with the key `{}`", key.short())).help("`pflpipe cache ls` lists the keys")
            })?;
            self.must_have(&record.outputs)?;
            objects.extend(self.reach(record.outputs.values().copied(), &there, &mut trees).into_iter().map(|o| (o.digest, o)));
            records.push(record);
        }
        // An export that fails leaves nothing behind that looks like an archive.
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let unfinished = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
        let mut archive = tar::Builder::new(BufWriter::new(unfinished));
        for object in objects.values() {
            let hex = object.digest.hex();
            append(&mut archive, &format!("cas/{}/{}", &hex[..2], &hex[2..]), &self.read(object)?).map_err(io)?;
        }
        for record in &records {
            let hex = record.key.hex();
            append(&mut archive, &format!("rec/{}/{}.json", &hex[..2], &hex[2..]), &record::encode(record)?).map_err(io)?;
        }
        let mut file = archive.into_inner().map_err(io)?;
        file.flush().map_err(io)?;
        let unfinished = file.into_inner().map_err(|e| io(e.into_error()))?;
        unfinished.as_file().sync_all().map_err(io)?;
        unfinished.persist(path).map_err(|e| io(e.error))?;
        Ok(records.len())
    }

    /// Takes the results of an archive. Every object is hashed before it counts, records come last, and names lead nowhere but to
    /// their place in the store.
    ///
    /// # Errors
    /// A storage fault when the archive is damaged or holds anything else; what was taken before that stays and is whole.
    pub fn import(&self, path: &Path) -> Outcome<Imported> {
        let io = |e: std::io::Error| Fault::io("read", path, &e);
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            return Err(Fault::storage(format!("`{}` is not a regular file", path.display())));
        }
        let mut archive = tar::Archive::new(BufReader::new(File::open(path).map_err(io)?));
        let mut imported = Imported::default();
        let mut records: Vec<Record> = Vec::new();
        for entry in archive.entries().map_err(io)? {
            let mut entry = entry.map_err(io)?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let strange = |why: &str| {
                Fault::storage(format!("`{}` holds `{name}`, {why}", path.display())).help("was it written by `pflpipe cache export`?")
            };
            if entry.header().entry_type() != tar::EntryType::Regular {
                return Err(strange("which is not a regular file"));
            }
            match place(&name) {
                Some(Place::Object(wanted)) => {
                    let mut bytes = Vec::new();
                    entry.read_to_end(&mut bytes).map_err(io)?;
                    if digest(&bytes) != wanted {
                        return Err(strange("whose content does not have the digest in its name"));
                    }
                    self.put(&bytes)?;
                    imported.objects += 1;
                }
                Some(Place::Record(key)) => {
                    let mut bytes = Vec::new();
                    entry.by_ref().take(RECORD_LIMIT).read_to_end(&mut bytes).map_err(io)?;
                    let record: Record = record::decode(&bytes).map_err(|why| strange(&format!("a damaged record ({why})")))?;
                    if record.key != key {
                        return Err(strange("the record of another key"));
                    }
                    if record.schema > record::SCHEMA {
                        return Err(strange("a record of a newer pflpipe"));
                    }
                    records.push(record);
                }
                None => return Err(strange("which is neither an object nor a record")),
            }
        }
        for record in records {
            match self.publish(&record)? {
                Published::New => imported.new += 1,
                Published::Same => imported.same += 1,
                Published::Differs { .. } => imported.different.push(record.label),
            }
        }
        self.0.index.flush();
        Ok(imported)
    }
}

enum Place {
    Object(Digest),
    Record(Digest),
}

/// What an entry's name says, when it is exactly of the form that `export` writes.
fn place(name: &str) -> Option<Place> {
    let (folder, rest) = name.split_once('/')?;
    let (shard, rest) = rest.split_once('/')?;
    let rest = if folder == "rec" { rest.strip_suffix(".json")? } else { rest };
    if shard.len() != 2 || rest.len() != 62 {
        return None;
    }
    let digest: Digest = format!("{shard}{rest}").parse().ok()?;
    match folder {
        "cas" => Some(Place::Object(digest)),
        "rec" => Some(Place::Record(digest)),
        _ => None,
    }
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o444);
    archive.append_data(&mut header, name, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(store: &Store, content: &str) -> Record {
        let leaf = store.put(format!("leaf of {content}").as_bytes()).expect("writable");
        let tree = store.put_tree(&BTreeMap::from([("leaf".to_owned(), leaf)])).expect("writable");
        let object = store.put(content.as_bytes()).expect("writable");
        let record = Record::new(Digest::of(b"k"), "train", "run", BTreeMap::from([("m".to_owned(), object), ("c".to_owned(), tree)]));
        store.publish(&record).expect("writable");
        record
    }

    fn archive_of(entries: &[(&str, &[u8])], path: &Path) {
        let mut archive = tar::Builder::new(File::create(path).expect("writable"));
        for (name, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.as_gnu_mut().expect("gnu").name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, *bytes).expect("writable");
        }
        archive.finish().expect("writable");
    }

    #[test]
    fn results_travel_with_all_their_objects() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (one, two) = (Store::open(&dir.path().join("1")).expect("a store"), Store::open(&dir.path().join("2")).expect("a store"));
        let record = publish(&one, "x");
        let file = dir.path().join("results.tar");
        assert_eq!(one.export(&[record.key], &file).expect("possible"), 1);
        let imported = two.import(&file).expect("possible");
        assert_eq!((imported.new, imported.objects), (1, 3));
        assert_eq!(two.lookup(&record.key), Some(record.outputs.clone()));
        let tree = two.tree(&record.outputs["c"]).expect("a tree");
        assert!(two.has(&tree["leaf"]));
        assert_eq!(two.import(&file).expect("possible").same, 1);
        assert!(one.export(&[Digest::of(b"none")], &file).is_err());
    }

    #[test]
    fn a_different_result_does_not_replace_the_one_there() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (one, two) = (Store::open(&dir.path().join("1")).expect("a store"), Store::open(&dir.path().join("2")).expect("a store"));
        let (first, second) = (publish(&one, "x"), publish(&two, "y"));
        let file = dir.path().join("results.tar");
        one.export(&[first.key], &file).expect("possible");
        assert_eq!(two.import(&file).expect("possible").different, ["run"]);
        assert_eq!(two.lookup(&second.key), Some(second.outputs));
    }

    #[test]
    fn lies_and_strange_names_are_refused() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(&dir.path().join("s")).expect("a store");
        let file = dir.path().join("a.tar");
        let hex = Digest::of(b"x").hex();
        let honest = format!("cas/{}/{}", &hex[..2], &hex[2..]);
        let rec = format!("rec/{}/{}.json", &hex[..2], &hex[2..]);
        for (name, bytes) in [
            (honest.as_str(), &b"y"[..]),
            ("../evil", b"x"),
            ("/etc/evil", b"x"),
            ("cas/../../evil", b"x"),
            ("version", b"9"),
            (rec.as_str(), b"{}"),
        ] {
            archive_of(&[(name, bytes)], &file);
            let fault = store.import(&file).expect_err(name);
            assert!(fault.what.contains(name), "{fault}");
        }
        archive_of(&[(honest.as_str(), b"x")], &file);
        assert_eq!(store.import(&file).expect("honest").objects, 1);
        std::fs::write(&file, [7; 700]).expect("writable");
        assert!(store.import(&file).is_err());
        assert!(!dir.path().join("evil").exists());
    }
}
