//! The time line of a run in the trace event format, which Chrome's `about:tracing` and Perfetto show.

use super::job::Job;
use super::summary::Summary;
use crate::base::{Fault, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The time line as JSON: one row for each slot, one bar for each attempt.
#[must_use]
pub fn chrome(summary: &Summary, jobs: &[Job]) -> Value {
    let mut rows: BTreeMap<(&str, usize), usize> = summary.spans.iter().map(|s| ((s.device.as_str(), s.lane), 0)).collect();
    for (n, row) in rows.values_mut().enumerate() {
        *row = n;
    }
    let names = rows.iter().map(|((device, lane), row)| {
        let name = if *device == super::CPU { format!("cpu {lane}") } else { (*device).to_owned() };
        json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": {"name": name}})
    });
    let bars = summary.spans.iter().map(|span| {
        let job = &jobs[span.job];
        json!({
            "ph": "X", "pid": 1, "tid": rows[&(span.device.as_str(), span.lane)],
            "name": job.label, "cat": job.kind, "ts": span.start_us, "dur": span.wall_us, "args": {"state": span.state, "stage": job.stage},
        })
    });
    json!({"displayTimeUnit": "ms", "traceEvents": names.chain(bars).collect::<Vec<_>>()})
}

/// Writes the time line to a file.
///
/// # Errors
/// A storage fault when the file cannot be written.
pub fn write(path: &Path, summary: &Summary, jobs: &[Job]) -> Outcome<()> {
    std::fs::write(path, chrome(summary, jobs).to_string()).map_err(|e| Fault::io("write", path, &e))
}
