//! What a trained model makes of test samples: the features before its head, for drawings.
//!
//! It reads outputs of finished stages and changes nothing.

use super::{dataset, model};
use crate::base::{Digest, Outcome};
use crate::data::partition::Partition;
use crate::engine::Engine;
use crate::store::Store;

/// Features with whom they belong to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// A row a sample.
    pub values: Vec<f32>,
    /// Numbers in a row.
    pub width: usize,
    /// The class of each sample.
    pub classes: Vec<u32>,
    /// The client whose test set it is from.
    pub clients: Vec<u32>,
}

/// Samples that are computed at once.
const BATCH: usize = 50;

/// The features of about `most` test samples, evenly from all clients, by a stored model; `data` is the tree of a partition's data set
/// and `clients` its clients.
///
/// # Errors
/// A storage fault when an object is missing or damaged, a stage fault when they do not belong together.
pub fn features(store: &Store, stored: &Digest, data: &Digest, clients: &Digest, most: usize) -> Outcome<Features> {
    let mut model = model::load(&store.read(stored)?)?;
    model.training = false;
    let data = dataset::of_tree(store, &store.tree(data)?)?;
    let partition = Partition::from_bytes(&store.read(clients)?)?;
    partition.fits(data.len(), data.classes())?;
    let all: usize = partition.clients().iter().map(|client| client.test.len()).sum();
    let every = all.div_ceil(most.max(1)).max(1);
    let tests = partition.clients().iter().zip(0..).flat_map(|(client, id)| client.test.iter().map(move |&sample| (id, sample)));
    let chosen: Vec<(u32, u32)> = tests.step_by(every).collect();
    let mut out = Features { width: model.net.features(), ..Features::default() };
    let (mut engine, mut x) = (Engine::<f32>::new(), Vec::new());
    for batch in chosen.chunks(BATCH) {
        let samples: Vec<u32> = batch.iter().map(|(_, sample)| *sample).collect();
        data.gather(&samples, &mut x);
        engine.forward_base(0, &mut model, &x, samples.len())?;
        out.values.extend_from_slice(engine.features(0));
        out.classes.extend(samples.iter().map(|&sample| data.labels()[sample as usize]));
        out.clients.extend(batch.iter().map(|(client, _)| *client));
    }
    Ok(out)
}
