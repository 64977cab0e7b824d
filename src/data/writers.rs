//! FEMNIST by LEAF's intermediate pickle: writers with the paths and classes of their pictures, as PFLlib reads it.
//!
//! The pictures stay as large as they are, and gray is repeated in three channels; both can be asked otherwise.

use super::Shape;
use super::assemble::{Rows, of_bytes};
use super::dataset::{Dataset, Scaling};
use super::files::Source;
use super::pickle::{Node, Pickle, View};
use super::picture::Picture;
use super::registry::Request;
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::path::Path;

const PICKLE: &str = "intermediate/images_by_writer.pkl";
/// The most bytes of the pickle, and of a picture's file.
const GREATEST: u64 = 4 << 30;
const PICTURE: u64 = 1 << 24;

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with("writers", Type::Int { min: 1, max: 100_000 }, 100, "Keep only so many writers, those with the most pictures.")
            .from("num_clients", "PFLlib"),
        Field::with("channels", Type::Int { min: 1, max: 3 }, 3, "How often the gray of a picture is repeated."),
        Field::optional("size", Type::Int { min: 4, max: 1024 }, "Height and width of a sample; as the pictures are when absent."),
    ]
}

/// The class of LEAF's hexadecimal code of a character: digits, capitals, small letters.
fn class(code: &str) -> Option<u32> {
    match u32::from_str_radix(code, 16).ok()? {
        code @ 0x30..=0x39 => Some(code - 0x30),
        code @ 0x41..=0x5a => Some(code - 55),
        code @ 0x61..=0x7a => Some(code - 61),
        _ => None,
    }
}

/// A picture of a path in the pickle, in the folder or in one of those that its first parts lead to.
fn picture(folder: &Path, path: &str) -> Outcome<Option<Source>> {
    let path = path.replace('\\', "/");
    if path.starts_with('/') || path.split('/').any(|part| part == ".." || part.contains('\0')) {
        return Ok(None);
    }
    let mut rest = path.as_str();
    loop {
        if let Some(source) = Source::at(folder.join(rest))? {
            return Ok(Some(source));
        }
        let Some((_, below)) = rest.split_once('/') else { return Ok(None) };
        rest = below;
    }
}

fn text(view: View<'_>) -> Option<&str> {
    if let Node::Text(text) = view.node() { Some(text) } else { None }
}

pub(super) fn load(request: &Request<'_>) -> Outcome<Dataset> {
    let most = request.params.integer("writers", 1, 100_000)?.unwrap_or(100) as usize;
    let channels = request.params.integer("channels", 1, 3)?.unwrap_or(3) as usize;
    let size = request.params.integer("size", 4, 1024)?.map(|size| size as usize);
    let source = request.file(PICKLE)?;
    let root = source.path.parent().and_then(Path::parent).unwrap_or_else(|| Path::new(".")).to_owned();
    let pickle = Pickle::parse(&source.whole(GREATEST)?).map_err(|fault| fault.at(format!("`{}`", source.path.display())))?;
    let wrong = || source.fault("is no list of writers with the paths and classes of their pictures");
    let mut writers = Vec::new();
    for writer in pickle.root().items().ok_or_else(wrong)? {
        let mut pair = writer.items().filter(|pair| pair.len() == 2).ok_or_else(wrong)?;
        let (name, pictures) = (pair.next().and_then(text).ok_or_else(wrong)?, pair.next().ok_or_else(wrong)?);
        writers.push((name, pictures.items().ok_or_else(wrong)?.collect::<Vec<_>>()));
    }
    // Equal counts stay in the order of the pickle.
    writers.sort_by_key(|(_, pictures)| std::cmp::Reverse(pictures.len()));
    writers.truncate(most);
    let (mut rows, mut values, mut side) = (Rows { what: "writer", ..Rows::default() }, Vec::new(), size);
    for (name, pictures) in writers {
        request.go_on()?;
        // Each picture as it is read, and as it is kept.
        let area = |side: usize| (side * side * channels) as u64;
        let less = "choose a smaller `size`, or fewer `writers`, or use a machine with more memory";
        request.room((rows.labels.len() + pictures.len()) as u64, 2 * side.map_or(1, area), less)?;
        let mut own = Vec::with_capacity(pictures.len());
        for pair in pictures {
            let mut pair = pair.items().filter(|pair| pair.len() == 2).ok_or_else(wrong)?;
            let (path, code) = (pair.next().and_then(text).ok_or_else(wrong)?, pair.next().and_then(text).ok_or_else(wrong)?);
            let label = class(code).ok_or_else(|| source.fault(format_args!("gives `{path}` the class `{code}`, which is none of 62")))?;
            let found = picture(&root, path)?.ok_or_else(|| {
                source.fault(format_args!("names `{path}`, which is not below `{}`", root.display())).help("put LEAF's `raw_data` there")
            })?;
            own.push((found, label));
        }
        let decode = |(file, _): &(Source, u32)| {
            let picture = Picture::decode(&file.whole(PICTURE)?, 1, &file.path.to_string_lossy())?;
            Ok(match size {
                Some(size) => picture.resized(size, size),
                None => picture,
            })
        };
        let decoded = own.par_iter().map(decode).collect::<Outcome<Vec<Picture>>>()?;
        for (picture, (file, label)) in decoded.into_iter().zip(own) {
            let side = *side.get_or_insert(picture.width);
            if (picture.width, picture.height) != (side, side) {
                let what = format!("is {} x {}, but the others are {side} x {side}", picture.width, picture.height);
                return Err(file.fault(what).help("say `size`, so that all are scaled to it"));
            }
            values.extend(picture.bytes.iter().flat_map(|&byte| std::iter::repeat_n(byte, channels)));
            rows.labels.push(label);
            rows.groups.push(name.to_owned());
        }
    }
    rows.train = rows.labels.len();
    let Some(side) = side.filter(|_| !rows.labels.is_empty()) else { return Err(Fault::storage(source.fault("has no pictures").what)) };
    let shape = Shape { channels, height: side, width: side };
    of_bytes(request.name, shape, 62, &values, Scaling::symmetric(255), rows, request.origin())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_characters_are_leafs() {
        assert_eq!(
            ["30", "39", "41", "5a", "61", "7a", "3a", "zz"].map(class),
            [Some(0), Some(9), Some(10), Some(35), Some(36), Some(61), None, None]
        );
    }
}
