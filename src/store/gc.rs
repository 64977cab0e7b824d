//! Garbage collection: what a store may forget, and in which order.
//!
//! Kept in any case: the results of the last runs of each pipeline, of runs that go on, of pinned and leased keys, and the
//! checkpoints of unfinished stages. Objects that nothing names go when they are old enough; results that nothing keeps go, least
//! recently used first, only while the store is above its size limit. A record goes before its objects, so that a crash in
//! between leaves no record over a hole.

use super::files::Stat;
use super::{RunStatus, Store, index, older};
use crate::base::{Digest, ObjectRef, Outcome};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What to keep.
#[derive(Clone, Debug)]
pub struct GcPolicy {
    /// The size that the objects may take, in bytes; 20 GiB by default.
    pub max_bytes: u64,
    /// How many of the last runs of each pipeline keep their results; 3 by default.
    pub keep_runs: usize,
    /// Objects younger than this stay, for a running stage may be about to refer to them; 1 hour by default.
    pub min_age: Duration,
    /// Only say what would go.
    pub dry_run: bool,
}

impl Default for GcPolicy {
    fn default() -> Self {
        Self { max_bytes: 20 << 30, keep_runs: 3, min_age: Duration::from_secs(3600), dry_run: false }
    }
}

/// What went, or would go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// Labels of the results that went, least recently used first.
    pub results: Vec<String>,
    /// The number of objects that went.
    pub objects: usize,
    /// Leftovers of other kinds that went: checkpoints of finished stages, old logs, old quarantined files.
    pub leftovers: usize,
    /// Bytes of objects that went.
    pub freed: u64,
    /// Bytes of objects before.
    pub before: u64,
    /// Bytes of objects after.
    pub after: u64,
    /// The number of results that nothing may remove.
    pub kept: usize,
}

impl Store {
    /// Collects garbage. Runs may go on at the same time; a result that they lose to it is a miss, never damage.
    ///
    /// # Errors
    /// A storage fault when something cannot be removed.
    pub fn gc(&self, policy: &GcPolicy) -> Outcome<GcReport> {
        let mut report = GcReport::default();
        let objects = self.objects();
        report.before = objects.values().map(|stat| stat.size).sum();
        let records = index::scan(self.files(), self.layout());
        let used = self.last_use(policy.keep_runs);
        let by_key: HashMap<Digest, usize> = records.iter().enumerate().map(|(i, (record, _))| (record.key, i)).collect();

        let mut kept: HashSet<Digest> = used.protected.iter().filter(|key| by_key.contains_key(*key)).copied().collect();
        kept.extend(self.pins().into_keys());
        kept.extend(self.leased_keys());

        // What each record keeps alive, trees followed.
        let mut trees: HashMap<Digest, Vec<ObjectRef>> = HashMap::new();
        let mut references: HashMap<Digest, usize> = HashMap::new();
        let reach: Vec<Vec<ObjectRef>> =
            records.iter().map(|(record, _)| self.reach(record.outputs.values().copied(), &objects, &mut trees)).collect();
        for object in reach.iter().flatten() {
            *references.entry(object.digest).or_default() += 1;
        }
        let (checkpoints, finished) = self.checkpoints_split(&by_key);
        for object in self.reach(checkpoints.into_iter(), &objects, &mut trees) {
            *references.entry(object.digest).or_default() += 1;
        }
        for object in self.alternatives_reach(&objects, &mut trees) {
            *references.entry(object.digest).or_default() += 1;
        }

        let removable = |digest: &Digest, stat: &Stat, references: &HashMap<Digest, usize>| {
            references.get(digest).is_none_or(|n| *n == 0) && age(stat) >= policy.min_age
        };
        let mut after: u64 = objects.iter().filter(|(digest, stat)| !removable(digest, stat, &references)).map(|(_, stat)| stat.size).sum();

        let mut candidates: Vec<usize> = (0..records.len()).filter(|i| !kept.contains(&records[*i].0.key)).collect();
        report.kept = records.len() - candidates.len();
        let last = |i: &usize| used.last.get(&records[*i].0.key).unwrap_or(&records[*i].0.started);
        candidates.sort_by(|a, b| last(a).cmp(last(b)).then_with(|| records[*a].0.key.cmp(&records[*b].0.key)));
        // A run may have found some of them while this was being worked out.
        let live = self.live_keys();
        for i in candidates {
            if after <= policy.max_bytes {
                break;
            }
            let record = &records[i].0;
            let alone: Vec<&Stat> = reach[i]
                .iter()
                .filter(|object| references.get(&object.digest).is_none_or(|n| *n <= 1))
                .filter_map(|object| objects.get(&object.digest))
                .collect();
            // A result of the last hour frees nothing yet: its objects are too young to go.
            if live.contains(&record.key) || alone.iter().any(|stat| age(stat) < policy.min_age) {
                continue;
            }
            after -= alone.iter().map(|stat| stat.size).sum::<u64>();
            report.results.push(record.label.clone());
            for object in &reach[i] {
                let count = references.entry(object.digest).or_default();
                *count = count.saturating_sub(1);
            }
            if !policy.dry_run {
                self.0.index.forget(&record.key);
                self.remove(&self.layout().record(&record.key))?;
            }
        }

        for (digest, stat) in &objects {
            if !removable(digest, stat, &references) {
                continue;
            }
            let path = self.layout().object(digest);
            if !policy.dry_run {
                // A stage may have stored an equal object, and so touched this one, since the listing.
                if self.files().stat(&path).is_ok_and(|now| age(&now) < policy.min_age) {
                    continue;
                }
                self.remove(&path)?;
            }
            report.objects += 1;
            report.freed += stat.size;
        }
        report.after = report.before - report.freed;
        for path in finished.into_iter().chain(self.old_leftovers(&by_key)) {
            report.leftovers += 1;
            if !policy.dry_run {
                self.remove(&path)?;
            }
        }
        if !policy.dry_run {
            self.0.index.flush();
        }
        Ok(report)
    }

    /// All objects in the store.
    pub(super) fn objects(&self) -> BTreeMap<Digest, Stat> {
        let folder = self.layout().folder("cas");
        let mut objects = BTreeMap::new();
        for shard in self.files().list(&folder).unwrap_or_default() {
            let folder = folder.join(&shard);
            for name in self.files().list(&folder).unwrap_or_default() {
                if let Ok(digest) = format!("{shard}{name}").parse::<Digest>()
                    && let Ok(stat) = self.files().stat(&folder.join(&name))
                {
                    objects.insert(digest, stat);
                }
            }
        }
        objects
    }

    /// The objects and all that trees among them name, each once.
    pub(super) fn reach(
        &self,
        roots: impl Iterator<Item = ObjectRef>,
        there: &BTreeMap<Digest, Stat>,
        trees: &mut HashMap<Digest, Vec<ObjectRef>>,
    ) -> Vec<ObjectRef> {
        let mut seen = BTreeSet::new();
        let mut stack: Vec<ObjectRef> = roots.collect();
        while let Some(object) = stack.pop() {
            if !there.contains_key(&object.digest) || !seen.insert(object) {
                continue;
            }
            let entries = trees
                .entry(object.digest)
                .or_insert_with(|| self.tree_if_any(&object).map(|t| t.into_values().collect()).unwrap_or_default());
            stack.extend(entries.iter().copied());
        }
        seen.into_iter().collect()
    }

    fn last_use(&self, keep_runs: usize) -> LastUse {
        let mut found = LastUse::default();
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        for run in self.runs() {
            let nth = counted.entry(run.pipeline.clone()).or_default();
            *nth += 1;
            let protects = *nth <= keep_runs || run.status == RunStatus::Running;
            for key in self.run_keys(&run.id) {
                if protects {
                    found.protected.insert(key);
                }
                // Newest first: the first mention is the last use.
                found.last.entry(key).or_insert_with(|| run.started.clone());
            }
        }
        found
    }

    /// The keys that runs in progress have used so far.
    fn live_keys(&self) -> HashSet<Digest> {
        let runs = self.runs();
        runs.iter().filter(|run| run.status == RunStatus::Running).flat_map(|run| self.run_keys(&run.id)).collect()
    }

    /// Whether a stage runs on this store now, here or elsewhere.
    #[must_use]
    pub fn busy(&self) -> bool {
        !self.leased_keys().is_empty()
    }

    fn leased_keys(&self) -> Vec<Digest> {
        let folder = self.layout().folder("lease");
        let names = self.files().list(&folder).unwrap_or_default();
        names.iter().filter(|name| self.is_locked(folder.join(name))).filter_map(|name| name.parse().ok()).collect()
    }

    /// The objects of checkpoints of unfinished stages, and the files of the others.
    fn checkpoints_split(&self, finished: &HashMap<Digest, usize>) -> (Vec<ObjectRef>, Vec<PathBuf>) {
        let (mut objects, mut done) = (Vec::new(), Vec::new());
        let folder = self.layout().folder("ckpt");
        for name in self.files().list(&folder).unwrap_or_default() {
            let path = folder.join(&name);
            match self.find_checkpoint(&path) {
                Ok(Some((head, _))) if finished.contains_key(&head.key) && !self.leased(&head.key) => done.push(path),
                Ok(Some((head, _))) => objects.extend(head.objects),
                Ok(None) => {}
                Err(_) => done.push(path),
            }
        }
        (objects, done)
    }

    fn alternatives_reach(&self, there: &BTreeMap<Digest, Stat>, trees: &mut HashMap<Digest, Vec<ObjectRef>>) -> Vec<ObjectRef> {
        let folder = self.layout().folder("rec");
        let mut found = Vec::new();
        for shard in self.files().list(&folder).unwrap_or_default() {
            let folder = folder.join(shard);
            for name in self.files().list(&folder).unwrap_or_default() {
                if name.contains(".alt-")
                    && let super::record::Found::Whole(record, _) = self.find_record(&folder.join(name), None)
                {
                    found.extend(self.reach(record.outputs.values().copied(), there, trees));
                }
            }
        }
        found
    }

    /// Logs of keys without a result, and quarantined files, after 30 days.
    fn old_leftovers(&self, finished: &HashMap<Digest, usize>) -> Vec<PathBuf> {
        const DAYS_30: u64 = 30 * 24 * 3600;
        let mut old = Vec::new();
        for name in ["log", "quarantine"] {
            let folder = self.layout().folder(name);
            for name in self.files().list(&folder).unwrap_or_default() {
                let key = name.get(..64).and_then(|hex| hex.parse::<Digest>().ok());
                if key.is_some_and(|key| finished.contains_key(&key)) {
                    continue;
                }
                let path = folder.join(name);
                if self.files().stat(&path).is_ok_and(|stat| older(stat.modified, DAYS_30)) {
                    old.push(path);
                }
            }
        }
        old
    }
}

#[derive(Default)]
struct LastUse {
    protected: HashSet<Digest>,
    last: HashMap<Digest, String>,
}

fn age(stat: &Stat) -> Duration {
    SystemTime::now().duration_since(stat.modified).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::{Record, RunStart};
    use super::*;

    fn publish(store: &Store, n: u32) -> Record {
        let object = store.put(&vec![n as u8; 1000]).expect("writable");
        let leaf = store.put(format!("leaf {n}").as_bytes()).expect("writable");
        let tree = store.put_tree(&BTreeMap::from([("leaf".to_owned(), leaf)])).expect("writable");
        let outputs = BTreeMap::from([("model".to_owned(), object), ("checkpoint".to_owned(), tree)]);
        let mut record = Record::new(Digest::of(&n.to_be_bytes()), "train", "run", outputs);
        record.label = format!("run[{n}]");
        record.started = format!("2026-01-01T00:00:{n:02}.000Z");
        store.publish(&record).expect("writable");
        record
    }

    fn policy(max_bytes: u64) -> GcPolicy {
        GcPolicy { max_bytes, keep_runs: 1, min_age: Duration::ZERO, dry_run: false }
    }

    #[test]
    fn garbage_goes_and_what_a_result_needs_stays() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let record = publish(&store, 1);
        let waste = store.put(b"nobody's").expect("writable");
        let young = GcPolicy { min_age: Duration::from_secs(3600), ..policy(u64::MAX) };
        assert_eq!(store.gc(&young).expect("possible").objects, 0, "young objects stay");
        let dry = store.gc(&GcPolicy { dry_run: true, ..policy(u64::MAX) }).expect("possible");
        assert!(store.has(&waste));
        let report = store.gc(&policy(u64::MAX)).expect("possible");
        assert_eq!((report.objects, report.freed, report.results.len()), (1, 8, 0));
        assert_eq!(report, dry);
        assert!(!store.has(&waste) && store.lookup(&record.key).is_some());
        let tree = store.tree(&record.outputs["checkpoint"]).expect("a tree");
        assert!(store.has(&tree["leaf"]), "what a tree names stays");
    }

    #[test]
    fn above_the_limit_the_least_recently_used_goes_and_kept_results_stay() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let records: Vec<Record> = (1..=5).map(|n| publish(&store, n)).collect();
        let run = store.begin_run(&RunStart { pipeline: "p".to_owned(), ..RunStart::default() }).expect("writable");
        run.event(&serde_json::json!({"event": "cached", "key": records[0].key}));
        run.finish(RunStatus::Done, BTreeMap::new()).expect("writable");
        store.pin(&records[1].key, "paper").expect("writable");
        let lease = store.try_lease(&records[2].key).expect("lockable");
        let dry = store.gc(&GcPolicy { dry_run: true, ..policy(0) }).expect("possible");
        let report = store.gc(&policy(0)).expect("possible");
        assert_eq!(report, dry, "a dry run says the truth");
        assert_eq!(report.results, ["run[4]", "run[5]"]);
        assert_eq!(report.kept, 3);
        drop(lease);
        let there: Vec<bool> = records.iter().map(|r| store.lookup(&r.key).is_some()).collect();
        assert_eq!(there, [true, true, true, false, false]);
        assert_eq!(store.objects().values().map(|s| s.size).sum::<u64>(), report.after);
    }

    #[test]
    fn young_results_stay_even_above_the_limit() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let record = publish(&store, 1);
        let report = store.gc(&GcPolicy { min_age: Duration::from_secs(3600), ..policy(0) }).expect("possible");
        assert_eq!((report.results.len(), report.freed), (0, 0));
        assert!(store.lookup(&record.key).is_some());
    }

    #[test]
    fn a_checkpoint_keeps_its_objects_until_its_stage_is_finished() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = Store::open(dir.path()).expect("a store");
        let key = Digest::of(&1_u32.to_be_bytes());
        let object = store.put(b"client 0").expect("writable");
        store.save_checkpoint(&key, b"{}", &[object]).expect("writable");
        store.gc(&policy(u64::MAX)).expect("possible");
        assert!(store.load_checkpoint(&key).is_some());
        publish(&store, 1);
        assert_eq!(store.gc(&policy(u64::MAX)).expect("possible").leftovers, 1);
        assert!(store.load_checkpoint(&key).is_none());
    }
}
