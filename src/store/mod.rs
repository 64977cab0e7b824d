//! The content-addressed store: objects, records, index, leases, checkpoints, run history, garbage collection.
//!
//! Objects (`cas/`) are named by their content and never change. A record (`rec/`) says which objects a stage gave; it is
//! written last, so a result is there wholly or not at all. Everything else (index, leases, logs) can be lost without losing a
//! result. The store knows nothing of pipelines: a stage is a key, and an output is bytes.

mod archive;
mod checkpoint;
pub mod files;
mod gc;
mod index;
mod layout;
mod lease;
mod log;
mod lookup;
mod map;
mod object;
mod record;
mod run;
mod upkeep;

pub use archive::{Imported, MEDIA_TYPE};
pub use checkpoint::Checkpoint;
pub use files::{Disk, Files};
pub use gc::{GcPolicy, GcReport};
pub use layout::VERSION;
pub use lease::Lease;
pub use log::{Failure, LogWriter};
pub use object::Address;
pub use record::{HostInfo, Published, Record};
pub use run::{Run, RunInfo, RunStart, RunStatus};
pub use upkeep::{Info, Listed, Verified};

use crate::base::blob::WeakBlob;
use crate::base::{Digest, Fault, Outcome};
use index::{Index, Warnings};
use layout::Layout;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open store. Cloning shares it; all methods may be called from several threads, and several processes may use one folder.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

type Shared = Arc<Mutex<WeakBlob>>;
type Nearest = HashMap<(String, String), Arc<Vec<Record>>>;

struct Inner {
    layout: Layout,
    files: Arc<dyn Files>,
    durable: bool,
    index: Index,
    shared: Mutex<HashMap<Digest, Shared>>,
    nearest: Mutex<Nearest>,
    warnings: Warnings,
    /// What was warned of already.
    warned: Mutex<HashSet<String>>,
    prefix: String,
    counter: AtomicU64,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("root", &self.root()).field("durable", &self.0.durable).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in that folder, creating it where needed; writes reach the disk before they count.
    ///
    /// # Errors
    /// A storage fault when the folder cannot be used: a file in its place, no permission, a newer version.
    pub fn open(root: &Path) -> Outcome<Self> {
        Self::open_with(root, Arc::new(Disk), true)
    }

    /// As [`Store::open`], with another file-system layer, and `durability` false to leave out fsync: then a power cut, but no
    /// crash of the process, may lose or damage newest results (they are found damaged and run again).
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(root: &Path, files: Arc<dyn Files>, durability: bool) -> Outcome<Self> {
        Self::build(root, files, durability, true)
    }

    /// As [`Store::open_with`], without the index: for a worker, which needs single records only and may run on another machine.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_unindexed(root: &Path, files: Arc<dyn Files>, durability: bool) -> Outcome<Self> {
        Self::build(root, files, durability, false)
    }

    fn build(root: &Path, files: Arc<dyn Files>, durable: bool, indexed: bool) -> Outcome<Self> {
        let layout = Layout::open(root, &*files)?;
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let warnings = Warnings::default();
        let store = Self(Arc::new(Inner {
            index: Index::new(&layout, &files, &warnings, durable, indexed),
            layout,
            files,
            durable,
            shared: Mutex::default(),
            nearest: Mutex::default(),
            warnings,
            warned: Mutex::default(),
            // Process ids repeat between machines that share a store; the time in nanoseconds tells them apart.
            prefix: format!("{}-{nanos:x}", std::process::id()),
            counter: AtomicU64::new(0),
        }));
        store.sweep();
        Ok(store)
    }

    /// The store's folder, absolute.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.0.layout.root()
    }

    /// Whether writes are forced to the disk.
    #[must_use]
    pub fn durable(&self) -> bool {
        self.0.durable
    }

    /// What was found damaged or could not be kept since the last call: lines for people.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *held(&self.0.warnings))
    }

    fn warn(&self, line: String) {
        // The same damage is met by each stage that reads it.
        if !held(&self.0.warned).insert(line.clone()) {
            return;
        }
        tracing::warn!("{line}");
        let mut warnings = held(&self.0.warnings);
        // A store that lost everything must not fill the memory with complaints.
        if warnings.len() < 1000 {
            warnings.push(line);
        }
    }

    fn files(&self) -> &dyn Files {
        &*self.0.files
    }

    fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// A new name in `tmp/`.
    fn temporary(&self) -> PathBuf {
        let n = self.0.counter.fetch_add(1, Ordering::Relaxed);
        self.layout().folder("tmp").join(format!("{}-{n}", self.0.prefix))
    }

    /// Writes a temporary file, forced to the disk where asked, and hands it to `place`, which gives it its name.
    fn staged(&self, bytes: &[u8], read_only: bool, place: impl FnOnce(&Path) -> io::Result<()>, to: &Path) -> Outcome<()> {
        let tmp = self.temporary();
        let result = self.staged_io(&tmp, bytes, read_only, place);
        if let Err(error) = result {
            // Best effort: what stays is swept later.
            let _ = self.files().remove(&tmp);
            return Err(Fault::io("write", to, &error));
        }
        Ok(())
    }

    fn staged_io(&self, tmp: &Path, bytes: &[u8], read_only: bool, place: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        self.files().write_new(tmp, bytes, read_only)?;
        if self.0.durable {
            self.files().sync(tmp)?;
        }
        place(tmp)
    }

    /// Renames, making the target's folder when it is not there yet.
    fn rename_into(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.with_folder(to, || self.files().rename(from, to))
    }

    /// Does `step`; when it finds no folder to put `to` in, makes it and does the step again.
    fn with_folder(&self, to: &Path, step: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match step() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(folder) = to.parent() {
                    self.files().create_folder(folder)?;
                    self.sync_entry(folder)?;
                }
                step()
            }
            other => other,
        }
    }

    /// Forces the entry of `path` in its folder to the disk.
    fn sync_entry(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(folder) if self.0.durable => self.files().sync(folder),
            _ => Ok(()),
        }
    }

    /// Replaces a file atomically.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Outcome<()> {
        self.staged(
            bytes,
            false,
            |tmp| {
                self.rename_into(tmp, path)?;
                self.sync_entry(path)
            },
            path,
        )
    }

    /// Writes a small file for another process to read, in `tmp/`.
    ///
    /// # Errors
    /// A storage fault when it cannot be written.
    pub fn put_ticket(&self, bytes: &[u8]) -> Outcome<PathBuf> {
        let path = self.temporary();
        self.files().write_new(&path, bytes, false).map_err(|e| Fault::io("write", &path, &e))?;
        Ok(path)
    }

    /// Removes such a file.
    pub fn drop_ticket(&self, path: &Path) {
        // What stays is swept later.
        let _ = self.files().remove(path);
    }

    /// A file without a name, for what has no room in memory: it is gone when it is closed, however the process ends.
    ///
    /// # Errors
    /// A storage fault when it cannot be made.
    pub fn scratch(&self) -> Outcome<std::fs::File> {
        let folder = self.layout().folder("tmp");
        tempfile::tempfile_in(&folder).map_err(|e| Fault::io("write in", &folder, &e))
    }

    /// Moves a damaged file out of the way, where people can look at it.
    fn quarantine(&self, path: &Path) {
        let folder = self.layout().folder("quarantine");
        let name = format!("{}-{}-{}", crumbs(path), self.0.prefix, self.0.counter.fetch_add(1, Ordering::Relaxed));
        if self.rename_into(path, &folder.join(name)).is_err() {
            let _ = self.files().remove(path);
        }
    }

    /// Removes temporary files that nobody has written to for an hour.
    fn sweep(&self) {
        let folder = self.layout().folder("tmp");
        for name in self.files().list(&folder).unwrap_or_default() {
            let path = folder.join(name);
            if self.files().stat(&path).is_ok_and(|stat| older(stat.modified, 3600)) {
                let _ = self.files().remove(&path);
            }
        }
    }
}

/// The time now, RFC 3339 in UTC, with milliseconds.
#[must_use]
pub fn time_now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// The last two parts of a path as one name.
fn crumbs(path: &Path) -> String {
    let parts: Vec<String> = path.components().rev().take(2).map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().concat()
}

fn older(time: std::time::SystemTime, seconds: u64) -> bool {
    time.elapsed().is_ok_and(|age| age.as_secs() >= seconds)
}

/// A lock whose data stay valid when a holder panics: every change under it is a single assignment.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
