//! Arithmetic between models: taking layers over, and the weighted mean of uploads.

use super::parties::Uploaded;
use crate::base::threads::Budget;
use crate::engine::{Entry, Model};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Copies the wanted parameters; when all are wanted the vector is shared instead. Buffers stay the receiver's own.
pub fn copy_layers(to: &mut Model, from: &Model, wanted: impl Fn(&Entry) -> bool) {
    let net = from.net.clone();
    let entries = &net.layout().entries;
    if entries.iter().all(&wanted) {
        to.params = from.params.clone();
    } else if entries.iter().any(&wanted) {
        for entry in entries.iter().filter(|e| wanted(e)) {
            to.params[entry.range.clone()].copy_from_slice(&from.params[entry.range.clone()]);
        }
    }
}

/// The weighted mean of the uploads' wanted parameters in upload order, product and sum each rounded to f32 as the reference does.
/// Buffers and mode become those of the first upload (PFLlib deep-copies its model), the other parameters stay the server's.
pub fn weighted_mean<U>(
    global: &mut Model,
    uploads: &[Uploaded<U>],
    weight: impl Fn(&Uploaded<U>) -> f64,
    wanted: impl Fn(&Entry) -> bool,
) {
    mean_on(None, global, uploads, weight, wanted);
}

/// Elements of a sum that stay in the first cache while all uploads are added to them.
const BLOCK: usize = 4096;
/// From so many products on, other threads help.
const WORTH_A_THREAD: usize = 1 << 20;

/// The weighted mean on this thread and on as many more as the budget has idle.
pub(super) fn mean_on<U>(
    budget: Option<&Budget>,
    global: &mut Model,
    uploads: &[Uploaded<U>],
    weight: impl Fn(&Uploaded<U>) -> f64,
    wanted: impl Fn(&Entry) -> bool,
) {
    let Some(first) = uploads.first() else { return };
    global.buffers = first.model.buffers.clone();
    global.training = first.model.training;
    let net = global.net.clone();
    let shares: Vec<(f32, &[f32])> = uploads.iter().map(|upload| (weight(upload) as f32, &upload.model.params[..])).collect();
    let wanted: Vec<_> = net.layout().entries.iter().filter(|e| wanted(e)).map(|e| e.range.clone()).collect();
    if !wanted.is_empty() {
        sum(budget, &mut global.params, &shares, wanted);
    }
}

/// Makes `global` the sum of the shares' products in these ascending ranges.
fn sum(budget: Option<&Budget>, global: &mut [f32], shares: &[(f32, &[f32])], wanted: Vec<Range<usize>>) {
    // Each element is summed in the order of uploads, whatever the blocks and threads.
    let (mut blocks, mut rest, mut at) = (Vec::new(), global, 0);
    for range in wanted {
        let (_, behind) = std::mem::take(&mut rest).split_at_mut(range.start - at);
        let (own, behind) = behind.split_at_mut(range.len());
        blocks.extend(own.chunks_mut(BLOCK).enumerate().map(|(i, block)| (range.start + i * BLOCK, block)));
        (rest, at) = (behind, range.end);
    }
    let work = |blocks: &mut [(usize, &mut [f32])]| {
        for (start, block) in blocks {
            block.fill(0.0);
            for (share, params) in shares {
                for (sum, value) in block.iter_mut().zip(&params[*start..]) {
                    *sum += value * share;
                }
            }
        }
    };
    let products = blocks.len() * BLOCK * shares.len();
    let most = (products / WORTH_A_THREAD).clamp(1, blocks.len().max(1));
    let each = blocks.len().div_ceil(most).max(1);
    let parts = Mutex::new(blocks.chunks_mut(each));
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(part) = next() {
            work(part);
        }
    };
    match budget {
        Some(budget) => budget.spread(most, run),
        None => run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Layer, Network, Shape};
    use std::sync::Arc;

    #[test]
    fn blocks_and_threads_do_not_change_a_mean() {
        let layers = vec![Layer::linear("a", 300), Layer::Relu, Layer::linear("b", 200), Layer::Relu, Layer::linear("fc", 10)];
        let net = Arc::new(Network::build(Shape::vector(100), layers, 4).expect("a valid network"));
        let model = |k: usize| {
            let mut model = Model::<f32>::init(
                net.clone(),
                &mut crate::base::random::stream(k as u64, crate::base::random::Purpose::Initialisation, 0, 0, 0),
            );
            model.training = k.is_multiple_of(2);
            model
        };
        let uploads: Vec<_> =
            (0..31).map(|k| Uploaded { client: k, samples: 1, weight: 0.01 + k as f64 / 500.0, model: model(k), extra: () }).collect();
        let wanted = |entry: &Entry| entry.name != "b.weight";
        let mut expected = model(99);
        for entry in net.layout().entries.iter().filter(|entry| wanted(entry)) {
            for i in entry.range.clone() {
                expected.params[i] = 0.0;
                for upload in &uploads {
                    expected.params[i] += upload.model.params[i] * upload.weight as f32;
                }
            }
        }
        for budget in [None, Some(Budget::new(1)), Some(Budget::new(4))] {
            let mut global = model(99);
            mean_on(budget.as_ref(), &mut global, &uploads, |upload| upload.weight, wanted);
            assert!(global.params[..] == expected.params[..] && global.training);
        }
    }
}
