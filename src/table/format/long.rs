//! Exports for analysis: one line a measurement, in the long form that pandas and polars read in one line.

use super::super::sample::{Observation, Sample};
use super::super::value::Table;
use super::csv::quoted;
use super::{Format, Look};
use crate::base::Outcome;

/// One line for each sample of each cell: `pandas.read_csv`.
pub(super) struct Long;

/// One line for each evaluation behind each sample: the learning curves.
pub(super) struct Series;

impl Format for Long {
    fn name(&self) -> &'static str {
        "long"
    }
    fn extension(&self) -> &'static str {
        "long.csv"
    }
    fn doc(&self) -> &'static str {
        "long CSV: one line for each sample, with its seed, state and round"
    }
    fn render(&self, tables: &[Table], _: Look) -> Outcome<String> {
        Ok(written(tables, "state,round,measured,epsilon,delta", |observation| {
            let round = observation.round.map(|round| round.to_string()).unwrap_or_default();
            let value = observation.sample.value().map(|value| value.to_string()).unwrap_or_default();
            let (epsilon, delta) = observation.spent.map(|(e, d)| (e.to_string(), d.to_string())).unwrap_or_default();
            vec![format!("{},{round},{value},{epsilon},{delta}", state(observation.sample))]
        }))
    }
}

impl Format for Series {
    fn name(&self) -> &'static str {
        "series"
    }
    fn extension(&self) -> &'static str {
        "series.csv"
    }
    fn doc(&self) -> &'static str {
        "long CSV of learning curves: one line for each evaluation"
    }
    fn render(&self, tables: &[Table], _: Look) -> Outcome<String> {
        Ok(written(tables, "state,round,measured", |observation| {
            observation.series.iter().map(|(round, value)| format!("{},{round},{value}", state(observation.sample))).collect()
        }))
    }
}

fn state(sample: Sample) -> &'static str {
    match sample {
        Sample::Value(_) => "value",
        Sample::Missing => "missing",
        Sample::Failed => "failed",
        Sample::Diverged => "diverged",
        Sample::Running => "running",
        Sample::Unfinished => "unfinished",
        Sample::Inapplicable => "not applicable",
    }
}

fn written(tables: &[Table], last: &str, lines: impl Fn(&Observation) -> Vec<String>) -> String {
    let mut out = format!("table,value,group,row_axis,row,column_axis,column,over_axis,over,{last}\n");
    for table in tables {
        let heading = &table.heading;
        for (row, label) in table.rows.iter().enumerate() {
            for (column, cell) in table.cells[row].iter().enumerate() {
                let group = table.groups.get(row).map_or("", String::as_str);
                let (value, shown) = (&table.quantity(column).label, &table.columns[column].label);
                let over = heading.over.join(", ");
                let texts = [&heading.name, value, group, &heading.row_axis, label, &heading.column_axis, shown, &over];
                let start = texts.map(quoted).join(",");
                for observation in &cell.samples {
                    for line in lines(observation) {
                        out.push_str(&format!("{start},{},{line}\n", quoted(&observation.label())));
                    }
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn each_sample_is_a_line() {
        let text = Long.render(&[sample()], Look::default()).expect("renders");
        assert_eq!(text.lines().count(), 1 + 24);
        assert_eq!(text.lines().nth(1), Some("main,run.test_accuracy.best,,algorithm,fedavg,alpha,0.1,seed,0,value,,0.8032,,"));
        assert!(text.contains("\nmain,run.test_accuracy.best,,algorithm,fedavg,alpha,0.5,seed,2,diverged,,,,\n"));
    }

    #[test]
    fn each_evaluation_is_a_line() {
        let mut table = sample();
        table.cells[0][0].samples[1].series = vec![(0, 0.1), (5, 0.805)];
        let text = Series.render(&[table], Look::default()).expect("renders");
        assert_eq!(text.lines().nth(2), Some("main,run.test_accuracy.best,,algorithm,fedavg,alpha,0.1,seed,1,value,5,0.805"));
        assert_eq!(text.lines().count(), 3);
    }
}
