//! A training: the simulation of one algorithm on one partition and one model.

use super::task::{Host, Outputs, Report, Task};
use super::{dataset, input, model};
use crate::algorithms::Algorithms;
use crate::base::fault::Placed;
use crate::base::{Fault, ObjectRef, Outcome, memory};
use crate::data::partition::Partition;
use crate::engine::Compute;
use crate::fl::checkpoint::{self, Part, Parts, Snapshot, Stored};
use crate::fl::meter::Work;
use crate::fl::round::Monitor;
use crate::fl::{History, Seeded, Settings, Simulation, World};
use crate::{defences, privacy, secure, threats};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Outputs `metrics` (the history as JSON), `model` (the global model) and `checkpoint` (the state after the last round as a tree).
pub(super) fn run(task: &Task, host: &dyn Host, algorithms: &Algorithms) -> Outcome<Outputs> {
    let compute = Compute::of(&task.device)?;
    let store = host.store();
    let (mut world, algorithm, stored_model) = assemble(task, "", &task.params, host, algorithms)?;
    compute.check(world.network())?;
    world.compute = compute;

    let may_extend = !algorithm.horizon() && !world.interventions.iter().any(|intervention| intervention.horizon());
    let mut monitor = StageMonitor { task, host, saved: Instant::now(), tree: BTreeMap::new(), last: BTreeMap::new(), may_extend };
    for line in remarks(&world) {
        monitor.log(true, line);
    }
    let simulated = algorithm.simulate(&world, &mut monitor)?;
    let spent: Vec<String> = Work::ALL.iter().map(|work| format!("{} {:.2}", work.name(), world.meter.seconds(*work))).collect();
    monitor.log(false, format!("seconds spent: {}", spent.join(", ")));

    let metrics = serde_json::to_vec(&simulated.history).map_err(|e| Fault::internal(format!("the history has no JSON form: {e}")))?;
    let mut outputs = super::outputs(host, [("metrics", &metrics), ("model", &model::rewrite(&simulated.global, &stored_model)?)])?;
    outputs.insert("checkpoint".to_owned(), store.put_tree(&monitor.last)?);
    store.drop_checkpoint(&task.key);
    store.retire(&task.key, &monitor.tree.into_values().collect::<Vec<_>>());
    Ok(outputs)
}

/// What somebody should know before a training begins, though it is no mistake.
fn remarks(world: &World) -> Vec<String> {
    let mut remarks: Vec<String> = world.interventions.iter().flat_map(|intervention| intervention.remarks(world)).collect();
    let (size, all) = (world.settings.batch_size, world.clients());
    let few = (0..all).filter(|id| world.shard(*id).train.len() < size).count();
    if world.settings.drop_last && few > 0 {
        remarks.push(format!(
            "{few} of {all} clients have fewer training samples than a batch of {size}, which `drop_last: true` leaves out: they do not train"
        ));
    }
    remarks
}

/// The simulation that the parameters of a training describe, with its algorithm and the stored initial model. The inputs are the task's
/// slots with `prefix` before their names.
pub(super) fn assemble(
    task: &Task,
    prefix: &str,
    params: &Map<String, Value>,
    host: &dyn Host,
    algorithms: &Algorithms,
) -> Outcome<(World, Box<dyn Simulation>, Vec<u8>)> {
    let store = host.store();
    let slot = |name: &str, output: &str| input(task, &format!("{prefix}{name}"), output);
    let stored_model = store.read(&slot("model", "model")?)?;
    let initial = model::load(&stored_model).at(|| "model")?;
    let data = dataset::load(host, &store.tree(&slot("partition", "data")?)?).at(|| "data set")?;
    if (data.shape(), data.classes()) != (initial.net.input(), initial.net.classes()) {
        return Err(Fault::stage("the model was made for another data set than the partition")
            .help("give the model and the partition the same `data`"));
    }
    let partition = Partition::from_bytes(&store.read(&slot("partition", "clients")?)?).at(|| "partition")?;
    partition.fits(data.len(), data.classes())?;
    let Read { settings, algorithm: algorithm_params, threat, defence, privacy, secure } = read_params(params)?;
    let algorithm = algorithms.build(&algorithm_params)?;
    // A model and a copy of its parameters for each client that cannot rest, and what each thread trains with.
    let clients = partition.clients().len();
    let awake = if algorithm.rests() { settings.nominal_cohort(clients) } else { clients };
    let models = 2 * awake as u64 + 3 * host.budget().total() as u64;
    memory::demand(initial.params.len() as u64 * 4 * models, &format!("a simulation of {clients} clients"))?;
    let streams = Box::new(Seeded { sampling: settings.sampling_seed, batches: settings.batch_seed });
    let mut world = World::new(initial, Arc::new(data), partition.clients().to_vec(), settings, streams, host.budget().clone())?;
    let chosen =
        [threats::build(&threat, &world)?, privacy::build(&privacy, &world)?, defences::build(&defence)?, secure::build(&secure, &world)?];
    world = chosen.into_iter().flatten().fold(world, World::with);
    world.memory = Some(task.memory.unwrap_or_else(|| memory::total() / 4));
    Ok((world, algorithm, stored_model))
}

/// The stage's parameters, told apart.
struct Read {
    settings: Settings,
    algorithm: Map<String, Value>,
    threat: Map<String, Value>,
    defence: Map<String, Value>,
    privacy: Map<String, Value>,
    secure: Map<String, Value>,
}

fn read_params(params: &Map<String, Value>) -> Outcome<Read> {
    let mut params = params.clone();
    let mut map = |name: &str| match params.remove(name) {
        Some(Value::Object(map)) => Ok(map),
        // A task from before there was a choice.
        None if name != "algorithm" => Ok(Map::from_iter([("kind".to_owned(), "none".into())])),
        other => Err(Fault::internal(format!("the task's `{name}` is {other:?}"))),
    };
    let (algorithm, threat, defence) = (map("algorithm")?, map("threat")?, map("defence")?);
    let (privacy, secure) = (map("privacy")?, map("secure")?);
    for slot in ["partition", "model"] {
        params.remove(slot);
    }
    let seed = params.remove("seed").unwrap_or_else(|| 0.into());
    for name in ["batch_seed", "sampling_seed"] {
        params.entry(name).or_insert_with(|| seed.clone());
    }
    let settings = serde_json::from_value(Value::Object(params)).map_err(|e| Fault::internal(format!("the task's settings: {e}")))?;
    Ok(Read { settings, algorithm, threat, defence, privacy, secure })
}

/// How the parts of a checkpoint are read.
type ReadPart<'a> = dyn Fn(&ObjectRef) -> Outcome<Vec<u8>> + 'a;

/// A checkpoint in a store.
pub(super) struct Tree<'a> {
    round: u64,
    parts: BTreeMap<String, ObjectRef>,
    read: Box<ReadPart<'a>>,
}

impl<'a> Tree<'a> {
    /// A checkpoint whose every part can be read.
    pub(super) fn open(parts: BTreeMap<String, ObjectRef>, read: impl Fn(&ObjectRef) -> Outcome<Vec<u8>> + 'a) -> Outcome<Self> {
        let books = parts.get("books").ok_or_else(|| checkpoint::missing("books"))?;
        let round = checkpoint::rounds(&read(books)?)?;
        for part in parts.values() {
            read(part)?;
        }
        Ok(Self { round, parts, read: Box::new(read) })
    }
}

impl Stored for Tree<'_> {
    fn round(&self) -> u64 {
        self.round
    }
    fn part(&self, name: &str) -> Outcome<Cow<'_, [u8]>> {
        let object = self.parts.get(name).ok_or_else(|| checkpoint::missing(name))?;
        (self.read)(object).map(Cow::Owned)
    }
}

/// Parts that are written at a time. Each waits for the disk, which takes many about as fast as one.
const WRITERS: usize = 16;

/// Stores every part that is not `known`.
pub(super) fn put_all(
    parts: &mut dyn Parts,
    known: impl Fn(&Part<'_>) -> Option<ObjectRef>,
    put: impl Fn(&[u8]) -> Outcome<ObjectRef> + Sync,
) -> Outcome<BTreeMap<String, ObjectRef>> {
    let (sender, receiver) = mpsc::sync_channel::<(String, Vec<u8>)>(WRITERS);
    let (queue, failed) = (Mutex::new(receiver), Mutex::new(None::<Fault>));
    let stored = Mutex::new(BTreeMap::new());
    let (store, fail) = (|name, object| held(&stored).insert(name, object), |fault| held(&failed).get_or_insert(fault).clone());
    let write = || {
        loop {
            // The lock is held while waiting for a part, and not while writing it.
            let next = held(&queue).recv();
            let Ok((name, bytes)) = next else { break };
            match put(&bytes) {
                Ok(object) => drop(store(name, object)),
                Err(fault) => drop(fail(fault)),
            }
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            match std::thread::Builder::new().spawn_scoped(scope, write) {
                Err(error) if writer == 0 => return Err(Fault::no_thread(&error)),
                Err(_) => break,
                Ok(_) => {}
            }
        }
        let outcome = parts.each(&mut |part| {
            if let Some(fault) = held(&failed).clone() {
                return Err(fault);
            }
            match known(&part) {
                Some(object) => drop(store(part.name.to_owned(), object)),
                // Somebody receives until the sender is dropped.
                None => drop(sender.send((part.name.to_owned(), (part.bytes)()?))),
            }
            Ok(())
        });
        drop(sender);
        outcome
    })?;
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Err(fault),
        None => Ok(stored.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports progress, keeps checkpoints in the store, and finds the one to continue from.
struct StageMonitor<'a> {
    task: &'a Task,
    host: &'a dyn Host,
    saved: Instant,
    /// The parts of the checkpoint before the next.
    tree: BTreeMap<String, ObjectRef>,
    /// The parts of the state after the last round.
    last: BTreeMap<String, ObjectRef>,
    may_extend: bool,
}

impl<'a> StageMonitor<'a> {
    fn log(&self, warning: bool, line: String) {
        self.host.report(Report::Log { warning, line });
    }
    /// The checkpoint of this very stage, if one was left behind.
    fn own(&self) -> Option<Outcome<Tree<'a>>> {
        let (store, key) = (self.host.store(), &self.task.key);
        let manifest = store.load_checkpoint(key)?;
        let tree = serde_json::from_slice(&manifest).map_err(|e| Fault::storage(format!("the checkpoint's manifest is damaged: {e}")));
        Some(tree.and_then(|tree| Tree::open(tree, |part| store.read_part(key, part))))
    }
    /// The last state of a run with fewer rounds, if this one may continue it.
    fn shorter(&self) -> Option<Outcome<Tree<'a>>> {
        let object = self.task.shorter.as_ref().filter(|_| self.may_extend)?.get("checkpoint")?;
        let store = self.host.store();
        Some(store.tree(object).and_then(|tree| Tree::open(tree, |part| store.read(part))))
    }
}

impl Monitor for StageMonitor<'_> {
    fn stored(&mut self) -> Outcome<Option<Box<dyn Stored + '_>>> {
        // A checkpoint that cannot be read costs time, never the result: the stage starts from an older one or from its beginning.
        for own in [true, false] {
            match if own { self.own() } else { self.shorter() } {
                Some(Ok(tree)) => {
                    self.log(false, format!("continues after round {}", tree.round));
                    if own {
                        self.tree = tree.parts.clone();
                    }
                    return Ok(Some(Box::new(tree)));
                }
                Some(Err(fault)) => self.log(true, format!("{fault}; it is not used")),
                None => {}
            }
        }
        Ok(None)
    }
    fn shelf(&mut self) -> Outcome<Option<File>> {
        self.host.store().scratch().map(Some)
    }
    fn progress(&mut self, done: u64, total: u64, history: &History) {
        let mut values = BTreeMap::new();
        for metric in ["test_accuracy", "train_loss"] {
            if let Some((_, value)) = history.series(metric).last() {
                values.insert(metric.to_owned(), *value);
            }
        }
        if history.evaluations.last().is_some_and(|last| last.round == done) || done == total {
            let shown: String = values.iter().map(|(name, value)| format!(", {name} {value:.4}")).collect();
            self.log(false, format!("round {done} of {total}{shown}"));
        }
        self.host.report(Report::Progress { done, total, values });
    }
    fn checkpoint_due(&mut self) -> bool {
        self.saved.elapsed() >= Duration::from_secs_f64(self.task.checkpoint_seconds.clamp(0.0, 1e9))
    }
    fn keep(&mut self, parts: &mut dyn Parts) -> Outcome<()> {
        let (store, key) = (self.host.store(), &self.task.key);
        let known = &self.tree;
        let unchanged = |part: &Part<'_>| known.get(part.name).filter(|_| !part.changed).copied();
        let tree = put_all(parts, unchanged, |bytes| store.put_part(key, bytes))?;
        let manifest = serde_json::to_vec(&tree).map_err(|e| Fault::internal(format!("a checkpoint has no JSON form: {e}")))?;
        let objects: Vec<ObjectRef> = tree.values().copied().collect();
        store.save_checkpoint(key, &manifest, &objects)?;
        let needed: BTreeSet<_> = objects.iter().map(|object| object.digest).collect();
        let outdated: Vec<ObjectRef> = self.tree.values().filter(|old| !needed.contains(&old.digest)).copied().collect();
        store.retire(key, &outdated);
        self.tree = tree;
        self.saved = Instant::now();
        Ok(())
    }
    fn conclude(&mut self, parts: &mut dyn Parts) -> Outcome<Snapshot> {
        let store = self.host.store();
        self.last = put_all(parts, |_| None, |bytes| store.put(bytes))?;
        Ok(Snapshot { round: parts.round(), parts: Vec::new() })
    }
    fn stopping(&self) -> bool {
        self.host.stopping()
    }
    fn note(&mut self, line: &str) {
        self.log(true, line.to_owned());
    }
}
