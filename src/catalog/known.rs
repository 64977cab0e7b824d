//! What can be told of a training before it runs: how many clients take part, how many uploads arrive, how much data there is.

use super::inputs::facts;
use crate::base::Fault;
use crate::data;
use crate::fl::Settings;
use crate::spec::rules::{Breach, Setup};
use serde_json::Value;

/// What is known of a training without its data.
pub(super) struct Known {
    pub(super) settings: Settings,
    /// The clients that train; of some partitions only the data say how many there are.
    pub(super) clients: Option<usize>,
    /// The data set, and how many training samples a client has on average at most.
    pub(super) data: Option<data::Facts>,
    pub(super) samples: Option<f64>,
}

impl Known {
    /// Of a training; a breach where no client is left to train.
    pub(super) fn of(train: &Setup<'_>) -> Option<Result<Self, Breach>> {
        let names = [
            "rounds",
            "optimizer",
            "batch_size",
            "drop_last",
            "few_shot",
            "join_ratio",
            "random_join_ratio",
            "drop_rate",
            "drop_count",
            "new_clients",
            "time_threshold",
            "seconds_per_upload",
        ];
        let params = names.iter().filter_map(|name| Some(((*name).to_owned(), train.get(name)?.clone())));
        let settings: Settings = serde_json::from_value(Value::Object(params.collect())).ok()?;
        let there = train.input("partition").and_then(|partition| partition.whole("clients")).and_then(|n| usize::try_from(n).ok());
        let clients = match there.map(|there| settings.training(there)).transpose() {
            Ok(clients) => clients,
            Err(fault) => {
                let path = if there.is_some_and(|there| settings.new_clients >= there) { "new_clients" } else { "join_ratio" };
                return Some(Err(Breach::new(path, fault)));
            }
        };
        let data = train.input("partition").and_then(|partition| facts(&partition.input("data")?));
        let samples = data.zip(there).and_then(|(data, there)| mean_share(&train.input("partition")?, data.samples?, there));
        Some(Ok(Self { settings, clients, data, samples }))
    }
    /// What is wrong with batches and uploads, of which there may be none.
    pub(super) fn empty(&self) -> Vec<Breach> {
        let (settings, mut breaches) = (&self.settings, Vec::new());
        let (size, few) = (settings.batch_size, settings.few_shot);
        let most = self.data.filter(|_| few > 0).map(|data| few.saturating_mul(data.classes));
        let help = "set `drop_last: false`, or a smaller `batch_size`";
        if settings.drop_last
            && let Some(most) = most.filter(|most| *most < size)
        {
            let what = format!(
                "`batch_size` is {size}, but `few_shot: {few}` leaves a client at most {most} samples, and incomplete batches are left out: nobody trains"
            );
            breaches.push(Breach::new("batch_size", Fault::stage(what).help(help)));
        } else if settings.drop_last
            && let Some(mean) = self.samples.filter(|mean| *mean < size as f64)
        {
            let what = format!(
                "`batch_size` is {size}, but clients have {mean:.1} training samples on average, and those with less than a batch do not train"
            );
            breaches.push(Breach::warning("batch_size", Fault::stage(what).help(help)));
        }
        if self.cohort().is_some_and(|cohort| cohort > 0) && self.uploads() == Some(0) {
            let what = format!("`drop_rate` {} leaves no upload in a round: the server never changes", settings.drop_rate);
            breaches.push(Breach::warning(
                "drop_rate",
                Fault::stage(what).help("lower `drop_rate`, or set `drop_count: round` to keep at least one"),
            ));
        }
        // What a client trains takes at least no time, and what it sends at least that of one upload.
        if let Some(most) = settings.time_threshold.filter(|most| *most < settings.seconds_per_upload) {
            let what = format!(
                "`time_threshold` {most} is below `seconds_per_upload` {}: no upload is ever accepted, and the server never changes",
                settings.seconds_per_upload
            );
            breaches.push(Breach::warning("time_threshold", Fault::stage(what).help("raise `time_threshold`, or leave it out")));
        }
        breaches
    }
    /// The uploads of the smallest round that may be drawn, where rounds differ.
    pub(super) fn least(&self) -> Option<usize> {
        let clients = self.clients.filter(|_| self.settings.random_join_ratio)?;
        Some(self.settings.arriving(self.settings.nominal_cohort(clients)))
    }
    /// The clients of a round, where each round has as many.
    pub(super) fn cohort(&self) -> Option<usize> {
        self.clients.filter(|_| !self.settings.random_join_ratio).map(|clients| self.settings.nominal_cohort(clients))
    }
    /// The uploads of a round, where each round has as many.
    pub(super) fn uploads(&self) -> Option<usize> {
        self.cohort().map(|cohort| self.settings.arriving(cohort))
    }
}

/// The training samples that a client has on average at most, of so many in the data set.
fn mean_share(partition: &Setup<'_>, samples: usize, clients: usize) -> Option<f64> {
    // Devices of several regions may have the same sample.
    if clients == 0 || partition.word("variant") == Some("profed") {
        return None;
    }
    let mut share = samples as f64 / clients as f64;
    if let Some(most) = partition.whole("most_samples") {
        share = share.min(most as f64);
    }
    let split = partition.word("test").is_none_or(|test| test == "split");
    let ratio = partition.get("train_ratio").and_then(Value::as_f64).filter(|_| split);
    Some(share * ratio.unwrap_or(1.0))
}
