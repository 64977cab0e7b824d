//! The progress of a run on standard error: bars on a terminal, plain lines elsewhere, nothing when quiet.
//!
//! It hears the scheduler's events and knows nothing of stages but their labels and how long their kinds take.

use super::message::{Terminal, say};
use crate::base::text::duration;
use crate::exec::{Event, Job};
use crate::stage::task::Report;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// How often a long stage says how far it is where there are no bars.
const PULSE: Duration = Duration::from_secs(30);
/// So many stages have a bar of their own.
const BARS: usize = 16;

/// Hears a run.
pub(super) trait Progress {
    /// Something happened.
    fn event(&mut self, event: &Event);
    /// The run is over: what was drawn is taken away.
    fn end(&mut self) {}
}

/// The fitting progress for a terminal.
pub(super) fn of<'a>(terminal: &'a Terminal, jobs: &'a [Job], slots: usize) -> Box<dyn Progress + 'a> {
    if terminal.quiet {
        Box::new(Silent { terminal })
    } else if terminal.bars {
        Box::new(Bars::new(terminal, jobs, slots))
    } else {
        Box::new(Lines { terminal, jobs, tracker: Tracker::new(jobs, slots), pulse: HashMap::new() })
    }
}

/// Only what went wrong; that is told at the end, too, but the end may be far away.
struct Silent<'a> {
    terminal: &'a Terminal,
}

impl Progress for Silent<'_> {
    fn event(&mut self, event: &Event) {
        if let Event::Warning { line } = event {
            self.terminal.warning(line);
        }
    }
}

struct Lines<'a> {
    terminal: &'a Terminal,
    jobs: &'a [Job],
    tracker: Tracker<'a>,
    pulse: HashMap<usize, Instant>,
}

impl Progress for Lines<'_> {
    fn event(&mut self, event: &Event) {
        self.tracker.hear(event, Instant::now());
        match event {
            Event::Started { job, .. } => {
                self.pulse.insert(*job, Instant::now());
            }
            Event::Report { job, report: Report::Progress { done, total, values } } => {
                let due = self.pulse.get(job).is_some_and(|last| last.elapsed() >= PULSE);
                if due && done < total {
                    self.pulse.insert(*job, Instant::now());
                    say(&format!("  {} {done}/{total}{}", self.jobs[*job].label, shown(values)));
                }
            }
            Event::Done { label, wall_ms, .. } => {
                let eta = self.tracker.eta(Instant::now()).filter(|eta| *eta >= 1.0);
                let eta = eta.map(|eta| format!(", ETA {}", duration(eta))).unwrap_or_default();
                say(&format!("{} done {label} in {}{eta}", self.tracker.place(), duration(*wall_ms as f64 / 1e3)));
            }
            other => remarks(self.terminal, other, &|line| say(&line)),
        }
    }
}

/// What is worth a line in any case.
fn remarks(terminal: &Terminal, event: &Event, line: &dyn Fn(String)) {
    match event {
        Event::Failed { label, fault, retry, .. } => {
            let again = if *retry { "; it is tried again" } else { "" };
            line(format!("failed {}{again}", fault.clone().in_place(label)));
        }
        Event::Waiting { twin: Some(_), .. } => {}
        Event::Waiting { label, .. } => line(format!("waiting for another process to finish {label}")),
        Event::Interrupted { label, .. } => line(format!("stopped {label}")),
        Event::Warning { line: text } if terminal.verbose == 0 => line(format!("warning: {text}")),
        _ => {}
    }
}

fn shown(values: &BTreeMap<String, f64>) -> String {
    values.iter().map(|(name, value)| format!(", {name} {value:.4}")).collect()
}

struct Bars<'a> {
    terminal: &'a Terminal,
    jobs: &'a [Job],
    tracker: Tracker<'a>,
    all: MultiProgress,
    total: ProgressBar,
    own: BTreeMap<usize, ProgressBar>,
}

impl<'a> Bars<'a> {
    fn new(terminal: &'a Terminal, jobs: &'a [Job], slots: usize) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        let total = all.add(ProgressBar::new(jobs.len() as u64));
        total.set_style(style("{bar:24.green} {pos}/{len} stages {elapsed} {msg}"));
        total.enable_steady_tick(Duration::from_millis(500));
        Self { terminal, jobs, tracker: Tracker::new(jobs, slots), all, total, own: BTreeMap::new() }
    }
}

impl Progress for Bars<'_> {
    fn event(&mut self, event: &Event) {
        self.tracker.hear(event, Instant::now());
        match event {
            Event::Started { job, label, .. } if self.own.len() < BARS => {
                let bar = self.all.insert_before(&self.total, ProgressBar::new(0));
                bar.set_style(style("  {bar:16.cyan} {prefix} {msg}"));
                bar.set_prefix(label.clone());
                self.own.insert(*job, bar);
            }
            Event::Report { job, report: Report::Progress { done, total, values } } => {
                if let Some(bar) = self.own.get(job) {
                    bar.set_length(*total);
                    bar.set_position(*done);
                    bar.set_message(format!("{done}/{total}{}", shown(values)));
                }
            }
            Event::Done { job, .. } | Event::Failed { job, .. } | Event::Interrupted { job, .. } => {
                if let Some(bar) = self.own.remove(job) {
                    bar.finish_and_clear();
                }
            }
            _ => {}
        }
        // Bars are redrawn below lines that are printed through them.
        remarks(self.terminal, event, &|line| {
            if self.all.println(&line).is_err() {
                say(&line);
            }
        });
        self.total.set_position(self.tracker.settled as u64);
        if let Some(eta) = self.tracker.eta(Instant::now()) {
            self.total.set_message(format!("ETA {}", duration(eta)));
        }
        debug_assert_eq!(self.total.length(), Some(self.jobs.len() as u64));
    }

    fn end(&mut self) {
        for bar in self.own.values() {
            bar.finish_and_clear();
        }
        self.total.finish_and_clear();
        let _ = self.all.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; should one be wrong, a plain bar is better than none.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸ ")
}

/// How far a run is and how long it will still take.
///
/// The rest is estimated from the mean time that finished stages of each kind took in this run, or, while none has finished, from
/// the progress of the running ones; it is divided by the number of slots. Cached stages take no time.
struct Tracker<'a> {
    jobs: &'a [Job],
    slots: usize,
    settled: usize,
    running: HashMap<usize, (Instant, f64)>,
    taken: HashMap<&'a str, (f64, usize)>,
    open: HashMap<&'a str, usize>,
    over: Vec<bool>,
}

impl<'a> Tracker<'a> {
    fn new(jobs: &'a [Job], slots: usize) -> Self {
        let mut open: HashMap<&str, usize> = HashMap::new();
        for job in jobs {
            *open.entry(&job.kind).or_default() += 1;
        }
        Self { jobs, slots: slots.max(1), settled: 0, running: HashMap::new(), taken: HashMap::new(), open, over: vec![false; jobs.len()] }
    }

    fn hear(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Started { job, .. } => {
                self.running.insert(*job, (now, 0.0));
            }
            Event::Report { job, report: Report::Progress { done, total, .. } } if *total > 0 => {
                if let Some((_, part)) = self.running.get_mut(job) {
                    *part = *done as f64 / *total as f64;
                }
            }
            Event::Done { job, wall_ms, .. } => {
                let kind = self.jobs[*job].kind.as_str();
                let (sum, n) = self.taken.entry(kind).or_default();
                *sum += *wall_ms as f64 / 1e3;
                *n += 1;
                self.settle(*job);
            }
            Event::Cached { job, .. } | Event::Blocked { job, .. } | Event::Interrupted { job, .. } => self.settle(*job),
            Event::Failed { job, retry, .. } => {
                self.running.remove(job);
                if !retry {
                    self.settle(*job);
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, job: usize) {
        self.running.remove(&job);
        if !std::mem::replace(&mut self.over[job], true) {
            self.settled += 1;
            if let Some(open) = self.open.get_mut(self.jobs[job].kind.as_str()) {
                *open = open.saturating_sub(1);
            }
        }
    }

    /// `[12/85]`.
    fn place(&self) -> String {
        format!("[{}/{}]", self.settled, self.jobs.len())
    }

    /// Seconds until the end; none while nothing is known of a kind that has work left.
    fn eta(&self, now: Instant) -> Option<f64> {
        let mut rest = 0.0;
        for (kind, open) in self.open.iter().filter(|(_, open)| **open > 0) {
            let running: Vec<(f64, f64)> = self
                .running
                .iter()
                .filter(|(job, _)| self.jobs[**job].kind == *kind)
                .map(|(_, (begun, part))| (now.duration_since(*begun).as_secs_f64(), *part))
                .collect();
            let each = match self.taken.get(kind) {
                Some((sum, n)) => sum / *n as f64,
                None => {
                    let known: Vec<f64> = running.iter().filter(|(_, part)| *part > 0.0).map(|(spent, part)| spent / part).collect();
                    if known.is_empty() {
                        return None;
                    }
                    known.iter().sum::<f64>() / known.len() as f64
                }
            };
            let spent: f64 = running.iter().map(|(spent, part)| if *part > 0.0 { each * part } else { spent.min(each) }).sum();
            rest += each * *open as f64 - spent;
        }
        let open: usize = self.open.values().sum();
        (open > 0).then(|| rest.max(0.0) / self.slots.min(open) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Digest;

    fn jobs() -> Vec<Job> {
        let mut jobs = vec![Job::new("data", "dataset", Vec::new())];
        jobs.extend((0..4).map(|_| Job::new("run", "train", vec![0])));
        jobs
    }

    fn started(job: usize) -> Event {
        Event::Started { job, label: "run".into(), key: Digest::of(b"k"), attempt: 1, device: "cpu".into() }
    }

    #[test]
    fn the_rest_is_estimated_by_kind_and_slots() {
        let jobs = jobs();
        let mut tracker = Tracker::new(&jobs, 2);
        let now = Instant::now();
        assert_eq!(tracker.eta(now), None);
        tracker.hear(&Event::Cached { job: 0, label: "data".into(), key: Digest::of(b"k") }, now);
        tracker.hear(&started(1), now);
        tracker.hear(&started(2), now);
        assert_eq!(tracker.eta(now + Duration::from_secs(1)), None);
        let report = Report::Progress { done: 1, total: 4, values: BTreeMap::new() };
        tracker.hear(&Event::Report { job: 1, report }, now);
        // A quarter took 5 s, so a stage takes 20 s: 4 stages less the 5 s done and the 5 s of the other, on two slots.
        assert_eq!(tracker.eta(now + Duration::from_secs(5)), Some((80.0 - 5.0 - 5.0) / 2.0));
        tracker.hear(&Event::Done { job: 1, label: "run".into(), key: Digest::of(b"k"), wall_ms: 10_000 }, now);
        assert_eq!(tracker.place(), "[2/5]");
        assert_eq!(tracker.eta(now + Duration::from_secs(4)), Some((30.0 - 4.0) / 2.0));
        for job in 2..5 {
            tracker.hear(&Event::Blocked { job, label: "run".into(), by: 1 }, now);
            tracker.hear(&Event::Blocked { job, label: "run".into(), by: 1 }, now);
        }
        assert_eq!((tracker.place().as_str(), tracker.eta(now)), ("[5/5]", None));
    }
}
