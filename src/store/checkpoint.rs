//! Checkpoints of unfinished stages: a manifest that the stage writes, and the objects that it names, which gc keeps.
//!
//! What the manifest means is the stage's business.

use super::Store;
use super::record::checked;
use crate::base::{Digest, Fault, ObjectRef, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// A checkpoint as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The key of the stage.
    pub key: Digest,
    /// When it was saved, RFC 3339 in UTC.
    pub saved: String,
    /// The objects that it needs.
    pub objects: Vec<ObjectRef>,
}

impl Store {
    /// Stores a part of a checkpoint of that key: an object that begins with the key, so that no other stage has an equal one, and
    /// whoever holds the lease of the key may remove it.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn put_part(&self, key: &Digest, bytes: &[u8]) -> Outcome<ObjectRef> {
        self.put(&[&key.0[..], bytes].concat())
    }

    /// The bytes of such a part.
    ///
    /// # Errors
    /// As [`Store::read`], and a storage fault when the part is of another key.
    pub fn read_part(&self, key: &Digest, part: &ObjectRef) -> Outcome<Vec<u8>> {
        let mut bytes = self.read(part)?;
        if !bytes.starts_with(&key.0) {
            return Err(Fault::storage(format!("object `{}` is not a part of the checkpoint `{}`", part.digest.short(), key.short())));
        }
        bytes.drain(..key.0.len());
        Ok(bytes)
    }

    /// Removes parts of checkpoints of that key that no checkpoint needs any longer; the caller holds the key's lease. Objects
    /// that are no such parts stay. Without this, a long training fills the disk with its former checkpoints.
    pub fn retire(&self, key: &Digest, parts: &[ObjectRef]) {
        for part in parts {
            let path = self.layout().object(&part.digest);
            if self.files().read_head(&path, key.0.len() as u64).is_ok_and(|head| head == key.0) {
                // What cannot be removed goes with the next garbage collection.
                let _ = self.files().remove(&path);
            }
        }
    }

    /// Replaces the checkpoint of a key. The objects must be in the store already; those that only the former checkpoint named
    /// may be handed to [`Store::retire`] afterwards.
    ///
    /// # Errors
    /// A storage fault when an object is missing or the disk is full; the previous checkpoint then stays.
    pub fn save_checkpoint(&self, key: &Digest, manifest: &[u8], objects: &[ObjectRef]) -> Outcome<()> {
        for object in objects {
            if !self.has(object) {
                return Err(Fault::storage(format!("object `{}` of a checkpoint is not in the store", object.digest.short())));
            }
        }
        let head = Checkpoint { key: *key, saved: super::time_now(), objects: objects.to_vec() };
        let mut bytes = serde_json::to_vec(&head).map_err(|e| Fault::internal(format!("a checkpoint could not be written: {e}")))?;
        bytes.push(b'\n');
        bytes.extend(manifest);
        let digest = Digest::of(&bytes);
        bytes.extend(digest.hex().bytes());
        bytes.push(b'\n');
        self.replace(&self.layout().checkpoint(key), &bytes)
    }

    /// The manifest of a key's checkpoint; `None` when there is none, or (with a warning) when it or one of its objects is
    /// damaged or missing.
    #[must_use]
    pub fn load_checkpoint(&self, key: &Digest) -> Option<Vec<u8>> {
        let path = self.layout().checkpoint(key);
        match self.find_checkpoint(&path) {
            Ok(None) => None,
            Ok(Some((head, manifest))) if head.key == *key && head.objects.iter().all(|object| self.has(object)) => Some(manifest),
            Ok(Some(_)) => {
                self.warn(format!("the checkpoint `{}` misses objects; the stage starts from its beginning", key.short()));
                None
            }
            Err(reason) => {
                self.warn(format!("the checkpoint `{}` cannot be used ({reason}); the stage starts from its beginning", key.short()));
                None
            }
        }
    }

    /// Bytes of the objects of a key's checkpoint; 0 where there is none that can be read.
    pub(super) fn checkpoint_size(&self, key: &Digest) -> u64 {
        let found = self.find_checkpoint(&self.layout().checkpoint(key)).ok().flatten();
        found.map_or(0, |(head, _)| head.objects.iter().map(|object| object.size).sum())
    }

    /// The keys that have a checkpoint; whether it can be used is not looked at.
    #[must_use]
    pub fn checkpointed(&self) -> BTreeSet<Digest> {
        let names = self.files().list(&self.layout().folder("ckpt")).unwrap_or_default();
        names.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect()
    }

    /// Removes the checkpoint of a key; its objects go with the next garbage collection.
    pub fn drop_checkpoint(&self, key: &Digest) {
        let path = self.layout().checkpoint(key);
        match self.files().remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.warn(format!("cannot remove `{}`: {error}", path.display()));
            }
            _ => {}
        }
    }

    pub(super) fn find_checkpoint(&self, path: &Path) -> Result<Option<(Checkpoint, Vec<u8>)>, String> {
        let bytes = match self.files().read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let body = checked(&bytes)?;
        let cut = body.iter().position(|b| *b == b'\n').ok_or("it has no head")?;
        let head = serde_json::from_slice(&body[..cut]).map_err(|e| e.to_string())?;
        Ok(Some((head, body[cut + 1..].to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_two_stages_are_never_one_object() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a new store");
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        let parts = [&one, &two].map(|key| store.put_part(key, b"no state").expect("writable"));
        let plain = store.put(b"no state").expect("writable");
        store.retire(&one, &[parts[0], parts[1], plain]);
        assert_eq!([parts[0], parts[1], plain].map(|object| store.has(&object)), [false, true, true]);
        assert_eq!(store.read_part(&two, &parts[1]).expect("there"), b"no state");
        assert!(store.read_part(&one, &parts[1]).is_err());
    }

    #[test]
    fn a_checkpoint_is_replaced_loaded_and_dropped_and_damage_is_none() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a new store");
        let key = Digest::of(b"k");
        assert_eq!(store.load_checkpoint(&key), None);
        let object = store.put(b"client").expect("writable");
        store.save_checkpoint(&key, b"round\n1", &[object]).expect("writable");
        store.save_checkpoint(&key, b"round\n2", &[object]).expect("writable");
        assert_eq!(store.load_checkpoint(&key).as_deref(), Some(&b"round\n2"[..]));
        assert_eq!((store.checkpoint_size(&key), store.checkpoint_size(&Digest::of(b"other"))), (6, 0));
        assert_eq!(store.checkpointed(), BTreeSet::from([key]));
        let path = store.layout().checkpoint(&key);
        let good = std::fs::read(&path).expect("readable");
        std::fs::write(&path, &good[..good.len() - 3]).expect("writable");
        assert_eq!(store.load_checkpoint(&key), None);
        std::fs::write(&path, &good).expect("writable");
        assert!(store.load_checkpoint(&key).is_some());
        std::fs::remove_file(store.layout().object(&object.digest)).expect("removable");
        assert_eq!(store.load_checkpoint(&key), None);
        assert_eq!(store.take_warnings().len(), 2);
        store.drop_checkpoint(&key);
        store.drop_checkpoint(&key);
        assert!(store.take_warnings().is_empty());
        assert!(store.save_checkpoint(&key, b"", &[object]).is_err());
    }
}
