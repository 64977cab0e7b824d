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
    /// Each class, numbered, as many as the list says; or `part` in all, of each class whole tracks of `track`, no more than in the list.
    Listed { each: &'static [usize], part: usize, track: usize },
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
/// The training pictures of the final training set, or of `GTSRB-Training_fixed.zip`, which is a part of it: the tracks of the first
/// competition, of 30 pictures each.
pub(super) const GTSRB: Known = Known::Listed { each: &SIGNS, part: 26_640, track: 30 };
/// The 39,209 pictures by sign.
const SIGNS: [usize; 43] = [
    210, 2_220, 2_250, 1_410, 1_980, 1_860, 420, 1_440, 1_410, 1_470, 2_010, 1_320, 2_100, 2_160, 780, 630, 420, 1_110, 1_200, 210, 360,
    330, 390, 510, 270, 1_500, 600, 240, 540, 270, 450, 780, 240, 689, 420, 1_200, 390, 210, 2_070, 300, 360, 240, 240,
];
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
            Self::Listed { each, part, track } => {
                let (all, full) = (found.values().sum::<usize>(), each.iter().sum::<usize>());
                if all < *part || all > full {
                    let what = format!("has {}, but the data set {part} or {full}", text::count(all, "picture"));
                    return Err(incomplete(place, &what));
                }
                for (class, known) in each.iter().enumerate() {
                    let name = format!("{class:05}");
                    let count = found.get(&("", name.as_str())).copied().unwrap_or_default();
                    let sound = if all == *part { (1..=*known).contains(&count) && count.is_multiple_of(*track) } else { count == *known };
                    if !sound {
                        let wanted = if all == *part { format!("tracks of {track}, at most {known}") } else { known.to_string() };
                        return Err(incomplete(
                            place,
                            &format!("has {} in `{name}`, but the data set {wanted}", text::count(count, "picture")),
                        ));
                    }
                }
                Ok(())
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
    }

    #[test]
    fn signs_are_counted_class_by_class() {
        let names: Vec<String> = (0..43).map(|class| format!("{class:05}")).collect();
        let of = |counts: &[usize]| {
            fault(&GTSRB, &names.iter().zip(counts).map(|(name, count)| ("", name.as_str(), *count)).collect::<Vec<_>>())
        };
        assert_eq!(SIGNS.iter().sum::<usize>(), 39_209);
        assert_eq!(of(&SIGNS), "");
        let mut moved = SIGNS;
        (moved[3], moved[4]) = (moved[3] - 1, moved[4] + 1);
        assert_eq!(of(&moved), "`x` has 1409 pictures in `00003`, but the data set 1410", "the sum alone is right");
        let mut short = SIGNS;
        short[42] -= 1;
        assert_eq!(of(&short), "`x` has 239 pictures in `00042`, but the data set 240");
        assert_eq!(of(&[5]), "`x` has 5 pictures, but the data set 26640 or 39209");
        assert_eq!(of(&[26_640]), "`x` has 26640 pictures in `00000`, but the data set tracks of 30, at most 210");
        // A part of whole tracks with the published sum: here the largest classes as they are, the others as they fit.
        let (mut part, mut over) = (SIGNS.map(|known| known / 30 * 30), 39_180 - 26_640);
        for count in &mut part {
            let less = over.min(*count - 30);
            (*count, over) = (*count - less, over - less);
        }
        assert_eq!((part.iter().sum::<usize>(), of(&part)), (26_640, String::new()));
        (part[41], part[42]) = (part[41] - 1, part[42]);
        part[40] += 1;
        assert_eq!(of(&part), "`x` has 361 pictures in `00040`, but the data set tracks of 30, at most 360");
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
