//! Tables for the terminal, by comfy-table: as wide as needed, cut into blocks of columns where the terminal is narrower.

use super::super::grid::{Grid, Line};
use super::super::text::CellText;
use super::super::value::{Rank, Table};
use super::{Format, Look};
use crate::base::Outcome;
use comfy_table::{CellAlignment, presets};

/// Borders and alignment for people; bold and underline where color is on, `*` and `+` where it is not.
pub(super) struct Term;

// Stand-ins for the ANSI sequences while the table is laid out: characters of no width that no label has any use for.
// comfy-table would count the letters of a real sequence as width.
const BOLD: char = '\u{2061}';
const UNDERLINE: char = '\u{2062}';
const PLAIN: char = '\u{2063}';

impl Format for Term {
    fn name(&self) -> &'static str {
        "term"
    }
    fn extension(&self) -> &'static str {
        "txt"
    }
    fn doc(&self) -> &'static str {
        "for the terminal: best bold, second underlined (`*` and `+` without color)"
    }
    fn render(&self, tables: &[Table], look: Look) -> Outcome<String> {
        let texts: Vec<String> = tables.iter().map(|table| one(table, look)).collect();
        Ok(if texts.is_empty() { "\n".into() } else { texts.join("\n") })
    }
}

fn one(table: &Table, look: Look) -> String {
    let grid = table.grid();
    let mut out = format!("{}\n", clean(&table.title()));
    for columns in blocks(table, &grid, look) {
        out.push_str(&lines(&layout(table, &grid, look, columns)));
    }
    out.push_str(&table.legend());
    if grid.lines.iter().any(|line| matches!(line, Line::Row(_, cells) if cells.iter().any(|(_, rank)| *rank != Rank::None))) {
        out.push_str(if look.color { "; bold best, underlined second of a column" } else { "; * best, + second of a column" });
    }
    if !grid.legend.is_empty() {
        out.push_str(&format!("; {}", grid.legend));
    }
    out.push('\n');
    let troubles = table.troubles();
    if !troubles.is_empty() {
        out.push_str(&troubles);
        out.push('\n');
    }
    for sheet in table.sheets() {
        out.push_str(&format!("\n{}\n", clean(&sheet.title)));
        if !sheet.rows.is_empty() {
            let mut grid = comfy_table::Table::new();
            grid.load_style(presets::NOTHING).set_header(sheet.header.iter().map(|text| clean(text)));
            for row in &sheet.rows {
                grid.add_row(row.iter().map(|text| clean(text)));
            }
            for column in grid.column_iter_mut() {
                column.set_padding((0, 2));
            }
            out.extend(grid.lines().map(|line| format!("  {}\n", line.trim_end())));
        }
        for note in &sheet.notes {
            out.push_str(&wrapped(&clean(note), look.width));
        }
    }
    out.replace(BOLD, "\u{1b}[1m").replace(UNDERLINE, "\u{1b}[4m").replace(PLAIN, "\u{1b}[0m")
}

/// A note as an item of a list, folded at the width of the terminal.
fn wrapped(note: &str, width: Option<usize>) -> String {
    let width = width.unwrap_or(usize::MAX).max(30);
    let (mut out, mut line) = (String::new(), String::from("  -"));
    for word in note.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > width {
            out.push_str(&format!("{line}\n"));
            line = "   ".to_owned();
        }
        line.push_str(&format!(" {word}"));
    }
    out + &line + "\n"
}

fn dressed(text: &CellText, rank: Rank, look: Look) -> String {
    let Some(number) = text.number() else { return text.note.clone() };
    let number = match (rank, look.color) {
        (Rank::None, _) => number,
        (Rank::Best, true) => format!("{BOLD}{number}{PLAIN}"),
        (Rank::Second, true) => format!("{UNDERLINE}{number}{PLAIN}"),
        (Rank::Best, false) => format!("{number} *"),
        (Rank::Second, false) => format!("{number} +"),
    };
    if text.note.is_empty() { number } else { format!("{number} ({})", text.note) }
}

/// The ranges of columns that fit the width; a single column is shown even where it does not fit.
fn blocks(table: &Table, texts: &Grid, look: Look) -> Vec<std::ops::Range<usize>> {
    let all = 0..texts.columns.len();
    let Some(width) = look.width else { return vec![all] };
    let widths: Vec<usize> =
        layout(table, texts, look, all.clone()).column_max_content_widths().into_iter().map(|w| usize::from(w) + 3).collect();
    let (label, rest) = (widths.first().map_or(0, |w| w + 1), widths.get(1..).unwrap_or_default());
    let (mut blocks, mut start, mut used) = (Vec::new(), 0, label);
    for (column, needed) in rest.iter().enumerate() {
        if column > start && used + needed > width {
            blocks.push(start..column);
            (start, used) = (column, label);
        }
        used += needed;
    }
    blocks.push(start..all.end);
    blocks
}

fn layout(table: &Table, texts: &Grid, look: Look, columns: std::ops::Range<usize>) -> comfy_table::Table {
    let mut grid = comfy_table::Table::new();
    grid.load_style(presets::UTF8_FULL_CONDENSED);
    let labels = texts.columns[columns.clone()].iter().map(|label| clean(label));
    grid.set_header(std::iter::once(clean(&table.corner())).chain(labels));
    let indented = if table.groups.is_empty() { "" } else { "  " };
    for line in &texts.lines {
        match line {
            Line::Heading(text) => grid.add_row(std::iter::once(clean(text)).chain(columns.clone().map(|_| String::new()))),
            Line::Row(label, cells) => {
                let cells = cells[columns.clone()].iter().map(|(text, rank)| dressed(text, *rank, look));
                grid.add_row(std::iter::once(format!("{indented}{}", clean(label))).chain(cells))
            }
        };
    }
    for column in grid.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid
}

fn lines(grid: &comfy_table::Table) -> String {
    grid.lines().map(|line| line + "\n").collect()
}

/// A label on one line and without control characters, so that it cannot steer the terminal.
fn clean(label: &str) -> String {
    label.chars().map(|c| if c.is_control() || [BOLD, UNDERLINE, PLAIN].contains(&c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn plain_text_marks_best_and_second() {
        insta::assert_snapshot!(Term.render(&[sample()], Look::default()).expect("renders"), @r#"
        Test accuracy
        ┌───────────────────┬────────────────────────────────┬─────────────────────────────────┐
        │ algorithm \ alpha ┆                            0.1 ┆                             0.5 │
        ╞═══════════════════╪════════════════════════════════╪═════════════════════════════════╡
        │ fedavg            ┆                   80.41 ± 0.09 ┆                        diverged │
        │ ditto             ┆                 93.04 ± 0.07 * ┆        90.12 * (n=1, 2 missing) │
        │ a_b|c&d           ┆ 89.99 ± 0.03 (n=2, 1 diverged) ┆ 1 diverged, 1 failed, 1 missing │
        │ gpfl              ┆                 92.89 ± 0.03 + ┆                  88.92 ± 0.02 + │
        └───────────────────┴────────────────────────────────┴─────────────────────────────────┘
        run.test_accuracy.best in %, mean ± sample sd over 3 values of seed; * best, + second of a column
        5 of 24 samples diverged, 1 failed, 3 missing
        "#);
    }

    #[test]
    fn color_is_bold_and_underline_and_changes_no_width() {
        let color = Term.render(&[sample()], Look { color: true, width: None }).expect("renders");
        assert!(color.contains("\u{1b}[1m93.04 ± 0.07\u{1b}[0m"), "{color}");
        assert!(color.contains("\u{1b}[4m92.89 ± 0.03\u{1b}[0m"), "{color}");
        let plain = color.replace("\u{1b}[1m", "").replace("\u{1b}[4m", "").replace("\u{1b}[0m", "");
        let widths: Vec<usize> = plain.lines().filter(|l| l.starts_with(['│', '╞', '┌', '└'])).map(|l| l.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{plain}");
    }

    #[test]
    fn a_narrow_terminal_gets_blocks_of_columns() {
        insta::assert_snapshot!(Term.render(&[sample()], Look { color: false, width: Some(64) }).expect("renders"), @r#"
        Test accuracy
        ┌───────────────────┬────────────────────────────────┐
        │ algorithm \ alpha ┆                            0.1 │
        ╞═══════════════════╪════════════════════════════════╡
        │ fedavg            ┆                   80.41 ± 0.09 │
        │ ditto             ┆                 93.04 ± 0.07 * │
        │ a_b|c&d           ┆ 89.99 ± 0.03 (n=2, 1 diverged) │
        │ gpfl              ┆                 92.89 ± 0.03 + │
        └───────────────────┴────────────────────────────────┘
        ┌───────────────────┬─────────────────────────────────┐
        │ algorithm \ alpha ┆                             0.5 │
        ╞═══════════════════╪═════════════════════════════════╡
        │ fedavg            ┆                        diverged │
        │ ditto             ┆        90.12 * (n=1, 2 missing) │
        │ a_b|c&d           ┆ 1 diverged, 1 failed, 1 missing │
        │ gpfl              ┆                  88.92 ± 0.02 + │
        └───────────────────┴─────────────────────────────────┘
        run.test_accuracy.best in %, mean ± sample sd over 3 values of seed; * best, + second of a column
        5 of 24 samples diverged, 1 failed, 3 missing
        "#);
    }
}
