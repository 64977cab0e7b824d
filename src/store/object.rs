//! Objects: bytes named by their blake3 digest, written once, read-only, verified whenever they are read.
//!
//! An object that names others (one object for each client of a checkpoint) is a *tree*: garbage collection, export and
//! verification follow it. Nothing else here knows what the bytes mean.

use super::files::Kind;
use super::{Store, held};
use crate::base::{Blob, Digest, Fault, ObjectRef, Outcome};
use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

const TREE: &[u8] = b"pflpipe tree 1\n";
/// From this size on, hashing uses several threads.
const PARALLEL: usize = 1 << 20;

/// What names an object: a digest, with the size where it is known.
pub trait Address {
    /// The digest of the content.
    fn digest(&self) -> Digest;
    /// The size in bytes, when known.
    fn size(&self) -> Option<u64> {
        None
    }
}

impl Address for Digest {
    fn digest(&self) -> Digest {
        *self
    }
}

impl Address for ObjectRef {
    fn digest(&self) -> Digest {
        self.digest
    }
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }
}

impl Store {
    /// Stores bytes; an object that is already there is not written again, unless it is damaged.
    ///
    /// # Errors
    /// A storage fault when the disk is full or the folder cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Outcome<ObjectRef> {
        let object = ObjectRef { digest: digest(bytes), size: bytes.len() as u64 };
        let path = self.layout().object(&object.digest);
        match self.files().stat(&path) {
            // Comparing costs about as much as hashing did, and a stage that runs again to mend its result must do so.
            Ok(stat) if stat.kind == Kind::File && stat.size == object.size && self.files().map(&path).is_ok_and(|b| *b == *bytes) => {
                // Garbage collection spares young objects.
                let _ = self.files().touch(&path);
                return Ok(object);
            }
            Ok(_) => self.quarantine(&path),
            Err(_) => {}
        }
        self.staged(
            bytes,
            true,
            // Renaming onto an equal object that another process just stored changes nothing.
            |tmp| {
                self.rename_into(tmp, &path)?;
                self.sync_entry(&path)
            },
            &path,
        )?;
        Ok(object)
    }

    /// Stores the content of a regular file.
    ///
    /// # Errors
    /// A storage fault when the file cannot be read or the store not be written.
    pub fn put_file(&self, path: &Path) -> Outcome<ObjectRef> {
        let bytes = super::files::Files::read(&super::files::Disk, path).map_err(|e| Fault::io("read", path, &e))?;
        self.put(&bytes)
    }

    /// Stores a tree: an object that names other objects and keeps them alive.
    ///
    /// # Errors
    /// As [`Store::put`].
    pub fn put_tree(&self, entries: &BTreeMap<String, ObjectRef>) -> Outcome<ObjectRef> {
        let mut bytes = TREE.to_vec();
        serde_json::to_writer(&mut bytes, entries).map_err(|e| Fault::internal(format!("a tree could not be written: {e}")))?;
        self.put(&bytes)
    }

    /// The entries of a tree.
    ///
    /// # Errors
    /// A storage fault when the object is missing, damaged or no tree.
    pub fn tree(&self, what: &impl Address) -> Outcome<BTreeMap<String, ObjectRef>> {
        let bytes = self.read(what)?;
        parse_tree(&bytes).ok_or_else(|| Fault::storage(format!("object `{}` is not a tree of objects", what.digest().short())))
    }

    /// The entries when the object is a tree that can be read; reads no more of other objects than their first bytes.
    pub(super) fn tree_if_any(&self, object: &ObjectRef) -> Option<BTreeMap<String, ObjectRef>> {
        let path = self.layout().object(&object.digest);
        let head = self.files().read_head(&path, TREE.len() as u64).ok()?;
        if head != TREE {
            return None;
        }
        parse_tree(&self.read(object).ok()?)
    }

    /// The content of an object, with its size and digest verified.
    ///
    /// # Errors
    /// A storage fault when the object is missing or damaged; a damaged one is moved to `quarantine/`, so that the stage that
    /// made it runs again next time.
    pub fn read(&self, what: &impl Address) -> Outcome<Vec<u8>> {
        self.verified(what, |path| self.files().read(path))
    }

    /// What `read` finds at the place of an object, once it is what the name says.
    fn verified<B: Deref<Target = [u8]>>(&self, what: &impl Address, read: impl Fn(&Path) -> io::Result<B>) -> Outcome<B> {
        let wanted = what.digest();
        let path = self.layout().object(&wanted);
        // Twice: the second time for whoever read a damaged object while another put it aside and stored it anew.
        for _ in 0..2 {
            let bytes = read(&path).map_err(|e| {
                let fault = Fault::io("read", &path, &e);
                if e.kind() == io::ErrorKind::NotFound {
                    fault.help("the object is no longer in the store: run the pipeline again to make it anew")
                } else {
                    fault
                }
            })?;
            if what.size().is_none_or(|size| size == bytes.len() as u64) && digest(&bytes) == wanted {
                return Ok(bytes);
            }
        }
        self.quarantine(&path);
        self.warn(format!("object `{}` was damaged and is now in `quarantine/`", wanted.short()));
        Err(Fault::storage(format!("`{}` is damaged: its content does not have the digest in its name", path.display()))
            .help("run the pipeline again to make it anew; `pflpipe cache verify` looks for more"))
    }

    /// Whether every output, and what trees among them name, has the content that its name says. All of it is read; what is
    /// damaged is put aside.
    #[must_use]
    pub fn sound(&self, outputs: &BTreeMap<String, ObjectRef>) -> bool {
        // All of it, not only up to the first damage: what stays would be met by the next reader.
        let mut sound = true;
        for object in outputs.values() {
            let Ok(bytes) = self.read(object) else {
                sound = false;
                continue;
            };
            // A leaf of a tree is no tree.
            for leaf in parse_tree(&bytes).unwrap_or_default().values() {
                sound &= self.read(leaf).is_ok();
            }
        }
        sound
    }

    /// The content of an object, verified once for all stages of this process that hold it at the same time, and mapped into memory:
    /// other processes that hold it share its pages.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn shared(&self, what: &impl Address) -> Outcome<Blob> {
        let slot = {
            let mut map = held(&self.0.shared);
            map.retain(|_, slot| Arc::strong_count(slot) > 1 || held(slot).upgrade().is_some());
            Arc::clone(map.entry(what.digest()).or_default())
        };
        let mut weak = held(&slot);
        if let Some(bytes) = weak.upgrade() {
            return Ok(bytes);
        }
        let bytes = self.verified(what, |path| self.files().map(path))?;
        *weak = bytes.downgrade();
        Ok(bytes)
    }

    /// Whether the object is there with its size; its content is not read.
    #[must_use]
    pub fn has(&self, object: &ObjectRef) -> bool {
        self.files().stat(&self.layout().object(&object.digest)).is_ok_and(|s| s.kind == Kind::File && s.size == object.size)
    }

    /// Whether there is an object of that digest; neither its size nor its content is looked at.
    #[must_use]
    pub fn holds(&self, digest: &Digest) -> bool {
        self.files().stat(&self.layout().object(digest)).is_ok()
    }

    /// Checks that every output is there, so that no record is ever published over a hole.
    pub(super) fn must_have<'a>(&self, outputs: impl IntoIterator<Item = (&'a String, &'a ObjectRef)>) -> Outcome<()> {
        for (name, object) in outputs {
            if !self.has(object) {
                return Err(Fault::storage(format!("output `{name}` (object `{}`) is not in the store", object.digest.short())));
            }
        }
        Ok(())
    }
}

fn parse_tree(bytes: &[u8]) -> Option<BTreeMap<String, ObjectRef>> {
    serde_json::from_slice(bytes.strip_prefix(TREE)?).ok()
}

pub(super) fn digest(bytes: &[u8]) -> Digest {
    if bytes.len() < PARALLEL {
        return Digest::of(bytes);
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_rayon(bytes);
    Digest(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a new store");
        (dir, store)
    }

    #[test]
    fn equal_bytes_are_one_read_only_object() {
        let (_dir, store) = store();
        let first = store.put(b"weights").expect("writable");
        assert_eq!(store.put(b"weights").expect("writable"), first);
        assert_eq!(store.read(&first).expect("there"), b"weights");
        assert_eq!(store.read(&first.digest).expect("there"), b"weights");
        let meta = std::fs::metadata(store.layout().object(&first.digest)).expect("there");
        assert!(meta.permissions().readonly());
        assert!(store.files().list(&store.layout().folder("tmp")).expect("listable").is_empty());
    }

    #[test]
    fn a_damaged_object_is_reported_and_put_aside() {
        let (_dir, store) = store();
        let object = store.put(b"weights").expect("writable");
        let path = store.layout().object(&object.digest);
        std::fs::remove_file(&path).expect("removable");
        std::fs::write(&path, b"wEights").expect("writable");
        assert!(store.has(&object), "only the size is looked at");
        assert!(store.read(&object).expect_err("damaged").what.contains("damaged"));
        assert!(!store.has(&object));
        assert_eq!(store.take_warnings().len(), 1);
        store.put(b"weights").expect("writable");
        assert_eq!(store.read(&object).expect("repaired"), b"weights");
    }

    #[test]
    fn a_truncated_object_is_replaced_by_put() {
        let (_dir, store) = store();
        let object = store.put(b"weights").expect("writable");
        let path = store.layout().object(&object.digest);
        std::fs::remove_file(&path).expect("removable");
        std::fs::write(&path, b"wei").expect("writable");
        assert!(!store.has(&object));
        store.put(b"weights").expect("writable");
        assert_eq!(store.read(&object).expect("repaired"), b"weights");
    }

    #[test]
    fn stages_share_one_copy_while_they_hold_it() {
        let (_dir, store) = store();
        let object = store.put(&vec![7; 3 << 20]).expect("writable");
        let first = store.shared(&object).expect("there");
        let second = store.shared(&object).expect("there");
        assert!(first.same(&second));
        drop((first, second));
        assert_eq!(store.shared(&object).expect("there").len(), 3 << 20);
    }

    #[test]
    fn a_tree_names_its_objects() {
        let (_dir, store) = store();
        let leaf = store.put(b"client 0").expect("writable");
        let tree = store.put_tree(&BTreeMap::from([("client-0".to_owned(), leaf)])).expect("writable");
        assert_eq!(store.tree(&tree).expect("a tree")["client-0"], leaf);
        assert!(store.tree(&leaf).is_err());
        assert!(store.tree_if_any(&leaf).is_none());
    }
}
