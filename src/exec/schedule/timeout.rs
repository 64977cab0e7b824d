//! Attempts that take too long: asked to stop, and given up when they do not.

use super::{Running, Scheduler};
use crate::base::{Fault, text};
use crate::store::Failure;
use std::time::Instant;

impl Scheduler<'_, '_> {
    pub(super) fn check_deadlines(&mut self) {
        let now = Instant::now();
        let mut lost = Vec::new();
        for (job, running) in &mut self.running {
            if running.give_up.is_none() && running.deadline.is_some_and(|deadline| deadline <= now) {
                running.attempt.stop();
                running.give_up = Some(now + self.with.settings.grace);
            } else if running.give_up.is_some_and(|end| end <= now) {
                running.attempt.kill();
                lost.push(*job);
            }
        }
        for job in lost {
            if let Some(running) = self.running.remove(&job) {
                let fault = self.timed_out(job);
                self.note_timeout(job, &running, &fault);
                let state = self.attempt_failed(job, fault);
                self.finish_attempt(job, &running, state);
            }
        }
    }

    pub(super) fn timed_out(&self, job: usize) -> Fault {
        let limit = self.with.jobs[job].timeout.unwrap_or_default();
        Fault::stage(format!("timed out after {}", text::duration(limit.as_secs_f64())))
            .help("raise `timeout:` of the stage; it continues from its last checkpoint")
    }

    /// Records the failure: the attempt itself only knows that it was asked to stop.
    pub(super) fn note_timeout(&self, job: usize, running: &Running, fault: &Fault) {
        let (Some(key), Some((attempt, started))) = (self.keys[job], &running.started) else { return };
        let failure = Failure {
            key,
            attempt: *attempt,
            label: self.with.jobs[job].label.clone(),
            run: self.with.history.map(|run| run.id().to_owned()).unwrap_or_default(),
            started: started.clone(),
            wall_ms: u64::try_from(running.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            fault: fault.clone(),
        };
        if let Err(second) = self.with.store.failure(&failure) {
            tracing::warn!("cannot record the failure of {}: {second}", key.short());
        }
    }
}
