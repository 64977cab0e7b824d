//! Membership inference: does a model betray which samples it was trained on?
//!
//! Members are a client's training samples, others its test samples; as many of each. A score ranks them, and the ranking is measured.

use super::shadow::Judge;
use crate::base::random::{Stream, shuffle};
use crate::fl::Response;
use std::collections::BTreeMap;

/// How well a score tells members from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Separation {
    /// The probability that a member has the higher score, ties counted half: 0.5 is chance.
    pub auc: f64,
    /// The greatest share of members above a threshold that at most 1 % of the others are above.
    pub tpr: f64,
    /// The greatest difference of the two shares over all thresholds.
    pub advantage: f64,
}

/// The rate of false positives at which [`Separation::tpr`] is taken.
pub const FALSE_POSITIVES: f64 = 0.01;

/// Measures the ranking; higher scores are more like members. None without members or others, or with a score that is not finite.
#[must_use]
pub fn separation(members: &[f64], others: &[f64]) -> Option<Separation> {
    if members.is_empty() || others.is_empty() || members.iter().chain(others).any(|v| !v.is_finite()) {
        return None;
    }
    let mut all: Vec<(f64, bool)> = members.iter().map(|v| (*v, true)).chain(others.iter().map(|v| (*v, false))).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (m, n) = (members.len() as f64, others.len() as f64);
    let (mut hits, mut alarms, mut area, mut tpr, mut advantage) = (0.0, 0.0, 0.0, 0.0, 0.0f64);
    let mut rest = &all[..];
    while let Some(first) = rest.first() {
        let tied = rest.iter().take_while(|(v, _)| *v == first.0).count();
        let new = rest[..tied].iter().filter(|(_, member)| *member).count() as f64;
        let wrong = tied as f64 - new;
        area += wrong * (hits + new / 2.0);
        hits += new;
        alarms += wrong;
        if alarms <= FALSE_POSITIVES * n {
            tpr = hits / m;
        }
        advantage = advantage.max(hits / m - alarms / n);
        rest = &rest[tied..];
    }
    Some(Separation { auc: area / (m * n), tpr, advantage })
}

/// The metrics of one client's model, with `prefix` before their names. Members and others are cut to equal numbers by a draw; where
/// there is a `judge` it scores, otherwise the loss does, lower meaning member.
#[must_use]
pub fn measure(prefix: &str, members: &[Response], others: &[Response], judge: Option<&Judge>, rng: &mut Stream) -> BTreeMap<String, f64> {
    let count = members.len().min(others.len());
    let mut some = |samples: &[Response]| -> Vec<f64> {
        let mut order: Vec<usize> = (0..samples.len()).collect();
        shuffle(rng, &mut order);
        let score = |i: &usize| judge.map_or_else(|| -f64::from(samples[*i].loss), |judge| judge.score(&samples[*i]));
        order[..count].iter().map(score).collect()
    };
    let (members, others) = (some(members), some(others));
    let Some(found) = separation(&members, &others) else { return BTreeMap::new() };
    [("auc", found.auc), ("tpr", found.tpr), ("advantage", found.advantage)]
        .into_iter()
        .map(|(name, value)| (format!("{prefix}{name}"), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_and_ties_halved() {
        // Members 3, 2, 1 against 2, 0: wins 2 + (0.5 + 1) + 1 of 6.
        let found = separation(&[3.0, 2.0, 1.0], &[2.0, 0.0]).expect("both kinds");
        assert!((found.auc - 4.5 / 6.0).abs() < 1e-12);
        // Above 2 there is one member and no other.
        assert!((found.tpr - 1.0 / 3.0).abs() < 1e-12);
        // Down to 1: all members and one of two others.
        assert!((found.advantage - 0.5).abs() < 1e-12);
        assert_eq!(separation(&[1.0], &[1.0]).map(|s| (s.auc, s.tpr)), Some((0.5, 0.0)));
        assert_eq!(separation(&[], &[1.0]), None);
        assert_eq!(separation(&[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn one_false_positive_in_a_hundred_is_allowed() {
        let others: Vec<f64> = (0..100).map(f64::from).collect();
        // One other is above 98.5.
        assert_eq!(separation(&[98.5, 98.5, 0.5], &others).map(|s| s.tpr), Some(2.0 / 3.0));
    }
}
