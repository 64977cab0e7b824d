//! Leases: the right to run a key, held by one process at a time and freed by the kernel when its holder dies.
//!
//! Leases only save work. That a result is right comes from publishing alone: whoever ran, the first whole record stays.

use super::Store;
use crate::base::{Digest, Fault, Outcome};
use std::fs::File;
use std::path::PathBuf;

/// A held lease, given back when dropped.
#[derive(Debug)]
pub struct Lease {
    store: Store,
    path: PathBuf,
    file: Option<File>,
}

impl Store {
    /// Waits for the lease of a key.
    ///
    /// # Errors
    /// A storage fault when the lease file cannot be made or locked.
    pub fn lease(&self, key: &Digest) -> Outcome<Lease> {
        loop {
            if let Some(lease) = self.lock_lease(self.layout().lease(key), true)? {
                return Ok(lease);
            }
        }
    }

    /// The lease of a key, or `None` when another holder has it.
    ///
    /// # Errors
    /// As [`Store::lease`].
    pub fn try_lease(&self, key: &Digest) -> Outcome<Option<Lease>> {
        self.lock_lease(self.layout().lease(key), false)
    }

    /// Whether some process holds the lease of a key now.
    #[must_use]
    pub fn leased(&self, key: &Digest) -> bool {
        self.is_locked(self.layout().lease(key))
    }

    pub(super) fn is_locked(&self, path: PathBuf) -> bool {
        // Asking must not make a file, or every look would look like a holder to somebody else.
        self.files().stat(&path).is_ok() && matches!(self.lock_lease(path, false), Ok(None))
    }

    pub(super) fn lock_lease(&self, path: PathBuf, wait: bool) -> Outcome<Option<Lease>> {
        let locked = self.files().lock(&path, wait).map_err(|e| Fault::io("lock", &path, &e))?;
        Ok(locked.map(|file| Lease { store: self.clone(), path, file: Some(file) }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The name goes while the lock is held: whoever waits on this file then finds that it has no name and asks again.
        let _ = self.store.files().remove(&self.path);
        self.file = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_holder_at_a_time_however_many_ask() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a new store");
        let key = Digest::of(b"k");
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _lease = store.lease(&key).expect("lockable");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(!store.leased(&key));
        let held = store.try_lease(&key).expect("lockable");
        assert!(held.is_some() && store.leased(&key) && store.try_lease(&key).expect("lockable").is_none());
        drop(held);
        assert!(store.files().list(&store.layout().folder("lease")).expect("listable").is_empty());
    }
}
