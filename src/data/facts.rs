//! What is known of a data set before its files are read: so that a pipeline whose parameters do not fit it is refused at once.
//!
//! Only what the loader makes sure of stands here. Of files of one's own, and with `verify: false`, nothing is known.

use super::{Shape, Vocabulary, synthetic};
use serde_json::{Map, Value};

/// What is known of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The number of classes.
    pub classes: usize,
    /// The shape of a sample, where it is always the same.
    pub shape: Option<Shape>,
    /// The number of samples, where it is always the same; at most `limit`.
    pub samples: Option<usize>,
    /// Whether samples are texts.
    pub text: bool,
    /// The words of a text and the one that fills it up, where they are always the same.
    pub words: Option<Vocabulary>,
    /// Whether it says who its samples come from.
    pub groups: bool,
    /// Whether there are classes above its classes.
    pub superclasses: bool,
    /// Whether there are samples of an original test set, where that is known.
    pub tests: Option<bool>,
    /// How many there are whom its samples come from, at most.
    pub count: Option<usize>,
    /// The most samples of a class, at most.
    pub largest: Option<usize>,
    /// Whether there are samples of every class for sure.
    pub full: bool,
}

impl Facts {
    /// Numbers in so many classes, of which nothing else is known.
    #[must_use]
    pub fn of(classes: usize) -> Self {
        Self {
            classes,
            shape: None,
            samples: None,
            text: false,
            words: None,
            groups: false,
            superclasses: false,
            tests: None,
            count: None,
            largest: None,
            full: false,
        }
    }
}

/// The data sets here that say who their samples come from.
const GROUPED: [&str; 11] = [
    "camelyon17",
    "digit5",
    "har",
    "pamap2",
    "amazon-review",
    "synthetic",
    "fcube",
    "shakespeare",
    "fed-shakespeare",
    "tiny-shakespeare",
    "fed-cifar100",
];

/// The words of `amazon-sentences`, with 4 special ones.
const SENTENCES: u32 = 1_907;

/// What is known of the data set of that name with these parameters; nothing of those that are not here.
#[must_use]
pub fn facts(name: &str, params: &Map<String, Value>) -> Option<Facts> {
    if params.get("verify").and_then(Value::as_bool) == Some(false) {
        return None;
    }
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    let numbers = |channels, height, width, classes, samples| {
        let shape = Some(Shape { channels, height, width });
        Some(Facts { shape, samples, ..Facts::of(classes) })
    };
    let pictures = |channels, side, classes, samples| numbers(channels, side, side, classes, samples);
    let whole = |name: &str| params.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    // A text is as long as its parameter says.
    let texts = |classes, usual: usize, words: Option<(u32, u32)>| {
        let shape = Some(Shape { channels: 1, height: 1, width: whole("length").unwrap_or(usual) });
        let words = words.map(|(size, padding)| Vocabulary { size, padding });
        Some(Facts { shape, text: true, words, ..Facts::of(classes) })
    };
    let mut known = match name {
        "optdigits" => pictures(1, 8, 10, Some(5_620)),
        "mnist" | "fashion-mnist" => pictures(1, 28, 10, Some(70_000)),
        "cifar10" => {
            let batches = word("subset").and_then(|subset| subset.strip_prefix("first-")?.parse().ok()).unwrap_or(5);
            pictures(3, 32, 10, Some(10_000 * (batches + 1)))
        }
        "cifar100" => pictures(3, 32, 100, Some(60_000)),
        "emnist" => {
            let (classes, samples) = match word("split").unwrap_or("digits") {
                "digits" => (10, 280_000),
                "letters" => (27, 145_600),
                "balanced" => (47, 131_600),
                "byclass" => (62, 814_255),
                "bymerge" => (47, 814_255),
                "mnist" => (10, 70_000),
                _ => return None,
            };
            pictures(1, 28, classes, Some(samples))
        }
        "semeion" => pictures(1, 16, 10, Some(1_593)),
        "cinic10" => pictures(3, 32, 10, Some(270_000)),
        "tiny-imagenet" => pictures(3, 64, 200, Some(100_000)),
        "country211" => pictures(3, 64, 211, Some(63_300)),
        "flowers102" => pictures(3, 64, 102, Some(8_189)),
        "stanford-cars" => pictures(3, 64, 196, Some(16_185)),
        "gtsrb" => pictures(3, 32, 43, None),
        "kvasir" => pictures(3, 64, 8, None),
        "covidx" => pictures(3, 64, 2, None),
        "camelyon17" => pictures(3, 96, 2, None),
        "digit5" => pictures(3, 32, 10, None),
        "utkface" => pictures(3, whole("size").unwrap_or(64), 12, None),
        "har" => numbers(9, 1, 128, 6, Some(10_299)),
        "pamap2" => numbers(9, 3, 256, 12, None),
        "amazon-review" => numbers(5_000, 1, 1, 2, None),
        "synthetic" => numbers(60, 1, 1, 10, synthetic::asked(params).1),
        "fcube" => numbers(3, 1, 1, 2, whole("samples").or(Some(4_000))),
        "ag-news" | "sogou-news" => {
            // All texts have more words than the vocabulary takes, if it is not larger than usual.
            let words = whole("words").unwrap_or(32_000);
            let full = name == "ag-news" && words <= 32_000 && word("subset") != Some("test");
            let words = full.then(|| u32::try_from(words).ok()).flatten().map(|words| (words, 0));
            let (classes, train, test) = if name == "ag-news" { (4, 120_000, 7_600) } else { (5, 450_000, 60_000) };
            let samples = if word("subset") == Some("test") { test } else { train + test };
            texts(classes, 200, words).map(|facts| Facts { samples: Some(samples), ..facts })
        }
        "amazon-sentences" if word("form") == Some("counts") => Some(Facts { samples: Some(1_000), ..Facts::of(2) }),
        "amazon-sentences" => texts(2, 40, Some((SENTENCES, 0))).map(|facts| Facts { samples: Some(1_000), ..facts }),
        "tiny-shakespeare" => texts(65, 80, Some((66, 65))),
        // Of LEAF's texts only the alphabet is known: their length is that of the files.
        "shakespeare" => texts(80, 80, Some((81, 80))).map(|facts| Facts { shape: None, ..facts }),
        "fed-shakespeare" => texts(90, 80, Some((90, 0))),
        "fed-cifar100" => pictures(3, 32, 100, None),
        _ => None,
    }?;
    known.full = known.samples.is_some_and(|all| all >= 100 * known.classes) && whole("limit").is_none() && name != "emnist";
    known.samples = known.samples.map(|samples| whole("limit").map_or(samples, |limit| limit.min(samples)));
    let training = training(name, params);
    known.tests = training.map(|training| training < known.samples.unwrap_or(usize::MAX));
    known.count = groups(name, params);
    known.largest = largest(name, params);
    known.groups = GROUPED.contains(&name);
    // The federated one has them if its files do.
    known.superclasses = name.ends_with("cifar100");
    Some(known)
}

/// How many of the first samples are original training samples, where that is known; the greatest number where there is no test set.
fn training(name: &str, params: &Map<String, Value>) -> Option<usize> {
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    Some(match name {
        "optdigits" => 3_823,
        "mnist" | "fashion-mnist" => 60_000,
        "cifar10" => 10_000 * word("subset").and_then(|subset| subset.strip_prefix("first-")?.parse().ok()).unwrap_or(5),
        "cifar100" => 50_000,
        "emnist" => match word("split").unwrap_or("digits") {
            "digits" => 240_000,
            "letters" => 124_800,
            "balanced" => 112_800,
            "byclass" | "bymerge" => 697_932,
            "mnist" => 60_000,
            _ => return None,
        },
        "har" => 7_352,
        "ag-news" | "sogou-news" if word("subset") == Some("test") => usize::MAX,
        "ag-news" => 120_000,
        "sogou-news" => 450_000,
        "semeion" | "synthetic" | "fcube" | "amazon-sentences" | "tiny-shakespeare" | "tiny-imagenet" | "kvasir" | "pamap2" => usize::MAX,
        _ => return None,
    })
}

/// How many there are whom the samples come from, at most.
fn groups(name: &str, params: &Map<String, Value>) -> Option<usize> {
    Some(match name {
        "synthetic" => usize::try_from(synthetic::asked(params).0).ok()?,
        "fcube" | "amazon-review" => 4,
        "digit5" | "camelyon17" => 5,
        "pamap2" => 9,
        "har" => 30,
        _ => return None,
    })
}

/// The most samples of a class, at most: those of the class that has most of them.
fn largest(name: &str, params: &Map<String, Value>) -> Option<usize> {
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    Some(match name {
        "optdigits" => 572,
        "mnist" => 7_877,
        "fashion-mnist" => 7_000,
        "cifar10" if word("subset").is_none_or(|subset| subset == "all") => 6_000,
        "cifar100" => 600,
        "semeion" => 162,
        "amazon-sentences" | "tiny-imagenet" => 500,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_is_known_of_files_that_are_not_compared() {
        let unverified = json!({"verify": false});
        assert_eq!(facts("mnist", unverified.as_object().expect("a map")), None);
        assert_eq!(facts("csv", &Map::new()), None);
    }
}
