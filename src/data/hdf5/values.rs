//! The values of an array: their kind and shape, and the filters that they went through.

use super::header::{self, Header, newer};
use super::{Cursor, GREATEST, Hdf5, NOWHERE, tree};
use crate::base::{Outcome, text};
use flate2::read::ZlibDecoder;
use std::collections::BTreeMap;
use std::io::Read;

/// The most bytes of a chunk.
const CHUNK: u64 = 1 << 30;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole {
        signed: bool,
    },
    Float,
    /// Characters, filled up to a fixed length.
    Fixed,
    /// Characters somewhere else in the file.
    Text,
}

/// The values of an array.
#[derive(Debug)]
pub(in super::super) struct Array {
    /// The length of each dimension; empty for a single value.
    pub dims: Vec<usize>,
    kind: Kind,
    width: usize,
    big: bool,
    bytes: Vec<u8>,
}

impl Array {
    /// The elements, as numbers of the machine.
    fn numbers<T>(&self, of: impl Fn(u64) -> T) -> Vec<T> {
        let one = |element: &[u8]| {
            let fold = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
            of(if self.big { element.iter().fold(0, fold) } else { element.iter().rev().fold(0, fold) })
        };
        self.bytes.chunks_exact(self.width).map(one).collect()
    }
    /// The values as floats.
    ///
    /// # Errors
    /// A storage fault when they are no numbers.
    pub fn floats(&self, file: &Hdf5) -> Outcome<Vec<f32>> {
        match (self.kind, self.width) {
            (Kind::Float, 4) => Ok(self.numbers(|bits| f32::from_bits(bits as u32))),
            (Kind::Float, 8) => Ok(self.numbers(|bits| f64::from_bits(bits) as f32)),
            (Kind::Whole { .. }, _) => Ok(self.wholes(file)?.into_iter().map(|value| value as f32).collect()),
            _ => Err(file.fault("has texts or small floats where numbers are expected")),
        }
    }
    /// The values as whole numbers.
    ///
    /// # Errors
    /// A storage fault when they are none.
    pub fn wholes(&self, file: &Hdf5) -> Outcome<Vec<i64>> {
        let Kind::Whole { signed } = self.kind else { return Err(file.fault("has no whole numbers where they are expected")) };
        let spare = 64 - 8 * self.width as u32;
        Ok(self.numbers(|bits| if signed { (bits << spare) as i64 >> spare } else { bits.cast_signed() }))
    }
    /// The values as bytes.
    ///
    /// # Errors
    /// A storage fault when they are not of one byte each.
    pub fn into_bytes(self, file: &Hdf5) -> Outcome<Vec<u8>> {
        if self.width == 1 && matches!(self.kind, Kind::Whole { .. }) {
            return Ok(self.bytes);
        }
        Err(file.fault(format_args!("has values of {} bytes where bytes are expected", self.width)))
    }
    /// The values as texts; what is no UTF-8 is replaced.
    ///
    /// # Errors
    /// A storage fault when they are none, or lie nowhere.
    pub fn texts(&self, file: &Hdf5) -> Outcome<Vec<String>> {
        let trimmed = |bytes: &[u8]| {
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        match self.kind {
            Kind::Fixed => Ok(self.bytes.chunks_exact(self.width).map(trimmed).collect()),
            Kind::Text => {
                let mut heaps: BTreeMap<u64, Heap> = BTreeMap::new();
                let mut texts = Vec::with_capacity(self.bytes.len() / 16);
                for element in self.bytes.chunks_exact(16) {
                    let mut element = Cursor::of(file, element);
                    let (length, at, index) = (element.u32()?, element.u64()?, element.u32()?);
                    if length == 0 {
                        texts.push(String::new());
                        continue;
                    }
                    if !heaps.contains_key(&at) {
                        // Texts lie one after the other: few heaps are open at a time.
                        if heaps.len() > 64 {
                            heaps.clear();
                        }
                        heaps.insert(at, Heap::read(file, at)?);
                    }
                    let found = heaps.get(&at).and_then(|heap| heap.object(index)).and_then(|object| object.get(..length));
                    texts.push(trimmed(found.ok_or_else(|| file.damaged("a text lies nowhere"))?));
                }
                Ok(texts)
            }
            _ => Err(file.fault("has numbers where texts are expected")),
        }
    }
}

/// A collection of objects of varying length.
struct Heap {
    content: Vec<u8>,
    places: BTreeMap<usize, (usize, usize)>,
}

impl Heap {
    fn read(file: &Hdf5, at: u64) -> Outcome<Self> {
        let head = file.bytes(at, 16)?;
        let mut cursor = Cursor::of(file, &head);
        if !cursor.signed(b"GCOL") {
            return Err(file.damaged("a text lies nowhere"));
        }
        cursor.skip(4)?;
        let size = cursor.u64()?.checked_sub(16).ok_or_else(|| file.damaged("a heap is smaller than its head"))?;
        let content = file.bytes(at + 16, size)?;
        let mut places = BTreeMap::new();
        let mut from = 0;
        while let Some(head) = content.get(from..from + 16) {
            let mut head = Cursor::of(file, head);
            let index = head.u16()?;
            head.skip(6)?;
            let size = usize::try_from(head.u64()?).unwrap_or(usize::MAX);
            // 0 is the free space at the end.
            if index == 0 || content.len() - from - 16 < size {
                break;
            }
            places.insert(index, (from + 16, size));
            from += 16 + size.next_multiple_of(8);
        }
        Ok(Self { content, places })
    }
    fn object(&self, index: usize) -> Option<&[u8]> {
        let (from, size) = self.places.get(&index)?;
        self.content.get(*from..from + size)
    }
}

/// A step that the bytes of a chunk went through.
struct Filter {
    id: usize,
    values: Vec<usize>,
}

/// The array behind a header.
pub(super) fn read(file: &Hdf5, header: &Header) -> Outcome<Array> {
    let part = |kind, what: &str| header.message(kind).ok_or_else(|| file.fault(format_args!("has something without {what} for an array")));
    let dims = dims(file, part(header::DATASPACE, "a shape")?)?;
    let (kind, width, big) = kind(file, part(header::DATATYPE, "a type")?)?;
    let size = dims.iter().try_fold(width as u64, |size, dim| size.checked_mul(*dim)).filter(|size| *size <= GREATEST);
    let size = size.ok_or_else(|| file.fault(format_args!("has an array of the shape {dims:?}, larger than {}", text::bytes(GREATEST))))?;
    let filters = header.message(header::FILTERS).map_or(Ok(Vec::new()), |message| filters(file, message))?;
    let bytes = content(file, part(header::LAYOUT, "a place")?, &dims, width, size, &filters)?;
    Ok(Array { dims: dims.into_iter().map(|dim| dim as usize).collect(), kind, width, big, bytes })
}

fn dims(file: &Hdf5, message: &[u8]) -> Outcome<Vec<u64>> {
    let mut space = Cursor::of(file, message);
    let (version, rank) = (space.u8()?, space.u8()?);
    space.skip(if version == 1 { 6 } else { 2 })?;
    if !(1..=2).contains(&version) || rank > 32 {
        return Err(file.damaged("the shape of an array has an unknown version"));
    }
    (0..rank).map(|_| space.u64()).collect()
}

fn kind(file: &Hdf5, message: &[u8]) -> Outcome<(Kind, usize, bool)> {
    let mut kind = Cursor::of(file, message);
    let class = kind.u8()? & 0x0f;
    let bits = kind.number(3)?;
    let width = kind.u32()?;
    let found = match class {
        0 if [1, 2, 4, 8].contains(&width) => Kind::Whole { signed: bits & 8 != 0 },
        1 if [2, 4, 8].contains(&width) => Kind::Float,
        3 if width > 0 && width as u64 <= CHUNK => Kind::Fixed,
        9 if bits & 0x0f == 1 && width == 16 => Kind::Text,
        // Pascal's way to say how long a text is needs no other reading.
        _ => return Err(file.fault(format_args!("has an array of the type {class} in {width} bytes, which this program does not read"))),
    };
    Ok((found, width, class < 2 && bits & 1 != 0))
}

fn filters(file: &Hdf5, message: &[u8]) -> Outcome<Vec<Filter>> {
    let mut cursor = Cursor::of(file, message);
    let (version, count) = (cursor.u8()?, cursor.u8()?);
    cursor.skip(if version == 1 { 6 } else { 0 })?;
    let one =
        |cursor: &mut Cursor<'_>| {
            let id = cursor.u16()?;
            let name = if version == 1 || id >= 256 { cursor.u16()? } else { 0 };
            cursor.skip(2)?;
            let values = cursor.u16()?;
            cursor.skip(if version == 1 { name.next_multiple_of(8) } else { name })?;
            let all = (0..values).map(|_| cursor.u32()).collect::<Outcome<Vec<_>>>()?;
            cursor.skip(if version == 1 && values % 2 == 1 { 4 } else { 0 })?;
            match id {
                1..=3 => Ok(Filter { id, values: all }),
                other => Err(file
                    .fault(format_args!("has an array packed with the filter {other}, but only 1 to 3 (deflate, shuffle, sum) are known"))),
            }
        };
    (0..count).map(|_| one(&mut cursor)).collect()
}

fn content(file: &Hdf5, message: &[u8], dims: &[u64], width: usize, size: u64, filters: &[Filter]) -> Outcome<Vec<u8>> {
    let mut layout = Cursor::of(file, message);
    let (version, class) = (layout.u8()?, layout.u8()?);
    let short = || file.damaged(format_args!("the values of an array do not fill its shape {dims:?}"));
    if !(3..=4).contains(&version) {
        return Err(newer(file, "an array with a layout of another version than 3 and 4"));
    }
    match class {
        0 => {
            let held = layout.u16()? as u64;
            let bytes = layout.take(held as usize)?;
            bytes.get(..size as usize).map(<[u8]>::to_vec).ok_or_else(short)
        }
        1 => {
            let (at, held) = (layout.u64()?, layout.u64()?);
            match at {
                NOWHERE if size == 0 => Ok(Vec::new()),
                _ if held < size || at == NOWHERE => Err(short()),
                _ => file.bytes(at, size),
            }
        }
        2 if version == 3 => {
            let rank = usize::from(layout.u8()?).checked_sub(1).filter(|rank| *rank == dims.len() && *rank > 0).ok_or_else(short)?;
            let tree = layout.u64()?;
            let chunk = (0..rank).map(|_| layout.number(4)).collect::<Outcome<Vec<_>>>()?;
            let packed = chunk.iter().try_fold(width as u64, |size, dim| size.checked_mul(*dim)).filter(|size| *size <= CHUNK && *size > 0);
            let packed = packed.ok_or_else(|| file.damaged(format_args!("an array has chunks of {chunk:?}")))?;
            if size == 0 {
                return Ok(Vec::new());
            }
            // Before memory is set aside: deflate packs no more than 1,032 bytes into one.
            if size > file.size.saturating_mul(if filters.is_empty() { 1 } else { 1032 }) || tree == NOWHERE {
                return Err(short());
            }
            let mut out = vec![0; size as usize];
            let mut filled = 0;
            tree::chunks(file, tree, rank, &mut |one| {
                let bytes = unpack(file, file.bytes(one.at, one.size)?, one.mask, filters, packed as usize)?;
                filled += place(&mut out, dims, &one.offset, &chunk, &bytes, width).ok_or_else(|| file.damaged("a chunk lies outside"))?;
                Ok(())
            })?;
            if filled == size { Ok(out) } else { Err(short()) }
        }
        _ => Err(newer(file, "an array with an index of chunks of version 4")),
    }
}

/// Undoes the filters, the last one first.
fn unpack(file: &Hdf5, mut bytes: Vec<u8>, mask: u32, filters: &[Filter], wanted: usize) -> Outcome<Vec<u8>> {
    for (_, filter) in filters.iter().enumerate().rev().filter(|(place, _)| mask.checked_shr(*place as u32).unwrap_or(0) & 1 == 0) {
        bytes = match filter.id {
            1 => {
                let mut out = Vec::new();
                // A sum of four bytes may follow.
                let read = ZlibDecoder::new(bytes.as_slice()).take(wanted as u64 + 5).read_to_end(&mut out);
                read.map_err(|e| file.damaged(format_args!("a chunk cannot be unpacked: {e}")))?;
                out
            }
            2 => {
                let width = filter.values.first().copied().unwrap_or(1).max(1);
                let count = bytes.len() / width;
                let mut out = vec![0; bytes.len()];
                for (at, byte) in bytes.iter().enumerate() {
                    let to = if at < count * width { at % count * width + at / count } else { at };
                    out[to] = *byte;
                }
                out
            }
            _ => {
                let whole = bytes.len().checked_sub(4).ok_or_else(|| file.damaged("a chunk has no sum"))?;
                let sum = u32::from_le_bytes([bytes[whole], bytes[whole + 1], bytes[whole + 2], bytes[whole + 3]]);
                if fletcher(&bytes[..whole]) != sum {
                    return Err(file.damaged("a chunk does not have its sum"));
                }
                bytes.truncate(whole);
                bytes
            }
        };
    }
    if bytes.len() == wanted { Ok(bytes) } else { Err(file.damaged(format_args!("a chunk has {} of {wanted} bytes", bytes.len()))) }
}

/// Fletcher's sum of 32 bits over numbers of two bytes, the greater byte first.
fn fletcher(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (0_u32, 0_u32);
    for pair in bytes.chunks(2) {
        low = (low + (u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))) % 65_535;
        high = (high + low) % 65_535;
    }
    high << 16 | low
}

/// Copies what of a chunk lies inside the array; returns the bytes copied, or nothing when it begins outside.
fn place(out: &mut [u8], dims: &[u64], offset: &[u64], chunk: &[u64], bytes: &[u8], width: usize) -> Option<u64> {
    let rank = dims.len();
    if offset.iter().zip(dims).any(|(offset, dim)| offset >= dim) {
        return None;
    }
    let inside: Vec<u64> = (0..rank).map(|d| chunk[d].min(dims[d] - offset[d])).collect();
    // All but the last dimension count up; a run of the last is copied at once.
    let run = inside[rank - 1] as usize * width;
    let mut at = vec![0_u64; rank - 1];
    let mut copied = 0;
    loop {
        let (mut from, mut to) = (0, 0);
        for d in 0..rank {
            let here = if d + 1 < rank { at[d] } else { 0 };
            from = from * chunk[d] + here;
            to = to * dims[d] + offset[d] + here;
        }
        let (from, to) = (from as usize * width, to as usize * width);
        out.get_mut(to..to + run)?.copy_from_slice(bytes.get(from..from + run)?);
        copied += run as u64;
        let Some(d) = (0..rank - 1).rev().find(|&d| at[d] + 1 < inside[d]) else { return Some(copied) };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_cut_at_the_border() {
        // 3 x 5 in chunks of 2 x 3: the last one has one row and two columns inside.
        let (dims, chunk) = ([3, 5], [2, 3]);
        let mut out = vec![0; 15];
        let mut copied = 0;
        for offset in [[0, 0], [0, 3], [2, 0], [2, 3]] {
            let bytes: Vec<u8> = (0..6).map(|i| (offset[0] + i / 3) as u8 * 10 + (offset[1] + i % 3) as u8).collect();
            copied += place(&mut out, &dims, &offset, &chunk, &bytes, 1).expect("inside");
        }
        assert_eq!((copied, out), (15, vec![0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24]));
        assert!(place(&mut [0; 15], &dims, &[3, 0], &chunk, &[0; 6], 1).is_none());
    }
}
