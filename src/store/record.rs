//! Records: which outputs a stage gave, from which inputs, when, where and how long; self-checked and written last.
//!
//! A record is JSON text and one more line, the blake3 digest of all before it.

use super::Store;
use super::files::Files;
use crate::base::{Digest, Fault, FaultKind, ObjectRef, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

/// The schema of records that this build writes; newer ones are left alone.
pub(super) const SCHEMA: u32 = 1;

/// The machine that ran a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Host name.
    pub name: String,
    /// CPU model.
    pub cpu: String,
    /// Logical cores.
    pub cores: u32,
}

impl HostInfo {
    /// This machine, looked up once.
    #[must_use]
    pub fn here() -> Self {
        static HERE: OnceLock<HostInfo> = OnceLock::new();
        HERE.get_or_init(|| {
            let refresh = sysinfo::RefreshKind::nothing().with_cpu(sysinfo::CpuRefreshKind::nothing());
            let cpu = sysinfo::System::new_with_specifics(refresh)
                .ok()
                .and_then(|system| system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()))
                .unwrap_or_default();
            let cores = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
            Self { name: sysinfo::System::host_name().unwrap_or_default(), cpu, cores }
        })
        .clone()
    }
}

/// What a finished stage left: its outputs and where they come from.
///
/// Times and host are here and never in an output, so that equal results are equal objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The record's own schema.
    pub schema: u32,
    /// The key of the result.
    pub key: Digest,
    /// The stage kind.
    pub kind: String,
    /// The stage's name in its pipeline.
    pub stage: String,
    /// The stage with its coordinates, for people.
    pub label: String,
    /// The coordinates by axis.
    #[serde(default)]
    pub coords: BTreeMap<String, Value>,
    /// What the key is made of, for `why`.
    #[serde(default)]
    pub manifest: Value,
    /// The outputs by name.
    pub outputs: BTreeMap<String, ObjectRef>,
    /// The key without the parameter that may be extended.
    #[serde(default)]
    pub lineage: Option<Digest>,
    /// The value of that parameter.
    #[serde(default)]
    pub extent: Option<u64>,
    /// The run that made it.
    #[serde(default)]
    pub run: String,
    /// When it started, RFC 3339 in UTC.
    #[serde(default)]
    pub started: String,
    /// How long it took, in milliseconds; without what an attempt before it, or a shorter stage that it continued, had done.
    #[serde(default)]
    pub wall_ms: u64,
    /// How much of `extent` was done before; absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<u64>,
    /// Which attempt succeeded, counted from 1.
    #[serde(default)]
    pub attempt: u32,
    /// Where it ran.
    #[serde(default)]
    pub host: HostInfo,
    /// The version of pflpipe.
    #[serde(default)]
    pub version: String,
    /// Greatest resident memory of the process, in bytes, where known.
    #[serde(default)]
    pub peak_rss: Option<u64>,
    /// What the stage warned of, each line once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Record {
    /// A record of this process and machine with outputs; the caller fills in the rest.
    #[must_use]
    pub fn new(key: Digest, kind: &str, stage: &str, outputs: BTreeMap<String, ObjectRef>) -> Self {
        Self {
            schema: SCHEMA,
            key,
            kind: kind.to_owned(),
            stage: stage.to_owned(),
            label: stage.to_owned(),
            coords: BTreeMap::new(),
            manifest: Value::Null,
            outputs,
            lineage: None,
            extent: None,
            run: String::new(),
            started: super::time_now(),
            wall_ms: 0,
            begun_at: None,
            attempt: 1,
            host: HostInfo::here(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            peak_rss: None,
            warnings: Vec::new(),
        }
    }

    /// Seconds for each unit of what it extends over, a training's rounds; absent where nothing of it was done or no time is known.
    #[must_use]
    pub fn pace(&self) -> Option<f64> {
        let done = self.extent?.checked_sub(self.begun_at.unwrap_or(0)).filter(|done| *done > 0)?;
        (self.wall_ms > 0).then(|| self.wall_ms as f64 / 1e3 / done as f64)
    }

    /// Notes the greatest resident memory of this process so far, where the system tells it.
    pub fn measure_memory(&mut self) {
        self.peak_rss = peak_rss();
    }
}

/// What publishing came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The record is new.
    New,
    /// An equal result was there already.
    Same,
    /// Another result of the same key was there first and stays; this one is kept beside it as number `alt`.
    Differs {
        /// The number of the alternative, from 1.
        alt: u32,
        /// The outputs that hold.
        first: BTreeMap<String, ObjectRef>,
        /// The names of the outputs that differ.
        names: Vec<String>,
    },
}

impl Published {
    /// Turns a different second result into a fault of kind `NonDeterminism`.
    ///
    /// # Errors
    /// When the results differ.
    pub fn strict(self) -> Outcome<Self> {
        match &self {
            Self::Differs { names, alt, .. } => Err(Fault::new(
                FaultKind::NonDeterminism,
                format!(
                    "the same stage gave two different results: {} differ",
                    crate::base::text::quoted(names.iter().map(String::as_str))
                ),
            )
            .help(format!("the first result is kept, and the second lies beside its record as `.alt-{alt}`"))),
            _ => Ok(self),
        }
    }
}

/// What was found in a record's place.
pub(super) enum Found {
    Nothing,
    Whole(Box<Record>, u64),
    /// Written by a later pflpipe: not for us, and not to be touched.
    Newer,
    Damaged(String),
    /// The disk would not say.
    Unreadable(io::Error),
}

impl Store {
    /// The record of a key; a damaged one is put aside and counts as not there.
    ///
    /// # Errors
    /// A storage fault when the disk cannot be read.
    pub fn record(&self, key: &Digest) -> Outcome<Option<Record>> {
        let path = self.layout().record(key);
        match self.find_record(&path, Some(key)) {
            Found::Whole(record, _) => Ok(Some(*record)),
            Found::Nothing | Found::Newer => Ok(None),
            Found::Damaged(reason) => {
                self.discard_record(key, &reason);
                Ok(None)
            }
            Found::Unreadable(error) => Err(Fault::io("read", &path, &error)),
        }
    }

    pub(super) fn find_record(&self, path: &Path, key: Option<&Digest>) -> Found {
        find(self.files(), path, key)
    }

    pub(super) fn discard_record(&self, key: &Digest, reason: &str) {
        self.warn(format!("the record `{}` was damaged ({reason}) and is now in `quarantine/`; the stage counts as not run", key.short()));
        self.quarantine(&self.layout().record(key));
        self.0.index.forget(key);
    }

    /// Publishes a result. The first writer of a key wins; its record is never changed.
    ///
    /// # Errors
    /// A storage fault when an output is not in the store or the record cannot be written; then nothing is published.
    pub fn publish(&self, record: &Record) -> Outcome<Published> {
        self.must_have(&record.outputs)?;
        let path = self.layout().record(&record.key);
        let bytes = encode(record)?;
        // Twice at most: the second time after a damaged or hollow record was put aside.
        for _ in 0..3 {
            if self.create_record(&path, &bytes)? {
                self.0.index.remember(record, bytes.len() as u64);
                return Ok(Published::New);
            }
            match self.find_record(&path, Some(&record.key)) {
                Found::Whole(first, size) if first.outputs == record.outputs => {
                    self.0.index.remember(&first, size);
                    return Ok(Published::Same);
                }
                Found::Whole(first, size) if self.must_have(&first.outputs).is_ok() => {
                    self.0.index.remember(&first, size);
                    return self.keep_alternative(*first, record, &bytes);
                }
                Found::Whole(..) => self.discard_record(&record.key, "its objects are gone"),
                Found::Damaged(reason) => self.discard_record(&record.key, &reason),
                Found::Nothing => {}
                Found::Newer => {
                    return Err(Fault::storage(format!("`{}` was written by a newer pflpipe", path.display()))
                        .help("update pflpipe, or choose another store with `--cache DIR`"));
                }
                Found::Unreadable(error) => return Err(Fault::io("read", &path, &error)),
            }
        }
        Err(Fault::storage(format!("`{}` cannot be written: another file comes back in its place", path.display())))
    }

    /// Whether the record was written; `false` when there is one.
    fn create_record(&self, path: &Path, bytes: &[u8]) -> Outcome<bool> {
        let mut created = true;
        self.staged(
            bytes,
            true,
            |tmp| {
                match self.link_into(tmp, path) {
                    Ok(()) => self.sync_entry(path)?,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => created = false,
                    Err(error) => return Err(error),
                }
                // The record stands; a name left in `tmp/` is swept later.
                let _ = self.files().remove(tmp);
                Ok(())
            },
            path,
        )?;
        Ok(created)
    }

    fn link_into(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.with_folder(to, || self.files().link(from, to)) {
            // File systems without hard links: two first writers at the very same instant then keep the last, no worse.
            Err(e) if matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) => match self.files().stat(to) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(missing) if missing.kind() == io::ErrorKind::NotFound => self.files().rename(from, to),
                Err(other) => Err(other),
            },
            other => other,
        }
    }

    fn keep_alternative(&self, first: Record, second: &Record, bytes: &[u8]) -> Outcome<Published> {
        let names = differing(&first.outputs, &second.outputs);
        for alt in 1..100 {
            let path = self.layout().alternative(&second.key, alt);
            if self.create_record(&path, bytes)? {
                return Ok(Published::Differs { alt, first: first.outputs, names });
            }
            if let Found::Whole(other, _) = self.find_record(&path, Some(&second.key))
                && other.outputs == second.outputs
            {
                return Ok(Published::Differs { alt, first: first.outputs, names });
            }
        }
        // A hundred different results: one more adds nothing.
        Ok(Published::Differs { alt: 99, first: first.outputs, names })
    }
}

/// What is in a record's place; `key` is the key that it must have, where known.
pub(super) fn find(files: &dyn Files, path: &Path, key: Option<&Digest>) -> Found {
    match files.read(path) {
        Ok(bytes) => match decode::<Record>(&bytes) {
            Ok(record) if record.schema > SCHEMA => Found::Newer,
            Ok(record) if key.is_some_and(|key| *key != record.key) => Found::Damaged("it belongs to another key".to_owned()),
            Ok(record) => Found::Whole(Box::new(record), bytes.len() as u64),
            Err(reason) => Found::Damaged(reason),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Found::Damaged("it is not a regular file".to_owned()),
        Err(error) => Found::Unreadable(error),
    }
}

fn differing(a: &BTreeMap<String, ObjectRef>, b: &BTreeMap<String, ObjectRef>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names.into_iter().filter(|name| a.get(*name) != b.get(*name)).cloned().collect()
}

/// JSON text and a line with its digest.
pub(super) fn encode<T: Serialize>(value: &T) -> Outcome<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value).map_err(|e| Fault::internal(format!("a record could not be written: {e}")))?;
    bytes.push(b'\n');
    let digest = Digest::of(&bytes);
    bytes.extend(digest.hex().bytes());
    bytes.push(b'\n');
    Ok(bytes)
}

/// The value of a self-checked text, or why it is damaged.
pub(super) fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(checked(bytes)?).map_err(|e| e.to_string())
}

/// All but the last line, when the last line is its digest.
pub(super) fn checked(bytes: &[u8]) -> Result<&[u8], String> {
    // 64 characters and a line break.
    let Some(cut) = bytes.len().checked_sub(65) else {
        return Err("it is too short".to_owned());
    };
    let (body, tail) = bytes.split_at(cut);
    if tail[64] == b'\n' && Digest::of(body).hex().as_bytes() == &tail[..64] {
        Ok(body)
    } else {
        Err("its check line does not match".to_owned())
    }
}

/// The greatest resident memory of this process so far, in bytes.
fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a new store");
        (dir, store)
    }

    fn record(store: &Store, key: &str, content: &[u8]) -> Record {
        let object = store.put(content).expect("writable");
        Record::new(Digest::of(key.as_bytes()), "train", "run", BTreeMap::from([("metrics".to_owned(), object)]))
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let (_dir, store) = store();
        let mut first = record(&store, "a", b"1");
        first.coords.insert("alpha".to_owned(), serde_json::json!(0.1));
        first.lineage = Some(Digest::of(b"l"));
        first.extent = Some(10);
        assert_eq!(store.publish(&first).expect("writable"), Published::New);
        assert_eq!(store.record(&first.key).expect("readable"), Some(first.clone()));
        assert_eq!(store.record(&Digest::of(b"other")).expect("readable"), None);
        assert!(first.started.ends_with('Z') && first.host.cores > 0, "{first:?}");
    }

    #[test]
    fn the_first_result_of_a_key_stays() {
        let (_dir, store) = store();
        let first = record(&store, "a", b"1");
        let second = record(&store, "a", b"2");
        store.publish(&first).expect("writable");
        assert_eq!(store.publish(&first).expect("writable"), Published::Same);
        let differs = store.publish(&second).expect("writable");
        assert_eq!(differs, Published::Differs { alt: 1, first: first.outputs.clone(), names: vec!["metrics".to_owned()] });
        assert_eq!(store.publish(&second).expect("writable"), differs, "an alternative is kept once");
        assert_eq!(differs.strict().expect_err("differs").kind, FaultKind::NonDeterminism);
        assert_eq!(store.record(&first.key).expect("readable"), Some(first.clone()));
        assert_eq!(store.lookup(&first.key), Some(first.outputs));
    }

    #[test]
    fn a_record_is_not_published_over_a_missing_object() {
        let (_dir, store) = store();
        let first = record(&store, "a", b"1");
        std::fs::remove_file(store.layout().object(&first.outputs["metrics"].digest)).expect("removable");
        assert!(store.publish(&first).expect_err("a hole").what.contains("`metrics`"));
        assert_eq!(store.record(&first.key).expect("readable"), None);
    }

    #[test]
    fn every_damage_of_a_record_is_a_miss_and_is_repaired() {
        let (_dir, store) = store();
        let first = record(&store, "a", b"1");
        store.publish(&first).expect("writable");
        let path = store.layout().record(&first.key);
        let good = std::fs::read(&path).expect("readable");
        let mut warned = 0;
        for at in [0, good.len() / 2, good.len() - 70, good.len() - 2] {
            for damage in [good[..at].to_vec(), {
                let mut bytes = good.clone();
                bytes[at] ^= 1;
                bytes
            }] {
                std::fs::remove_file(&path).expect("removable");
                std::fs::write(&path, &damage).expect("writable");
                assert_eq!(store.record(&first.key).expect("readable"), None);
                assert_eq!(store.lookup(&first.key), None);
                warned += store.take_warnings().len();
                assert_eq!(store.publish(&first).expect("writable"), Published::New);
                assert_eq!(store.lookup(&first.key), Some(first.outputs.clone()));
            }
        }
        // The same line is said once.
        assert!(warned > 0);
    }

    #[test]
    fn a_record_whose_objects_are_gone_gives_way() {
        let (_dir, store) = store();
        let first = record(&store, "a", b"1");
        store.publish(&first).expect("writable");
        std::fs::remove_file(store.layout().object(&first.outputs["metrics"].digest)).expect("removable");
        assert_eq!(store.lookup(&first.key), None);
        let second = record(&store, "a", b"2");
        assert_eq!(store.publish(&second).expect("writable"), Published::New);
        assert_eq!(store.lookup(&second.key), Some(second.outputs));
    }
}
