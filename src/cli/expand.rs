//! `expand`: the cells of a sweep, and the pipeline with everything filled in.

use super::Reply;
use super::args::PipelineArgs;
use super::context::Context;
use super::load::{self, Project};
use super::output::{Answer, Text, columns};
use crate::base::Outcome;
use crate::base::text::count;
use crate::spec::node::short;
use crate::table::Look;
use serde_json::{Value, json};

/// List the cells of the sweep; with `--output json` also every stage with its effective parameters.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe expand pipelines/quickstart.yaml --where 'alpha < 0.5' --count")]
pub(super) struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Only the number of cells and stages
    #[arg(long)]
    count: bool,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let project = load::load(&args.pipeline, context)?;
    if args.count {
        let (cells, stages) = (project.plan.cells.len(), project.plan.nodes.len());
        let text = format!("{}, {}\n", count(cells, "cell"), count(stages, "stage"));
        context.show(&Text { text, json: json!({"cells": cells, "stages": stages}), quiet: format!("{cells} {stages}\n") })?;
    } else {
        context.show(&Cells(&project))?;
    }
    Ok(0)
}

struct Cells<'a>(&'a Project);

impl Cells<'_> {
    fn rows(&self) -> Vec<Vec<String>> {
        let plan = &self.0.plan;
        let cell = |cell| {
            let coords = plan.coords(cell);
            plan.axes.iter().map(|axis| coords.get(axis.name.as_str()).map_or_else(|| "-".to_owned(), |value| short(value))).collect()
        };
        (0..plan.cells.len()).map(cell).collect()
    }
}

impl Answer for Cells<'_> {
    fn table(&self, _: Look) -> Outcome<String> {
        let plan = &self.0.plan;
        let header: Vec<&str> = plan.axes.iter().map(|axis| axis.name.as_str()).collect();
        let cells = if header.is_empty() { String::new() } else { columns(&header, &self.rows()) };
        Ok(format!("{cells}{}, {}\n", count(plan.cells.len(), "cell"), count(plan.nodes.len(), "stage")))
    }
    fn json(&self) -> Outcome<Value> {
        Ok(self.0.pipeline.to_value())
    }
    fn quiet(&self) -> Outcome<String> {
        Ok(self.rows().into_iter().map(|row| row.join("\t") + "\n").collect())
    }
}
