//! A training: the simulation of one algorithm on one partition and one model.

use super::task::{Host, Outputs, Report, Task};
use super::{dataset, input, model};
use crate::algorithms::Algorithms;
use crate::base::fault::Placed;
use crate::base::{Fault, ObjectRef, Outcome, memory};
use crate::data::partition::Partition;
use crate::fl::checkpoint::Snapshot;
use crate::fl::round::Monitor;
use crate::fl::{History, Seeded, Settings, Simulation, World};
use crate::{defences, privacy, secure, threats};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Outputs `metrics` (the history as JSON), `model` (the global model) and `checkpoint` (the state after the last round as a tree).
pub(super) fn run(task: &Task, host: &dyn Host, algorithms: &Algorithms) -> Outcome<Outputs> {
    if task.device != "cpu" {
        return Err(Fault::device(format!("trainings do not run on `{}`", task.device)).help("use `--device cpu`"));
    }
    let store = host.store();
    let (world, algorithm, stored_model) = assemble(task, "", &task.params, host, algorithms)?;

    let may_extend = !algorithm.horizon() && !world.interventions.iter().any(|intervention| intervention.horizon());
    let mut monitor = StageMonitor { task, host, saved: Instant::now(), objects: Vec::new(), may_extend };
    let simulated = algorithm.simulate(&world, &mut monitor)?;

    let metrics = serde_json::to_vec(&simulated.history).map_err(|e| Fault::internal(format!("the history has no JSON form: {e}")))?;
    let mut outputs = super::outputs(host, [("metrics", &metrics), ("model", &model::rewrite(&simulated.global, &stored_model)?)])?;
    outputs.insert("checkpoint".to_owned(), store.put_tree(&put(&simulated.last, |bytes| store.put(bytes))?)?);
    store.drop_checkpoint(&task.key);
    Ok(outputs)
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
    // A model and a copy of its parameters for each client, and what each thread trains with.
    let models = 2 * partition.clients().len() as u64 + 3 * host.budget().total() as u64;
    memory::demand(initial.params.len() as u64 * 4 * models, &format!("a simulation of {} clients", partition.clients().len()))?;
    let Read { settings, algorithm: algorithm_params, threat, defence, privacy, secure } = read_params(params)?;
    let algorithm = algorithms.build(&algorithm_params)?;
    let streams = Box::new(Seeded { sampling: settings.sampling_seed, batches: settings.batch_seed });
    let mut world = World::new(initial, Arc::new(data), partition.clients().to_vec(), settings, streams, host.budget().clone())?;
    let chosen =
        [threats::build(&threat, &world)?, privacy::build(&privacy, &world)?, defences::build(&defence)?, secure::build(&secure, &world)?];
    world = chosen.into_iter().flatten().fold(world, World::with);
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

pub(super) fn put(snapshot: &Snapshot, put: impl Fn(&[u8]) -> Outcome<ObjectRef>) -> Outcome<BTreeMap<String, ObjectRef>> {
    snapshot.parts.iter().map(|(name, bytes)| Ok((name.clone(), put(bytes)?))).collect()
}

pub(super) fn read(tree: &BTreeMap<String, ObjectRef>, read: impl Fn(&ObjectRef) -> Outcome<Vec<u8>>) -> Outcome<Snapshot> {
    Snapshot::of(tree.iter().map(|(name, object)| Ok((name.clone(), read(object)?))).collect::<Outcome<_>>()?)
}

/// Reports progress, keeps checkpoints in the store, and finds the one to continue from.
struct StageMonitor<'a> {
    task: &'a Task,
    host: &'a dyn Host,
    saved: Instant,
    /// The objects of the checkpoint before the next.
    objects: Vec<ObjectRef>,
    may_extend: bool,
}

impl StageMonitor<'_> {
    fn log(&self, warning: bool, line: String) {
        self.host.report(Report::Log { warning, line });
    }
    /// The checkpoint of this very stage, if one was left behind.
    fn own(&self) -> Option<Outcome<Snapshot>> {
        let manifest = self.host.store().load_checkpoint(&self.task.key)?;
        let tree = serde_json::from_slice(&manifest).map_err(|e| Fault::storage(format!("the checkpoint's manifest is damaged: {e}")));
        Some(tree.and_then(|tree| read(&tree, |part| self.host.store().read_part(&self.task.key, part))))
    }
    /// The last state of a run with fewer rounds, if this one may continue it.
    fn shorter(&self) -> Option<Outcome<Snapshot>> {
        let object = self.task.shorter.as_ref().filter(|_| self.may_extend)?.get("checkpoint")?;
        let store = self.host.store();
        Some(store.tree(object).and_then(|tree| read(&tree, |part| store.read(part))))
    }
}

impl Monitor for StageMonitor<'_> {
    fn resume(&mut self) -> Outcome<Option<Snapshot>> {
        // A checkpoint that cannot be read costs time, never the result: the stage starts from an older one or from its beginning.
        for found in [self.own(), self.shorter()].into_iter().flatten() {
            match found {
                Ok(snapshot) => {
                    self.log(false, format!("continues after round {}", snapshot.round));
                    return Ok(Some(snapshot));
                }
                Err(fault) => self.log(true, format!("{fault}; it is not used")),
            }
        }
        Ok(None)
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
    fn save(&mut self, snapshot: Snapshot) -> Outcome<()> {
        let (store, key) = (self.host.store(), &self.task.key);
        let tree = put(&snapshot, |bytes| store.put_part(key, bytes))?;
        let manifest = serde_json::to_vec(&tree).map_err(|e| Fault::internal(format!("a checkpoint has no JSON form: {e}")))?;
        let objects: Vec<ObjectRef> = tree.values().copied().collect();
        store.save_checkpoint(key, &manifest, &objects)?;
        let outdated: Vec<ObjectRef> = self.objects.iter().filter(|old| !objects.contains(old)).copied().collect();
        store.retire(key, &outdated);
        self.objects = objects;
        self.saved = Instant::now();
        Ok(())
    }
    fn stopping(&self) -> bool {
        self.host.stopping()
    }
    fn note(&mut self, line: &str) {
        self.log(true, line.to_owned());
    }
}
