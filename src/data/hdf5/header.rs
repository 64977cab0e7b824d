//! Object headers: the messages that say what an object is, in versions 1 and 2.

use super::{Cursor, Hdf5, Object};
use crate::base::Outcome;
use std::collections::BTreeMap;

pub(super) const DATASPACE: u16 = 0x01;
pub(super) const LINK_INFO: u16 = 0x02;
pub(super) const DATATYPE: u16 = 0x03;
pub(super) const LINK: u16 = 0x06;
pub(super) const LAYOUT: u16 = 0x08;
pub(super) const FILTERS: u16 = 0x0b;
pub(super) const SYMBOL_TABLE: u16 = 0x11;
const CONTINUATION: u16 = 0x10;
/// The most bytes of a header, and the most pieces that it is in.
const MOST: u64 = 1 << 24;
const PIECES: usize = 1 << 10;

/// The messages of an object, by kind and in order.
pub(super) struct Header {
    messages: Vec<(u16, Vec<u8>)>,
}

impl Header {
    /// The first message of a kind.
    pub fn message(&self, kind: u16) -> Option<&[u8]> {
        self.messages.iter().find(|(own, _)| *own == kind).map(|(_, content)| content.as_slice())
    }
    /// The links that stand in the header itself.
    pub fn links(&self, file: &Hdf5, out: &mut BTreeMap<String, Object>) -> Outcome<()> {
        if let Some(info) = self.message(LINK_INFO) {
            let mut info = Cursor::of(file, info);
            info.skip(1)?;
            let flags = info.u8()?;
            info.skip(if flags & 1 != 0 { 8 } else { 0 })?;
            if info.u64()? != super::NOWHERE {
                return Err(newer(file, "a group whose links lie in a fractal heap"));
            }
        }
        for (_, content) in self.messages.iter().filter(|(kind, _)| *kind == LINK) {
            let mut link = Cursor::of(file, content);
            link.skip(1)?;
            let flags = link.u8()?;
            let kind = if flags & 8 != 0 { link.u8()? } else { 0 };
            link.skip(if flags & 4 != 0 { 8 } else { 0 } + usize::from(flags & 16 != 0))?;
            let length = link.number(1 << (flags & 3))?;
            let name = name(file, link.take(usize::try_from(length).unwrap_or(usize::MAX))?)?;
            // Soft and external links lead to nothing that is needed.
            if kind == 0 {
                out.insert(name, Object(link.u64()?));
            }
        }
        Ok(())
    }
}

/// The fault of what only newer writers make.
pub(super) fn newer(file: &Hdf5, what: &str) -> crate::base::Fault {
    file.fault(format_args!("has {what}, which this program does not read")).help("write it with h5py's `libver=\"earliest\"`, its default")
}

/// A name as text.
pub(super) fn name(file: &Hdf5, bytes: &[u8]) -> Outcome<String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| file.damaged("a name is no UTF-8"))
}

impl Hdf5 {
    /// The header at an address.
    pub(super) fn header(&self, at: u64) -> Outcome<Header> {
        let start = self.bytes(at, 16.min(self.size.saturating_sub(at)))?;
        let mut cursor = Cursor::of(self, &start);
        let mut messages = Vec::new();
        // Pieces that are still to be read: their content, without signature and checksum.
        let (mut pieces, ordered, second) = if cursor.signed(b"OHDR") {
            if cursor.u8()? != 2 {
                return Err(self.damaged("an object header has an unknown version"));
            }
            let flags = cursor.u8()?;
            let mut ahead = 6 + if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
            let width = 1 << (flags & 3);
            let size = Cursor::of(self, &self.bytes(at + ahead, width as u64)?).number(width)?;
            ahead += width as u64;
            (vec![(at.saturating_add(ahead), size)], flags & 4 != 0, true)
        } else {
            if cursor.u8()? != 1 {
                return Err(self.damaged("an object header has an unknown version"));
            }
            cursor.skip(7)?;
            (vec![(at.saturating_add(16), cursor.number(4)?)], false, false)
        };
        let (mut total, mut count) = (0_u64, 0);
        while let Some((from, size)) = pieces.pop() {
            (total, count) = (total.saturating_add(size), count + 1);
            if total > MOST || count > PIECES {
                return Err(self.damaged("an object header has no end"));
            }
            let content = self.bytes(from, size)?;
            let mut rest = Cursor::of(self, &content);
            // What is shorter than the head of a message is a gap.
            while rest.rest.len() >= if second { 4 + 2 * usize::from(ordered) } else { 8 } {
                let (kind, size) = if second { (u16::from(rest.u8()?), rest.u16()?) } else { (rest.u16()? as u16, rest.u16()?) };
                let flags = rest.u8()?;
                rest.skip(if second { 2 * usize::from(ordered) } else { 3 })?;
                let content = rest.take(size)?;
                if kind == CONTINUATION {
                    let mut next = Cursor::of(self, content);
                    let (from, size) = (next.u64()?, next.u64()?);
                    let (ahead, behind) = if second { (4, 4) } else { (0, 0) };
                    let inner = size.checked_sub(ahead + behind).ok_or_else(|| self.damaged("an object header has an empty piece"))?;
                    pieces.push((from.saturating_add(ahead), inner));
                } else if flags & 2 != 0 && [DATATYPE, DATASPACE, FILTERS, LAYOUT].contains(&kind) {
                    return Err(newer(self, "a header that shares messages"));
                } else {
                    messages.push((kind, content.to_vec()));
                }
            }
        }
        Ok(Header { messages })
    }
}
