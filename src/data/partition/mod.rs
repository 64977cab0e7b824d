//! Which client holds which sample: the partition, and the rules that make one.
//!
//! A partition is checked when it is made: every sample belongs to exactly one client, but for those that are counted as left out.
//! It knows labels, but neither samples nor models.

mod bytes;
mod deal;
mod dirichlet;
mod extended;
mod few_shot;
mod iid;
mod manifest;
pub mod numpy;
mod pathological;
pub mod portable;
mod repair;
mod rules;
mod split;

pub use few_shot::few_shot;
pub use manifest::{ClientSummary, Indices, Manifest};
pub use rules::{build, variants};

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
}

impl Partition {
    /// Puts a partition of `samples` samples together.
    ///
    /// # Errors
    /// An internal fault when a sample belongs to two clients or to none beyond `flags.left_out`, or does not exist.
    pub fn new(kind: &str, procedure: Procedure, samples: usize, classes: usize, flags: Flags, clients: Vec<Client>) -> Outcome<Self> {
        let mut seen = vec![false; samples];
        for (id, client) in clients.iter().enumerate() {
            for &index in client.train.iter().chain(&client.test) {
                match seen.get_mut(index as usize) {
                    Some(seen) if !*seen => *seen = true,
                    Some(_) => return Err(Fault::internal(format!("partition: client {id} holds sample {index}, which is given twice"))),
                    None => return Err(Fault::internal(format!("partition: client {id} holds sample {index} of {samples}"))),
                }
            }
        }
        let free = seen.iter().filter(|seen| !**seen).count() as u64;
        if free != flags.left_out {
            return Err(Fault::internal(format!("partition: no client holds {free} of {samples} samples, expected {}", flags.left_out)));
        }
        Ok(Self { kind: kind.to_owned(), procedure, samples, classes, flags, clients })
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
    flags: Flags,
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
