//! `table`: the tables of a pipeline or of an earlier run, from what the store has.

use super::args::{Changes, PipelineArgs};
use super::context::Context;
use super::gather;
use super::load::{self, Project};
use super::memory::Memory;
use super::output::{Answer, Text, Verbatim};
use super::{Reply, Stop, status};
use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::plan::decide;
use crate::store::Store;
use crate::table::{Format, Look, Table, format};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Print the tables of a pipeline from what is in the store; nothing is run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe table pipelines/quickstart.yaml
  pflpipe table pipelines/quickstart.yaml --format latex -o table.tex")]
pub(super) struct Args {
    /// A pipeline, or the name of a run (`pflpipe runs` lists them)
    #[arg(value_name = "FILE|RUN")]
    source: PathBuf,
    #[command(flatten)]
    changes: Changes,
    /// term, md, latex, csv or json [default: term; json with `--output json`]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Write to this file instead of standard output
    #[arg(short = 'o', value_name = "OUT")]
    out: Option<PathBuf>,
    /// Only the table of this name; may be repeated
    #[arg(long = "name", value_name = "TABLE")]
    names: Vec<String>,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let format = args.format.as_deref().map(format::find).transpose()?;
    let store = context.existing_store()?;
    let project = open(&args.source, &args.changes, store.as_ref(), context)?;
    // Opened before anything is computed, so that a path that cannot be written is known at once.
    let out = args.out.as_deref().map(|path| Ok::<_, Fault>((path, create(path)?))).transpose()?;
    let tables = tables(&project, &args.names, store.as_ref(), context)?;
    match (format, out) {
        (format, Some((path, mut file))) => {
            let text = format.map_or_else(|| format::find("term"), Ok)?.render(&tables, Look::default())?;
            file.write_all(text.as_bytes()).map_err(|e| Fault::io("write", path, &e))?;
        }
        (Some(format), None) if format.name() == "json" => {
            let text = format.render(&tables, Look::default())?;
            let json = serde_json::from_str(&text).map_err(|e| Fault::internal(format!("a table is not JSON: {e}")))?;
            context.show(&Text { quiet: text.clone(), text, json })?;
        }
        (Some(format), None) if format.name() != "term" => context.show(&Verbatim(format.render(&tables, Look::default())?))?,
        _ => context.show(&Shown(tables))?,
    }
    Ok(0)
}

/// The project of a pipeline file, or of a run: its text and changes are in the store.
fn open(source: &Path, changes: &Changes, store: Option<&Store>, context: &Context<'_>) -> Result<Project, Stop> {
    let (false, Some(store)) = (source.exists(), store) else {
        let args = PipelineArgs { file: source.to_owned(), changes: changes.clone() };
        return load::load(&args, context);
    };
    let info = status::find(store, &source.to_string_lossy())?;
    let plan = store.run_plan(&info.id).unwrap_or_default();
    let file: PathBuf = plan.get("file").and_then(Value::as_str).map_or_else(|| info.pipeline.clone().into(), PathBuf::from);
    let mut kept: Changes = plan.get("changes").and_then(|changes| serde_json::from_value(changes.clone()).ok()).unwrap_or_default();
    // What is typed now comes on top of what was typed then.
    kept.set.extend(changes.set.iter().cloned());
    kept.sweep.extend(changes.sweep.iter().cloned());
    kept.filter.extend(changes.filter.iter().cloned());
    load::expand(&file, &store.run_text(&info.id)?, &kept, &context.data)
}

fn tables(project: &Project, names: &[String], store: Option<&Store>, context: &Context<'_>) -> Outcome<Vec<Table>> {
    let plan = &project.plan;
    for name in names {
        let known: Vec<&str> = plan.tables.iter().map(|table| table.name.as_str()).collect();
        if !known.contains(&name.as_str()) {
            let help = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "the pipeline has no `tables`".to_owned(),
                None => format!("its tables are {}", quoted(known)),
            };
            return Err(Fault::usage(format!("`{name}` is not a table of the pipeline")).help(help));
        }
    }
    if plan.tables.is_empty() {
        context.terminal.note("the pipeline has no tables");
    }
    let memory = Memory::of(store);
    let decisions = decide(plan, &memory, &|_| false);
    let found = gather::found(plan, &decisions, store);
    let layouts: Vec<_> = plan.tables.iter().filter(|table| names.is_empty() || names.contains(&table.name)).collect();
    let gathered = gather::tables(plan, &layouts, &found, store)?;
    if let Some(store) = store {
        context.pass_warnings(store);
    }
    if gathered.damaged > 0 {
        let line = format!("{} damaged and left out; `pflpipe run` makes them anew", were(gathered.damaged));
        context.terminal.warning(&line);
    }
    Ok(gathered.tables)
}

fn were(n: usize) -> String {
    if n == 1 { "1 result was".to_owned() } else { format!("{n} results were") }
}

fn create(path: &Path) -> Outcome<File> {
    File::create(path).map_err(|e| Fault::io("create", path, &e))
}

struct Shown(Vec<Table>);

impl Shown {
    fn rendered(&self, format: &dyn Format, look: Look) -> Outcome<String> {
        if self.0.is_empty() && format.name() == "term" { Ok(String::new()) } else { format.render(&self.0, look) }
    }
}

impl Answer for Shown {
    fn table(&self, look: Look) -> Outcome<String> {
        self.rendered(format::find("term")?, look)
    }
    fn json(&self) -> Outcome<Value> {
        let text = self.rendered(format::find("json")?, Look::default())?;
        serde_json::from_str(&text).map_err(|e| Fault::internal(format!("a table is not JSON: {e}")))
    }
    fn quiet(&self) -> Outcome<String> {
        self.rendered(format::find("csv")?, Look::default())
    }
}
