//! Who is malicious, and when: what all threats have in common.

use crate::base::random::{Purpose, shuffle, stream};
use crate::base::{Fault, Outcome};
use crate::fl::{Exchange, Sent};
use crate::spec::catalog::{Field, Type};
use crate::spec::rules::Breach;
use serde::Deserialize;

/// The parameters that every threat has.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Schedule {
    attackers: f64,
    first_round: u64,
    #[serde(default)]
    last_round: Option<u64>,
    seed: u64,
    #[serde(default)]
    redraw: bool,
}

/// The malicious clients, and the rounds in which they act.
#[derive(Clone, Debug)]
pub(super) struct Band {
    /// The fixed attackers, ascending; none where they are drawn anew in every round.
    pub ids: Vec<usize>,
    /// How many there are.
    count: usize,
    first: u64,
    last: u64,
    /// Seed of everything that they draw.
    pub seed: u64,
    redraw: bool,
}

/// The catalog's description of them.
pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with(
            "attackers",
            Type::non_negative(),
            0.2,
            "How many clients are malicious: a whole number, of which 0 is nobody, or below 1 a fraction of all clients, to the nearest and \
             at least 1.",
        ),
        Field::with("first_round", Type::at_least(1), 1, "The first round in which they act, counted from 1."),
        Field::optional("last_round", Type::at_least(1), "The last round in which they act; the last of all when absent."),
        Field::with("seed", Type::at_least(0), 0, "Seed of who is malicious, and of what they draw."),
    ]
}

/// The field by which a threat to what is sent may have other attackers in every round.
pub(super) fn redraw() -> Field {
    Field::with(
        "redraw",
        Type::Bool,
        false,
        "Whether the attackers are drawn anew among the uploads of each round, as FedML does; then no client counts as malicious.",
    )
}

impl Schedule {
    /// What is wrong with the numbers, for so many rounds and clients where they are known.
    pub fn rules(&self, rounds: Option<u64>, clients: Option<usize>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        if let Err(fault) = self.count(clients.unwrap_or(usize::MAX)) {
            breaches.push(Breach::new("attackers", fault));
        }
        if let Some(last) = self.last_round.filter(|last| *last < self.first_round) {
            let fault = Fault::stage(format!("`last_round` is {last}, before `first_round`, which is {}", self.first_round));
            breaches.push(Breach::new("last_round", fault.help("rounds are counted from 1, and both are among those in which they act")));
        }
        if let Some(rounds) = rounds.filter(|rounds| self.first_round > *rounds) {
            let fault =
                Fault::stage(format!("`first_round` is {}, but the training has {rounds} rounds: nobody would attack", self.first_round));
            breaches
                .push(Breach::new("first_round", fault.help("choose a round of the training; `attackers: 0` measures what nobody does")));
        }
        breaches
    }
    /// Whether anybody is malicious.
    pub fn anyone(&self) -> bool {
        self.attackers > 0.0
    }
    /// How many of `clients` are malicious.
    fn count(&self, clients: usize) -> Outcome<usize> {
        let wanted = self.attackers;
        let count = if wanted < 1.0 {
            ((wanted * clients as f64).round() as usize).max(usize::from(wanted > 0.0))
        } else if wanted.fract() == 0.0 {
            wanted as usize
        } else {
            return Err(Fault::stage(format!("`attackers` is {wanted}, which is neither a whole number nor below 1"))
                .help("give the number of malicious clients, or below 1 their fraction"));
        };
        if count > clients {
            return Err(Fault::stage(format!("`attackers` is {count}, but only {clients} clients train"))
                .help("there cannot be more attackers than clients; a number below 1 is a fraction"));
        }
        Ok(count)
    }
    /// Draws the attackers among `clients`.
    pub fn band(&self, clients: usize) -> Outcome<Band> {
        if let Some(breach) = self.rules(None, Some(clients)).into_iter().next() {
            return Err(breach.fault);
        }
        let count = self.count(clients)?;
        let last = self.last_round.unwrap_or(u64::MAX);
        let mut ids: Vec<usize> = (0..clients).collect();
        shuffle(&mut stream(self.seed, Purpose::Threat, 0, 0, 0), &mut ids);
        ids.truncate(if self.redraw { 0 } else { count });
        ids.sort_unstable();
        Ok(Band { ids, count, first: self.first_round, last, seed: self.seed, redraw: self.redraw })
    }
}

impl Band {
    /// Whether this client misbehaves in this round (from 0).
    pub fn acts(&self, client: u64, round: u64) -> bool {
        self.due(round) && usize::try_from(client).is_ok_and(|id| self.ids.binary_search(&id).is_ok())
    }
    /// The positions of this round's attackers among the uploads, ascending.
    pub fn among(&self, exchange: &Exchange<'_>, sent: &[Sent]) -> Vec<usize> {
        if !self.due(exchange.round) {
            return Vec::new();
        }
        if self.redraw {
            let mut all: Vec<usize> = (0..sent.len()).collect();
            shuffle(&mut stream(self.seed, Purpose::Threat, 0, exchange.round + 1, 0), &mut all);
            all.truncate(self.count);
            all.sort_unstable();
            return all;
        }
        (0..sent.len()).filter(|i| self.ids.binary_search(&sent[*i].client).is_ok()).collect()
    }
    /// Whether they act in this round (from 0).
    fn due(&self, round: u64) -> bool {
        (self.first..=self.last).contains(&(round + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(attackers: f64) -> Schedule {
        Schedule { attackers, first_round: 2, last_round: Some(3), seed: 5, redraw: false }
    }

    #[test]
    fn attackers_are_counted_drawn_by_seed_and_act_in_their_rounds_only() {
        assert_eq!(schedule(3.0).band(10).expect("a band").ids.len(), 3);
        assert_eq!(schedule(0.25).band(10).expect("a band").ids.len(), 3);
        assert_eq!(schedule(0.01).band(10).expect("a band").ids.len(), 1);
        assert!(schedule(0.0).band(10).expect("a band").ids.is_empty());
        let band = schedule(3.0).band(10).expect("a band");
        assert_eq!(band.ids, schedule(3.0).band(10).expect("a band").ids);
        assert_ne!(band.ids, Schedule { seed: 6, ..schedule(3.0) }.band(10).expect("a band").ids);
        let id = band.ids[0] as u64;
        assert_eq!((0..5).map(|round| band.acts(id, round)).collect::<Vec<_>>(), [false, true, true, false, false]);
    }

    #[test]
    fn impossible_bands_are_refused_with_the_rule() {
        assert!(schedule(11.0).band(10).expect_err("too many").what.contains("only 10 clients"));
        assert!(schedule(2.5).band(10).expect_err("no number").what.contains("whole number"));
        assert!(Schedule { last_round: Some(1), ..schedule(1.0) }.band(10).is_err());
    }
}
