//! How many samples of each class a client has.

use crate::fl::World;
use crate::fl::streams::Moment;

/// The number of training samples of each class at a client. With `batches`, those of one shuffled pass in whole batches, as PFLlib
/// counts them: up to a batch of random samples is missing where the settings drop the incomplete last one.
pub(crate) fn counts(world: &World, client: usize, batches: bool) -> Vec<f32> {
    let train = &world.shard(client).train;
    let mut counts = vec![0.0; world.data.classes()];
    let kept = if batches && world.settings.drop_last { train.len() - train.len() % world.settings.batch_size.max(1) } else { train.len() };
    // A moment that no pass uses.
    let order = world.streams.order(Moment { client: client as u64, round: 0, pass: u64::MAX }, train.len());
    for position in &order[..kept] {
        counts[world.data.labels()[train[*position as usize] as usize] as usize] += 1.0;
    }
    counts
}
