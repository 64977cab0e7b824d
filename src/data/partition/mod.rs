//! Which client holds which sample: the partition, and the rules that make one.
//!
//! A partition is checked when it is made: every sample belongs to exactly one client, but for those that are counted as left out.
//! It knows labels, but neither samples nor models.

mod bytes;
mod deal;
mod dirichlet;
mod export;
mod exported;
mod extended;
mod feature_noise;
mod few_shot;
mod iid;
mod imported;
mod known;
mod label_count;
mod manifest;
mod mixture;
mod natural;
pub mod numpy;
mod pachinko;
mod pathological;
mod picture;
mod pool;
mod population;
pub mod portable;
mod power_law;
pub mod python;
mod quantity;
mod regions;
mod repair;
mod request;
mod rules;
mod split;

pub use exported::{Exported, exported};
pub use feature_noise::{Noise, noise};
pub use few_shot::few_shot;
pub use imported::{fingerprint, made};
pub use known::rules;
pub use manifest::{ClientSummary, Indices, Manifest};
pub use population::Population;
pub use rules::{build, build_from, variants};

use crate::base::{Fault, Outcome};
use serde::{Deserialize, Serialize};

/// The samples of one client, as positions in the data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Training samples, in stored order.
    pub train: Vec<u32>,
    /// Test samples, in stored order.
    pub test: Vec<u32>,
}

impl Client {
    /// All samples of the client.
    #[must_use]
    pub fn len(&self) -> usize {
        self.train.len() + self.test.len()
    }
    /// Whether the client holds no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whose procedure made a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Procedure {
    /// PFLlib's, bit for bit with the same seed.
    Pfllib,
    /// This program's own, which always comes to an end.
    Clean,
    /// FedML's, index for index with numpy's generator.
    Fedml,
    /// FedLab's, index for index with numpy's generator.
    Fedlab,
    /// NIID-Bench's, index for index with numpy's and Python's generators.
    NiidBench,
    /// ProFed's, with its overlaps, index for index with numpy's and Python's generators.
    Profed,
}

impl Procedure {
    /// The procedure of that name.
    fn named(name: &str) -> Option<Self> {
        let all = [Self::Pfllib, Self::Clean, Self::Fedml, Self::Fedlab, Self::NiidBench, Self::Profed];
        all.into_iter().find(|procedure| procedure.describe().0 == name)
    }
    /// Its name in a pipeline, and what it is.
    #[must_use]
    pub const fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Pfllib => ("pfllib", "PFLlib's procedure, bit for bit with the same seed, so that numbers compare"),
            Self::Clean => ("clean", "this program's own: always comes to an end, leaves nothing out, the same on every platform"),
            Self::Fedml => ("fedml", "FedML's procedure, index for index with numpy's generator; the split is this program's"),
            Self::Fedlab => ("fedlab", "FedLab's procedure, index for index with numpy's generator; the split is this program's"),
            Self::NiidBench => {
                ("niid-bench", "NIID-Bench's procedure, index for index with numpy's and Python's generators; the split is this program's")
            }
            Self::Profed => ("profed", "ProFed's procedure, where a sample may belong to devices of several regions"),
        }
    }
}

/// What happened while a partition was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flags {
    /// Draws of the whole partition until every client had enough samples.
    pub attempts: u32,
    /// Whether samples were moved by hand, since no draw gave every client enough.
    pub repaired: bool,
    /// How many samples were moved.
    pub moved: u64,
    /// Samples that no client holds (only PFLlib's pathological rule leaves any).
    pub left_out: u64,
    /// Classes whose shares were all zero, so that one client got the rest (PFLlib's rules divide by zero there).
    pub exhausted: u32,
    /// Samples that are held out for all clients together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_out: u64,
    /// How often a sample is held by one client more (only ProFed's procedure gives one twice).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub overlaps: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A partition of a data set's samples among clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    kind: String,
    procedure: Procedure,
    samples: usize,
    classes: usize,
    flags: Flags,
    clients: Vec<Client>,
    hold_out: Vec<u32>,
    shared_test: bool,
}

impl Partition {
    /// Puts a partition of `samples` samples together.
    ///
    /// # Errors
    /// An internal fault when a sample belongs to two clients or to none beyond `flags.left_out`, or does not exist.
    pub fn new(kind: &str, procedure: Procedure, samples: usize, classes: usize, flags: Flags, clients: Vec<Client>) -> Outcome<Self> {
        Self::with_hold_out(kind, procedure, samples, classes, flags, clients, Vec::new(), false)
    }
    /// As [`Partition::new`], with samples that are held out; with `shared_test` they are every client's test set.
    ///
    /// # Errors
    /// As [`Partition::new`], with `flags.held_out` and `flags.overlaps` counted as well.
    #[expect(clippy::too_many_arguments, reason = "the parts of a partition, each of them once")]
    pub(super) fn with_hold_out(
        kind: &str,
        procedure: Procedure,
        samples: usize,
        classes: usize,
        flags: Flags,
        mut clients: Vec<Client>,
        hold_out: Vec<u32>,
        shared_test: bool,
    ) -> Outcome<Self> {
        let mut seen = vec![false; samples];
        let mut overlaps = 0;
        let mut see = |index: u32, holder: &dyn Fn() -> String| match seen.get_mut(index as usize) {
            Some(seen) if !*seen => {
                *seen = true;
                Ok(())
            }
            Some(_) if flags.overlaps > overlaps => {
                overlaps += 1;
                Ok(())
            }
            Some(_) => Err(Fault::internal(format!("partition: {} holds sample {index}, which is given twice", holder()))),
            None => Err(Fault::internal(format!("partition: {} holds sample {index} of {samples}", holder()))),
        };
        for (id, client) in clients.iter().enumerate() {
            client.train.iter().chain(&client.test).try_for_each(|&index| see(index, &|| format!("client {id}")))?;
        }
        hold_out.iter().try_for_each(|&index| see(index, &|| "the hold-out".to_owned()))?;
        let free = seen.iter().filter(|seen| !**seen).count() as u64;
        if (free, hold_out.len() as u64, overlaps) != (flags.left_out, flags.held_out, flags.overlaps) {
            return Err(Fault::internal(format!(
                "partition: of {samples} samples {free} are left out, {} held out and {overlaps} given twice, expected {}, {} and {}",
                hold_out.len(),
                flags.left_out,
                flags.held_out,
                flags.overlaps
            )));
        }
        if shared_test {
            if let Some(id) = clients.iter().position(|client| !client.test.is_empty()) {
                return Err(Fault::internal(format!("partition: client {id} has a test set beside the one that all share")));
            }
            clients.iter_mut().for_each(|client| client.test.clone_from(&hold_out));
        }
        Ok(Self { kind: kind.to_owned(), procedure, samples, classes, flags, clients, hold_out, shared_test })
    }
    /// The samples that are held out for all clients together, ascending.
    #[must_use]
    pub fn hold_out(&self) -> &[u32] {
        &self.hold_out
    }
    /// Whether the hold-out is every client's test set.
    #[must_use]
    pub fn shared_test(&self) -> bool {
        self.shared_test
    }
    /// The samples that belong to the client alone: with a shared test set its training samples.
    pub(super) fn own<'a>(&self, client: &'a Client) -> impl Iterator<Item = &'a u32> + use<'a> {
        client.train.iter().chain(if self.shared_test { &[] } else { client.test.as_slice() })
    }
    /// The rule, as a pipeline writes it.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }
    /// Whose procedure made it.
    #[must_use]
    pub fn procedure(&self) -> Procedure {
        self.procedure
    }
    /// The number of samples of the data set.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples
    }
    /// The number of classes of the data set.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }
    /// What happened on the way.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags
    }
    /// The clients, by id.
    #[must_use]
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }
    /// Makes sure that the partition is one of a data set of this size and these classes.
    ///
    /// # Errors
    /// A stage fault that names both.
    pub fn fits(&self, samples: usize, classes: usize) -> Outcome<()> {
        if (self.samples, self.classes) == (samples, classes) {
            return Ok(());
        }
        Err(Fault::stage(format!(
            "the partition is one of {} samples in {} classes, but the data set has {samples} samples in {classes} classes",
            self.samples, self.classes
        ))
        .help("give the partition and the model the same data set"))
    }
}

/// What a rule returns: each client's samples before they are split into training and test samples.
struct Drawn {
    clients: Vec<Vec<u32>>,
    /// The test samples, where the rule splits by itself; then `clients` are the training samples.
    tests: Option<Vec<Vec<u32>>>,
    flags: Flags,
    /// Samples that the rule itself holds out, and whether they are every client's test set.
    hold_out: Vec<u32>,
    shared_test: bool,
}

impl Drawn {
    /// Samples that are still to be split.
    fn whole(clients: Vec<Vec<u32>>, flags: Flags) -> Self {
        Self { clients, tests: None, flags, hold_out: Vec::new(), shared_test: false }
    }
}

impl Drawn {
    /// Samples that the rule has split by itself.
    fn split(clients: Vec<Vec<u32>>, tests: Vec<Vec<u32>>, flags: Flags) -> Self {
        Self { tests: Some(tests), ..Self::whole(clients, flags) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(clients: &[(&[u32], &[u32])], left_out: u64) -> Outcome<Partition> {
        let clients = clients.iter().map(|(train, test)| Client { train: train.to_vec(), test: test.to_vec() }).collect();
        Partition::new("test", Procedure::Clean, 4, 2, Flags { left_out, ..Flags::default() }, clients)
    }

    #[test]
    fn a_partition_is_disjoint_and_complete() {
        assert!(of(&[(&[0, 3], &[1]), (&[2], &[])], 0).is_ok());
        assert!(of(&[(&[0, 3], &[1]), (&[2], &[0])], 0).is_err(), "sample 0 twice");
        assert!(of(&[(&[0, 3], &[]), (&[2], &[])], 0).is_err(), "sample 1 is nobody's");
        assert!(of(&[(&[0, 3], &[]), (&[2], &[])], 1).is_ok());
        assert!(of(&[(&[0, 1, 2, 3, 4], &[])], 0).is_err(), "sample 4 does not exist");
    }

    #[test]
    fn a_partition_of_another_data_set_is_refused() {
        let partition = of(&[(&[0, 1, 2, 3], &[])], 0).expect("complete");
        assert!(partition.fits(4, 2).is_ok());
        let fault = partition.fits(9, 3).expect_err("another size");
        assert!(fault.what.contains("4 samples in 2 classes") && fault.what.contains("9 samples in 3 classes"));
    }
}
