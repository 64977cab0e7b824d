//! `new`: a pipeline file from a template.

use super::args::Changes;
use super::context::Context;
use super::output::{Listing, Text};
use super::{Reply, load};
use crate::base::{Fault, Outcome};
use crate::spec::{overrides::pair, templates};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write a pipeline file from a template.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe new --list
  pflpipe new table.yaml --template dirichlet-sweep --set dataset=cifar10")]
pub(super) struct Args {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE", required_unless_present = "list")]
    file: Option<PathBuf>,
    /// The template: a name that `--list` shows, or a file of your own, such as a copy of what `pflpipe templates NAME` prints
    #[arg(long, short, value_name = "NAME|FILE", default_value = "dirichlet-sweep")]
    template: String,
    /// Set a variable of the template; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// List the templates with their variables
    #[arg(long)]
    list: bool,
    /// Replace the file if it exists
    #[arg(long)]
    replace: bool,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let Some(file) = args.file.as_deref().filter(|_| !args.list) else { return list(context) };
    let sets: Vec<(String, String)> = args.set.iter().map(|text| pair("set", text)).collect::<Outcome<_>>()?;
    let named = templates::templates().iter().any(|template| template.name == args.template);
    let own = Some(Path::new(&args.template)).filter(|path| !named && path.is_file()).map(load::template).transpose()?;
    let text = match own {
        Some((name, text)) => templates::new_from_text(&name, &text, &sets)?,
        None => templates::new_from_template(&args.template, &sets)?,
    };
    // A value that does not fit is told now, and not after the file was edited for an hour.
    load::expand(file, &text, &Changes::default(), &context.data)?;
    write(file, &text, args.replace)?;
    let said = format!("wrote {}; run it with `pflpipe run {}`\n", file.display(), file.display());
    context.show(&Text { text: said, json: json!({"file": file, "template": args.template}), quiet: String::new() })?;
    Ok(0)
}

fn list(context: &mut Context<'_>) -> Reply {
    let all = templates::templates();
    context.show(&Listing {
        header: vec!["template", "what", "variables"],
        rows: all.iter().map(|template| vec![template.name.to_owned(), template.doc.to_owned(), variables(template)]).collect(),
        note: String::new(),
        json: all.iter().map(|template| json!({"name": template.name, "doc": template.doc, "variables": template.variables})).collect(),
        key: 0,
    })?;
    Ok(0)
}

/// `rounds=200 clients=20`, with the defaults.
fn variables(template: &templates::Template) -> String {
    let each = template
        .variables
        .iter()
        .map(|(name, default, _)| if default.contains(' ') { format!("{name}='{default}'") } else { format!("{name}={default}") });
    each.collect::<Vec<_>>().join(" ")
}

fn write(file: &Path, text: &str, replace: bool) -> Outcome<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    let options = if replace { options.create(true).truncate(true) } else { options.create_new(true) };
    let mut out = options.open(file).map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Fault::storage(format!("`{}` exists already", file.display())).help("choose another name, or replace it with `--replace`")
        }
        _ => Fault::io("create", file, &e),
    })?;
    out.write_all(text.as_bytes()).map_err(|e| Fault::io("write", file, &e))
}
