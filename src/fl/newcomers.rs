//! Clients that join after the last round: adopt the server's model, fine-tune, be tested.

use super::algorithm::Algorithm;
use super::arena::{Phase, parallel, trainer};
use super::batch::{Batch, Pass};
use super::evaluate::micro_auc;
use super::history::{ClientMeasured, Measured};
use super::objective::Objective;
use super::parties::{Client, Server};
use super::streams::Moment;
use super::trainer::Trainer;
use super::world::World;
use crate::base::{Fault, Outcome};
use crate::engine::loss::argmax;

/// Why clients cannot join an algorithm after the last round, where it has nothing to offer to them.
pub fn refusal(algorithm: &str, welcomes: bool) -> Option<Fault> {
    (!welcomes).then(|| {
        Fault::stage(format!("new clients are not defined for `{algorithm}`"))
            .help("its server keeps no model for one to start from, and neither its paper nor PFLlib defines one: leave `new_clients` at 0")
    })
}

/// Lets every new client adopt the model, fine-tunes all its parameters with plain cross-entropy at the undecayed learning rate
/// (PFLlib's procedure), and measures its model. Absent when there are no new clients.
pub(super) fn join<A: Algorithm>(algorithm: &A, world: &World, server: &Server<A::Server>, round: u64) -> Outcome<Option<Measured>> {
    if world.newcomers.is_empty() {
        return Ok(None);
    }
    let ids: Vec<usize> = (world.clients()..world.clients() + world.newcomers.len()).collect();
    let measured = parallel(
        world,
        ids.clone(),
        |id| world.shard(*id).train.len(),
        |worker, id| {
            let at = Moment { client: id as u64, round, pass: (Phase::Adopt as u64) << 48 };
            let mut trainer = trainer(world, worker, at, 0, None);
            trainer.epochs = world.settings.fine_tuning_epochs;
            let mut client = Client::new(id, world.initial.clone());
            algorithm.adopt(&mut trainer, server, &mut client)?;
            fine_tune(&mut trainer, &mut client)?;
            test(&mut trainer, &client)
        },
    );
    let clients = measured
        .into_iter()
        .zip(ids)
        .map(|(outcome, id)| outcome.map_err(|fault: Fault| fault.at(format!("new client {id}"))))
        .collect::<Outcome<Vec<_>>>()?;
    Ok(Some(Measured::of(clients)))
}

fn fine_tune<S>(trainer: &mut Trainer<'_>, client: &mut Client<S>) -> Outcome<()> {
    trainer.descend(&mut client.model, &Objective::CrossEntropy, &[])?;
    client.model.training = false;
    Ok(())
}

fn test<S>(trainer: &mut Trainer<'_>, client: &Client<S>) -> Outcome<ClientMeasured> {
    let (mut correct, mut scores, mut labels) = (0, Vec::new(), Vec::new());
    let pass: Pass = trainer.testing();
    trainer.pass(pass, |trainer, batch: &mut Batch| {
        let logits = trainer.predict(&client.model, batch)?;
        let classes = logits.len() / batch.rows();
        correct += logits.chunks_exact(classes).zip(&batch.y).filter(|(row, y)| argmax(row) == **y as usize).count() as u64;
        scores.extend(logits);
        labels.extend_from_slice(&batch.y);
        Ok(())
    })?;
    let auc = micro_auc(&scores, &labels);
    Ok(ClientMeasured { correct, n: labels.len() as u64, auc, train_loss_sum: None, train_n: None })
}
