//! Secure aggregation, simulated: the `secure` of a `train` stage.
//!
//! The weighted mean of a round goes through a real protocol, with masks, shares and clients that fall out, in a prime field: so its
//! result, its error by quantisation, the dropouts that it survives and its bytes are those of the protocol. **It protects nobody.**
//! Both sides are one process, keys are small, and randomness follows from the seed; seconds are of a simple network model.

mod cost;
mod field;
mod lightsecagg;
mod quantise;
mod secagg;

use crate::base::random::{Purpose, shuffle, stream};
use crate::base::{Fault, Outcome};
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sends, Sent, World};
use crate::spec::catalog::{Bound, Field as Param, Type, Variant};
use crate::spec::rules::Breach;
use cost::{Cost, NAMES};
use field::Field;
use quantise::Grid;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The name by which uploads are summed in the clear.
pub const NONE: &str = "none";

/// The kinds of `secure` with their parameters.
#[must_use]
pub fn variants() -> Vec<Variant> {
    let with = |own: Vec<Param>| {
        let mut fields = own;
        fields.extend([
            Param::with("bits", Type::Int { min: 1, max: 40 }, 16, "Bits behind the binary point of a quantised parameter.").from("b", ""),
            Param::with(
                "prime",
                Type::Int { min: 3, max: Field::LARGEST as i64 },
                2_147_483_647i64,
                "The prime p of the field; it must exceed 2 m 2^b max|x| for m clients and parameters x.",
            )
            .from("p", "2^31 - 1, so that an element has 4 bytes"),
            Param::with(
                "dropouts",
                Type::Float { min: Bound::Incl(0.0), max: Bound::Excl(1.0) },
                0.0,
                "Fraction of a round's uploading clients, rounded down, that fall out between the sharing of keys and their upload.",
            ),
            Param::with("bandwidth", Type::positive(), 1_000_000.0, "Bytes a second of each client, for the simulated seconds."),
            Param::with("latency", Type::non_negative(), 0.1, "Simulated seconds of a message and its answer."),
        ]);
        fields
    };
    vec![
        Variant { name: NONE, doc: "Uploads are summed in the clear.", revision: 1, fields: Vec::new() },
        Variant {
            name: "secagg",
            doc: "Masks of pairs of clients that cancel, and secret shares for those that fall out (Bonawitz et al., CCS 2017).",
            revision: 1,
            fields: with(vec![
                Param::optional(
                    "threshold",
                    Type::at_least(2),
                    "Clients that must survive; fewer together learn nothing. When absent, the first whole number above two thirds of a \
                     round's.",
                )
                .from("t", ""),
            ]),
        },
        Variant {
            name: "lightsecagg",
            doc: "One mask for each client, whose sum is recovered from coded pieces (So et al., MLSys 2022).",
            revision: 1,
            fields: with(vec![
                Param::optional(
                    "privacy",
                    Type::at_least(0),
                    "Clients that together learn nothing; when absent, half of a round's, rounded down.",
                )
                .from("T", "the paper"),
                Param::optional(
                    "recovery",
                    Type::at_least(1),
                    "Clients that must survive, more than `privacy`; when absent, seven tenths of a round's, or `privacy` and one more.",
                )
                .from("U", "the paper"),
            ]),
        },
    ]
}

/// The protocol that `params` (its `kind` and every parameter) describe, with keys and dropouts of the simulation's sampling seed;
/// absent where there is none.
///
/// # Errors
/// A stage fault that names the rule which does not hold.
pub fn build(params: &Map<String, Value>, world: &World) -> Outcome<Option<Box<dyn Intervention>>> {
    if params.get("kind").and_then(Value::as_str) == Some(NONE) {
        return Ok(None);
    }
    let params: Params = serde_json::from_value(Value::Object(params.clone()))
        .map_err(|e| Fault::stage(format!("the parameters of `secure` do not fit: {e}")))?;
    let field = field_of(params.prime)?;
    params.rule(world.uploads())?;
    Ok(Some(Box::new(Secure { grid: Grid { field, bits: params.bits }, seed: world.settings.sampling_seed, params })))
}

/// What can be known to be wrong before anything runs: parameters that do not go together, algorithms that send more than is summed, a
/// `defence` beside it, a model that keeps running `statistics`, and in rounds of so many `uploads`, where that is known, too few that
/// survive.
#[must_use]
pub fn rules(params: &Map<String, Value>, sends: Sends, uploads: Option<usize>, defence: Option<&str>, statistics: bool) -> Vec<Breach> {
    let kind = params.get("kind").and_then(Value::as_str).unwrap_or(NONE);
    if kind == NONE {
        return Vec::new();
    }
    let mut checks = vec![("", only_averaged(kind, sends))];
    if statistics && sends == Sends::Averaged {
        checks.push(("", no_statistics(kind)));
    }
    if let Some(defence) = defence {
        checks.push(("", goes_with(kind, defence)));
    }
    if let Ok(params) = serde_json::from_value::<Params>(Value::Object(params.clone())) {
        checks.push(("prime", field_of(params.prime).map(drop)));
        match uploads {
            None => {
                if let (Some(private), Some(needed)) = (params.privacy, params.recovery) {
                    checks.push(("recovery", pieces(private as u64, needed as u64)));
                }
            }
            Some(uploads) => match params.rule(uploads) {
                Err(fault) => checks.push(("", Err(fault))),
                Ok(rule) => {
                    checks.push(("dropouts", params.survive(&rule, uploads)));
                    checks.push(("dropouts", params.anyone_drops(uploads)));
                }
            },
        }
    }
    let mut breaches: Vec<Breach> = checks.into_iter().filter_map(|(path, check)| Some(Breach::new(path, check.err()?))).collect();
    if let (true, Some(uploads), Ok(params)) =
        (breaches.is_empty(), uploads, serde_json::from_value::<Params>(Value::Object(params.clone())))
    {
        breaches.extend(params.narrow(uploads));
    }
    breaches
}

/// Refuses a defence, which would have to look at single updates.
fn goes_with(name: &str, defence: &str) -> Outcome<()> {
    Err(Fault::stage(format!("`{name}` cannot go with `{defence}`: a defence looks at single updates, and the server has only their sum"))
        .help("leave one of them out"))
}

/// Primes to suggest, ascending: just below 2^15, and two Mersenne primes.
const PRIMES: [u64; 3] = [32_749, 2_147_483_647, 2_305_843_009_213_693_951];

fn field_of(prime: u64) -> Outcome<Field> {
    Field::new(prime).ok_or_else(|| {
        let [small, middle, large] = PRIMES;
        Fault::stage(format!("`prime` of `secure` is {prime}, which is not a prime")).help(format!("try {small}, {middle} or {large}"))
    })
}

fn pieces(private: u64, needed: u64) -> Outcome<()> {
    if private < needed {
        return Ok(());
    }
    Err(Fault::stage(format!("`privacy` {private} of `secure` must be below `recovery` {needed}"))
        .help("the pieces of a mask are `recovery` - `privacy`"))
}

fn no_statistics(name: &str) -> Outcome<()> {
    Err(Fault::stage(format!("`{name}` does not apply: it does not sum the running statistics of the model's normalisation layers"))
        .help("use a model without batch normalisation"))
}

fn only_averaged(name: &str, sends: Sends) -> Outcome<()> {
    let sentence = match sends {
        Sends::Averaged => return Ok(()),
        Sends::AveragedAnd(also) => format!("it sums the averaged parameters, but not {also}"),
        Sends::Models(reason) | Sends::Other(reason) => format!("the algorithm {reason}"),
    };
    Err(Fault::stage(format!("`{name}` does not apply: {sentence}")).help("use an algorithm whose clients send averaged parameters only"))
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    kind: Kind,
    bits: u32,
    prime: u64,
    dropouts: f64,
    bandwidth: f64,
    latency: f64,
    threshold: Option<usize>,
    privacy: Option<usize>,
    recovery: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    SecAgg,
    LightSecAgg,
}

struct Secure {
    params: Params,
    grid: Grid,
    seed: u64,
}

/// The numbers of clients that matter in a round.
enum Rule {
    Threshold(usize),
    Coded { private: usize, needed: usize },
}

impl Params {
    /// How many of `uploads` fall out.
    fn dropped(&self, uploads: usize) -> usize {
        (self.dropouts * uploads as f64) as usize
    }
    /// Refuses a fraction of dropouts that is above 0, but of so many uploads no client.
    fn anyone_drops(&self, uploads: usize) -> Outcome<()> {
        if self.dropouts <= 0.0 || self.dropped(uploads) > 0 {
            return Ok(());
        }
        Err(Fault::stage(format!("`dropouts` {} of {uploads} clients is none, rounded down: nobody would fall out", self.dropouts))
            .help(format!("raise `dropouts` to {:.3} or more; 0 is without dropouts", 1.0 / uploads as f64)))
    }
    /// A warning of numbers that cannot hold what parameters usually are.
    fn narrow(&self, uploads: usize) -> Option<Breach> {
        let grid = Grid { field: field_of(self.prime).ok()?, bits: self.bits };
        let fault = grid.holds(uploads, 1.0).err()?;
        let most = ((self.prime as f64 / (2.0 * uploads as f64) - 0.5) / f64::from(self.bits).exp2()).max(0.0);
        let what = format!(
            "`prime` {} and `bits` {} hold sums of {uploads} clients only of parameters up to {most:.5}; the run ends at the first greater one",
            self.prime, self.bits
        );
        let help = fault.help.unwrap_or_else(|| "use a greater `prime`, or fewer `bits`".to_owned());
        Some(Breach::warning("prime", Fault::stage(what).help(help)))
    }
    /// Refuses more dropouts than a round of so many uploads survives.
    fn survive(&self, rule: &Rule, uploads: usize) -> Outcome<()> {
        let (name, needed) = match rule {
            Rule::Threshold(threshold) => ("threshold", *threshold),
            Rule::Coded { needed, .. } => ("recovery", *needed),
        };
        let left = uploads - self.dropped(uploads);
        if left >= needed {
            return Ok(());
        }
        Err(Fault::stage(format!(
            "with `dropouts` {} only {left} of {uploads} clients send their masked update, but `{name}` {needed} of them are needed to take \
             the masks off",
            self.dropouts
        ))
        .help(format!("lower `dropouts` or `{name}`")))
    }
    /// The rule for a round with this many uploads.
    fn rule(&self, uploads: usize) -> Outcome<Rule> {
        if uploads < 2 {
            let what = if uploads == 0 {
                "no upload arrives in a round: there is nothing to sum"
            } else {
                "a single client uploads in a round, and a sum of one upload is that upload: nothing would be hidden"
            };
            return Err(Fault::stage(what).help("let more clients take part, lower `drop_rate`, or leave `secure` out"));
        }
        let most = |name: &str, value: usize| {
            if value <= uploads {
                return Ok(value);
            }
            Err(Fault::stage(format!("`{name}` of `secure` is {value}, but only {uploads} clients upload in a round"))
                .help(format!("lower `{name}`, or let more clients take part")))
        };
        match self.kind {
            Kind::SecAgg => Ok(Rule::Threshold(match self.threshold {
                Some(threshold) => most("threshold", threshold)?,
                None => (2 * uploads / 3 + 1).min(uploads),
            })),
            Kind::LightSecAgg => {
                let private = self.privacy.unwrap_or(uploads / 2);
                let needed = self.recovery.unwrap_or_else(|| (uploads * 7 / 10).max(private + 1));
                pieces(private as u64, needed as u64)?;
                Ok(Rule::Coded { private, needed: most("recovery", needed)? })
            }
        }
    }
}

impl Intervention for Secure {
    fn name(&self) -> &'static str {
        match self.params.kind {
            Kind::SecAgg => "secagg",
            Kind::LightSecAgg => "lightsecagg",
        }
    }
    fn place(&self) -> Place {
        Place::Secure
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    fn fits(&self, world: &World, sends: Sends) -> Outcome<()> {
        only_averaged(self.name(), sends)?;
        if !world.initial.buffers.values.is_empty() {
            return no_statistics(self.name());
        }
        match world.interventions.iter().find(|other| other.place() == Place::Defence) {
            Some(other) => goes_with(self.name(), other.name()),
            None => Ok(()),
        }
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, memory: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let n = sent.len();
        let rule = self.params.rule(n)?;
        let greatest = sent.iter().flat_map(|sent| sent.params.iter()).fold(0.0f64, |most, v| most.max(f64::from(v.abs())));
        if sent.iter().any(|sent| sent.params.iter().any(|v| !v.is_finite())) {
            // No element stands for it, and the training is lost anyway.
            return Ok(Some(vec![f32::NAN; exchange.reference.len()]));
        }
        self.grid.holds(n, greatest)?;
        // Weights of at most 1, so that the rule of the field is about the parameters alone.
        let heaviest = sent.iter().map(|sent| sent.samples).max().unwrap_or(1).max(1) as f64;
        let weight = |sent: &Sent| if exchange.equal { 1.0 } else { sent.samples as f64 / heaviest };
        let quantise = |sent: &Sent| {
            let weight = weight(sent);
            sent.params.iter().map(|v| self.grid.element(weight * f64::from(*v))).collect::<Vec<u64>>()
        };
        let vectors: Vec<Vec<u64>> = sent.iter().map(quantise).collect();

        let mut rng = stream(self.seed, Purpose::Secure, 0, exchange.round, 0);
        let mut order: Vec<usize> = (0..n).collect();
        shuffle(&mut rng, &mut order);
        let mut survives = vec![true; n];
        let dropped = self.params.dropped(n);
        order[..dropped].iter().for_each(|u| survives[*u] = false);

        let mut cost = Cost::new(self.params.bandwidth, self.params.latency);
        cost.dropped = dropped as f64;
        let sum = match rule {
            Rule::Threshold(threshold) => secagg::sum(self.grid.field, &vectors, &survives, threshold, &mut rng, &mut cost),
            Rule::Coded { private, needed } => {
                lightsecagg::sum(self.grid.field, &vectors, &survives, (private, needed), &mut rng, &mut cost)
            }
        }
        .map_err(|fault| fault.at(format!("round {}", exchange.round + 1)))?;
        memory.numbers.resize(NAMES.len(), 0.0);
        memory.numbers.iter_mut().zip(cost.numbers()).for_each(|(total, number)| *total += number);

        let mut survivor = survives.iter();
        sent.retain(|_| survivor.next().copied().unwrap_or(false));
        let total: f64 = sent.iter().map(weight).sum();
        if total == 0.0 {
            return Err(Fault::stage(format!("round {}: no client that is left has a training sample", exchange.round + 1))
                .help("lower `dropouts`, or give the clients more samples in the partition"));
        }
        Ok(Some(sum.into_iter().map(|element| (self.grid.number(element) / total) as f32).collect()))
    }
    fn figures(&self, _: &World, _: u64, memory: &Memory) -> Vec<(&'static str, f64)> {
        let up = memory.numbers.iter().take(3).sum();
        NAMES.into_iter().zip(memory.numbers.iter().copied()).chain([("secure_bytes_up", up)]).collect()
    }
}
