//! Splits each client's samples into training and test samples.
//!
//! It does not know how the client came by its samples.

use super::Client;
use super::numpy::Legacy;
use super::request::Request;
use crate::base::Outcome;
use crate::base::random::{Purpose, shuffle, stream};

/// scikit-learn's shuffled split as PFLlib calls it, client by client: of a permutation the first part is the test set.
///
/// # Errors
/// A stage fault for a client that would have no training or no test samples, where scikit-learn fails too.
pub(super) fn pfllib(rng: &mut Legacy, clients: Vec<Vec<u32>>, request: &Request<'_>) -> Outcome<Vec<Client>> {
    let train_of = |n: usize| (request.ratio * n as f64).floor() as usize;
    // The smallest of them says what would do for all.
    let fails = |n: usize| train_of(n) == 0 || train_of(n) == n;
    if let Some((id, own)) = clients.iter().enumerate().filter(|(_, own)| fails(own.len())).min_by_key(|(_, own)| own.len()) {
        return Err(request.too_few(id, own.len()));
    }
    let split = |own: Vec<u32>| {
        let train = train_of(own.len());
        let order = rng.permutation(own.len() as u32);
        let (test, train) = order.split_at(own.len() - train);
        let pick = |order: &[u32]| order.iter().map(|&at| own[at as usize]).collect();
        Client { train: pick(train), test: pick(test) }
    };
    Ok(clients.into_iter().map(split).collect())
}

/// A shuffled split from each client's own stream; a client with samples always has at least one training sample, and from two
/// samples on at least one test sample.
pub(super) fn clean(seed: u64, clients: Vec<Vec<u32>>, ratio: f64) -> Vec<Client> {
    let split = |(id, mut own): (usize, Vec<u32>)| {
        shuffle(&mut stream(seed, Purpose::Split, id as u64, 0, 0), &mut own);
        let most = own.len().saturating_sub(1).max(1);
        let train = ((ratio * own.len() as f64).floor() as usize).clamp(1, most).min(own.len());
        let test = own.split_off(train);
        Client { train: own, test }
    };
    clients.into_iter().enumerate().map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_split_leaves_no_client_without_training_samples() {
        let sizes = |n: u32| {
            let client = clean(1, vec![(0..n).collect()], 0.75).remove(0);
            (client.train.len(), client.test.len())
        };
        assert_eq!([0, 1, 2, 3, 4, 100].map(sizes), [(0, 0), (1, 0), (1, 1), (2, 1), (3, 1), (75, 25)]);
    }
}
