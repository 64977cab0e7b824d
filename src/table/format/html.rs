//! Tables in HTML: a page that needs nothing else, and the fragment that the report takes over.

use super::super::grid::Line;
use super::super::text::CellText;
use super::super::value::{Rank, Table};
use super::{Format, Look};
use crate::base::Outcome;
use crate::base::text::markup;
use std::fmt::Write;

/// A page with one table after another.
pub(super) struct Html;

/// The style of tables; colors follow the light or dark mode of the reader.
pub const STYLE: &str = include_str!("../../../templates/tables/table.css");

impl Format for Html {
    fn name(&self) -> &'static str {
        "html"
    }
    fn doc(&self) -> &'static str {
        "one HTML page without external parts"
    }
    fn render(&self, tables: &[Table], _: Look) -> Outcome<String> {
        let body: String = tables.iter().map(|table| fragment(table, 2)).collect();
        let title = tables.first().map_or_else(|| "Tables".to_owned(), Table::title);
        Ok(format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{}</title>\n<style>\n{}</style>\n</head>\n<body class=\"page\">\n{body}</body>\n</html>\n",
            markup(&title),
            STYLE
        ))
    }
}

/// A table as a `section` with its heading of the given level, its legend and its statistics.
#[must_use]
pub fn fragment(table: &Table, level: u8) -> String {
    let grid = table.grid();
    let mut out = format!("<section class=\"table\" id=\"table-{}\">\n", id(&table.heading.name));
    let _ = writeln!(out, "<h{level}>{}</h{level}>", markup(&table.title()));
    out.push_str("<div class=\"scroll\"><table class=\"results\">\n<thead>\n");
    let heading = &table.heading;
    if !heading.column_axis.is_empty() && grid.under_axis > 0 {
        let _ = write!(
            out,
            "<tr class=\"axis\"><td></td><th colspan=\"{}\" scope=\"colgroup\">{}</th>",
            grid.under_axis,
            markup(&heading.column_axis)
        );
        out.push_str(&"<td></td>".repeat(grid.columns.len() - grid.under_axis));
        out.push_str("</tr>\n");
    }
    let _ = write!(out, "<tr><th scope=\"col\">{}</th>", markup(&heading.row_axis));
    for label in &grid.columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", markup(label));
    }
    out.push_str("</tr>\n</thead>\n<tbody>\n");
    let mut group = "";
    for line in &grid.lines {
        match line {
            Line::Heading(text) => {
                group = text;
                let _ = writeln!(
                    out,
                    "<tr class=\"family\" data-family=\"{0}\"><th colspan=\"{1}\" scope=\"rowgroup\">{0}</th></tr>",
                    markup(text),
                    grid.columns.len() + 1
                );
            }
            Line::Row(label, cells) => {
                let _ = write!(out, "<tr data-family=\"{}\"><th scope=\"row\">{}</th>", markup(group), markup(label));
                for (text, rank) in cells {
                    out.push_str(&cell(text, *rank));
                }
                out.push_str("</tr>\n");
            }
        }
    }
    out.push_str("</tbody>\n</table></div>\n");
    let mut notes = vec![table.legend()];
    notes.extend([grid.legend, table.troubles()].into_iter().filter(|text| !text.is_empty()));
    let marked = grid.lines.iter().any(|line| matches!(line, Line::Row(_, cells) if cells.iter().any(|(_, rank)| *rank != Rank::None)));
    let marks = if marked { "; <b>best</b>, <u>second</u> of a column" } else { "" };
    let _ = writeln!(out, "<p class=\"legend\">{}{marks}</p>", markup(&notes.join("; ")));
    for sheet in table.sheets() {
        let _ = writeln!(
            out,
            "<details class=\"sheet\"{}><summary>{}</summary>",
            if sheet.rows.len() > 30 { "" } else { " open" },
            markup(&sheet.title)
        );
        if !sheet.rows.is_empty() {
            out.push_str("<div class=\"scroll\"><table class=\"plain\"><thead><tr>");
            for label in &sheet.header {
                let _ = write!(out, "<th scope=\"col\">{}</th>", markup(label));
            }
            out.push_str("</tr></thead><tbody>\n");
            for row in &sheet.rows {
                out.push_str("<tr>");
                for text in row {
                    let _ = write!(out, "<td>{}</td>", markup(text));
                }
                out.push_str("</tr>\n");
            }
            out.push_str("</tbody></table></div>\n");
        }
        if !sheet.notes.is_empty() {
            let items: String = sheet.notes.iter().map(|note| format!("<li>{}</li>", markup(note))).collect();
            let _ = writeln!(out, "<ul class=\"caveats\">{items}</ul>");
        }
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
    out
}

fn cell(text: &CellText, rank: Rank) -> String {
    let number = text.number().map(|number| markup(&number)).unwrap_or_default();
    // What is sorted by: the mean as shown; grouped thousands are undone.
    let sort = text.mean.as_ref().map(|mean| mean.split(' ').next().unwrap_or_default().replace(',', "")).unwrap_or_default();
    let number = match rank {
        Rank::Best => format!("<b>{number}</b>"),
        Rank::Second => format!("<u>{number}</u>"),
        Rank::None => number,
    };
    let note = if text.note.is_empty() { String::new() } else { format!(" <span class=\"trouble\">{}</span>", markup(&text.note)) };
    format!("<td data-sort=\"{}\">{number}{note}</td>", markup(&sort))
}

/// A name as an identifier.
pub(super) fn id(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn every_state_is_told_apart_and_names_are_escaped() {
        let mut table = sample();
        table.group_by(|row| if row.starts_with("fed") { "<b>".to_owned() } else { "personal".to_owned() });
        let text = Html.render(&[table], Look::default()).expect("renders");
        assert!(text.contains("<th scope=\"row\">a_b|c&amp;d</th>"), "{text}");
        assert!(text.contains("<tr class=\"family\" data-family=\"&lt;b&gt;\">"), "{text}");
        assert!(text.contains("<td data-sort=\"93.04\"><b>93.04 ± 0.07</b></td>"), "{text}");
        assert!(text.contains("<span class=\"trouble\">1 diverged, 1 failed, 1 missing</span>"), "{text}");
        assert!(!text.contains("http") && !text.contains("src="), "no external parts");
    }
}
