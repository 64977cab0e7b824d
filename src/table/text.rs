//! What a cell, a caption and a legend say in words, before any format dresses them.
//!
//! Every format takes its texts from here, so that they cannot disagree.

use super::sample::{Cell, Stats};
use super::value::{Measure, Quantity, Rank, Table};
use crate::base::text::count;

/// The text of a cell in two parts, so that a format can dress the number alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellText {
    /// The mean as shown, when there is one.
    pub(super) mean: Option<String>,
    /// The sample sd as shown, when there are two values or more.
    pub(super) sd: Option<String>,
    /// What is not a number or not complete: `n=2, 1 diverged`; empty for a complete cell.
    pub(super) note: String,
}

impl CellText {
    /// `depth` is the number of samples of a complete cell.
    pub(super) fn of(quantity: &Quantity, cell: &Cell, depth: usize) -> Self {
        let counts = cell.counts();
        let stats = cell.stats();
        let troubles = counts.troubles();
        let mut notes: Vec<String> = troubles.iter().map(|(n, word)| format!("{n} {word}")).collect();
        match stats {
            // A cell of one kind of trouble says it in a word; the number of samples is no news then.
            None if troubles.len() == 1 && counts.total() == depth => notes = vec![troubles[0].1.to_owned()],
            Some(Stats { n, .. }) if n < depth => notes.insert(0, format!("n={n}")),
            _ => {}
        }
        Self {
            mean: stats.map(|s| quantity.write(s.mean)),
            sd: stats.and_then(|s| s.sd).map(|sd| quantity.write(sd)),
            note: notes.join(", "),
        }
    }

    /// `85.85 ± 0.19`, `85.85`, or nothing.
    pub(super) fn number(&self) -> Option<String> {
        let mean = self.mean.as_ref()?;
        Some(self.sd.as_ref().map_or_else(|| mean.clone(), |sd| format!("{mean} ± {sd}")))
    }
}

impl Quantity {
    /// The number as shown: percent with two decimals, a count without, a loss with four. Never a negative zero.
    #[must_use]
    pub fn write(&self, value: f64) -> String {
        let digits = self.digits.map(usize::from);
        let text = match self.measure {
            Measure::Fraction => format!("{:.*}", digits.unwrap_or(2), value * 100.0),
            Measure::Count => grouped(&format!("{value:.*}", digits.unwrap_or(0))),
            // A loss may be tiny or huge; then four decimals would say nothing or far too much.
            Measure::Loss if digits.is_none() && value != 0.0 && !(1e-3..1e7).contains(&value.abs()) => format!("{value:.3e}"),
            Measure::Loss => format!("{value:.*}", digits.unwrap_or(4)),
        };
        match text.strip_prefix('-') {
            Some(rest) if !rest.contains(|c: char| ('1'..='9').contains(&c)) => rest.to_owned(),
            _ => text,
        }
    }
}

impl Measure {
    /// The unit for captions, or the empty string.
    #[must_use]
    pub fn unit(self) -> &'static str {
        if self == Self::Fraction { "%" } else { "" }
    }

    /// The word in machine-readable formats.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fraction => "fraction",
            Self::Count => "count",
            Self::Loss => "loss",
        }
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: &str) -> String {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (digits, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut out = String::from(sign);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

impl Table {
    /// The text and the rank of every cell, by row, then column.
    pub(super) fn texts(&self) -> Vec<Vec<(CellText, Rank)>> {
        let (depth, ranks) = (self.depth(), self.ranks());
        let text = |column: usize, cell: &Cell| CellText::of(self.quantity(column), cell, depth);
        let row = |cells: &Vec<Cell>, ranks: Vec<Rank>| {
            cells.iter().zip(ranks).enumerate().map(|(column, (cell, rank))| (text(column, cell), rank)).collect()
        };
        self.cells.iter().zip(ranks).map(|(cells, ranks)| row(cells, ranks)).collect()
    }

    /// What stands above the row labels: `algorithm \ alpha`.
    pub(super) fn corner(&self) -> String {
        let heading = &self.heading;
        if heading.column_axis.is_empty() { heading.row_axis.clone() } else { format!("{} \\ {}", heading.row_axis, heading.column_axis) }
    }

    /// The title for people: the given one, or the value with its axes.
    #[must_use]
    pub fn title(&self) -> String {
        let heading = &self.heading;
        if !heading.title.is_empty() {
            return heading.title.clone();
        }
        let axes: Vec<&str> = [&heading.row_axis, &heading.column_axis].into_iter().map(String::as_str).filter(|a| !a.is_empty()).collect();
        let labels: Vec<&str> = heading.quantities.iter().map(|quantity| quantity.label.as_str()).collect();
        let shown = labels.join(" and ");
        if axes.is_empty() { shown } else { format!("{shown} by {}", axes.join(" and ")) }
    }

    /// What the numbers are: `run.test_accuracy.best in %, mean ± sample sd over 3 values of seed`.
    #[must_use]
    pub fn legend(&self) -> String {
        let shown: Vec<String> = self
            .heading
            .quantities
            .iter()
            .map(|quantity| match quantity.measure.unit() {
                "" => quantity.label.clone(),
                unit => format!("{} in {unit}", quantity.label),
            })
            .collect();
        let mut text = shown.join(" and ");
        let depth = self.depth();
        if !self.heading.over.is_empty() && depth > 0 {
            let spread = if depth > 1 { "mean ± sample sd over" } else { "from" };
            text.push_str(&format!(", {spread} {} of {}", count(depth, "value"), self.heading.over));
        }
        text
    }

    /// How many samples are not numbers: `2 of 90 samples diverged, 1 failed`; empty when all are there.
    #[must_use]
    pub fn troubles(&self) -> String {
        let counts = self.counts();
        let troubles = counts.troubles();
        let Some(((n, word), rest)) = troubles.split_first() else { return String::new() };
        let mut text = format!("{n} of {} {word}", count(counts.total(), "sample"));
        for (n, word) in rest {
            text.push_str(&format!(", {n} {word}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::Best;
    use super::super::value::tests::{entries, heading};
    use super::*;

    fn texts(lines: &str) -> Vec<String> {
        let table = Table::build(heading(Best::Max, Measure::Fraction), entries(lines));
        table.texts().iter().map(|row| format!("{} [{}]", row[0].0.number().unwrap_or_default(), row[0].0.note)).collect()
    }

    #[test]
    fn numbers_are_written_by_their_measure() {
        for (measure, value, want) in [
            (Measure::Fraction, 0.858_512, "85.85"),
            (Measure::Fraction, 1.0, "100.00"),
            (Measure::Fraction, -1e-9, "0.00"),
            (Measure::Count, 1_234_567.0, "1,234,567"),
            (Measure::Count, 999.0, "999"),
            (Measure::Loss, 0.512_345, "0.5123"),
            (Measure::Loss, 1.5e-7, "1.500e-7"),
            (Measure::Loss, 0.0, "0.0000"),
            (Measure::Loss, 3.2e9, "3.200e9"),
        ] {
            let quantity = |digits| Quantity { label: String::new(), measure, digits, best: Best::Max };
            assert_eq!(quantity(None).write(value), want);
            assert_eq!(quantity(Some(1)).write(2.0).split('.').nth(1), Some("0"));
        }
    }

    #[test]
    fn incomplete_cells_say_what_is_missing() {
        assert_eq!(
            texts(
                "a x 0.8 0.9 0.7\nb x 0.8 diverged 0.8\nc x diverged diverged diverged\nd x failed missing diverged\ne x 0.5\nf x running"
            ),
            [
                "80.00 ± 10.00 []",
                "80.00 ± 0.00 [n=2, 1 diverged]",
                " [diverged]",
                " [1 diverged, 1 failed, 1 missing]",
                "50.00 [n=1]",
                " [1 running]",
            ]
        );
    }

    #[test]
    fn captions_count_what_is_not_there() {
        let table = Table::build(heading(Best::Max, Measure::Fraction), entries("a x 0.8 failed\nb x 0.8 diverged"));
        assert_eq!(table.legend(), "run.test_accuracy.best in %, mean ± sample sd over 2 values of seed");
        assert_eq!(table.troubles(), "1 of 4 samples diverged, 1 failed");
        let mut untitled = table;
        untitled.heading.title.clear();
        assert_eq!(untitled.title(), "run.test_accuracy.best by algorithm and alpha");
    }
}
