//! The texts that make up a pipeline: the file, the files it extends, and what the command line adds.
//!
//! Lines and columns are worked out only for messages, so that a correct pipeline pays nothing for them.

use super::node::Place;
use super::yaml;
use std::ops::Range;
use std::path::PathBuf;

/// One text.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path as the user wrote it, or `command line`.
    pub name: String,
    /// The text as shown in messages.
    pub text: String,
    /// Whether it came from the command line.
    pub command_line: bool,
    /// What the parser read: the text itself, or for the command line its value part, perhaps in brackets.
    parsed: Option<Part>,
}

/// The part of an option that is read.
#[derive(Clone, Debug)]
struct Part {
    text: String,
    /// Where it begins in the shown text.
    from: usize,
    /// The length of what was put before it.
    opening: usize,
}

impl Source {
    /// A file.
    #[must_use]
    pub fn file(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text: String = text.into();
        let text = text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned);
        Self { name: name.into(), text, command_line: false, parsed: None }
    }
    /// An option with its value: `shown` is `--set rounds=5`, whose part from byte `from` on is read as YAML between `open` and `close`.
    #[must_use]
    pub fn option(shown: String, from: usize, open: &str, close: &str) -> Self {
        let parsed = Part { text: format!("{open}{}{close}", &shown[from..]), from, opening: open.len() };
        Self { name: "command line".to_owned(), text: shown, command_line: true, parsed: Some(parsed) }
    }
    /// What the parser reads.
    #[must_use]
    pub fn parsed(&self) -> &str {
        self.parsed.as_ref().map_or(&self.text, |part| &part.text)
    }
    /// A byte offset in the parsed text, as one in the shown text.
    #[must_use]
    pub fn shown_offset(&self, offset: usize) -> usize {
        let shown = self.parsed.as_ref().map_or(offset, |part| part.from + offset.saturating_sub(part.opening));
        shown.min(self.text.len())
    }
}

/// A position in a source, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Index of the source.
    pub source: usize,
    /// Bytes of the text that the message is about; never empty unless the text ends there.
    pub span: Range<usize>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// All texts of one pipeline; the first is the file itself.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<Source>);

impl Sources {
    /// Adds a text and returns its index.
    pub fn add(&mut self, source: Source) -> u16 {
        self.0.push(source);
        u16::try_from(self.0.len() - 1).unwrap_or(u16::MAX)
    }
    /// The text of that index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Source> {
        self.0.get(index)
    }
    /// The files among them.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.0.iter().filter(|source| !source.command_line).map(|source| PathBuf::from(&source.name)).collect()
    }
    /// The number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Line, column and span of a node.
    #[must_use]
    pub fn locate(&self, place: Place) -> Option<Location> {
        let source = self.get(usize::from(place.source))?;
        // An option is one short text, so its beginning is near enough where its value is not YAML.
        let offset = yaml::locate(source.parsed(), place.item).or(source.command_line.then_some(0))?;
        Some(self.at(usize::from(place.source), source.shown_offset(offset)))
    }
    /// Line, column and span of the word at a byte offset of the shown text.
    #[must_use]
    pub fn at(&self, index: usize, offset: usize) -> Location {
        let text = self.get(index).map_or("", |source| &source.text);
        let mut start = offset.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |n| n + 1);
        Location {
            source: index,
            span: start..start + word_length(&text[start..]),
            line: before.matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
        }
    }
}

/// The length in bytes of the scalar, or of the opening of the collection, at the start of `text`.
fn word_length(text: &str) -> usize {
    let line = &text[..text.find(['\n', '\r']).unwrap_or(text.len())];
    let Some(first) = line.chars().next() else { return 0 };
    match first {
        '"' | '\'' => line[1..].find(first).map_or(line.len(), |n| n + 2),
        '{' | '[' => 1,
        _ => {
            let mut end = line.len();
            let bytes = line.as_bytes();
            for (i, byte) in line.bytes().enumerate() {
                let next_is_space = bytes.get(i + 1).is_none_or(|b| b.is_ascii_whitespace());
                let stops = match byte {
                    b':' => next_is_space,
                    b',' | b']' | b'}' => true,
                    b'#' => i > 0 && bytes[i - 1].is_ascii_whitespace(),
                    _ => false,
                };
                if stops {
                    end = i;
                    break;
                }
            }
            line[..end].trim_end().len().max(first.len_utf8())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_yaml_ends_them() {
        assert_eq!(word_length("alpha: 3"), 5);
        assert_eq!(word_length("'a b' # c"), 5);
        assert_eq!(word_length("0.1, 0.5]"), 3);
        assert_eq!(word_length("a b # c"), 3);
        assert_eq!(word_length("{a: 1}"), 1);
        assert_eq!(word_length(""), 0);
    }

    #[test]
    fn columns_count_characters() {
        let mut sources = Sources::default();
        sources.add(Source::file("x", "é: ü\nb: 1\n"));
        let location = sources.at(0, "é: ".len());
        assert_eq!((location.line, location.column, location.span), (1, 4, 4..6));
    }
}
