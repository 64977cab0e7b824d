//! What a cell, a caption and a legend say in words, before any format dresses them.
//!
//! Every format takes its texts from here, so that they cannot disagree.

use super::sample::Cell;
use super::value::{Measure, Quantity, Show, Table};
use crate::base::text::{count, signless_zero};

/// The text of a cell in parts, so that a format can dress the number alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CellText {
    /// The mean, or whatever the table shows, when there is one.
    pub(super) mean: Option<String>,
    /// How it spreads, with what joins it to the mean: ` ± 0.19`, ` [85.6, 86.0]`.
    pub(super) spread: Option<String>,
    /// What is not a number or not complete: `n=2, 1 diverged`; empty for a complete cell.
    pub(super) note: String,
}

impl CellText {
    /// `depth` is the number of samples of a complete cell.
    pub(super) fn of(quantity: &Quantity, show: Show, cell: &Cell, depth: usize) -> Self {
        let counts = cell.counts();
        let stats = cell.stats();
        let troubles = counts.troubles();
        let mut notes: Vec<String> = troubles.iter().map(|(n, word)| format!("{n} {word}")).collect();
        match stats {
            // A cell of one kind of trouble says it in a word; the number of samples is no news then.
            None if troubles.len() == 1 && counts.total() == depth => notes = vec![troubles[0].1.to_owned()],
            Some(stats) if stats.n < depth => notes.insert(0, format!("n={}", stats.n)),
            _ => {}
        }
        let Some(stats) = stats else { return Self { note: notes.join(", "), ..Self::default() } };
        let plus_minus = |value: Option<f64>| value.map(|value| format!(" ± {}", quantity.write(value)));
        let (mean, spread) = match show {
            Show::MeanSd => (stats.mean, plus_minus(stats.sd)),
            Show::MeanInterval => (stats.mean, plus_minus(stats.half_width(0.95))),
            Show::MedianRange => {
                let range = format!(" [{}, {}]", quantity.write(stats.min), quantity.write(stats.max));
                (stats.median, (stats.n > 1).then_some(range))
            }
            Show::Mean => (stats.mean, None),
            Show::Median => (stats.median, None),
        };
        Self { mean: Some(quantity.write(mean)), spread, note: notes.join(", ") }
    }

    /// A text that is shown as it is.
    pub(super) fn plain(text: String) -> Self {
        Self { mean: Some(text).filter(|text| !text.is_empty()), ..Self::default() }
    }

    /// `85.85 ± 0.19`, `85.85`, or nothing.
    pub(super) fn number(&self) -> Option<String> {
        let mean = self.mean.as_ref()?;
        Some(format!("{mean}{}", self.spread.as_deref().unwrap_or_default()))
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
        signless_zero(text)
    }
}

impl Quantity {
    /// A difference as shown, with its sign unless it is zero as shown; of fractions in percentage points.
    #[must_use]
    pub fn signed(&self, value: f64) -> String {
        let text = self.write(value);
        if value > 0.0 { signless_zero(format!("+{text}")) } else { text }
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
    /// What stands above the row labels: `algorithm \ alpha`.
    pub(super) fn corner(&self) -> String {
        let heading = &self.heading;
        match (heading.row_axis.as_str(), heading.column_axis.as_str()) {
            (row, "") => row.to_owned(),
            ("", column) => column.to_owned(),
            (row, column) => format!("{row} \\ {column}"),
        }
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
            let spread = match (depth > 1, self.heading.show) {
                (false, _) => "from",
                (_, Show::MeanSd) => "mean ± sample sd over",
                (_, Show::MeanInterval) => "mean ± half its 95 % t-interval over",
                (_, Show::MedianRange) => "median [smallest, largest] over",
                (_, Show::Mean) => "mean over",
                (_, Show::Median) => "median over",
            };
            text.push_str(&format!(", {spread} {} of {}", count(depth, "value"), self.heading.over.join(", ")));
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
        let text = |row: &Vec<Cell>| CellText::of(table.quantity(0), Show::MeanSd, &row[0], table.depth());
        table.cells.iter().map(text).map(|text| format!("{} [{}]", text.number().unwrap_or_default(), text.note)).collect()
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

    #[test]
    fn every_choice_of_what_is_shown() {
        let table = Table::build(heading(Best::Max, Measure::Fraction), entries("a x 0.80 0.90 0.82"));
        let shown = Show::ALL.map(|(_, show, _)| CellText::of(table.quantity(0), show, &table.cells[0][0], 3).number().unwrap_or_default());
        // By hand: sd 0.05292, t(2) at 0.975 is 4.3027, 4.3027 * 0.05292 / sqrt(3) = 0.1314.
        assert_eq!(shown, ["84.00 ± 5.29", "84.00 ± 13.14", "82.00 [80.00, 90.00]", "84.00", "82.00"]);
    }

    #[test]
    fn differences_have_a_sign() {
        let quantity = Quantity { label: String::new(), measure: Measure::Fraction, digits: None, best: Best::Max };
        assert_eq!([0.0123, -0.0123, 0.0, -1e-9].map(|d| quantity.signed(d)), ["+1.23", "-1.23", "0.00", "0.00"]);
    }
}
