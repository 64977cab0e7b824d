//! Moves samples from large clients to small ones, so that every client has enough and label distributions change little.
//!
//! It draws nothing, so the outcome depends on the draw alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Gives every client at least `least` samples: small ones, by id, first get samples of the classes that they hold most of, each from
/// the client that holds most of that class and can spare some. `allowed` says for each class which clients may hold it.
///
/// Returns the number of moved samples, or nothing when some client cannot be helped; then the clients are as they were.
pub(super) fn repair(clients: &mut Vec<Vec<u32>>, labels: &[u32], allowed: &[Vec<bool>], least: usize) -> Option<u64> {
    let classes = allowed.len();
    let mut held: Vec<Vec<Vec<u32>>> = vec![vec![Vec::new(); classes]; clients.len()];
    for (client, own) in clients.iter().enumerate() {
        own.iter().for_each(|&index| held[client][labels[index as usize] as usize].push(index));
    }
    let mut sizes: Vec<usize> = clients.iter().map(Vec::len).collect();
    // For each class its clients, the greatest holder first. Entries may be out of date: holdings of donors only shrink.
    let mut donors: Vec<BinaryHeap<(usize, Reverse<usize>)>> = vec![BinaryHeap::new(); classes];
    for (client, held) in held.iter().enumerate().filter(|&(client, _)| sizes[client] > least) {
        held.iter().zip(&mut donors).for_each(|(own, donors)| donors.push((own.len(), Reverse(client))));
    }
    let mut moved = 0;
    for needy in 0..sizes.len() {
        while sizes[needy] < least {
            // Its own classes first; of those it has none of, each client starts with another one.
            let mut order: Vec<usize> = (0..classes).filter(|&class| allowed[class][needy]).collect();
            order.sort_by_key(|&class| (Reverse(held[needy][class].len()), (class + classes - needy % classes) % classes));
            let first = |&class: &usize| Some((class, donor(&mut donors[class], class, &held, &sizes, least)?));
            let (class, donor) = order.iter().find_map(first)?;
            // At most half of what the donor holds of the class, so that it keeps its own character.
            let from = held[donor][class].len();
            let count = (least - sizes[needy]).min(sizes[donor] - least).min(from.div_ceil(2));
            let pieces = held[donor][class].split_off(from - count);
            held[needy][class].extend(pieces);
            sizes[donor] -= count;
            sizes[needy] += count;
            moved += count as u64;
        }
    }
    *clients = held.into_iter().map(|classes| classes.concat()).collect();
    Some(moved)
}

/// The client that holds most of the class, of those that can spare a sample; of equal ones the first.
fn donor(
    heap: &mut BinaryHeap<(usize, Reverse<usize>)>,
    class: usize,
    held: &[Vec<Vec<u32>>],
    sizes: &[usize],
    least: usize,
) -> Option<usize> {
    loop {
        let (count, Reverse(client)) = *heap.peek()?;
        let now = held[client][class].len();
        if count == now && now > 0 && sizes[client] > least {
            return Some(client);
        }
        heap.pop();
        if now > 0 && sizes[client] > least {
            heap.push((now, Reverse(client)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_clients_get_more_of_the_classes_they_hold() {
        let labels = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1];
        let mut clients = vec![vec![0, 1, 2, 3, 4, 6, 7, 8], vec![9], vec![5]];
        let anyone = vec![vec![true; 3]; 2];
        assert_eq!(repair(&mut clients, &labels, &anyone, 3), Some(4));
        assert_eq!(clients.iter().map(Vec::len).collect::<Vec<_>>(), [4, 3, 3]);
        assert!(clients[1].iter().all(|&i| labels[i as usize] == 1) && clients[2].iter().all(|&i| labels[i as usize] == 0));
    }

    #[test]
    fn classes_that_a_client_may_not_hold_are_not_given() {
        let labels = [0, 0, 0, 1];
        let mut clients = vec![vec![0, 1, 2], vec![3]];
        let own = vec![vec![true, false], vec![false, true]];
        assert_eq!(repair(&mut clients, &labels, &own, 2), None);
        assert_eq!(clients, [vec![0, 1, 2], vec![3]]);
    }
}
