//! `table`: the tables of a pipeline or of an earlier run, from what the store has.

use super::annotate;
use super::args::{Changes, PipelineArgs};
use super::context::Context;
use super::gather;
use super::load::{self, Project};
use super::memory::Memory;
use super::output::{Answer, Text, Verbatim};
use super::{Reply, Stop, pfllib, spare, status};
use crate::base::text::{find_row, nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::plan::decide;
use crate::results::published;
use crate::spec::shown::other_rows;
use crate::spec::tables::{SHOWS, TESTS};
use crate::spec::{Compare, Statistics, Table as Layout};
use crate::store::Store;
use crate::table::{Format, Look, Table, format};
use clap::builder::PossibleValuesParser;
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Print the tables of a pipeline from what is in the store; nothing is run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe table pipelines/quickstart.yaml
  pflpipe table pipelines/quickstart.yaml --format latex -o table.tex
  pflpipe table pipelines/quickstart.yaml --test wilcoxon --against fedavg --ranks
  pflpipe table pipelines/quickstart.yaml --format long > samples.csv")]
pub(super) struct Args {
    /// A pipeline, or the name of a run (`pflpipe runs` lists them)
    #[arg(value_name = "FILE|RUN")]
    source: PathBuf,
    #[command(flatten)]
    changes: Changes,
    /// term, md, latex, html, csv, json, long or series [default: term; json with `--output json`]
    ///
    /// `long` is one line a sample and `series` one line an evaluation, both as CSV for pandas or polars.
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Render with a minijinja template of your own instead
    ///
    /// `pflpipe templates latex` prints a built-in one, a good start; README.md lists what a template is given.
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    template: Option<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(short = 'o', value_name = "OUT")]
    out: Option<PathBuf>,
    /// Only the table of this name; may be repeated
    #[arg(long = "name", value_name = "TABLE")]
    names: Vec<String>,
    /// Test rows against each other: wilcoxon, sign, paired-t or welch
    #[arg(long, value_name = "TEST", value_parser = PossibleValuesParser::new(TESTS))]
    test: Option<String>,
    /// The row to test against, or `first`, `best`, `all` [default: first]
    #[arg(long, value_name = "ROW")]
    against: Option<String>,
    /// Published numbers to set beside: a name such as pfllib-table2, or a csv file; may be repeated
    ///
    /// A file is a path from the current folder (one that a pipeline names, from the folder of that pipeline) with the columns
    /// source,table,dataset,model,scenario,algorithm,metric,mean,std. `metric` is a metric of this program, such as test_accuracy, in
    /// [0, 1], or test_acc_pct in percent; `scenario` says the partition: `dirichlet alpha=0.1, N=20`, `pathological 2`, `iid`;
    /// `model` is `4-layer CNN`, `MLP 100 hidden`, `logistic` ... pipelines/README.md has them all.
    #[arg(long, value_name = "TABLE")]
    compare: Vec<String>,
    /// What of a cell's values is shown: mean-sd, mean-interval, median-range, mean or median
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(SHOWS))]
    show: Option<String>,
    /// Add a column of mean ranks
    #[arg(long)]
    ranks: bool,
    /// Put rows under the family of their algorithm
    #[arg(long)]
    families: bool,
    /// The folder of the files that the tables' `formats` ask for [default: `results` beside the pipeline]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Write PFLlib's result files (.h5), one for each training behind the tables, into this folder instead of a table
    #[arg(long, value_name = "DIR", conflicts_with_all = ["format", "template", "out"])]
    pfllib: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let format = args.format.as_deref().map(format::find).transpose()?;
    let template = args.template.as_deref().map(load::template).transpose()?;
    let store = context.existing_store()?;
    let project = open(&args.source, &args.changes, store.as_ref(), context)?;
    let layouts = layouts(&project, args)?;
    let layouts: Vec<&Layout> = layouts.iter().collect();
    if let Some(folder) = &args.pfllib {
        return files(&project, &layouts, folder, context);
    }
    if let Some(out) = &args.out {
        spare::pipeline(out, &project)?;
        let given = args.compare.iter().map(Path::new).chain(args.template.as_deref());
        spare::apart(out, given)?;
    }
    // Opened before anything is computed, so that a path that cannot be written is known at once.
    let out = args.out.as_deref().map(|path| Ok::<_, Fault>((path, create(path)?))).transpose()?;
    let tables = tables(&project, &layouts, store.as_ref(), context)?;
    let text = match (&template, format) {
        (Some((name, template)), _) => Some(format::with_template(name, template, &tables)?),
        (None, Some(format)) if format.name() != "term" || out.is_some() => Some(format.render(&tables, Look::default())?),
        (None, None) if out.is_some() => Some(format::find("term")?.render(&tables, Look::default())?),
        _ => None,
    };
    let asked_for_one = text.is_some();
    match (text, out) {
        (Some(text), Some((path, mut file))) => file.write_all(text.as_bytes()).map_err(|e| Fault::io("write", path, &e))?,
        (Some(text), None) if format.is_some_and(|format| format.name() == "json") => {
            let json = serde_json::from_str(&text).map_err(|e| Fault::internal(format!("a table is not JSON: {e}")))?;
            context.show(&Text { quiet: text.clone(), text, json })?;
        }
        (Some(text), None) => context.show(&Verbatim(text))?,
        (None, _) => context.show(&Shown(tables.clone()))?,
    }
    if !asked_for_one {
        annotate::write(&tables, &layouts, &project, &annotate::folder(&project, args.results.as_deref()), context)?;
    }
    Ok(0)
}

/// Writes the result files of another program.
fn files(project: &Project, layouts: &[&Layout], folder: &Path, context: &mut Context<'_>) -> Reply {
    let store = context.needed_store()?;
    let memory = Memory::of(Some(&store));
    let decisions = decide(&project.plan, &memory, &|_| false);
    let found = gather::found(&project.plan, &decisions, Some(&store));
    let paths = pfllib::write(project, layouts, &found, &store, folder)?;
    context.pass_warnings(&store);
    let text: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    context.show(&Text { quiet: text.clone(), text, json: pfllib::told(&paths) })?;
    Ok(0)
}

/// The layouts of the chosen tables, with what the command line changes in them.
fn layouts(project: &Project, args: &Args) -> Outcome<Vec<Layout>> {
    let plan = &project.plan;
    for name in &args.names {
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
    let known = |name: &&String| name.ends_with(".csv") || published::NAMES.contains(&name.as_str());
    if let Some(name) = args.compare.iter().find(|name| !known(name)) {
        let help = match nearest(name, published::NAMES) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("choose from {}, or give a csv file", quoted(published::NAMES)),
        };
        return Err(Fault::usage(format!("there is no published table `{name}`")).help(help));
    }
    let mut layouts: Vec<Layout> =
        plan.tables.iter().filter(|table| args.names.is_empty() || args.names.contains(&table.name)).cloned().collect();
    for layout in &mut layouts {
        if args.test.is_some() || args.against.is_some() {
            let statistics = layout.statistics.get_or_insert_with(Statistics::default);
            if let Some(test) = &args.test {
                statistics.test.clone_from(test);
            }
            if let Some(row) = &args.against {
                statistics.against.clone_from(row);
            }
        }
        if let Some(name) = args.against.as_ref().filter(|name| !["first", "best", "all"].contains(&name.as_str())) {
            let mut rows: Vec<String> = Vec::new();
            for cell in &layout.cells {
                let (row, _) = gather::place(layout, &plan.coords(*cell), 0);
                if !rows.contains(&row) {
                    rows.push(row);
                }
            }
            if find_row(&rows, name).is_none() {
                let what = format!("`{name}` of `--against` is not a row of table `{}`", layout.name);
                return Err(Fault::usage(what).help(other_rows(&rows, name)));
            }
        }
        if !args.compare.is_empty() {
            let compare = layout.compare.get_or_insert_with(Compare::default);
            compare.tables.clone_from(&args.compare);
            // A path on the command line is one from the current folder, wherever the pipeline is.
            compare.files = args.compare.iter().filter(|name| name.ends_with(".csv")).map(|name| (name.clone(), name.into())).collect();
        }
        if args.show.is_some() {
            layout.show.clone_from(&args.show);
        }
        layout.ranks |= args.ranks;
        layout.families |= args.families;
    }
    Ok(layouts)
}

/// The project of a pipeline file, or of a run: its text and changes are in the store.
pub(super) fn open(source: &Path, changes: &Changes, store: Option<&Store>, context: &Context<'_>) -> Result<Project, Stop> {
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

fn tables(project: &Project, layouts: &[&Layout], store: Option<&Store>, context: &Context<'_>) -> Outcome<Vec<Table>> {
    let plan = &project.plan;
    if plan.tables.is_empty() {
        context.terminal.note("the pipeline has no tables");
    }
    let memory = Memory::of(store);
    let decisions = decide(plan, &memory, &|_| false);
    let found = gather::found(plan, &decisions, store);
    let mut gathered = gather::tables(plan, layouts, &found, store)?;
    annotate::complete(&mut gathered.tables, project, layouts)?;
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
    annotate::there(annotate::beside(path))?;
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
