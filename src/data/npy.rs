//! numpy's array files: npy (one array) and npz (a zip of them), read within bounds and written.
//!
//! It knows numbers, booleans and, for the reader of pickles, that an array holds objects. Format: magic `\x93NUMPY`, two version
//! bytes, the length of the header (u16, from version 2 on u32, little endian), the header as a Python dictionary of `descr`,
//! `fortran_order` and `shape`, then the values.

use super::ends;
use super::files::Source;
use crate::base::{Fault, Outcome, memory, text};
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, Write};
use std::sync::Arc;

const MAGIC: &[u8] = b"\x93NUMPY";
/// The most values of an array, and the most bytes of a member of an npz.
const GREATEST: u64 = 8 << 30;
/// A member of more bytes than this must not be packed as far as deflate can: numbers that somebody measured never are.
const LARGE: u64 = 256 << 20;
/// How far such a member may be packed.
const GREATEST_RATIO: u64 = 200;

/// What there is to do about an array that is too large.
const SMALLER: &str = "store fewer samples, or use a machine with more memory";
/// The bytes in which a header must end, values or not.
const HEADER: u64 = 1 << 17;
/// The environment variable that says the most bytes of a packed array.
const LIMIT: &str = "PFLPIPE_ARRAY";
/// The most bytes of a packed array unless it says otherwise: ten times what one client of any of PFLlib's data sets has.
const PACKED: u64 = 2 << 30;

/// The most bytes that a packed array may have.
fn greatest_packed() -> Outcome<u64> {
    limit_of(std::env::var(LIMIT).ok().as_deref())
}

fn limit_of(said: Option<&str>) -> Outcome<u64> {
    match said.filter(|said| !said.trim().is_empty()) {
        None => Ok(PACKED),
        Some(said) => text::size(said).map_err(|why| Fault::stage(format!("the environment variable `{LIMIT}` is `{said}`")).help(why)),
    }
}

/// What the values of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Unsigned(usize),
    Signed(usize),
    Float(usize),
    /// Pickled.
    Object,
}

impl Kind {
    /// The kind that numpy calls so: `<f4`, `|u1`, `|O`; with whether the bytes are swapped.
    pub fn of(descr: &str) -> Option<(Self, bool)> {
        let (order, name) = match descr.chars().next()? {
            order @ ('<' | '>' | '|' | '=') => (order, &descr[1..]),
            _ => ('=', descr),
        };
        let kind = match name {
            "b1" | "?" => Self::Bool,
            "u1" | "u2" | "u4" | "u8" => Self::Unsigned(name[1..].parse().ok()?),
            "i1" | "i2" | "i4" | "i8" => Self::Signed(name[1..].parse().ok()?),
            "f2" | "f4" | "f8" => Self::Float(name[1..].parse().ok()?),
            "O" | "O8" => Self::Object,
            _ => return None,
        };
        Some((kind, order == '>' && kind.width() > 1))
    }
    /// Bytes of a value; 0 for objects.
    pub fn width(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::Unsigned(width) | Self::Signed(width) | Self::Float(width) => width,
            Self::Object => 0,
        }
    }
}

/// An array with its values as they are stored.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub kind: Kind,
    pub shape: Vec<usize>,
    /// Big endian.
    pub swapped: bool,
    /// The first index runs fastest.
    pub fortran: bool,
    /// The values, or the pickle; shared with the pickle that an array came in.
    pub bytes: Arc<Vec<u8>>,
}

impl Array {
    /// The array in a file's content, whose memory it keeps.
    pub fn parse(content: Vec<u8>) -> Outcome<Self> {
        Self::parsed(content).map_err(|why| Fault::storage(format!("no array of numpy: {why}")))
    }
    fn parsed(mut content: Vec<u8>) -> Result<Self, String> {
        let mut array = Self::described(&content)?;
        let begin = content.len() - array.1;
        content.drain(..begin);
        array.0.bytes = Arc::new(content);
        Ok(array.0)
    }
    /// The array without its values, and how many bytes they have.
    fn described(content: &[u8]) -> Result<(Self, usize), String> {
        let (array, begin) = Self::header(content)?;
        let bytes = content.len() - begin;
        array.holds(bytes as u64)?;
        Ok((array, bytes))
    }
    /// Makes sure that so many bytes of values are what the header says.
    fn holds(&self, bytes: u64) -> Result<(), String> {
        let (count, width) = (count(&self.shape).unwrap_or(u64::MAX), self.kind.width() as u64);
        if self.kind == Kind::Object || count.checked_mul(width) == Some(bytes) {
            return Ok(());
        }
        Err(format!("its header says {count} values of {width} bytes, but {bytes} bytes follow"))
    }
    /// The array without its values, and where they begin; `content` may end anywhere behind the header.
    fn header(content: &[u8]) -> Result<(Self, usize), String> {
        let cut = || "it is truncated".to_owned();
        let rest = content.strip_prefix(MAGIC).ok_or("it does not begin as one")?;
        let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
        let (length, rest) = if version[0] == 1 {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        } else {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (u32::from_le_bytes(*length) as usize, rest)
        };
        let (header, bytes) = rest.split_at_checked(length).ok_or_else(cut)?;
        let header = std::str::from_utf8(header).map_err(|_| "its header is no text")?;
        let field = |name: &str| {
            let at = header.find(&format!("'{name}'")).ok_or_else(|| format!("its header has no `{name}`"))?;
            header[at + name.len() + 2..].trim_start().strip_prefix(':').map(str::trim_start).ok_or("its header is damaged".to_owned())
        };
        let descr = field("descr")?.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
        let descr = descr.ok_or("it has fields of several types, which are not supported")?;
        let (kind, swapped) = Kind::of(descr).ok_or_else(|| {
            let what = match descr.trim_start_matches(['<', '>', '|', '=']).chars().next() {
                Some('U' | 'S' | 'a') => "texts",
                Some('c') => "complex numbers",
                Some('M' | 'm') => "times",
                _ => "of a type that is not supported",
            };
            format!("its values are {what} (`{descr}`), but whole numbers, floats or truth values belong there")
        })?;
        let fortran = field("fortran_order")?.starts_with("True");
        let shape = field("shape")?.strip_prefix('(').and_then(|rest| rest.split(')').next()).ok_or("its shape is damaged")?;
        let sizes = shape.split(',').map(|size| size.trim().trim_end_matches('L')).filter(|size| !size.is_empty());
        let shape: Vec<usize> = sizes.map(|size| size.parse().map_err(|_| format!("its shape is ({shape})"))).collect::<Result<_, _>>()?;
        count(&shape).ok_or_else(|| format!("its shape is {shape:?}"))?;
        Ok((Self { kind, shape, swapped, fortran, bytes: Arc::default() }, content.len() - bytes.len()))
    }
    /// The number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Refuses an array of another number of dimensions.
    pub fn dimensions(&self, wanted: usize, name: &str) -> Outcome<()> {
        if self.shape.len() == wanted {
            return Ok(());
        }
        Err(Fault::storage(format!("array `{name}` has the shape {:?}, but must have {}", self.shape, text::count(wanted, "dimension"))))
    }
    /// The values as whole numbers, last index fastest.
    pub fn integers(&self, name: &str) -> Outcome<Vec<i64>> {
        let wrong = |value: &dyn std::fmt::Display| Fault::storage(format!("array `{name}` holds {value} where whole numbers belong"));
        self.values(name, |value| match value {
            Number::Whole(value) => i64::try_from(value).map_err(|_| wrong(&value)),
            // Whole numbers that somebody stored as floats.
            Number::Float(value) if value == value.trunc() && value.abs() < 9e15 => Ok(value as i64),
            Number::Float(value) => Err(wrong(&value)),
        })
    }
    /// The values as floats, last index fastest.
    pub fn floats(&self, name: &str) -> Outcome<Vec<f32>> {
        self.values(name, |value| match value {
            Number::Whole(value) => Ok(value as f32),
            Number::Float(value) => Ok(value as f32),
        })
    }
    /// The values as `to` makes them, last index fastest; nothing is kept beside them.
    fn values<T>(&self, name: &str, to: impl Fn(Number) -> Outcome<T>) -> Outcome<Vec<T>> {
        let width = self.kind.width();
        if width == 0 {
            return Err(Fault::storage(format!("array `{name}` holds objects where numbers belong"))
                .help("save it as numbers: `numpy.asarray(values, dtype=\"float32\")`"));
        }
        let count = self.bytes.len() / width;
        memory::demand_or((count as u64).saturating_mul(size_of::<T>() as u64), &format!("array `{name}`"), SMALLER)?;
        let mut out = Vec::with_capacity(count);
        if !self.fortran || self.shape.len() < 2 {
            for bytes in self.bytes.chunks_exact(width) {
                out.push(to(self.number(bytes))?);
            }
            return Ok(out);
        }
        let mut strides = vec![1; self.shape.len()];
        (1..strides.len()).for_each(|axis| strides[axis] = strides[axis - 1] * self.shape[axis - 1]);
        for index in 0..count {
            let (mut rest, mut at) = (index, 0);
            for (size, stride) in self.shape.iter().zip(&strides).rev() {
                at += rest % size * stride;
                rest /= size;
            }
            out.push(to(self.number(&self.bytes[at * width..][..width]))?);
        }
        Ok(out)
    }
    /// The value in these bytes.
    fn number(&self, bytes: &[u8]) -> Number {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        if self.swapped {
            raw[..bytes.len()].reverse();
        }
        let bits = u64::from_le_bytes(raw);
        match self.kind {
            Kind::Signed(width) => {
                let shift = 64 - 8 * width as u32;
                Number::Whole(i128::from((bits << shift).cast_signed() >> shift))
            }
            Kind::Float(2) => Number::Float(half(bits as u16)),
            Kind::Float(4) => Number::Float(f64::from(f32::from_bits(bits as u32))),
            Kind::Float(_) => Number::Float(f64::from_bits(bits)),
            _ => Number::Whole(i128::from(bits)),
        }
    }
}

#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Float(f64),
}

/// An IEEE half as a double.
fn half(bits: u16) -> f64 {
    let (sign, exponent, mantissa) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let value = match exponent {
        0 => mantissa * 2_f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + mantissa) * 2_f64.powi(exponent - 25),
    };
    if sign == 1 { -value } else { value }
}

fn count(shape: &[usize]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |count, &size| count.checked_mul(size as u64)).filter(|count| *count <= GREATEST)
}

/// An npz: arrays by name.
pub(super) struct Npz<R: Read + Seek> {
    archive: zip::ZipArchive<R>,
}

impl<'a> Npz<Cursor<&'a [u8]>> {
    /// The npz in a file's content.
    pub fn new(content: &'a [u8]) -> Outcome<Self> {
        Self::from(Cursor::new(content))
    }
}

impl Npz<BufReader<File>> {
    /// The npz in a file.
    pub fn open(source: &Source) -> Outcome<Self> {
        let file = File::open(&source.path).map_err(|e| Fault::io("read", &source.path, &e))?;
        Self::from(BufReader::new(file)).map_err(|fault| fault.at(format!("`{}`", source.path.display())))
    }
}

impl<R: Read + Seek> Npz<R> {
    fn from(reader: R) -> Outcome<Self> {
        let mut reader = reader;
        ends::zip(&mut reader).map_err(|e| Fault::storage(format!("no npz: {e}")))?;
        let archive = zip::ZipArchive::new(reader).map_err(|e| Fault::storage(format!("no npz: {e}")))?;
        Ok(Self { archive })
    }
    /// The names of the arrays.
    pub fn names(&self) -> Vec<String> {
        self.archive.file_names().flatten().filter_map(|name| name.strip_suffix(".npy").map(str::to_owned)).collect()
    }
    /// The array of that name.
    pub fn array(&mut self, name: &str) -> Outcome<Array> {
        let names = self.names();
        let mut member = self.archive.by_name(&format!("{name}.npy")).map_err(|e| {
            let fault = Fault::storage(format!("it has no sound array `{name}`: {e}"));
            fault.help(format!("its arrays are {}", text::quoted(names.iter().map(String::as_str))))
        })?;
        let size = member.size();
        // What is promised is compared with what can be there before memory is set aside, and the reading stops at it.
        if size > GREATEST || size > member.compressed_size().saturating_mul(1032).saturating_add(1032) {
            return Err(Fault::storage(format!("array `{name}` promises {}, which cannot be in it", text::bytes(size))));
        }
        if size > LARGE && size > member.compressed_size().saturating_mul(GREATEST_RATIO) {
            let (size, packed) = (text::bytes(size), text::bytes(member.compressed_size()));
            let what =
                format!("array `{name}` unpacks from {packed} to {size}, which no data that were measured do: it is refused as a bomb");
            return Err(Fault::storage(what)
                .help("if it really holds such numbers, store it unpacked: `numpy.savez` instead of `savez_compressed`"));
        }
        let most = greatest_packed()?;
        if size > most && size > member.compressed_size() {
            let (size, most) = (text::bytes(size), text::bytes(most));
            return Err(Fault::storage(format!("array `{name}` unpacks to {size}, more than the {most} that a packed array may have"))
                .help(format!("if it really holds as much, raise the limit, as `{LIMIT}=16GiB`, or store it unpacked: `numpy.savez`")));
        }
        let damaged = |why: &dyn std::fmt::Display| Fault::storage(format!("array `{name}` is damaged: {why}"));
        let mut content = Vec::new();
        member.by_ref().take(size.min(HEADER)).read_to_end(&mut content).map_err(|e| damaged(&e))?;
        // The header says what must follow, before the rest is unpacked.
        let (described, begin) = Array::header(&content).map_err(|why| damaged(&why))?;
        described.holds(size.saturating_sub(begin as u64)).map_err(|why| damaged(&why))?;
        memory::demand_or(size, &format!("array `{name}`"), SMALLER)?;
        member.by_ref().take(size + 1 - content.len() as u64).read_to_end(&mut content).map_err(|e| damaged(&e))?;
        Array::parse(content).map_err(|fault| fault.at(format!("array `{name}`")))
    }
    /// The whole numbers of an array of one dimension.
    pub fn integers(&mut self, name: &str) -> Outcome<Vec<i64>> {
        let array = self.array(name)?;
        array.dimensions(1, name)?;
        array.integers(name)
    }
}

/// The content of an npy file with values that are already little endian, last index fastest.
pub(super) fn npy(descr: &str, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let shape = if let [one] = sizes.as_slice() { format!("{one},") } else { sizes.join(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The values begin at a multiple of 64.
    header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
    header.push('\n');
    [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), bytes].concat()
}

/// The content of an npz with these members, the same for the same members.
pub(super) fn npz(members: &[(&str, Vec<u8>)]) -> Outcome<Vec<u8>> {
    let unwritten = |e: &dyn std::fmt::Display| Fault::internal(format!("an npz could not be written: {e}"));
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated).large_file(true);
    for (name, content) in members {
        writer.start_file(format!("{name}.npy"), options).map_err(|e| unwritten(&e))?;
        writer.write_all(content).map_err(|e| unwritten(&e))?;
    }
    Ok(writer.finish().map_err(|e| unwritten(&e))?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_round_trip_in_every_order_and_type() {
        let values: Vec<u8> = [1_i32, -2, 3, 4, 5, 6].iter().flat_map(|v| v.to_le_bytes()).collect();
        let array = Array::parse(npy("<i4", &[2, 3], &values)).expect("own format");
        assert_eq!((array.shape.as_slice(), array.integers("a").expect("whole")), (&[2, 3][..], vec![1, -2, 3, 4, 5, 6]));
        let fortran = Array { fortran: true, ..array.clone() };
        assert_eq!(fortran.integers("a").expect("whole"), [1, 3, 5, -2, 4, 6]);
        let swapped = Array { swapped: true, bytes: Arc::new(values.chunks(4).flat_map(|v| v.iter().rev().copied()).collect()), ..array };
        assert_eq!(swapped.floats("a").expect("numbers"), [1.0, -2.0, 3.0, 4.0, 5.0, 6.0]);
        let halves = Array::parse(npy("<f2", &[4], &[0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0x00, 0x7c])).expect("own format");
        assert_eq!(halves.floats("h").expect("numbers"), [1.0, -2.0, 2_f32.powi(-24), f32::INFINITY]);
        assert!(halves.integers("h").expect_err("no whole numbers").what.contains("where whole numbers belong"));
    }

    #[test]
    fn damaged_arrays_and_archives_are_faults() {
        let sound = npy("|u1", &[3], &[1, 2, 3]);
        for cut in 0..sound.len() {
            assert!(Array::parse(sound[..cut].to_vec()).is_err(), "{cut}");
        }
        for (descr, shape) in [("<f4", vec![usize::MAX, usize::MAX]), ("|S5", vec![1]), ("<c8", vec![1])] {
            assert!(Array::parse(npy(descr, &shape, &[0; 8])).is_err(), "{descr}");
        }
        let packed = npz(&[("a", sound)]).expect("memory");
        assert_eq!(Npz::new(&packed).expect("own format").integers("a").expect("whole"), [1, 2, 3]);
        assert!(Npz::new(&packed).expect("own format").array("b").expect_err("not there").help.is_some());
        for cut in 0..packed.len() {
            let found = Npz::new(&packed[..cut]).and_then(|mut npz| npz.integers("a"));
            assert!(found.is_err(), "{cut}");
        }
        for at in 0..packed.len() {
            let mut changed = packed.clone();
            changed[at] ^= 0x21;
            // Some changes do not matter; none may panic or give other numbers.
            if let Ok(found) = Npz::new(&changed).and_then(|mut npz| npz.integers("a")) {
                assert_eq!(found, [1, 2, 3], "{at}");
            }
        }
    }

    #[test]
    fn what_a_header_promises_is_compared_before_the_values_are_unpacked() {
        // The header says 3 values, and a gibibyte of zeros follows; only its beginning is unpacked.
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        writer.start_file("x.npy", options).expect("memory");
        writer.write_all(&npy("<f4", &[3], &[])).expect("memory");
        writer.write_all(&vec![7; 200 << 20]).expect("memory");
        let packed = writer.finish().expect("memory").into_inner();
        let fault = Npz::new(&packed).expect("a zip").array("x").expect_err("too much");
        assert!(fault.what.contains("its header says 3 values of 4 bytes, but 209715200 bytes follow"), "{fault}");
    }

    #[test]
    fn the_limit_of_packed_arrays_may_be_raised() {
        assert_eq!((limit_of(None), limit_of(Some("")), limit_of(Some("16GiB"))), (Ok(2 << 30), Ok(2 << 30), Ok(16 << 30)));
        assert!(limit_of(Some("much")).expect_err("no size").what.contains("`PFLPIPE_ARRAY` is `much`"));
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_unpacked() {
        // Zeros without end: 300 MiB in 300 KiB. Written in pieces, so that the test needs no more memory than the reader may take.
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        writer.start_file("x.npy", options).expect("memory");
        writer.write_all(&npy("<f4", &[300 << 18], &[])).expect("memory");
        let piece = vec![0; 1 << 20];
        (0..300).for_each(|_| writer.write_all(&piece).expect("memory"));
        let packed = writer.finish().expect("memory").into_inner();
        let fault = Npz::new(&packed).expect("a zip").array("x").expect_err("a bomb");
        assert!(fault.what.contains("refused as a bomb"), "{fault}");
    }
}
