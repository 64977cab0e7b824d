//! MATLAB's files of version 5: numbers, texts, and lists of structures.
//!
//! Format: a header of 128 bytes, then elements of a type and a length (two u32; or both in one u32 when the content has at most 4
//! bytes), padded to 8 bytes; compressed elements hold others. Numbers are column by column. Little endian only.

use crate::base::{Fault, Outcome, text};
use flate2::read::ZlibDecoder;
use std::collections::BTreeMap;
use std::io::Read;

/// The most cells of a list, and the most fields of all its structures.
const GREATEST_LIST: usize = 1 << 20;
/// deflate packs no more than this into one byte.
const GREATEST_RATIO: u64 = 1032;
/// The deepest nesting of cells and structures.
const DEEPEST: usize = 8;

/// A value of MATLAB's.
#[derive(Clone, Debug)]
enum Value {
    Numbers(Numbers),
    Text(String),
    Cells(Vec<Value>),
    /// The fields of each structure of a list.
    Structs(Vec<BTreeMap<String, Value>>),
    Other,
}

/// An array of numbers, the first index fastest.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub shape: Vec<usize>,
    pub values: Values,
}

/// Numbers as they are stored; bytes stay bytes, as pictures are large.
#[derive(Clone, Debug)]
pub(super) enum Values {
    Bytes(Vec<u8>),
    Doubles(Vec<f64>),
}

impl Values {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Doubles(values) => values.len(),
        }
    }
    /// One of them.
    pub fn get(&self, at: usize) -> f64 {
        match self {
            Self::Bytes(values) => f64::from(values[at]),
            Self::Doubles(values) => values[at],
        }
    }
}

/// The variables of a file.
#[derive(Debug)]
pub(super) struct Mat(BTreeMap<String, Value>);

impl Mat {
    /// The variables in a file's content; all of them together have at most so many bytes.
    pub fn parse(content: &[u8], most: u64) -> Outcome<Self> {
        let mut left = most;
        let mut variables = BTreeMap::new();
        let wrong = |why: String| Fault::storage(format!("no sound file of MATLAB's version 5: {why}"));
        let header = content.get(..128).ok_or_else(|| wrong("it is truncated".into()))?;
        if &header[126..128] != b"IM" {
            let help = "files of version 7.3 are HDF5, which is not read; save them with `-v7`";
            return Err(wrong("its header does not say so".into()).help(help));
        }
        let mut rest = &content[128..];
        while !rest.is_empty() {
            let (kind, body) = element(&mut rest).map_err(wrong)?;
            let unpacked;
            let body = match kind {
                15 => {
                    unpacked = unpack(body, left).map_err(wrong)?;
                    left -= unpacked.len() as u64;
                    let mut inner = unpacked.as_slice();
                    let (kind, body) = element(&mut inner).map_err(wrong)?;
                    if kind != 14 {
                        continue;
                    }
                    body
                }
                14 => body,
                _ => continue,
            };
            let (name, value) = matrix(body, 0, most).map_err(wrong)?;
            variables.insert(name, value);
        }
        Ok(Self(variables))
    }
    fn get(&self, name: &str) -> Outcome<&Value> {
        self.0.get(name).ok_or_else(|| {
            let fault = Fault::storage(format!("it has no variable `{name}`"));
            fault.help(format!("its variables are {}", text::quoted(self.0.keys().map(String::as_str))))
        })
    }
    /// The array of that name.
    pub fn array(&self, name: &str) -> Outcome<&Numbers> {
        if let Value::Numbers(numbers) = self.get(name)? {
            Ok(numbers)
        } else {
            Err(Fault::storage(format!("its variable `{name}` is no array")))
        }
    }
    /// The numbers of that name, first index fastest.
    pub fn numbers(&self, name: &str) -> Outcome<Vec<f64>> {
        let values = &self.array(name)?.values;
        Ok((0..values.len()).map(|at| values.get(at)).collect())
    }
    /// The arrays in the cells of that name, first index fastest.
    pub fn cells(&self, name: &str) -> Outcome<Vec<&Numbers>> {
        let Value::Cells(cells) = self.get(name)? else { return Err(Fault::storage(format!("its variable `{name}` has no cells"))) };
        let mut arrays = Vec::with_capacity(cells.len());
        for cell in cells {
            let Value::Numbers(numbers) = cell else { return Err(Fault::storage(format!("a cell of `{name}` is no array"))) };
            arrays.push(numbers);
        }
        Ok(arrays)
    }
    fn fields(&self, name: &str, field: &str) -> Outcome<Vec<&Value>> {
        let Value::Structs(list) = self.get(name)? else {
            return Err(Fault::storage(format!("its variable `{name}` is no list of structures")));
        };
        list.iter().map(|one| one.get(field).ok_or_else(|| Fault::storage(format!("`{name}` has no field `{field}`")))).collect()
    }
    /// The text in a field of each structure of a list.
    pub fn texts_of(&self, name: &str, field: &str) -> Outcome<Vec<String>> {
        let text = |value: &Value| match value {
            Value::Text(text) => Ok(text.clone()),
            Value::Cells(cells) if matches!(cells.as_slice(), [Value::Text(_)]) => {
                if let [Value::Text(text)] = cells.as_slice() {
                    Ok(text.clone())
                } else {
                    Ok(String::new())
                }
            }
            _ => Err(Fault::storage(format!("`{name}.{field}` is no text"))),
        };
        self.fields(name, field)?.into_iter().map(text).collect()
    }
    /// The number in a field of each structure of a list.
    pub fn numbers_of(&self, name: &str, field: &str) -> Outcome<Vec<f64>> {
        let number = |value: &Value| match value {
            Value::Numbers(numbers) if numbers.values.len() == 1 => Ok(numbers.values.get(0)),
            _ => Err(Fault::storage(format!("`{name}.{field}` is no number"))),
        };
        self.fields(name, field)?.into_iter().map(number).collect()
    }
}

/// The content of a packed element, of at most so many bytes.
fn unpack(body: &[u8], left: u64) -> Result<Vec<u8>, String> {
    let most = (body.len() as u64).saturating_mul(GREATEST_RATIO).min(left);
    let mut out = Vec::new();
    ZlibDecoder::new(body).take(most + 1).read_to_end(&mut out).map_err(|e| format!("a part cannot be unpacked: {e}"))?;
    if out.len() as u64 > most {
        return Err(format!("its parts unpack to more than the {} that such a file may have", text::bytes(left)));
    }
    Ok(out)
}

/// The next element: its type and content.
fn element<'a>(rest: &mut &'a [u8]) -> Result<(u32, &'a [u8]), String> {
    let cut = || "it is truncated".to_owned();
    let tag = rest.get(..8).ok_or_else(cut)?;
    let number = |at: usize| u32::from_le_bytes([tag[at], tag[at + 1], tag[at + 2], tag[at + 3]]);
    let (kind, small) = (number(0) & 0xffff, (number(0) >> 16) as usize);
    if small > 0 {
        let body = tag.get(4..4 + small).ok_or_else(|| "a small part is too long".to_owned())?;
        *rest = &rest[8..];
        return Ok((kind, body));
    }
    let length = number(4) as usize;
    let body = rest[8..].get(..length).ok_or_else(cut)?;
    // Packed elements are not padded.
    let padded = if kind == 15 { length } else { length.div_ceil(8) * 8 };
    *rest = rest[8..].get(padded..).unwrap_or_default();
    Ok((kind, body))
}

/// A matrix: flags, sizes, name, then what its class has.
fn matrix(body: &[u8], depth: usize, most: u64) -> Result<(String, Value), String> {
    let mut rest = body;
    if body.is_empty() || depth > DEEPEST {
        return Ok((String::new(), Value::Other));
    }
    let (_, flags) = element(&mut rest)?;
    let class = *flags.first().ok_or("a matrix has no flags")?;
    let (_, sizes) = element(&mut rest)?;
    let shape: Vec<usize> = sizes.as_chunks::<4>().0.iter().map(|size| u32::from_le_bytes(*size) as usize).collect();
    let count = shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size)).ok_or("a matrix is too large")?;
    let (_, name) = element(&mut rest)?;
    let name = String::from_utf8_lossy(name).into_owned();
    let value = match class {
        // Cells.
        1 => {
            if count > GREATEST_LIST {
                return Err(format!("`{name}` has {count} cells"));
            }
            let mut cells = Vec::new();
            while cells.len() < count {
                let (_, body) = element(&mut rest)?;
                cells.push(matrix(body, depth + 1, most)?.1);
            }
            Value::Cells(cells)
        }
        // Structures: the length of a name, the names, then field by field of each structure.
        2 => {
            let (_, length) = element(&mut rest)?;
            let length = length.first_chunk::<4>().map(|length| u32::from_le_bytes(*length) as usize).filter(|length| *length > 0);
            let (_, names) = element(&mut rest)?;
            let text = |name: &[u8]| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
            let names: Vec<String> = names.chunks(length.ok_or("a structure has no names")?).map(text).collect();
            if count.saturating_mul(names.len()) > GREATEST_LIST {
                return Err(format!("`{name}` has {count} structures of {} fields", names.len()));
            }
            let mut list = Vec::new();
            while list.len() < count && !names.is_empty() {
                let mut one = BTreeMap::new();
                for name in &names {
                    let (_, body) = element(&mut rest)?;
                    one.insert(name.clone(), matrix(body, depth + 1, most)?.1);
                }
                list.push(one);
            }
            Value::Structs(list)
        }
        4 => {
            let (kind, body) = element(&mut rest)?;
            let units: Vec<u16> = if kind == 4 || kind == 17 {
                body.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect()
            } else {
                body.iter().map(|&unit| u16::from(unit)).collect()
            };
            Value::Text(String::from_utf16_lossy(&units))
        }
        6..=15 => {
            let (kind, body) = element(&mut rest)?;
            let values = stored(kind, body, most)?;
            if values.len() != count {
                return Err(format!("`{name}` has the shape {shape:?}, but {} values", values.len()));
            }
            Value::Numbers(Numbers { shape, values })
        }
        _ => Value::Other,
    };
    Ok((name, value))
}

/// Numbers by the type in which they are stored, which may be a smaller one than theirs.
fn stored(kind: u32, body: &[u8], most: u64) -> Result<Values, String> {
    let width = match kind {
        1 => 1,
        3 | 4 => 2,
        5..=7 => 4,
        _ => 8,
    };
    if kind != 2 && (body.len() as u64 / width).saturating_mul(8) > most {
        return Err(format!("it has {} numbers, more than such a file may have", body.len() as u64 / width));
    }
    fn of<const N: usize>(body: &[u8], number: impl Fn([u8; N]) -> f64) -> Values {
        Values::Doubles(body.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)).collect())
    }
    Ok(match kind {
        1 => of(body, |b: [u8; 1]| f64::from(i8::from_le_bytes(b))),
        2 => Values::Bytes(body.to_vec()),
        3 => of(body, |b| f64::from(i16::from_le_bytes(b))),
        4 => of(body, |b| f64::from(u16::from_le_bytes(b))),
        5 => of(body, |b| f64::from(i32::from_le_bytes(b))),
        6 => of(body, |b| f64::from(u32::from_le_bytes(b))),
        7 => of(body, |b| f64::from(f32::from_le_bytes(b))),
        9 => of(body, f64::from_le_bytes),
        12 => of(body, |b| i64::from_le_bytes(b) as f64),
        13 => of(body, |b| u64::from_le_bytes(b) as f64),
        _ => return Err(format!("numbers of type {kind} are not known")),
    })
}
