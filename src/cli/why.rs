//! `why`: everything that decides about one stage, beside the nearest result in the store.

use super::args::PipelineArgs;
use super::context::Context;
use super::memory::Memory;
use super::output::{Answer, columns};
use super::target::Target;
use super::{Reply, load};
use crate::base::text::{count, quoted};
use crate::base::{Fault, Outcome};
use crate::plan::{Explanation, decide, explain};
use crate::spec::node::short;
use crate::table::Look;
use serde_json::{Value, json};

/// Explain why a stage would run or is cached: every part of its key, and what differs from the nearest earlier result.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe why pipelines/quickstart.yaml 'run[algorithm=ditto, alpha=0.1, seed=0]'")]
pub(super) struct Args {
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// The stage with its coordinates; those that do not matter may be left out
    #[arg(value_name = "STAGE")]
    stage: String,
}

/// So many stages are explained at once.
const AT_ONCE: usize = 4;

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let project = load::load(&args.pipeline, context)?;
    let ids = Target::parse(&args.stage).find(&project.plan)?;
    if ids.len() > AT_ONCE {
        let labels: Vec<String> = ids.iter().take(3).map(|id| project.plan.node(*id).label()).collect();
        return Err(Fault::usage(format!("`{}` means {}", args.stage, count(ids.len(), "stage")))
            .help(format!("give more coordinates: {} ...", quoted(labels.iter().map(String::as_str))))
            .into());
    }
    let store = context.existing_store()?;
    let memory = Memory::of(store.as_ref());
    let decisions = decide(&project.plan, &memory, &|_| false);
    let all: Vec<Explanation> = ids.into_iter().map(|id| explain(&project.plan, id, &decisions, &memory)).collect();
    if let Some(store) = &store {
        context.pass_warnings(store);
    }
    context.show(&Explained(all))?;
    Ok(0)
}

struct Explained(Vec<Explanation>);

impl Answer for Explained {
    fn table(&self, _: Look) -> Outcome<String> {
        Ok(self.0.iter().map(one).collect::<Vec<_>>().join("\n"))
    }
    fn json(&self) -> Outcome<Value> {
        Ok(json!(self.0))
    }
    fn quiet(&self) -> Outcome<String> {
        Ok(self.0.iter().map(|explanation| format!("{}\n", explanation.state)).collect())
    }
}

fn one(explanation: &Explanation) -> String {
    let mut out = format!("{} ({}): {}\n", explanation.label, explanation.kind, explanation.state);
    let Some(key) = explanation.key else {
        out.push_str("its key is not known before the stage that it waits for has run\n");
        return out;
    };
    out.push_str(&format!("key {key}\n"));
    let shown = |value: &Value| match value {
        Value::String(text) if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) => text[..12].to_owned(),
        other => short(other),
    };
    let rows: Vec<Vec<String>> = explanation
        .components
        .iter()
        .map(|part| {
            let mark = if part.changed { "*" } else { " " };
            let before = match (&part.before, part.changed) {
                (Some(before), true) => format!("was {}", shown(before)),
                (None, true) => "is new".to_owned(),
                _ => String::new(),
            };
            vec![format!("{mark} {}", part.name), part.now.as_ref().map_or_else(|| "(gone)".to_owned(), shown), before]
        })
        .collect();
    out.push_str(&columns(&[], &rows));
    if !explanation.compared && !explanation.state.starts_with("cached") {
        out.push_str("the store has no result of this stage to compare with\n");
    }
    out
}
