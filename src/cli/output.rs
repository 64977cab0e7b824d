//! Results on standard output: for people, for programs, or only what a script needs. Every command prints through [`Output`].
//!
//! A pipe that is closed at the other end is no error: whoever reads has seen enough.

use super::args::{Form, When};
use crate::base::{Fault, Outcome};
use crate::table::Look;
use comfy_table::presets;
use serde_json::Value;
use std::io::{IsTerminal, Write};

/// The result of a command in its three forms. Only the one that is asked for is made.
pub(super) trait Answer {
    /// For people.
    fn table(&self, look: Look) -> Outcome<String>;
    /// For programs.
    fn json(&self) -> Outcome<Value>;
    /// What a script needs, one a line; nothing for most commands.
    fn quiet(&self) -> Outcome<String> {
        Ok(String::new())
    }
}

/// A form of results.
pub(super) trait Output {
    /// Writes a result.
    fn show(&mut self, answer: &dyn Answer) -> Outcome<()>;
    /// Whether the result is for a program.
    fn json(&self) -> bool {
        false
    }
}

/// The form that was asked for.
pub(super) fn of(form: Form, color: When) -> Box<dyn Output> {
    match form {
        Form::Table => Box::new(People(look(color))),
        Form::Json => Box::new(Program),
        Form::Quiet => Box::new(Script),
    }
}

/// Tells a program why there is no result; people are told on standard error.
pub(super) fn failed(form: Form, fault: &Value) {
    if form == Form::Json {
        // That this cannot be written either changes nothing.
        let _ = write(&format!("{fault:#}\n"));
    }
}

struct People(Look);

impl Output for People {
    fn show(&mut self, answer: &dyn Answer) -> Outcome<()> {
        write(&answer.table(self.0)?)
    }
}

struct Program;

impl Output for Program {
    fn show(&mut self, answer: &dyn Answer) -> Outcome<()> {
        let mut text =
            serde_json::to_string_pretty(&answer.json()?).map_err(|e| Fault::internal(format!("a result has no JSON form: {e}")))?;
        text.push('\n');
        write(&text)
    }
    fn json(&self) -> bool {
        true
    }
}

struct Script;

impl Output for Script {
    fn show(&mut self, answer: &dyn Answer) -> Outcome<()> {
        write(&answer.quiet()?)
    }
}

fn write(text: &str) -> Outcome<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Fault::storage(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// What standard output can do.
fn look(color: When) -> Look {
    let terminal = std::io::stdout().is_terminal();
    let width = terminal.then(terminal_size::terminal_size).flatten().map(|(width, _)| usize::from(width.0));
    Look { color: wants_color(color, terminal), width }
}

/// Whether color is wanted on a stream that is a terminal or not.
pub(super) fn wants_color(when: When, terminal: bool) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            let set = |name| std::env::var_os(name).is_some_and(|value: std::ffi::OsString| !value.is_empty());
            terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

/// A text for people, with the same for programs.
pub(super) struct Text {
    /// The text.
    pub(super) text: String,
    /// For programs.
    pub(super) json: Value,
    /// For scripts.
    pub(super) quiet: String,
}

impl Answer for Text {
    fn table(&self, _: Look) -> Outcome<String> {
        Ok(self.text.clone())
    }
    fn json(&self) -> Outcome<Value> {
        Ok(self.json.clone())
    }
    fn quiet(&self) -> Outcome<String> {
        Ok(self.quiet.clone())
    }
}

/// A text that is the result in every form: a completion script, a log, a table in a given format.
pub(super) struct Verbatim(pub(super) String);

impl Answer for Verbatim {
    fn table(&self, _: Look) -> Outcome<String> {
        Ok(self.0.clone())
    }
    fn json(&self) -> Outcome<Value> {
        Ok(Value::String(self.0.clone()))
    }
    fn quiet(&self) -> Outcome<String> {
        Ok(self.0.clone())
    }
}

/// Rows under a header, without lines between them.
pub(super) struct Listing {
    /// Column names.
    pub(super) header: Vec<&'static str>,
    /// Cells by row.
    pub(super) rows: Vec<Vec<String>>,
    /// A line below, or the empty string.
    pub(super) note: String,
    /// For programs.
    pub(super) json: Value,
    /// The column that scripts get.
    pub(super) key: usize,
}

impl Answer for Listing {
    fn table(&self, _: Look) -> Outcome<String> {
        let mut out = if self.rows.is_empty() { String::new() } else { columns(&self.header, &self.rows) };
        if !self.note.is_empty() {
            out.push_str(&self.note);
            out.push('\n');
        }
        Ok(out)
    }
    fn json(&self) -> Outcome<Value> {
        Ok(self.json.clone())
    }
    fn quiet(&self) -> Outcome<String> {
        Ok(self.rows.iter().filter_map(|row| row.get(self.key)).map(|cell| format!("{cell}\n")).collect())
    }
}

/// Rows as aligned columns; without a header when it is empty.
pub(super) fn columns(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut grid = comfy_table::Table::new();
    grid.load_style(presets::NOTHING);
    if !header.is_empty() {
        grid.set_header(header);
    }
    grid.add_rows(rows);
    for column in grid.column_iter_mut() {
        column.set_padding((0, 2));
    }
    grid.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_without_trailing_blanks() {
        let rows = vec![vec!["run".to_owned(), "12".to_owned()], vec!["data".to_owned(), String::new()]];
        assert_eq!(columns(&["stage", "n"], &rows), "stage  n\nrun    12\ndata\n");
    }

    #[test]
    fn color_is_for_terminals_or_on_demand() {
        assert!(wants_color(When::Always, false));
        assert!(!wants_color(When::Auto, false) && !wants_color(When::Never, true));
    }
}
