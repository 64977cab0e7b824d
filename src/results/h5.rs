//! Writes HDF5 files that hold named one-dimensional arrays of floats, as PFLlib's result files are; nothing else of the format.
//!
//! After the HDF5 File Format Specification, version 3.0: a superblock of version 2, object headers of version 2, links in the header of
//! the root group, contiguous data. `tests/stats` reads one back with h5py.

/// An address that points nowhere.
const NOWHERE: u64 = u64::MAX;
const SUPERBLOCK: usize = 48;

/// The bytes of a file with these arrays. Names are ASCII, shorter than 256 characters.
#[must_use]
pub fn file(arrays: &[(&str, Vec<f64>)]) -> Vec<u8> {
    // The root group's header comes first, then each array's header and data; sizes do not depend on addresses.
    let root_size = header(&root(arrays, &vec![0; arrays.len()])).len();
    let mut at = aligned(SUPERBLOCK + root_size);
    let mut places = Vec::new();
    for (_, values) in arrays {
        let head = at;
        let data = aligned(head + header(&array(values, 0)).len());
        places.push((head as u64, data as u64));
        at = aligned(data + 8 * values.len());
    }
    let heads: Vec<u64> = places.iter().map(|(head, _)| *head).collect();
    let mut out = superblock(at as u64);
    out.extend(header(&root(arrays, &heads)));
    for ((_, values), (head, data)) in arrays.iter().zip(&places) {
        out.resize(*head as usize, 0);
        out.extend(header(&array(values, *data)));
        out.resize(*data as usize, 0);
        out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    out.resize(at, 0);
    out
}

fn aligned(at: usize) -> usize {
    at.next_multiple_of(8)
}

fn superblock(end: u64) -> Vec<u8> {
    let mut out = b"\x89HDF\r\n\x1a\n".to_vec();
    // Version, sizes of addresses and lengths, flags.
    out.extend([2, 8, 8, 0]);
    for address in [0, NOWHERE, end, SUPERBLOCK as u64] {
        out.extend(address.to_le_bytes());
    }
    checked(out)
}

/// A message of an object header: its type and content.
type Message = (u8, Vec<u8>);

/// An object header of version 2 with one chunk.
fn header(messages: &[Message]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, content) in messages {
        body.push(*kind);
        body.extend(u16::try_from(content.len()).unwrap_or(u16::MAX).to_le_bytes());
        body.push(0);
        body.extend(content);
    }
    let mut out = b"OHDR".to_vec();
    // Version 2; the chunk's size takes four bytes.
    out.extend([2, 2]);
    out.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(body);
    checked(out)
}

/// A group with its links inside.
fn root(arrays: &[(&str, Vec<f64>)], heads: &[u64]) -> Vec<Message> {
    let mut info = vec![0, 0];
    info.extend([NOWHERE.to_le_bytes(), NOWHERE.to_le_bytes()].concat());
    let mut messages = vec![(0x02, info), (0x0a, vec![0, 0])];
    for ((name, _), head) in arrays.iter().zip(heads) {
        // Version 1, a hard link, the name's length in one byte.
        let mut link = vec![1, 0, u8::try_from(name.len()).unwrap_or(u8::MAX)];
        link.extend(name.bytes().take(255));
        link.extend(head.to_le_bytes());
        messages.push((0x06, link));
    }
    messages
}

/// A one-dimensional array of little-endian doubles at an address.
fn array(values: &[f64], data: u64) -> Vec<Message> {
    let n = values.len() as u64;
    let mut space = vec![2, 1, 0, 1];
    space.extend(n.to_le_bytes());
    // Class 1 of version 1: byte order, sign at bit 63, size, then offsets and sizes of exponent and mantissa, and the bias.
    let mut kind = vec![0x11, 0x20, 0x3f, 0];
    kind.extend(8_u32.to_le_bytes());
    kind.extend([0, 0, 64, 0, 52, 11, 0, 52]);
    kind.extend(1023_u32.to_le_bytes());
    let mut layout = vec![3, 1];
    layout.extend((if n == 0 { NOWHERE } else { data }).to_le_bytes());
    layout.extend((8 * n).to_le_bytes());
    vec![(0x01, space), (0x03, kind), (0x05, vec![3, 0x0a]), (0x08, layout)]
}

/// The bytes followed by their checksum.
fn checked(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = lookup3(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Bob Jenkins' hash `lookup3` (2006) with the initial value 0, the checksum of the format.
fn lookup3(bytes: &[u8]) -> u32 {
    let word = |part: &[u8]| part.iter().rev().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
    let start = 0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let [mut a, mut b, mut c] = [start; 3];
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(&rest[..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let part = |from: usize| word(rest.get(from..rest.len().min(from + 4)).unwrap_or_default());
    a = a.wrapping_add(part(0));
    b = b.wrapping_add(part(4));
    c = c.wrapping_add(part(8));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_its_author() {
        // From the driver in lookup3.c: hashlittle("", 0) and hashlittle("Four score and seven years ago", 0).
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn addresses_are_within_the_file() {
        let bytes = file(&[("a", vec![1.0, f64::NAN]), ("b", Vec::new())]);
        assert_eq!(&bytes[..8], b"\x89HDF\r\n\x1a\n");
        assert_eq!(u64::from_le_bytes(bytes[28..36].try_into().expect("eight bytes")), bytes.len() as u64);
        assert!(bytes.len().is_multiple_of(8));
    }
}
