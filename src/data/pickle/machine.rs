//! The machine that runs a pickle: a stack of values, a memo, and only those steps that make plain data.

use super::super::npy::{Array, Kind};
use super::{Known, Node};
use std::sync::Arc;

pub(super) struct Machine<'a> {
    rest: &'a [u8],
    nodes: Vec<Node>,
    stack: Vec<usize>,
    memo: Vec<usize>,
    /// Where the small whole numbers are: they are many in texts, and each is there once.
    small: Vec<usize>,
}

/// The most values of a pickle, and the most that wait for one another, so that a byte cannot ask for many.
const GREATEST_NODES: usize = 1 << 26;
const GREATEST_STACK: usize = 1 << 27;
/// The most entries of the memo that may be skipped, so that a number cannot ask for memory.
const GREATEST_MEMO: usize = 1 << 28;

impl<'a> Machine<'a> {
    /// Everything that a pickle holds, and the place of what it is.
    pub fn read(bytes: &'a [u8]) -> Result<(Vec<Node>, usize), String> {
        let mut machine = Machine { rest: bytes, nodes: vec![Node::None], stack: Vec::new(), memo: Vec::new(), small: vec![0; 1 << 16] };
        let root = machine.run()?;
        Ok((machine.nodes, root))
    }
    fn run(&mut self) -> Result<usize, String> {
        loop {
            let code = self.byte()?;
            if self.nodes.len() > GREATEST_NODES || self.stack.len() > GREATEST_STACK {
                return Err(format!("it holds more than {GREATEST_NODES} values"));
            }
            match code {
                0x80 => _ = self.byte()?,
                0x95 => _ = self.take(8)?,
                b'.' => return self.pop(),
                b'(' => self.push(Node::Mark),
                b'0' => _ = self.pop()?,
                b'1' => _ = self.until_mark()?,
                b'2' => {
                    let top = *self.stack.last().ok_or_else(empty)?;
                    self.stack.push(top);
                }
                // The first of all values is none.
                b'N' => self.stack.push(0),
                0x88 | 0x89 => self.push(Node::Bool(code == 0x88)),
                b'J' => {
                    let value = i32::from_le_bytes(self.array()?);
                    self.push(Node::Whole(i64::from(value)));
                }
                b'K' => {
                    let value = self.byte()?;
                    self.push_small(u16::from(value));
                }
                b'M' => {
                    let value = u16::from_le_bytes(self.array()?);
                    self.push_small(value);
                }
                b'I' | b'L' => {
                    let line = self.line()?;
                    let node = match line {
                        "00" => Node::Bool(false),
                        "01" => Node::Bool(true),
                        _ => Node::Whole(line.trim_end_matches('L').parse().map_err(|_| format!("it holds `{line}` as a whole number"))?),
                    };
                    self.push(node);
                }
                0x8a | 0x8b => {
                    let size = if code == 0x8a { usize::from(self.byte()?) } else { self.size4()? };
                    let value = long(self.take(size)?)?;
                    self.push(Node::Whole(value));
                }
                b'F' => {
                    let line = self.line()?;
                    let value = line.parse().map_err(|_| format!("it holds `{line}` as a number"))?;
                    self.push(Node::Float(value));
                }
                b'G' => {
                    let value = f64::from_be_bytes(self.array()?);
                    self.push(Node::Float(value));
                }
                b'S' => {
                    let line = self.line()?.trim_matches(['\'', '"']).to_owned();
                    self.push(Node::Text(line));
                }
                b'V' => {
                    let line = self.line()?.to_owned();
                    self.push(Node::Text(line));
                }
                b'X' | 0x8c | 0x8d => {
                    let bytes = self.counted(code, b'X', 0x8c)?;
                    // Python may write half of a pair of surrogates; it cannot be shown, and matters nowhere.
                    self.push(Node::Text(String::from_utf8_lossy(bytes).into_owned()));
                }
                b'T' | b'U' => {
                    let bytes = self.counted(code, b'T', b'U')?.to_vec();
                    self.push(Node::Bytes(Arc::new(bytes)));
                }
                b'B' | b'C' | 0x8e | 0x96 => {
                    let bytes = self.counted(code, b'B', b'C')?.to_vec();
                    self.push(Node::Bytes(Arc::new(bytes)));
                }
                b']' => self.push(Node::List(Vec::new())),
                0x8f => self.push(Node::List(Vec::new())),
                b'}' => self.push(Node::Dict(Vec::new())),
                b')' => self.push(Node::Tuple(Vec::new())),
                b'l' => {
                    let items = self.until_mark()?;
                    self.push(Node::List(items));
                }
                b't' => {
                    let items = self.until_mark()?;
                    self.push(Node::Tuple(items));
                }
                b'd' => {
                    let items = self.until_mark()?;
                    self.push(Node::Dict(pairs(&items)?));
                }
                0x85..=0x87 => {
                    let at = self.stack.len().checked_sub(usize::from(code) - 0x84).ok_or_else(empty)?;
                    let items = self.stack.split_off(at);
                    self.push(Node::Tuple(items));
                }
                b'a' => {
                    let item = self.pop()?;
                    self.extend(vec![item])?;
                }
                b'e' | 0x90 => {
                    let items = self.until_mark()?;
                    self.extend(items)?;
                }
                b's' => {
                    let (value, key) = (self.pop()?, self.pop()?);
                    self.insert(vec![(key, value)])?;
                }
                b'u' => {
                    let items = self.until_mark()?;
                    self.insert(pairs(&items)?)?;
                }
                b'p' | b'q' | b'r' | 0x94 => {
                    let at = match code {
                        b'p' => self.line()?.parse().map_err(|_| "its memo is damaged")?,
                        b'q' => usize::from(self.byte()?),
                        b'r' => self.size4()?,
                        _ => self.memo.len(),
                    };
                    let top = *self.stack.last().ok_or_else(empty)?;
                    if at > GREATEST_MEMO || at > self.nodes.len() + (1 << 16) {
                        return Err("its memo is damaged".to_owned());
                    }
                    if at >= self.memo.len() {
                        self.memo.resize(at + 1, 0);
                    }
                    self.memo[at] = top;
                }
                b'g' | b'h' | b'j' => {
                    let at = match code {
                        b'g' => self.line()?.parse().map_err(|_| "its memo is damaged")?,
                        b'h' => usize::from(self.byte()?),
                        _ => self.size4()?,
                    };
                    self.stack.push(*self.memo.get(at).ok_or("its memo is damaged")?);
                }
                b'c' => {
                    let (module, name) = (self.line()?, self.line()?);
                    let known = known(module, name)?;
                    self.push(Node::Known(known));
                }
                0x93 => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let (Node::Text(module), Node::Text(name)) = (&self.nodes[module], &self.nodes[name]) else {
                        return Err("it names a function by something that is no text".to_owned());
                    };
                    let known = known(module, name)?;
                    self.push(Node::Known(known));
                }
                b'R' | 0x81 => {
                    let (arguments, function) = (self.pop()?, self.pop()?);
                    let made = self.call(function, arguments)?;
                    self.push(made);
                }
                b'b' => {
                    let (state, object) = (self.pop()?, *self.stack.last().ok_or_else(empty)?);
                    let built = self.build(object, state)?;
                    self.nodes[object] = built;
                }
                _ => return Err(format!("it has the instruction 0x{code:02x}, which plain data does not need")),
            }
        }
    }
    fn byte(&mut self) -> Result<u8, String> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(cut)?;
        self.rest = rest;
        Ok(byte)
    }
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(cut)?;
        self.rest = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(cut)?;
        self.rest = rest;
        Ok(*taken)
    }
    fn size4(&mut self) -> Result<usize, String> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }
    /// Bytes behind their number: of 4 bytes with one code, of 1 byte with another, else of 8.
    fn counted(&mut self, code: u8, four: u8, one: u8) -> Result<&'a [u8], String> {
        let size = match code {
            code if code == four => self.size4()?,
            code if code == one => usize::from(self.byte()?),
            _ => usize::try_from(u64::from_le_bytes(self.array()?)).map_err(|_| cut())?,
        };
        self.take(size)
    }
    fn line(&mut self) -> Result<&'a str, String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n').ok_or_else(cut)?;
        let line = self.take(end)?;
        self.byte()?;
        std::str::from_utf8(line).map(str::trim_end).map_err(|_| "it has a line that is no text".to_owned())
    }
    fn push(&mut self, node: Node) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }
    fn push_small(&mut self, value: u16) {
        match self.small[usize::from(value)] {
            0 => {
                self.small[usize::from(value)] = self.nodes.len();
                self.push(Node::Whole(i64::from(value)));
            }
            at => self.stack.push(at),
        }
    }
    fn pop(&mut self) -> Result<usize, String> {
        self.stack.pop().ok_or_else(empty)
    }
    fn until_mark(&mut self) -> Result<Vec<usize>, String> {
        let at = self.stack.iter().rposition(|&at| matches!(self.nodes[at], Node::Mark)).ok_or_else(empty)?;
        let items = self.stack.split_off(at + 1);
        self.stack.pop();
        Ok(items)
    }
    fn extend(&mut self, items: Vec<usize>) -> Result<(), String> {
        let list = *self.stack.last().ok_or_else(empty)?;
        let Node::List(list) = &mut self.nodes[list] else { return Err("it adds to something that is no list".to_owned()) };
        list.extend(items);
        Ok(())
    }
    fn insert(&mut self, items: Vec<(usize, usize)>) -> Result<(), String> {
        let dict = *self.stack.last().ok_or_else(empty)?;
        let Node::Dict(dict) = &mut self.nodes[dict] else { return Err("it adds to something that is no dictionary".to_owned()) };
        dict.extend(items);
        Ok(())
    }
    fn tuple(&self, at: usize) -> Result<&[usize], String> {
        if let Node::Tuple(items) = &self.nodes[at] { Ok(items) } else { Err("it calls a function without a tuple".to_owned()) }
    }
    fn call(&self, function: usize, arguments: usize) -> Result<Node, String> {
        let Node::Known(known) = self.nodes[function] else { return Err("it would run something that is no known function".to_owned()) };
        let arguments = self.tuple(arguments)?;
        let argument = |place: usize| arguments.get(place).map(|&at| &self.nodes[at]).ok_or("a function lacks an argument");
        match known {
            Known::Reconstruct | Known::Ndarray => Ok(Node::Objects(vec![0], Vec::new())),
            Known::OrderedDict => Ok(Node::Dict(Vec::new())),
            Known::Bytes if arguments.is_empty() => Ok(Node::Bytes(Arc::default())),
            Known::Dtype => {
                let text = match argument(0)? {
                    Node::Text(text) => text.clone(),
                    Node::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                    _ => return Err("a type of numpy has no name".to_owned()),
                };
                let (kind, swapped) = Kind::of(&text).ok_or_else(|| format!("arrays of type `{text}` are not supported"))?;
                Ok(Node::Dtype(kind, swapped))
            }
            // Python 3 writes bytes for protocol 2 as a text in Latin-1.
            Known::Encode => match argument(0)? {
                Node::Text(text) => {
                    let bytes = text.chars().map(|c| u8::try_from(u32::from(c))).collect::<Result<Vec<u8>, _>>();
                    Ok(Node::Bytes(Arc::new(bytes.map_err(|_| "its bytes are no text in Latin-1")?)))
                }
                _ => Err("its bytes are damaged".to_owned()),
            },
            Known::Scalar => match (argument(0)?, argument(1)?) {
                (Node::Dtype(kind, swapped), Node::Bytes(bytes)) => array(*kind, *swapped, Vec::new(), false, bytes.clone()),
                _ => Err("a number of numpy is damaged".to_owned()),
            },
            Known::FromBuffer => match (argument(0)?, argument(1)?, argument(3)) {
                (Node::Bytes(bytes), Node::Dtype(kind, swapped), order) => {
                    let fortran = matches!(order, Ok(Node::Text(order)) if order == "F");
                    array(*kind, *swapped, self.shape(*arguments.get(2).ok_or("a function lacks an argument")?)?, fortran, bytes.clone())
                }
                _ => Err("an array of numpy is damaged".to_owned()),
            },
            Known::Bytes => Err("its bytes are damaged".to_owned()),
        }
    }
    fn build(&self, object: usize, state: usize) -> Result<Node, String> {
        match &self.nodes[object] {
            // (version, order, ...)
            Node::Dtype(kind, _) => {
                let state = self.tuple(state)?;
                let order = match state.get(1).map(|&at| &self.nodes[at]) {
                    Some(Node::Text(order)) => order.as_bytes(),
                    Some(Node::Bytes(order)) => order.as_slice(),
                    _ => return Err("a type of numpy has no byte order".to_owned()),
                };
                Ok(Node::Dtype(*kind, order == b">" && kind.width() > 1))
            }
            // (version, shape, type, whether Fortran order, values)
            Node::Objects(..) => {
                let state = self.tuple(state)?;
                let &[.., shape, dtype, fortran, values] = state else { return Err("an array of numpy is damaged".to_owned()) };
                let Node::Dtype(kind, swapped) = self.nodes[dtype] else { return Err("an array of numpy has no type".to_owned()) };
                let shape = self.shape(shape)?;
                match &self.nodes[values] {
                    Node::Bytes(bytes) => {
                        let fortran = matches!(self.nodes[fortran], Node::Bool(true) | Node::Whole(1));
                        array(kind, swapped, shape, fortran, bytes.clone())
                    }
                    Node::List(items) if kind == Kind::Object && shape.iter().product::<usize>() == items.len() => {
                        Ok(Node::Objects(shape, items.clone()))
                    }
                    _ => Err("an array of numpy has other values than its shape says".to_owned()),
                }
            }
            _ => Err("it would change something that plain data does not change".to_owned()),
        }
    }
    fn shape(&self, at: usize) -> Result<Vec<usize>, String> {
        let size = |&at: &usize| match self.nodes[at] {
            Node::Whole(size) => usize::try_from(size).ok().filter(|size| *size <= 1 << 40),
            _ => None,
        };
        let shape: Option<Vec<usize>> = self.tuple(at)?.iter().map(size).collect();
        shape
            .filter(|shape| shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size)).is_some())
            .ok_or_else(|| "an array of numpy has a damaged shape".to_owned())
    }
}

fn array(kind: Kind, swapped: bool, shape: Vec<usize>, fortran: bool, bytes: Arc<Vec<u8>>) -> Result<Node, String> {
    let count: usize = shape.iter().product();
    if kind == Kind::Object || count.checked_mul(kind.width()) != Some(bytes.len()) {
        return Err(format!("an array of numpy has the shape {shape:?}, but {} bytes", bytes.len()));
    }
    Ok(Node::Array(Array { kind, shape, swapped, fortran, bytes }))
}

fn known(module: &str, name: &str) -> Result<Known, String> {
    Ok(match (module.replace("numpy._core", "numpy.core").as_str(), name) {
        ("numpy.core.multiarray", "_reconstruct") => Known::Reconstruct,
        ("numpy.core.multiarray", "scalar") => Known::Scalar,
        ("numpy.core.numeric", "_frombuffer") => Known::FromBuffer,
        ("numpy", "ndarray") => Known::Ndarray,
        ("numpy", "dtype") => Known::Dtype,
        ("_codecs", "encode") => Known::Encode,
        ("builtins" | "__builtin__", "bytes" | "bytearray") => Known::Bytes,
        ("collections", "OrderedDict") => Known::OrderedDict,
        _ => {
            let shown: String = format!("{module}.{name}").chars().filter(|c| !c.is_control()).take(80).collect();
            return Err(format!("it would run `{shown}`"));
        }
    })
}

/// A long integer of Python: little endian, two's complement.
pub(super) fn long(bytes: &[u8]) -> Result<i64, String> {
    let fill = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
    let (low, high) = bytes.split_at(bytes.len().min(8));
    let mut raw = [fill; 8];
    raw[..low.len()].copy_from_slice(low);
    let value = i64::from_le_bytes(raw);
    if high.iter().any(|byte| *byte != fill) || !high.is_empty() && (value < 0) != (fill != 0) {
        return Err("it holds a whole number of more than 64 bits".to_owned());
    }
    Ok(value)
}

fn pairs(items: &[usize]) -> Result<Vec<(usize, usize)>, String> {
    let (pairs, rest) = items.as_chunks::<2>();
    if rest.is_empty() {
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    } else {
        Err("a dictionary lacks a value".to_owned())
    }
}

fn empty() -> String {
    "it takes more than it has".to_owned()
}

fn cut() -> String {
    "it is truncated".to_owned()
}
