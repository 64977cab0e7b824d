//! `logs`: what a stage wrote while it ran.

use super::context::Context;
use super::output::Verbatim;
use super::target::Target;
use super::{Reply, runs, status};
use crate::base::text::{count, quoted};
use crate::base::{Digest, Fault, Outcome};
use crate::store::Store;
use serde_json::Value;
use std::collections::BTreeMap;

/// Print the log of a stage.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe logs 'run[algorithm=ditto, alpha=0.1, seed=0]'
  pflpipe logs -f 'run[algorithm=ditto, alpha=0.1, seed=0]'")]
pub(super) struct Args {
    /// The stage with its coordinates; those that do not matter may be left out
    #[arg(value_name = "STAGE")]
    stage: String,
    /// Of this run [default: the newest in which the stage is found]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// The attempt, counted from 1 over all runs [default: the last]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Go on with what the stage writes, until it ends
    #[arg(short, long)]
    follow: bool,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let store = context.needed_store()?;
    let chosen = match &args.run {
        Some(id) => vec![status::find(&store, id)?],
        None => runs::newest_first(&store),
    };
    let target = Target::parse(&args.stage);
    for info in chosen {
        let found = keys(&store, &info.id, &target);
        match found.len() {
            0 => {}
            1 => {
                if args.follow {
                    return follow(&store, &found, args.attempt, context);
                }
                let text = log(&store, &found, args.attempt)?;
                context.show(&Verbatim(text))?;
                return Ok(0);
            }
            n => {
                let labels: Vec<&str> = found.keys().take(3).map(String::as_str).collect();
                return Err(Fault::usage(format!("`{}` means {} of run `{}`", args.stage, count(n, "stage"), info.id))
                    .help(format!("give more coordinates: {} ...", quoted(labels)))
                    .into());
            }
        }
    }
    Err(Fault::usage(format!("no run in the store has a stage `{}`", args.stage))
        .help("`pflpipe status` lists the stages of the newest run that did not end well; `pflpipe runs` lists the runs")
        .into())
}

/// The keys of the stages of a run that are meant, by label.
fn keys(store: &Store, id: &str, target: &Target) -> BTreeMap<String, Digest> {
    let entry = |event: Value| {
        let label = event.get("label")?.as_str()?;
        let key = event.get("key")?.as_str()?.parse().ok()?;
        target.matches(label).then(|| (label.to_owned(), key))
    };
    store.run_events(id).into_iter().filter_map(entry).collect()
}

/// Prints the log and what is appended to it, as long as the stage runs; a new attempt follows the one before.
fn follow(store: &Store, found: &BTreeMap<String, Digest>, attempt: Option<u32>, context: &mut Context<'_>) -> Reply {
    let (mut shown, mut of) = (0, attempt);
    loop {
        // Asked before the log is read, so that what a stage writes last is not missed.
        let (runs, last) = (found.values().any(|key| store.leased(key)), found.values().map(|key| store.attempts(key)).max());
        let current = attempt.or(last);
        if current != of {
            (shown, of) = (0, current);
        }
        let text = log(store, found, attempt)?;
        // Only whole lines: a line may be on its way.
        let end = text.rfind('\n').map_or(0, |at| at + 1);
        if let Some(new) = text.get(shown..end).filter(|new| !new.is_empty()) {
            context.show(&Verbatim(new.to_owned()))?;
            shown = end;
        }
        if !runs {
            return Ok(0);
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

fn log(store: &Store, found: &BTreeMap<String, Digest>, attempt: Option<u32>) -> Outcome<String> {
    let Some((label, key)) = found.first_key_value() else { return Err(Fault::internal("no key to show a log of")) };
    let attempts = store.attempts(key);
    if attempts == 0 {
        return Err(
            Fault::storage(format!("`{label}` has no log in this store")).help("its result was imported, or its logs were collected")
        );
    }
    let attempt = attempt.unwrap_or(attempts);
    if attempt > attempts {
        return Err(Fault::usage(format!("`{label}` had {}, not {attempt}", count(attempts as usize, "attempt"))));
    }
    store.log(key, attempt)
}
