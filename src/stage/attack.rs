//! An attack: what a finished training gives away. The training itself is not run again.

use super::journal::Journal;
use super::task::{Host, Outputs, Report, Task};
use super::{input, tag, train};
use crate::algorithms::Algorithms;
use crate::attacks::findings::OfClient;
use crate::attacks::leak::{Attack, Method, each};
use crate::attacks::pause::{Pause, rest};
use crate::attacks::shadow::{self, Judge};
use crate::attacks::{self, Ending, Findings, inverting, leak, membership};
use crate::base::random::{Purpose, stream};
use crate::base::{Fault, Outcome, memory};
use crate::fl::checkpoint::{Parts, Stored};
use crate::fl::history::History;
use crate::fl::round::Monitor;
use crate::fl::{Examined, Observed, World};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// The parameters of all attacks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    round: Option<u64>,
    clients: Option<usize>,
    seed: u64,
}

/// The parameters of gradient attacks; each has some.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Leak {
    variant: String,
    iterations: Option<usize>,
    restarts: usize,
    most_samples: usize,
    batches: usize,
    rate: f64,
    total_variation: f64,
    signed: bool,
    labels: String,
}

impl Default for Leak {
    fn default() -> Self {
        Self {
            variant: String::new(),
            iterations: None,
            restarts: 1,
            most_samples: 16,
            batches: 2,
            rate: 0.1,
            total_variation: 0.1,
            signed: true,
            labels: "known".to_owned(),
        }
    }
}

/// The parameters of membership inference.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Membership {
    method: String,
    #[serde(default)]
    shadow_models: usize,
    #[serde(default)]
    shadow_epochs: usize,
}

/// Outputs `metrics` (the findings as JSON) and `images` (a tree of PNGs, `client-ID.png` or `client-ID-PART.png`; empty for membership).
pub(super) fn run(task: &Task, host: &dyn Host, algorithms: &Algorithms) -> Outcome<Outputs> {
    if task.device != "cpu" {
        return Err(Fault::device(format!("attacks do not run on `{}`", task.device)).help("use `--device cpu`"));
    }
    let Some(Value::Object(recipe)) = task.params.get("of") else {
        return Err(Fault::internal("the task does not say how the training was made"));
    };
    let kind = tag(task, "kind")?.to_owned();
    let mut own = task.params.clone();
    own.retain(|name, value| !["of", "kind"].contains(&name.as_str()) && !value.is_null());
    let common: Common = parsed(take(&mut own, &["round", "clients", "seed"]))?;
    let (mut world, algorithm, _) = train::assemble(task, "of.", recipe, host, algorithms)?;
    let rounds = world.settings.rounds;
    let round = common.round.unwrap_or(rounds);
    attacks::round_of(round, rounds)?;
    // Before and after of every client in a round, and a second copy of what they start from.
    let cohort = world.settings.nominal_cohort(world.clients()) as u64;
    memory::demand(world.layout().len as u64 * 4 * 3 * cohort, "what the clients of a round send")?;
    let name = recipe.get("algorithm").and_then(|a| a.get("name")).and_then(Value::as_str).unwrap_or_default();
    // The training evaluated itself; for what is observed it makes no difference.
    world.settings.eval_every = u64::MAX;
    let journal = Journal::open(task, host);
    let mut observer = Observer { task, host, journal: &journal, round, last: round == rounds };
    let mut findings = Findings { attack: kind.clone(), round, ..Findings::default() };
    let mut images = Outputs::new();
    if kind == "membership" {
        let params: Membership = parsed(own)?;
        match algorithm.examine(&world, &mut observer, round)? {
            Observed::Clients(examined) => findings.clients = infer(&world, &examined, &params, &common, host, &journal)?,
            other => findings.status = ending(name, &other),
        }
    } else {
        let attack = attack_of(&kind, &parsed(own)?, common.seed)?;
        match algorithm.observe(&world, &mut observer, round)? {
            Observed::Clients(mut glimpses) => {
                if let Some(wanted) = common.clients {
                    attacks::enough_clients(wanted as u64, glimpses.len(), "upload in this round")?;
                    glimpses.truncate(wanted);
                }
                leaks(&world, &glimpses, &attack, (name, host, &journal), &mut findings, &mut images)?;
            }
            other => findings.status = ending(name, &other),
        }
    }
    if let Ending::NotApplicable { reason } = &findings.status {
        host.report(Report::Log { warning: false, line: reason.clone() });
    }
    let metrics = serde_json::to_vec(&findings).map_err(|e| Fault::internal(format!("the findings have no JSON form: {e}")))?;
    let mut outputs = super::outputs(host, [("metrics", &metrics)])?;
    outputs.insert("images".to_owned(), host.store().put_tree(&images)?);
    journal.close();
    Ok(outputs)
}

fn ending<T>(name: &str, observed: &Observed<T>) -> Ending {
    match observed {
        Observed::Clients(_) => Ending::Completed,
        Observed::Diverged(round) => Ending::Diverged { round: *round },
        Observed::Nothing(reason) => Ending::NotApplicable { reason: format!("nothing to invert: `{name}` {reason}") },
    }
}

fn take(from: &mut Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), from.remove(*name)?))).collect()
}

fn parsed<T: for<'a> Deserialize<'a>>(params: Map<String, Value>) -> Outcome<T> {
    serde_json::from_value(Value::Object(params)).map_err(|e| Fault::internal(format!("the attack's parameters: {e}")))
}

fn attack_of(kind: &str, params: &Leak, seed: u64) -> Outcome<Attack> {
    let (method, usual) = match (kind, params.variant.as_str()) {
        ("dlg", "pfllib") => (Method::Pfllib { batches: params.batches }, 100),
        ("dlg", _) => (Method::Dlg, 300),
        ("idlg", _) => (Method::Idlg, 300),
        ("inverting-gradients", _) => {
            let steps = params.iterations.unwrap_or(4800);
            let options = inverting::Options { steps, rate: params.rate, variation: params.total_variation, signed: params.signed };
            (Method::Inverting { options, inferred: params.labels == "inferred" }, steps)
        }
        _ => return Err(Fault::internal(format!("there is no attack `{kind}`"))),
    };
    let steps = params.iterations.unwrap_or(usual);
    Ok(Attack { method, steps, restarts: params.restarts, most_samples: params.most_samples, seed })
}

/// Rebuilds samples and keeps what came of it.
fn leaks(
    world: &World,
    glimpses: &[crate::fl::Glimpse],
    attack: &Attack,
    (name, host, journal): (&str, &dyn Host, &Journal<'_>),
    findings: &mut Findings,
    images: &mut Outputs,
) -> Outcome<()> {
    let progress = |done: usize, total: usize| {
        host.report(Report::Progress { done: done as u64, total: total as u64, values: BTreeMap::new() });
    };
    let found = leak::attack(world, glimpses, attack, &|number| Box::new(journal.search(number)), &progress)?;
    let mut reasons = BTreeSet::new();
    for leaked in found {
        if let Some(why) = leaked.nothing {
            findings.notes.push(format!("client {}: {why}", leaked.client));
            reasons.insert(why);
            continue;
        }
        for (part, png) in leaked.pictures.iter().enumerate() {
            let part = if leaked.pictures.len() > 1 { format!("-{part}") } else { String::new() };
            images.insert(format!("client-{}{part}.png", leaked.client), host.store().put(png)?);
        }
        findings.clients.push(OfClient { client: leaked.client, values: leaked.values });
    }
    if findings.clients.is_empty() {
        let why = reasons.into_iter().next().unwrap_or_else(|| "no upload arrived".to_owned());
        findings.status = Ending::NotApplicable { reason: format!("nothing to invert of `{name}`: {why}") };
    }
    Ok(())
}

/// Membership inference of each client's models.
fn infer(
    world: &World,
    examined: &[Examined],
    params: &Membership,
    common: &Common,
    host: &dyn Host,
    journal: &Journal<'_>,
) -> Outcome<Vec<OfClient>> {
    let headline = examined.iter().filter(|e| e.view != "global").map(|e| e.view).next_back();
    let clients: Vec<usize> = examined.iter().map(|e| e.client).collect::<BTreeSet<_>>().into_iter().collect();
    if let Some(wanted) = common.clients {
        attacks::enough_clients(wanted as u64, clients.len(), "train")?;
    }
    let clients = &clients[..clients.len().min(common.clients.unwrap_or(usize::MAX))];
    let done = AtomicU64::new(0);
    let options = shadow::Options {
        models: params.shadow_models,
        epochs: params.shadow_epochs,
        rate: world.settings.learning_rate as f32,
        batch: world.settings.batch_size,
    };
    let found = each(&world.budget, clients, |client| {
        let pause = journal.search(*client);
        // The state of a client is its judge: that is what takes time.
        let judge = match pause.kept().and_then(|state| Judge::restored(&state)) {
            Some(judge) => Some(judge),
            None if params.method == "shadow" => {
                rest(&pause, Vec::new)?;
                let judge = judge_for(world, *client, &options, common.seed)?;
                pause.finish(&judge.state())?;
                Some(judge)
            }
            None => None,
        };
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        host.report(Report::Progress { done, total: clients.len() as u64, values: BTreeMap::new() });
        let mut values = BTreeMap::new();
        for model in examined.iter().filter(|e| e.client == *client) {
            let global = model.view == "global";
            if !global && Some(model.view) != headline {
                continue;
            }
            // An algorithm whose only model is the global one has it in both columns.
            let prefixes: &[&str] = if !global {
                &[""]
            } else if headline.is_none() {
                &["", "global:"]
            } else {
                &["global:"]
            };
            for prefix in prefixes {
                let mut rng = stream(common.seed, Purpose::Attack, *client as u64, 2, 0);
                values.extend(membership::measure(prefix, &model.members, &model.others, judge.as_ref(), &mut rng));
            }
        }
        Ok(OfClient { client: *client, values })
    });
    found.into_iter().collect()
}

/// A judge taught on samples that the client does not hold, of each class as many as it holds for training, twice.
fn judge_for(world: &World, client: usize, options: &shadow::Options, seed: u64) -> Outcome<Judge> {
    let shard = world.shard(client);
    let held: BTreeSet<u32> = shard.train.iter().chain(&shard.test).copied().collect();
    let pool: Vec<u32> = (0..world.data.len() as u32).filter(|i| !held.contains(i)).collect();
    let mut wanted: BTreeMap<u32, usize> = BTreeMap::new();
    for sample in &shard.train {
        *wanted.entry(world.data.labels()[*sample as usize]).or_default() += 2;
    }
    let mut rng = stream(seed, Purpose::Attack, client as u64, 3, 0);
    shadow::teach(&world.initial, &world.data, &pool, &wanted, options, &mut rng)
}

/// Brings the training's last state where that is the observed one.
struct Observer<'a> {
    task: &'a Task,
    host: &'a dyn Host,
    journal: &'a Journal<'a>,
    round: u64,
    last: bool,
}

impl Monitor for Observer<'_> {
    fn stored(&mut self) -> Outcome<Option<Box<dyn Stored + '_>>> {
        // A checkpoint that cannot be read costs time, never the result.
        match self.journal.rounds() {
            Some(Ok(tree)) => return Ok(Some(Box::new(tree))),
            Some(Err(fault)) => self.note(&format!("{fault}; it is not used")),
            None => {}
        }
        if !self.last {
            return Ok(None);
        }
        let store = self.host.store();
        let tree = store.tree(&input(self.task, "of", "checkpoint")?)?;
        Ok(Some(Box::new(train::Tree::open(tree, |part| store.read(part))?)))
    }
    fn progress(&mut self, done: u64, _: u64, _: &History) {
        self.host.report(Report::Progress { done, total: self.round, values: BTreeMap::new() });
    }
    fn checkpoint_due(&mut self) -> bool {
        self.journal.due()
    }
    fn keep(&mut self, parts: &mut dyn Parts) -> Outcome<()> {
        self.journal.keep_rounds(parts)
    }
    fn stopping(&self) -> bool {
        self.host.stopping()
    }
    fn note(&mut self, line: &str) {
        self.host.report(Report::Log { warning: true, line: line.to_owned() });
    }
}
