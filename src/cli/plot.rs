//! `plot`: a drawing of results as SVG.

use super::args::Changes;
use super::context::Context;
use super::load::Project;
use super::memory::Memory;
use super::output::{Text, Verbatim};
use super::{Reply, annotate, evidence, gather, spare, table};
use crate::base::Fault;
use crate::base::text::{count, nearest, quoted};
use crate::plan::decide;
use crate::report::Figure;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Draw results as SVG: readable in print, by the color-blind, and in light and dark mode.
#[derive(Debug, clap::Args)]
#[command(after_help = "Kinds:
  curves     learning curves: mean and sample sd over seeds
  sweep      the value of each row over a numeric column axis, with sample sd
  heat       the value of each row and column as a shade, where columns are no numbers
  clients    the accuracy of every client
  cost       accuracy against floats sent and against gradient evaluations, with the front
  critical   critical-difference diagram of the mean ranks
  partition  which client has how many samples of which class
  features   features of test samples by class and client, on their principal components
  tsne       features of test samples by class and client, by t-SNE

Examples:
  pflpipe plot pipelines/quickstart.yaml --kind curves --column 0.1 -o curves.svg
  pflpipe plot pipelines/quickstart.yaml -o plots")]
pub(super) struct Args {
    /// A pipeline, or the name of a run
    #[arg(value_name = "FILE|RUN")]
    source: PathBuf,
    #[command(flatten)]
    changes: Changes,
    /// What to draw; may be repeated [default: everything that there is something to draw of]
    #[arg(long = "kind", value_name = "KIND", value_parser = PossibleValuesParser::new(evidence::KINDS.map(|(name, _)| name)))]
    kinds: Vec<String>,
    /// Only of the table of this name
    #[arg(long, value_name = "TABLE")]
    name: Option<String>,
    /// Only of the column of this label
    #[arg(long, value_name = "LABEL")]
    column: Option<String>,
    /// A file that ends in .svg for one drawing, or a folder for all [default: standard output]
    #[arg(short = 'o', value_name = "OUT")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    if let Some(out) = args.out.as_deref().filter(|out| !out.is_dir())
        && let Some(end) = out.extension().and_then(|end| end.to_str()).filter(|end| OTHERS.contains(&end.to_lowercase().as_str()))
    {
        return Err(Fault::usage(format!("drawings are SVG only, and `{}` ends in `.{end}`", out.display()))
            .help(format!(
                "write `{}`, or give a folder; browsers and Inkscape turn SVG into other formats",
                out.with_extension("svg").display()
            ))
            .into());
    }
    let store = context.needed_store()?;
    let project = table::open(&args.source, &args.changes, Some(&store), context)?;
    let plan = &project.plan;
    if let Some(name) = &args.name
        && !plan.tables.iter().any(|table| table.name == *name)
    {
        let known = || plan.tables.iter().map(|table| table.name.as_str());
        let help = match nearest(name, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if plan.tables.is_empty() => "the pipeline has no `tables`".to_owned(),
            None => format!("its tables are {}", quoted(known())),
        };
        return Err(Fault::usage(format!("`{name}` is not a table of the pipeline")).help(help).into());
    }
    let memory = Memory::of(Some(&store));
    let decisions = decide(plan, &memory, &|_| false);
    let found = gather::found(plan, &decisions, Some(&store));
    let layouts: Vec<_> = plan.tables.iter().filter(|table| args.name.as_ref().is_none_or(|name| table.name == *name)).collect();
    let mut tables = gather::tables(plan, &layouts, &found, Some(&store))?.tables;
    annotate::complete(&mut tables, &project, &layouts)?;
    if let Some(label) = &args.column {
        let mut known: Vec<&str> = Vec::new();
        for column in tables.iter().flat_map(|table| &table.columns) {
            if !known.contains(&column.label.as_str()) {
                known.push(&column.label);
            }
        }
        if !known.contains(&label.as_str()) {
            let help = match nearest(label, known.iter().copied()) {
                Some(near) if label.chars().count() > 2 => format!("did you mean `{near}`?"),
                _ => format!("the columns are {}", quoted(known)),
            };
            return Err(Fault::usage(format!("`{label}` is not the label of a column")).help(help).into());
        }
    }
    let all: Vec<&str> = evidence::KINDS.iter().map(|(name, _)| *name).collect();
    let kinds: Vec<&str> = if args.kinds.is_empty() { all } else { args.kinds.iter().map(String::as_str).collect() };
    let mut figures: Vec<Figure> = Vec::new();
    for (table, layout) in tables.iter().zip(&layouts) {
        let mut table = table.clone();
        if let Some(label) = &args.column {
            table.keep_columns(|column| column.label == *label);
        }
        figures.extend(evidence::figures(&table, layout, plan, &found, &store, &kinds));
    }
    if kinds.contains(&"partition") {
        figures.extend(evidence::partitions(plan, &decisions, &store));
    }
    for (kind, tsne) in [("features", false), ("tsne", true)] {
        if kinds.contains(&kind) {
            figures.extend(evidence::features(plan, &decisions, &store, tsne));
        }
    }
    context.pass_warnings(&store);
    let [figure] = figures.as_slice() else {
        if figures.is_empty() {
            return Err(Fault::usage("there is nothing to draw of these kinds")
                .help("`pflpipe run FILE` makes results; a sweep needs a numeric column axis, critical differences three complete rows")
                .into());
        }
        return several(&figures, args, &project, context);
    };
    match &args.out {
        Some(out) if out.extension().is_none_or(|end| end != "svg") => several(&figures, args, &project, context),
        Some(out) => {
            spare::pipeline(out, &project)?;
            annotate::replace(out, figure.svg.document().as_bytes())?;
            Ok(0)
        }
        None => {
            context.show(&Verbatim(figure.svg.document()))?;
            Ok(0)
        }
    }
}

/// Endings of files that somebody may hope for.
const OTHERS: [&str; 14] = ["png", "pdf", "jpg", "jpeg", "eps", "ps", "gif", "webp", "tif", "tiff", "bmp", "html", "htm", "emf"];

/// One file a drawing.
fn several(figures: &[Figure], args: &Args, project: &Project, context: &mut Context<'_>) -> Reply {
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    let Some(folder) = args.out.as_ref().filter(|out| out.extension().is_none_or(|end| end != "svg")) else {
        return Err(Fault::usage(format!("{} do not fit into one file: {}", count(figures.len(), "drawing"), quoted(names)))
            .help("choose with `--kind`, `--name` and `--column`, or give a folder with `-o`")
            .into());
    };
    std::fs::create_dir_all(folder).map_err(|e| Fault::io("create", folder, &e))?;
    let mut paths = Vec::new();
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    for figure in figures {
        // Names that differ only in signs that no file should have are told apart by a number; some file systems know no upper case.
        let times = taken.entry(figure.name.to_lowercase()).and_modify(|times| *times += 1).or_insert(1);
        let number = if *times > 1 { format!("-{times}") } else { String::new() };
        let path = folder.join(format!("{}{number}.svg", figure.name));
        spare::pipeline(&path, project)?;
        annotate::replace(&path, figure.svg.document().as_bytes())?;
        paths.push(path.display().to_string());
    }
    let text: String = paths.iter().map(|path| format!("{path}\n")).collect();
    context.show(&Text { quiet: text.clone(), text, json: json!(paths) })?;
    Ok(0)
}
