//! The order in which jobs start: longest remaining path first, then the order of the jobs; and the slots they need.

use super::job::{CPU, Job};
use crate::base::{Fault, Outcome, text};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The jobs in an order in which dependencies come first.
///
/// # Errors
/// An internal fault for a dependency that does not exist or a cycle: plans have neither.
pub(super) fn order(jobs: &[Job]) -> Outcome<Vec<usize>> {
    let mut missing: Vec<usize> = vec![0; jobs.len()];
    let dependents = dependents(jobs)?;
    for (job, missing) in jobs.iter().zip(&mut missing) {
        *missing = job.deps.len();
    }
    let mut order: Vec<usize> = (0..jobs.len()).filter(|i| missing[*i] == 0).collect();
    let mut next = 0;
    while let Some(job) = order.get(next).copied() {
        next += 1;
        for dependent in &dependents[job] {
            missing[*dependent] -= 1;
            if missing[*dependent] == 0 {
                order.push(*dependent);
            }
        }
    }
    if order.len() == jobs.len() { Ok(order) } else { Err(Fault::internal("the graph of jobs has a cycle")) }
}

/// For each job those that read its outputs, as often as they name it.
pub(super) fn dependents(jobs: &[Job]) -> Outcome<Vec<Vec<usize>>> {
    let mut dependents = vec![Vec::new(); jobs.len()];
    for (i, job) in jobs.iter().enumerate() {
        for dep in &job.deps {
            dependents.get_mut(*dep).ok_or_else(|| Fault::internal(format!("job {i} depends on job {dep}, which does not exist")))?.push(i);
        }
    }
    Ok(dependents)
}

/// For each job the cost of the longest path that starts with it, in milliseconds.
pub(super) fn ranks(jobs: &[Job], order: &[usize], dependents: &[Vec<usize>]) -> Vec<u64> {
    let mut ranks = vec![0_u64; jobs.len()];
    for job in order.iter().rev() {
        let longest = dependents[*job].iter().map(|d| ranks[*d]).max().unwrap_or(0);
        ranks[*job] = longest.saturating_add(jobs[*job].cost_ms.max(1));
    }
    ranks
}

/// The jobs that wait for a slot, by device, and the free slots.
#[derive(Debug)]
pub(super) struct Ready {
    queues: BTreeMap<String, BinaryHeap<(u64, Reverse<usize>)>>,
    /// The free lanes of each device: CPU slots are numbered, other devices have one.
    free: BTreeMap<String, BTreeSet<usize>>,
    ranks: Vec<u64>,
}

impl Ready {
    /// So many CPU slots, and one slot for each other device.
    pub(super) fn new(cpu_slots: usize, devices: &[String], ranks: Vec<u64>) -> Self {
        let mut free = BTreeMap::from([(CPU.to_owned(), (0..cpu_slots).collect())]);
        for device in devices {
            free.entry(device.clone()).or_insert_with(|| BTreeSet::from([0]));
        }
        Self { queues: BTreeMap::new(), free, ranks }
    }

    /// Checks that the device of every job is there.
    pub(super) fn check_devices(&self, jobs: &[Job]) -> Outcome<()> {
        match jobs.iter().find(|job| !self.free.contains_key(&job.device)) {
            None => Ok(()),
            Some(job) => {
                let there = text::quoted(self.free.keys().map(String::as_str));
                Err(Fault::device(format!("`{}` needs the device `{}`, which is not there", job.label, job.device)).help(format!(
                    "devices here: {there}; choose one with `--device`{}",
                    if cfg!(feature = "cuda") { "" } else { "; a build with `--features cuda` sees GPUs too" }
                )))
            }
        }
    }

    pub(super) fn push(&mut self, job: usize, device: &str) {
        let entry = (self.ranks[job], Reverse(job));
        match self.queues.get_mut(device) {
            Some(queue) => queue.push(entry),
            None => {
                self.queues.insert(device.to_owned(), BinaryHeap::from([entry]));
            }
        }
    }

    /// The next job that has a slot, with the number of its lane.
    pub(super) fn pop(&mut self) -> Option<(usize, usize)> {
        for (device, queue) in &mut self.queues {
            if let Some(free) = self.free.get_mut(device)
                && !free.is_empty()
                && let Some((_, Reverse(job))) = queue.pop()
                && let Some(lane) = free.pop_first()
            {
                return Some((job, lane));
            }
        }
        None
    }

    /// Gives a slot back.
    pub(super) fn release(&mut self, device: &str, lane: usize) {
        if let Some(free) = self.free.get_mut(device) {
            free.insert(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(deps: Vec<usize>, cost_ms: u64) -> Job {
        Job { cost_ms, ..Job::new("s", "k", deps) }
    }

    #[test]
    fn the_longest_path_starts_first_then_the_order_of_jobs() {
        // 0 -> 3 (long), 1 and 2 stand alone.
        let jobs = [job(vec![], 1), job(vec![], 5), job(vec![], 5), job(vec![0], 10)];
        let order = order(&jobs).expect("no cycle");
        let ranks = ranks(&jobs, &order, &dependents(&jobs).expect("all there"));
        assert_eq!(ranks, [11, 5, 5, 10]);
        let mut ready = Ready::new(2, &[], ranks);
        for job in [2, 1, 0] {
            ready.push(job, CPU);
        }
        assert_eq!((ready.pop(), ready.pop(), ready.pop()), (Some((0, 0)), Some((1, 1)), None));
        ready.release(CPU, 0);
        assert_eq!(ready.pop(), Some((2, 0)));
    }

    #[test]
    fn a_cycle_and_a_hole_are_faults() {
        assert!(order(&[job(vec![1], 1), job(vec![0], 1)]).is_err());
        assert!(order(&[job(vec![7], 1)]).is_err());
    }

    #[test]
    fn a_device_has_one_slot_and_a_missing_one_is_named() {
        let mut ready = Ready::new(1, &["cuda:0".to_owned()], vec![1; 3]);
        ready.push(0, "cuda:0");
        ready.push(1, "cuda:0");
        ready.push(2, CPU);
        let mut got: Vec<usize> = std::iter::from_fn(|| ready.pop()).map(|(job, _)| job).collect();
        got.sort_unstable();
        assert_eq!(got, [0, 2]);
        let fault = ready.check_devices(&[Job { device: "cuda:7".to_owned(), ..job(vec![], 1) }]).expect_err("no such device");
        assert!(fault.what.contains("`cuda:7`") && fault.help.is_some_and(|h| h.contains("`cuda:0`")));
    }
}
