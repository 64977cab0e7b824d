//! B-trees of version 1: the names of a group, and the chunks of an array.

use super::{Cursor, Hdf5, NOWHERE, Object, header};
use crate::base::Outcome;
use std::collections::BTreeMap;

/// The most nodes of one tree, and the most levels.
const NODES: usize = 1 << 22;
const LEVELS: u8 = 32;
/// The most bytes of the names of a group.
const NAMES: u64 = 1 << 30;

/// Visits the leaves of a tree: the key before each child, and the child's address.
fn leaves(file: &Hdf5, tree: u64, kind: u8, key: usize, visit: &mut dyn FnMut(&[u8], u64) -> Outcome<()>) -> Outcome<()> {
    let mut ahead: Vec<(u64, Option<u8>)> = vec![(tree, None)];
    let mut nodes = 0;
    while let Some((at, expected)) = ahead.pop() {
        nodes += 1;
        let head = file.bytes(at, 24)?;
        let mut cursor = Cursor::of(file, &head);
        let sound = cursor.signed(b"TREE") && cursor.u8()? == kind;
        let (level, count) = (cursor.u8()?, cursor.u16()?);
        // Levels go down by one, so that no tree runs in a circle.
        if !sound || nodes > NODES || level > LEVELS || expected.is_some_and(|expected| expected != level) {
            return Err(file.damaged("the nodes of a tree do not belong together"));
        }
        let content = file.bytes(at + 24, (count * (key + 8)) as u64)?;
        let mut below = Vec::new();
        for entry in content.chunks_exact(key + 8) {
            let child = Cursor::of(file, &entry[key..]).u64()?;
            if level == 0 { visit(&entry[..key], child)? } else { below.push((child, Some(level - 1))) }
        }
        ahead.extend(below.into_iter().rev());
    }
    Ok(())
}

/// The names of a group with a symbol table.
pub(super) fn names(file: &Hdf5, tree: u64, heap: u64, out: &mut BTreeMap<String, Object>) -> Outcome<()> {
    let head = file.bytes(heap, 32)?;
    let mut cursor = Cursor::of(file, &head);
    if !cursor.signed(b"HEAP") {
        return Err(file.damaged("a group has no names"));
    }
    cursor.skip(4)?;
    let size = cursor.u64()?;
    cursor.skip(8)?;
    let from = cursor.u64()?;
    if size > NAMES {
        return Err(file.damaged("the names of a group are too long"));
    }
    let heap = file.bytes(from, size)?;
    leaves(file, tree, 0, 8, &mut |_, node| {
        let head = file.bytes(node, 8)?;
        let mut cursor = Cursor::of(file, &head);
        if !cursor.signed(b"SNOD") {
            return Err(file.damaged("a group has no table of its symbols"));
        }
        cursor.skip(2)?;
        let count = cursor.u16()?;
        let entries = file.bytes(node + 8, count as u64 * 40)?;
        for entry in entries.chunks_exact(40) {
            let mut entry = Cursor::of(file, entry);
            let (name, object, cache) = (entry.u64()?, entry.u64()?, entry.u32()?);
            let name = usize::try_from(name).ok().and_then(|at| heap.get(at..)).ok_or_else(|| file.damaged("a name lies nowhere"))?;
            let end = name.iter().position(|byte| *byte == 0).ok_or_else(|| file.damaged("a name has no end"))?;
            // 2 is a soft link.
            if cache != 2 && object != NOWHERE {
                out.insert(header::name(file, &name[..end])?, Object(object));
            }
        }
        Ok(())
    })
}

/// A chunk of an array as it lies in the file.
pub(super) struct Chunk {
    /// Bytes in the file.
    pub size: u64,
    /// A bit for each filter that was left out.
    pub mask: u32,
    /// Where it begins, in elements of each dimension.
    pub offset: Vec<u64>,
    /// Address.
    pub at: u64,
}

/// Visits the chunks of an array of `rank` dimensions.
pub(super) fn chunks(file: &Hdf5, tree: u64, rank: usize, visit: &mut dyn FnMut(Chunk) -> Outcome<()>) -> Outcome<()> {
    leaves(file, tree, 1, 8 + 8 * (rank + 1), &mut |key, at| {
        let mut key = Cursor::of(file, key);
        let (size, mask) = (key.number(4)?, key.number(4)? as u32);
        let offset = (0..rank).map(|_| key.u64()).collect::<Outcome<Vec<_>>>()?;
        visit(Chunk { size, mask, offset, at })
    })
}
