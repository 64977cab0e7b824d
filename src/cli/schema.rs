//! `schema`: the JSON Schema of pipeline files, for editors.

use super::Reply;
use super::context::Context;
use super::load;
use super::output::Text;
use crate::base::Fault;

/// Print the JSON Schema of pipeline files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe schema > pipeline.schema.json")]
pub(super) struct Args {}

pub(super) fn run(_: &Args, context: &mut Context<'_>) -> Reply {
    let json = crate::spec::schema::schema(&load::kinds());
    let mut text = serde_json::to_string_pretty(&json).map_err(|e| Fault::internal(format!("the schema has no JSON form: {e}")))?;
    text.push('\n');
    context.show(&Text { quiet: text.clone(), text, json })?;
    Ok(0)
}
