//! Measuring: accuracy, AUC and training loss of every client, for every view of the algorithm.

use super::algorithm::{Algorithm, Who};
use super::arena::Arena;
use super::batch::{Batch, Pass};
use super::history::{ClientMeasured, Measured, Threatened};
use super::intervention::{Place, Smoothing, Trial};
use super::parties::{Client, Server};
use super::settings::TrainLoss;
use super::trainer::Trainer;
use crate::base::Outcome;
use crate::base::random::{Purpose, stream};
use crate::engine::loss::{argmax, softmax};
use rand_distr::{Distribution, StandardNormal};
use std::collections::BTreeMap;

/// What one evaluation measured.
pub(super) struct Evaluated {
    /// Each view on the test sets.
    pub(super) views: BTreeMap<String, Measured>,
    /// The headline view on the validation samples, where some were put aside.
    pub(super) validation: Option<Measured>,
    /// The full training loss, where the settings ask for it.
    pub(super) train_loss: Option<f64>,
    /// What a threat has achieved.
    pub(super) threat: Option<Threatened>,
}

/// Every view of every client.
pub(super) fn measure<A: Algorithm>(algorithm: &A, arena: &mut Arena<'_, A>) -> Outcome<Evaluated> {
    let ids = arena.ids(Who::All);
    let views = algorithm.views();
    let attackers = arena.world.attackers();
    let threatened = arena.world.interventions.iter().any(|intervention| intervention.place() == Place::Threat);
    let validates = arena.world.validation.iter().any(|samples| !samples.is_empty());
    let by_client = arena.each(&ids, |trainer, server, client| {
        algorithm.before_evaluation(trainer, server, client, true)?;
        let measured =
            (0..views.len()).map(|view| measure_client(algorithm, view, trainer, server, client)).collect::<Outcome<Vec<_>>>()?;
        let honest = threatened && attackers.binary_search(&client.id).is_err();
        let tried = if honest { try_client(algorithm, trainer, server, client)? } else { (0, 0) };
        let headline = views.len().saturating_sub(1);
        let validated =
            if validates { Some(measure_on(trainer.validating(), algorithm, headline, trainer, server, client)?) } else { None };
        Ok((measured, tried, validated))
    })?;
    let mut measured = BTreeMap::new();
    let mut train_loss = None;
    for (view, name) in views.iter().enumerate() {
        let clients: Vec<ClientMeasured> = by_client.iter().map(|(views, ..)| views[view]).collect();
        let sum: f64 = clients.iter().filter_map(|c| c.train_loss_sum).sum();
        let rows: u64 = clients.iter().filter_map(|c| c.train_n).sum();
        // The headline view stands last and wins.
        if rows > 0 {
            train_loss = Some(sum / rows as f64);
        }
        measured.insert((*name).to_owned(), Measured::of(clients));
    }
    let honest = ids.iter().zip(&by_client).filter(|(id, _)| attackers.binary_search(id).is_err());
    let headline = honest.filter_map(|(id, (views, tried, _))| Some((*id, *views.last()?, *tried)));
    let threat = threatened.then(|| Threatened::of(headline.collect()));
    let validation = validates.then(|| Measured::of(by_client.iter().filter_map(|(.., validated)| *validated).collect()));
    Ok(Evaluated { views: measured, validation, train_loss, threat })
}

/// On how many samples of its trials a threat gets the prediction that it wants from a client's headline model, and of how many.
fn try_client<A: Algorithm>(
    algorithm: &A,
    trainer: &mut Trainer<'_>,
    server: &Server<A::Server>,
    client: &mut Client<A::Client>,
) -> Outcome<(u64, u64)> {
    let view = algorithm.views().len().saturating_sub(1);
    let (mut wins, mut n) = (0, 0);
    let world = trainer.world;
    for intervention in &world.interventions {
        let mut attempt = |trainer: &mut Trainer<'_>, batch: &mut Batch| {
            let wanted = intervention.alter(batch);
            if wanted.iter().all(Option::is_none) {
                return Ok(());
            }
            let scores = answers(algorithm, view, trainer, server, client, batch)?;
            let classes = scores.len() / batch.rows().max(1);
            if classes == 0 {
                return Ok(());
            }
            for (row, wanted) in scores.chunks_exact(classes).zip(wanted) {
                n += u64::from(wanted.is_some());
                wins += u64::from(wanted == Some(argmax(row) as u32));
            }
            Ok(())
        };
        match intervention.trial() {
            Trial::None => {}
            Trial::TestSets => trainer.pass(trainer.testing(), &mut attempt)?,
            Trial::Own(batches) => {
                for batch in batches {
                    attempt(trainer, &mut batch.clone())?;
                }
            }
        }
    }
    Ok((wins, n))
}

/// One view of one client on its test set.
pub(super) fn measure_client<A: Algorithm>(
    algorithm: &A,
    view: usize,
    trainer: &mut Trainer<'_>,
    server: &Server<A::Server>,
    client: &mut Client<A::Client>,
) -> Outcome<ClientMeasured> {
    let mut measured = measure_on(trainer.testing(), algorithm, view, trainer, server, client)?;
    if trainer.world.settings.train_loss == TrainLoss::Full {
        (measured.train_loss_sum, measured.train_n) = algorithm.training_loss(view, trainer, server, client)?.unzip();
    }
    Ok(measured)
}

/// One view of one client on the samples of a pass.
fn measure_on<A: Algorithm>(
    pass: Pass,
    algorithm: &A,
    view: usize,
    trainer: &mut Trainer<'_>,
    server: &Server<A::Server>,
    client: &mut Client<A::Client>,
) -> Outcome<ClientMeasured> {
    let (mut correct, mut n, mut scores, mut labels) = (0, 0, Vec::new(), Vec::new());
    let plain = smoothing(trainer).is_none();
    trainer.pass(pass, |trainer, batch| {
        let mut batch_scores = answers(algorithm, view, trainer, server, client, batch)?;
        if batch_scores.is_empty() {
            return Ok(());
        }
        let classes = batch_scores.len() / batch.rows();
        for (row, label) in batch_scores.chunks_exact(classes).zip(&batch.y) {
            correct += u64::from(argmax(row) == *label as usize);
        }
        n += batch.rows() as u64;
        if plain && algorithm.softmax_auc(view) {
            softmax(&mut batch_scores, classes);
        }
        scores.extend(batch_scores);
        labels.extend_from_slice(&batch.y);
        Ok(())
    })?;
    Ok(ClientMeasured { correct, n, auc: micro_auc(&scores, &labels), train_loss_sum: None, train_n: None })
}

fn smoothing(trainer: &Trainer<'_>) -> Option<Smoothing> {
    trainer.world.interventions.iter().find_map(|intervention| intervention.smoothing())
}

/// The scores of a batch: those of the client's model or, where predictions are smoothed, the share of votes that each class gets.
fn answers<A: Algorithm>(
    algorithm: &A,
    view: usize,
    trainer: &mut Trainer<'_>,
    server: &Server<A::Server>,
    client: &mut Client<A::Client>,
    batch: &mut Batch,
) -> Outcome<Vec<f32>> {
    let Some(Smoothing { votes, stddev, seed }) = smoothing(trainer) else {
        return algorithm.scores(view, trainer, server, client, batch);
    };
    let exact = client.model.params.clone();
    let (round, layout) = (trainer.at.round, trainer.world.layout());
    let mut count = || {
        let mut shares: Vec<f32> = Vec::new();
        for vote in 0..votes {
            // The server's noise of a round is that of client 0.
            let mut rng = stream(seed, Purpose::Defence, vote + 1, round, 0);
            client.model.params = exact.clone();
            for entry in layout.entries.iter().filter(|entry| algorithm.averaged(entry)) {
                for value in &mut client.model.params[entry.range.clone()] {
                    let drawn: f64 = StandardNormal.sample(&mut rng);
                    *value += (stddev * drawn) as f32;
                }
            }
            let scores = algorithm.scores(view, trainer, server, client, &mut batch.clone())?;
            shares.resize(scores.len(), 0.0);
            let classes = (scores.len() / batch.rows().max(1)).max(1);
            for (row, shares) in scores.chunks_exact(classes).zip(shares.chunks_exact_mut(classes)) {
                shares[argmax(row)] += 1.0 / votes as f32;
            }
        }
        Ok(shares)
    };
    let shares = count();
    client.model.params = exact;
    shares
}

/// The micro-averaged one-vs-rest AUC: the area under the ROC curve of all (score, is-the-label) pairs, ties counted half
/// (Mann-Whitney statistic with average ranks, in f64). Undefined without samples, with one class, or with non-finite scores.
#[must_use]
pub fn micro_auc(scores: &[f32], labels: &[u32]) -> Option<f64> {
    let n = labels.len();
    if n == 0 || scores.len() < 2 * n || scores.iter().any(|s| !s.is_finite()) {
        return None;
    }
    let classes = scores.len() / n;
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    order.sort_unstable_by(|a, b| scores[*a as usize].total_cmp(&scores[*b as usize]));
    let positive = |i: u32| labels[i as usize / classes] as usize == i as usize % classes;
    let mut rank_sum = 0.0;
    let mut start = 0;
    while start < order.len() {
        let value = scores[order[start] as usize];
        let len = order[start..].iter().take_while(|i| scores[**i as usize] == value).count();
        let rank = (start + 1 + start + len) as f64 / 2.0;
        rank_sum += rank * order[start..start + len].iter().filter(|i| positive(**i)).count() as f64;
        start += len;
    }
    let (positives, negatives) = (n as f64, (n * (classes - 1)) as f64);
    Some((rank_sum - positives * (positives + 1.0) / 2.0) / (positives * negatives))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auc_counts_pairs_and_halves_ties() {
        // Positives 0.9 and 0.2, negatives 0.1 and 0.2: pairs won 1 + 1 + 1, tied 1 of 4.
        assert_eq!(micro_auc(&[0.9, 0.1, 0.2, 0.2], &[0, 1]), Some(3.5 / 4.0));
        assert_eq!(micro_auc(&[1.0, 0.0, 0.0, 1.0], &[0, 1]), Some(1.0));
        assert_eq!(micro_auc(&[0.5; 6], &[0, 2]), Some(0.5));
        assert_eq!(micro_auc(&[], &[]), None);
        assert_eq!(micro_auc(&[f32::NAN, 0.0], &[0]), None);
    }
}
