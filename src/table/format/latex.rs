//! Tables in LaTeX with booktabs: a `table` environment that compiles as it stands.

use super::super::grid::Line;
use super::super::text::CellText;
use super::super::value::{Rank, Table};
use super::{Format, Look};
use crate::base::{Fault, Outcome};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, context};

/// One `table` environment for each table; names are escaped, so it compiles whatever they contain.
pub(super) struct Latex;

const TEMPLATE: &str = include_str!("../../../templates/tables/latex.tex.j2");

impl Format for Latex {
    fn name(&self) -> &'static str {
        "latex"
    }
    fn extension(&self) -> &'static str {
        "tex"
    }
    fn doc(&self) -> &'static str {
        "LaTeX with booktabs: best bold, second underlined"
    }
    fn render(&self, tables: &[Table], _: Look) -> Outcome<String> {
        let broken = |e: minijinja::Error| Fault::internal(format!("the LaTeX template is broken: {e:#}"));
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(broken)?);
        environment.add_template("latex", TEMPLATE).map_err(broken)?;
        let template = environment.get_template("latex").map_err(broken)?;
        let mut texts = Vec::new();
        for table in tables {
            texts.push(template.render(one(table)).map_err(broken)?.trim_end().to_owned() + "\n");
        }
        Ok(if texts.is_empty() { "\n".into() } else { texts.join("\n") })
    }
}

fn one(table: &Table) -> minijinja::Value {
    let (heading, grid) = (&table.heading, table.grid());
    let columns = grid.columns.len();
    let rows: Vec<String> = grid
        .lines
        .iter()
        .map(|line| match line {
            Line::Heading(text) => format!("\\multicolumn{{{}}}{{l}}{{\\textit{{{}}}}}", columns + 1, escaped(text)),
            Line::Row(label, cells) => {
                let cells = cells.iter().map(|(text, rank)| dressed(text, *rank));
                std::iter::once(escaped(label)).chain(cells).collect::<Vec<_>>().join(" & ")
            }
        })
        .collect();
    let widths = (0..=columns).map(|column| {
        let cell = |line: &Line| match line {
            Line::Heading(_) => 0,
            Line::Row(label, cells) => match column.checked_sub(1) {
                None => label.chars().count(),
                Some(column) => cells.get(column).map_or(0, |(text, _)| dressed(text, Rank::None).chars().count()),
            },
        };
        let head = column.checked_sub(1).map_or(&heading.row_axis, |column| &grid.columns[column]);
        grid.lines.iter().map(cell).max().unwrap_or(0).max(head.chars().count())
    });
    let is_wide = wide(widths);
    let mut caption = format!("{} ({})", table.title(), table.legend());
    for more in [&table.troubles(), &grid.legend] {
        if !more.is_empty() {
            caption.push_str(&format!("; {more}"));
        }
    }
    let sheets: Vec<minijinja::Value> = table
        .sheets()
        .iter()
        .map(|sheet| {
            let widths = (0..sheet.header.len()).map(|column| {
                let cells = sheet.rows.iter().chain([&sheet.header]).filter_map(|row| row.get(column));
                cells.map(|text| text.chars().count()).max().unwrap_or(0)
            });
            let line = |row: &Vec<String>| row.iter().map(|text| escaped(text)).collect::<Vec<_>>().join(" & ");
            context! {
                title => escaped(&sheet.title),
                align => "l".to_owned() + &"r".repeat(sheet.header.len().saturating_sub(1)),
                header => line(&sheet.header),
                rows => sheet.rows.iter().map(line).collect::<Vec<_>>(),
                wide => wide(widths),
                notes => sheet.notes.iter().map(|note| escaped(note)).collect::<Vec<_>>(),
            }
        })
        .collect();
    let anything_wide = is_wide || sheets.iter().any(|sheet| sheet.get_attr("wide").is_ok_and(|wide| wide.is_true()));
    context! {
        wide => is_wide,
        anything_wide => anything_wide,
        caption => escaped(&caption),
        // Labels are not typeset: only characters that every engine takes in a label are kept.
        label => heading.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>(),
        align => format!("l{}", "r".repeat(columns)),
        row_axis => escaped(&heading.row_axis),
        column_axis => escaped(&heading.column_axis),
        width => grid.under_axis,
        last => grid.under_axis + 1,
        columns => grid.columns.iter().map(|label| escaped(label)).collect::<Vec<_>>(),
        rows => rows,
        sheets => sheets,
    }
}

/// Whether columns of so many characters may be wider than the text of a page.
fn wide(columns: impl Iterator<Item = usize>) -> bool {
    columns.map(|characters| characters + 2).sum::<usize>() > 80
}

fn dressed(text: &CellText, rank: Rank) -> String {
    let Some(number) = text.number() else {
        return if text.note.is_empty() { String::new() } else { format!("\\textit{{{}}}", escaped(&text.note)) };
    };
    let number = escaped(&number);
    let number = match rank {
        Rank::Best => format!("\\textbf{{{number}}}"),
        Rank::Second => format!("\\underline{{{number}}}"),
        Rank::None => number,
    };
    if text.note.is_empty() { number } else { format!("{number} ({})", escaped(&text.note)) }
}

/// The text with every special character written as a command that needs no package.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\textbackslash{}"),
            '{' | '}' | '$' | '&' | '#' | '_' | '%' => out.extend(['\\', c]),
            '^' => out.push_str("\\textasciicircum{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            // `\textquotedbl` is not in the default encoding.
            '"' => out.push_str("''"),
            '±' => out.push_str("$\\pm$"),
            c if c.is_control() => out.push(' '),
            c => match GREEK.iter().find(|(letter, _)| *letter == c) {
                Some((_, name)) => out.push_str(&format!("$\\{name}$")),
                None => out.push(c),
            },
        }
    }
    out
}

// pdfLaTeX has no Greek letters in text without a font package, and hyper-parameters are often written so.
const GREEK: [(char, &str); 14] = [
    ('α', "alpha"),
    ('β', "beta"),
    ('γ', "gamma"),
    ('δ', "delta"),
    ('ε', "varepsilon"),
    ('η', "eta"),
    ('θ', "theta"),
    ('κ', "kappa"),
    ('λ', "lambda"),
    ('μ', "mu"),
    ('ρ', "rho"),
    ('σ', "sigma"),
    ('τ', "tau"),
    ('ω', "omega"),
];

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_table_environment_with_escaped_names() {
        insta::assert_snapshot!(Latex.render(&[sample()], Look::default()).expect("renders"), @r#"
        % Needs \usepackage{booktabs} in the preamble; with \usepackage{graphicx}, what is wider than the page is made smaller.
        \begin{table}[t]
          \centering
          \caption{Test accuracy (run.test\_accuracy.best in \%, mean $\pm$ sample sd over 3 values of seed); 5 of 24 samples diverged, 1 failed, 3 missing}
          \label{tab:main}
          \setbox0=\hbox\bgroup\ignorespaces
          \begin{tabular}{lrr}
            \toprule
            & \multicolumn{2}{c}{alpha} \\
            \cmidrule(lr){2-3}
            algorithm & 0.1 & 0.5 \\
            \midrule
            fedavg & 80.41 $\pm$ 0.09 & \textit{diverged} \\
            ditto & \textbf{93.04 $\pm$ 0.07} & \textbf{90.12} (n=1, 2 missing) \\
            a\_b\textbar{}c\&d & 89.99 $\pm$ 0.03 (n=2, 1 diverged) & \textit{1 diverged, 1 failed, 1 missing} \\
            gpfl & \underline{92.89 $\pm$ 0.03} & \underline{88.92 $\pm$ 0.02} \\
            \bottomrule
          \end{tabular}
          \unskip\egroup
          \leavevmode\ifdim\wd0>\linewidth\ifdefined\resizebox\resizebox{\linewidth}{!}{\box0}\else\box0\fi\else\box0\fi
        \end{table}
        "#);
    }

    #[test]
    fn what_is_wide_is_made_to_fit() {
        let mut table = sample();
        table.rows[0] = "a".repeat(70);
        let text = Latex.render(&[table], Look::default()).expect("renders");
        for part in [
            "with \\usepackage{graphicx}",
            "\\setbox0=\\hbox\\bgroup\\ignorespaces\n  \\begin{tabular}{lrr}",
            "\\end{tabular}\n  \\unskip\\egroup\n  \\leavevmode\\ifdim\\wd0>\\linewidth",
            "\\fi\n\\end{table}\n",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn special_characters_become_commands() {
        assert_eq!(escaped("\"q\""), "''q''");
        assert_eq!(escaped("a_b & 50% ~ \\x{λ}"), "a\\_b \\& 50\\% \\textasciitilde{} \\textbackslash{}x\\{$\\lambda$\\}");
    }
}
