//! `plan`: what a run would do, and why.

use super::args::PipelineArgs;
use super::context::Context;
use super::load::{self, Project};
use super::memory::Memory;
use super::output::{Answer, columns};
use super::{Reply, drive};
use crate::base::text::count;
use crate::base::{Digest, FaultKind, Outcome};
use crate::plan::Node;
use crate::plan::{Decision, Plan, decide, decide::describe};
use crate::store::Store;
use crate::table::Look;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Say what a run would do and why: cached, run, or maybe (known only when the stage before it has run).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe plan pipelines/quickstart.yaml --set rounds=100 --exit-code")]
pub(super) struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// List every stage instead of counting equal ones
    #[arg(short, long)]
    all: bool,
    /// Exit with code 10 when something would run
    #[arg(long)]
    exit_code: bool,
    /// As if this stage were forced; may be repeated
    #[arg(short, long, value_name = "STAGE")]
    force: Vec<String>,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let project = load::load(&args.pipeline, context)?;
    let would_run = show(&project, &args.force, args.all, context)?;
    Ok(if args.exit_code && would_run { FaultKind::WouldRun.exit_code() } else { 0 })
}

/// Prints the plan; whether something would run.
pub(super) fn show(project: &Project, force: &[String], all: bool, context: &mut Context<'_>) -> Result<bool, super::Stop> {
    let store = context.existing_store()?;
    let forced = drive::forced(&project.plan, force)?;
    let memory = Memory::of(store.as_ref());
    let nodes = project.plan.nodes.iter().zip(&forced);
    let forced: HashSet<*const Node> = nodes.filter(|(_, forced)| **forced).map(|(node, _)| std::ptr::from_ref(node)).collect();
    let decisions = decide(&project.plan, &memory, &|node| forced.contains(&std::ptr::from_ref(node)));
    if let Some(store) = &store {
        context.pass_warnings(store);
    }
    let would_run = decisions.iter().any(|decision| !matches!(decision, Decision::Cached { .. }));
    let devices: BTreeSet<&str> = project.plan.nodes.iter().map(|node| &*node.device).filter(|device| *device != "cpu").collect();
    let here = if devices.is_empty() { Vec::new() } else { drive::devices() };
    for device in devices.into_iter().filter(|device| !here.iter().any(|known| known == device)) {
        context.terminal.warning(&format!("the device `{device}` is not here: a run would be refused"));
    }
    let begun = store.as_ref().map(Store::checkpointed).unwrap_or_default();
    context.show(&Planned { plan: &project.plan, decisions: &decisions, begun, all })?;
    Ok(would_run)
}

/// `cached`, `run` or `maybe`.
pub(super) fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Cached { .. } => "cached",
        Decision::Run { .. } => "run",
        Decision::Maybe { .. } => "maybe",
    }
}

struct Planned<'a> {
    plan: &'a Plan,
    decisions: &'a [Decision],
    /// Keys with a checkpoint.
    begun: BTreeSet<Digest>,
    all: bool,
}

/// So many different reasons of one stage are listed.
const REASONS: usize = 5;

impl Planned<'_> {
    /// What is added to the reason of a stage that does not start from its beginning.
    fn resumed(&self, decision: &Decision) -> &'static str {
        match decision {
            Decision::Run { key, .. } if self.begun.contains(key) => "; continues from a checkpoint",
            _ => "",
        }
    }

    fn each(&self) -> Vec<Vec<String>> {
        let row = |(node, decision): (&crate::plan::Node, &Decision)| {
            let state = describe(self.plan, decision);
            let (word, reason) = state.split_once(": ").unwrap_or((&state, ""));
            vec![node.label(), word.to_owned(), format!("{reason}{}", self.resumed(decision))]
        };
        self.plan.nodes.iter().zip(self.decisions).map(row).collect()
    }

    /// Stages with equal states and reasons on one line; a reason is general enough that it is often shared.
    fn grouped(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for stage in self.plan.stages() {
            let mut groups: BTreeMap<(usize, String), (usize, &'static str)> = BTreeMap::new();
            let mut total = 0;
            for (node, decision) in self.plan.nodes.iter().zip(self.decisions).filter(|(node, _)| node.stage == *stage) {
                total += 1;
                let reason = match decision {
                    Decision::Cached { .. } => String::new(),
                    Decision::Run { reason, .. } => format!("{reason}{}", self.resumed(decision)),
                    Decision::Maybe { after } => format!("after {}", self.plan.node(*after).stage),
                };
                let order = ["run", "maybe", "cached"].iter().position(|w| *w == word(decision)).unwrap_or(0);
                groups.entry((order, reason)).or_insert((0, node.kind)).0 += 1;
            }
            let more = groups.len().saturating_sub(REASONS);
            for (place, ((order, reason), (n, kind))) in groups.into_iter().enumerate() {
                let (name, kind) = if place == 0 { (stage.to_string(), kind) } else { (String::new(), "") };
                if place == REASONS {
                    rows.push(vec![
                        String::new(),
                        String::new(),
                        String::new(),
                        String::new(),
                        format!("and {}", count(more, "other reason")),
                    ]);
                    break;
                }
                let of = if n == total { n.to_string() } else { format!("{n} of {total}") };
                rows.push(vec![name, kind.to_owned(), of, ["run", "maybe", "cached"][order].to_owned(), reason]);
            }
        }
        rows
    }

    fn total(&self) -> String {
        let n = |wanted: &str| self.decisions.iter().filter(|decision| word(decision) == wanted).count();
        let (run, maybe, cached) = (n("run"), n("maybe"), n("cached"));
        let maybe = if maybe > 0 { format!(", {maybe} maybe") } else { String::new() };
        format!(
            "{} in {}: {run} to run{maybe}, {cached} cached",
            count(self.decisions.len(), "stage"),
            count(self.plan.cells.len(), "cell")
        )
    }
}

impl Answer for Planned<'_> {
    fn table(&self, _: Look) -> Outcome<String> {
        let rows = if self.all {
            columns(&["stage", "state", "reason"], &self.each())
        } else {
            columns(&["stage", "kind", "n", "state", "reason"], &self.grouped())
        };
        Ok(format!("{rows}{}\n", self.total()))
    }
    fn json(&self) -> Outcome<Value> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let nodes: Vec<Value> = self
            .plan
            .nodes
            .iter()
            .zip(self.decisions)
            .map(|(node, decision)| {
                *counts.entry(word(decision)).or_default() += 1;
                let (key, reason, after) = match decision {
                    Decision::Cached { key, .. } => (Some(key), None, None),
                    Decision::Run { key, reason } => (Some(key), Some(reason.to_string()), None),
                    Decision::Maybe { after } => (None, None, Some(self.plan.node(*after).label())),
                };
                json!({
                    "label": node.label(),
                    "stage": &*node.stage,
                    "kind": node.kind,
                    "coords": node.coords,
                    "state": word(decision),
                    "key": key,
                    "reason": reason,
                    "checkpoint": !self.resumed(decision).is_empty(),
                    "after": after,
                })
            })
            .collect();
        Ok(json!({"pipeline": self.plan.pipeline, "cells": self.plan.cells.len(), "counts": counts, "stages": nodes}))
    }
    fn quiet(&self) -> Outcome<String> {
        let open = |(_, decision): &(&crate::plan::Node, &Decision)| !matches!(decision, Decision::Cached { .. });
        Ok(self.plan.nodes.iter().zip(self.decisions).filter(open).map(|(node, _)| node.label() + "\n").collect())
    }
}
