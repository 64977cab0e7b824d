//! Statistics of small samples: exact where there is an exact formula, and plain about what so few values cannot show.
//!
//! Numbers in, numbers out; `tests/stats.rs` compares every function with SciPy.

pub mod components;
pub mod describe;
pub mod distributions;
pub mod equivalence;
pub mod friedman;
pub mod multiple;
pub mod paired;
pub mod permuted;
pub mod two_samples;

pub use components::{Component, components};
pub use describe::Summary;
pub use equivalence::{Equivalence, tost};
pub use friedman::Friedman;
pub use multiple::holm;
pub use paired::Tested;

/// A test of two methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Wilcoxon's signed-rank test of the pairs, exact.
    Wilcoxon,
    /// The sign test of the pairs, exact.
    Sign,
    /// Student's t-test of the pairs.
    PairedT,
    /// Welch's t-test, which ignores the pairing.
    Welch,
}

impl Test {
    /// Every test with its name and a sentence.
    pub const ALL: [(&'static str, Self, &'static str); 4] = [
        ("wilcoxon", Self::Wilcoxon, "Wilcoxon's signed-rank test of the pairs, exact"),
        ("sign", Self::Sign, "the sign test of the pairs, exact"),
        ("paired-t", Self::PairedT, "Student's t-test of the pairs; assumes normal differences"),
        ("welch", Self::Welch, "Welch's t-test, which ignores the pairing; assumes normal values"),
    ];

    /// The test of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, test, _)| *test)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, test, _)| *test == self).map_or("", |(name, ..)| name)
    }

    /// Whether it is of the pairs' differences.
    #[must_use]
    pub fn paired(self) -> bool {
        self != Self::Welch
    }

    /// The 95 % interval of the mean difference of pairs, with Welch's test that of the difference of two means. None for a single pair.
    #[must_use]
    pub fn interval(self, pairs: &[(f64, f64)]) -> Option<(f64, f64)> {
        if self.paired() {
            let differences: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
            return Summary::of(&differences)?.interval(0.95);
        }
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        Some(two_samples::difference(&Summary::of(&a)?, &Summary::of(&b)?)?.interval(0.95))
    }

    /// Runs it on pairs of values.
    #[must_use]
    pub fn run(self, pairs: &[(f64, f64)]) -> Option<Tested> {
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
        match self {
            Self::Wilcoxon => paired::wilcoxon(&differences),
            Self::Sign => paired::sign(&differences),
            Self::PairedT => paired::t_test(&differences),
            Self::Welch => {
                let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
                two_samples::welch(&a, &b)
            }
        }
    }
}
