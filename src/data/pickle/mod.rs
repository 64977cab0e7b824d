//! Python's pickles, read as data: numbers, texts, lists, dictionaries and numpy's arrays. Nothing is ever run.
//!
//! A pickle is a small program that may name any function of any module. Here the only names are those that numpy's arrays need; every
//! other one is refused. Memory stays in proportion to the file: nothing is repeated but by reference.

mod machine;
mod write;

pub(super) use write::{Values, dictionary};

use super::npy::{Array, Kind};
use crate::base::{Fault, Outcome};
use machine::Machine;
use std::sync::Arc;

/// What a pickle holds; lists and dictionaries refer to others by their place, so that shared ones are there once.
#[derive(Clone, Debug)]
pub(super) enum Node {
    None,
    Bool(bool),
    Whole(i64),
    Float(f64),
    Text(String),
    Bytes(Arc<Vec<u8>>),
    List(Vec<usize>),
    Tuple(Vec<usize>),
    Dict(Vec<(usize, usize)>),
    /// An array of numbers.
    Array(Array),
    /// An array of objects.
    Objects(Vec<usize>, Vec<usize>),
    Known(Known),
    Dtype(Kind, bool),
    Mark,
}

/// The functions that numpy's arrays are made by, and the few beside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Known {
    Reconstruct,
    Ndarray,
    Dtype,
    Scalar,
    FromBuffer,
    Encode,
    Bytes,
    OrderedDict,
}

/// A pickle that was read.
#[derive(Debug)]
pub(super) struct Pickle {
    nodes: Vec<Node>,
    root: usize,
}

impl Pickle {
    /// Reads a pickle of protocol 0 to 5.
    pub fn parse(bytes: &[u8]) -> Outcome<Self> {
        let (nodes, root) = Machine::read(bytes).map_err(|why| {
            let fault = Fault::storage(format!("not a pickle of plain data: {why}"));
            if why.starts_with("it would run") {
                fault.help("only numbers, texts, lists, dictionaries and numpy's arrays are read")
            } else {
                fault
            }
        })?;
        Ok(Self { nodes, root })
    }
    /// The outermost value.
    pub fn root(&self) -> View<'_> {
        View { pickle: self, at: self.root }
    }
}

/// A value inside a pickle.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pickle: &'a Pickle,
    at: usize,
}

impl<'a> View<'a> {
    pub fn node(self) -> &'a Node {
        &self.pickle.nodes[self.at]
    }
    fn to(self, at: usize) -> Self {
        Self { at, ..self }
    }
    /// The value of a text or byte key in a dictionary.
    pub fn get(self, key: &str) -> Option<Self> {
        let Node::Dict(pairs) = self.node() else { return None };
        let is = |at: usize| match &self.pickle.nodes[at] {
            Node::Text(text) => text == key,
            Node::Bytes(bytes) => bytes.as_slice() == key.as_bytes(),
            _ => false,
        };
        pairs.iter().rev().find(|(name, _)| is(*name)).map(|(_, value)| self.to(*value))
    }
    /// As [`View::get`], or the fault that says what there is.
    pub fn field(self, key: &str) -> Outcome<Self> {
        self.get(key).ok_or_else(|| Fault::storage(format!("it holds {} where a dictionary with `{key}` belongs", self.what())))
    }
    /// The values of a list, a tuple, or an array of objects of any shape.
    pub fn items(self) -> Option<impl ExactSizeIterator<Item = Self> + 'a> {
        match self.node() {
            Node::List(items) | Node::Tuple(items) | Node::Objects(_, items) => Some(items.iter().map(move |&at| self.to(at))),
            _ => None,
        }
    }
    /// The only value of an array without dimensions, as numpy stores a dictionary; otherwise the value itself.
    pub fn inner(self) -> Self {
        match self.node() {
            Node::Objects(shape, items) if shape.is_empty() && items.len() == 1 => self.to(items[0]),
            _ => self,
        }
    }
    /// A whole number.
    pub fn whole(self) -> Option<i64> {
        match self.node() {
            Node::Whole(value) => Some(*value),
            Node::Bool(value) => Some(i64::from(*value)),
            Node::Float(value) if *value == value.trunc() && value.abs() < 9e15 => Some(*value as i64),
            Node::Array(array) if array.len() == 1 => array.integers("").ok()?.first().copied(),
            _ => None,
        }
    }
    /// What it is, in a few words.
    pub fn what(self) -> &'static str {
        match self.node() {
            Node::None | Node::Mark => "nothing",
            Node::Bool(_) | Node::Whole(_) | Node::Float(_) => "a number",
            Node::Text(_) | Node::Bytes(_) => "a text",
            Node::List(_) | Node::Tuple(_) | Node::Objects(..) => "a list",
            Node::Dict(_) => "a dictionary without it",
            Node::Array(_) => "an array",
            Node::Known(_) | Node::Dtype(..) => "a type",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::machine::long;
    use super::*;

    #[test]
    fn a_dictionary_of_arrays_round_trips() {
        let values: Vec<u8> = [0.5_f32, -1.0, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let labels = [1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        let fields = [("x", Values::Array("<f4", &[2, 2], &values)), ("y", Values::Array("<i8", &[2], &labels))];
        let pickle = dictionary(&fields);
        let read = Pickle::parse(&pickle).expect("own format");
        let Node::Array(x) = read.root().inner().field("x").expect("there").node() else { panic!("an array") };
        assert_eq!((x.shape.as_slice(), x.floats("x").expect("numbers")), (&[2, 2][..], vec![0.5, -1.0, 2.0, 3.0]));
        let Node::Array(y) = read.root().inner().field("y").expect("there").node() else { panic!("an array") };
        assert_eq!(y.integers("y").expect("whole"), [1, 7]);
        assert!(read.root().inner().field("z").is_err());
        for cut in 0..pickle.len() {
            assert!(Pickle::parse(&pickle[..cut]).is_err(), "{cut}");
        }
        for at in 0..pickle.len() {
            for flip in [1, 0x20, 0x80] {
                let mut changed = pickle.clone();
                changed[at] ^= flip;
                // Whatever comes of it, nothing panics.
                let _ = Pickle::parse(&changed);
            }
        }
    }

    #[test]
    fn code_is_refused_by_name() {
        for program in [
            &b"cos\nsystem\n(S'echo hello'\ntR."[..],
            b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x031+1\x85R.",
            b"\x80\x02csubprocess\nPopen\nq\x00.",
            b"c__builtin__\ngetattr\n.",
        ] {
            let fault = Pickle::parse(program).expect_err("code");
            assert!(fault.what.contains("it would run `") && fault.help.is_some(), "{fault}");
        }
        for program in [&b"\x80\x04Pid\n."[..], b"(i\nos\nsystem\n.", b"\x82\x01.", b"K\x01K\x02R.", b"K\x01}b.", b"r\xff\xff\xff\x7f."] {
            assert!(Pickle::parse(program).is_err());
        }
    }

    #[test]
    fn old_and_new_protocols_are_read() {
        // {'a': [1, -2.5, None], b'b': (True, 'x')} by protocols 0, 2 and 5 of Python 3.
        let zero = b"(dp0\nVa\np1\n(lp2\nI1\naF-2.5\naNas.";
        let two = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01G\xc0\x04\x00\x00\x00\x00\x00\x00NeX\x01\x00\x00\x00bq\x03\x88h\x01\x86q\x04u.";
        let five = b"\x80\x05\x95\x1f\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01G\xc0\x04\x00\x00\x00\x00\x00\x00Neu.";
        for pickle in [&zero[..], &two[..], &five[..]] {
            let read = Pickle::parse(pickle).expect("sound");
            let items: Vec<_> = read.root().field("a").expect("there").items().expect("a list").collect();
            assert_eq!((items[0].whole(), items[1].whole(), items.len()), (Some(1), None, 3));
            assert_eq!((long(&[0xff, 0xff]), long(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), long(&[])), (Ok(-1), Ok(1), Ok(0)));
            assert!(long(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0]).is_err() && long(&[1; 9]).is_err());
            assert!(matches!(items[1].node(), Node::Float(value) if *value == -2.5));
        }
    }
}
