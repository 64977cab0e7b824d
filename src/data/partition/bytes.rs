//! A partition as one object of the store.
//!
//! Layout: magic, length of a JSON description (u32), the description, then for each client the numbers of training and test
//! samples and their positions; then, if the description counts any, the samples that are held out; all integers u32, little endian.
//! A test set that all clients share is written once. Seeds and names do not enter: equal partitions are equal bytes.

use super::{Client, Flags, Partition, Procedure};
use crate::base::{Fault, Outcome};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"PFLPART1";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    kind: String,
    procedure: Procedure,
    samples: usize,
    classes: usize,
    clients: usize,
    flags: Flags,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared_test: bool,
}

impl Partition {
    /// The partition as bytes; equal partitions give equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = Head {
            kind: self.kind.clone(),
            procedure: self.procedure,
            samples: self.samples,
            classes: self.classes,
            clients: self.clients.len(),
            flags: self.flags,
            shared_test: self.shared_test,
        };
        let head = serde_json::to_vec(&head).expect("plain data has a JSON form");
        let mut out = Vec::with_capacity(16 + head.len() + 8 * self.clients.len() + 4 * self.samples);
        out.extend(MAGIC);
        out.extend((head.len() as u32).to_le_bytes());
        out.extend(head);
        let mut write = |side: &[u32]| {
            out.extend((side.len() as u32).to_le_bytes());
            out.extend(side.iter().flat_map(|index| index.to_le_bytes()));
        };
        for client in &self.clients {
            write(&client.train);
            write(if self.shared_test { &[] } else { &client.test });
        }
        if self.flags.held_out > 0 {
            write(&self.hold_out);
        }
        out
    }

    /// The partition in the bytes.
    ///
    /// # Errors
    /// A storage fault when they are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Outcome<Self> {
        let damaged = || Fault::storage("a stored partition is damaged").help("`pflpipe cache verify` finds and removes damaged objects");
        let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let size = take(&mut rest).ok_or_else(damaged)?;
        let (head, mut rest) = rest.split_at_checked(size).ok_or_else(damaged)?;
        let head: Head = serde_json::from_slice(head).map_err(|_| damaged())?;
        // Every sample takes four bytes, so what is promised cannot be more than what is there.
        if head.samples > rest.len() / 4 + usize::try_from(head.flags.left_out).unwrap_or(usize::MAX) || head.samples > u32::MAX as usize {
            return Err(damaged());
        }
        let mut clients = Vec::new();
        for _ in 0..head.clients {
            let train = side(&mut rest).ok_or_else(damaged)?;
            let test = side(&mut rest).ok_or_else(damaged)?;
            clients.push(Client { train, test });
        }
        let hold_out = if head.flags.held_out > 0 { side(&mut rest).ok_or_else(damaged)? } else { Vec::new() };
        if !rest.is_empty() {
            return Err(damaged());
        }
        Self::with_hold_out(&head.kind, head.procedure, head.samples, head.classes, head.flags, clients, hold_out, head.shared_test)
            .map_err(|_| damaged())
    }
}

fn take(rest: &mut &[u8]) -> Option<usize> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_le_bytes(*number) as usize)
}

fn side(rest: &mut &[u8]) -> Option<Vec<u32>> {
    let count = take(rest)?;
    let (indices, after) = rest.split_at_checked(count.checked_mul(4)?)?;
    *rest = after;
    Some(indices.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_and_damage_is_found() {
        let clients = vec![Client { train: vec![4, 0], test: vec![2] }, Client::default(), Client { train: vec![1], test: vec![3] }];
        let flags = Flags { attempts: 3, ..Flags::default() };
        let partition = Partition::new("dirichlet", Procedure::Clean, 5, 2, flags, clients).expect("complete");
        check(&partition);
        let clients = vec![Client { train: vec![4], test: vec![] }, Client { train: vec![0, 2], test: vec![] }];
        let flags = Flags { left_out: 1, held_out: 1, ..Flags::default() };
        let shared = Partition::with_hold_out("iid", Procedure::Fedml, 5, 2, flags, clients, vec![3], true).expect("complete");
        assert_eq!((shared.clients()[1].test.as_slice(), shared.hold_out()), (&[3][..], &[3][..]));
        check(&shared);
    }

    fn check(partition: &Partition) {
        let bytes = partition.to_bytes();
        assert_eq!(&Partition::from_bytes(&bytes).expect("own format"), partition);
        for n in 0..bytes.len() {
            assert!(Partition::from_bytes(&bytes[..n]).is_err(), "{n} bytes");
        }
        assert!(Partition::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            // A changed digit of the description may still be a partition; nothing may panic.
            let _ = Partition::from_bytes(&changed);
        }
    }
}
