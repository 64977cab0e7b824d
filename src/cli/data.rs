//! `data`: what data sets there are, where their files come from and lie, and whether they are sound.

use super::Reply;
use super::algorithms::kind;
use super::context::Context;
use super::message::say;
use super::output::{Listing, Text, columns};
use crate::base::text::{bytes, count, nearest, quoted};
use crate::base::{Fault, FaultKind, Outcome};
use crate::data::fetch::{Fetched, fetch};
use crate::data::{self, Added, Dataset, Entry, entries};
use crate::spec::catalog::{Default, Variant};
use crate::spec::node::short;
use clap::{Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// List, describe, fetch, verify and add data sets
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true, disable_help_subcommand = true)]
#[command(after_help = "Example:
  pflpipe data fetch fashion-mnist --data ~/data")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the data sets, with their licenses and whether their files are there
    #[command(after_help = "Example:\n  pflpipe data list --data ~/data")]
    List,
    /// Describe a data set: files, checksums, license, parameters, where it lies
    #[command(after_help = "Example:\n  pflpipe data info cifar100")]
    Info {
        /// The data set
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Fetch the files of data sets into the first data folder; what was begun goes on where it stopped
    ///
    /// Checksums are compared, archives stay packed. Files that a program cannot fetch, or when there is no network, are listed with
    /// their address and the folder to put them into (exit code 4).
    #[command(after_help = "Example:\n  pflpipe data fetch mnist fashion-mnist --data ~/data")]
    Fetch {
        /// The data sets
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    /// Read data sets as a pipeline would, and compare their files with the published checksums (exit code 4 when one is not sound)
    #[command(after_help = "Examples:\n  pflpipe data verify\n  pflpipe data verify ag-news --set subset=test")]
    Verify {
        /// The data sets [default: all whose files are there]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// A parameter of the data set, as in a pipeline; may be repeated
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
    },
    /// Make a folder of another program known as a data set with its clients
    ///
    /// Afterwards `{dataset: {name: NAME}}` is its samples, and `{partition: {data: ..., kind: imported}}` its clients and their split.
    /// The folder stays where it is; the first data folder remembers it.
    #[command(after_help = "Example:\n  pflpipe data add pfllib ~/PFLlib/dataset/MNIST --name mnist-dir01 --data ~/data")]
    Add {
        /// Whose folder it is
        #[arg(value_name = "KIND")]
        kind: Kind,
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The name in pipelines
        #[arg(long, value_name = "NAME")]
        name: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// `train/`, `test/` and `config.json` of PFLlib's scripts
    Pfllib,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    match &args.command {
        Command::List => list(context),
        Command::Info { name } => info(name, context),
        Command::Fetch { names } => fetch_all(names, context),
        Command::Verify { names, set } => verify(names, set, context),
        Command::Add { kind: Kind::Pfllib, folder, name } => add("pfllib", folder, name, context),
    }
}

fn find(name: &str) -> Outcome<&'static Entry> {
    entries().iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names = || entries().iter().map(|entry| entry.name);
        Fault::usage(format!("there is no data set `{name}`")).help(match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the data sets are {}", quoted(names())),
        })
    })
}

/// Whether a data set needs no files of its maker's.
fn is_free(entry: &Entry) -> bool {
    entry.folders.is_empty()
}

fn list(context: &mut Context<'_>) -> Reply {
    let mut rows = Vec::new();
    let mut json = Vec::new();
    for entry in entries() {
        let found = entry.place(&context.data);
        let shown = match &found {
            Some(path) => path.display().to_string(),
            None if is_free(entry) => entry.note.to_owned(),
            None => "-".to_owned(),
        };
        let what = entry.doc.split("; ").next().unwrap_or(entry.doc).trim_end_matches('.').to_owned();
        let license = if entry.license.is_empty() { "yours" } else { entry.license };
        rows.push(vec![entry.name.to_owned(), what.clone(), license.to_owned(), shown]);
        json.push(json!({"name": entry.name, "what": what, "license": license, "source": entry.source, "found": found}));
    }
    for added in Added::all(&context.data) {
        rows.push(vec![
            added.name.clone(),
            format!("added, {}", added.kind),
            "that of the original".to_owned(),
            added.folder.display().to_string(),
        ]);
        json.push(json!({"name": added.name, "added": added.kind, "found": added.folder}));
    }
    let note = if context.data.is_empty() {
        "\nno data folder is set: name some by `--data DIR` or PFLPIPE_DATA".to_owned()
    } else {
        format!(
            "\n`-` is not there; looked in {}",
            quoted(context.data.iter().map(|d| d.to_string_lossy()).collect::<Vec<_>>().iter().map(AsRef::as_ref))
        )
    };
    context.show(&Listing { header: vec!["name", "what", "license", "files"], rows, note, json: json.into(), key: 0 })?;
    Ok(0)
}

/// The data set of that name that was added to a data folder.
fn added(name: &str, context: &Context<'_>) -> Outcome<Option<Added>> {
    if entries().iter().any(|entry| entry.name == name) { Ok(None) } else { Added::find(name, &context.data) }
}

fn info(name: &str, context: &mut Context<'_>) -> Reply {
    if let Some(added) = added(name, context)? {
        let (kind, folder) = (&added.kind, added.folder.display());
        let there = if added.folder.is_dir() { "" } else { ", which is not there" };
        let text = format!(
            "{name}\nAdded to a data folder by `pflpipe data add {kind}`.\n\nfolder: {folder}{there}\nlicense: that of the original data \
             set\n\nits clients: {{partition: {{data: ..., kind: imported}}}}\n`pflpipe data verify {name}` reads it\n"
        );
        let json =
            json!({"name": name, "added": added.kind, "found": added.folder.is_dir().then_some(&added.folder), "folder": added.folder});
        context.show(&Text { text, json, quiet: format!("{folder}\n") })?;
        return Ok(0);
    }
    let entry = find(name)?;
    let found = entry.place(&context.data);
    let mut out = format!("{}\n{}\n\n", entry.name, entry.doc);
    for (what, text) in [("cite", entry.source), ("license", entry.license), ("note", entry.note)] {
        if !text.is_empty() {
            out.push_str(&format!("{what}: {text}\n"));
        }
    }
    match (&found, entry.folders.first()) {
        (Some(path), _) => out.push_str(&format!("found: {}\n", path.display())),
        (None, Some(folder)) => out.push_str(&format!("found: no; put its files into DIR/{folder} and say `--data DIR`\n")),
        (None, None) => {}
    }
    if !entry.files.is_empty() {
        out.push('\n');
        let size = |size| if size == 0 { String::new() } else { bytes(size) };
        let row = |f: &data::Remote| vec![f.file.to_owned(), size(f.size), f.sum.describe(), f.url.to_owned()];
        out.push_str(&columns(&["file", "size", "checksum", "address"], &entry.files.iter().map(row).collect::<Vec<_>>()));
    }
    let variant = data::variants().into_iter().find(|variant| variant.name == entry.name);
    if let Some(variant) = &variant {
        out.push('\n');
        out.push_str(&columns(&["parameter", "type", "default", ""], &parameters(variant)));
    }
    let files: Vec<Value> =
        entry.files.iter().map(|f| json!({"file": f.file, "size": f.size, "checksum": f.sum.describe(), "url": f.url})).collect();
    let json = json!({
        "name": entry.name, "doc": entry.doc, "source": entry.source, "license": entry.license, "note": entry.note, "found": found,
        "folders": entry.folders, "files": files
    });
    context.show(&Text { text: out, json, quiet: found.map(|path| format!("{}\n", path.display())).unwrap_or_default() })?;
    Ok(0)
}

fn parameters(variant: &Variant) -> Vec<Vec<String>> {
    let row = |field: &crate::spec::catalog::Field| {
        let default = match &field.default {
            Default::Required => "required".to_owned(),
            Default::Absent => "absent".to_owned(),
            Default::Is(value) => short(value),
        };
        vec![field.name.to_owned(), kind(&field.ty), default, field.doc.to_owned()]
    };
    variant.fields.iter().map(row).collect()
}

fn fetch_all(names: &[String], context: &mut Context<'_>) -> Reply {
    let (mut rows, mut json, mut failed) = (Vec::new(), Vec::new(), false);
    let mut chosen = Vec::new();
    for name in names {
        match added(name, context)? {
            Some(added) => rows.push(vec![name.clone(), String::new(), format!("added; its files lie in {}", added.folder.display())]),
            None => chosen.push(find(name)?),
        }
    }
    let dir = context
        .own_data()
        .cloned()
        .ok_or_else(|| Fault::usage("no data folder is set, into which to fetch").help("say `--data DIR`, or set PFLPIPE_DATA"))?;
    for entry in chosen {
        let Some(sub) = entry.folders.first() else {
            // Of one's own files only the pipeline knows the names.
            let text = if entry.is_own() {
                format!(
                    "files of your own: put them into {} and name them in the pipeline; `pflpipe data info {}` says how",
                    dir.display(),
                    entry.name
                )
            } else {
                format!("needs no files: {}", entry.note)
            };
            rows.push(vec![entry.name.to_owned(), String::new(), text]);
            continue;
        };
        context.terminal.note(format_args!(
            "{}: license: {}",
            entry.name,
            if entry.license.is_empty() { "unknown" } else { entry.license }
        ));
        let folder = dir.join(sub);
        if entry.files.is_empty() {
            failed = true;
            rows.push(vec![entry.name.to_owned(), String::new(), format!("by hand, into {}: {}", folder.display(), entry.note)]);
        }
        for file in entry.files {
            let mut progress = Progress::new(context, file.file);
            let result = fetch(file, &folder, &mut |have, total| progress.step(have, total));
            progress.end();
            let text = match &result {
                Ok(Fetched::There) => format!("there: {}", folder.join(file.file).display()),
                Ok(Fetched::New(size)) => format!("fetched, {}: {}", bytes(*size), folder.join(file.file).display()),
                Err(fault) => {
                    failed = true;
                    let from = if file.url.is_empty() { entry.note } else { file.url };
                    let sum = file.sum.describe();
                    format!(
                        "NOT THERE ({fault}); by hand, into {}: {from}{}{sum}",
                        folder.display(),
                        if sum.is_empty() { "" } else { ", " }
                    )
                }
            };
            json.push(json!({"data": entry.name, "file": file.file, "sound": result.is_ok(), "text": text}));
            rows.push(vec![entry.name.to_owned(), file.file.to_owned(), text]);
        }
    }
    let note =
        if failed { "some files are not there; `pflpipe data info NAME` says where they come from".to_owned() } else { String::new() };
    context.show(&Listing { header: vec!["data set", "file", "result"], rows, note, json: json.into(), key: 1 })?;
    Ok(if failed { FaultKind::Storage.exit_code() } else { 0 })
}

/// How far a file is: a bar on a terminal, a line every ten seconds elsewhere.
struct Progress<'a> {
    file: &'a str,
    bar: Option<ProgressBar>,
    quiet: bool,
    last: Instant,
}

impl<'a> Progress<'a> {
    fn new(context: &Context<'_>, file: &'a str) -> Self {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} ETA {eta}");
        let bar = context.terminal.bars.then(|| {
            let bar = ProgressBar::no_length().with_message(file.to_owned());
            if let Ok(style) = style { bar.with_style(style) } else { bar }
        });
        Self { file, bar, quiet: context.terminal.quiet, last: Instant::now() }
    }
    fn step(&mut self, have: u64, total: Option<u64>) {
        if let Some(bar) = &self.bar {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(have);
        } else if !self.quiet && self.last.elapsed() > Duration::from_secs(10) {
            self.last = Instant::now();
            say(&format!("  {} {}{}", self.file, bytes(have), total.map(|total| format!(" of {}", bytes(total))).unwrap_or_default()));
        }
    }
    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn verify(names: &[String], set: &[String], context: &mut Context<'_>) -> Reply {
    let mut extra = Map::new();
    for text in set {
        let (name, value) = text.split_once('=').ok_or_else(|| Fault::usage(format!("`{text}` is not NAME=VALUE")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        extra.insert(name.trim().to_owned(), value);
    }
    let added = Added::all(&context.data);
    let names: Vec<String> = if names.is_empty() {
        let there = entries().iter().filter(|entry| is_free(entry) && !entry.is_own() || entry.place(&context.data).is_some());
        there.map(|entry| entry.name.to_owned()).chain(added.iter().map(|added| added.name.clone())).collect()
    } else {
        names.to_vec()
    };
    let variants = data::variants();
    let (mut rows, mut json, mut failed) = (Vec::new(), Vec::new(), false);
    for name in names.iter().filter(|name| !added.iter().any(|added| added.name == **name)) {
        find(name)?;
    }
    known(extra.keys(), &names, &variants)?;
    for name in names {
        let mut params = Map::new();
        let fields = variants.iter().find(|variant| variant.name == name).map(|variant| variant.fields.as_slice()).unwrap_or_default();
        for field in fields {
            if let Default::Is(value) = &field.default {
                params.insert(field.name.to_owned(), value.clone());
            }
        }
        // Of all data sets only some have a parameter.
        params.extend(extra.clone().into_iter().filter(|(name, _)| fields.iter().any(|field| *name == field.name)));
        let result = data::load(&name, &params, &context.data);
        let text = match &result {
            Ok(set) => summary(set),
            Err(fault) => {
                failed = true;
                let help = fault.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
                format!("{fault}{help}")
            }
        };
        json.push(json!({"data": name, "sound": result.is_ok(), "text": text}));
        rows.push(vec![name, if result.is_ok() { "sound" } else { "NOT SOUND" }.to_owned(), text]);
    }
    context.show(&Listing { header: vec!["data set", "", "result"], rows, note: String::new(), json: json.into(), key: 1 })?;
    Ok(if failed { FaultKind::Storage.exit_code() } else { 0 })
}

/// Refuses parameters that none of the data sets has.
fn known<'a>(given: impl Iterator<Item = &'a String>, names: &[String], variants: &[Variant]) -> Outcome<()> {
    let of_these = variants.iter().filter(|variant| names.iter().any(|name| *name == variant.name));
    let mut fields: Vec<&str> = of_these.flat_map(|variant| variant.fields.iter().map(|field| field.name)).collect();
    fields.sort_unstable();
    fields.dedup();
    let mut foreign = given.filter(|name| !fields.contains(&name.as_str()));
    let Some(name) = foreign.next() else { return Ok(()) };
    let help = match nearest(name, fields.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", quoted(fields.iter().copied())),
    };
    let of = if names.len() == 1 { format!("data set `{}`", names[0]) } else { "none of these data sets".to_owned() };
    let has = if names.len() == 1 { "has no" } else { "has a" };
    Err(Fault::usage(format!("{of} {has} parameter `{name}`")).help(help))
}

fn summary(set: &Dataset) -> String {
    let shape = set.shape();
    let mut out = count(set.len(), "sample");
    if set.original_train() < set.len() {
        out.push_str(&format!(" ({} for training)", set.original_train()));
    }
    match set.vocabulary() {
        Some(vocabulary) => out.push_str(&format!(" of {} words from {}", shape.width, vocabulary.size)),
        None => out.push_str(&format!(" of {} x {} x {}", shape.height, shape.width, shape.channels)),
    }
    out.push_str(&format!(", {} classes", set.classes()));
    if let Some(groups) = set.groups() {
        out.push_str(&format!(", {}", count(groups.names.len(), &groups.what)));
    }
    out
}

fn add(kind: &str, folder: &Path, name: &str, context: &mut Context<'_>) -> Reply {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let added = Added { kind: kind.to_owned(), name: name.to_owned(), folder };
    let dirs: Vec<PathBuf> = context.own_data().cloned().into_iter().collect();
    let (path, data) = added.save(&dirs)?;
    context.show(&Text {
        text: format!("{name}: {}\nremembered in {}\n", summary(&data), path.display()),
        json: json!({"name": name, "file": path, "samples": data.len(), "clients": data.groups().map(|groups| groups.names.len())}),
        quiet: format!("{name}\n"),
    })?;
    Ok(0)
}
