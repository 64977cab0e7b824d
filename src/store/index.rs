//! The index: what the records say, in one SQLite file, so that ten thousand lookups cost one query.
//!
//! Records are the truth; the index may be deleted, damaged or out of date at any time. It is opened only when it pays, filled in
//! batches, rebuilt from the records when it is new or damaged, and kept in memory where SQLite cannot lock files.

use super::files::Files;
use super::held;
use super::layout::Layout;
use super::record::{Found, Record, find};
use crate::base::{Digest, Fault, ObjectRef, Outcome};
use rayon::prelude::*;
use rusqlite::{Connection, ErrorCode, params};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SCHEMA_VERSION: i64 = 2;
/// So many lookups are answered from the records themselves before all rows are loaded at once.
const FEW: usize = 64;
const BATCH: usize = 256;
const BATCH_AGE: Duration = Duration::from_millis(500);

/// Lines for people, collected by whoever asks next.
pub(super) type Warnings = Arc<Mutex<Vec<String>>>;

pub(super) struct Index {
    path: PathBuf,
    layout: Layout,
    files: Arc<dyn Files>,
    warnings: Warnings,
    durable: bool,
    state: Mutex<State>,
}

struct State {
    database: Database,
    rows: HashMap<Digest, Row>,
    /// Whether `rows` holds the whole index.
    loaded: bool,
    lookups: usize,
    added: Vec<Digest>,
    forgotten: Vec<Digest>,
    details: HashMap<Digest, Details>,
    since: Option<Instant>,
}

enum Database {
    Unopened,
    Open(Connection),
    /// There is none, by choice or because even memory failed.
    Absent,
}

/// What a hit check needs, compact: a store may have hundreds of thousands.
#[derive(Clone)]
struct Row {
    size: u64,
    outputs: Box<[u8]>,
}

/// What else goes into the file.
struct Details {
    kind: String,
    stage: String,
    started: String,
    /// The coordinates as JSON, keys in order.
    coords: String,
    lineage: Option<Digest>,
    extent: Option<i64>,
}

impl Index {
    pub(super) fn new(layout: &Layout, files: &Arc<dyn Files>, warnings: &Warnings, durable: bool, wanted: bool) -> Self {
        let database = if wanted { Database::Unopened } else { Database::Absent };
        Self {
            path: layout.index(),
            layout: layout.clone(),
            files: Arc::clone(files),
            warnings: Arc::clone(warnings),
            durable,
            state: Mutex::new(State {
                database,
                rows: HashMap::new(),
                loaded: false,
                lookups: 0,
                added: Vec::new(),
                forgotten: Vec::new(),
                details: HashMap::new(),
                since: None,
            }),
        }
    }

    /// The size of the key's record and its outputs, when the index knows them.
    pub(super) fn row(&self, key: &Digest) -> Option<(u64, BTreeMap<String, ObjectRef>)> {
        let mut state = held(&self.state);
        state.lookups += 1;
        if !state.loaded && state.lookups > FEW && !matches!(state.database, Database::Absent) {
            self.load(&mut state);
        }
        let row = state.rows.get(key)?;
        Some((row.size, unpack(&row.outputs)?))
    }

    /// Notes a record; it reaches the file with the next batch.
    pub(super) fn remember(&self, record: &Record, size: u64) {
        let mut state = held(&self.state);
        let row = Row { size, outputs: pack(&record.outputs) };
        if state.rows.get(&record.key).is_some_and(|old| old.size == row.size && old.outputs == row.outputs) {
            return;
        }
        state.rows.insert(record.key, row);
        if matches!(state.database, Database::Absent) {
            return;
        }
        state.details.insert(record.key, Details::of(record));
        state.added.push(record.key);
        self.flush_if_due(&mut state);
    }

    /// Notes that a key's record is gone.
    pub(super) fn forget(&self, key: &Digest) {
        let mut state = held(&self.state);
        state.rows.remove(key);
        state.details.remove(key);
        if !matches!(state.database, Database::Absent) {
            state.forgotten.push(*key);
            self.flush_if_due(&mut state);
        }
    }

    /// Writes what is not in the file yet. A failure costs nothing but time later, so it is a warning.
    pub(super) fn flush(&self) {
        self.flush_state(&mut held(&self.state));
    }

    /// The keys of a stage's records, newest first.
    pub(super) fn of_stage(&self, stage: &str, kind: &str, limit: usize) -> Vec<Digest> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query("SELECT key FROM record WHERE stage = ?1 AND kind = ?2 ORDER BY started DESC LIMIT ?3", params![stage, kind, limit])
            .unwrap_or_else(|| self.newest(|r| r.stage == stage && r.kind == kind))
    }

    /// The keys of a stage's records with these coordinates, newest first.
    pub(super) fn at(&self, stage: &str, kind: &str, coords: &BTreeMap<String, Value>, limit: usize) -> Vec<Digest> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.query(
            "SELECT key FROM record WHERE stage = ?1 AND kind = ?2 AND coords = ?3 ORDER BY started DESC LIMIT ?4",
            params![stage, kind, written(coords), limit],
        )
        .unwrap_or_else(|| self.newest(|r| r.stage == stage && r.kind == kind && r.coords == *coords))
    }

    /// The keys of such records in the store, newest first, where there is no index to ask.
    fn newest(&self, fits: impl Fn(&Record) -> bool) -> Vec<Digest> {
        let mut found: Vec<Record> = self.scan().into_iter().map(|(r, _)| r).filter(fits).collect();
        found.sort_by(|a, b| b.started.cmp(&a.started));
        found.iter().map(|r| r.key).collect()
    }

    /// The keys of a lineage with an extent below `extent`, largest first.
    pub(super) fn below(&self, lineage: &Digest, extent: u64) -> Vec<Digest> {
        let bound = i64::try_from(extent).unwrap_or(i64::MAX);
        self.query(
            "SELECT key FROM record WHERE lineage = ?1 AND extent < ?2 ORDER BY extent DESC LIMIT 16",
            params![lineage.0.as_slice(), bound],
        )
        .unwrap_or_else(|| {
            let fits = |r: &Record| r.lineage == Some(*lineage) && r.extent.is_some_and(|e| e < extent);
            let mut found: Vec<Record> = self.scan().into_iter().map(|(r, _)| r).filter(fits).collect();
            found.sort_by_key(|r| std::cmp::Reverse(r.extent));
            found.iter().map(|r| r.key).collect()
        })
    }

    /// Writes the file anew from the records; the number of rows.
    ///
    /// # Errors
    /// A storage fault when the database cannot be written.
    pub(super) fn rebuild(&self) -> Outcome<usize> {
        let mut state = held(&self.state);
        state.added.clear();
        state.forgotten.clear();
        state.details.clear();
        state.rows.clear();
        state.loaded = false;
        if matches!(state.database, Database::Absent) {
            return Ok(self.scan().len());
        }
        self.open(&mut state);
        let Database::Open(connection) = &mut state.database else {
            return Err(Fault::storage(format!("`{}` cannot be written", self.path.display())));
        };
        self.fill(connection).map_err(|e| Fault::storage(format!("cannot rebuild `{}`: {e}", self.path.display())))
    }

    fn warn(&self, line: String) {
        tracing::warn!("{line}");
        held(&self.warnings).push(line);
    }

    fn flush_if_due(&self, state: &mut State) {
        let since = *state.since.get_or_insert_with(Instant::now);
        if state.added.len() + state.forgotten.len() >= BATCH || since.elapsed() >= BATCH_AGE {
            self.flush_state(state);
        }
    }

    fn flush_state(&self, state: &mut State) {
        if state.added.is_empty() && state.forgotten.is_empty() {
            return;
        }
        self.open(state);
        let added = std::mem::take(&mut state.added);
        let forgotten = std::mem::take(&mut state.forgotten);
        let details = std::mem::take(&mut state.details);
        state.since = None;
        let Database::Open(connection) = &mut state.database else { return };
        let rows = &state.rows;
        let result = in_transaction(connection, |connection| {
            for key in &forgotten {
                connection.prepare_cached("DELETE FROM record WHERE key = ?1")?.execute([key.0.as_slice()])?;
            }
            for key in &added {
                if let (Some(row), Some(details)) = (rows.get(key), details.get(key)) {
                    insert(connection, key, row, details)?;
                }
            }
            Ok(())
        });
        if let Err(error) = result {
            self.warn(format!("`{}` could not be written ({error}); records are not affected", self.path.display()));
        }
    }

    /// Loads every row. What this process noted itself is newer than the file and stays.
    fn load(&self, state: &mut State) {
        self.flush_state(state);
        self.open(state);
        state.loaded = true;
        let Database::Open(connection) = &mut state.database else { return };
        let rows = &mut state.rows;
        let result = (|| -> rusqlite::Result<()> {
            let mut statement = connection.prepare("SELECT key, size, outputs FROM record")?;
            let mut found = statement.query([])?;
            while let Some(row) = found.next()? {
                let (key, size, outputs) = (row.get_ref(0)?.as_blob()?, row.get::<_, i64>(1)?, row.get_ref(2)?.as_blob()?);
                if let (Ok(key), Ok(size)) = (<[u8; 32]>::try_from(key), u64::try_from(size)) {
                    rows.entry(Digest(key)).or_insert_with(|| Row { size, outputs: outputs.into() });
                }
            }
            Ok(())
        })();
        if let Err(error) = result {
            self.warn(format!("`{}` could not be read ({error}); it is made anew", self.path.display()));
            state.database = Database::Unopened;
            self.set_aside();
            self.open(state);
        }
    }

    fn query(&self, sql: &str, arguments: impl rusqlite::Params) -> Option<Vec<Digest>> {
        let mut state = held(&self.state);
        self.flush_state(&mut state);
        self.open(&mut state);
        let Database::Open(connection) = &mut state.database else { return None };
        let result = (|| -> rusqlite::Result<Vec<Digest>> {
            let mut statement = connection.prepare_cached(sql)?;
            let keys = statement.query_map(arguments, |row| row.get::<_, [u8; 32]>(0))?;
            keys.map(|key| key.map(Digest)).collect()
        })();
        match result {
            Ok(keys) => Some(keys),
            Err(error) => {
                self.warn(format!("`{}` could not be read: {error}", self.path.display()));
                None
            }
        }
    }

    fn open(&self, state: &mut State) {
        if !matches!(state.database, Database::Unopened) {
            return;
        }
        state.database = match self.connect() {
            Ok(connection) => Database::Open(connection),
            Err(reason) => {
                self.warn(format!("the index `{}` cannot be used ({reason}); one in memory takes its place", self.path.display()));
                match Connection::open_in_memory().and_then(|mut c| create_tables(&mut c).and_then(|()| self.fill(&mut c)).map(|_| c)) {
                    Ok(connection) => Database::Open(connection),
                    Err(_) => Database::Absent,
                }
            }
        };
    }

    fn connect(&self) -> Result<Connection, String> {
        if let Some(system) = network_file_system(self.layout.root()) {
            return Err(format!("`{system}` is a network file system"));
        }
        if std::fs::metadata(&self.path).is_ok_and(|meta| !meta.is_file()) {
            return Err("it is not a regular file".to_owned());
        }
        match self.try_connect() {
            Ok(connection) => Ok(connection),
            Err(error) if matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)) => {
                self.warn(format!("the index `{}` was damaged ({error}) and is made anew", self.path.display()));
                self.set_aside();
                self.try_connect().map_err(|e| e.to_string())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn try_connect(&self) -> rusqlite::Result<Connection> {
        let mut connection = Connection::open(&self.path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", if self.durable { "NORMAL" } else { "OFF" })?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version == 0 {
            create_tables(&mut connection)?;
        } else if version < SCHEMA_VERSION {
            // An older version's rows are made anew from the records.
            connection.execute_batch("DROP TABLE IF EXISTS record; DELETE FROM meta;")?;
            create_tables(&mut connection)?;
        } else if version > SCHEMA_VERSION {
            return Err(rusqlite::Error::InvalidQuery);
        }
        let built: i64 = connection.query_row("SELECT count(*) FROM meta WHERE name = 'built'", [], |row| row.get(0))?;
        if built == 0 {
            self.fill(&mut connection)?;
        }
        Ok(connection)
    }

    fn set_aside(&self) {
        for suffix in ["", "-wal", "-shm"] {
            let mut name = self.path.clone().into_os_string();
            name.push(suffix);
            let _ = self.files.remove(Path::new(&name));
        }
    }

    fn fill(&self, connection: &mut Connection) -> rusqlite::Result<usize> {
        let records = self.scan();
        in_transaction(connection, |connection| {
            connection.execute("DELETE FROM record", [])?;
            for (record, size) in &records {
                insert(connection, &record.key, &Row { size: *size, outputs: pack(&record.outputs) }, &Details::of(record))?;
            }
            connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('built', '1')", [])?;
            Ok(())
        })?;
        Ok(records.len())
    }

    fn scan(&self) -> Vec<(Record, u64)> {
        scan(&*self.files, &self.layout)
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Details {
    fn of(record: &Record) -> Self {
        Self {
            kind: record.kind.clone(),
            stage: record.stage.clone(),
            started: record.started.clone(),
            coords: written(&record.coords),
            lineage: record.lineage,
            extent: record.extent.map(|e| i64::try_from(e).unwrap_or(i64::MAX)),
        }
    }
}

/// Every whole record in the store with the size of its file, in the order of their keys; damaged ones are left out.
pub(super) fn scan(files: &dyn Files, layout: &Layout) -> Vec<(Record, u64)> {
    let folder = layout.folder("rec");
    let shards = files.list(&folder).unwrap_or_default();
    shards
        .par_iter()
        .flat_map_iter(|shard| {
            let folder = folder.join(shard);
            let names = files.list(&folder).unwrap_or_default();
            names.into_iter().filter(|name| name.len() == 62 + ".json".len()).map(move |name| folder.join(name))
        })
        .filter_map(|path| match find(files, &path, None) {
            Found::Whole(record, size) if layout.record(&record.key) == path => Some((*record, size)),
            _ => None,
        })
        .collect()
}

fn create_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    in_transaction(connection, |connection| {
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS record (
                 key BLOB PRIMARY KEY, size INTEGER NOT NULL, outputs BLOB NOT NULL, kind TEXT NOT NULL, stage TEXT NOT NULL,
                 started TEXT NOT NULL, coords TEXT NOT NULL, lineage BLOB, extent INTEGER) WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS record_stage ON record (stage, kind, started);
             CREATE INDEX IF NOT EXISTS record_lineage ON record (lineage, extent) WHERE lineage IS NOT NULL;",
        )?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)
    })
}

fn in_transaction(connection: &mut Connection, work: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    work(&transaction)?;
    transaction.commit()
}

/// Coordinates as the index compares them.
fn written(coords: &BTreeMap<String, Value>) -> String {
    serde_json::to_string(coords).unwrap_or_default()
}

fn insert(connection: &Connection, key: &Digest, row: &Row, details: &Details) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO record (key, size, outputs, kind, stage, started, coords, lineage, extent)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            key.0.as_slice(),
            i64::try_from(row.size).unwrap_or(i64::MAX),
            &*row.outputs,
            details.kind,
            details.stage,
            details.started,
            details.coords,
            details.lineage.as_ref().map(|d| d.0.as_slice()),
            details.extent,
        ])?;
    Ok(())
}

/// For each output: length of the name (one byte), name, digest, size.
fn pack(outputs: &BTreeMap<String, ObjectRef>) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(outputs.len() * 56);
    for (name, object) in outputs {
        // Names are words of the catalog; one of 256 bytes or more makes the row unreadable, and the record is read instead.
        let Ok(length) = u8::try_from(name.len()) else { return Box::new([0xff]) };
        bytes.push(length);
        bytes.extend(name.as_bytes());
        bytes.extend(object.digest.0);
        bytes.extend(object.size.to_le_bytes());
    }
    bytes.into()
}

fn unpack(mut bytes: &[u8]) -> Option<BTreeMap<String, ObjectRef>> {
    let mut outputs = BTreeMap::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (digest, rest) = rest.split_first_chunk::<32>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        outputs.insert(std::str::from_utf8(name).ok()?.to_owned(), ObjectRef { digest: Digest(*digest), size: u64::from_le_bytes(*size) });
        bytes = rest;
    }
    Some(outputs)
}

/// The type of the file system under `path` when SQLite's locks cannot be trusted on it.
fn network_file_system(path: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        // "36 35 98:0 /root /mount/point options - type source options"
        let (before, after) = line.split_once(" - ")?;
        let (Some(point), Some(system)) = (before.split(' ').nth(4), after.split(' ').next()) else { continue };
        let point = point.replace("\\040", " ");
        if path.starts_with(&point) && best.is_none_or(|(length, _)| point.len() >= length) {
            best = Some((point.len(), system));
        }
    }
    let system = best?.1;
    let shared = ["nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "orangefs"];
    (shared.contains(&system) || system.starts_with("fuse.")).then(|| system.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;

    fn publish(store: &Store, n: u64) -> Record {
        let object = store.put(&n.to_le_bytes()).expect("writable");
        let mut record = Record::new(Digest::of(&n.to_be_bytes()), "train", "run", BTreeMap::from([("metrics".to_owned(), object)]));
        record.lineage = Some(Digest::of(b"lineage"));
        record.extent = Some(n);
        store.publish(&record).expect("writable");
        record
    }

    #[test]
    fn rows_survive_packing() {
        let outputs = BTreeMap::from([
            ("metrics".to_owned(), ObjectRef { digest: Digest::of(b"m"), size: 3 }),
            ("model".to_owned(), ObjectRef { digest: Digest::of(b"n"), size: u64::MAX }),
        ]);
        assert_eq!(unpack(&pack(&outputs)), Some(outputs.clone()));
        assert_eq!(unpack(&pack(&outputs)[1..]), None);
        assert_eq!(unpack(&pack(&BTreeMap::from([("x".repeat(300), outputs["model"])]))), None);
    }

    #[test]
    fn a_deleted_damaged_or_foreign_index_is_rebuilt() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let records: Vec<Record> = {
            let store = Store::open(dir.path()).expect("a store");
            (0..100).map(|n| publish(&store, n)).collect()
        };
        let path = dir.path().join("index.sqlite");
        assert!(path.is_file(), "dropping the store writes the rest");
        let damages: [&dyn Fn(); 4] = [
            &|| std::fs::remove_file(&path).expect("removable"),
            &|| std::fs::write(&path, b"not a database, not even nearly one, and long enough").expect("writable"),
            &|| {
                let good = std::fs::read(&path).expect("readable");
                std::fs::write(&path, &good[..good.len() / 2]).expect("writable");
            },
            &|| {
                std::fs::remove_file(&path).expect("removable");
                std::fs::create_dir(&path).expect("writable");
            },
        ];
        for damage in damages {
            damage();
            let store = Store::open(dir.path()).expect("a store");
            for record in &records {
                assert_eq!(store.lookup(&record.key).as_ref(), Some(&record.outputs));
            }
            assert_eq!(store.shorter(&Digest::of(b"lineage"), 50).map(|r| r.extent), Some(Some(49)));
            assert_eq!(store.nearest("run", "train").len(), 100);
        }
    }

    #[test]
    fn the_index_of_an_older_version_is_made_anew() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let record = publish(&store, 7);
        let (path, name) = (store.layout().index(), store.nearest("run", "train").len());
        drop(store);
        let old = Connection::open(&path).expect("a database");
        old.execute_batch("DROP TABLE record; CREATE TABLE record (key BLOB); PRAGMA user_version = 1;").expect("writable");
        drop(old);
        let store = Store::open(dir.path()).expect("a store");
        assert_eq!(store.nearest("run", "train").len(), name);
        assert_eq!(store.alike("run", "train", &record.coords, 9).len(), name);
        assert!(store.alike("run", "train", &BTreeMap::from([("seed".to_owned(), serde_json::json!(1))]), 9).is_empty());
        let again = Connection::open(&path).expect("a database");
        let version: i64 = again.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number");
        assert_eq!(version, SCHEMA_VERSION);
    }

    #[test]
    fn what_another_process_published_is_found() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let (one, two) = (Store::open(dir.path()).expect("a store"), Store::open(dir.path()).expect("a store"));
        for n in 0..200 {
            let _ = one.lookup(&Digest::of(&n.to_string().into_bytes()));
        }
        let record = publish(&two, 1);
        assert_eq!(one.lookup(&record.key), Some(record.outputs));
    }
}
