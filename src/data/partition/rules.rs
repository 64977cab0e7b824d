//! The partition rules by name: what a pipeline may ask of each, and the checks that all share.
//!
//! Adding a rule is one file and one entry here.

use super::super::params::Params;
use super::numpy::Legacy;
use super::pool::{HOLD_OUT, ORIGINAL, POOLS, Pool, TESTS};
use super::population::Population;
use super::request::Request;
use super::{
    Client, Drawn, Partition, Procedure, dirichlet, extended, feature_noise, iid, imported, known, label_count, mixture, natural, pachinko,
    pathological, power_law, quantity, regions, split,
};
use crate::base::random::{Purpose, shuffle, stream};
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Bound, Field, Type, Variant, When};
use serde_json::{Map, Value};
use std::path::PathBuf;

type Words = &'static [(&'static str, &'static str)];
const PFLLIB: Words = &[Procedure::Pfllib.describe(), Procedure::Clean.describe()];
const PFLLIB_FEDML: Words = &[Procedure::Pfllib.describe(), Procedure::Clean.describe(), Procedure::Fedml.describe()];
const FEDML: Words = &[Procedure::Fedml.describe(), Procedure::Clean.describe()];
const FEDLAB: Words = &[Procedure::Fedlab.describe(), Procedure::Clean.describe()];
const NIID_BENCH: Words = &[Procedure::NiidBench.describe(), Procedure::Clean.describe()];
const PROFED: Words = &[Procedure::Clean.describe(), Procedure::Profed.describe()];

/// A kind of partition.
pub(super) struct Rule {
    pub(super) name: &'static str,
    doc: &'static str,
    /// Whose procedures there are, the default first; empty when there is no choice.
    pub(super) variants: Words,
    fields: fn() -> Vec<Field>,
    draw: fn(&Request<'_>, &Params<'_>, Option<&mut Legacy>) -> Outcome<Drawn>,
    /// Whether it may draw again until every client has enough.
    draws: bool,
    pub(super) has: Has,
}

/// Which of the common parameters a rule has.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Has {
    /// All of them, and the number of clients must be said.
    All,
    /// All of them; without a number of clients there is one for each group.
    Groups,
    /// None but the seed and the ratio of the split: the rule itself splits into training and test samples.
    Split,
    /// Nothing but those of lists that are not split yet.
    Lists,
}

const RULES: [Rule; 12] = [
    Rule {
        name: "iid",
        doc: "Every client has the label distribution of the whole data set.",
        variants: PFLLIB_FEDML,
        fields: iid::fields,
        draw: iid::draw,
        draws: false,
        has: Has::All,
    },
    Rule {
        name: "pathological",
        doc: "Every client has only a few classes.",
        variants: PFLLIB,
        fields: pathological::fields,
        draw: pathological::draw,
        draws: false,
        has: Has::All,
    },
    Rule {
        name: "dirichlet",
        doc: "Each class is shared out by proportions drawn from a symmetric Dirichlet distribution.",
        variants: PFLLIB_FEDML,
        fields: dirichlet::fields,
        draw: dirichlet::draw,
        draws: true,
        has: Has::All,
    },
    Rule {
        name: "extended-dirichlet",
        doc: "Every client has a few classes, drawn at random, and each class is shared out among its clients by Dirichlet proportions.",
        variants: PFLLIB,
        fields: extended::fields,
        draw: extended::draw,
        draws: true,
        has: Has::All,
    },
    Rule {
        name: "natural",
        doc: "Every client is one of the data set's own: a subject, a writer, a speaker, a hospital, a domain.",
        variants: PFLLIB,
        fields: natural::fields,
        draw: natural::draw,
        draws: false,
        has: Has::Groups,
    },
    Rule {
        name: "mixture",
        doc: "Every client draws its own mixture of classes from a symmetric Dirichlet distribution, and its samples one by one from that.",
        variants: FEDLAB,
        fields: mixture::fields,
        draw: mixture::draw,
        draws: false,
        has: Has::All,
    },
    Rule {
        name: "label-count",
        doc: "Every client has a number of classes, its own one and others drawn at random; each class is shared out evenly.",
        variants: NIID_BENCH,
        fields: label_count::fields,
        draw: label_count::draw,
        draws: false,
        has: Has::All,
    },
    Rule {
        name: "quantity",
        doc: "Clients differ in size only: sizes are proportional to a symmetric Dirichlet draw, labels are independent of the client.",
        variants: NIID_BENCH,
        fields: quantity::fields,
        draw: quantity::draw,
        draws: false,
        has: Has::All,
    },
    Rule {
        name: "power-law",
        doc: "Every client has two neighboring classes, and sizes follow a log-normal law: FedProx's and FedML's MNIST.",
        variants: FEDML,
        fields: power_law::fields,
        draw: power_law::draw,
        draws: false,
        has: Has::All,
    },
    Rule {
        name: "pachinko",
        doc: "For data sets with two levels of classes, such as CIFAR-100: every client draws coarse classes, and fine ones within them.",
        variants: &[],
        fields: pachinko::fields,
        draw: pachinko::draw,
        draws: false,
        has: Has::All,
    },
    Rule {
        name: "feature-noise",
        doc: "Labels as in an even split, but each client's samples carry noise of its own strength, from none to `noise`: NIID-Bench's \
              feature skew. The noise is drawn once.",
        variants: &[],
        fields: feature_noise::fields,
        draw: feature_noise::draw,
        draws: false,
        has: Has::All,
    },
    Rule {
        name: "regions",
        doc: "ProFed's: regions differ, the devices of one region are alike. Devices are the clients, numbered region by region.",
        variants: PROFED,
        fields: regions::fields,
        draw: regions::draw,
        draws: false,
        has: Has::Split,
    },
];

const IMPORTED: Rule = Rule {
    name: "imported",
    doc: "Clients as somebody else made them: those that came with an added data set, or index lists in a file of json or npz.",
    variants: &[],
    fields: imported::fields,
    draw: imported::draw,
    draws: false,
    has: Has::Lists,
};

fn rules() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().chain([&IMPORTED])
}

/// The rule of that name.
pub(super) fn named(kind: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.name == kind)
}

impl Rule {
    /// Whether a pipeline may give it that parameter.
    pub(super) fn takes(&self, name: &str) -> bool {
        fields(self).iter().any(|field| field.name == name)
    }
    /// Whose procedure a word stands for; the default without one.
    pub(super) fn procedure(&self, variant: Option<&str>) -> Procedure {
        let word = variant.or(self.variants.first().map(|(word, _)| *word));
        word.and_then(Procedure::named).unwrap_or(Procedure::Clean)
    }
}

/// The kinds of partitions that a pipeline may name.
#[must_use]
pub fn variants() -> Vec<Variant> {
    rules().map(|rule| Variant { name: rule.name, doc: rule.doc, revision: 1, fields: fields(rule) }).collect()
}

fn fields(rule: &Rule) -> Vec<Field> {
    let mut all = (rule.fields)();
    if rule.draws {
        all.extend(until_enough());
    }
    if rule.has == Has::All || rule.has == Has::Split {
        all.push(Field::required("clients", Type::at_least(1), "The number of clients."));
    }
    all.push(
        Field::with(
            "seed",
            Type::Int { min: 0, max: i64::MAX },
            1,
            "Seed of the partition; all variants but `clean` take 0 to 4294967295.",
        )
        .from("", "PFLlib"),
    );
    all.push(train_ratio(rule));
    if let Some((default, _)) = rule.variants.first() {
        all.push(Field::with("variant", Type::Choice(rule.variants), *default, "Whose procedure makes the partition."));
    }
    if matches!(rule.has, Has::All | Has::Groups) {
        all.push(Field::optional(
            "least_samples",
            Type::at_least(1),
            if rule.has == Has::Groups {
                "Groups with fewer samples are left out."
            } else {
                "The least samples of a client. When absent, that of the reference: PFLlib's is the least of 10 / (1 - train_ratio) and \
                 half a client's mean share, but 10 for `extended-dirichlet`; that of FedML and NIID-Bench is 10."
            },
        ));
        all.push(Field::optional(
            "most_samples",
            Type::at_least(1),
            "The most samples of a client, before its split; which of the others are left out is drawn at random.",
        ));
        let later = |field: Field, value: Value| Field { introduced: Some(value), ..field };
        let pool = Field::with("pool", Type::Choice(POOLS), "all", "Which samples are given to clients.");
        all.push(later(pool, "all".into()));
        let hold_out = Type::Float { min: Bound::Incl(0.0), max: Bound::Excl(1.0) };
        let hold_out =
            Field::with("hold_out", hold_out, 0.0, "The fraction of the samples of each class that no client gets: a global test set.");
        all.push(later(hold_out, 0.0.into()));
        let test = Field::with("test", Type::Choice(TESTS), "split", "Where a client's test set comes from.");
        all.push(later(test, "split".into()));
    }
    all
}

/// The ratio of the split; some rules also take from it how many samples a client has at least, where nobody says that.
fn train_ratio(rule: &Rule) -> Field {
    let ratio = Field::with(
        "train_ratio",
        Type::Float { min: Bound::Excl(0.0), max: Bound::Excl(1.0) },
        0.75,
        "The fraction of each client's samples that it trains on; the rest is its test set.",
    )
    .from("", "PFLlib");
    let split = ("test", When::Is(&["split"]));
    let or_no_least = vec![split, ("least_samples", When::Absent)];
    match (rule.has, rule.name) {
        (Has::Split, _) => ratio,
        // Clients that came with the data set are split already.
        (Has::Lists, _) => ratio.read_with("file", When::Given),
        (_, "iid") => ratio
            .read_with_any(or_no_least)
            .read_with_any(vec![split, ("variant", When::Is(&["pfllib"]))])
            .read_with_any(vec![split, ("balance", When::Is(&["false"]))]),
        (_, "pathological") => ratio.read_with_any(or_no_least).read_with_any(vec![split, ("balance", When::Is(&["false"]))]),
        (_, "dirichlet") => ratio.read_with_any(or_no_least).read_with_any(vec![split, ("variant", When::Is(&["pfllib", "clean"]))]),
        _ => ratio.read_with_any(vec![split]),
    }
}

/// The most draws that may be asked for; more would take hours, and what a million do not give no others will.
pub(super) const MOST_ATTEMPTS: u64 = 1_000_000;

fn until_enough() -> [Field; 2] {
    [
        Field::optional(
            "max_attempts",
            Type::Int { min: 1, max: MOST_ATTEMPTS as i64 },
            "The most draws until every client has `least_samples`; when absent, as many as take about half a second.",
        ),
        Field::with(
            "repair",
            Type::Bool,
            false,
            "When no draw gives every client enough samples, move some from large clients and say so, instead of failing.",
        ),
    ]
}

/// Makes a partition of the samples with these labels, of which nothing else is known.
///
/// # Errors
/// As [`build_from`].
pub fn build(kind: &str, params: &Map<String, Value>, labels: &[u32], classes: usize) -> Outcome<Partition> {
    build_from(kind, params, &Population::of_labels(labels, classes), &[])
}

/// Makes a partition of a population; `folders` are where the files of imported partitions are looked for.
///
/// # Errors
/// A stage fault when a parameter is wrong, a label is not below `classes`, or no partition of this kind exists; a storage fault
/// when an imported file cannot be used.
pub fn build_from(kind: &str, params: &Map<String, Value>, population: &Population<'_>, folders: &[PathBuf]) -> Outcome<Partition> {
    let params = Params::new(params, kind);
    let Some(rule) = named(kind) else {
        let fault = Fault::stage(format!("there is no partition of kind `{kind}`"));
        return Err(match text::nearest(kind, rules().map(|rule| rule.name)) {
            Some(near) => fault.help(format!("did you mean `{near}`?")),
            None => fault.help(format!("the kinds are {}", text::quoted(rules().map(|rule| rule.name)))),
        });
    };
    if u32::try_from(population.labels.len()).is_err() {
        let what = format!("a partition has at most {} samples, but the data set has {}", u32::MAX, population.labels.len());
        return Err(Fault::stage(what));
    }
    if population.superclasses.len() != if population.superclasses.is_empty() { 0 } else { population.classes } {
        return Err(Fault::stage("the superclasses are not those of the classes"));
    }
    if let Some(breach) = known::too_large(params.map()).into_iter().next() {
        return Err(breach.fault);
    }
    let pool = Pool::of(&params, population)?;
    let labels: Vec<u32> = pool.pick(population.labels);
    let groups: Vec<u32> = population.groups.map(|groups| pool.pick(&groups.of)).unwrap_or_default();
    let request = Request::read(rule, &params, population, &pool, &labels, &groups, folders)?;
    let (mut clients, mut flags, own) = drawn(rule, &request, &params, pool.test)?;
    if let Some((hold_out, shared)) = own {
        // A rule that holds out by itself has the whole data set as its pool.
        let (samples, classes) = (population.labels.len(), population.classes);
        return Partition::with_hold_out(kind, request.procedure, samples, classes, flags, clients, hold_out, shared);
    }
    for index in clients.iter_mut().flat_map(|client| client.train.iter_mut().chain(&mut client.test)) {
        *index = pool.samples[*index as usize];
    }
    flags.held_out = pool.hold_out.len() as u64;
    let (samples, classes) = (population.labels.len(), population.classes);
    let shared = pool.test == HOLD_OUT;
    Partition::with_hold_out(kind, request.procedure, samples, classes, flags, clients, pool.hold_out, shared)
}

/// Samples that are held out, and whether they are every client's test set.
type HeldOut = Option<(Vec<u32>, bool)>;

/// The rule's clients with training and test sets, as positions among the samples that are given out; and what a rule of lists holds
/// out by itself.
fn drawn(rule: &Rule, request: &Request<'_>, params: &Params<'_>, test: usize) -> Outcome<(Vec<Client>, super::Flags, HeldOut)> {
    let mut legacy = match request.procedure {
        Procedure::Clean => None,
        _ => {
            known::seed(rule, params.map())?;
            Some(Legacy::new(request.seed as u32))
        }
    };
    let Drawn { mut clients, tests, mut flags, hold_out, shared_test } = (rule.draw)(request, params, legacy.as_mut())?;
    let held = (!hold_out.is_empty()).then_some((hold_out, shared_test));
    if let Some(tests) = tests {
        return Ok((clients.into_iter().zip(tests).map(|(train, test)| Client { train, test }).collect(), flags, held));
    }
    if let Some(most) = params.count("most_samples", 1)? {
        known::limits(params.map())?;
        flags.left_out += limit(&mut clients, most, request.seed);
    }
    let clients = match (test, legacy) {
        (ORIGINAL, _) => {
            let of = |own: Vec<u32>| {
                let (train, test) = own.into_iter().partition(|&i| request.is_training(i));
                Client { train, test }
            };
            clients.into_iter().map(of).collect()
        }
        (HOLD_OUT, _) => clients.into_iter().map(|train| Client { train, test: Vec::new() }).collect(),
        // The reference draws the split from the same generator, right after the partition.
        (_, Some(mut rng)) if request.procedure == Procedure::Pfllib => split::pfllib(&mut rng, clients, request)?,
        _ => split::clean(request.seed, clients, request.ratio),
    };
    Ok((clients, flags, None))
}

/// Leaves out at random what a client has beyond `most`; the rest keeps its order. Returns how many are left out.
fn limit(clients: &mut [Vec<u32>], most: usize, seed: u64) -> u64 {
    let mut left_out = 0;
    for (id, own) in clients.iter_mut().enumerate().filter(|(_, own)| own.len() > most) {
        let mut places: Vec<usize> = (0..own.len()).collect();
        shuffle(&mut stream(seed, Purpose::Partition, u64::MAX, id as u64, 0), &mut places);
        places.truncate(most);
        places.sort_unstable();
        left_out += (own.len() - most) as u64;
        *own = places.into_iter().map(|place| own[place]).collect();
    }
    left_out
}
