//! A file that is read and written in whole pages, past the system's cache of files where that is possible.

use super::sheet::Sheet;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) file: File,
    /// Whether reads and writes go past the system's cache.
    direct: AtomicBool,
}

impl Disk {
    pub(super) fn new(file: File) -> Self {
        let direct = past_the_cache(&file, true);
        Self { file, direct: AtomicBool::new(direct) }
    }

    /// Writes the pages of a sheet.
    pub(super) fn write(&self, sheet: &Sheet, start: u64) -> io::Result<()> {
        self.attempt(|| write_at(&self.file, sheet.pages(), start))
    }

    /// Reads a content of this length.
    pub(super) fn read(&self, sheet: &mut Sheet, len: usize, start: u64) -> io::Result<()> {
        let pages = sheet.blank(len);
        self.attempt(|| read_at(&self.file, pages, start))
    }

    /// Reads or writes, with the system's cache from now on if it turns out that the disk wants other pages than ours.
    fn attempt(&self, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.direct.swap(false, Ordering::Relaxed) => {
                past_the_cache(&self.file, false);
                work()
            }
            done => done,
        }
    }
}

/// Lets reads and writes go past the system's cache, or not; whether they do now.
#[cfg(target_os = "linux")]
pub(super) fn past_the_cache(file: &File, wanted: bool) -> bool {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    fcntl_getfl(file).is_ok_and(|mut flags| {
        flags.set(OFlags::DIRECT, wanted);
        fcntl_setfl(file, flags).is_ok() && wanted
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn past_the_cache(_: &File, _: bool) -> bool {
    false
}

#[cfg(unix)]
pub(super) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(not(unix))]
fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_other_pages_is_read_and_written_through_the_cache() {
        let disk = Disk::new(tempfile::tempfile().expect("a temporary file"));
        disk.direct.store(true, Ordering::Relaxed);
        let mut tries = 0;
        let done = disk.attempt(|| {
            tries += 1;
            if tries == 1 { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
        });
        assert!(done.is_ok() && tries == 2 && !disk.direct.load(Ordering::Relaxed));
        assert!(disk.attempt(|| Err(io::ErrorKind::InvalidInput.into())).is_err(), "there is no third way");
    }
}
