//! `report`: everything about a pipeline's results on one HTML page.

use super::args::Changes;
use super::context::Context;
use super::load::{self, Project};
use super::memory::Memory;
use super::output::Text;
use super::warned::Warned;
use super::{Reply, annotate, evidence, gather, spare, table};
use crate::base::text::{bytes, count, duration};
use crate::base::{Fault, Outcome};
use crate::plan::{Decision, Node, decide};
use crate::report::{self, Listing, Page, Section};
use crate::store::{Record, Store};
use crate::table::{Counts, Table};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Write one self-contained HTML page: tables, statistics, plots, partitions, pipeline and provenance.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe report pipelines/quickstart.yaml -o report.html
  pflpipe report 20260131-094500-1f3a -o report.html")]
pub(super) struct Args {
    /// A pipeline, or the name of a run (`pflpipe runs` lists them)
    #[arg(value_name = "FILE|RUN")]
    source: PathBuf,
    #[command(flatten)]
    changes: Changes,
    /// The file to write
    #[arg(short = 'o', value_name = "OUT")]
    out: PathBuf,
    /// Use a minijinja template of your own
    ///
    /// `pflpipe templates report` prints the built-in one: change a copy.
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let template = args.template.as_deref().map(load::template).transpose()?;
    let end = args.out.extension().map(|end| end.to_string_lossy().to_lowercase());
    // A template of one's own may make something else of the page.
    if let Some(end) = end.filter(|end| template.is_none() && !["html", "htm"].contains(&end.as_str())) {
        return Err(Fault::usage(format!("a report is HTML, and `{}` ends in `.{end}`", args.out.display()))
            .help(format!("write `{}`; browsers print it to PDF", args.out.with_extension("html").display()))
            .into());
    }
    let store = context.needed_store()?;
    let project = table::open(&args.source, &args.changes, Some(&store), context)?;
    spare::pipeline(&args.out, &project)?;
    spare::apart(&args.out, args.template.as_deref())?;
    // A place that cannot be written is known before results are read.
    annotate::writable(annotate::beside(&args.out))?;
    let page = page(&project, &store)?;
    let text = report::render(&page, template.as_ref().map(|(name, text)| (name.as_str(), text.as_str())))?;
    annotate::replace(&args.out, text.as_bytes())?;
    context.pass_warnings(&store);
    let path = args.out.display().to_string();
    context.show(&Text {
        text: format!("wrote {path}: {}, {}\n", count(page.sections.len(), "table"), bytes(text.len() as u64)),
        json: json!({"file": path, "bytes": text.len(), "tables": page.sections.len(), "warnings": page.warnings}),
        quiet: format!("{path}\n"),
    })?;
    Ok(0)
}

fn page(project: &Project, store: &Store) -> Outcome<Page> {
    let plan = &project.plan;
    let memory = Memory::of(Some(store));
    let decisions = decide(plan, &memory, &|_| false);
    let found = gather::found(plan, &decisions, Some(store));
    let layouts: Vec<_> = plan.tables.iter().collect();
    let mut tables = gather::tables(plan, &layouts, &found, Some(store))?.tables;
    annotate::complete(&mut tables, project, &layouts)?;
    let kinds: Vec<&str> = evidence::KINDS.iter().map(|(name, _)| *name).filter(|name| *name != "partition").collect();
    let mut sections = Vec::new();
    for (mut table, layout) in tables.into_iter().zip(&layouts) {
        let figures = evidence::figures(&table, layout, plan, &found, store, &kinds);
        if table.groups.is_empty() {
            by_family(&mut table);
        }
        sections.push(Section { table, figures });
    }
    let records: Vec<Option<Record>> = decisions
        .iter()
        .map(|decision| match decision {
            Decision::Cached { key, .. } => store.record(key).ok().flatten(),
            _ => None,
        })
        .collect();
    let warnings = warnings(&sections, project, &records);
    Ok(Page {
        title: plan.pipeline.clone(),
        facts: facts(project, &sections, &records),
        warnings,
        reconstructions: evidence::reconstructions(plan, &decisions, store),
        partitions: evidence::partitions(plan, &decisions, store),
        features: evidence::features(plan, &decisions, store, false),
        graph: Some(evidence::graph(project)),
        pipeline: project.pipeline.text.clone(),
        stages: stages(project, &decisions, &records),
        sections,
    })
}

/// Puts rows of several families under their headings.
fn by_family(table: &mut Table) {
    let families = annotate::families();
    let of = |row: &str| row.split(", ").find_map(|part| families.get(part.split('(').next().unwrap_or_default()).copied());
    let known: BTreeSet<Option<&str>> = table.rows.iter().map(|row| of(row)).collect();
    if known.len() > 1 && !known.contains(&None) {
        table.group_by(|row| of(row).unwrap_or("other").to_owned());
    }
}

fn warnings(sections: &[Section], project: &Project, records: &[Option<Record>]) -> Vec<String> {
    let mut all: Vec<String> = project.pipeline.warnings.items().iter().map(|item| item.diagnostic.message.clone()).collect();
    for section in sections {
        let mut counts = Counts::default();
        let samples = section.table.cells.iter().flatten().flat_map(|cell| &cell.samples);
        samples.for_each(|observation| counts.add(observation.sample));
        if counts.values < counts.total() {
            all.push(format!("{}: {}.", section.table.title(), section.table.troubles()));
        }
        all.extend(section.table.caveats());
        if section.table.heading.quantities.iter().any(|quantity| quantity.label.ends_with(".best")) {
            all.push("Values that end in .best are of the evaluation that was chosen by the test set, which flatters; so are most published ones.".to_owned());
        }
        if !section.table.heading.over.is_empty() && section.table.depth() < 6 && section.table.depth() > 0 {
            all.push(format!(
                "{} of {} cannot show a difference at 0.05 by an exact paired test; that takes six.",
                count(section.table.depth(), "value"),
                section.table.heading.over.join(", ")
            ));
        }
    }
    let labels = project.plan.nodes.iter().map(Node::label);
    all.extend(Warned::of(labels.zip(records).filter_map(|(label, record)| Some((label, record.clone()?)))).lines());
    let mut seen = BTreeSet::new();
    all.retain(|warning| seen.insert(warning.clone()));
    let cpus: BTreeSet<&str> = records.iter().flatten().map(|record| record.host.cpu.as_str()).collect();
    if cpus.len() > 1 {
        all.push(format!("The results are from {} kinds of CPU; between classes of CPU the last bits differ.", cpus.len()));
    }
    all
}

fn facts(project: &Project, sections: &[Section], records: &[Option<Record>]) -> Vec<(String, String)> {
    let there: Vec<&Record> = records.iter().flatten().collect();
    let set = |of: &dyn Fn(&Record) -> String| {
        let all: BTreeSet<String> = there.iter().map(|record| of(record)).filter(|text| !text.is_empty()).collect();
        all.into_iter().collect::<Vec<_>>().join("; ")
    };
    let changes = &project.changes;
    let mut command = vec!["pflpipe run".to_owned(), quoted_for_shell(&file_name(project))];
    for (option, values) in [("--set", &changes.set), ("--sweep", &changes.sweep), ("--where", &changes.filter)] {
        command.extend(values.iter().map(|value| format!("{option} {}", quoted_for_shell(value))));
    }
    let seconds: f64 = there.iter().map(|record| record.wall_ms as f64 / 1e3).sum();
    let over: BTreeMap<String, BTreeSet<String>> = sections.iter().fold(BTreeMap::new(), |mut all, section| {
        for observation in section.table.cells.iter().flatten().flat_map(|cell| &cell.samples) {
            for (axis, label) in section.table.heading.over.iter().zip(&observation.over) {
                all.entry(axis.clone()).or_default().insert(label.clone());
            }
        }
        all
    });
    let mut facts = vec![
        ("Command".to_owned(), command.join(" ")),
        ("Sweep".to_owned(), format!("{}, {}", count(project.plan.cells.len(), "cell"), count(project.plan.nodes.len(), "stage"))),
        ("Results there".to_owned(), format!("{} of {}", there.len(), records.len())),
        ("Work of all stages".to_owned(), duration(seconds)),
        ("First and last result".to_owned(), {
            let first = there.iter().map(|record| record.started.as_str()).filter(|text| !text.is_empty()).min().unwrap_or("-");
            let last = there.iter().map(|record| record.started.as_str()).max().unwrap_or("-");
            format!("{} to {} UTC", second(first), second(last))
        }),
        ("CPU".to_owned(), set(&|record| format!("{} ({} cores)", record.host.cpu, record.host.cores))),
        ("pflpipe".to_owned(), set(&|record| record.version.clone())),
    ];
    for (axis, labels) in over {
        let shown: Vec<&str> = labels.iter().take(12).map(String::as_str).collect();
        let more = if labels.len() > 12 { format!(" and {} more", labels.len() - 12) } else { String::new() };
        facts.push((axis, format!("{}{more}", shown.join(", "))));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// A time stamp to the second, for people.
fn second(stamp: &str) -> String {
    stamp.get(..19).unwrap_or(stamp).replace('T', " ")
}

fn file_name(project: &Project) -> String {
    project.file.file_name().map_or_else(|| project.file.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn quoted_for_shell(text: &str) -> String {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./=,:".contains(c));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn stages(project: &Project, decisions: &[Decision], records: &[Option<Record>]) -> Listing {
    let rows = project.plan.nodes.iter().zip(decisions).zip(records).map(|((node, decision), record)| {
        let key = match decision {
            Decision::Cached { key, .. } | Decision::Run { key, .. } => key.to_string(),
            Decision::Maybe { .. } => "not known yet".to_owned(),
        };
        let (time, started) = match record {
            Some(record) => (duration(record.wall_ms as f64 / 1e3), second(&record.started)),
            None => ("no result".to_owned(), String::new()),
        };
        vec![node.label(), time, started, key]
    });
    Listing { header: ["stage", "time", "started (UTC)", "key"].map(str::to_owned).into(), rows: rows.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        assert_eq!(quoted_for_shell("seed=0..3"), "seed=0..3");
        assert_eq!(quoted_for_shell("a != 'b'"), "'a != '\\''b'\\'''");
    }
}
