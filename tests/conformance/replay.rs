//! Runs a fixture through the simulation with the fixture's answers to every random question, and compares all that it stored.

use crate::compare::{loose_pairs, relative_error, strain, tolerance};
use crate::fixture::{Fixture, Metric, Run, Tensor};
use crate::mapping::{self, Source};
use pflpipe::algorithms;
use pflpipe::base::random::{Purpose, stream};
use pflpipe::base::threads::Budget;
use pflpipe::data::partition::Client as Shard;
use pflpipe::data::{Bytes, Dataset, Origin, Samples, Shape};
use pflpipe::engine::{Compute, Layer, Model, Network};
use pflpipe::fl::history::{ClientMeasured, History};
use pflpipe::fl::round::{Monitor, Parties};
use pflpipe::fl::state::Leaf;
use pflpipe::fl::streams::{Law, Moment, NoiseKind};
use pflpipe::fl::{Settings, Streams, World};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

pub const NOT_BUILT: &str = "not built yet";
/// What stays at its start where a client has no whole batch: our state does not hold it, but its evaluation shows it.
const STANDS: (&str, &str) = ("pFedMe", "personalized_params");

/// The fixture's answers: no shuffling, the recorded cohorts, the noise and labels of its rules.
struct Recorded {
    selection: Vec<Vec<usize>>,
    /// FedFomo's models for each client of a round, in order.
    send: BTreeMap<(u64, u64), Vec<usize>>,
    starts: BTreeMap<String, Vec<f32>>,
}

impl Streams for Recorded {
    fn cohort(&self, round: u64, _: usize, _: usize, _: usize) -> Vec<usize> {
        self.selection[round as usize].clone()
    }
    fn accepted(&self, _: u64, _: usize, keep: usize) -> Vec<usize> {
        (0..keep).collect()
    }
    fn order(&self, _: Moment, n: usize) -> Vec<u32> {
        (0..n as u32).collect()
    }
    fn integers(&self, _: Moment, count: usize, bound: usize) -> Vec<usize> {
        (0..count).map(|k| k % bound.max(1)).collect()
    }
    fn noise(&self, at: Moment, kind: NoiseKind, out: &mut [f32]) {
        // FedFomo asks for a number a client, by which equal ones are ordered.
        if let Some(ids) = self.send.get(&(at.round, at.client)) {
            out.fill(1.0);
            ids.iter().enumerate().for_each(|(place, id)| out[*id] = place as f32 / 1000.0);
            return;
        }
        for (k, v) in out.iter_mut().enumerate() {
            *v = match kind {
                NoiseKind::Gumbel | NoiseKind::Logistic => 0.0,
                _ => (0.618_033_988_749_894_9 * (k + 1) as f64).fract() as f32,
            };
        }
    }
    fn initial(&self, name: &str, _: Law, out: &mut [f32]) {
        let start = self.starts.get(&mapping::start(name)).unwrap_or_else(|| panic!("the fixture has no start of `{name}`"));
        out.copy_from_slice(&start[..out.len()]);
    }
    fn slow(&self, _: bool, _: usize, _: usize, _: bool) -> Vec<usize> {
        Vec::new()
    }
    fn delay(&self, _: Moment) -> f64 {
        0.0
    }
}

/// Keeps the state after every round.
#[derive(Default)]
struct Keep(Vec<(u64, Parties)>);

impl Monitor for Keep {
    fn inspects(&self) -> bool {
        true
    }
    fn inspect(&mut self, round: u64, parties: &Parties) {
        self.0.retain(|(r, _)| *r != round);
        self.0.push((round, parties.clone()));
    }
}

/// The worst relative error, for people to read, or why the fixture is not met.
///
/// `known` fixtures are this crate's own, whose ties are known.
pub fn replay(fixture: &Fixture, known: bool) -> Result<String, String> {
    let params = mapping::algorithm(fixture).ok_or(NOT_BUILT)?;
    let params = params.as_object().expect("the mapping gives objects");
    let name = params["name"].as_str().unwrap_or_default();
    let registry = algorithms::all();
    registry.get(name).ok_or(NOT_BUILT)?;
    let algorithm = registry.build(params).map_err(|f| f.to_string())?;
    let world = world(fixture)?;
    let mut keep = Keep::default();
    let simulated = algorithm.simulate(&world, &mut keep).map_err(|f| f.to_string())?;
    let worst = states(fixture, &keep)?;
    metrics(fixture, &simulated.history, known).map_err(|why| format!("{why}; states: {worst}"))?;
    Ok(worst)
}

fn world(fixture: &Fixture) -> Result<World, String> {
    let run = &fixture.run;
    let net = Arc::new(network(fixture)?);
    let mut initial = Model::init(net.clone(), &mut stream(0, Purpose::Initialisation, 0, 0, 0));
    for entry in &net.layout().entries {
        let tensor = fixture.tensor(&format!("init.model.{}", entry.name)).ok_or_else(|| format!("no initial `{}`", entry.name))?;
        net.layout().import(&mut initial.params, entry, &tensor.values).map_err(|f| f.to_string())?;
    }
    let (mut samples, mut labels, mut shards) = (Vec::new(), Vec::new(), Vec::new());
    for [train_x, train_y, test_x, test_y] in &fixture.data {
        let start = labels.len() as u32;
        for (x, y) in [(train_x, train_y), (test_x, test_y)] {
            samples.extend(x.values.iter().flat_map(|v| (v / 255.0 * run.input_scale).to_le_bytes()));
            labels.extend(y.values.iter().map(|v| *v as u32));
        }
        let middle = start + train_y.values.len() as u32;
        shards.push(Shard { train: (start..middle).collect(), test: (middle..labels.len() as u32).collect() });
    }
    let counts: Vec<usize> = shards.iter().map(|s| s.train.len()).collect();
    if counts != run.train_samples {
        return Err(format!("training samples {counts:?}, the fixture says {:?}", run.train_samples));
    }
    let shape = Shape { channels: 1, height: run.side, width: run.side };
    let samples = Samples::F32(Bytes::new(Arc::new(samples), 0));
    let train = labels.len();
    let data = Dataset::new("fixture", shape, run.classes, samples, labels, train, Origin::default()).map_err(|f| f.to_string())?;
    let number = |name: &str| fixture.number(name);
    let settings: Settings = serde_json::from_value(json!({
        "rounds": run.iterations,
        "local_epochs": number("local_epochs") as u64,
        "batch_size": number("batch_size") as u64,
        "learning_rate": number("local_learning_rate"),
        "learning_rate_decay": fixture.flag("learning_rate_decay").then(|| number("learning_rate_decay_gamma")),
        "join_ratio": number("join_ratio"),
        "random_join_ratio": fixture.flag("random_join_ratio"),
        "drop_rate": if mapping::loses_nothing(&run.algorithm) { 0.0 } else { number("client_drop_rate") },
        "few_shot": number("few_shot") as u64,
        // More often than the reference, perhaps: it changes no state, and entries are found by their round.
        "eval_every": 1,
        "seconds_per_batch": 0.0, "seconds_per_upload": 0.0, "train_loss": "full",
    }))
    .map_err(|e| e.to_string())?;
    let starts = fixture.names().filter(|name| name.starts_with("init."));
    let mut starts: BTreeMap<_, _> = starts.filter_map(|name| Some((name.to_owned(), fixture.tensor(name)?.values.clone()))).collect();
    let heads = starts.iter().filter(|(name, _)| name.starts_with("init.server.client_heads[")).map(|(_, head)| head);
    if let Some(longest) = heads.max_by_key(|head| head.len()).cloned() {
        starts.insert("init.server.client_heads".to_owned(), longest);
    }
    let send = run.send.iter().map(|s| ((s.round, s.client), s.ids.clone())).collect();
    let streams = Box::new(Recorded { selection: run.selection.clone(), send, starts });
    let mut world = World::new(initial, Arc::new(data), shards, settings, streams, Budget::new(1)).map_err(|f| f.to_string())?;
    world.compute = compute()?;
    Ok(world)
}

/// Where the networks run: the first GPU of a build with CUDA, unless `PFLPIPE_CONFORMANCE_DEVICE` says otherwise.
pub fn compute() -> Result<Compute, String> {
    match std::env::var("PFLPIPE_CONFORMANCE_DEVICE").ok().filter(|device| !device.is_empty()).as_deref() {
        Some("stock") => Ok(Compute::Stock),
        Some(device) => Compute::of(device).map_err(|f| f.to_string()),
        None if cfg!(feature = "cuda") && Path::new("/dev/nvidia0").exists() => Ok(Compute::Cuda(0)),
        None => Ok(Compute::Fused),
    }
}

/// The reference's small models, built from the same layers as the users' models.
fn network(fixture: &Fixture) -> Result<Network, String> {
    let run = &fixture.run;
    let norm = run.model.ends_with("_bn");
    let mut layers = Vec::new();
    if run.model.starts_with("tiny_cnn") {
        for (name, width) in [("conv1", 4), ("conv2", 8)] {
            layers.push(Layer::conv(&format!("{name}.0"), width, 3, 0));
            if norm {
                layers.push(Layer::norm2d(&format!("{name}.1")));
            }
            layers.push(Layer::Relu);
            layers.push(Layer::pool(2));
        }
    } else if run.model != "tiny_mlp" {
        return Err(format!("unknown model `{}`", run.model));
    }
    layers.extend([Layer::Flatten, Layer::linear("fc1.0", run.hidden), Layer::Relu]);
    let head = layers.len();
    layers.push(Layer::linear("fc", run.classes));
    let shape = Shape { channels: 1, height: run.side, width: run.side };
    Network::build(shape, layers, head).map_err(|f| f.to_string())
}

fn states(fixture: &Fixture, keep: &Keep) -> Result<String, String> {
    let run = &fixture.run;
    let parties = |round: u64| keep.0.iter().find(|(r, _)| *r == round).map(|(_, p)| p);
    let (mut worst, mut where_) = (0.0, String::new());
    let mut faults = Vec::new();
    let mut compared = 0;
    let names: BTreeSet<&str> = fixture.names().collect();
    for name in names {
        let Some((snapshot, rest)) = name.split_once('.') else { continue };
        let round = match snapshot.strip_prefix("after") {
            Some(n) => n.parse::<u64>().map_err(|e| format!("{name}: {e}"))?,
            None => 0,
        };
        if round > mapping::comparable(fixture) {
            continue;
        }
        let Some((owner, rest)) = rest.split_once('.') else { continue };
        if owner == "model" || mapping::left_out(&run.algorithm, name) {
            continue;
        }
        let (attribute, item) = mapping::attribute(&run.algorithm, rest);
        let client = owner.strip_prefix("client").and_then(|c| c.parse::<usize>().ok());
        if client.is_some_and(|client| mapping::untrained(fixture, client) && (run.algorithm.as_str(), attribute) == STANDS) {
            continue;
        }
        let source = mapping::source(&run.algorithm, client.is_none(), attribute).ok_or_else(|| format!("`{rest}` is not mapped"))?;
        let own: Vec<(String, Leaf)>;
        let at = |round: u64| parties(round).ok_or_else(|| format!("no state after round {round}"));
        let mut reference = fixture.tensor(name).cloned().ok_or_else(|| format!("no tensor `{name}`"))?;
        let cohort = round.checked_sub(1).map(|round| &run.selection[round as usize]);
        // The position in a list, and what follows it.
        let listed = || item.strip_prefix('[').and_then(|i| i.split_once(']')).and_then(|(j, rest)| Some((j.parse::<usize>().ok()?, rest)));
        let mut item = item;
        let mut list = String::new();
        let (leaves, leaf) = match source {
            Source::Ignored(_) => continue,
            Source::Own(leaf) => {
                let parties = at(round)?;
                (client.map_or(&parties.server, |c| &parties.clients[c]), leaf)
            }
            Source::Server(leaf) => (&at(round)?.server, leaf),
            Source::Participant(leaf) => {
                let client = client.ok_or_else(|| format!("{name}: the server is no participant"))?;
                if cohort.is_none_or(|cohort| !cohort.contains(&client)) {
                    continue;
                }
                (&at(round)?.clients[client], leaf)
            }
            Source::Received(leaf) => (&at(round.saturating_sub(1))?.server, leaf),
            Source::Cohort(leaf) => {
                let (Some(cohort), Some((j, rest))) = (cohort, listed()) else { continue };
                item = rest;
                (&at(round)?.clients[cohort[j]], leaf)
            }
            Source::Delivered(leaf) => {
                let (Some(client), Some((j, rest))) = (client, listed()) else { continue };
                let last = run.send.iter().filter(|s| s.client == client as u64 && s.round < round).max_by_key(|s| s.round);
                let last = last.ok_or_else(|| format!("{name}: nothing was sent to client {client}"))?;
                list = format!("{leaf}[{}]", last.ids[j]);
                item = rest;
                (&at(last.round)?.server, leaf)
            }
            Source::Columns(leaf) => {
                let Some(cohort) = cohort else { continue };
                let before = at(round - 1)?;
                let columns: Vec<Vec<f32>> = cohort.iter().filter_map(|c| whole(&before.clients[*c], leaf)).collect();
                let rows = columns.first().map_or(0, Vec::len);
                let matrix = (0..rows).flat_map(|row| columns.iter().map(move |column| column[row])).collect();
                own = vec![("matrix".to_owned(), Leaf::Vector(matrix))];
                (&own, "matrix")
            }
            Source::Calibration(leaf) => {
                let tau = fixture.hyper("tau").as_f64().ok_or("tau is a number")? as f32;
                let counts = find(fixture, &at(round)?.server, leaf, "", &reference)?;
                let row: Vec<f32> = counts.iter().map(|n| tau * n.powf(-0.25)).collect();
                own = vec![("rows".to_owned(), Leaf::Vector(row.repeat(reference.values.len() / row.len())))];
                (&own, "rows")
            }
        };
        let leaf = if list.is_empty() { leaf } else { &list };
        if mapping::factored(&run.algorithm, attribute) && item.contains("][") {
            // The second and third factor of a compressed tensor are compared with the first.
            let Some(whole) = name.strip_suffix("[0]") else { continue };
            reference = product(fixture, whole).ok_or_else(|| format!("no factors of `{whole}`"))?;
            item = &item[..item.len() - 3];
        }
        let compared_values = find(fixture, leaves, leaf, item, &reference).and_then(|mut ours| {
            for index in mapping::noise(fixture, name) {
                (ours[index], reference.values[index]) = (0.0, 0.0);
            }
            relative_error(name, &ours, &reference.values)
        });
        match compared_values {
            Ok(error) if error <= tolerance(&run.algorithm, name) * strain(run, compute().unwrap_or_default(), name) => {
                compared += 1;
                if error >= worst {
                    (worst, where_) = (error, name.to_owned());
                }
            }
            Ok(error) => faults.push(format!("{name}: relative error {error:.1e}")),
            Err(why) => faults.push(why),
        }
    }
    if compared == 0 {
        faults.push("nothing was compared".to_owned());
    }
    match faults.first() {
        None => Ok(format!("worst {worst:.1e} of {compared} tensors: {where_}")),
        Some(first) => Err(format!("{first} (and {} more of {})", faults.len() - 1, faults.len() + compared)),
    }
}

/// All that torch's state dict of a model holds, one after the other: parameters, running statistics and counters.
fn whole(leaves: &[(String, Leaf)], leaf: &str) -> Option<Vec<f32>> {
    let (_, Leaf::Model(model)) = leaves.iter().find(|(name, _)| name == leaf)? else { return None };
    Some(model.export_torch().into_iter().flat_map(|(_, _, values)| values).collect())
}

/// U diag(s) V over the last two axes, from the three factors that the fixture stores.
fn product(fixture: &Fixture, name: &str) -> Option<Tensor> {
    let [u, s, v] = [0, 1, 2].map(|i| fixture.tensor(&format!("{name}[{i}]")));
    let (u, s, v) = (u?, s?, v?);
    let [rank, columns] = *v.shape.last_chunk()?;
    let mut values = Vec::new();
    for ((u, s), v) in
        u.values.chunks(u.values.len() * rank / s.values.len()).zip(s.values.chunks(rank)).zip(v.values.chunks(rank * columns))
    {
        for row in u.chunks(rank) {
            values.extend((0..columns).map(|c| (0..rank).map(|k| row[k] * s[k] * v[k * columns + c]).sum::<f32>()));
        }
    }
    let mut shape = u.shape.clone();
    *shape.last_mut()? = columns;
    Some(Tensor { shape, values })
}

/// Our values for `item` of a leaf, in the reference's order.
fn find(fixture: &Fixture, leaves: &[(String, Leaf)], leaf: &str, item: &str, reference: &Tensor) -> Result<Vec<f32>, String> {
    let net = network(fixture)?;
    let layout = net.layout();
    let value = |name: &str| leaves.iter().find(|(n, _)| n == name).map(|(_, leaf)| leaf);
    // One model of a list: `[2].fc.weight`.
    if let Some((which, rest)) = item.split_once("].").filter(|(which, _)| which.starts_with('[')) {
        return find(fixture, leaves, &format!("{leaf}{which}]"), rest, reference);
    }
    // A tensor in a map of a model's: `[fc.weight]`.
    let inner = item.strip_prefix('[').and_then(|i| i.strip_suffix(']')).filter(|inner| !inner.contains(']'));
    let index = inner.and_then(|i| i.parse::<usize>().ok());
    let item = inner.filter(|_| index.is_none()).unwrap_or(item);
    let flat = |params: &[f32]| layout.entries.iter().flat_map(|entry| layout.export(params, entry)).collect();
    match value(leaf) {
        Some(Leaf::Params(params) | Leaf::Model(Model { params, .. })) if item.is_empty() => Ok(flat(params)),
        Some(Leaf::Params(params)) => {
            let named = own_name(item);
            let entry = index.map(|index| &layout.entries[index]).or_else(|| layout.entry(&named));
            Ok(layout.export(params, entry.ok_or_else(|| format!("`{leaf}{item}` is no tensor of the network"))?))
        }
        Some(Leaf::Model(model)) => {
            let layout = model.net.layout();
            let named = own_name(item);
            if let Some(entry) = index.map(|index| &layout.entries[index]).or_else(|| layout.entry(&named)) {
                return Ok(layout.export(&model.params, entry));
            }
            let buffer = layout.buffers.iter().find(|b| b.name == named);
            buffer.map(|b| model.buffers.values[b.range.clone()].to_vec()).ok_or_else(|| format!("our model has no `{named}`"))
        }
        Some(Leaf::Vector(vector)) => Ok(vector.clone()),
        Some(Leaf::Number(number)) => Ok(vec![*number as f32]),
        Some(Leaf::Count(count)) => Ok(vec![*count as f32]),
        None => match value(&format!("{leaf}{item}")) {
            Some(Leaf::Vector(vector)) if vector.len() == reference.values.len() => Ok(vector.clone()),
            _ => Err(format!("our state has no `{leaf}{item}`")),
        },
    }
}

/// Our name of a tensor of a model that may be split into `base` and `head`.
fn own_name(item: &str) -> String {
    let item = item.trim_start_matches('.');
    match item.strip_prefix("base.") {
        Some(name) => name.to_owned(),
        None if item == "weight" || item == "bias" => format!("fc.{item}"),
        None => item.strip_prefix("head.").map_or_else(|| item.to_owned(), |name| format!("fc.{name}")),
    }
}

fn metrics(fixture: &Fixture, history: &History, known: bool) -> Result<(), String> {
    let run = &fixture.run;
    let mut faults = Vec::new();
    // A second set of entries under one round is the evaluation after the last round's work.
    let mut seen = BTreeSet::new();
    let (gap, behind) = (fixture.number("eval_gap") as i64, i64::from(run.algorithm == "FedCross"));
    for metric in run.metrics.iter().filter(|m| m.round <= mapping::comparable(fixture) as i64) {
        let tested = metric.correct.is_some();
        let round = metric.round + behind;
        let again = !seen.insert((metric.round, metric.client, metric.kind.clone(), tested)) || round % gap != 0;
        let evaluation = if again { history.evaluations.iter().find(|e| e.finished) } else { history.evaluations.get(round as usize) };
        let view = mapping::view(&run.algorithm, metric.kind.as_deref());
        let Some(ours) = evaluation.and_then(|e| e.views.get(view)).and_then(|m| m.clients.get(metric.client)) else {
            faults.push(format!("no measurement for round {}, client {}", metric.round, metric.client));
            continue;
        };
        let mut metric = metric.clone();
        // FedGC's AUC leaves out a batch of one sample.
        if run.algorithm == "FedGC" && metric.n.is_some_and(|n| n as usize % fixture.number("batch_size") as usize == 1) {
            metric.auc = None;
        }
        faults.extend(
            measured(&metric, ours, run, known).err().map(|why| format!("round {}, client {}: {why}", metric.round, metric.client)),
        );
    }
    match faults.first() {
        None => Ok(()),
        Some(first) => Err(format!("{first} (and {} more of {} measurements)", faults.len() - 1, run.metrics.len())),
    }
}

fn measured(metric: &Metric, ours: &ClientMeasured, run: &Run, known: bool) -> Result<(), String> {
    if let Some(correct) = metric.correct
        && (correct - ours.correct as f64).abs() > 0.0
    {
        return Err(format!("{} correct, the reference has {correct}", ours.correct));
    }
    if let Some(n) = metric.n.filter(|n| *n >= 1.0)
        && n != ours.n as f64
    {
        return Err(format!("{} test samples, the reference has {n}", ours.n));
    }
    if let (Some(auc), Some(n)) = (metric.auc.filter(|a| *a > 0.0), metric.n) {
        // A pair of scores that change sides by rounding moves the AUC by one pair.
        let pair = loose_pairs(run, metric, known) / (n * n * (run.classes - 1) as f64);
        let ours = ours.auc.ok_or("our AUC is undefined")?;
        if (auc - ours).abs() > 1e-4 + pair {
            return Err(format!("AUC {ours:.6}, the reference has {auc:.6}"));
        }
    }
    if let (Some(sum), Some(n)) = (metric.train_loss_sum, metric.train_n.filter(|n| *n >= 1.0)) {
        let ours_sum = ours.train_loss_sum.ok_or("our training loss is undefined")?;
        if (sum - ours_sum).abs() > 1e-4 * strain(run, compute().unwrap_or_default(), "loss") * sum.abs()
            || ours.train_n.map(|n| n as f64) != Some(n)
        {
            return Err(format!("training loss {ours_sum:.6} over {:?}, the reference has {sum:.6} over {n}", ours.train_n));
        }
    }
    Ok(())
}
