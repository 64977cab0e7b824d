//! Texts: news as rows of csv, sentences, plays by speaker, and the words and characters that they are made of.
//!
//! News are PFLlib's: torchtext's "basic English" words, a vocabulary by count, 200 numbers a text of which the first is always that
//! of an unknown word, since the reference asks for `<cls>` but has `cls` among the special words.

use super::Shape;
use super::assemble::{Rows, of_floats, of_tokens};
use super::dataset::{Dataset, Vocabulary};
use super::members::{Place, Wanted};
use super::registry::{Request, room};
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type, When};
use crate::spec::rules::Breach;
use std::collections::{BTreeMap, HashMap};

/// The most bytes of a text file.
const GREATEST: u64 = 2 << 30;
/// Bytes that a word takes on its way: its number, and that number as it is kept. And what a text's label and group take.
const WORD: u64 = 8;
const ROW: u64 = 8;
/// What there is to do about more than fits this machine.
const SHORTER: &str = "choose a smaller `length`, or use a machine with more memory";
const SHORTER_OR_FEWER: &str = "choose a smaller `length` or a greater `step`, or use a machine with more memory";
/// Special words come first: padding, `cls`, unknown, end.
const SPECIAL: u32 = 4;
const UNKNOWN: u32 = 2;
const SUBSETS: &[(&str, &str)] =
    &[("all", "the training and the test texts"), ("test", "the test texts only, which then count as training texts")];

pub(super) fn news_fields() -> Vec<Field> {
    vec![
        Field::with("subset", Type::Choice(SUBSETS), "all", "Which of the two files to use."),
        Field::with("length", Type::Int { min: 1, max: 100_000 }, 200, "Words of a text; longer ones are cut, shorter ones filled up.")
            .from("max_len", "PFLlib"),
        Field::with("words", Type::Int { min: 5, max: 1 << 20 }, 32_000, "The size of the vocabulary, with 4 special words.")
            .from("max_tokens", "PFLlib"),
    ]
}

/// What is wrong with the length of so many texts on this machine.
pub(super) fn rules(name: &str, samples: usize, length: usize) -> Option<Breach> {
    room(name, samples as u64, length as u64 * WORD + ROW, SHORTER).err().map(|fault| Breach::new("length", fault))
}

/// AG News and Sogou News: rows of a class from 1, a title and texts.
pub(super) fn news(request: &Request<'_>, classes: usize, archives: &[&str]) -> Outcome<Dataset> {
    let only_test = request.params.choice("subset", SUBSETS)? == Some(1);
    let length = request.params.count("length", 1)?.unwrap_or(200);
    let words = request.params.integer("words", 5, 1 << 20)?.unwrap_or(32_000) as usize;
    let wanted: &[&str] = if only_test { &["test.csv"] } else { &["train.csv", "test.csv"] };
    let places = Place::find(request.dirs, request.folders(), archives, wanted)?;
    let place = places.first().ok_or_else(|| request.missing())?;
    let (mut texts, mut rows) = (Vec::new(), Rows::default());
    for name in wanted {
        let content = place
            .read(name, GREATEST)
            .map_err(|fault| if *name == "train.csv" { fault.help("add the file, or say `subset: test`") } else { fault })?;
        if let Some(published) = request.published(name) {
            published.check(&content, &place.path().join(name))?;
        }
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(content.as_slice());
        for (number, row) in reader.records().enumerate() {
            request.go_on_at(number)?;
            let row = row.map_err(|e| place.fault(format_args!("cannot be read: `{name}`: {e}")))?;
            let class = row.get(0).and_then(|field| field.trim().parse::<u32>().ok()).filter(|class| (1..=classes as u32).contains(class));
            let class = class.ok_or_else(|| {
                place.fault(format_args!("has no class from 1 to {classes} at the start of row {} of `{name}`", number + 1))
            })?;
            rows.labels.push(class - 1);
            texts.push(tokens(&row.iter().skip(1).collect::<Vec<_>>().join(" ")));
        }
        if *name == "train.csv" || only_test {
            rows.train = rows.labels.len();
        }
    }
    request.room(texts.len() as u64, length as u64 * WORD + ROW, SHORTER)?;
    let vocabulary = most_frequent(&texts, words - SPECIAL as usize);
    let mut ids = Vec::with_capacity(texts.len() * length);
    for text in &texts {
        let own = text.iter().map(|word| vocabulary.get(word.as_str()).copied().unwrap_or(UNKNOWN));
        ids.extend(std::iter::once(UNKNOWN).chain(own).chain(std::iter::repeat(0)).take(length));
    }
    // `cls` is in the map and among the special words.
    let vocabulary = Vocabulary { size: vocabulary.len() as u32 - 1 + SPECIAL, padding: 0 };
    of_tokens(request.name, length, classes, &ids, vocabulary, rows, request.origin())
}

/// The words of a text: torchtext's "basic English".
fn tokens(text: &str) -> Vec<String> {
    let lower = text.to_lowercase().replace('\'', " '  ").replace('"', "").replace('.', " . ").replace("<br />", " ");
    let mut spaced = String::with_capacity(lower.len() + 16);
    for c in lower.chars() {
        match c {
            ',' | '(' | ')' | '!' | '?' => spaced.extend([' ', c, ' ']),
            // Python counts the separators of ASCII as blanks.
            ';' | ':' | '\u{1c}'..='\u{1f}' => spaced.push(' '),
            _ => spaced.push(c),
        }
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Numbers for the most frequent words, from the special ones on: by falling count, equal ones in the order of their characters.
fn most_frequent(texts: &[Vec<String>], most: usize) -> HashMap<&str, u32> {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    texts.iter().flatten().for_each(|word| *counts.entry(word).or_default() += 1);
    // The special words are not counted again; `<unk>` and its like never come out of the words as they are split here, but `cls` may.
    counts.remove("cls");
    let mut words: Vec<(&str, u64)> = counts.into_iter().collect();
    words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    words.truncate(most);
    words.into_iter().map(|(word, _)| word).zip(SPECIAL..).chain([("cls", 1)]).collect()
}

const FORMS: &[(&str, &str)] =
    &[("words", "a row of words"), ("counts", "how often each word of the vocabulary is in it, as in Amazon Review")];

pub(super) fn sentences_fields() -> Vec<Field> {
    vec![
        Field::with("length", Type::Int { min: 1, max: 100_000 }, 40, "Words of a sentence; longer ones are cut, shorter ones filled up.")
            .read_with("form", When::Is(&["words"])),
        Field {
            introduced: Some("words".into()),
            ..Field::with("form", Type::Choice(FORMS), "words", "What a sample is; `counts` has no `length`.")
        },
    ]
}

/// Lines of a sentence, a tab and a class of 0 or 1.
pub(super) fn sentences(request: &Request<'_>) -> Outcome<Dataset> {
    let length = request.params.count("length", 1)?.unwrap_or(40);
    let source = request.file("amazon_cells_labelled.txt")?;
    let content = source.whole(GREATEST)?;
    if let Some(published) = request.published("amazon_cells_labelled.txt") {
        published.check(&content, &source.path)?;
    }
    let text = String::from_utf8(content).map_err(|_| source.fault("is not UTF-8 text"))?;
    let (mut texts, mut rows) = (Vec::new(), Rows::default());
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let (sentence, class) = line.rsplit_once('\t').unwrap_or((line, ""));
        let class = class.trim().parse().ok().filter(|class| *class <= 1_u32);
        rows.labels.push(class.ok_or_else(|| source.fault(format_args!("has no class 0 or 1 at the end of line {}", number + 1)))?);
        texts.push(tokens(sentence));
    }
    rows.train = rows.labels.len();
    let vocabulary = most_frequent(&texts, 1 << 20);
    if request.params.choice("form", FORMS)? == Some(1) {
        return counts(request, &texts, &vocabulary, rows);
    }
    request.room(texts.len() as u64, length as u64 * WORD + ROW, SHORTER)?;
    let mut ids = Vec::new();
    for text in &texts {
        let own = text.iter().map(|word| vocabulary.get(word.as_str()).copied().unwrap_or(UNKNOWN));
        ids.extend(own.chain(std::iter::repeat(0)).take(length));
    }
    // `cls` is in the map and among the special words.
    let vocabulary = Vocabulary { size: vocabulary.len() as u32 - 1 + SPECIAL, padding: 0 };
    of_tokens(request.name, length, 2, &ids, vocabulary, rows, request.origin())
}

/// How often each word is in each text; words in the order of their numbers, without the special ones.
fn counts(request: &Request<'_>, texts: &[Vec<String>], vocabulary: &HashMap<&str, u32>, rows: Rows) -> Outcome<Dataset> {
    let width = vocabulary.values().filter(|number| **number >= SPECIAL).count().max(1);
    let mut values = vec![0.0_f32; texts.len() * width];
    for (own, text) in values.chunks_exact_mut(width).zip(texts) {
        for number in text.iter().filter_map(|word| vocabulary.get(word.as_str())?.checked_sub(SPECIAL)) {
            if let Some(count) = own.get_mut(number as usize) {
                *count += 1.0;
            }
        }
    }
    of_floats(request.name, Shape { channels: width, height: 1, width: 1 }, 2, &values, rows, request.origin())
}

pub(super) fn play_fields() -> Vec<Field> {
    vec![
        Field::with("length", Type::Int { min: 1, max: 10_000 }, 80, "Characters of a sample; the class is the next one.").from("", "LEAF"),
        Field::with("step", Type::at_least(1), 20, "Characters from the start of a sample to that of the next; LEAF takes 1."),
    ]
}

/// A play in one text: blocks of a line with a speaker and a colon, then the speech. Speakers are the groups.
pub(super) fn play(request: &Request<'_>) -> Outcome<Dataset> {
    let length = request.params.count("length", 1)?.unwrap_or(80);
    let step = request.params.count("step", 1)?.unwrap_or(20);
    let source = request.file("input.txt")?;
    let content = source.whole(1 << 28)?;
    if let Some(published) = request.published("input.txt") {
        published.check(&content, &source.path)?;
    }
    let text = String::from_utf8(content).map_err(|_| source.fault("is not UTF-8 text"))?;
    let mut speeches: BTreeMap<&str, String> = BTreeMap::new();
    for block in text.split("\n\n") {
        let (speaker, speech) = block.trim_start().split_once('\n').unwrap_or_default();
        let Some(speaker) = speaker.trim_end().strip_suffix(':') else { continue };
        let all = speeches.entry(speaker).or_default();
        all.push_str(speech);
        all.push('\n');
    }
    let mut alphabet: Vec<char> = text.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let number = |c: char| alphabet.binary_search(&c).map_or(0, |at| at as u32);
    let (mut ids, mut rows) = (Vec::new(), Rows { what: "speaker", ..Rows::default() });
    let windows = |speech: &String| (speech.chars().count().saturating_sub(length)).div_ceil(step) as u64;
    request.room(speeches.values().map(windows).sum(), length as u64 * WORD + ROW, SHORTER_OR_FEWER)?;
    for (speaker, speech) in speeches {
        request.go_on()?;
        let numbers: Vec<u32> = speech.chars().map(number).collect();
        for window in numbers.windows(length + 1).step_by(step) {
            ids.extend(&window[..length]);
            rows.labels.push(window[length]);
            rows.groups.push(speaker.to_owned());
        }
    }
    if rows.labels.is_empty() {
        return Err(source
            .fault(format_args!("has no speech of more than {length} characters"))
            .help("lines must be as in a play: `NAME:`, speech"));
    }
    rows.train = rows.labels.len();
    // Every sample is full, so that no character is for filling up; one more is set aside for it.
    let classes = alphabet.len();
    let vocabulary = Vocabulary { size: classes as u32 + 1, padding: classes as u32 };
    of_tokens(request.name, length, classes, &ids, vocabulary, rows, request.origin())
}

/// The 80 characters of LEAF's Shakespeare, in order.
pub(super) fn leaf_alphabet() -> Vec<char> {
    let mut all: Vec<char> = "\n !\"&'(),-.0123456789:;>?".chars().collect();
    all.extend('A'..='Z');
    all.extend(['[', ']']);
    all.extend('a'..='z');
    all.push('}');
    all
}

/// Rows of LEAF's json: `users`, `user_data: {USER: {x, y}}`, in the files of `train/` and `test/`.
pub(super) fn leaf_files(place: &Place, side: &str) -> Outcome<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let is = |name: &str| {
        let in_folder =
            name.split('/').any(|part| part == side) || name.rsplit('/').next().is_some_and(|file| file.contains(&format!("_{side}_")));
        in_folder && name.ends_with(".json")
    };
    place.each(&Wanted { name: &is, most: GREATEST }, &mut |name, content| {
        found.push((name.to_owned(), content));
        Ok(())
    })?;
    found.sort();
    if found.is_empty() { Err(Fault::storage(format!("`{}` has no json of `{side}`", place.path().display()))) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_torchtexts() {
        let words = tokens("The dog's \"U.S.\" <br />price: $10,000 (up 5%)! Why?;yes");
        assert_eq!(
            words,
            ["the", "dog", "'", "s", "u", ".", "s", ".", "price", "$10", ",", "000", "(", "up", "5%", ")", "!", "why", "?", "yes"]
        );
        let texts = vec![tokens("b a b"), tokens("c a cls")];
        let numbers = most_frequent(&texts, 2);
        assert_eq!((numbers.get("a"), numbers.get("b"), numbers.get("c"), numbers.get("cls")), (Some(&4), Some(&5), None, Some(&1)));
    }

    #[test]
    fn leafs_alphabet_has_80_characters() {
        assert_eq!(leaf_alphabet().len(), 80);
    }
}
