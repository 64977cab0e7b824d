//! `graph`: the stages and what they read from each other, as Graphviz, Mermaid or JSON.

use super::Reply;
use super::args::PipelineArgs;
use super::context::Context;
use super::load;
use super::output::{Text, Verbatim};
use crate::base::Fault;
use crate::plan::Format;
use clap::ValueEnum;

/// Draw the graph of stages; a sweep is folded into one node a stage.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe graph pipelines/quickstart.yaml | dot -Tsvg > graph.svg
  pflpipe graph pipelines/quickstart.yaml --format mermaid")]
pub(super) struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// The language of the drawing
    #[arg(long, value_name = "FORMAT", default_value = "dot")]
    format: Language,
    /// One node for each stage of each cell
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    /// Graphviz
    Dot,
    /// Mermaid, as Markdown viewers draw it
    Mermaid,
    /// Nodes and edges
    Json,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let project = load::load(&args.pipeline, context)?;
    if args.format == Language::Json || context.json() {
        let text = project.plan.export(Format::Json, args.full);
        let json = serde_json::from_str(&text).map_err(|e| Fault::internal(format!("the graph is not JSON: {e}")))?;
        context.show(&Text { quiet: text.clone(), text, json })?;
    } else {
        let format = if args.format == Language::Dot { Format::Dot } else { Format::Mermaid };
        context.show(&Verbatim(project.plan.export(format, args.full)))?;
    }
    Ok(0)
}
