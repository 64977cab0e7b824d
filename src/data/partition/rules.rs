//! The partition rules by name: what a pipeline may ask of each, and the checks that all share.
//!
//! Adding a rule is one file and one entry here.

use super::super::dataset::Groups;
use super::super::params::Params;
use super::numpy::Legacy;
use super::population::{Population, Stop};
use super::{
    Client, Drawn, Partition, Procedure, dirichlet, extended, feature_noise, iid, imported, label_count, mixture, natural, pachinko,
    pathological, power_law, quantity, regions, split,
};
use crate::base::random::{Purpose, shuffle, stream};
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Bound, Field, Type, Variant};
use serde_json::{Map, Value};
use std::path::PathBuf;

const BATCH: f64 = 10.0;

type Words = &'static [(&'static str, &'static str)];
const PFLLIB: Words = &[Procedure::Pfllib.describe(), Procedure::Clean.describe()];
const PFLLIB_FEDML: Words = &[Procedure::Pfllib.describe(), Procedure::Clean.describe(), Procedure::Fedml.describe()];
const FEDML: Words = &[Procedure::Fedml.describe(), Procedure::Clean.describe()];
const FEDLAB: Words = &[Procedure::Fedlab.describe(), Procedure::Clean.describe()];
const NIID_BENCH: Words = &[Procedure::NiidBench.describe(), Procedure::Clean.describe()];
const PROFED: Words = &[Procedure::Clean.describe(), Procedure::Profed.describe()];

/// Which samples are given out.
const POOLS: Words = &[
    ("all", "the original training and test samples together, as PFLlib does"),
    ("train", "only the original training samples, as FedML and NIID-Bench do; the original test samples are held out"),
];
/// Where a client's test set comes from.
const TESTS: Words = &[
    ("split", "a part of the client's samples, by `train_ratio`"),
    ("original", "those of the client's samples that the data set's original split calls test samples"),
    ("hold-out", "the samples that are held out, the same for every client, as FedML has it; all of a client's own are for training"),
];

/// A kind of partition.
struct Rule {
    name: &'static str,
    doc: &'static str,
    /// Whose procedures there are, the default first; empty when there is no choice.
    variants: Words,
    fields: fn() -> Vec<Field>,
    draw: fn(&Request<'_>, &Params<'_>, Option<&mut Legacy>) -> Outcome<Drawn>,
    /// Whether it may draw again until every client has enough.
    draws: bool,
    has: Has,
}

/// Which of the common parameters a rule has.
#[derive(Clone, Copy, PartialEq)]
enum Has {
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

/// What all rules are asked for, and the labels they work on.
pub(super) struct Request<'a> {
    pub kind: &'static str,
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
    all.push(
        Field::with(
            "train_ratio",
            Type::Float { min: Bound::Excl(0.0), max: Bound::Excl(1.0) },
            0.75,
            "The fraction of each client's samples that it trains on; the rest is its test set.",
        )
        .from("", "PFLlib"),
    );
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
    let Some(rule) = rules().find(|rule| rule.name == kind) else {
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

/// The positions in [`TESTS`].
const ORIGINAL: usize = 1;
const HOLD_OUT: usize = 2;

/// The samples that are given out, and those that are not.
struct Pool {
    samples: Vec<u32>,
    hold_out: Vec<u32>,
    /// A position in [`TESTS`].
    test: usize,
}

impl Pool {
    fn of(params: &Params<'_>, population: &Population<'_>) -> Outcome<Self> {
        let only_train = params.choice("pool", POOLS)? == Some(1);
        let test = params.choice("test", TESTS)?.unwrap_or_default();
        let fraction = params.number("hold_out", -f64::MIN_POSITIVE, Some(1.0))?.unwrap_or_default();
        let given = if only_train { population.train } else { population.labels.len() } as u32;
        let mut samples: Vec<u32> = (0..given).collect();
        let mut hold_out: Vec<u32> = (given..population.labels.len() as u32).collect();
        if fraction > 0.0 {
            let seed = params.integer("seed", 0, u64::MAX)?.unwrap_or(1);
            let mut by_class = vec![Vec::new(); population.classes];
            samples.iter().for_each(|&i| {
                if let Some(own) = by_class.get_mut(population.labels[i as usize] as usize) {
                    own.push(i)
                }
            });
            for (class, own) in by_class.iter_mut().enumerate() {
                shuffle(&mut stream(seed, Purpose::Split, u64::MAX, class as u64, 0), own);
                hold_out.extend(&own[..(fraction * own.len() as f64).round() as usize]);
            }
            hold_out.sort_unstable();
            let mut held = vec![false; population.labels.len()];
            hold_out.iter().for_each(|&i| held[i as usize] = true);
            samples.retain(|&i| !held[i as usize]);
        }
        let impossible = |what: &str, help: &str| Err(Fault::stage(what).help(help));
        if only_train && population.train == population.labels.len() {
            return impossible(
                "`pool: train` needs an original test set, but the data set has none",
                "use `hold_out` for a part of the samples",
            );
        }
        if test == HOLD_OUT && hold_out.is_empty() {
            return impossible("`test: hold-out` needs samples that are held out", "say `pool: train`, or `hold_out: 0.1`");
        }
        if test == ORIGINAL && only_train {
            return impossible(
                "`pool: train` gives no client a sample of the original test set",
                "leave `pool` out, or say `test: hold-out`",
            );
        }
        Ok(Self { samples, hold_out, test })
    }
    fn pick(&self, all: &[u32]) -> Vec<u32> {
        self.samples.iter().map(|&i| all[i as usize]).collect()
    }
}

/// Samples that are held out, and whether they are every client's test set.
type HeldOut = Option<(Vec<u32>, bool)>;

/// The rule's clients with training and test sets, as positions among the samples that are given out; and what a rule of lists holds
/// out by itself.
fn drawn(rule: &Rule, request: &Request<'_>, params: &Params<'_>, test: usize) -> Outcome<(Vec<Client>, super::Flags, HeldOut)> {
    let mut legacy = match request.procedure {
        Procedure::Clean => None,
        procedure => {
            let variant = procedure.describe().0;
            let seed = u32::try_from(request.seed).map_err(|_| {
                Fault::stage(format!("`seed` is {}, but `variant: {variant}` takes 0 to {}", request.seed, u32::MAX))
                    .help("numpy's generator takes no greater seed; choose another, or `variant: clean`")
            })?;
            Some(Legacy::new(seed))
        }
    };
    let Drawn { mut clients, tests, mut flags, hold_out, shared_test } = (rule.draw)(request, params, legacy.as_mut())?;
    let held = (!hold_out.is_empty()).then_some((hold_out, shared_test));
    if let Some(tests) = tests {
        return Ok((clients.into_iter().zip(tests).map(|(train, test)| Client { train, test }).collect(), flags, held));
    }
    if let Some(most) = params.count("most_samples", 1)? {
        if request.least.is_some_and(|least| least > most) {
            return Err(Fault::stage(format!("`most_samples` is {most}, which is less than `least_samples`")));
        }
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
        (_, Some(mut rng)) if request.procedure == Procedure::Pfllib => split::pfllib(&mut rng, clients, request.ratio)?,
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

impl<'a> Request<'a> {
    fn read(
        rule: &Rule,
        params: &Params<'_>,
        population: &Population<'a>,
        pool: &'a Pool,
        labels: &'a [u32],
        groups: &'a [u32],
        folders: &'a [PathBuf],
    ) -> Outcome<Self> {
        let (kind, classes) = (rule.name, population.classes);
        let groups = population.groups.map(|all| (all, groups));
        let clients = params.count("clients", 1)?;
        let clients = match rule.has {
            Has::All | Has::Split => params.required("clients", clients)?,
            Has::Groups | Has::Lists => clients.or(groups.map(|(all, _)| all.names.len())).unwrap_or(1),
        };
        let ratio = params.number("train_ratio", 0.0, Some(1.0))?.unwrap_or(0.75);
        let least = params.count("least_samples", 1)?;
        if clients > labels.len() && rule.has != Has::Lists {
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
        let procedure = match rule.variants.get(params.choice("variant", rule.variants)?.unwrap_or_default()) {
            Some((name, _)) => Procedure::named(name).unwrap_or(Procedure::Clean),
            None => Procedure::Clean,
        };
        // About half a second: a sample costs a shuffle, a client and class a gamma draw, which is ten times as much. The clean
        // procedure's own logarithms and streams take twice as long.
        let work = labels.len() + 10 * clients * classes;
        let budget = if procedure == Procedure::Clean { 20_000_000 } else { 40_000_000 };
        let attempts = (budget / work.max(1)).clamp(5, 1000) as u64;
        let attempts = params.integer("max_attempts", 1, MOST_ATTEMPTS)?.unwrap_or(attempts);
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
            stop: population.stop,
            repair: params.flag("repair", false)?,
            groups,
            superclasses: population.superclasses,
            folders,
            positions: &pool.samples,
            train: population.train as u32,
        };
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
    /// Makes sure that every client has the least samples that were asked for; `uneven`: whether `balance: true` could help.
    pub fn enough(&self, clients: &[Vec<u32>], uneven: bool) -> Outcome<()> {
        let least = self.least.unwrap_or(0);
        match clients.iter().enumerate().find(|(_, own)| own.len() < least) {
            None => Ok(()),
            Some((id, own)) => Err(Fault::stage(format!(
                "infeasible: client {id} has {}, but `least_samples` is {least}",
                text::count(own.len(), "sample")
            ))
            .help(if uneven {
                "choose fewer clients, a lower `least_samples`, or `balance: true`"
            } else {
                "choose fewer clients, or a lower `least_samples`"
            })),
        }
    }
    /// The fault of a rule whose draws never gave every client enough samples.
    pub fn exhausted(&self, attempts: u32, best: usize, least: usize) -> Fault {
        let help = match self.kind {
            "quantity" => "choose fewer clients, a greater `beta` or `max_attempts`, or `variant: clean`",
            "regions" => "choose fewer `regions`, a greater `alpha` or `max_attempts`, or `variant: clean`",
            _ => "choose a lower `least_samples`, fewer clients, a greater `alpha` or `max_attempts`, or `repair: true`",
        };
        Fault::stage(format!("infeasible: in {attempts} draws the smallest client never had {least} samples; the best draw gave it {best}"))
            .at(format!("partition `{}` of {}", self.kind, text::count(self.clients, "client")))
            .help(help)
    }
}
