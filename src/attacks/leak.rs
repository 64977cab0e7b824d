//! Gradient leakage of one round: each client's update, who attacks it how, and what came of it.

use super::inverting;
use super::matching::Seen;
use super::pause::Pause;
use super::picture::beside;
use super::problem::{Problem, Reconstruction};
use super::score::{Truth, score};
use super::similarity::psnr_pfllib;
use super::{dlg, kinds, labels};
use crate::base::random::{Purpose, shuffle, stream};
use crate::base::threads::Budget;
use crate::base::{Fault, Outcome, memory};
use crate::data::Samples;
use crate::engine::Model;
use crate::fl::settings::Optimizer;
use crate::fl::{Glimpse, World};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Which attack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// DLG as published: samples and classes.
    Dlg,
    /// DLG as PFLlib runs it, on so many batches of a client.
    Pfllib {
        /// Batches.
        batches: usize,
    },
    /// iDLG: the class first, then the sample.
    Idlg,
    /// Inverting Gradients.
    Inverting {
        /// Its search.
        options: inverting::Options,
        /// Whether the class is read off the update; otherwise the observer is told the classes.
        inferred: bool,
    },
}

/// How a round is attacked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attack {
    /// Which attack.
    pub method: Method,
    /// Steps of L-BFGS, for the methods that take them.
    pub steps: usize,
    /// Searches from different starts, of which the one with the least distance counts.
    pub restarts: usize,
    /// The most samples that are rebuilt at once.
    pub most_samples: usize,
    /// Seed of the starts.
    pub seed: u64,
}

/// What an attack on one client gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaked {
    /// The client's id.
    pub client: usize,
    /// Values by metric.
    pub values: BTreeMap<String, f64>,
    /// PNGs of originals beside reconstructions.
    pub pictures: Vec<Vec<u8>>,
    /// Why there are no values.
    pub nothing: Option<String>,
}

/// One search: a part of a client's samples and what is known of them.
struct Target {
    client: usize,
    problem: Problem,
    x: Vec<f64>,
    labels: Vec<u32>,
    /// What the observer takes the classes for; absent where it looks for them.
    told: Option<Vec<u32>>,
}

/// Attacks every client that was observed, on all idle threads. `progress` hears of each finished search; `pauses` gives the other side
/// of the search of that number, by which it goes on where it was.
///
/// # Errors
/// A stage fault that names the rule which does not hold (texts, too many samples, several for iDLG, an optimizer whose updates are no
/// gradients, samples that no batch takes), or `Interrupted`.
pub fn attack<'p>(
    world: &World,
    glimpses: &[Glimpse],
    attack: &Attack,
    pauses: &(dyn Fn(usize) -> Box<dyn Pause + 'p> + Sync),
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Outcome<Vec<Leaked>> {
    kinds::numbers(world.data.vocabulary().is_some())?;
    let range = range(world);
    let (mut targets, mut nothing) = (Vec::new(), BTreeMap::new());
    for glimpse in glimpses {
        let found = targets_of(world, glimpse, attack, range).map_err(|fault| fault.at(format!("client {}", glimpse.client)))?;
        match found {
            Ok(found) => targets.extend(found),
            Err(why) => {
                nothing.insert(glimpse.client, why);
            }
        }
    }
    let numbers = targets.iter().map(|target| target.problem.numbers()).max().unwrap_or(0) as u64;
    let steps = targets.iter().map(|target| target.problem.batches.len()).max().unwrap_or(1) as u64;
    let params = world.layout().len as u64;
    let threads = world.budget.total() as u64;
    memory::demand(8 * (threads * ((steps + 8) * params + 220 * numbers) + 2 * params * targets.len() as u64), "the attack")?;

    let restarts = if matches!(attack.method, Method::Pfllib { .. }) { 1 } else { attack.restarts };
    let jobs: Vec<(usize, usize, usize)> =
        (0..targets.len() * restarts).map(|number| (number, number / restarts.max(1), number % restarts.max(1))).collect();
    let done = AtomicUsize::new(0);
    let made = each(&world.budget, &jobs, |(number, target, restart)| {
        let made = resumed(&*pauses(*number), |pause| search(&targets[*target], attack, *target as u64, *restart as u64, pause));
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        made
    });
    let mut best: Vec<Option<Reconstruction>> = vec![None; targets.len()];
    for (outcome, (_, target, _)) in made.into_iter().zip(&jobs) {
        let made = outcome?;
        let kept = &mut best[*target];
        // NaN is never less: a search that broke down counts only where all did.
        if kept.as_ref().is_none_or(|kept| kept.distance.is_nan() || made.distance < kept.distance) {
            *kept = Some(made);
        }
    }
    let mut leaked: BTreeMap<usize, Leaked> = BTreeMap::new();
    for (client, why) in nothing {
        leaked.insert(client, Leaked { client, values: BTreeMap::new(), pictures: Vec::new(), nothing: Some(why) });
    }
    let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
    for (target, made) in targets.iter().zip(best) {
        let Some(made) = made else { continue };
        let truth = Truth { x: &target.x, labels: &target.labels, shape: world.data.shape(), range };
        let mut scored = score(&truth, &made);
        if matches!(attack.method, Method::Pfllib { .. }) {
            let theirs = psnr_pfllib(&target.x, &made.x);
            scored.values.remove("psnr");
            if !theirs.is_nan() {
                scored.values.insert("psnr".to_owned(), theirs);
            }
        }
        let entry = leaked.entry(target.client).or_insert_with(|| Leaked {
            client: target.client,
            values: BTreeMap::new(),
            pictures: Vec::new(),
            nothing: None,
        });
        entry.pictures.push(beside(&truth, &scored.x)?);
        *counts.entry(target.client).or_default() += 1.0;
        for (name, value) in scored.values {
            *entry.values.entry(name).or_default() += value;
        }
    }
    for (client, count) in counts {
        if let Some(leaked) = leaked.get_mut(&client) {
            leaked.values.values_mut().for_each(|value| *value /= count);
        }
    }
    Ok(leaked.into_values().collect())
}

/// The least and the greatest value of the data.
fn range(world: &World) -> (f64, f64) {
    let found = match world.data.samples() {
        Samples::U8 { scaling, table, .. } => [table[0], table[(scaling.divisor.clamp(0.0, 255.0)) as usize]],
        _ => {
            let (mut x, mut least, mut most) = (Vec::new(), f32::INFINITY, f32::NEG_INFINITY);
            for sample in 0..world.data.len() {
                world.data.gather(&[sample as u32], &mut x);
                for v in &x {
                    (least, most) = (least.min(*v), most.max(*v));
                }
            }
            [least, most]
        }
    };
    (f64::from(found[0].min(found[1])), f64::from(found[0].max(found[1])))
}

/// The searches that a client's update gives, or why there are none.
fn targets_of(world: &World, glimpse: &Glimpse, attack: &Attack, range: (f64, f64)) -> Outcome<Result<Vec<Target>, String>> {
    let settings = &world.settings;
    let samples = &world.shard(glimpse.client).train;
    let size = settings.batch_size;
    let pfllib = matches!(attack.method, Method::Pfllib { .. });
    kinds::gradients(matches!(settings.optimizer, Optimizer::Adam { .. }), pfllib)?;
    let used = if settings.drop_last { samples.len() - samples.len() % size } else { samples.len() };
    if used == 0 || (used < samples.len() && !pfllib) {
        return Err(Fault::stage(format!(
            "it trains on {used} of its {} samples in an epoch, as an incomplete batch of {size} is left out",
            samples.len()
        ))
        .help("set `drop_last: false`, or a `batch_size` that divides the number of samples"));
    }
    let count = if pfllib { size.min(used) } else { used };
    kinds::at_most(count as u64, attack.most_samples as u64)?;
    match attack.method {
        Method::Idlg => kinds::single("idlg", false, count as u64)?,
        Method::Inverting { inferred, .. } => kinds::single("inverting-gradients", inferred, count as u64)?,
        Method::Dlg | Method::Pfllib { .. } => {}
    }
    let (before, after): (Model<f64>, Model<f64>) = (glimpse.before.cast(), glimpse.after.cast());
    let mut update: Vec<f64> = before.params.iter().zip(after.params.iter()).map(|(a, b)| a - b).collect();
    if !update.iter().all(|v| v.is_finite()) {
        return Ok(Err("what it sent is not finite".to_owned()));
    }
    if update.iter().all(|v| *v == 0.0) {
        return Ok(Err("what it sent did not change in its training".to_owned()));
    }
    let problem = |seen: &Seen, model: Model<f64>, samples: usize, batches: Vec<Range<usize>>| Problem {
        model,
        seen: seen.clone(),
        samples,
        batches,
        rate: glimpse.rate,
        range,
    };
    let truth = |indices: &[u32]| {
        let (mut x, mut labels) = (Vec::new(), Vec::new());
        world.data.gather(indices, &mut x);
        world.data.gather_labels(indices, &mut labels);
        (x.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>(), labels)
    };
    if let Method::Pfllib { batches } = attack.method {
        let mut order = samples.clone();
        shuffle(&mut stream(attack.seed, Purpose::Attack, glimpse.client as u64, 1, 0), &mut order);
        let seen = Seen { update, sent: glimpse.sent.clone() };
        let resting = Model { training: false, ..after };
        let cuts = order[..used].chunks(count).take(batches);
        return Ok(Ok(cuts
            .map(|indices| {
                let (x, labels) = truth(indices);
                let problem = problem(&seen, resting.clone(), indices.len(), std::iter::once(0..indices.len()).collect());
                Target { client: glimpse.client, problem, x, labels, told: None }
            })
            .collect()));
    }
    let epoch: Vec<Range<usize>> = (0..used).step_by(size).map(|start| start..(start + size).min(used)).collect();
    let taken = epoch.len() as u64 * glimpse.epochs;
    let scale = 1.0 / (glimpse.rate * taken as f64);
    update.iter_mut().for_each(|v| *v *= scale);
    let seen = Seen { update, sent: glimpse.sent.clone() };
    let batches = match attack.method {
        Method::Inverting { .. } => epoch.iter().cloned().cycle().take(taken as usize).collect(),
        _ => std::iter::once(0..used).collect(),
    };
    let (x, labels) = truth(&samples[..used]);
    let read = || labels::single(&seen, before.net.layout(), before.net.classes());
    let told = match attack.method {
        Method::Dlg | Method::Pfllib { .. } => None,
        Method::Inverting { inferred: false, .. } => Some(labels.clone()),
        Method::Idlg | Method::Inverting { .. } => match read() {
            Some(label) => Some(vec![label]),
            None => return Ok(Err("the last layer, from which a class is read, is not sent".to_owned())),
        },
    };
    let problem = problem(&seen, before, used, batches);
    Ok(Ok(vec![Target { client: glimpse.client, problem, x, labels, told }]))
}

/// A search that was perhaps begun, or even finished, before. Its state says by its first number which of them.
fn resumed(pause: &dyn Pause, search: impl FnOnce(&dyn Pause) -> Outcome<Reconstruction>) -> Outcome<Reconstruction> {
    let kept = pause.kept().unwrap_or_default();
    if let Some((&FINISHED, rest)) = kept.split_first()
        && let Some(found) = Reconstruction::restored(rest)
    {
        return Ok(found);
    }
    let found = search(&Begun { pause, kept: kept.get(1..).map(<[f64]>::to_vec) })?;
    pause.finish(&[&[FINISHED][..], &found.state()].concat())?;
    Ok(found)
}

const BEGUN: f64 = 1.0;
const FINISHED: f64 = 2.0;

/// A search whose states are marked as not finished.
struct Begun<'a> {
    pause: &'a dyn Pause,
    kept: Option<Vec<f64>>,
}

impl Pause for Begun<'_> {
    fn stopping(&self) -> bool {
        self.pause.stopping()
    }
    fn due(&self) -> bool {
        self.pause.due()
    }
    fn keep(&self, state: &[f64]) -> Outcome<()> {
        self.pause.keep(&[&[BEGUN][..], state].concat())
    }
    fn kept(&self) -> Option<Vec<f64>> {
        self.kept.clone()
    }
}

/// One search from one start.
fn search(target: &Target, attack: &Attack, place: u64, restart: u64, pause: &dyn Pause) -> Outcome<Reconstruction> {
    let mut rng = stream(attack.seed, Purpose::Attack, target.client as u64, 0, (place << 32) | restart);
    match attack.method {
        Method::Pfllib { .. } => dlg::attack_pfllib(&target.problem, attack.steps, &mut rng, pause),
        Method::Dlg | Method::Idlg => dlg::attack(&target.problem, target.told.as_deref(), attack.steps, &mut rng, pause),
        Method::Inverting { options, .. } => {
            let told = target.told.as_deref().unwrap_or(&target.labels);
            inverting::attack(&target.problem, told, &options, &mut rng, pause)
        }
    }
}

/// The results of all jobs in their order, worked on by this thread and by all that the budget has idle.
pub fn each<J: Sync, R: Send>(budget: &Budget, jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let slots: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some(job) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < jobs.len()) {
            let result = work(&jobs[job]);
            *slots[job].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    budget.spread(jobs.len(), run);
    slots.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}
