//! Moves samples from large clients to small ones, so that every client has enough and label distributions change little.
//!
//! It draws nothing, so the outcome depends on the draw alone.

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
    let mut moved = 0;
    for needy in 0..sizes.len() {
        while sizes[needy] < least {
            // Its own classes first; of those it has none of, each client starts with another one.
            let mut order: Vec<usize> = (0..classes).filter(|&class| allowed[class][needy]).collect();
            order.sort_by_key(|&class| (std::cmp::Reverse(held[needy][class].len()), (class + classes - needy % classes) % classes));
            let donor_of = |class: usize| {
                let spare = |&client: &usize| client != needy && sizes[client] > least && !held[client][class].is_empty();
                (0..sizes.len()).filter(spare).max_by_key(|&client| (held[client][class].len(), std::cmp::Reverse(client)))
            };
            let (class, donor) = order.iter().find_map(|&class| donor_of(class).map(|donor| (class, donor)))?;
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
