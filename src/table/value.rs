//! The table itself: labels, cells, which cells are best, and what unit its numbers have.
//!
//! It knows no format; [`format`](super::format) renders it.

use super::analysis::Analysis;
use super::beside::Beside;
use super::sample::{Cell, Counts, Observation};
use crate::results::stats::friedman;
use std::collections::HashMap;
use std::hash::Hash;

/// What the numbers of a table are, which decides how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A fraction in [0, 1], written in percent with two decimals.
    Fraction,
    /// A count: floats sent, gradient evaluations.
    Count,
    /// A loss or any other plain number, written with four decimals.
    Loss,
}

/// Which mean is the best of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// What a table is about, before any sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The name in the pipeline.
    pub name: String,
    /// A title for people; the value's label stands in for an empty one.
    pub title: String,
    /// What the rows are: usually the name of an axis.
    pub row_axis: String,
    /// What the columns are; empty for a table of one column.
    pub column_axis: String,
    /// The axes over which samples are averaged; empty when there is none.
    pub over: Vec<String>,
    /// What is shown: one quantity, or several side by side.
    pub quantities: Vec<Quantity>,
    /// What of a cell's values is shown.
    pub show: Show,
    /// Whether the mean rank of each row stands in a column of its own.
    pub ranks: bool,
}

/// What is shown of the values of a cell. Machine-readable formats always have everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// The mean and the sample standard deviation.
    #[default]
    MeanSd,
    /// The mean and half the width of its 95 % interval by Student's t.
    MeanInterval,
    /// The median with the smallest and the largest value.
    MedianRange,
    /// The mean alone.
    Mean,
    /// The median alone.
    Median,
}

impl Show {
    /// Every choice with its name and a sentence.
    pub const ALL: [(&'static str, Self, &'static str); 5] = [
        ("mean-sd", Self::MeanSd, "mean and sample standard deviation"),
        ("mean-interval", Self::MeanInterval, "mean and half the width of its 95 % interval by Student's t"),
        ("median-range", Self::MedianRange, "median with the smallest and the largest value"),
        ("mean", Self::Mean, "the mean alone"),
        ("median", Self::Median, "the median alone"),
    ];

    /// The choice of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, ..)| *known == name).map(|(_, show, _)| *show)
    }
}

/// A value that is shown, with how it is written and compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// Its label: `run.test_accuracy.best`.
    pub label: String,
    /// Its unit.
    pub measure: Measure,
    /// Digits after the point; the measure decides when there is none.
    pub digits: Option<u8>,
    /// Which mean is the best.
    pub best: Best,
}

/// One sample with the labels that say where it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Label on the row axis.
    pub row: String,
    /// Label on the column axis.
    pub column: String,
    /// Index of the quantity in the heading; columns of different quantities are different columns.
    pub quantity: usize,
    /// What the run gave.
    pub observation: Observation,
}

/// A column: its label and what it shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// The label.
    pub label: String,
    /// Index of the quantity in the heading.
    pub quantity: usize,
}

/// How a cell stands among those of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// The best mean, or equal to it as shown.
    Best,
    /// The next best mean, or equal to it as shown.
    Second,
    /// Neither, or not compared.
    None,
}

/// A table of samples. Rows, columns and samples stand in the order in which they first came.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it is about.
    pub heading: Heading,
    /// Row labels.
    pub rows: Vec<String>,
    /// Columns.
    pub columns: Vec<Column>,
    /// Cells by row, then column.
    pub cells: Vec<Vec<Cell>>,
    /// The heading under which each row stands; empty where rows have none.
    pub groups: Vec<String>,
    /// Tests, effect sizes and ranks, where they are asked for.
    pub analysis: Option<Analysis>,
    /// Published numbers beside ours, where they are asked for.
    pub beside: Option<Beside>,
}

impl Table {
    /// Gathers the entries by row and column.
    #[must_use]
    pub fn build(heading: Heading, entries: impl IntoIterator<Item = Entry>) -> Self {
        let (mut rows, mut columns) = (Labels::default(), Labels::default());
        let last = heading.quantities.len().saturating_sub(1);
        let mut place = |e: Entry| {
            let column = columns.index(Column { label: e.column, quantity: e.quantity.min(last) });
            (rows.index(e.row), column, e.observation)
        };
        let placed: Vec<_> = entries.into_iter().map(&mut place).collect();
        let mut cells = vec![vec![Cell::default(); columns.names.len()]; rows.names.len()];
        for (row, column, observation) in placed {
            cells[row][column].samples.push(observation);
        }
        Self { heading, rows: rows.names, columns: columns.names, cells, groups: Vec::new(), analysis: None, beside: None }
    }

    /// Puts the rows under headings. These stand in the order in which their first row came, and so do the rows under each.
    pub fn group_by(&mut self, heading: impl Fn(&str) -> String) {
        let of: Vec<String> = self.rows.iter().map(|row| heading(row)).collect();
        let mut names = Labels::default();
        let places: Vec<usize> = of.iter().map(|name| names.index(name.clone())).collect();
        let mut order: Vec<usize> = (0..of.len()).collect();
        order.sort_by_key(|row| places[*row]);
        self.rows = order.iter().map(|row| std::mem::take(&mut self.rows[*row])).collect();
        self.cells = order.iter().map(|row| std::mem::take(&mut self.cells[*row])).collect();
        self.groups = order.iter().map(|row| of[*row].clone()).collect();
    }

    /// Takes all other columns away; the statistics and published numbers of the whole table go with them.
    pub fn keep_columns(&mut self, keep: impl Fn(&Column) -> bool) {
        let kept: Vec<usize> = (0..self.columns.len()).filter(|column| keep(&self.columns[*column])).collect();
        if kept.len() < self.columns.len() {
            (self.analysis, self.beside) = (None, None);
        }
        self.columns = kept.iter().map(|column| self.columns[*column].clone()).collect();
        for row in &mut self.cells {
            *row = kept.iter().map(|column| std::mem::take(&mut row[*column])).collect();
        }
    }

    /// What a column shows.
    ///
    /// # Panics
    /// When the column is not of this table.
    #[must_use]
    pub fn quantity(&self, column: usize) -> &Quantity {
        &self.heading.quantities[self.columns[column].quantity]
    }

    /// How many different labels the `over` axis has in this table: the number of samples of a complete cell.
    #[must_use]
    pub fn depth(&self) -> usize {
        let labels = self.cells.iter().flatten().flat_map(|cell| cell.samples.iter().map(|observation| &observation.over));
        labels.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Counts the samples of the whole table.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for observation in self.cells.iter().flatten().flat_map(|cell| &cell.samples) {
            counts.add(observation.sample);
        }
        counts
    }

    /// The rank of each cell within its column, by row, then column.
    ///
    /// Means that are equal as shown share a rank, for a reader could not tell why one of two equal numbers is bold. A cell with
    /// failed or diverged samples is not compared: the mean of its survivors would flatter it. A column in which fewer than two
    /// cells can be compared, or all are equal, has no best.
    #[must_use]
    pub fn ranks(&self) -> Vec<Vec<Rank>> {
        let mut ranks = vec![vec![Rank::None; self.columns.len()]; self.rows.len()];
        for column in 0..self.columns.len() {
            self.rank(column, &mut ranks);
        }
        ranks
    }

    /// The number by which a cell is compared; none for a cell that is not.
    #[must_use]
    pub fn center(&self, row: usize, column: usize) -> Option<f64> {
        let cell = &self.cells[row][column];
        let counts = cell.counts();
        let stats = cell.stats().filter(|_| counts.failed + counts.diverged == 0)?;
        Some(if matches!(self.heading.show, Show::MedianRange | Show::Median) { stats.median } else { stats.mean })
    }

    /// The place of each row in a column, 1 for the best, equal ones sharing their average; none for cells that are not compared, and for
    /// a cell that is the only one of its column: who has no opponent is not the best.
    #[must_use]
    pub fn places(&self, column: usize) -> Vec<Option<f64>> {
        let sign = if self.quantity(column).best == Best::Max { 1.0 } else { -1.0 };
        let centers: Vec<(usize, f64)> = (0..self.rows.len()).filter_map(|row| Some((row, sign * self.center(row, column)?))).collect();
        if centers.len() < 2 {
            return vec![None; self.rows.len()];
        }
        let ranks = friedman::ranks(&centers.iter().map(|(_, center)| *center).collect::<Vec<_>>());
        let mut places = vec![None; self.rows.len()];
        for ((row, _), rank) in centers.into_iter().zip(ranks) {
            places[row] = Some(rank);
        }
        places
    }

    /// The mean over the columns of a quantity of each row's place, without columns in which nobody has one; none for a row that is not
    /// compared in every column.
    #[must_use]
    pub fn mean_ranks(&self, quantity: usize) -> Vec<Option<f64>> {
        let columns: Vec<usize> = self.columns_of(quantity).collect();
        let ranked: Vec<Vec<Option<f64>>> =
            columns.iter().map(|column| self.places(*column)).filter(|places| places.iter().any(Option::is_some)).collect();
        let mean = |row: usize| {
            columns.iter().all(|column| self.center(row, *column).is_some()).then_some(())?;
            let places = ranked.iter().map(|places| places[row]).collect::<Option<Vec<f64>>>()?;
            (!places.is_empty()).then(|| places.iter().sum::<f64>() / places.len() as f64)
        };
        (0..self.rows.len()).map(mean).collect()
    }

    /// Whether a quantity has a column in which nobody has a place, so that mean ranks leave it out.
    pub(super) fn has_unranked(&self, quantity: usize) -> bool {
        self.columns_of(quantity).any(|column| self.places(column).iter().all(Option::is_none))
    }

    fn columns_of(&self, quantity: usize) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(move |column| self.columns[*column].quantity == quantity)
    }

    fn rank(&self, column: usize, ranks: &mut [Vec<Rank>]) {
        let quantity = self.quantity(column);
        let means: Vec<(usize, f64, String)> =
            (0..self.rows.len()).filter_map(|row| self.center(row, column).map(|center| (row, center, quantity.write(center)))).collect();
        if means.windows(2).all(|pair| pair[0].2 == pair[1].2) {
            return;
        }
        let best = leader(quantity.best, means.iter());
        let second = leader(quantity.best, means.iter().filter(|(_, _, shown)| Some(shown) != best));
        for (row, _, shown) in &means {
            if Some(shown) == best {
                ranks[*row][column] = Rank::Best;
            } else if Some(shown) == second {
                ranks[*row][column] = Rank::Second;
            }
        }
    }
}

/// The mean that leads, as shown.
fn leader<'a>(best: Best, means: impl Iterator<Item = &'a (usize, f64, String)>) -> Option<&'a String> {
    let order = |a: &&(usize, f64, String), b: &&(usize, f64, String)| a.1.total_cmp(&b.1);
    let found = match best {
        Best::Max => means.max_by(order),
        Best::Min => means.min_by(order),
    };
    found.map(|(_, _, shown)| shown)
}

/// Labels in the order of their first appearance.
struct Labels<T> {
    names: Vec<T>,
    known: HashMap<T, usize>,
}

impl<T> Default for Labels<T> {
    fn default() -> Self {
        Self { names: Vec::new(), known: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Labels<T> {
    fn index(&mut self, name: T) -> usize {
        if let Some(index) = self.known.get(&name) {
            return *index;
        }
        self.known.insert(name.clone(), self.names.len());
        self.names.push(name);
        self.names.len() - 1
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::sample::Sample;
    use super::*;

    pub(crate) fn heading(best: Best, measure: Measure) -> Heading {
        let text = str::to_owned;
        Heading {
            name: text("main"),
            title: text("Test accuracy"),
            row_axis: text("algorithm"),
            column_axis: text("alpha"),
            over: vec![text("seed")],
            quantities: vec![Quantity { label: text("run.test_accuracy.best"), measure, digits: None, best }],
            show: Show::MeanSd,
            ranks: false,
        }
    }

    /// Entries from `row column sample sample ...` lines; the seed is the sample's place in the line.
    pub(crate) fn entries(lines: &str) -> Vec<Entry> {
        let mut entries = Vec::new();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for (seed, word) in words[2..].iter().enumerate() {
                let sample = match *word {
                    "missing" => Sample::Missing,
                    "failed" => Sample::Failed,
                    "diverged" => Sample::Diverged,
                    "running" => Sample::Running,
                    "unfinished" => Sample::Unfinished,
                    number => Sample::of(number.parse().expect("a number")),
                };
                let observation = Observation::plain(&seed.to_string(), sample);
                entries.push(Entry { row: words[0].into(), column: words[1].into(), quantity: 0, observation });
            }
        }
        entries
    }

    fn ranks(best: Best, lines: &str) -> Vec<Rank> {
        Table::build(heading(best, Measure::Fraction), entries(lines)).ranks().into_iter().map(|row| row[0]).collect()
    }

    #[test]
    fn labels_keep_the_order_of_first_appearance() {
        let table = Table::build(heading(Best::Max, Measure::Fraction), entries("ditto 0.5 0.9\nfedavg 0.1 0.8\nditto 0.1 0.7"));
        let columns: Vec<&str> = table.columns.iter().map(|column| column.label.as_str()).collect();
        assert_eq!((table.rows.join(" "), columns.join(" ")), ("ditto fedavg".into(), "0.5 0.1".into()));
        assert_eq!(table.cells[1][0].samples, []);
        assert_eq!(table.depth(), 1);
    }

    #[test]
    fn best_is_by_mean_and_direction() {
        use Rank::{Best as First, None, Second};
        assert_eq!(ranks(Best::Max, "a x 0.1\nb x 0.3\nc x 0.2"), [None, First, Second]);
        assert_eq!(ranks(Best::Min, "a x 0.1\nb x 0.3\nc x 0.2"), [First, None, Second]);
        assert_eq!(ranks(Best::Max, "a x 0.1 0.5\nb x 0.2 0.2"), [First, Second]);
    }

    #[test]
    fn each_quantity_has_its_own_columns_and_its_own_best() {
        let mut heading = heading(Best::Max, Measure::Fraction);
        heading.quantities.push(Quantity { label: "run.test_loss.last".into(), measure: Measure::Loss, digits: Some(1), best: Best::Min });
        let entry = |row: &str, quantity, value| Entry {
            row: row.into(),
            column: "x".into(),
            quantity,
            observation: Observation::plain("0", Sample::of(value)),
        };
        let table = Table::build(heading, [entry("a", 0, 0.9), entry("a", 1, 2.0), entry("b", 0, 0.8), entry("b", 1, 1.0)]);
        assert_eq!(table.columns.len(), 2);
        assert_eq!(table.ranks(), [[Rank::Best, Rank::Second], [Rank::Second, Rank::Best]]);
        assert_eq!(table.quantity(1).write(2.0), "2.0");
    }

    #[test]
    fn ties_as_shown_share_a_rank() {
        use Rank::{Best as First, None, Second};
        assert_eq!(ranks(Best::Max, "a x 0.85851\nb x 0.85849\nc x 0.2\nd x 0.2\ne x 0.1"), [First, First, Second, Second, None]);
        assert_eq!(ranks(Best::Max, "a x 0.5\nb x 0.5"), [None, None]);
    }

    #[test]
    fn survivors_of_diverged_and_failed_runs_are_not_compared() {
        use Rank::{Best as First, None, Second};
        assert_eq!(ranks(Best::Max, "a x 0.9 diverged\nb x 0.3 missing\nc x 0.2 0.2\nd x failed 0.99"), [None, First, Second, None]);
        assert_eq!(ranks(Best::Max, "a x 0.9\nb x diverged"), [None, None]);
    }

    #[test]
    fn mean_ranks_share_ties_and_need_every_column() {
        let table = Table::build(
            heading(Best::Max, Measure::Fraction),
            entries("a x 0.9\nb x 0.8\nc x 0.8\nd x failed\na y 0.1\nb y 0.3\nc y 0.2\nd y 0.9"),
        );
        assert_eq!(table.places(0), [Some(1.0), Some(2.5), Some(2.5), None]);
        assert_eq!(table.mean_ranks(0), [Some(2.5), Some(2.25), Some(2.75), None]);
    }

    #[test]
    fn who_is_alone_in_a_column_has_no_rank() {
        let table =
            Table::build(heading(Best::Max, Measure::Fraction), entries("a x 0.9\nb x diverged\nc x failed\na y 0.1\nb y 0.3\nc y 0.2"));
        assert_eq!(table.places(0), [None, None, None]);
        // What diverged is not ranked as if that had not been.
        assert_eq!(table.mean_ranks(0), [Some(3.0), None, None]);
        assert!(table.has_unranked(0));
        let alone = Table::build(heading(Best::Max, Measure::Fraction), entries("a x 0.9\na y 0.1"));
        assert_eq!(alone.mean_ranks(0), [None]);
    }

    #[test]
    fn rows_stand_under_headings() {
        let mut table = Table::build(heading(Best::Max, Measure::Fraction), entries("a1 x 0.1\nb1 x 0.2\na2 x 0.3"));
        table.group_by(|row| row[..1].to_owned());
        assert_eq!((table.rows.join(" "), table.groups.join(" ")), ("a1 a2 b1".into(), "a a b".into()));
        assert_eq!(table.cells[1][0].values(), [0.3]);
    }
}
