//! Tables as tidy CSV: one line for each cell, numbers unrounded and in their own unit (accuracies as fractions).

use super::super::spent::most;
use super::super::value::{Rank, Table};
use super::{Format, Look};
use crate::base::Outcome;

/// Comma-separated values with a fixed header, whatever the axes, so that several tables fit one file.
pub(super) struct Csv;

const HEADER: &str = "table,value,row_axis,row,column_axis,column,over,mean,sd,n,missing,failed,diverged,running,rank,unfinished,median,min,max,low95,high95,place,published,published_sd,difference,verdict,not_applicable,epsilon,delta";

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }
    fn doc(&self) -> &'static str {
        "tidy CSV: one line for each cell, numbers unrounded"
    }
    fn render(&self, tables: &[Table], _: Look) -> Outcome<String> {
        let mut out = format!("{HEADER}\n");
        for table in tables {
            let (heading, ranks) = (&table.heading, table.ranks());
            let places: Vec<Vec<Option<f64>>> = (0..table.columns.len()).map(|column| table.places(column)).collect();
            let over = heading.over.join(", ");
            for (row, label) in table.rows.iter().enumerate() {
                for (column, cell) in table.cells[row].iter().enumerate() {
                    let (stats, counts) = (cell.stats(), cell.counts());
                    if counts.total() == 0 {
                        continue;
                    }
                    let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
                    let rank = match ranks[row][column] {
                        Rank::Best => "1",
                        Rank::Second => "2",
                        Rank::None => "",
                    };
                    let (value, shown) = (&table.quantity(column).label, &table.columns[column].label);
                    let texts = [&heading.name, value, &heading.row_axis, label, &heading.column_axis, shown, &over];
                    let mut fields: Vec<String> = texts.into_iter().map(|text| quoted(text)).collect();
                    fields.extend([number(stats.map(|s| s.mean)), number(stats.and_then(|s| s.sd))]);
                    fields.extend([counts.values, counts.missing, counts.failed, counts.diverged, counts.running].map(|n| n.to_string()));
                    fields.push(rank.to_owned());
                    fields.push(counts.unfinished.to_string());
                    let interval = stats.and_then(|s| s.interval(0.95));
                    fields.extend([
                        number(stats.map(|s| s.median)),
                        number(stats.map(|s| s.min)),
                        number(stats.map(|s| s.max)),
                        number(interval.map(|i| i.0)),
                        number(interval.map(|i| i.1)),
                        number(places[column][row]),
                    ]);
                    let found = table.beside.as_ref().and_then(|beside| beside.cells[row][column].as_ref());
                    fields.extend([
                        number(found.map(|f| f.published.value())),
                        number(found.and_then(|f| f.sd())),
                        number(found.and_then(|f| f.difference)),
                        found.and_then(|f| f.verdict).map(|verdict| quoted(verdict.word())).unwrap_or_default(),
                        counts.inapplicable.to_string(),
                    ]);
                    let spent = most(cell);
                    fields.extend([number(spent.map(|(epsilon, _)| epsilon)), number(spent.map(|(_, delta)| delta))]);
                    out.push_str(&fields.join(","));
                    out.push('\n');
                }
            }
        }
        Ok(out)
    }
}

/// Quoted as RFC 4180 asks, only where needed.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn each_cell_is_a_line_of_unrounded_numbers() {
        insta::assert_snapshot!(Csv.render(&[sample()], Look::default()).expect("renders"), @r#"
        table,value,row_axis,row,column_axis,column,over,mean,sd,n,missing,failed,diverged,running,rank,unfinished,median,min,max,low95,high95,place,published,published_sd,difference,verdict,not_applicable,epsilon,delta
        main,run.test_accuracy.best,algorithm,fedavg,alpha,0.1,seed,0.8041,0.0009000000000000119,3,0,0,0,0,,0,0.8041,0.8032,0.805,0.8018642760594247,0.8063357239405754,3,,,,,0,,
        main,run.test_accuracy.best,algorithm,fedavg,alpha,0.5,seed,,,0,0,0,3,0,,0,,,,,,,,,,,0,,
        main,run.test_accuracy.best,algorithm,ditto,alpha,0.1,seed,0.9304,0.000700000000000026,3,0,0,0,0,1,0,0.9301,0.9299,0.9312,0.9286611036017747,0.9321388963982253,1,,,,,0,,
        main,run.test_accuracy.best,algorithm,ditto,alpha,0.5,seed,0.9012,,1,2,0,0,0,1,0,0.9012,0.9012,0.9012,,,1,,,,,0,,
        main,run.test_accuracy.best,algorithm,a_b|c&d,alpha,0.1,seed,0.8999,0.00028284271247458785,2,0,0,1,0,,0,0.8999,0.8997,0.9001,0.8973587590527654,0.9024412409472347,,,,,,0,,
        main,run.test_accuracy.best,algorithm,a_b|c&d,alpha,0.5,seed,,,0,1,1,1,0,,0,,,,,,,,,,,0,,
        main,run.test_accuracy.best,algorithm,gpfl,alpha,0.1,seed,0.9288666666666666,0.00032145502536645975,3,0,0,0,0,2,0,0.929,0.9285,0.9291,0.9280681281155221,0.9296652052178112,2,,,,,0,,
        main,run.test_accuracy.best,algorithm,gpfl,alpha,0.5,seed,0.8891666666666667,0.00020816659994659034,3,0,0,0,0,2,0,0.8891,0.889,0.8894,0.8886495521654125,0.8896837811679208,2,,,,,0,,
        "#);
    }

    #[test]
    fn commas_and_quotes_are_quoted() {
        assert_eq!(quoted("ditto (mu 0.1, \"new\")"), "\"ditto (mu 0.1, \"\"new\"\")\"");
    }
}
