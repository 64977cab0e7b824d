//! Result files as PFLlib writes them: one `DATA_ALGORITHM_GOAL_TIMES.h5` for each training behind a table, for its plotting scripts.

use super::annotate;
use super::compared;
use super::gather::Found;
use super::load::{self, Project};
use crate::base::{Fault, Outcome};
use crate::fl::History;
use crate::fl::history::Measured;
use crate::results::h5;
use crate::spec::Table as Layout;
use crate::spec::node::short;
use crate::store::Store;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// Writes the files into a folder and tells their paths. `GOAL` is what of the sweep neither the algorithm nor the repetition says,
/// `TIMES` the repetition, counted from 0.
///
/// # Errors
/// A storage fault when a result cannot be read or a file cannot be written.
pub(super) fn write(project: &Project, layouts: &[&Layout], found: &[Found], store: &Store, folder: &Path) -> Outcome<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).map_err(|e| Fault::io("create", folder, &e))?;
    let (plan, algorithms) = (&project.plan, load::algorithms());
    let (mut seen, mut times, mut paths): (HashSet<usize>, BTreeMap<String, usize>, Vec<PathBuf>) = Default::default();
    for layout in layouts {
        for (cell, value) in layout.cells.iter().flat_map(|cell| layout.values.iter().map(move |value| (*cell, value))) {
            let Some(node) = plan.node_for(cell, &value.stage) else { continue };
            let Some(Found::Metrics(digest, _)) = found.get(node.index()) else { continue };
            if !seen.insert(node.index()) {
                continue;
            }
            let Ok(history) = serde_json::from_slice::<History>(&store.read(digest)?) else { continue };
            let params = plan.node(node).params.to_map();
            let algorithm = params.get("algorithm").map(short).unwrap_or_default();
            let bare = algorithm.split('(').next().unwrap_or_default();
            let title = algorithms.get(bare).map_or(bare, |entry| entry.description.title);
            let goal: Vec<String> = plan
                .node(node)
                .coords
                .iter()
                .filter(|(axis, _)| !layout.over.contains(axis))
                .filter_map(|(axis, value)| {
                    let text = short(value);
                    // Of the algorithm only the hyper-parameters that the sweep gives.
                    match text.strip_prefix(bare) {
                        Some("") => None,
                        Some(rest) => Some(rest.to_owned()),
                        None => Some(format!("{axis}{text}")),
                    }
                })
                .collect();
            let goal = goal.join("-");
            let data = compared::setup(plan, node).dataset.unwrap_or_default();
            let stem = format!("{}_{}_{}", plain(&data), plain(title), if goal.is_empty() { "test".to_owned() } else { plain(&goal) });
            let n = times.entry(stem.clone()).or_default();
            let path = folder.join(format!("{stem}_{n}.h5"));
            *n += 1;
            annotate::replace(&path, &h5::file(&arrays(&history)))?;
            paths.push(path);
        }
    }
    Ok(paths)
}

/// One value an evaluation; what was not measured is NaN.
fn arrays(history: &History) -> [(&'static str, Vec<f64>); 3] {
    let of = |pick: fn(&Measured) -> Option<f64>| -> Vec<f64> {
        history.evaluations.iter().map(|e| e.views.get(&history.headline).and_then(pick).unwrap_or(f64::NAN)).collect()
    };
    [
        ("rs_test_acc", of(|m| m.accuracy)),
        ("rs_test_auc", of(|m| m.auc)),
        ("rs_train_loss", history.evaluations.iter().map(|e| e.train_loss.unwrap_or(f64::NAN)).collect()),
    ]
}

/// A part of a file's name: no separators of paths, and no underscore, which PFLlib's own tools split at.
fn plain(text: &str) -> String {
    let kept = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '.' | '=') { c } else { '-' };
    let text: String = text.chars().map(kept).collect();
    text.trim_matches(['-', '.']).to_owned()
}

/// The paths for programs and people.
pub(super) fn told(paths: &[PathBuf]) -> Value {
    paths.iter().map(|path| Value::String(path.display().to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fl::history::Evaluation;

    #[test]
    fn what_was_not_measured_is_not_a_number() {
        let measured = Measured { accuracy: Some(0.5), auc: None, ..Measured::of(Vec::new()) };
        let evaluation = Evaluation {
            round: 0,
            finished: false,
            views: BTreeMap::from([("global".to_owned(), measured)]),
            train_loss: None,
            floats_down: 0,
            floats_up: 0,
            gradient_evaluations: 0,
            threat: None,
            validation: None,
            figures: BTreeMap::new(),
        };
        let history = History { headline: "global".into(), evaluations: vec![evaluation], ..History::default() };
        let [accuracy, auc, loss] = arrays(&history);
        assert_eq!(accuracy, ("rs_test_acc", vec![0.5]));
        assert!(auc.1[0].is_nan() && loss.1[0].is_nan());
        assert_eq!(plain("optdigits (first 600)"), "optdigits--first-600");
        assert_eq!(plain("../x_y"), "x-y");
    }
}
