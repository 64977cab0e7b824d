//! `doctor`: whether everything that a run needs is there.
//!
//! It needs no compiler and changes nothing but a small file that it writes to the store and removes again.

use super::context::Context;
use super::output::Listing;
use super::{Reply, drive, run};
use crate::base::text::{bytes, count};
use crate::base::{Fault, FaultKind};
use crate::data;
use crate::spec::catalog::{Default, Variant};
use serde_json::{Map, Value, json};

/// Check the store, the data sets, the processor and the devices.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe doctor --data ~/data")]
pub(super) struct Args {
    /// Do not open the data sets, which takes some seconds for large ones
    #[arg(long)]
    no_data: bool,
}

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// As it should be.
    Fine,
    /// Good to know, or not there and not needed by everybody.
    Note,
    /// Nothing can run so.
    Bad,
}

struct Finding {
    what: String,
    verdict: Verdict,
    text: String,
    help: String,
}

impl Finding {
    fn new(what: &str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { what: what.to_owned(), verdict, text: text.into(), help: String::new() }
    }
    fn of(what: &str, verdict: Verdict, fault: Fault) -> Self {
        Self { help: fault.help.clone().unwrap_or_default(), ..Self::new(what, verdict, fault.to_string()) }
    }
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let mut findings = vec![store(context)];
    findings.push(Finding::new("cpu", Verdict::Fine, format!("{}, {}", count(run::cores(), "thread"), features())));
    findings.push(devices());
    findings.push(folders(context));
    if !args.no_data {
        // Of the many only those that are there, or that need no files.
        let there =
            |name: &str| data::entries().iter().any(|e| e.name == name && (e.folders.is_empty() || e.place(&context.data).is_some()));
        let variants = data::variants();
        findings.extend(variants.iter().filter(|variant| there(variant.name)).filter_map(|variant| data_set(variant, context)));
        let others = data::entries().iter().filter(|entry| !there(entry.name)).count();
        findings.push(Finding::new("other data sets", Verdict::Note, format!("{others} are not there; `pflpipe data list` names them")));
    }
    let word = |verdict| match verdict {
        Verdict::Fine => "ok",
        Verdict::Note => "-",
        Verdict::Bad => "BAD",
    };
    let mut rows = Vec::new();
    for finding in &findings {
        rows.push(vec![finding.what.clone(), word(finding.verdict).to_owned(), finding.text.clone()]);
        if !finding.help.is_empty() {
            rows.push(vec![String::new(), String::new(), format!("help: {}", finding.help)]);
        }
    }
    let bad = findings.iter().filter(|finding| finding.verdict == Verdict::Bad).count();
    let json = findings
        .iter()
        .map(|f| json!({"check": f.what, "verdict": word(f.verdict).to_ascii_lowercase(), "text": f.text, "help": f.help}))
        .collect::<Value>();
    let note = if bad == 0 { "ready to run".to_owned() } else { format!("{} stands in the way", count(bad, "problem")) };
    context.show(&Listing { header: vec!["check", "", "result"], rows, note, json, key: 1 })?;
    Ok(if bad == 0 { 0 } else { FaultKind::Storage.exit_code() })
}

fn store(context: &Context<'_>) -> Finding {
    let probe = || {
        // Only where there is a store already: looking must not make one.
        let Some(store) = context.existing_store()? else { return Ok(None) };
        let ticket = store.put_ticket(b"doctor")?;
        store.drop_ticket(&ticket);
        Ok::<_, Fault>(Some(store.info()))
    };
    match probe() {
        Ok(Some(info)) => Finding::new(
            "store",
            Verdict::Fine,
            format!("{}: writable, {} in {}", info.root.display(), bytes(info.bytes), count(info.objects, "object")),
        ),
        Ok(None) => Finding::new("store", Verdict::Note, format!("{}: not there yet; the first run makes it", context.cache.display())),
        Err(fault) => Finding::of("store", Verdict::Bad, fault),
    }
}

#[cfg(target_arch = "x86_64")]
fn features() -> String {
    let all = [
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ("fma", std::arch::is_x86_feature_detected!("fma")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
    ];
    let there: Vec<&str> = all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    if there.is_empty() { "no vector instructions beyond SSE2: training is slow".to_owned() } else { there.join(" ") }
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> String {
    std::env::consts::ARCH.to_owned()
}

fn devices() -> Finding {
    let found = drive::devices();
    match (cfg!(feature = "cuda"), found.is_empty()) {
        (false, _) => Finding::new("cuda", Verdict::Note, "this build has no CUDA; stages run on the CPU"),
        (true, true) => Finding::new("cuda", Verdict::Note, "built with CUDA, but there is no device"),
        (true, false) => Finding::new("cuda", Verdict::Fine, found.join(", ")),
    }
}

fn folders(context: &Context<'_>) -> Finding {
    if context.data.is_empty() {
        let mut finding = Finding::new("data folders", Verdict::Note, "none given");
        finding.help = "name folders with data sets by `--data DIR` or PFLPIPE_DATA".to_owned();
        return finding;
    }
    let gone: Vec<String> = context.data.iter().filter(|dir| !dir.is_dir()).map(|dir| dir.display().to_string()).collect();
    if gone.is_empty() {
        let all: Vec<String> = context.data.iter().map(|dir| dir.display().to_string()).collect();
        Finding::new("data folders", Verdict::Fine, all.join(", "))
    } else {
        Finding::new("data folders", Verdict::Bad, format!("no such folder: {}", gone.join(", ")))
    }
}

/// Loads a data set as a pipeline would by default; those that need parameters are left out.
fn data_set(variant: &Variant, context: &Context<'_>) -> Option<Finding> {
    let mut params = Map::new();
    params.insert("name".to_owned(), variant.name.into());
    for field in &variant.fields {
        match &field.default {
            Default::Required => return None,
            Default::Absent => {}
            Default::Is(value) => {
                params.insert(field.name.to_owned(), value.clone());
            }
        }
    }
    Some(match data::load(variant.name, &params, &context.data) {
        Ok(set) => {
            let shape = set.shape();
            let text = format!(
                "{} of {} x {} x {}, {} classes",
                count(set.len(), "sample"),
                shape.height,
                shape.width,
                shape.channels,
                set.classes()
            );
            Finding::new(variant.name, Verdict::Fine, text)
        }
        Err(fault) => Finding::of(variant.name, Verdict::Note, fault),
    })
}
