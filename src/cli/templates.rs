//! `templates`: the templates in this program, to copy and change.

use super::Reply;
use super::context::Context;
use super::output::{Listing, Text};
use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::report;
use crate::spec::templates;
use crate::table::format;
use serde_json::json;

/// List the built-in templates, or print one: a copy that is changed goes to `--template`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe templates
  pflpipe templates report > mine.html.j2
  pflpipe report pipelines/quickstart.yaml -o report.html --template mine.html.j2")]
pub(super) struct Args {
    /// The template to print
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// A template in this program.
struct Builtin {
    name: &'static str,
    /// The command whose `--template` takes it.
    of: &'static str,
    doc: &'static str,
    text: &'static str,
}

fn all() -> Vec<Builtin> {
    let page = Builtin { name: "report", of: "report", doc: "the page of a report", text: report::TEMPLATE };
    let latex = Builtin { name: "latex", of: "table", doc: "tables in LaTeX, as `--format latex` gives them", text: format::LATEX };
    let pipelines = templates::templates().iter();
    let pipelines = pipelines.map(|one| Builtin { name: one.name, of: "new", doc: one.doc, text: one.text() });
    [latex, page].into_iter().chain(pipelines).collect()
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let all = all();
    match &args.name {
        Some(name) => {
            let Builtin { of, text, .. } = find(&all, name)?;
            context.show(&Text {
                text: (*text).to_owned(),
                quiet: (*text).to_owned(),
                json: json!({"name": name, "of": of, "text": text}),
            })?;
        }
        None => context.show(&Listing {
            header: vec!["template", "for `--template` of", "what"],
            rows: all.iter().map(|one| [one.name, one.of, one.doc].map(str::to_owned).to_vec()).collect(),
            note: "`pflpipe templates NAME` prints one".to_owned(),
            json: all.iter().map(|one| json!({"name": one.name, "of": one.of, "doc": one.doc})).collect(),
            key: 0,
        })?,
    }
    Ok(0)
}

fn find<'a>(all: &'a [Builtin], name: &str) -> Outcome<&'a Builtin> {
    let names = || all.iter().map(|one| one.name);
    all.iter().find(|one| one.name == name).ok_or_else(|| {
        Fault::usage(format!("there is no template `{name}`")).help(match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("choose from {}", quoted(names())),
        })
    })
}
