//! What acts on a round from outside the algorithm: threats, privacy, defences, secure aggregation.
//!
//! An intervention never sees an algorithm's types. It acts at four points, and on nothing else:
//!
//! 1. on the samples of a client while it makes batches ([`Intervention::poison`]);
//! 2. on the gradient of a step ([`Intervention::sample_clip`], [`Intervention::gradient`]);
//! 3. on the parameters that the server averages, between their arrival and the aggregation ([`Intervention::sent`]);
//! 4. on the aggregate ([`Intervention::aggregated`]).
//!
//! At each point they act in the order of [`Place`]. Without interventions a round is what it is, bit for bit, and pays nothing.

use super::algorithm::Sends;
use super::batch::Batch;
use super::state::{Item, State, Visitor};
use super::streams::Moment;
use super::world::World;
use crate::base::{Fault, Outcome};
use crate::engine::Params;
use std::collections::BTreeMap;
use std::ops::Range;

/// Where an intervention stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What malicious clients do.
    Threat,
    /// What protects what is sent: noise of clients, clipping of the server.
    Privacy,
    /// What the server does about malicious clients.
    Defence,
    /// The protocol by which uploads are summed.
    Secure,
}

/// What an intervention needs of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it acts on samples or gradients, which every algorithm has.
    Nothing,
    /// That clients send parameters.
    Parameters,
    /// That the server makes a mean of parameters.
    Mean,
}

/// How the success of a threat is tried at an evaluation.
#[derive(Clone, Copy, Debug)]
pub enum Trial<'a> {
    /// Not at all: it only wants to do damage.
    None,
    /// On the test samples of every honest client, altered by [`Intervention::alter`].
    TestSets,
    /// On samples of its own, altered by [`Intervention::alter`] too.
    Own(&'a [Batch]),
}

/// The averaged parameters that one client sent, as the server has them now.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The client's id.
    pub client: usize,
    /// Its number of training samples.
    pub samples: usize,
    /// Its share of the samples of all uploads of the round; for reading only.
    pub weight: f64,
    /// The parameters of the layers that the algorithm averages, one after the other.
    pub params: Params<f32>,
}

/// What an intervention knows of the round in which parameters are exchanged.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The round, from 0.
    pub round: u64,
    /// All rounds of the simulation.
    pub rounds: u64,
    /// All clients, N.
    pub clients: usize,
    /// The nominal size of a cohort.
    pub nominal: usize,
    /// Whether the algorithm's mean gives every upload the same weight, and not that of its samples.
    pub equal: bool,
    /// The server's averaged parameters before this aggregation, in the layout of [`Sent::params`].
    pub reference: &'a [f32],
    /// The name of each averaged layer, and where it stands in those vectors.
    pub entries: &'a [(String, Range<usize>)],
}

/// What an intervention remembers from round to round; part of every checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Vectors by client id, or by any other number.
    pub vectors: BTreeMap<usize, Vec<f32>>,
    /// Numbers.
    pub numbers: Vec<f64>,
}

impl State for Memory {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        self.vectors.visit("vectors", visitor);
        self.numbers.visit("numbers", visitor);
    }
}

/// Predictions by the votes of noisy copies of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smoothing {
    /// How many copies vote, at least 1.
    pub votes: u64,
    /// Standard deviation of the noise on each averaged parameter.
    pub stddev: f64,
    /// Seed of the noise.
    pub seed: u64,
}

/// Something that acts on rounds from outside the algorithm. It is pure: what it remembers is in its [`Memory`], and what it draws
/// comes from `base::random::stream` with a purpose of its own, by client and round.
#[expect(unused_variables, reason = "the defaults do nothing")]
pub trait Intervention: Send + Sync {
    /// Its name in pipelines.
    fn name(&self) -> &'static str;
    /// Where it stands among the others.
    fn place(&self) -> Place;
    /// What it needs of the algorithm.
    fn needs(&self) -> Needs;
    /// Whether the number of rounds enters what it does, so that a longer run cannot continue a shorter one.
    fn horizon(&self) -> bool {
        false
    }
    /// Whether it can do with rounds of so many uploads, asked before the first round, when every upload arrives that should.
    ///
    /// # Errors
    /// A stage fault that names the rule which does not hold.
    fn uploads(&self, uploads: usize) -> Outcome<()> {
        Ok(())
    }
    /// Whether it fits this simulation, asked once before the first round, after [`Needs`] was checked.
    ///
    /// # Errors
    /// A stage fault that names the rule which does not hold.
    fn fits(&self, world: &World, sends: Sends) -> Outcome<()> {
        Ok(())
    }

    /// Changes the batch that a client is about to use in a training, or leaves it alone. It is called for all passes of all
    /// clients but those over test sets.
    fn poison(&self, at: Moment, batch: &mut Batch) {}
    /// The norm to which the gradient of every single sample is clipped before their mean is taken; absent: gradients are of whole
    /// batches. Where it is given, clients may train in no other way than by one plain cross-entropy gradient of each shuffled batch.
    fn sample_clip(&self) -> Option<f32> {
        None
    }
    /// Changes the gradient of a batch of `rows` samples of the `index`-th model of a step, flat as the parameters. It is called for
    /// what clients train, not for evaluations and the server's own work; each call of a client in a round has its own `at`.
    fn gradient(&self, at: Moment, index: usize, rows: usize, gradient: &mut [f32]) {}
    /// Told once a round, after the clients of `cohort` have trained and before anything is aggregated.
    ///
    /// # Errors
    /// A stage fault that names the rule which does not hold.
    fn trained(&self, world: &World, round: u64, cohort: &[usize], memory: &mut Memory) -> Outcome<()> {
        Ok(())
    }
    /// Acts on what arrived: may change parameters and remove uploads, which then count as never sent; their order stays. A vector that is returned
    /// takes the place of the parameters of every upload, so that it is the aggregate whatever weights the algorithm uses.
    ///
    /// # Errors
    /// A stage fault that names the rule which does not hold.
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, memory: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        Ok(None)
    }
    /// Acts on the server's averaged parameters after the aggregation.
    ///
    /// # Errors
    /// A stage fault.
    fn aggregated(&self, exchange: &Exchange<'_>, global: &mut [f32], memory: &mut Memory) -> Outcome<()> {
        Ok(())
    }

    /// How predictions of evaluations are smoothed; absent: models answer themselves.
    fn smoothing(&self) -> Option<Smoothing> {
        None
    }
    /// The clients that are malicious at some time, ascending; measurements of honest clients leave them out.
    fn attackers(&self) -> &[usize] {
        &[]
    }
    /// What somebody should know before the first round, though it is no mistake.
    fn remarks(&self, world: &World) -> Vec<String> {
        Vec::new()
    }
    /// How its success is tried.
    fn trial(&self) -> Trial<'_> {
        Trial::None
    }
    /// Alters a batch for a trial. The answer has, for each row, the label that the threat wants predicted, or nothing where the row
    /// is not counted.
    fn alter(&self, batch: &mut Batch) -> Vec<Option<u32>> {
        vec![None; batch.rows()]
    }
    /// Named numbers that belong beside the measurements after `round` rounds (the privacy spent so far).
    fn figures(&self, world: &World, round: u64, memory: &Memory) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Why something with these needs cannot act on what the algorithm `name` sends: what is wrong, and what to do.
#[must_use]
pub fn refusal(intervention: &str, needs: Needs, name: &str, sends: Sends) -> Option<(String, String)> {
    let reason = match (needs, sends) {
        (Needs::Mean, Sends::Models(reason)) | (Needs::Mean | Needs::Parameters, Sends::Other(reason)) => reason,
        _ => return None,
    };
    let mut help = "leave it out for this algorithm; `exclude` does so in a sweep".to_owned();
    if needs == Needs::Parameters {
        help += ". Threats that only change the samples of clients apply to every algorithm";
    }
    Some((format!("`{intervention}` does not apply: `{name}` {reason}"), help))
}

/// Refuses interventions that cannot act on what the algorithm `name` sends.
pub(super) fn check(world: &World, name: &str, sends: Sends) -> Outcome<()> {
    for intervention in &world.interventions {
        if let Some((what, help)) = refusal(intervention.name(), intervention.needs(), name, sends) {
            return Err(Fault::stage(what).help(help));
        }
        intervention.uploads(world.uploads())?;
        intervention.fits(world, sends)?;
    }
    Ok(())
}
