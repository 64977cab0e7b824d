//! The privacy that a table's numbers have spent, as a sheet below it: an accuracy under noise says little without its epsilon.

use super::grid::Sheet;
use super::value::Table;
use std::collections::BTreeSet;

impl Table {
    /// Epsilon and delta of each cell that has them; the largest over its samples. Absent where no number has any.
    pub(super) fn spent(&self) -> Option<Sheet> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut cells = 0;
        for (row, label) in self.rows.iter().enumerate() {
            for (column, cell) in self.cells[row].iter().enumerate().filter(|(_, cell)| !cell.values().is_empty()) {
                cells += 1;
                let most = cell.samples.iter().filter_map(|observation| observation.spent).reduce(|a, b| if b.0 > a.0 { b } else { a });
                if let Some((epsilon, delta)) = most {
                    rows.push(vec![label.clone(), self.columns[column].label.clone(), written(epsilon), small(delta)]);
                }
            }
        }
        let pairs: BTreeSet<&[String]> = rows.iter().map(|row| &row[2..]).collect();
        // Where all rows of a column agree, or all columns of a row, one line says it.
        let short = [0, 1].into_iter().map(|left_out| merged(&rows, left_out)).min_by_key(Vec::len).unwrap_or_default();
        let note = match pairs.first() {
            Some([epsilon, delta]) if pairs.len() == 1 && rows.len() == cells => {
                Some(format!("every number is under differential privacy: epsilon {epsilon}, delta {delta}"))
            }
            _ => None,
        };
        if rows.is_empty() {
            return None;
        }
        let title = "Differential privacy: what was spent until the evaluation that is shown".to_owned();
        Some(match note {
            Some(note) => Sheet { title, header: Vec::new(), rows: Vec::new(), notes: vec![note] },
            None => {
                Sheet { title, header: ["row", "column", "epsilon", "delta"].map(str::to_owned).into(), rows: short, notes: Vec::new() }
            }
        })
    }
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

/// Three digits, or whole numbers for what protects nobody.
fn written(epsilon: f64) -> String {
    if epsilon < 100.0 { format!("{epsilon:.3}") } else { format!("{epsilon:.0}") }
}

#[cfg(test)]
mod tests {
    use super::super::format::tests::sample;

    #[test]
    fn only_what_is_protected_is_listed_and_equal_numbers_are_said_once() {
        let mut table = sample();
        assert!(table.spent().is_none());
        table.cells[0][0].samples[0].spent = Some((2.5, 1e-5));
        table.cells[0][0].samples[1].spent = Some((3.0, 1e-5));
        let sheet = table.spent().expect("one cell has it");
        assert_eq!(sheet.rows, [["fedavg", "0.1", "3.000", "1e-5"]]);
        table.cells[1][0].samples[0].spent = Some((3.0, 1e-5));
        assert_eq!(table.spent().expect("one column").rows, [["all", "0.1", "3.000", "1e-5"]]);
        table.cells.iter_mut().flatten().flat_map(|cell| &mut cell.samples).for_each(|sample| sample.spent = Some((800.4, 1e-5)));
        let sheet = table.spent().expect("all have it");
        assert!(sheet.rows.is_empty() && sheet.notes == ["every number is under differential privacy: epsilon 800, delta 1e-5"]);
    }
}
