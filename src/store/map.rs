//! Files mapped into memory: processes that read the same object share one copy of it, and the system may drop and reread it.
//!
//! It maps whole regular files and knows nothing of what they hold.

use crate::base::Blob;
use memmap2::Mmap;
use std::fs::File;
use std::io;

/// The content of an open file, mapped; nothing changes it as long as nobody writes to an object of the store.
///
/// # Errors
/// Those of the operating system: not every file system can map.
pub(super) fn map(file: &File) -> io::Result<Blob> {
    // SAFETY: the mapping is sound as long as no one changes or shortens the file while it lives. Objects are written under another
    // name, made read-only and renamed into place, and from then on only ever renamed or unlinked, which leaves a mapping as it is.
    let mapped = unsafe { Mmap::map(file) }?;
    Ok(Blob::of(mapped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_outlives_the_name_of_its_file() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let path = dir.path().join("object");
        std::fs::write(&path, [7; 9000]).expect("writable");
        let blob = map(&File::open(&path).expect("there")).expect("a local file");
        std::fs::remove_file(&path).expect("removable");
        assert_eq!((blob.len(), blob[0], blob[8999]), (9000, 7, 7));
    }
}
