//! What the scheduler does when results that it found turn out to be damaged or gone: they are made anew within the same run.

use super::super::event::Event;
use super::super::state::State;
use super::Scheduler;
use crate::base::{Fault, FaultKind};
use std::collections::BTreeSet;

impl Scheduler<'_, '_> {
    /// The number of inputs that are not there.
    pub(super) fn lacking(&self, job: usize) -> usize {
        self.with.jobs[job].deps.iter().filter(|dep| self.outputs[**dep].is_none()).count()
    }

    pub(super) fn wait_for_inputs(&mut self, job: usize) {
        self.missing[job] = self.lacking(job);
        self.states.reopen(job, State::Unknown);
    }

    /// Whether the job failed because results that it reads were damaged or lost since the run found them. The jobs that made them
    /// then run once more, and this one after them.
    pub(super) fn renew_inputs(&mut self, job: usize, fault: &Fault) -> bool {
        if self.halted || !matches!(fault.kind, FaultKind::Storage | FaultKind::InputsMissing) {
            return false;
        }
        let with = self.with;
        let lost = |dep: &usize| self.outputs[*dep].as_ref().is_some_and(|outputs| !with.store.sound(outputs));
        let lost: BTreeSet<usize> = with.jobs[job].deps.iter().copied().filter(lost).collect();
        // What is damaged again and again is a broken disk.
        if lost.iter().any(|dep| self.renewed.contains(dep)) {
            return false;
        }
        // Another job that reads the same may have found the damage first, and all is well again.
        let healed = lost.is_empty() && with.jobs[job].deps.iter().any(|dep| self.renewed.contains(dep)) && self.second_chances.insert(job);
        for dep in lost {
            self.renewed.insert(dep);
            self.outputs[dep] = None;
            for n in 0..self.dependents[dep].len() {
                let dependent = self.dependents[dep][n];
                if self.states.get(dependent) == State::Unknown {
                    self.missing[dependent] += 1;
                }
            }
            self.states.reopen(dep, State::Ready);
            self.ready.push(dep, &with.jobs[dep].device);
            self.tell(&Event::Warning { line: format!("the result of {} was damaged; it is made anew", with.jobs[dep].label) });
        }
        healed || self.lacking(job) > 0
    }
}
