//! What has to be known of a table's cells, as sheets below it: the privacy that its numbers have spent, for an accuracy under noise
//! says little without its epsilon, and why some cells have nothing to measure.

use super::grid::Sheet;
use super::sample::{Cell, Observation};
use super::value::Table;
use std::collections::BTreeSet;

impl Table {
    /// Epsilon and delta of each cell, where any number has some: the largest over its samples, and `none` where there is none.
    ///
    /// Values side by side that have spent the same are one line. A mean over numbers of which some are not protected is not either.
    pub(super) fn spent(&self) -> Option<Sheet> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (row, label) in self.rows.iter().enumerate() {
            // The columns of each label of the column axis, in order.
            let mut beside: Vec<(String, Vec<usize>)> = Vec::new();
            for column in (0..self.columns.len()).filter(|column| !self.cells[row][*column].values().is_empty()) {
                let axis = self.axis_label(column);
                match beside.iter_mut().find(|(known, _)| *known == axis) {
                    Some((_, columns)) => columns.push(column),
                    None => beside.push((axis, vec![column])),
                }
            }
            for (axis, columns) in beside {
                // What shows an epsilon itself is no other number's; alone it still needs its delta.
                let alone = columns.iter().all(|column| self.shows_epsilon(*column));
                let columns = columns.into_iter().filter(|column| alone || !self.shows_epsilon(*column));
                let texts: Vec<(usize, [String; 2])> = columns.map(|column| (column, protection(&self.cells[row][column]))).collect();
                let same = texts.windows(2).all(|pair| pair[0].1 == pair[1].1);
                for (column, [epsilon, delta]) in texts.into_iter().take(if same { 1 } else { usize::MAX }) {
                    let column = if same { axis.clone() } else { self.columns[column].label.clone() };
                    rows.push(vec![label.clone(), column, epsilon, delta]);
                }
            }
        }
        if rows.iter().all(|row| row[2] == NONE) {
            return None;
        }
        let title = "Differential privacy: what was spent until the evaluation that is shown".to_owned();
        let attack = |column: usize| {
            let name = self.quantity(column).label.split('.').nth(1).unwrap_or_default();
            crate::attacks::findings::metrics(None).contains(&name)
        };
        let mut notes = Vec::new();
        let pairs: BTreeSet<&[String]> = rows.iter().map(|row| &row[2..]).collect();
        let sole = pairs.first().filter(|pair| pairs.len() == 1 && !pair[0].contains(' ')).map(|pair| pair.to_vec());
        // Where all rows of a column agree, or all columns of a row, one line says it.
        let mut short = [0, 1].into_iter().map(|left_out| merged(&rows, left_out)).min_by_key(Vec::len).unwrap_or_default();
        if let Some(pair) = sole {
            notes.push(format!("every number is under differential privacy: epsilon {}, delta {}", pair[0], pair[1]));
            short.clear();
        } else if short.iter().filter(|row| row[2] == NONE).count() > MOST_WITHOUT {
            short.retain(|row| row[2] != NONE);
            notes.push("numbers that are not listed here are not under differential privacy".to_owned());
        }
        if (0..self.columns.len()).any(attack) {
            notes.push("for an attack: what the training had spent before the round that is attacked".to_owned());
        }
        let header = if short.is_empty() { Vec::new() } else { ["row", "column", "epsilon", "delta"].map(str::to_owned).into() };
        Some(Sheet { title, header, rows: short, notes })
    }

    fn shows_epsilon(&self, column: usize) -> bool {
        self.quantity(column).label.split('.').nth(1) == Some("epsilon")
    }

    /// What a column stands for on the column axis, without the value that it shows; `all` where there is nothing else.
    fn axis_label(&self, column: usize) -> String {
        let label = &self.columns[column].label;
        if self.heading.quantities.len() == 1 {
            return label.clone();
        }
        let whole = &self.quantity(column).label;
        let without_stage = whole.split_once('.').map_or(whole.as_str(), |(_, rest)| rest);
        let axis = label.strip_suffix(whole.as_str()).or_else(|| label.strip_suffix(without_stage)).unwrap_or(label).trim_end();
        if axis.is_empty() { "all".to_owned() } else { axis.to_owned() }
    }

    /// Why cells have nothing to measure: a sentence for each reason, with the values and rows that it is about.
    pub(super) fn reasons(&self) -> Option<Sheet> {
        let notes = self.told(|observation| observation.reason.as_deref());
        (!notes.is_empty()).then(|| Sheet { title: "Not applicable".to_owned(), header: Vec::new(), rows: Vec::new(), notes })
    }

    /// Over what numbers are taken, where some clients have none.
    pub(super) fn partial(&self) -> Option<Sheet> {
        let notes = self.told(|observation| observation.partial.as_deref());
        (!notes.is_empty()).then(|| Sheet { title: "Of some clients only".to_owned(), header: Vec::new(), rows: Vec::new(), notes })
    }

    /// What makes numbers worthless, each with the values and rows that it is about.
    #[must_use]
    pub fn caveats(&self) -> Vec<String> {
        self.told(|observation| observation.caveat.as_deref())
    }

    /// The same as a sheet.
    pub(super) fn warned(&self) -> Option<Sheet> {
        let notes = self.caveats();
        (!notes.is_empty()).then(|| Sheet { title: "Warning".to_owned(), header: Vec::new(), rows: Vec::new(), notes })
    }

    /// What samples say of themselves: a sentence for each text, with the values, rows and columns that it is about.
    fn told(&self, text: impl Fn(&Observation) -> Option<&str>) -> Vec<String> {
        let mut reasons: Vec<Reason<'_>> = Vec::new();
        for (row, label) in self.rows.iter().enumerate() {
            for (column, cell) in self.cells[row].iter().enumerate() {
                for reason in cell.samples.iter().filter_map(&text) {
                    let at = reasons.iter().position(|known| known.text == reason).unwrap_or_else(|| {
                        reasons.push(Reason { text: reason, values: Vec::new(), rows: Vec::new(), columns: Vec::new() });
                        reasons.len() - 1
                    });
                    let found = &mut reasons[at];
                    add(&mut found.values, &self.quantity(column).label);
                    add(&mut found.rows, label);
                    let axis = self.axis_label(column);
                    if !found.columns.contains(&axis) {
                        found.columns.push(axis);
                    }
                }
            }
        }
        let all: BTreeSet<String> = (0..self.columns.len()).map(|column| self.axis_label(column)).collect();
        let note = |reason: &Reason<'_>| {
            let of = if reason.rows.len() == self.rows.len() { String::new() } else { format!(" of {}", reason.rows.join(", ")) };
            let within = if reason.columns.len() == all.len() { String::new() } else { format!(" in {}", reason.columns.join(", ")) };
            format!("{}{of}{within}: {}", reason.values.join(", "), reason.text)
        };
        reasons.iter().map(note).collect()
    }
}

/// Why there is nothing to measure, and of which values, rows and columns.
struct Reason<'a> {
    text: &'a str,
    values: Vec<&'a str>,
    rows: Vec<&'a str>,
    columns: Vec<String>,
}

/// Adds a word that is not there yet.
fn add<'a>(list: &mut Vec<&'a str>, word: &'a str) {
    if !list.contains(&word) {
        list.push(word);
    }
}

/// The largest epsilon of a cell's values with its delta; none where a value has none, for then their mean has none.
pub(super) fn most(cell: &Cell) -> Option<(f64, f64)> {
    let values = || cell.samples.iter().filter(|observation| observation.sample.value().is_some());
    if values().any(|observation| observation.spent.is_none()) { None } else { largest(cell) }
}

/// The largest epsilon among those that there are.
fn largest(cell: &Cell) -> Option<(f64, f64)> {
    cell.samples.iter().filter_map(|observation| observation.spent).reduce(|a, b| if b.0 > a.0 { b } else { a })
}

/// The epsilon of a number that is not protected.
const NONE: &str = "none";

/// So many lines of unprotected numbers are listed; more are summed up.
const MOST_WITHOUT: usize = 8;

/// Epsilon and delta of a cell as texts.
fn protection(cell: &Cell) -> [String; 2] {
    let Some((epsilon, delta)) = largest(cell) else { return [NONE.to_owned(), String::new()] };
    let values = cell.samples.iter().filter(|observation| observation.sample.value().is_some());
    let (with, all) = values.fold((0, 0), |(with, all), o| (with + usize::from(o.spent.is_some()), all + 1));
    let epsilon = written(epsilon);
    [if with == all { epsilon } else { format!("none ({epsilon} for {with} of {all} values)") }, small(delta)]
}

/// The lines without their row or column, which becomes `all`, when each line that is left then has one meaning; else as they are.
fn merged(rows: &[Vec<String>], left_out: usize) -> Vec<Vec<String>> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let mut line = row.clone();
        line[left_out] = "all".to_owned();
        match lines.iter().find(|known| known[1 - left_out] == line[1 - left_out]) {
            Some(known) if *known == line => {}
            Some(_) => return rows.to_vec(),
            None => lines.push(line),
        }
    }
    // A single line for a single cell is no shorter.
    if lines.len() == rows.len() { rows.to_vec() } else { lines }
}

/// `1e-5`.
fn small(delta: f64) -> String {
    if delta == 0.0 { "0".to_owned() } else { format!("{delta:e}") }
}

/// Three digits behind the point, more for what is small, and none for what protects nobody.
fn written(epsilon: f64) -> String {
    match epsilon {
        _ if epsilon >= 100.0 => format!("{epsilon:.0}"),
        _ if epsilon >= 0.1 || epsilon == 0.0 => format!("{epsilon:.3}"),
        _ if epsilon >= 1e-3 => format!("{epsilon:.5}"),
        _ => format!("{epsilon:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::tests::sample;
    use super::super::sample::Sample;
    use super::super::value::{Column, Quantity};
    use super::written;
    use super::{Cell, Observation};

    #[test]
    fn only_what_is_protected_is_listed_and_equal_numbers_are_said_once() {
        let mut table = sample();
        assert!(table.spent().is_none());
        table.cells[0][0].samples[0].spent = Some((2.5, 1e-5));
        table.cells[0][0].samples[1].spent = Some((3.0, 1e-5));
        let sheet = table.spent().expect("one cell has it");
        assert_eq!(sheet.rows[0], ["fedavg", "all", "none (3.000 for 2 of 3 values)", "1e-5"]);
        assert!(sheet.notes.is_empty() && super::most(&table.cells[0][0]).is_none(), "the mean of all three has no epsilon");
        table.cells[0][0].samples.iter_mut().for_each(|sample| sample.spent = Some((3.0, 1e-5)));
        let sheet = table.spent().expect("one cell has it");
        assert_eq!(sheet.rows[0], ["fedavg", "all", "3.000", "1e-5"]);
        assert!(sheet.rows[1..].iter().all(|row| row[2] == "none" && row[3].is_empty()), "{:?}", sheet.rows);
        table.cells.iter_mut().flat_map(|row| &mut row[0].samples).for_each(|sample| sample.spent = Some((3.0, 1e-5)));
        assert_eq!(table.spent().expect("one column").rows, [["all", "0.1", "3.000", "1e-5"], ["all", "0.5", "none", ""]]);
        table.cells.iter_mut().flatten().flat_map(|cell| &mut cell.samples).for_each(|sample| sample.spent = Some((800.4, 1e-5)));
        let sheet = table.spent().expect("all have it");
        assert!(sheet.rows.is_empty() && sheet.notes == ["every number is under differential privacy: epsilon 800, delta 1e-5"]);
    }

    #[test]
    fn values_side_by_side_that_spent_the_same_are_one_line() {
        let mut table = sample();
        let first = table.heading.quantities[0].clone();
        table.heading.quantities.push(Quantity { label: "run.test_auc.best".to_owned(), ..first });
        table.columns = ["test_accuracy.best", "test_auc.best"]
            .iter()
            .enumerate()
            .flat_map(|(quantity, value)| ["0.1", "0.5"].map(|axis| Column { label: format!("{axis} {value}"), quantity }))
            .collect();
        let cell = |spent| Cell { samples: vec![Observation { spent, ..Observation::plain("0", Sample::Value(0.5)) }] };
        for row in &mut table.cells {
            *row = vec![cell(Some((1.0, 1e-5))), cell(Some((2.0, 1e-5))), cell(Some((1.0, 1e-5))), cell(Some((3.0, 1e-5)))];
        }
        let sheet = table.spent().expect("all have it");
        assert!(sheet.notes.is_empty());
        let wanted = [
            ["all", "0.1", "1.000", "1e-5"],
            ["all", "0.5 test_accuracy.best", "2.000", "1e-5"],
            ["all", "0.5 test_auc.best", "3.000", "1e-5"],
        ];
        assert_eq!(sheet.rows, wanted);
    }

    #[test]
    fn columns_without_privacy_are_not_counted_among_the_protected() {
        let mut table = sample();
        for (row, cells) in table.cells.iter_mut().enumerate() {
            for (column, spent) in [None, Some((1.0, 1e-5))].into_iter().enumerate() {
                let value = Sample::Value(0.1 * row as f64);
                cells[column] = Cell { samples: vec![Observation { spent, ..Observation::plain("0", value) }] };
            }
        }
        let sheet = table.spent().expect("one column has it");
        assert_eq!(sheet.rows, [["all", "0.1", "none", ""], ["all", "0.5", "1.000", "1e-5"]]);
        assert!(sheet.notes.is_empty());
    }

    #[test]
    fn what_is_small_keeps_its_digits() {
        assert_eq!([0.0, 3e-7, 0.00512, 0.25, 12.0, 512.3].map(written), ["0.000", "3.00e-7", "0.00512", "0.250", "12.000", "512"]);
    }

    #[test]
    fn numbers_that_are_worth_nothing_say_so() {
        let mut table = sample();
        assert!(table.warned().is_none());
        table.cells[1][0].samples[0].caveat = Some("no step".to_owned());
        assert_eq!(table.caveats(), ["run.test_accuracy.best of ditto in 0.1: no step"]);
        assert_eq!(table.warned().expect("one").title, "Warning");
        assert!(table.partial().is_none());
        table.cells[1][0].samples[0].partial = Some("over 2 of 3".to_owned());
        assert_eq!(table.partial().expect("one").notes, ["run.test_accuracy.best of ditto in 0.1: over 2 of 3"]);
    }

    #[test]
    fn reasons_are_said_once() {
        let mut table = sample();
        assert!(table.reasons().is_none());
        let set = |cell: &mut Cell| cell.samples = vec![Observation::inapplicable(vec!["0".to_owned()], "it sends nothing")];
        set(&mut table.cells[0][0]);
        set(&mut table.cells[0][1]);
        assert_eq!(table.reasons().expect("two cells").notes, ["run.test_accuracy.best of fedavg: it sends nothing"]);
        table.cells.iter_mut().flatten().for_each(set);
        assert_eq!(table.reasons().expect("all cells").notes, ["run.test_accuracy.best: it sends nothing"]);
    }
}
