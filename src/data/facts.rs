//! What is known of a data set before its files are read: so that a pipeline whose parameters do not fit it is refused at once.
//!
//! Only what the loader makes sure of stands here. Of files of one's own, and with `verify: false`, nothing is known.

use super::Shape;
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
}

/// What is known of the data set of that name with these parameters; nothing of those that are not here.
#[must_use]
pub fn facts(name: &str, params: &Map<String, Value>) -> Option<Facts> {
    if params.get("verify").and_then(Value::as_bool) == Some(false) {
        return None;
    }
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    let numbers = |channels, height, width, classes, samples| {
        let shape = Some(Shape { channels, height, width });
        Some(Facts { classes, shape, samples, text: false })
    };
    let pictures = |channels, side, classes, samples| numbers(channels, side, side, classes, samples);
    let texts = |classes| Some(Facts { classes, shape: None, samples: None, text: true });
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
        "utkface" => {
            let side = params.get("size").and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok()).unwrap_or(64);
            pictures(3, side, 12, None)
        }
        "har" => numbers(9, 1, 128, 6, Some(10_299)),
        "pamap2" => numbers(9, 3, 256, 12, None),
        "amazon-review" => numbers(5_000, 1, 1, 2, None),
        "synthetic" => numbers(60, 1, 1, 10, None),
        "fcube" => {
            let samples = params.get("samples").and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok());
            numbers(3, 1, 1, 2, samples.or(Some(4_000)))
        }
        "ag-news" => texts(4),
        "sogou-news" => texts(5),
        "amazon-sentences" if word("form") == Some("counts") => Some(Facts { classes: 2, shape: None, samples: Some(1_000), text: false }),
        "amazon-sentences" => texts(2),
        _ => None,
    }?;
    let limit = params.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
    known.samples = known.samples.map(|samples| limit.map_or(samples, |limit| limit.min(samples)));
    Some(known)
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
