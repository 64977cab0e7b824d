//! Looking after a store: what is in it, verifying it, pinning results, rebuilding the index.

use super::object::digest;
use super::record::Found;
use super::{Record, Store, index};
use crate::base::{Digest, Fault, Outcome};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// What is in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Info {
    /// The folder.
    pub root: PathBuf,
    /// The version of the layout.
    pub version: u32,
    /// The number of results by stage kind.
    pub results: BTreeMap<String, usize>,
    /// The number of objects.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The number of checkpoints of unfinished stages.
    pub checkpoints: usize,
    /// The number of runs in the history.
    pub runs: usize,
    /// The number of pinned results.
    pub pins: usize,
    /// The number of damaged files that were put aside.
    pub quarantined: usize,
}

/// A result in a listing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Its record.
    pub record: Record,
    /// Bytes of its outputs and of its checkpoint, from which it can be continued.
    pub bytes: u64,
    /// Whether all its objects are there.
    pub whole: bool,
    /// Why it is pinned, when it is.
    pub pinned: Option<String>,
}

/// What verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Objects looked at.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Records looked at.
    pub records: usize,
    /// Damaged files, now in `quarantine/`.
    pub damaged: Vec<PathBuf>,
    /// Labels of results with missing objects; they count as not run.
    pub hollow: Vec<String>,
}

impl Store {
    /// What is in the store.
    #[must_use]
    pub fn info(&self) -> Info {
        let objects = self.objects();
        let mut results = BTreeMap::new();
        for (record, _) in index::scan(self.files(), self.layout()) {
            *results.entry(record.kind).or_default() += 1;
        }
        let count = |name| self.files().list(&self.layout().folder(name)).map_or(0, |names| names.len());
        Info {
            root: self.root().to_owned(),
            version: super::VERSION,
            results,
            objects: objects.len(),
            bytes: objects.values().map(|stat| stat.size).sum(),
            checkpoints: count("ckpt"),
            runs: count("runs"),
            pins: count("pins"),
            quarantined: count("quarantine"),
        }
    }

    /// Every result, oldest first.
    #[must_use]
    pub fn ls(&self) -> Vec<Listed> {
        let pins = self.pins();
        let mut listed: Vec<Listed> = index::scan(self.files(), self.layout())
            .into_iter()
            .map(|(record, _)| Listed {
                bytes: record.outputs.values().map(|object| object.size).sum::<u64>() + self.checkpoint_size(&record.key),
                whole: record.outputs.values().all(|object| self.has(object)),
                pinned: pins.get(&record.key).cloned(),
                record,
            })
            .collect();
        listed.sort_by(|a, b| a.record.started.cmp(&b.record.started).then_with(|| a.record.label.cmp(&b.record.label)));
        listed
    }

    /// Reads every record and hashes objects: all of them, or the given fraction in (0, 1], the same ones each time. Damaged files
    /// go to `quarantine/`, so the stages that made them run again.
    #[must_use]
    pub fn verify(&self, fraction: f64) -> Verified {
        let mut found = Verified::default();
        let bound = (fraction.clamp(0.0, 1.0) * 65536.0) as u32;
        let chosen: Vec<Digest> =
            self.objects().into_keys().filter(|d| u32::from(u16::from_le_bytes([d.0[0], d.0[1]])) < bound || bound >= 65536).collect();
        let checked: Vec<(PathBuf, Option<u64>)> = chosen
            .par_iter()
            .map(|wanted| {
                let path = self.layout().object(wanted);
                let size = self.files().read(&path).ok().filter(|bytes| digest(bytes) == *wanted).map(|bytes| bytes.len() as u64);
                (path, size)
            })
            .collect();
        for (path, size) in checked {
            found.objects += 1;
            match size {
                Some(size) => found.bytes += size,
                // It may have been collected since the listing.
                None if self.files().stat(&path).is_err() => found.objects -= 1,
                None => {
                    self.quarantine(&path);
                    found.damaged.push(path);
                }
            }
        }
        self.verify_records(&mut found);
        found
    }

    fn verify_records(&self, found: &mut Verified) {
        let folder = self.layout().folder("rec");
        for shard in self.files().list(&folder).unwrap_or_default() {
            let folder = folder.join(&shard);
            for name in self.files().list(&folder).unwrap_or_default() {
                let path = folder.join(&name);
                let key = name.get(..62).and_then(|rest| format!("{shard}{rest}").parse::<Digest>().ok());
                match (self.find_record(&path, key.as_ref()), key) {
                    (Found::Damaged(_), _) | (_, None) => {
                        self.quarantine(&path);
                        if let Some(key) = key {
                            self.0.index.forget(&key);
                        }
                        found.damaged.push(path);
                    }
                    (Found::Whole(record, _), _) => {
                        found.records += 1;
                        if !record.outputs.values().all(|object| self.has(object)) {
                            self.0.index.forget(&record.key);
                            found.hollow.push(record.label);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Keeps a result through every garbage collection; `note` says why.
    ///
    /// # Errors
    /// A storage fault when there is no such result or the pin cannot be written.
    pub fn pin(&self, key: &Digest, note: &str) -> Outcome<()> {
        if self.record(key)?.is_none() {
            return Err(
                Fault::storage(format!("there is no result with the key `{}`", key.short())).help("`pflpipe cache ls` lists the keys")
            );
        }
        self.replace(&self.pin_path(key), note.as_bytes())
    }

    /// Lets a pinned result go again; whether it was pinned.
    ///
    /// # Errors
    /// A storage fault when the pin cannot be removed.
    pub fn unpin(&self, key: &Digest) -> Outcome<bool> {
        let path = self.pin_path(key);
        match self.files().remove(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Fault::io("remove", &path, &error)),
        }
    }

    /// The pinned keys with their notes.
    #[must_use]
    pub fn pins(&self) -> BTreeMap<Digest, String> {
        let names = self.files().list(&self.layout().folder("pins")).unwrap_or_default();
        let keys = names.iter().filter_map(|name| name.parse::<Digest>().ok());
        keys.map(|key| (key, self.files().read(&self.pin_path(&key)).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()))
            .collect()
    }

    /// Makes the index anew from the records; the number of results.
    ///
    /// # Errors
    /// A storage fault when it cannot be written.
    pub fn rebuild_index(&self) -> Outcome<usize> {
        self.0.index.rebuild()
    }

    /// The keys of results whose hexadecimal key begins with `prefix`, in order.
    #[must_use]
    pub fn keys_with_prefix(&self, prefix: &str) -> Vec<Digest> {
        let all = index::scan(self.files(), self.layout());
        all.into_iter().map(|(record, _)| record.key).filter(|key| key.hex().starts_with(prefix)).collect()
    }

    /// Removes a file; one that is gone already is fine.
    pub(super) fn remove(&self, path: &Path) -> Outcome<()> {
        match self.files().remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Fault::io("remove", path, &error)),
            _ => Ok(()),
        }
    }

    fn pin_path(&self, key: &Digest) -> PathBuf {
        self.layout().folder("pins").join(key.hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(store: &Store, n: u32) -> Record {
        let object = store.put(format!("content {n}").as_bytes()).expect("writable");
        let record = Record::new(Digest::of(&n.to_be_bytes()), "train", "run", BTreeMap::from([("m".to_owned(), object)]));
        store.publish(&record).expect("writable");
        record
    }

    #[test]
    fn verification_finds_every_kind_of_damage_once() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let records: Vec<Record> = (0..4).map(|n| publish(&store, n)).collect();
        let clean = store.verify(1.0);
        assert_eq!((clean.objects, clean.records, clean.damaged.len(), clean.hollow.len()), (4, 4, 0, 0));
        let object = store.layout().object(&records[0].outputs["m"].digest);
        std::fs::remove_file(&object).expect("removable");
        std::fs::write(&object, "c0ntent 0").expect("writable");
        std::fs::remove_file(store.layout().object(&records[1].outputs["m"].digest)).expect("removable");
        let record = store.layout().record(&records[2].key);
        std::fs::remove_file(&record).expect("removable");
        std::fs::write(&record, "{}").expect("writable");
        let found = store.verify(1.0);
        assert_eq!(found.damaged, [object, record]);
        assert_eq!(found.hollow.len(), 2, "the damaged object leaves a hole, too");
        assert_eq!(store.verify(1.0).damaged.len(), 0);
        assert_eq!(store.info().quarantined, 2);
        assert!(store.lookup(&records[3].key).is_some() && store.lookup(&records[0].key).is_none());
    }

    #[test]
    fn a_fraction_is_a_part() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        for n in 0..200 {
            publish(&store, n);
        }
        let part = store.verify(0.5).objects;
        assert!((50..150).contains(&part), "{part}");
        assert_eq!(store.verify(0.0).objects, 0);
    }

    #[test]
    fn pins_info_and_listing_agree() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let record = publish(&store, 1);
        assert!(store.pin(&Digest::of(b"none"), "").is_err());
        store.pin(&record.key, "for the paper").expect("writable");
        assert_eq!(store.ls()[0].pinned.as_deref(), Some("for the paper"));
        let info = store.info();
        assert_eq!((info.pins, info.objects, info.results["train"]), (1, 1, 1));
        assert!(store.unpin(&record.key).expect("possible") && !store.unpin(&record.key).expect("possible"));
        assert_eq!(store.rebuild_index().expect("possible"), 1);
        assert_eq!(store.keys_with_prefix(&record.key.hex()[..6]), [record.key]);
    }
}
