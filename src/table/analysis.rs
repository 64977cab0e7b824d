//! The statistics of a table: every row against another one, ranks over all columns, and where the variance comes from.
//!
//! It also says in plain words what so few samples cannot show. Numbers come from [`crate::results::stats`].

use super::value::{Best, Table};
use crate::base::text::find_row;
use crate::results::stats::{self, Component, Friedman, Summary, Test, holm, paired};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Which rows are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Against {
    /// Every row with the first.
    #[default]
    First,
    /// Every row with the one that is best in the column.
    Best,
    /// Every pair of rows.
    All,
    /// Every row with the one of this label.
    Row(String),
}

/// What is asked of the statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The test of two rows.
    pub test: Test,
    /// Which rows are compared.
    pub against: Against,
    /// Whether p-values are corrected by Holm's procedure over all comparisons of a quantity.
    pub corrected: bool,
    /// The level of significance, in (0, 1).
    pub level: f64,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { test: Test::Wilcoxon, against: Against::First, corrected: true, level: 0.05 }
    }
}

/// How a row stands to the one that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Significantly better.
    Better,
    /// Significantly worse.
    Worse,
    /// No significant difference, which does not mean that there is none.
    Undecided,
    /// There are no two pairs, or all differences are equal.
    Untested,
}

impl Verdict {
    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Undecided => "undecided",
            Self::Untested => "not tested",
        }
    }
}

/// One row against another in one column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The column's label.
    pub column: String,
    /// The row.
    pub row: String,
    /// The row that it is compared with.
    pub against: String,
    /// The number of pairs: equal labels on the `over` axes at which both have a value.
    pub pairs: usize,
    /// The mean difference over the pairs, in the quantity's own unit.
    pub difference: Option<f64>,
    /// Student's 95 % interval of that difference.
    pub interval: Option<(f64, f64)>,
    /// The test's statistic.
    pub statistic: Option<f64>,
    /// The two-sided p-value.
    pub p: Option<f64>,
    /// The p-value after Holm's correction.
    pub p_corrected: Option<f64>,
    /// Cohen's d_z.
    pub cohen_dz: Option<f64>,
    /// The matched rank-biserial correlation.
    pub rank_biserial: Option<f64>,
    /// What it comes to.
    pub verdict: Verdict,
}

/// Friedman's test of a quantity with the rows that entered it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The rows, in the order of the table.
    pub rows: Vec<String>,
    /// What the blocks are: the column axis, or the `over` axis where there is one column.
    pub blocks_are: String,
    /// The test.
    #[serde(flatten)]
    pub test: Friedman,
}

/// The variance of one cell by its sources.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sources {
    /// The row.
    pub row: String,
    /// The column's label.
    pub column: String,
    /// The components, the rest last.
    pub components: Vec<Component>,
}

/// The statistics of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analyzed {
    /// Its label.
    pub value: String,
    /// Index in the heading.
    #[serde(skip)]
    pub quantity: usize,
    /// Rows against rows.
    pub comparisons: Vec<Comparison>,
    /// Friedman's test.
    pub friedman: Option<Ranked>,
    /// Variance by seed, where there are several `over` axes.
    pub sources: Vec<Sources>,
}

/// The statistics of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// The name of the test.
    pub test: &'static str,
    /// `holm` or `none`.
    pub correction: &'static str,
    /// The level of significance.
    pub level: f64,
    /// By quantity.
    pub values: Vec<Analyzed>,
    /// What has to be known to read them rightly.
    pub notes: Vec<String>,
}

impl Analysis {
    /// Analyses a table.
    #[must_use]
    pub fn of(table: &Table, wanted: &Wanted) -> Self {
        let mut notes = Vec::new();
        let values = (0..table.heading.quantities.len()).map(|quantity| analyzed(table, quantity, wanted, &mut notes)).collect();
        let mut seen = BTreeSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        Self { test: wanted.test.name(), correction: if wanted.corrected { "holm" } else { "none" }, level: wanted.level, values, notes }
    }
}

fn analyzed(table: &Table, quantity: usize, wanted: &Wanted, notes: &mut Vec<String>) -> Analyzed {
    let columns: Vec<usize> = (0..table.columns.len()).filter(|column| table.columns[*column].quantity == quantity).collect();
    let mut comparisons: Vec<Comparison> = columns
        .iter()
        .flat_map(|column| {
            opponents(table, *column, wanted, notes)
                .into_iter()
                .map(|(row, other)| compare(table, *column, row, other, wanted.test))
                .collect::<Vec<_>>()
        })
        .collect();
    let tested: Vec<usize> = (0..comparisons.len()).filter(|index| comparisons[*index].p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|index| comparisons[*index].p).collect();
    let corrected = if wanted.corrected { holm(&p) } else { p };
    let sign = if table.heading.quantities[quantity].best == Best::Max { 1.0 } else { -1.0 };
    for (index, p) in tested.iter().zip(&corrected) {
        let comparison = &mut comparisons[*index];
        comparison.p_corrected = Some(*p);
        comparison.verdict = match comparison.difference {
            Some(difference) if *p <= wanted.level => {
                if sign * difference > 0.0 {
                    Verdict::Better
                } else {
                    Verdict::Worse
                }
            }
            _ => Verdict::Undecided,
        };
    }
    power(&comparisons, wanted, notes);
    Analyzed {
        value: table.heading.quantities[quantity].label.clone(),
        quantity,
        comparisons,
        friedman: ranked(table, &columns, wanted.level, notes),
        sources: sources(table, &columns, notes),
    }
}

/// The pairs of rows that are compared in a column.
fn opponents(table: &Table, column: usize, wanted: &Wanted, notes: &mut Vec<String>) -> Vec<(usize, usize)> {
    let rows = 0..table.rows.len();
    let one = |other: usize| rows.clone().filter(|row| *row != other).map(|row| (row, other)).collect();
    match &wanted.against {
        Against::All => rows.clone().flat_map(|row| (row + 1..table.rows.len()).map(move |other| (row, other))).collect(),
        Against::Best => {
            notes.push(
                "the row to compare with was chosen by the same numbers that are tested, so the p-values are smaller than they should be"
                    .to_owned(),
            );
            let places = table.places(column);
            let best = (0..places.len())
                .filter(|row| places[*row].is_some())
                .min_by(|a, b| places[*a].unwrap_or(f64::MAX).total_cmp(&places[*b].unwrap_or(f64::MAX)));
            best.map(one).unwrap_or_default()
        }
        Against::Row(name) => match find_row(&table.rows, name) {
            Some(row) => one(row),
            None => {
                notes.push(format!("there is no row `{name}` to compare with"));
                Vec::new()
            }
        },
        Against::First => {
            if table.rows.is_empty() {
                Vec::new()
            } else {
                one(0)
            }
        }
    }
}

fn compare(table: &Table, column: usize, row: usize, other: usize, test: Test) -> Comparison {
    let (ours, theirs) = (table.cells[row][column].by_label(), table.cells[other][column].by_label());
    let pairs: Vec<(f64, f64)> = ours.iter().filter_map(|(label, value)| Some((*value, *theirs.get(label)?))).collect();
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
    let summary = Summary::of(&differences);
    // A single pair has no test: Wilcoxon's would always say p = 1.
    let tested = if pairs.len() > 1 { test.run(&pairs) } else { None };
    Comparison {
        column: table.columns[column].label.clone(),
        row: table.rows[row].clone(),
        against: table.rows[other].clone(),
        pairs: pairs.len(),
        difference: summary.map(|s| s.mean),
        interval: test.interval(&pairs),
        statistic: tested.map(|t| t.statistic),
        p: tested.map(|t| t.p),
        p_corrected: None,
        cohen_dz: paired::cohen_dz(&differences).filter(|_| test.paired()),
        rank_biserial: paired::rank_biserial(&differences).filter(|_| test.paired()),
        verdict: Verdict::Untested,
    }
}

/// Says what the number of pairs cannot show.
fn power(comparisons: &[Comparison], wanted: &Wanted, notes: &mut Vec<String>) {
    let tested: Vec<&Comparison> = comparisons.iter().filter(|comparison| comparison.p.is_some()).collect();
    let Some(most) = tested.iter().map(|comparison| comparison.pairs).max() else {
        if !comparisons.is_empty() {
            notes.push("no two pairs of samples to test: nothing is said about differences".to_owned());
        }
        return;
    };
    let untested = comparisons.len() - tested.len();
    if untested > 0 {
        notes.push(format!("{untested} of {} comparisons have no two pairs that differ and are not tested", comparisons.len()));
    }
    let factor = if wanted.corrected { tested.len() } else { 1 };
    match paired::least_p(wanted.test, most) {
        Some(least) if (least * factor as f64).min(1.0) > wanted.level => {
            let needed = paired::least_pairs(wanted.test, wanted.level / factor as f64);
            let correction = if factor > 1 {
                format!(", which Holm's correction over {factor} comparisons makes {}", number((least * factor as f64).min(1.0)))
            } else {
                String::new()
            };
            notes.push(format!(
                "{most} pairs cannot show a difference: the smallest p-value that the {} test can give with them is {}{correction}; at least {needed} pairs are needed for {}",
                wanted.test.name(),
                number(least),
                number(wanted.level),
            ));
        }
        None if most < 6 => notes.push(format!(
            "with {most} pairs the p-values rest on the assumption that {} are normal, which so few cannot check",
            if wanted.test == Test::Welch { "values" } else { "differences" }
        )),
        _ => {}
    }
}

/// Friedman's test over columns, or over the `over` axis where a quantity has one column.
fn ranked(table: &Table, columns: &[usize], level: f64, notes: &mut Vec<String>) -> Option<Ranked> {
    let first = *columns.first()?;
    let sign = if table.quantity(first).best == Best::Max { 1.0 } else { -1.0 };
    let by_column = columns.len() > 1;
    // Values by block for each row; a row that lacks a block is left out.
    let values: Vec<BTreeMap<String, f64>> = (0..table.rows.len())
        .map(|row| {
            if by_column {
                columns.iter().filter_map(|column| Some((column.to_string(), table.center(row, *column)?))).collect()
            } else {
                table.cells[row][first].by_label()
            }
        })
        .collect();
    let blocks: BTreeSet<&String> = values.iter().flat_map(BTreeMap::keys).collect();
    let (whole, broken): (Vec<usize>, Vec<usize>) = (0..table.rows.len()).partition(|row| values[*row].len() == blocks.len());
    if !broken.is_empty() && whole.len() > 1 {
        let names: Vec<&str> = broken.iter().take(5).map(|row| table.rows[*row].as_str()).collect();
        let more = if broken.len() > 5 { format!(" and {} more", broken.len() - 5) } else { String::new() };
        notes.push(format!("not in Friedman's test, as some of their results are not there: {}{more}", names.join(", ")));
    }
    let grid: Vec<Vec<f64>> = blocks.iter().map(|block| whole.iter().map(|row| sign * values[*row][*block]).collect()).collect();
    let test = Friedman::of(&grid, level)?;
    if test.blocks < 6 && test.exact.is_none() {
        notes.push(format!("with {} blocks the p-values of Friedman's test are rough", test.blocks));
    }
    let blocks_are = if by_column { table.heading.column_axis.clone() } else { table.heading.over.join(", ") };
    notes.push(if by_column {
        format!("Friedman's blocks are the {} columns ({blocks_are}); columns on the same data are not independent, which makes the test too sure", test.blocks)
    } else {
        format!("Friedman's blocks are the {} values of {blocks_are} of one setting: the ranks say nothing about other data", test.blocks)
    });
    Some(Ranked { rows: whole.iter().map(|row| table.rows[*row].clone()).collect(), blocks_are, test })
}

/// The variance of each cell by the `over` axes, where there are several.
fn sources(table: &Table, columns: &[usize], notes: &mut Vec<String>) -> Vec<Sources> {
    let factors = &table.heading.over;
    if factors.len() < 2 {
        return Vec::new();
    }
    let (mut found, mut without) = (Vec::new(), 0);
    for (row, label) in table.rows.iter().enumerate() {
        for column in columns {
            let samples = &table.cells[row][*column].samples;
            if samples.is_empty() {
                continue;
            }
            let values: Vec<(Vec<String>, f64)> =
                samples.iter().filter_map(|observation| Some((observation.over.clone(), observation.sample.value()?))).collect();
            match stats::components(factors, &values) {
                Some(components) => found.push(Sources { row: label.clone(), column: table.columns[*column].label.clone(), components }),
                None => without += 1,
            }
        }
    }
    if without > 0 {
        notes.push(format!(
            "{without} cells have no variance components: these need every combination of {}, two values of each",
            factors.join(", ")
        ));
    }
    if !found.is_empty() {
        notes.push("variance components of so few levels are rough; those estimated below zero are shown as 0".to_owned());
    }
    found
}

/// A p-value or level: three significant digits, never 0.
pub(super) fn number(p: f64) -> String {
    if p < 0.001 {
        "<0.001".to_owned()
    } else {
        let text = format!("{:.*}", if p < 0.01 { 4 } else { 3 }, p);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::Measure;
    use super::super::value::tests::{entries, heading};
    use super::*;

    fn analysis(lines: &str, wanted: &Wanted) -> Analysis {
        Analysis::of(&Table::build(heading(Best::Max, Measure::Fraction), entries(lines)), wanted)
    }

    #[test]
    fn rows_are_paired_by_seed() {
        let lines = "a x 0.1 0.2 0.3 0.4 0.5 0.6\nb x 0.2 0.31 0.43 0.54 0.65 0.76\nc x 0.1 failed 0.3 0.4 0.5 0.6";
        let found = analysis(lines, &Wanted::default());
        let [b, c] = found.values[0].comparisons.as_slice() else { panic!("two comparisons") };
        assert_eq!((b.row.as_str(), b.against.as_str(), b.pairs, b.p), ("b", "a", 6, Some(0.03125)));
        assert_eq!((b.verdict, b.rank_biserial), (Verdict::Better, Some(1.0)));
        assert_eq!((c.pairs, c.p, c.verdict), (5, None, Verdict::Untested), "equal values have no test");
        assert!(found.notes.iter().any(|note| note.contains("1 of 2 comparisons")), "{:?}", found.notes);
    }

    #[test]
    fn three_seeds_are_said_to_show_nothing() {
        let found = analysis("a x 0.1 0.2 0.3\nb x 0.9 0.8 0.7\nc x 0.5 0.6 0.65", &Wanted::default());
        assert!(found.values[0].comparisons.iter().all(|c| c.verdict == Verdict::Undecided));
        assert!(found.notes[0].starts_with("3 pairs cannot show a difference"), "{:?}", found.notes);
        assert!(
            found.notes[0].contains("is 0.25, which Holm's correction over 2 comparisons makes 0.5; at least 7 pairs"),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn worse_is_better_where_less_is_better() {
        let lines = "a x 0.1 0.2 0.3 0.4 0.5 0.6\nb x 0.2 0.31 0.43 0.54 0.65 0.76";
        let found = Analysis::of(&Table::build(heading(Best::Min, Measure::Loss), entries(lines)), &Wanted::default());
        assert_eq!(found.values[0].comparisons[0].verdict, Verdict::Worse);
        let ranked = found.values[0].friedman.as_ref().expect("a test");
        assert_eq!(ranked.test.mean_ranks, [1.0, 2.0], "the smaller loss ranks first");
    }

    #[test]
    fn columns_are_blocks_and_incomplete_rows_are_named() {
        let found = analysis("a x 0.1\nb x 0.9\nc x failed\na y 0.2\nb y 0.8\nc y 0.7", &Wanted::default());
        let ranked = found.values[0].friedman.as_ref().expect("a test");
        assert_eq!((ranked.rows.join(" "), ranked.test.blocks, ranked.blocks_are.as_str()), ("a b".into(), 2, "alpha"));
        assert!(found.notes.iter().any(|note| note.ends_with("are not there: c")), "{:?}", found.notes);
    }

    #[test]
    fn rows_are_found_by_their_names() {
        let rows = ["fedavg", "ditto(mu=0.1)", "gpfl, 0.5"].map(str::to_owned);
        assert_eq!(
            [find_row(&rows, "ditto"), find_row(&rows, "gpfl"), find_row(&rows, "0.5"), find_row(&rows, "fed")],
            [Some(1), Some(2), Some(2), None]
        );
    }

    #[test]
    fn p_values_are_short() {
        assert_eq!([0.25, 0.03125, 0.00731, 1e-9, 1.0, 0.05].map(number), ["0.25", "0.031", "0.0073", "<0.001", "1", "0.05"]);
    }
}
