//! Published numbers beside ours: the difference, what it shows, and how the setups differ.

use super::value::{Measure, Table};
use crate::results::published::Published;
use crate::results::stats::{Summary, tost};
use serde::Serialize;

/// What a difference from a published number shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The means are equal within the margin: two one-sided tests at 0.05.
    Equivalent,
    /// They differ: t at 0.05, and not equivalent.
    Different,
    /// Neither is shown.
    Undecided,
    /// Our values have no spread to test by; the mean lies within the margin.
    Within,
    /// Our values have no spread to test by; the mean lies outside of the margin.
    Outside,
}

impl Verdict {
    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Equivalent => "equivalent",
            Self::Different => "different",
            Self::Undecided => "undecided",
            Self::Within => "within, not tested",
            Self::Outside => "outside, not tested",
        }
    }
}

/// A published number that belongs to a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Match {
    /// The number with its source.
    pub published: Published,
    /// What in the setup is not the same: `rounds 50 instead of 2000`.
    pub setup: Vec<String>,
    /// Our mean minus the published one, in the quantity's own unit; none where we have no number.
    pub difference: Option<f64>,
    /// The 95 % interval of the difference.
    pub interval: Option<(f64, f64)>,
    /// The p-value of equivalence within the margin.
    pub p_equivalence: Option<f64>,
    /// What it shows; none where we have no number.
    pub verdict: Option<Verdict>,
}

/// The published numbers of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The names of the published tables.
    pub names: Vec<String>,
    /// The margin of equivalence, in the quantity's own unit: 0.02 is two points of accuracy.
    pub margin: f64,
    /// By row, then column.
    pub cells: Vec<Vec<Option<Match>>>,
    /// What has to be known to read them.
    pub notes: Vec<String>,
}

impl Beside {
    /// Compares every cell for which `find` has a published number and the differences of the setup. `unmatched` says of which numbers
    /// there is none, and why.
    #[must_use]
    pub fn of(
        table: &Table,
        names: Vec<String>,
        margin: f64,
        find: impl Fn(usize, usize) -> Option<(Published, Vec<String>)>,
        unmatched: Vec<String>,
    ) -> Self {
        let mut notes = Vec::new();
        let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        let mut cautions: Vec<String> = Vec::new();
        let mut matched = 0;
        let cells: Vec<Vec<Option<Match>>> = (0..table.rows.len())
            .map(|row| {
                (0..table.columns.len())
                    .map(|column| {
                        let (published, setup) = find(row, column)?;
                        matched += 1;
                        for text in &setup {
                            *counts.entry(text.clone()).or_default() += 1;
                        }
                        if let Some(caution) = &published.caution
                            && !cautions.contains(caution)
                        {
                            cautions.push(caution.clone());
                        }
                        Some(judged(table.cells[row][column].stats(), published, setup, margin))
                    })
                    .collect()
            })
            .collect();
        if matched == 0 {
            notes.push(format!("no number of {} belongs to a cell of this table", names.join(", ")));
        } else {
            let shown: Vec<String> = counts
                .iter()
                .map(|(text, n)| if *n == matched { text.clone() } else { format!("{text} ({n} of {matched} cells)") })
                .collect();
            notes.push(if shown.is_empty() {
                "the setups are the same as far as they are published".to_owned()
            } else {
                format!("the setups differ: {}", shown.join("; "))
            });
            notes.push(format!(
                "equivalent: equal within {} by two one-sided t-tests at 0.05; different: t-test at 0.05; undecided: neither is shown",
                match table.heading.quantities.first().map(|q| q.measure) {
                    Some(Measure::Fraction) => format!("{} points", margin * 100.0),
                    _ => margin.to_string(),
                }
            ));
        }
        let unused = |found: &Match| found.sd().is_some() && found.published.setup.trials.is_none_or(|n| n < 2);
        if cells.iter().flatten().flatten().any(unused) {
            notes.push(
                "a published standard deviation without its number of trials does not enter the verdict: the published mean counts as exact"
                    .to_owned(),
            );
        }
        notes.extend(cautions);
        notes.extend(unmatched);
        Self { names, margin, cells, notes }
    }

    /// Whether a column has a published number in any row.
    #[must_use]
    pub fn has_column(&self, column: usize) -> bool {
        self.cells.iter().any(|row| row.get(column).is_some_and(Option::is_some))
    }
}

impl Match {
    /// The published standard deviation in the unit of our own measurements.
    #[must_use]
    pub fn sd(&self) -> Option<f64> {
        self.published.spread()
    }
}

fn judged(ours: Option<Summary>, published: Published, setup: Vec<String>, margin: f64) -> Match {
    let n = published.setup.trials.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 1);
    let mean = published.value();
    let sd = published.spread();
    let theirs = Summary { n: n.unwrap_or(1), mean, sd: n.and(sd), median: mean, min: mean, max: mean };
    let tested = ours.and_then(|ours| tost(&ours, &theirs, margin));
    let difference = ours.map(|ours| ours.mean - mean);
    let verdict = difference.map(|difference| match tested {
        Some(tested) if tested.p <= 0.05 => Verdict::Equivalent,
        Some(tested) if tested.p_difference <= 0.05 => Verdict::Different,
        Some(_) => Verdict::Undecided,
        None if difference.abs() <= margin => Verdict::Within,
        None => Verdict::Outside,
    });
    Match { published, setup, difference, interval: tested.map(|t| t.interval), p_equivalence: tested.map(|t| t.p), verdict }
}

#[cfg(test)]
mod tests {
    use super::super::value::Best;
    use super::super::value::tests::{entries, heading};
    use super::*;
    use crate::results::published;

    #[test]
    fn cells_are_judged_by_margin_and_spread() {
        let lines = "fedavg x 0.8040 0.8041 0.8042\nditto x 0.5 0.51 0.52\ngpfl x 0.9\nlocal x 0.3";
        let table = Table::build(heading(Best::Max, Measure::Fraction), entries(lines));
        let all = published::builtin("pfllib-table2").expect("it is built in");
        let find = |row: usize, _| {
            let name = published::plain(&table.rows[row]);
            let found = all.iter().find(|p| published::plain(&p.algorithm) == name && p.dataset == "Fashion-MNIST")?;
            Some((found.clone(), vec!["rounds 50 instead of 2000".to_owned()]))
        };
        let beside = Beside::of(&table, vec!["pfllib-table2".into()], 0.02, find, vec!["line 7: no row".into()]);
        let verdict = |row: usize| beside.cells[row][0].as_ref().and_then(|m| m.verdict);
        assert_eq!(
            [verdict(0), verdict(1), verdict(2), verdict(3)],
            [Some(Verdict::Equivalent), Some(Verdict::Different), Some(Verdict::Outside), None]
        );
        assert!(!beside.notes.iter().any(|note| note.contains("counts as exact")), "three trials are known: {:?}", beside.notes);
        let unknown = |row: usize, column| {
            let mut found = find(row, column)?;
            found.0.setup.trials = None;
            Some(found)
        };
        let exact = Beside::of(&table, vec!["pfllib-table2".into()], 0.02, unknown, Vec::new());
        assert!(exact.notes.iter().any(|note| note.contains("counts as exact")), "{:?}", exact.notes);
        assert_eq!(beside.notes[0], "the setups differ: rounds 50 instead of 2000");
        assert_eq!(beside.notes.last().map(String::as_str), Some("line 7: no row"));
        assert!(beside.notes.iter().any(|note| note.contains("2023")), "the era of the code is said: {:?}", beside.notes);
    }
}
