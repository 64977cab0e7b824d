//! How many pictures the folders of a data set have that no list names: so that one from which some are missing is noticed.
//!
//! The numbers are those that are published. It knows neither pictures nor what becomes of them.

use super::members::Place;
use crate::base::{Fault, Outcome, text};
use std::collections::BTreeMap;

/// How many pictures there are.
pub(super) enum Known {
    /// On each side so many classes, each with so many pictures.
    Each { sides: &'static [(&'static str, usize)], classes: usize },
    /// The classes have as many pictures as one of these editions says.
    Editions { classes: usize, each: &'static [usize] },
    /// One of these numbers in all.
    All(&'static [usize]),
}

/// 200 classes of 500.
pub(super) const TINY_IMAGENET: Known = Known::Each { sides: &[("train", 500)], classes: 200 };
/// 211 countries.
pub(super) const COUNTRY211: Known = Known::Each { sides: &[("train", 150), ("valid", 50), ("test", 100)], classes: 211 };
/// 10 classes of 9,000 on each side.
pub(super) const CINIC10: Known = Known::Each { sides: &[("train", 9_000), ("valid", 9_000), ("test", 9_000)], classes: 10 };
/// The second edition, and the first.
pub(super) const KVASIR: Known = Known::Editions { classes: 8, each: &[1_000, 500] };
/// The training pictures of `GTSRB-Training_fixed.zip`, or of the final training set.
pub(super) const GTSRB: Known = Known::All(&[26_640, 39_209]);
/// The aligned and cropped faces.
pub(super) const UTKFACE: Known = Known::All(&[23_708]);

impl Known {
    /// Makes sure that all pictures are there; each is told by its side and its class.
    pub fn check<'a>(&self, place: &Place, pictures: impl Iterator<Item = (&'a str, &'a str)>) -> Outcome<()> {
        let mut found: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        pictures.for_each(|picture| *found.entry(picture).or_default() += 1);
        match self {
            Self::All(numbers) => {
                let all: usize = found.values().sum();
                if numbers.contains(&all) {
                    return Ok(());
                }
                let known: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                Err(incomplete(place, &format!("has {}, but the data set {}", text::count(all, "picture"), known.join(" or "))))
            }
            Self::Editions { classes, each } => {
                let most = found.values().copied().max().unwrap_or_default();
                let each = each.iter().copied().filter(|each| *each >= most).min().or(each.first().copied()).unwrap_or_default();
                of_side(place, &found, "", *classes, each)
            }
            Self::Each { sides, classes } => sides.iter().try_for_each(|(side, each)| of_side(place, &found, side, *classes, *each)),
        }
    }
}

fn of_side(place: &Place, found: &BTreeMap<(&str, &str), usize>, side: &str, classes: usize, each: usize) -> Outcome<()> {
    let of_side = || found.iter().filter(|((of, _), _)| *of == side);
    let folder = if side.is_empty() { String::new() } else { format!("{side}/") };
    let here = of_side().count();
    if here != classes {
        let inside = if folder.is_empty() { String::new() } else { format!(" in `{folder}`") };
        let noun = if here == 1 { "class" } else { "classes" };
        return Err(incomplete(place, &format!("has pictures of {here} {noun}{inside}, but the data set has {classes}")));
    }
    match of_side().find(|(_, count)| **count != each) {
        None => Ok(()),
        Some(((_, class), count)) => {
            Err(incomplete(place, &format!("has {} in `{folder}{class}`, but the data set {each}", text::count(*count, "picture"))))
        }
    }
}

fn incomplete(place: &Place, what: &str) -> Fault {
    place.fault(what).help("fetch or unpack the data set again, all of it; `verify: false` takes what is there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn fault(known: &Known, pictures: &[(&str, &str, usize)]) -> String {
        let all = pictures.iter().flat_map(|(side, class, count)| std::iter::repeat_n((*side, *class), *count));
        known.check(&Place::Folder(PathBuf::from("x")), all).err().map(|fault| fault.what).unwrap_or_default()
    }

    #[test]
    fn what_is_missing_is_named() {
        let two = Known::Each { sides: &[("train", 3), ("test", 1)], classes: 2 };
        assert_eq!(fault(&two, &[("train", "a", 3), ("train", "b", 3), ("test", "a", 1), ("test", "b", 1)]), "");
        let short = fault(&two, &[("train", "a", 3), ("train", "b", 2), ("test", "a", 1), ("test", "b", 1)]);
        assert_eq!(short, "`x` has 2 pictures in `train/b`, but the data set 3");
        let gone = fault(&two, &[("train", "a", 3), ("train", "b", 3), ("test", "a", 1)]);
        assert_eq!(gone, "`x` has pictures of 1 class in `test/`, but the data set has 2");
        assert_eq!(fault(&UTKFACE, &[("", "2", 23_707)]), "`x` has 23707 pictures, but the data set 23708");
        assert_eq!(fault(&GTSRB, &[("", "00000", 26_640)]), "");
        assert_eq!(fault(&GTSRB, &[("", "00000", 5)]), "`x` has 5 pictures, but the data set 26640 or 39209");
    }

    #[test]
    fn every_edition_is_complete_by_itself() {
        let kvasir = |counts: [usize; 8]| {
            let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
            fault(&KVASIR, &names.into_iter().zip(counts).map(|(name, count)| ("", name, count)).collect::<Vec<_>>())
        };
        assert_eq!((kvasir([1_000; 8]), kvasir([500; 8])), (String::new(), String::new()));
        assert_eq!(kvasir([1_000, 1_000, 500, 1_000, 1_000, 1_000, 1_000, 1_000]), "`x` has 500 pictures in `c`, but the data set 1000");
        assert_eq!(kvasir([500, 499, 500, 500, 500, 500, 500, 500]), "`x` has 499 pictures in `b`, but the data set 500");
        assert_eq!(kvasir([1_001; 8]), "`x` has 1001 pictures in `a`, but the data set 1000");
    }
}
