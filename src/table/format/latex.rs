//! Tables in LaTeX with booktabs: a `table` environment that compiles as it stands.

use super::super::value::Table;
use super::{Format, Look, template};
use crate::base::{Fault, Outcome};

/// One `table` environment for each table; names are escaped, so it compiles whatever they contain.
pub(super) struct Latex;

/// The template of this format.
pub const TEMPLATE: &str = include_str!("../../../templates/tables/latex.tex.j2");

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
        template::rendered("latex.tex.j2", TEMPLATE, tables).map_err(|e| Fault::internal(format!("the LaTeX template is broken: {e:#}")))
    }
}

/// The text with every special character written as a command that needs no package.
pub(super) fn escaped(text: &str) -> String {
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
