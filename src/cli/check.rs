//! `check`: whether a pipeline is valid, with every message at once.

use super::Reply;
use super::args::PipelineArgs;
use super::context::Context;
use super::output::Text;
use super::{Stop, load};
use crate::base::text::count;
use serde_json::json;

/// Check a pipeline without running anything.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe check pipelines/quickstart.yaml --output json")]
pub(super) struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    match load::load(&args.pipeline, context) {
        Ok(project) => {
            let (plan, warnings) = (&project.plan, &project.pipeline.warnings);
            let text = format!(
                "{} is valid: {} in {}, {}\n",
                args.pipeline.file.display(),
                count(plan.nodes.len(), "stage"),
                count(plan.cells.len(), "cell"),
                count(plan.tables.len(), "table")
            );
            let json = json!({
                "valid": true,
                "stages": plan.nodes.len(),
                "cells": plan.cells.len(),
                "tables": plan.tables.len(),
                "messages": warnings.to_json(),
            });
            context.show(&Text { text, json, quiet: String::new() })?;
            Ok(0)
        }
        // A program reads the messages where it reads results; people read them where errors stand.
        Err(Stop::Invalid(all)) if context.json() => {
            let json = json!({"valid": false, "messages": all.to_json()});
            context.show(&Text { text: String::new(), json, quiet: String::new() })?;
            Ok(all.kind().exit_code())
        }
        Err(stop) => Err(stop),
    }
}
