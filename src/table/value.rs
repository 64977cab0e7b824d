//! The table itself: labels, cells, which cells are best, and what unit its numbers have.
//!
//! It knows no format; [`format`](super::format) renders it.

use super::sample::{Cell, Counts, Sample};
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
    /// The axis over which samples are averaged; empty when there is none.
    pub over: String,
    /// What is shown: one quantity, or several side by side.
    pub quantities: Vec<Quantity>,
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
    /// Label on the `over` axis.
    pub over: String,
    /// What the run gave.
    pub sample: Sample,
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
}

impl Table {
    /// Gathers the entries by row and column.
    #[must_use]
    pub fn build(heading: Heading, entries: impl IntoIterator<Item = Entry>) -> Self {
        let (mut rows, mut columns) = (Labels::default(), Labels::default());
        let last = heading.quantities.len().saturating_sub(1);
        let mut place = |e: Entry| {
            let column = columns.index(Column { label: e.column, quantity: e.quantity.min(last) });
            (rows.index(e.row), column, e.over, e.sample)
        };
        let placed: Vec<_> = entries.into_iter().map(&mut place).collect();
        let mut cells = vec![vec![Cell::default(); columns.names.len()]; rows.names.len()];
        for (row, column, over, sample) in placed {
            cells[row][column].samples.push((over, sample));
        }
        Self { heading, rows: rows.names, columns: columns.names, cells }
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
        let labels = self.cells.iter().flatten().flat_map(|cell| cell.samples.iter().map(|(over, _)| over.as_str()));
        labels.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Counts the samples of the whole table.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (_, sample) in self.cells.iter().flatten().flat_map(|cell| &cell.samples) {
            counts.add(*sample);
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

    fn rank(&self, column: usize, ranks: &mut [Vec<Rank>]) {
        let quantity = self.quantity(column);
        let means: Vec<(usize, f64, String)> = (0..self.rows.len())
            .filter_map(|row| {
                let cell = &self.cells[row][column];
                let counts = cell.counts();
                let stats = cell.stats().filter(|_| counts.failed + counts.diverged == 0)?;
                Some((row, stats.mean, quantity.write(stats.mean)))
            })
            .collect();
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
    use super::*;

    pub(crate) fn heading(best: Best, measure: Measure) -> Heading {
        let text = str::to_owned;
        Heading {
            name: text("main"),
            title: text("Test accuracy"),
            row_axis: text("algorithm"),
            column_axis: text("alpha"),
            over: text("seed"),
            quantities: vec![Quantity { label: text("run.test_accuracy.best"), measure, digits: None, best }],
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
                    number => Sample::of(number.parse().expect("a number")),
                };
                entries.push(Entry { row: words[0].into(), column: words[1].into(), quantity: 0, over: seed.to_string(), sample });
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
            over: "0".into(),
            sample: Sample::of(value),
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
}
