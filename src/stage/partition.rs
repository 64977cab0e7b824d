//! A partition: which client holds which sample.

use super::dataset;
use super::task::{Host, Outputs, Report, Task};
use super::{input, outputs, tag};
use crate::base::Outcome;
use crate::data::partition;

/// Outputs `clients` (the samples of each client), `manifest` (counts and heterogeneity) and `data` (a tree of the data set that
/// was partitioned, so that a training finds it; with noise where the rule adds some).
pub(super) fn run(task: &Task, host: &dyn Host) -> Outcome<Outputs> {
    let slot = |output| input(task, "data", output);
    let tree: Outputs =
        [("info", slot("info")?), ("samples", slot("samples")?), ("labels", slot("labels")?)].map(|(n, o)| (n.to_owned(), o)).into();
    let data = dataset::load(host, &tree)?;
    let kind = tag(task, "kind")?;
    let stop = || host.stopping();
    let made = partition::build_from(kind, &task.params, &partition::Population::of(&data).until(&stop), host.data_dirs())?;
    let manifest = made.manifest(data.labels())?;
    for (side, without) in [
        ("training", made.clients().iter().filter(|client| client.train.is_empty()).count()),
        ("test", made.clients().iter().filter(|client| client.test.is_empty()).count()),
    ] {
        if without > 0 {
            let all = made.clients().len();
            host.report(Report::Log { warning: true, line: format!("{without} of {all} clients have no {side} samples") });
        }
    }
    let mut out = outputs(host, [("clients", &made.to_bytes()), ("manifest", &manifest.to_json())])?;
    let tree = match partition::noise(kind, &task.params)? {
        None => tree,
        Some(noise) => dataset::store(host, &noise.add(data, &made)?)?,
    };
    out.insert("data".to_owned(), host.store().put_tree(&tree)?);
    Ok(out)
}
