//! `partition`: what a partition looks like, and its index lists for other programs.
//!
//! A partition is made anew from the pipeline's data, which takes no longer than reading them; the store is not touched.

use super::args::{Changes, PipelineArgs};
use super::context::Context;
use super::output::{Answer, Text, columns};
use super::target::Target;
use super::{Reply, load, spare};
use crate::base::text::{bytes, count, quoted};
use crate::base::{Fault, Outcome};
use crate::data::partition::{ClientSummary, Manifest, Partition, Population, build_from, exported, made as imported, noise};
use crate::data::{self, Added, Dataset, Made};
use crate::plan::{NodeId, Plan};
use crate::table::Look;
use clap::{Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Show a partition, or write its index lists for other programs.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true, disable_help_subcommand = true)]
#[command(after_help = "Example:
  pflpipe partition show pipelines/quickstart.yaml split")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(Show),
    Export(Export),
}

/// Show sizes, labels and heterogeneity of partitions
///
/// Indices, from the label distribution of each client against that of all together: total variation (0 to 1), Jensen-Shannon
/// divergence (base 2, 0 to 1), effective classes (the exponential of the entropy). The size cv is the standard deviation of the
/// client sizes over their mean; label sets counts the different sets of classes that clients hold.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe partition show pipelines/quickstart.yaml
  pflpipe partition show pipelines/quickstart.yaml 'split[alpha=0.1, seed=0]' --svg split.svg
  pflpipe partition show exported.json")]
struct Show {
    #[command(flatten)]
    from: From,
    /// Write the bubble plot as SVG to this file, too
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Show every client, not only the first 30
    #[arg(long)]
    all: bool,
}

/// Write a partition's index lists: json, npz, or a folder as PFLlib's scripts make it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe partition export pipelines/quickstart.yaml split --format npz -o split.npz
  pflpipe partition export pipelines/quickstart.yaml split --format pfllib -o dataset/MNIST")]
struct Export {
    #[command(flatten)]
    from: From,
    /// The format; `pfllib` writes a folder with the samples in it
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    format: Format,
    /// The file to write; a folder for `pfllib`
    #[arg(short = 'o', value_name = "OUT")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Format {
    /// Lists of samples, and counts
    Json,
    /// Flat arrays with offsets, for numpy
    Npz,
    /// `train/ID.npz`, `test/ID.npz` and `config.json`
    Pfllib,
}

#[derive(Debug, clap::Args)]
struct From {
    /// A pipeline, or a file that `partition export` wrote as json (to the format `pfllib` only a pipeline, which has the samples)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The stage with its coordinates; all partitions of the pipeline when left out
    #[arg(value_name = "STAGE")]
    stage: Option<String>,
    #[command(flatten)]
    changes: Changes,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    match &args.command {
        Command::Show(args) => show(args, context),
        Command::Export(args) => export(args, context),
    }
}

/// So many partitions are shown one by one; of more only the indices.
const AT_ONCE: usize = 1;

fn show(args: &Show, context: &mut Context<'_>) -> Reply {
    let mut shown: Vec<(String, Manifest)> = Vec::new();
    if let Some(file) = args.from.lists()? {
        shown.push((file.display().to_string(), exported(file)?.manifest));
    } else {
        each(&args.from, args.svg.as_deref(), context, &mut |label, data, made, _| {
            shown.push((label.to_owned(), made.manifest(data.labels())?));
            Ok(())
        })?;
    }
    if let Some(path) = &args.svg {
        let [(label, manifest)] = shown.as_slice() else {
            let labels: Vec<&str> = shown.iter().take(3).map(|(label, _)| label.as_str()).collect();
            let fault = Fault::usage(format!("`--svg` draws one partition, but {} are meant", count(shown.len(), "partition")));
            return Err(fault.help(format!("name one of them: {} ...", quoted(labels))).into());
        };
        spare::apart(path, [args.from.file.as_path()])?;
        std::fs::write(path, manifest.svg(label)).map_err(|e| Fault::io("write", path, &e))?;
    }
    context.show(&Shown { partitions: shown, all: args.all })?;
    Ok(0)
}

impl From {
    /// The file, where it is one of index lists and no pipeline.
    fn lists(&self) -> Outcome<Option<&Path>> {
        let is = |ending: &str| self.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(ending));
        if is("npz") {
            let what = format!("`{}` holds index lists as npz, which do not say what the classes of the samples are", self.file.display());
            return Err(Fault::usage(what).help("export the partition as json, or name a pipeline with `kind: imported` and this `file`"));
        }
        if !is("json") {
            return Ok(None);
        }
        if let Some(stage) = &self.stage {
            return Err(Fault::usage(format!("`{}` is one partition and has no stage `{stage}`", self.file.display()))
                .help("leave the stage out, or name a pipeline"));
        }
        Ok(Some(&self.file))
    }
}

/// Writes a file, and the folder that it lies in; returns its size in bytes.
fn put(path: &Path, content: &[u8]) -> Outcome<u64> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|e| Fault::io("create", folder, &e))?;
    }
    std::fs::write(path, content).map_err(|e| Fault::io("write", path, &e))?;
    Ok(content.len() as u64)
}

/// Writes index lists that were exported before; returns the bytes and the clients.
fn export_again(file: &Path, args: &Export) -> Outcome<(u64, usize)> {
    let found = exported(file)?;
    let size = match args.format {
        Format::Json => put(&args.out, &std::fs::read(file).map_err(|e| Fault::io("read", file, &e))?)?,
        Format::Npz => put(&args.out, &found.partition.to_npz(found.alpha)?)?,
        Format::Pfllib => {
            let what = format!("`{}` has no samples, which `--format pfllib` writes", file.display());
            return Err(Fault::usage(what).help("name a pipeline whose partition has `kind: imported` and this `file`"));
        }
    };
    Ok((size, found.partition.clients().len()))
}

fn export(args: &Export, context: &mut Context<'_>) -> Reply {
    let mut written: Option<(u64, usize)> = None;
    let dirs = context.data.clone();
    let lists = args.from.lists()?;
    if let Some(file) = lists {
        spare::apart(&args.out, [file])?;
        written = Some(export_again(file, args)?);
    }
    let mut then = |_: &str, data: &Dataset, made: &Partition, params: &Map<String, Value>| {
        if written.is_some() {
            return Err(Fault::usage("more than one partition is meant, but one is exported at a time")
                .help("name the stage with its coordinates, as `pflpipe partition show` lists them"));
        }
        let mut size = 0;
        let mut put = |path: &Path, content: &[u8]| -> Outcome<()> {
            size += put(path, content)?;
            Ok(())
        };
        let told = told(data.name(), made.kind(), params, &dirs)?;
        match args.format {
            Format::Json => put(&args.out, made.to_json(data.labels(), told.alpha)?.to_string().as_bytes())?,
            Format::Npz => put(&args.out, &made.to_npz(told.alpha)?)?,
            Format::Pfllib => {
                let noisy = noise(made.kind(), params)?.map(|noise| noise.add(data.clone(), made)).transpose()?;
                data::export_pfllib(noisy.as_ref().unwrap_or(data), made, &told, &mut |name, content| put(&args.out.join(name), content))?;
            }
        }
        written = Some((size, made.clients().len()));
        Ok(())
    };
    if lists.is_none() {
        each(&args.from, Some(&args.out), context, &mut then)?;
    }
    let (size, clients) = written.unwrap_or_default();
    let path = args.out.display();
    context.show(&Text {
        text: format!("{}, {} written to {path}\n", count(clients, "client"), bytes(size)),
        json: json!({"path": args.out, "clients": clients, "bytes": size}),
        quiet: format!("{path}\n"),
    })?;
    Ok(0)
}

/// How the clients were made: as the parameters say, or whoever made what was imported.
fn told(name: &str, kind: &str, params: &Map<String, Value>, dirs: &[PathBuf]) -> Outcome<Made> {
    let own = || Made::by(kind, params.get("alpha").and_then(Value::as_f64));
    if kind != "imported" {
        return Ok(own());
    }
    let made = match imported(params, dirs)? {
        None if !params.contains_key("file") => Added::find(name, dirs)?.map(|added| added.made()).transpose()?,
        made => made,
    };
    Ok(made.unwrap_or_else(own))
}

/// What is done with a partition, given its name, its data set, itself and its parameters.
type Then<'a> = dyn FnMut(&str, &Dataset, &Partition, &Map<String, Value>) -> Outcome<()> + 'a;

/// Makes every partition that is meant, one after the other.
fn each(from: &From, out: Option<&Path>, context: &Context<'_>, then: &mut Then<'_>) -> Result<(), super::Stop> {
    let project = load::load(&PipelineArgs { file: from.file.clone(), changes: from.changes.clone() }, context)?;
    if let Some(out) = out {
        spare::pipeline(out, &project)?;
    }
    let plan = &project.plan;
    let ids: Vec<NodeId> = match &from.stage {
        Some(stage) => Target::parse(stage).find(plan)?,
        None => plan.order().filter(|id| plan.node(*id).kind == "partition").collect(),
    };
    if ids.is_empty() {
        return Err(Fault::usage("the pipeline has no partitions").into());
    }
    let mut last: Option<(NodeId, Dataset)> = None;
    for id in ids {
        let node = plan.node(id);
        let input = node.inputs.iter().find(|input| &*input.slot == "data").filter(|_| node.kind == "partition");
        let Some(input) = input else {
            return Err(Fault::usage(format!("`{}` is no partition, but a `{}`", node.label(), node.kind)).into());
        };
        // Partitions of one data set mostly follow each other.
        let data = match last.take().filter(|(of, _)| *of == input.node) {
            Some((_, data)) => data,
            None => read(plan, input.node, context)?,
        };
        let params = node.params.to_map();
        let kind = params.get("kind").and_then(Value::as_str).unwrap_or_default();
        let made = build_from(kind, &params, &Population::of(&data), &context.data).map_err(|fault| fault.at(node.label()))?;
        then(&node.label(), &data, &made, &params)?;
        last = Some((input.node, data));
    }
    Ok(())
}

fn read(plan: &Plan, id: NodeId, context: &Context<'_>) -> Outcome<Dataset> {
    let params = plan.node(id).params.to_map();
    data::load(params.get("name").and_then(Value::as_str).unwrap_or_default(), &params, &context.data)
}

struct Shown {
    partitions: Vec<(String, Manifest)>,
    all: bool,
}

impl Answer for Shown {
    fn table(&self, look: Look) -> Outcome<String> {
        let header = ["partition", "clients", "sizes", "size cv", "total variation", "Jensen-Shannon", "eff. classes", "label sets"];
        let row = |(label, m): &(String, Manifest)| {
            let i = &m.indices;
            vec![
                label.clone(),
                m.clients.len().to_string(),
                format!("{} to {}", i.size_min, i.size_max),
                format!("{:.3}", i.size_cv),
                format!("{:.3}, at most {:.3}", i.total_variation_mean, i.total_variation_max),
                format!("{:.3}, at most {:.3}", i.jensen_shannon_mean, i.jensen_shannon_max),
                format!("{:.2}", i.effective_classes_mean),
                i.label_sets.to_string(),
            ]
        };
        let mut out = columns(&header, &self.partitions.iter().map(row).collect::<Vec<_>>());
        if self.partitions.len() <= AT_ONCE {
            for (_, manifest) in &self.partitions {
                out.push('\n');
                out.push_str(&remarks(manifest));
                out.push_str(&clients(manifest, if self.all { usize::MAX } else { 30 }));
                out.push('\n');
                out.push_str(&manifest.bubbles(look.width.unwrap_or(100)));
            }
        }
        Ok(out)
    }
    fn json(&self) -> Outcome<Value> {
        Ok(self.partitions.iter().map(|(label, manifest)| json!({"partition": label, "manifest": manifest})).collect())
    }
    fn quiet(&self) -> Outcome<String> {
        Ok(self.partitions.iter().map(|(label, _)| format!("{label}\n")).collect())
    }
}

/// Whose rule it is, and what happened on the way.
fn remarks(m: &Manifest) -> String {
    let flags = &m.flags;
    let mut all = vec![format!("{}, {}", m.kind, m.variant.describe().0), count(m.samples, "sample")];
    all.push(if m.disjoint { "disjoint".into() } else { format!("{} held by a client more", count(flags.overlaps as usize, "sample")) });
    all.push(if m.complete { "complete".into() } else { format!("{} left out", count(flags.left_out as usize, "sample")) });
    if flags.held_out > 0 {
        all.push(format!("{} held out", count(flags.held_out as usize, "sample")));
    }
    if flags.attempts > 1 {
        all.push(format!("{} draws", flags.attempts));
    }
    if flags.repaired {
        all.push(format!("REPAIRED: {} moved", count(flags.moved as usize, "sample")));
    }
    for (side, of) in [("training", (|client| client.train) as fn(&ClientSummary) -> usize), ("test", |client| client.test)] {
        let without = m.clients.iter().filter(|client| of(client) == 0).count();
        if without > 0 {
            all.push(format!("{} WITHOUT {side} samples", count(without, "client")));
        }
    }
    all.join("; ") + "\n\n"
}

/// The most classes with a column of their own.
const COLUMNS: usize = 20;

fn clients(m: &Manifest, most: usize) -> String {
    let classes: Vec<String> = (0..m.classes.min(COLUMNS)).map(|class| class.to_string()).collect();
    let mut header = vec!["client", "train", "test", "TV"];
    header.extend(classes.iter().map(String::as_str));
    let row = |(id, client): (usize, &ClientSummary)| {
        let mut row = vec![id.to_string(), client.train.to_string(), client.test.to_string(), format!("{:.2}", client.total_variation)];
        row.extend(client.counts.iter().take(COLUMNS).map(|&n| if n == 0 { "-".to_owned() } else { n.to_string() }));
        row
    };
    let rows: Vec<Vec<String>> = m.clients.iter().enumerate().take(most).map(row).collect();
    let mut out = columns(&header, &rows);
    if m.clients.len() > rows.len() {
        out.push_str(&format!("{} more clients (`--all` shows them)\n", m.clients.len() - rows.len()));
    }
    if m.classes > COLUMNS {
        out.push_str(&format!("{} more classes\n", m.classes - COLUMNS));
    }
    out
}
