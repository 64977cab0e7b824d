//! Tables in Markdown (the pipe tables of GitHub and Pandoc): best bold, second underlined.

use super::super::grid::Line;
use super::super::text::CellText;
use super::super::value::{Rank, Table};
use super::{Format, Look};
use crate::base::Outcome;

/// Pipe tables, with the caption above.
pub(super) struct Markdown;

impl Format for Markdown {
    fn name(&self) -> &'static str {
        "md"
    }
    fn doc(&self) -> &'static str {
        "Markdown pipe table: best bold, second underlined"
    }
    fn render(&self, tables: &[Table], _: Look) -> Outcome<String> {
        let texts: Vec<String> = tables.iter().map(one).collect();
        Ok(if texts.is_empty() { "\n".into() } else { texts.join("\n") })
    }
}

fn one(table: &Table) -> String {
    let texts = table.grid();
    let mut grid =
        vec![std::iter::once(escaped(&table.corner())).chain(texts.columns.iter().map(|label| escaped(label))).collect::<Vec<_>>()];
    for line in &texts.lines {
        grid.push(match line {
            Line::Heading(text) => {
                std::iter::once(format!("***{}***", escaped(text))).chain(texts.columns.iter().map(|_| String::new())).collect()
            }
            Line::Row(label, cells) => {
                std::iter::once(escaped(label)).chain(cells.iter().map(|(text, rank)| dressed(text, *rank))).collect()
            }
        });
    }
    let mut legend = table.legend();
    if !texts.legend.is_empty() {
        legend = format!("{legend}; {}", texts.legend);
    }
    let mut out = format!("**{}** ({})\n\n{}", escaped(&table.title()), escaped(&legend), pipes(&grid));
    let troubles = table.troubles();
    if !troubles.is_empty() {
        out.push_str(&format!("\n{troubles}\n"));
    }
    for sheet in table.sheets() {
        out.push_str(&format!("\n**{}**\n", escaped(&sheet.title)));
        if !sheet.rows.is_empty() {
            let cells = |row: &Vec<String>| row.iter().map(|text| escaped(text)).collect::<Vec<_>>();
            let grid: Vec<Vec<String>> = std::iter::once(&sheet.header).chain(&sheet.rows).map(cells).collect();
            out.push_str(&format!("\n{}", pipes(&grid)));
        }
        if !sheet.notes.is_empty() {
            out.push('\n');
        }
        for note in &sheet.notes {
            out.push_str(&format!("- {}\n", escaped(note)));
        }
    }
    out
}

/// A pipe table; the first row is its header. The source is read too: columns are padded to one width.
fn pipes(grid: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..grid[0].len()).map(|c| grid.iter().map(|row| row[c].chars().count()).max().unwrap_or(0).max(3)).collect();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let pad = |(c, text): (usize, &String)| {
        let fill = " ".repeat(widths[c] - text.chars().count());
        if c == 0 { format!("{text}{fill}") } else { format!("{fill}{text}") }
    };
    let mut out = line(grid[0].iter().enumerate().map(pad).collect());
    out.push_str(&line(widths.iter().enumerate().map(|(c, w)| if c == 0 { "-".repeat(*w) } else { "-".repeat(w - 1) + ":" }).collect()));
    for row in &grid[1..] {
        out.push_str(&line(row.iter().enumerate().map(pad).collect()));
    }
    out
}

fn dressed(text: &CellText, rank: Rank) -> String {
    let Some(number) = text.number() else { return if text.note.is_empty() { String::new() } else { format!("*{}*", text.note) } };
    let number = match rank {
        Rank::Best => format!("**{number}**"),
        // GitHub drops `<u>` but keeps `<ins>`; Pandoc shows both underlined.
        Rank::Second => format!("<ins>{number}</ins>"),
        Rank::None => number,
    };
    if text.note.is_empty() { number } else { format!("{number} ({})", text.note) }
}

/// The label with everything escaped that Markdown would take for markup.
fn escaped(label: &str) -> String {
    let mut out = String::with_capacity(label.len());
    for c in label.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '<' | '[' | ']' | '&' | '#' | '~' | '$' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn best_is_bold_second_underlined_and_labels_are_escaped() {
        insta::assert_snapshot!(Markdown.render(&[sample()], Look::default()).expect("renders"), @r#"
        **Test accuracy** (run.test\_accuracy.best in %, mean ± sample sd over 3 values of seed)

        | algorithm \\ alpha |                            0.1 |                               0.5 |
        | ------------------ | -----------------------------: | --------------------------------: |
        | fedavg             |                   80.41 ± 0.09 |                        *diverged* |
        | ditto              |               **93.04 ± 0.07** |        **90.12** (n=1, 2 missing) |
        | a\_b\|c\&d         | 89.99 ± 0.03 (n=2, 1 diverged) | *1 diverged, 1 failed, 1 missing* |
        | gpfl               |        <ins>92.89 ± 0.03</ins> |           <ins>88.92 ± 0.02</ins> |

        5 of 24 samples diverged, 1 failed, 3 missing
        "#);
    }
}
