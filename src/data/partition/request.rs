//! What a rule is asked for, what it may ask back, and the faults of what cannot be met.
//!
//! A fault names only parameters that the rule has, and only those that are not as it advises already.

use super::super::dataset::Groups;
use super::super::params::Params;
use super::Procedure;
use super::pool::Pool;
use super::population::{Population, Stop};
use super::rules::{Has, MOST_ATTEMPTS, Rule};
use crate::base::{Fault, Outcome, memory, text};
use std::path::PathBuf;

const BATCH: f64 = 10.0;

/// What all rules are asked for, and the labels they work on.
pub(super) struct Request<'a> {
    pub rule: &'static Rule,
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
    /// Asked before each draw.
    pub stop: Stop<'a>,
    /// Move samples when no draw gives every client enough.
    pub repair: bool,
    /// The names of the groups and the group of each sample, where the data set has groups.
    pub groups: Option<(&'a Groups, &'a [u32])>,
    /// The class above each class, where the data set has two levels; empty otherwise.
    pub superclasses: &'a [u32],
    /// Where imported files are looked for.
    pub folders: &'a [PathBuf],
    /// The position in the data set of each sample that is given out.
    pub positions: &'a [u32],
    /// Samples of the data set before this position are original training samples.
    train: u32,
    /// The samples of the data set, those that are held out included.
    all: usize,
    /// The parameter `hold_out`, and `most_samples` where it is set.
    hold_out: f64,
    most: Option<usize>,
}

impl<'a> Request<'a> {
    pub fn read(
        rule: &'static Rule,
        params: &Params<'_>,
        population: &Population<'a>,
        pool: &'a Pool,
        labels: &'a [u32],
        groups: &'a [u32],
        folders: &'a [PathBuf],
    ) -> Outcome<Self> {
        let classes = population.classes;
        let groups = population.groups.map(|all| (all, groups));
        let clients = params.count("clients", 1)?;
        let clients = match rule.has {
            Has::All | Has::Split => params.required("clients", clients)?,
            Has::Groups | Has::Lists => clients.or(groups.map(|(all, _)| all.names.len())).unwrap_or(1),
        };
        let ratio = params.number("train_ratio", 0.0, Some(1.0))?.unwrap_or(0.75);
        let least = params.count("least_samples", 1)?;
        let mut by_class = vec![Vec::new(); classes];
        for (index, &label) in labels.iter().enumerate() {
            let own = by_class
                .get_mut(label as usize)
                .ok_or_else(|| Fault::stage(format!("sample {index} has label {label}, but the data set has {classes} classes")))?;
            own.push(index as u32);
        }
        let share = labels.len() as f64 / clients as f64 / 2.0;
        let reference_least = (BATCH / (1.0 - ratio)).min(share) as usize;
        params.choice("variant", rule.variants)?;
        let procedure = rule.procedure(params.text("variant")?);
        // About half a second: a sample costs a shuffle, a client and class a gamma draw, which is ten times as much. The clean
        // procedure's own logarithms and streams take twice as long.
        let work = labels.len() + 10 * clients * classes;
        let budget = if procedure == Procedure::Clean { 20_000_000 } else { 40_000_000 };
        let attempts = (budget / work.max(1)).clamp(5, 1000) as u64;
        let attempts = params.integer("max_attempts", 1, MOST_ATTEMPTS)?.unwrap_or(attempts);
        let request = Self {
            rule,
            labels,
            by_class,
            clients,
            seed: params.integer("seed", 0, u64::MAX)?.unwrap_or(1),
            ratio,
            procedure,
            least,
            reference_least,
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            stop: population.stop,
            repair: params.flag("repair", false)?,
            groups,
            superclasses: population.superclasses,
            folders,
            positions: &pool.samples,
            train: population.train as u32,
            all: population.labels.len(),
            hold_out: params.number("hold_out", -f64::MIN_POSITIVE, Some(1.0))?.unwrap_or_default(),
            most: params.count("most_samples", 1)?,
        };
        let named = !matches!(rule.has, Has::Groups | Has::Lists) || (rule.has == Has::Groups && params.count("clients", 1)?.is_some());
        if clients > labels.len() && named {
            let what = format!("`clients` is {clients}, but {}", request.there());
            return Err(Fault::stage(what).help(request.help(&["at most as many clients as there are samples"])));
        }
        // One number for each client and class at least, in what the manifest says of it.
        let table = (clients as u64).saturating_mul(classes as u64).saturating_mul(8);
        memory::demand_or(table, &format!("a partition of {clients} clients and {classes} classes"), "choose fewer clients")?;
        match request.least {
            Some(least) if rule.has == Has::All => request.feasible(least).map(|()| request),
            _ => Ok(request),
        }
    }
    /// The same request for another number of clients.
    pub fn of_clients(&self, clients: usize) -> Self {
        Self { clients, by_class: self.by_class.clone(), ..*self }
    }
    /// Whether the sample is one of the original training set.
    pub fn is_training(&self, sample: u32) -> bool {
        self.positions[sample as usize] < self.train
    }
    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.by_class.len()
    }
    /// The classes that have samples.
    pub fn present(&self) -> Vec<usize> {
        (0..self.classes()).filter(|&class| !self.by_class[class].is_empty()).collect()
    }
    /// How many samples there are to give out, and why not all of the data set's.
    fn there(&self) -> String {
        let n = self.labels.len();
        match (n == self.all, self.hold_out > 0.0) {
            (true, _) => format!("the data set has {}", text::count(n, "sample")),
            (false, false) => format!("the original training set has {}", text::count(n, "sample")),
            (false, true) => format!("`hold_out: {}` leaves {n} of {} samples", self.hold_out, self.all),
        }
    }
    /// What to choose: one of these, and less of what is held out where that is most.
    pub fn help(&self, ways: &[&str]) -> String {
        let held = (self.hold_out >= 0.5).then_some("a lower `hold_out`");
        let all: Vec<&str> = held.into_iter().chain(ways.iter().copied()).collect();
        match all.as_slice() {
            [rest @ .., last] if !rest.is_empty() => format!("choose {}, or {last}", rest.join(", ")),
            all => format!("choose {}", all.join("")),
        }
    }
    /// Whether the rule has this program's own procedure, and another one was taken.
    fn may_be_clean(&self) -> bool {
        self.procedure != Procedure::Clean && self.rule.variants.iter().any(|(word, _)| *word == Procedure::Clean.describe().0)
    }
    /// Makes sure that there are enough samples for every client to have `least`.
    pub fn feasible(&self, least: usize) -> Outcome<()> {
        let needed = least.saturating_mul(self.clients);
        if needed <= self.labels.len() {
            return Ok(());
        }
        let most = format!("`least_samples` of at most {}", self.labels.len() / self.clients);
        let clients = text::count(self.clients, "client");
        let what = format!("infeasible: {clients} with at least {least} samples each need {needed} samples, but {}", self.there());
        Err(Fault::stage(what).help(self.help(&["fewer clients", &most])))
    }
    /// Makes sure that every client has the least samples that were asked for; `uneven`: whether `balance: true` could help.
    pub fn enough(&self, clients: &[Vec<u32>], uneven: bool) -> Outcome<()> {
        let least = self.least.unwrap_or(0);
        match clients.iter().enumerate().find(|(_, own)| own.len() < least) {
            None => Ok(()),
            Some((id, own)) => {
                let what = format!("infeasible: client {id} has {}, but `least_samples` is {least}", text::count(own.len(), "sample"));
                let mut ways = vec!["fewer clients", "a lower `least_samples`"];
                ways.extend(uneven.then_some("`balance: true`"));
                Err(Fault::stage(what).help(self.help(&ways)))
            }
        }
    }
    /// The fault of a rule whose draws never gave every client `least` samples; `spread` is the parameter by which they differ.
    pub fn exhausted(&self, attempts: u32, best: usize, least: usize, spread: &str) -> Fault {
        let of_regions = self.rule.has == Has::Split;
        let mut ways = Vec::new();
        // Only some rules draw again for the sake of this parameter; others have a number of their own.
        if self.rule.takes("max_attempts") && self.rule.takes("least_samples") && least > 1 {
            ways.push("a lower `least_samples`");
        }
        ways.push(if of_regions { "fewer `regions`" } else { "fewer clients" });
        let spread = format!("a greater `{spread}`");
        ways.push(&spread);
        if self.rule.takes("max_attempts") && u64::from(attempts) < MOST_ATTEMPTS {
            ways.push("a greater `max_attempts`");
        }
        if self.rule.takes("repair") {
            ways.extend((!self.repair).then_some("`repair: true`"));
        } else if self.may_be_clean() {
            ways.push("`variant: clean`");
        }
        let smallest = if of_regions { "region" } else { "client" };
        let what = format!(
            "infeasible: in {} the smallest {smallest} never had {}; the best draw gave it {best}",
            text::count(attempts as usize, "draw"),
            text::count(least, "sample")
        );
        let of = if of_regions { "region" } else { "client" };
        Fault::stage(what).at(format!("partition `{}` of {}", self.rule.name, text::count(self.clients, of))).help(self.help(&ways))
    }
    /// The fault of a client whose `n` samples PFLlib's split cannot make into a training and a test set.
    pub fn too_few(&self, id: usize, n: usize) -> Fault {
        let there = text::count(n, "sample");
        let mut ways = Vec::new();
        let what = if n < 2 {
            format!("client {id} has {there}: too few for a training and a test set")
        } else {
            let few = (self.ratio * (n as f64)) < 1.0;
            let bound = if few { (1.0 / n as f64 * 1e4).ceil() / 1e4 } else { ((1.0 - 1.0 / n as f64) * 1e4).floor() / 1e4 };
            ways.push(format!("a `train_ratio` of at {} {bound}", if few { "least" } else { "most" }));
            let side = if few { "training" } else { "its test set" };
            format!("client {id} has {there}, of which `train_ratio` {} leaves none for {side}", self.ratio)
        };
        if self.most.is_some_and(|most| most <= n) {
            ways.push("a greater `most_samples`".to_owned());
        } else if self.rule.has == Has::Groups {
            ways.push(format!("`least_samples` of at least {}, which leaves smaller groups out", (n + 1).max(2)));
        } else if self.hold_out < 0.5 && n < 2 {
            ways.push("fewer clients".to_owned());
        }
        ways.extend(self.may_be_clean().then(|| "`variant: clean`".to_owned()));
        Fault::stage(what).help(self.help(&ways.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}
