//! The partition rules by name: what a pipeline may ask of each, and the checks that all share.
//!
//! Adding a rule is one file and one entry here.

use super::super::params::Params;
use super::numpy::Legacy;
use super::{Drawn, Partition, Procedure, dirichlet, extended, iid, pathological, split};
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Bound, Field, Type, Variant};
use serde_json::{Map, Value};

const PROCEDURES: &[(&str, &str)] = &[
    ("pfllib", "PFLlib's procedure, bit for bit with the same seed, so that numbers compare"),
    ("clean", "this program's own: always comes to an end, leaves nothing out, the same on every platform"),
];
const BATCH: f64 = 10.0;

/// What all rules are asked for, and the labels they work on.
pub(super) struct Request<'a> {
    pub kind: &'a str,
    pub labels: &'a [u32],
    /// The samples of each class, ascending.
    pub by_class: Vec<Vec<u32>>,
    pub clients: usize,
    pub seed: u64,
    pub ratio: f64,
    pub procedure: Procedure,
    /// The least samples of a client, where the parameter is set.
    pub least: Option<usize>,
    /// PFLlib's rule for the least samples.
    pub reference_least: usize,
    /// The most draws of the whole partition.
    pub attempts: u32,
    /// Move samples when no draw gives every client enough.
    pub repair: bool,
}

/// The kinds of partitions that a pipeline may name.
#[must_use]
pub fn variants() -> Vec<Variant> {
    let variant = |name, doc, own: Vec<Field>| Variant { name, doc, revision: 1, fields: own.into_iter().chain(common()).collect() };
    vec![
        variant("iid", "Every client has the label distribution of the whole data set.", iid::fields()),
        variant("pathological", "Every client has only a few classes.", pathological::fields()),
        variant(
            "dirichlet",
            "Each class is shared out by proportions drawn from a symmetric Dirichlet distribution.",
            with_draws(dirichlet::fields()),
        ),
        variant(
            "extended-dirichlet",
            "Every client has a few classes, drawn at random, and each class is shared out among its clients by Dirichlet proportions.",
            with_draws(extended::fields()),
        ),
    ]
}

fn common() -> Vec<Field> {
    vec![
        Field::required("clients", Type::at_least(1), "The number of clients."),
        Field::with("seed", Type::Int { min: 0, max: i64::MAX }, 1, "Seed of the partition; `pfllib` takes 0 to 4294967295.")
            .from("", "PFLlib"),
        Field::with(
            "train_ratio",
            Type::Float { min: Bound::Excl(0.0), max: Bound::Excl(1.0) },
            0.75,
            "The fraction of each client's samples that it trains on; the rest is its test set.",
        )
        .from("", "PFLlib"),
        Field::with("variant", Type::Choice(PROCEDURES), "pfllib", "Whose procedure makes the partition."),
        Field::optional(
            "least_samples",
            Type::at_least(1),
            "The least samples of a client. When absent, PFLlib's rule: for `extended-dirichlet` 10, otherwise the least of \
             10 / (1 - train_ratio) and half a client's mean share.",
        ),
    ]
}

fn with_draws(mut own: Vec<Field>) -> Vec<Field> {
    own.push(Field::optional(
        "max_attempts",
        Type::Int { min: 1, max: i64::from(u32::MAX) },
        "The most draws until every client has `least_samples`; when absent, as many as take about half a second.",
    ));
    own.push(Field::with(
        "repair",
        Type::Bool,
        false,
        "When no draw gives every client enough samples, move some from large clients and say so, instead of failing.",
    ));
    own
}

/// Makes a partition of the samples with these labels.
///
/// # Errors
/// A stage fault when a parameter is wrong, a label is not below `classes`, or no partition of this kind exists.
pub fn build(kind: &str, params: &Map<String, Value>, labels: &[u32], classes: usize) -> Outcome<Partition> {
    let params = Params::new(params, kind);
    let draw: fn(&Request<'_>, &Params<'_>, Option<&mut Legacy>) -> Outcome<Drawn> = match kind {
        "iid" => iid::draw,
        "pathological" => pathological::draw,
        "dirichlet" => dirichlet::draw,
        "extended-dirichlet" => extended::draw,
        _ => {
            let known: Vec<&str> = variants().iter().map(|v| v.name).collect();
            let fault = Fault::stage(format!("there is no partition of kind `{kind}`"));
            return Err(match text::nearest(kind, known.iter().copied()) {
                Some(near) => fault.help(format!("did you mean `{near}`?")),
                None => fault.help(format!("the kinds are {}", text::quoted(known.iter().copied()))),
            });
        }
    };
    let request = Request::read(kind, &params, labels, classes)?;
    let (clients, flags) = match request.procedure {
        Procedure::Pfllib => {
            let seed = u32::try_from(request.seed).map_err(|_| {
                Fault::stage(format!("`seed` is {}, but `variant: pfllib` takes 0 to {}", request.seed, u32::MAX))
                    .help("numpy's generator takes no greater seed; choose another, or `variant: clean`")
            })?;
            // The reference draws the split from the same generator, right after the partition.
            let mut rng = Legacy::new(seed);
            let drawn = draw(&request, &params, Some(&mut rng))?;
            (split::pfllib(&mut rng, drawn.clients, request.ratio)?, drawn.flags)
        }
        Procedure::Clean => {
            let drawn = draw(&request, &params, None)?;
            (split::clean(request.seed, drawn.clients, request.ratio), drawn.flags)
        }
    };
    Partition::new(kind, request.procedure, labels.len(), classes, flags, clients)
}

impl<'a> Request<'a> {
    fn read(kind: &'a str, params: &Params<'_>, labels: &'a [u32], classes: usize) -> Outcome<Self> {
        let clients = params.required("clients", params.count("clients", 1)?)?;
        let ratio = params.number("train_ratio", 0.0, Some(1.0))?.unwrap_or(0.75);
        let least = params.count("least_samples", 1)?;
        if u32::try_from(labels.len()).is_err() {
            return Err(Fault::stage(format!("a partition has at most {} samples, but the data set has {}", u32::MAX, labels.len())));
        }
        if clients > labels.len() {
            return Err(Fault::stage(format!("`clients` is {clients}, but the data set has {} samples", labels.len()))
                .help("choose at most as many clients as there are samples"));
        }
        let mut by_class = vec![Vec::new(); classes];
        for (index, &label) in labels.iter().enumerate() {
            let own = by_class
                .get_mut(label as usize)
                .ok_or_else(|| Fault::stage(format!("sample {index} has label {label}, but the data set has {classes} classes")))?;
            own.push(index as u32);
        }
        let share = labels.len() as f64 / clients as f64 / 2.0;
        let reference_least = (BATCH / (1.0 - ratio)).min(share) as usize;
        let procedure = match params.choice("variant", PROCEDURES)? {
            Some(1) => Procedure::Clean,
            _ => Procedure::Pfllib,
        };
        // About half a second: a sample costs a shuffle, a client and class a gamma draw, which is ten times as much. The clean
        // procedure's own logarithms and streams take twice as long.
        let work = labels.len() + 10 * clients * classes;
        let budget = if procedure == Procedure::Clean { 20_000_000 } else { 40_000_000 };
        let attempts = (budget / work.max(1)).clamp(5, 1000) as u64;
        let attempts = params.integer("max_attempts", 1, u64::from(u32::MAX))?.unwrap_or(attempts);
        let request = Self {
            kind,
            labels,
            by_class,
            clients,
            seed: params.integer("seed", 0, u64::MAX)?.unwrap_or(1),
            ratio,
            procedure,
            least,
            reference_least,
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            repair: params.flag("repair", false)?,
        };
        match request.least {
            Some(least) => request.feasible(least).map(|()| request),
            None => Ok(request),
        }
    }
    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.by_class.len()
    }
    /// The classes that have samples.
    pub fn present(&self) -> Vec<usize> {
        (0..self.classes()).filter(|&class| !self.by_class[class].is_empty()).collect()
    }
    /// Makes sure that there are enough samples for every client to have `least`.
    pub fn feasible(&self, least: usize) -> Outcome<()> {
        let needed = least.saturating_mul(self.clients);
        if needed <= self.labels.len() {
            return Ok(());
        }
        let most = self.labels.len() / self.clients;
        Err(Fault::stage(format!(
            "infeasible: {} with at least {least} samples each need {needed} samples, but the data set has {}",
            text::count(self.clients, "client"),
            self.labels.len()
        ))
        .help(format!("choose fewer clients, or `least_samples` of at most {most}")))
    }
    /// Makes sure that every client has the least samples that were asked for.
    pub fn enough(&self, clients: &[Vec<u32>]) -> Outcome<()> {
        let least = self.least.unwrap_or(0);
        match clients.iter().enumerate().find(|(_, own)| own.len() < least) {
            None => Ok(()),
            Some((id, own)) => Err(Fault::stage(format!(
                "infeasible: client {id} has {}, but `least_samples` is {least}",
                text::count(own.len(), "sample")
            ))
            .help("choose fewer clients, a lower `least_samples`, or `balance: true`")),
        }
    }
    /// The fault of a rule whose draws never gave every client enough samples.
    pub fn exhausted(&self, attempts: u32, best: usize, least: usize) -> Fault {
        Fault::stage(format!("infeasible: in {attempts} draws the smallest client never had {least} samples; the best draw gave it {best}"))
            .at(format!("partition `{}` of {}", self.kind, text::count(self.clients, "client")))
            .help("choose a lower `least_samples`, fewer clients, a greater `alpha` or `max_attempts`, or `repair: true`")
    }
}
