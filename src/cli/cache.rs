//! `cache`: looking after the store. None of these commands reads a pipeline.

use super::args::duration;
use super::context::Context;
use super::output::{Listing, Text, columns};
use super::{Reply, load};
use crate::base::text::{bytes, count, nearest, quoted};
use crate::base::{Digest, Fault, FaultKind, Outcome};
use crate::spec::Catalog;
use crate::store::{GcPolicy, Listed, Store};
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Look after the store: list, verify, pin, collect, export and import results.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "Example:
  pflpipe cache info"
)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the results, oldest first
    #[command(after_help = "Example:\n  pflpipe cache ls --kind train")]
    Ls {
        /// Only of this stage kind
        #[arg(long, value_name = "KIND")]
        kind: Option<String>,
    },
    /// Say what is in the store
    #[command(after_help = "Example:\n  pflpipe cache info --cache /scratch/results")]
    Info,
    /// Remove what nothing needs, and old results while the store is above its limit
    #[command(after_help = "Example:\n  pflpipe cache gc --max-size 5G --dry-run")]
    Gc {
        /// The size that results may take: `500M`, `20G`
        #[arg(long, value_name = "SIZE", default_value = "20G", value_parser = size)]
        max_size: u64,
        /// Keep the results of the last so many runs of each pipeline
        #[arg(long, value_name = "N", default_value_t = 3)]
        keep_runs: usize,
        /// Keep what was stored in this last time, for a run that goes on may be about to use it; while one does, at least an hour
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
        min_age: Duration,
        /// Only say what would go
        #[arg(long, short = 'n')]
        dry_run: bool,
    },
    /// Hash results again; damaged ones are put aside and run again (exit code 4 when there are any)
    #[command(after_help = "Example:\n  pflpipe cache verify --sample 0.1")]
    Verify {
        /// This fraction of the objects, the same ones each time
        #[arg(long, value_name = "FRACTION", default_value_t = 1.0, value_parser = fraction)]
        sample: f64,
    },
    /// Keep a result whatever its age
    #[command(after_help = "Example:\n  pflpipe cache pin 3f9a21 --note 'table 2 of the paper'")]
    Pin {
        /// The key, or the beginning of it
        #[arg(value_name = "KEY")]
        key: String,
        /// Why
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Let go of a pinned result
    #[command(after_help = "Example:\n  pflpipe cache unpin 3f9a21")]
    Unpin {
        /// The key, or the beginning of it
        #[arg(value_name = "KEY")]
        key: String,
    },
    /// Write results with all their objects to a tar file
    #[command(after_help = "Example:\n  pflpipe cache export results.tar --run 20260131-094500-1f3a")]
    Export {
        /// The file to write
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Keys, or beginnings of them [default: all]
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
        /// The results of this run
        #[arg(long, value_name = "RUN", conflicts_with = "keys")]
        run: Option<String>,
    },
    /// Take the results of such a file; everything in it is hashed first
    #[command(after_help = "Example:\n  pflpipe cache import results.tar")]
    Import {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Make the index anew from the records
    #[command(after_help = "Example:\n  pflpipe cache rebuild-index")]
    RebuildIndex,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    // Importing may begin a store; everything else needs one.
    let store = if matches!(args.command, Command::Import { .. }) { context.store()? } else { context.needed_store()? };
    let reply = match &args.command {
        Command::Ls { kind } => ls(&store, kind.as_deref(), context),
        Command::Info => info(&store, context),
        Command::Gc { max_size, keep_runs, min_age, dry_run } => {
            let mut policy = GcPolicy { max_bytes: *max_size, keep_runs: *keep_runs, min_age: *min_age, dry_run: *dry_run };
            // What a running stage has just stored is named by nothing yet.
            let least = GcPolicy::default().min_age;
            if policy.min_age < least && store.busy() {
                context.terminal.note("a stage runs on this store: what is younger than an hour stays");
                policy.min_age = least;
            }
            gc(&store, &policy, context)
        }
        Command::Verify { sample } => verify(&store, *sample, context),
        Command::Pin { key, note } => {
            let key = find(&store, key)?;
            store.pin(&key, note)?;
            say(context, format!("pinned {}\n", key.short()), json!({"pinned": key}))
        }
        Command::Unpin { key } => {
            let key = find(&store, key)?;
            let was = store.unpin(&key)?;
            let text = if was { format!("unpinned {}\n", key.short()) } else { format!("{} was not pinned\n", key.short()) };
            say(context, text, json!({"unpinned": key, "was_pinned": was}))
        }
        Command::Export { file, keys, run } => {
            let keys = chosen(&store, keys, run.as_deref())?;
            let n = store.export(&keys, file)?;
            say(context, format!("wrote {} to {}\n", count(n, "result"), file.display()), json!({"results": n, "file": file}))
        }
        Command::Import { file } => {
            let came = store.import(file)?;
            for label in &came.different {
                context.terminal.warning(&format!("{label} differs from the result in the store, which is kept"));
            }
            say(context, format!("{} new, {} there already, {} different\n", came.new, came.same, came.different.len()), json!(came))
        }
        Command::RebuildIndex => {
            let n = store.rebuild_index()?;
            say(context, format!("indexed {}\n", count(n, "result")), json!({"results": n}))
        }
    };
    context.pass_warnings(&store);
    reply
}

fn say(context: &mut Context<'_>, text: String, json: serde_json::Value) -> Reply {
    context.show(&Text { text, json, quiet: String::new() })?;
    Ok(0)
}

fn ls(store: &Store, kind: Option<&str>, context: &mut Context<'_>) -> Reply {
    if let Some(kind) = kind {
        let kinds = load::kinds();
        let names: Vec<&str> = kinds.kinds().iter().map(|kind| kind.name).collect();
        if !names.contains(&kind) {
            let near = nearest(kind, names.iter().copied()).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            return Err(Fault::usage(format!("`{kind}` is not a kind of stages"))
                .help(format!("{near}the kinds are {}", quoted(names)))
                .into());
        }
    }
    let all: Vec<Listed> = store.ls().into_iter().filter(|listed| kind.is_none_or(|kind| listed.record.kind == kind)).collect();
    let row = |listed: &Listed| {
        let record = &listed.record;
        let state = match (&listed.pinned, listed.whole) {
            (_, false) => "objects missing".to_owned(),
            (Some(note), _) if note.is_empty() => "pinned".to_owned(),
            (Some(note), _) => format!("pinned: {note}"),
            _ => String::new(),
        };
        let started = record.started.get(..19).unwrap_or(&record.started).replace('T', " ");
        vec![record.key.short(), record.kind.clone(), record.label.clone(), bytes(listed.bytes), started, state]
    };
    let total = all.iter().map(|listed| listed.bytes).sum();
    context.show(&Listing {
        header: vec!["key", "kind", "stage", "size", "time", ""],
        rows: all.iter().map(row).collect(),
        note: format!("{}, {} before equal contents are shared", count(all.len(), "result"), bytes(total)),
        json: json!(all),
        key: 0,
    })?;
    Ok(0)
}

fn info(store: &Store, context: &mut Context<'_>) -> Reply {
    let info = store.info();
    let results: Vec<String> = info.results.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let rows = vec![
        line("store", info.root.display().to_string()),
        line("version", info.version.to_string()),
        line("results", if results.is_empty() { "0".to_owned() } else { results.join(", ") }),
        line("objects", format!("{} in {}", bytes(info.bytes), count(info.objects, "file"))),
        line("checkpoints", info.checkpoints.to_string()),
        line("runs", info.runs.to_string()),
        line("pinned", info.pins.to_string()),
        line("quarantined", info.quarantined.to_string()),
    ];
    context.show(&Text { text: columns(&[], &rows), json: json!(info), quiet: format!("{}\n", info.bytes) })?;
    Ok(0)
}

fn gc(store: &Store, policy: &GcPolicy, context: &mut Context<'_>) -> Reply {
    let report = store.gc(policy)?;
    let mut text = String::new();
    for label in &report.results {
        text.push_str(&format!("{} {label}\n", if policy.dry_run { "would remove" } else { "removed" }));
    }
    let freed = if policy.dry_run { "would free" } else { "freed" };
    text.push_str(&format!(
        "{freed} {}: {}, {}; {} -> {}, {} protected\n",
        bytes(report.freed),
        count(report.results.len(), "result"),
        count(report.objects, "object"),
        bytes(report.before),
        bytes(report.after),
        count(report.kept, "result")
    ));
    say(context, text, json!(report))
}

fn verify(store: &Store, sample: f64, context: &mut Context<'_>) -> Reply {
    let found = store.verify(sample);
    let mut text =
        format!("{} in {} and {} looked at\n", bytes(found.bytes), count(found.objects, "object"), count(found.records, "record"));
    for path in &found.damaged {
        text.push_str(&format!("damaged: {}\n", path.display()));
    }
    for label in &found.hollow {
        text.push_str(&format!("incomplete: {label}\n"));
    }
    let bad = found.damaged.len() + found.hollow.len();
    text.push_str(&if bad == 0 { "all is well\n".to_owned() } else { "the stages concerned run again next time\n".to_owned() });
    context.show(&Text { text, json: json!(found), quiet: String::new() })?;
    Ok(if bad == 0 { 0 } else { FaultKind::Storage.exit_code() })
}

/// The one key that begins so.
fn find(store: &Store, prefix: &str) -> Outcome<Digest> {
    let keys = store.keys_with_prefix(prefix);
    match keys.as_slice() {
        [key] => Ok(*key),
        [] => Err(Fault::usage(format!("no result has a key that begins with `{prefix}`")).help("`pflpipe cache ls` lists the keys")),
        many => {
            Err(Fault::usage(format!("{} have keys that begin with `{prefix}`", count(many.len(), "result"))).help("give more of the key"))
        }
    }
}

fn chosen(store: &Store, prefixes: &[String], run: Option<&str>) -> Outcome<Vec<Digest>> {
    if let Some(id) = run {
        let info = super::status::find(store, id)?;
        let key = |event: serde_json::Value| event.get("key")?.as_str()?.parse::<Digest>().ok();
        let keys: std::collections::BTreeSet<Digest> = store.run_events(&info.id).into_iter().filter_map(key).collect();
        return Ok(keys.into_iter().filter(|key| store.lookup(key).is_some()).collect());
    }
    if prefixes.is_empty() {
        return Ok(store.ls().into_iter().filter(|listed| listed.whole).map(|listed| listed.record.key).collect());
    }
    prefixes.iter().map(|prefix| find(store, prefix)).collect()
}

/// `500M`, `20G`, `1.5 GiB`, or bytes.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || "write bytes, or a number with K, M, G or T".to_owned();
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| wrong())?;
    let unit = text[end..].trim().to_ascii_lowercase();
    let power = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    let bytes = number * 1024_f64.powi(power);
    if bytes.is_finite() && bytes < 9e18 && (power > 0 || number.fract() == 0.0) { Ok(bytes as u64) } else { Err(wrong()) }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("write a number above 0 and up to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, want) in [("0", 0), ("512", 512), ("1K", 1024), ("1.5 GiB", 3 << 29), ("20G", 20 << 30), ("2tb", 2 << 40)] {
            assert_eq!(size(text), Ok(want), "{text}");
        }
        for text in ["", "G", "1X", "-1", "1.5", "1e99", "99999999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
