//! Tables as JSON: always a list, with every sample, numbers unrounded and in their own unit (accuracies as fractions).

use super::super::value::{Best, Quantity, Rank, Table};
use super::{Format, Look};
use crate::base::{Fault, Outcome};
use serde_json::{Value, json};

/// A list of tables, each with its cells in row order.
pub(super) struct Json;

impl Format for Json {
    fn name(&self) -> &'static str {
        "json"
    }
    fn doc(&self) -> &'static str {
        "JSON: a list of tables with every sample"
    }
    fn render(&self, tables: &[Table], _: Look) -> Outcome<String> {
        let list: Vec<Value> = tables.iter().map(one).collect();
        let mut text = serde_json::to_string_pretty(&list).map_err(|e| Fault::internal(format!("cannot write a table as JSON: {e}")))?;
        text.push('\n');
        Ok(text)
    }
}

fn one(table: &Table) -> Value {
    let (heading, ranks) = (&table.heading, table.ranks());
    let places: Vec<Vec<Option<f64>>> = (0..table.columns.len()).map(|column| table.places(column)).collect();
    let mut cells = Vec::new();
    for (row, label) in table.rows.iter().enumerate() {
        for (column, cell) in table.cells[row].iter().enumerate().filter(|(_, cell)| !cell.samples.is_empty()) {
            let stats = cell.stats();
            let samples: Vec<Value> = cell
                .samples
                .iter()
                .map(|observation| {
                    let mut value = json!({"over": observation.label()});
                    if let Some(round) = observation.round {
                        value["round"] = json!(round);
                    }
                    if let Some((epsilon, delta)) = observation.spent {
                        value["privacy"] = json!({"epsilon": epsilon, "delta": delta});
                    }
                    if let Some(caveat) = &observation.caveat {
                        value["caveat"] = json!(caveat);
                    }
                    if let Some(partial) = &observation.partial {
                        value["partial"] = json!(partial);
                    }
                    if let Some(reason) = &observation.reason {
                        value["reason"] = json!(reason);
                    }
                    merge(&mut value, &serde_json::to_value(observation.sample).unwrap_or(Value::Null));
                    value
                })
                .collect();
            let mut entry = json!({
                "row": label,
                "column": table.columns[column].label,
                "value": table.quantity(column).label,
                "mean": stats.map(|s| s.mean),
                "sd": stats.and_then(|s| s.sd),
                "n": stats.map_or(0, |s| s.n),
                "median": stats.map(|s| s.median),
                "min": stats.map(|s| s.min),
                "max": stats.map(|s| s.max),
                "interval": stats.and_then(|s| s.interval(0.95)),
                "rank": match ranks[row][column] { Rank::Best => Some(1), Rank::Second => Some(2), Rank::None => None },
                "place": places[column][row],
                "samples": samples,
            });
            if let Some(found) = table.beside.as_ref().and_then(|beside| beside.cells[row][column].as_ref()) {
                entry["published"] = serde_json::to_value(found).unwrap_or(Value::Null);
            }
            cells.push(entry);
        }
    }
    let mean_ranks: Vec<Value> = (0..heading.quantities.len()).map(|quantity| json!(table.mean_ranks(quantity))).collect();
    let mut value = json!({
        "name": heading.name,
        "title": table.title(),
        "values": heading.quantities.iter().map(quantity).collect::<Vec<_>>(),
        "row_axis": heading.row_axis,
        "column_axis": heading.column_axis,
        "over": heading.over.join(", "),
        "rows": table.rows,
        "mean_ranks": mean_ranks,
        "columns": table.columns.iter().map(|column| &column.label).collect::<Vec<_>>(),
        "counts": table.counts(),
        "cells": cells,
    });
    if !table.groups.is_empty() {
        value["groups"] = json!(table.groups);
    }
    if let Some(beside) = &table.beside {
        value["compare"] = json!({"tables": beside.names, "margin": beside.margin, "notes": beside.notes});
    }
    if let Some(analysis) = &table.analysis {
        value["statistics"] = serde_json::to_value(analysis).unwrap_or(Value::Null);
    }
    value
}

fn quantity(quantity: &Quantity) -> Value {
    json!({
        "label": quantity.label,
        "measure": quantity.measure.name(),
        "best": if quantity.best == Best::Max { "max" } else { "min" },
    })
}

fn merge(into: &mut Value, from: &Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn every_sample_is_there() {
        let text = Json.render(&[sample()], Look::default()).expect("renders");
        let value: Value = serde_json::from_str(&text).expect("valid JSON");
        let cell = &value[0]["cells"][5];
        assert_eq!((&cell["row"], &cell["column"], &cell["n"]), (&json!("a_b|c&d"), &json!("0.5"), &json!(0)));
        assert_eq!(
            cell["samples"],
            json!([
                {"over": "0", "state": "failed"},
                {"over": "1", "state": "missing"},
                {"over": "2", "state": "diverged"},
            ])
        );
        assert_eq!(value[0]["cells"][0]["samples"][0], json!({"over": "0", "state": "value", "value": 0.8032}));
        assert_eq!(value[0]["cells"][2]["rank"], json!(1));
        assert_eq!(value[0]["counts"], json!({"values": 15, "missing": 3, "failed": 1, "diverged": 5, "running": 0, "unfinished": 0}));
    }
}
