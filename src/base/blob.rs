//! Bytes that many hold and nobody changes, wherever they lie: in a buffer of this process, or in a file that is mapped into memory.
//!
//! It does not map files itself; the store does.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Shared bytes. A clone is another handle on the same memory.
#[derive(Clone)]
pub struct Blob(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Blob {
    /// Takes over whatever holds the bytes.
    #[must_use]
    pub fn of(holder: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(holder))
    }
    /// Whether both are handles on the same memory.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        std::ptr::eq(self.as_ptr(), other.as_ptr()) && self.len() == other.len()
    }
    /// A handle that does not keep the bytes in memory.
    #[must_use]
    pub fn downgrade(&self) -> WeakBlob {
        WeakBlob(Some(Arc::downgrade(&self.0)))
    }
}

/// A handle that finds the bytes as long as somebody else holds them; the default finds nothing.
#[derive(Clone, Default)]
pub struct WeakBlob(Option<std::sync::Weak<dyn AsRef<[u8]> + Send + Sync>>);

impl WeakBlob {
    /// The bytes, if they are still held.
    #[must_use]
    pub fn upgrade(&self) -> Option<Blob> {
        self.0.as_ref()?.upgrade().map(Blob)
    }
}

impl Deref for Blob {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::of(bytes)
    }
}

impl From<Arc<Vec<u8>>> for Blob {
    fn from(bytes: Arc<Vec<u8>>) -> Self {
        Self(Arc::new(Held(bytes)))
    }
}

/// An `Arc` inside the holder, so that no byte is copied.
struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || **self == **other
    }
}

impl Eq for Blob {}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_the_same_memory() {
        let blob = Blob::from(vec![1, 2, 3]);
        let weak = blob.downgrade();
        assert!(blob.same(&blob.clone()) && weak.upgrade().is_some_and(|again| again.same(&blob)));
        let equal = Blob::from(Arc::new(vec![1, 2, 3]));
        assert!(!blob.same(&equal) && blob == equal && equal[1..] == [2, 3]);
        drop(blob);
        assert!(weak.upgrade().is_none() && WeakBlob::default().upgrade().is_none());
        assert_eq!(format!("{equal:?}"), "Blob(3 bytes)");
    }
}
