//! A data set: read from its original files, checked, stored once for all stages.

use super::task::{Host, Outputs, Task};
use super::{outputs, tag};
use crate::base::Outcome;
use crate::data;
use crate::store::Store;

/// Outputs `info` (description), `samples` and `labels`.
pub(super) fn run(task: &Task, host: &dyn Host) -> Outcome<Outputs> {
    let stop = || host.stopping();
    store(host, &data::load_until(tag(task, "name")?, &task.params, host.data_dirs(), &stop)?)
}

/// Puts a data set into the store, as the three outputs.
pub(super) fn store(host: &dyn Host, data: &data::Dataset) -> Outcome<Outputs> {
    let parts = data.to_parts();
    outputs(host, [("info", &parts.info), ("samples", &parts.samples), ("labels", &parts.labels)])
}

/// The data set behind a tree of its three outputs.
pub(super) fn load(host: &dyn Host, tree: &Outputs) -> Outcome<data::Dataset> {
    of_tree(host.store(), tree)
}

/// As [`load`], from a store.
pub(super) fn of_tree(store: &Store, tree: &Outputs) -> Outcome<data::Dataset> {
    let object =
        |name: &str| tree.get(name).copied().ok_or_else(|| crate::base::Fault::storage(format!("the stored data set has no `{name}`")));
    data::Dataset::from_parts(&store.read(&object("info")?)?, store.shared(&object("samples")?)?, &store.read(&object("labels")?)?)
}
