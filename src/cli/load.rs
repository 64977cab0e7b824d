//! From a pipeline file and the changes of the command line to a plan.
//!
//! The one place where the catalog, the stages and the algorithms of this program are named.

use super::Stop;
use super::args::{Changes, PipelineArgs};
use super::context::Context;
use crate::algorithms::{self, Algorithms};
use crate::base::{Fault, Outcome};
use crate::catalog::{StageCatalog, catalog};
use crate::data;
use crate::plan::Plan;
use crate::spec::{self, Overrides, Pipeline};
use crate::stage::Stages;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The algorithms of this program.
pub(super) fn algorithms() -> Algorithms {
    algorithms::all()
}

/// Every stage kind of this program.
pub(super) fn kinds() -> StageCatalog {
    catalog(&algorithms())
}

/// What runs the stages of this program.
pub(super) fn stages() -> Stages {
    Stages { algorithms: algorithms() }
}

/// A checked pipeline with its plan.
pub(super) struct Project {
    /// The file, absolute where that can be told.
    pub(super) file: PathBuf,
    /// The changes.
    pub(super) changes: Changes,
    /// The pipeline.
    pub(super) pipeline: Pipeline,
    /// Its plan.
    pub(super) plan: Plan,
}

/// Reads and expands a pipeline; its warnings go to standard error.
pub(super) fn load(args: &PipelineArgs, context: &Context<'_>) -> Result<Project, Stop> {
    let project = expand(&args.file, &read(&args.file)?, &args.changes, &context.data)?;
    if !project.pipeline.warnings.is_empty() && !context.terminal.quiet {
        context.terminal.diagnostics(&project.pipeline.warnings);
    }
    Ok(project)
}

/// Bytes of the largest pipeline file.
const MOST: u64 = 16 << 20;

/// The text of a pipeline file.
pub(super) fn read(file: &Path) -> Outcome<String> {
    text(file, "a pipeline", "; `pflpipe new FILE` writes one")
}

/// Name and text of a template.
pub(super) fn template(file: &Path) -> Outcome<(String, String)> {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    Ok((name, text(file, "a template", "")?))
}

/// The text of a file; `what` it is, and what else helps where it is not there.
fn text(file: &Path, what: &str, more: &str) -> Outcome<String> {
    let fault = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Fault::storage(format!("there is no file `{}`", file.display())).help(format!("give the path of {what}{more}"))
        }
        std::io::ErrorKind::InvalidData => Fault::storage(format!("`{}` is not UTF-8 text", file.display())),
        std::io::ErrorKind::IsADirectory => {
            Fault::storage(format!("`{}` is a folder", file.display())).help(format!("give the path of {what}"))
        }
        _ => Fault::io("read", file, &e),
    };
    let mut text = String::new();
    let mut read = std::fs::File::open(file).map_err(fault)?.take(MOST + 1);
    read.read_to_string(&mut text).map_err(fault)?;
    if text.len() as u64 > MOST {
        return Err(Fault::storage(format!("`{}` is too large for {what}", file.display())).help(format!("give the path of {what}")));
    }
    Ok(text)
}

/// Checks and expands the text of a pipeline.
pub(super) fn expand(file: &Path, text: &str, changes: &Changes, data_dirs: &[PathBuf]) -> Result<Project, Stop> {
    let kinds = kinds();
    let overrides = Overrides::parse(&changes.set, &changes.sweep, &changes.filter)?;
    let pipeline = spec::load(file, text, &overrides, &kinds)?;
    let mut plan = Plan::new(&pipeline, &kinds, &changes.device)?;
    for node in plan.nodes.iter_mut().filter(|node| node.kind == "dataset" || node.kind == "partition") {
        let params = node.params.to_map();
        let name = params.get("name").and_then(serde_json::Value::as_str);
        // Files that cannot be read are the stage's business: it says so when it runs.
        node.content = match name {
            Some(name) => data::fingerprint(name, &params, data_dirs),
            None => data::partition::fingerprint(&params, data_dirs),
        }
        .ok()
        .flatten();
    }
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    Ok(Project { file, changes: changes.clone(), pipeline, plan })
}
