//! Lookups: is there a result for a key, which one is nearest, which one is shorter.
//!
//! A hit is an index row (or the record itself), a record file of the size that the row says, and every object with its size.

use super::record::{Found, Record};
use super::{Store, held};
use crate::base::{Digest, ObjectRef};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many records of a stage are compared with for `why`.
const NEAREST: usize = 256;

impl Store {
    /// The outputs of a key's result when it is there and whole; else `None`, and what was damaged is put aside.
    ///
    /// The first calls read the records; from the 65th on, the index is loaded and a call costs a few microseconds.
    #[must_use]
    pub fn lookup(&self, key: &Digest) -> Option<BTreeMap<String, ObjectRef>> {
        let path = self.layout().record(key);
        if let Some((size, outputs)) = self.0.index.row(key) {
            let whole = self.files().stat(&path).is_ok_and(|stat| stat.size == size);
            if whole && outputs.values().all(|object| self.has(object)) {
                return Some(outputs);
            }
            self.0.index.forget(key);
        }
        match self.find_record(&path, Some(key)) {
            Found::Whole(record, size) => {
                if let Some((name, object)) = record.outputs.iter().find(|(_, object)| !self.has(object)) {
                    self.warn(format!(
                        "output `{name}` of {} (object `{}`) is missing or truncated; the stage counts as not run",
                        record.label,
                        object.digest.short()
                    ));
                    return None;
                }
                self.0.index.remember(&record, size);
                Some(record.outputs)
            }
            Found::Damaged(reason) => {
                self.discard_record(key, &reason);
                None
            }
            Found::Unreadable(error) => {
                self.warn(format!("cannot read `{}`: {error}; the stage counts as not run", path.display()));
                None
            }
            Found::Nothing | Found::Newer => None,
        }
    }

    /// The records of a stage of that name and kind, newest first, for comparing keys; at most 256, read once.
    #[must_use]
    pub fn nearest(&self, stage: &str, kind: &str) -> Arc<Vec<Record>> {
        let name = (stage.to_owned(), kind.to_owned());
        if let Some(found) = held(&self.0.nearest).get(&name) {
            return Arc::clone(found);
        }
        let keys = self.0.index.of_stage(stage, kind, NEAREST);
        let found: Arc<Vec<Record>> = Arc::new(keys.iter().filter_map(|key| self.record(key).ok().flatten()).collect());
        held(&self.0.nearest).insert(name, Arc::clone(&found));
        found
    }

    /// The records of a stage of that name and kind with these coordinates, newest first, `limit` at most.
    #[must_use]
    pub fn alike(&self, stage: &str, kind: &str, coords: &BTreeMap<String, Value>, limit: usize) -> Vec<Record> {
        self.0.index.at(stage, kind, coords, limit).iter().filter_map(|key| self.record(key).ok().flatten()).collect()
    }

    /// The whole record of that lineage with the greatest extent below `extent`.
    #[must_use]
    pub fn shorter(&self, lineage: &Digest, extent: u64) -> Option<Record> {
        self.0.index.below(lineage, extent).iter().filter(|key| self.lookup(key).is_some()).find_map(|key| self.record(key).ok().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_needs_its_record_and_every_object() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let object = store.put(b"metrics").expect("writable");
        let record = Record::new(Digest::of(b"k"), "train", "run", BTreeMap::from([("metrics".to_owned(), object)]));
        store.publish(&record).expect("writable");
        // Load the index, so that the row answers.
        for n in 0..100_u32 {
            assert_eq!(store.lookup(&Digest::of(&n.to_le_bytes())), None);
        }
        assert!(store.lookup(&record.key).is_some());
        let path = store.layout().record(&record.key);
        let good = std::fs::read(&path).expect("readable");
        std::fs::remove_file(&path).expect("removable");
        assert_eq!(store.lookup(&record.key), None, "without its record");
        std::fs::write(&path, &good).expect("writable");
        assert!(store.lookup(&record.key).is_some());
        let file = store.layout().object(&object.digest);
        std::fs::remove_file(&file).expect("removable");
        std::fs::write(&file, b"metric").expect("writable");
        assert_eq!(store.lookup(&record.key), None, "with a truncated object");
        assert!(store.take_warnings().iter().any(|line| line.contains("`metrics`")));
    }

    #[test]
    fn the_longest_of_the_shorter_is_taken() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let lineage = Digest::of(b"lineage");
        for extent in [10_u64, 20, 30] {
            let object = store.put(&extent.to_le_bytes()).expect("writable");
            let mut record = Record::new(Digest::of(&extent.to_be_bytes()), "train", "run", BTreeMap::from([("m".to_owned(), object)]));
            (record.lineage, record.extent) = (Some(lineage), Some(extent));
            store.publish(&record).expect("writable");
        }
        let extent = |below| store.shorter(&lineage, below).and_then(|r| r.extent);
        assert_eq!((extent(10), extent(11), extent(30), extent(u64::MAX)), (None, Some(10), Some(20), Some(30)));
        assert_eq!(store.shorter(&Digest::of(b"other"), 99), None);
    }
}
