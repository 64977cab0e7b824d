//! A table as a grid of texts, with everything that stands beside the cells: mean ranks, published numbers, headings; and the small
//! sheets below it.
//!
//! Formats for people draw this grid and decide nothing about its content.

use super::analysis::{Analysis, number};
use super::text::CellText;
use super::value::{Rank, Table};
use crate::base::text::signless_zero;
use crate::results::stats::Test;

/// The grid.
pub(super) struct Grid {
    /// Labels of the columns.
    pub(super) columns: Vec<String>,
    /// So many of them stand under the column axis; the others are added at the end.
    pub(super) under_axis: usize,
    /// The lines.
    pub(super) lines: Vec<Line>,
    /// What the marks of added columns mean; empty without them.
    pub(super) legend: String,
}

/// A line of the grid.
pub(super) enum Line {
    /// A heading over all columns.
    Heading(String),
    /// A row: its label, and text and rank of each cell.
    Row(String, Vec<(CellText, Rank)>),
}

/// A small table of texts below a table.
pub(super) struct Sheet {
    /// What it is.
    pub(super) title: String,
    /// Column names.
    pub(super) header: Vec<String>,
    /// Cells by row; the first column is text, the others are numbers.
    pub(super) rows: Vec<Vec<String>>,
    /// Sentences below.
    pub(super) notes: Vec<String>,
}

impl Table {
    /// The grid of this table.
    pub(super) fn grid(&self) -> Grid {
        let (depth, ranks) = (self.depth(), self.ranks());
        let show = self.heading.show;
        let mut columns = Vec::new();
        let mut cells: Vec<Vec<(CellText, Rank)>> = vec![Vec::new(); self.rows.len()];
        for (column, head) in self.columns.iter().enumerate() {
            columns.push(head.label.clone());
            for (row, cells) in cells.iter_mut().enumerate() {
                cells.push((CellText::of(self.quantity(column), show, &self.cells[row][column], depth), ranks[row][column]));
            }
            if let Some(beside) = self.beside.as_ref().filter(|beside| beside.has_column(column)) {
                columns.push("published".to_owned());
                for (row, cells) in cells.iter_mut().enumerate() {
                    cells.push((CellText::plain(self.published(beside.cells[row][column].as_ref(), column)), Rank::None));
                }
            }
        }
        let under_axis = columns.len();
        let mut legend = Vec::new();
        if self.heading.ranks {
            for (quantity, shown) in self.heading.quantities.iter().enumerate() {
                let means = self.mean_ranks(quantity);
                columns.push(if self.heading.quantities.len() > 1 {
                    format!("mean rank of {}", shown.label)
                } else {
                    "mean rank".to_owned()
                });
                let best = means.iter().flatten().copied().fold(f64::INFINITY, f64::min);
                let several = means.iter().flatten().count() > 1;
                for (cells, mean) in cells.iter_mut().zip(&means) {
                    let rank = if several && *mean == Some(best) { Rank::Best } else { Rank::None };
                    cells.push((CellText::plain(mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2}"))), rank));
                }
            }
            let sole = (0..self.heading.quantities.len()).any(|quantity| self.has_unranked(quantity));
            let over = if sole { "columns in which two rows or more are compared" } else { "all columns" };
            legend.push(format!("the mean rank is over {over}, 1 is best"));
        }
        if let Some(beside) = &self.beside {
            legend.push(format!("published: {} with our difference", beside.names.join(", ")));
        }
        let mut lines = Vec::new();
        for (row, (label, cells)) in self.rows.iter().zip(cells).enumerate() {
            if let Some(group) = self.groups.get(row)
                && (row == 0 || self.groups[row - 1] != *group)
            {
                lines.push(Line::Heading(group.clone()));
            }
            lines.push(Line::Row(label.clone(), cells));
        }
        Grid { columns, under_axis, lines, legend: legend.join("; ") }
    }

    /// `85.85 ± 0.19 (-0.53, equivalent)`.
    fn published(&self, found: Option<&super::beside::Match>, column: usize) -> String {
        let Some(found) = found else { return String::new() };
        let quantity = self.quantity(column);
        let mut text = quantity.write(found.published.value());
        if let Some(sd) = found.sd() {
            text.push_str(&format!(" ± {}", quantity.write(sd)));
        }
        if let (Some(difference), Some(verdict)) = (found.difference, found.verdict) {
            text.push_str(&format!(" ({}, {})", quantity.signed(difference), verdict.word()));
        }
        text
    }

    /// The sheets below the table: statistics and what is to be known of the published numbers.
    pub(super) fn sheets(&self) -> Vec<Sheet> {
        let mut sheets: Vec<Sheet> = self.warned().into_iter().chain(self.spent()).chain(self.reasons()).chain(self.partial()).collect();
        if let Some(beside) = &self.beside {
            sheets.push(Sheet {
                title: format!("Compared with {}", beside.names.join(", ")),
                header: Vec::new(),
                rows: Vec::new(),
                notes: beside.notes.clone(),
            });
        }
        if let Some(analysis) = &self.analysis {
            self.statistics(analysis, &mut sheets);
        }
        sheets
    }

    fn statistics(&self, analysis: &Analysis, sheets: &mut Vec<Sheet>) {
        let first = sheets.len();
        for analyzed in &analysis.values {
            let quantity = &self.heading.quantities[analyzed.quantity];
            let of = if analysis.values.len() > 1 { format!(" of {}", quantity.label) } else { String::new() };
            let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| signless_zero(format!("{value:+.2}")));
            if !analyzed.comparisons.is_empty() {
                let pairing = if Test::named(analysis.test).is_some_and(Test::paired) { "paired by" } else { "not paired, over" };
                let correction = if analysis.correction == "holm" { ", p-values corrected by Holm" } else { ", p-values not corrected" };
                sheets.push(Sheet {
                    title: match self.heading.over.is_empty() {
                        true => format!("Differences{of}: no {} test, for the table has no `over` to repeat by", analysis.test),
                        false => format!("Differences{of}: {} test, {pairing} {}{correction}", analysis.test, self.heading.over.join(", ")),
                    },
                    header: [
                        "row",
                        "against",
                        "column",
                        "pairs",
                        "difference",
                        "95 % interval",
                        "p",
                        "corrected",
                        "d_z",
                        "rank-biserial",
                        "verdict",
                    ]
                    .map(str::to_owned)
                    .into(),
                    rows: analyzed
                        .comparisons
                        .iter()
                        .map(|c| {
                            vec![
                                c.row.clone(),
                                c.against.clone(),
                                c.column.clone(),
                                c.pairs.to_string(),
                                c.difference.map_or_else(|| "-".to_owned(), |d| quantity.signed(d)),
                                c.interval
                                    .map_or_else(|| "-".to_owned(), |(a, b)| format!("{} to {}", quantity.signed(a), quantity.signed(b))),
                                c.p.map_or_else(|| "-".to_owned(), number),
                                c.p_corrected.map_or_else(|| "-".to_owned(), number),
                                optional(c.cohen_dz),
                                optional(c.rank_biserial),
                                c.verdict.word().to_owned(),
                            ]
                        })
                        .collect(),
                    notes: Vec::new(),
                });
            }
            if let Some(ranked) = &analyzed.friedman {
                let test = &ranked.test;
                let order = test.order();
                let alike: Vec<String> = order
                    .iter()
                    .map(|row| {
                        let near = order
                            .iter()
                            .filter(|other| *other != row && (test.mean_ranks[**other] - test.mean_ranks[*row]).abs() <= test.critical);
                        format!("{} of {}", near.count(), order.len() - 1)
                    })
                    .collect();
                sheets.push(Sheet {
                    title: format!(
                        "Mean ranks{of}: Friedman chi2 = {}, {} {}; Iman-Davenport p {}; Nemenyi's critical difference {:.2} at {}",
                        signless_zero(format!("{:.2}", test.chi2)),
                        if test.exact.is_some() { "exact p" } else { "p" },
                        equals(test.exact.unwrap_or(test.p)),
                        test.f.map_or_else(|| "not defined".to_owned(), |_| equals(test.p_f)),
                        test.critical,
                        number(test.level)
                    ),
                    header: ["row", "mean rank", "not separable from"].map(str::to_owned).into(),
                    rows: order
                        .iter()
                        .zip(alike)
                        .map(|(row, alike)| vec![ranked.rows[*row].clone(), format!("{:.2}", test.mean_ranks[*row]), alike])
                        .collect(),
                    notes: Vec::new(),
                });
            }
            if let Some(source) = analyzed.sources.first() {
                let factors: Vec<String> = source.components.iter().map(|c| c.factor.clone()).collect();
                sheets.push(Sheet {
                    title: format!("Variance{of} by its sources"),
                    header: ["row".to_owned(), "column".to_owned()].into_iter().chain(factors).chain(["sd".to_owned()]).collect(),
                    rows: analyzed
                        .sources
                        .iter()
                        .map(|source| {
                            let total: f64 = source.components.iter().map(|c| c.variance).sum();
                            let shares = source.components.iter().map(|c| signless_zero(format!("{:.0} %", c.share * 100.0)));
                            [source.row.clone(), source.column.clone()]
                                .into_iter()
                                .chain(shares)
                                .chain([quantity.write(total.sqrt())])
                                .collect()
                        })
                        .collect(),
                    notes: Vec::new(),
                });
            }
        }
        if sheets.len() == first && !analysis.notes.is_empty() {
            sheets.push(Sheet { title: "Statistics".to_owned(), header: Vec::new(), rows: Vec::new(), notes: Vec::new() });
        }
        if let Some(sheet) = sheets[first..].last_mut() {
            sheet.notes.extend(analysis.notes.iter().cloned());
        }
    }
}

/// `= 0.03` or `<0.001`.
fn equals(p: f64) -> String {
    let text = number(p);
    if text.starts_with('<') { text } else { format!("= {text}") }
}
