//! The formats of tables: one small file each, all behind [`Format`], and their list.

mod csv;
mod html;
mod json;
mod latex;
mod long;
mod md;
mod template;
mod term;

use super::value::Table;
use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};

/// What the place where a table is shown can do. Only `term` heeds it: files must not depend on the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether ANSI sequences are understood.
    pub color: bool,
    /// Columns of the terminal; none means that a line may have any length.
    pub width: Option<usize>,
}

/// A way of writing tables. Equal tables give equal bytes.
pub trait Format: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;
    /// What a file of it ends in.
    fn extension(&self) -> &'static str {
        self.name()
    }
    /// One sentence.
    fn doc(&self) -> &'static str;
    /// Writes the tables one after another; the text ends with a line feed.
    ///
    /// # Errors
    /// An internal fault when a built-in template is broken.
    fn render(&self, tables: &[Table], look: Look) -> Outcome<String>;
}

pub use html::{STYLE, fragment};
pub use latex::TEMPLATE as LATEX;
pub use template::{slugs, with_template};

/// Every format, in the order in which help lists them.
pub const FORMATS: [&dyn Format; 8] =
    [&term::Term, &md::Markdown, &latex::Latex, &html::Html, &csv::Csv, &json::Json, &long::Long, &long::Series];

/// The format of that name.
///
/// # Errors
/// A usage fault that lists the formats and names the nearest.
pub fn find(name: &str) -> Outcome<&'static dyn Format> {
    FORMATS.into_iter().find(|format| format.name() == name).ok_or_else(|| {
        let names = FORMATS.map(Format::name);
        let help = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`? the formats are {}", quoted(names)),
            None => format!("the formats are {}", quoted(names)),
        };
        Fault::usage(format!("`{name}` is not a format of tables")).help(help)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::value::tests::{entries, heading};
    use super::super::value::{Best, Measure};
    use super::*;

    /// A table with every kind of cell and with labels that every format must escape.
    pub(crate) fn sample() -> Table {
        Table::build(
            heading(Best::Max, Measure::Fraction),
            entries(
                "fedavg 0.1 0.8032 0.8050 0.8041
                 ditto 0.1 0.9312 0.9299 0.9301
                 a_b|c&d 0.1 0.9001 0.8997 diverged
                 gpfl 0.1 0.9285 0.9291 0.9290
                 fedavg 0.5 diverged diverged diverged
                 ditto 0.5 0.9012 missing missing
                 a_b|c&d 0.5 failed missing diverged
                 gpfl 0.5 0.8891 0.8890 0.8894",
            ),
        )
    }

    #[test]
    fn every_format_is_deterministic_and_ends_with_a_line_feed() {
        for format in FORMATS {
            let once = format.render(&[sample(), sample()], Look::default()).unwrap_or_else(|fault| panic!("{}: {fault}", format.name()));
            assert_eq!(
                once,
                format.render(&[sample(), sample()], Look::default()).unwrap_or_else(|fault| panic!("{}: {fault}", format.name()))
            );
            assert!(once.ends_with('\n') && !once.ends_with("\n\n"), "{}", format.name());
            assert!(!once.contains('\u{1b}'), "{}", format.name());
        }
    }

    #[test]
    fn tables_without_rows_are_written_too() {
        for format in FORMATS {
            let table = Table::build(heading(Best::Max, Measure::Loss), []);
            assert!(format.render(&[table], Look::default()).is_ok(), "{}", format.name());
            assert!(format.render(&[], Look::default()).is_ok(), "{}", format.name());
        }
    }

    #[test]
    fn an_unknown_format_names_the_nearest() {
        let fault = find("latx").err().expect("no such format");
        assert_eq!(fault.kind, crate::base::FaultKind::Usage);
        assert!(fault.help.expect("help").starts_with("did you mean `latex`?"));
    }
}
