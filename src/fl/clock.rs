//! The simulated clock: who trains or sends slowly, and how many seconds things would take.
//!
//! Simulated, never measured: a result does not depend on the machine's load.

use super::settings::{Drawing, Settings};
use super::streams::{Moment, Streams};

/// The slow clients and the costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    slow_trainer: Vec<bool>,
    slow_sender: Vec<bool>,
    per_batch: f64,
    per_upload: f64,
}

/// The upper end of the uniform delay of a slow trainer's batch, in seconds (PFLlib sleeps that long).
const SLOW_BATCH: f64 = 0.1;

impl Clock {
    /// Draws the slow clients.
    #[must_use]
    pub fn new(settings: &Settings, clients: usize, streams: &dyn Streams) -> Self {
        let flags = |sender: bool, rate: f64| {
            let mut flags = vec![false; clients];
            let replacement = settings.slow_drawing == Drawing::WithReplacement;
            for id in streams.slow(sender, (rate * clients as f64) as usize, clients, replacement) {
                flags[id] = true;
            }
            flags
        };
        Self {
            slow_trainer: flags(false, settings.slow_trainers),
            slow_sender: flags(true, settings.slow_senders),
            per_batch: settings.seconds_per_batch,
            per_upload: settings.seconds_per_upload,
        }
    }
    /// The epochs of a client in a round: E, or for a slow trainer a uniform integer in [1, max(1, E/2 - 1)].
    #[must_use]
    pub fn epochs(&self, streams: &dyn Streams, at: Moment, epochs: u64) -> u64 {
        if !self.slow(at.client) {
            return epochs;
        }
        let most = (epochs / 2).saturating_sub(1).max(1);
        (1 + (streams.delay(at) * most as f64) as u64).min(most)
    }
    /// Seconds of training for that many batches.
    #[must_use]
    pub fn training(&self, streams: &dyn Streams, at: Moment, batches: u64) -> f64 {
        let delay = if self.slow(at.client) { SLOW_BATCH * streams.delay(Moment { pass: at.pass + 1, ..at }) } else { 0.0 };
        batches as f64 * (self.per_batch + delay)
    }
    /// Seconds of one upload.
    #[must_use]
    pub fn sending(&self, client: usize) -> f64 {
        self.per_upload * if self.slow_sender.get(client).copied().unwrap_or(false) { 2.0 } else { 1.0 }
    }
    fn slow(&self, client: u64) -> bool {
        self.slow_trainer.get(client as usize).copied().unwrap_or(false)
    }
}
