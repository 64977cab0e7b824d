//! `algorithms`: what there is to compare, with every hyper-parameter, its default and where that comes from.

use super::Reply;
use super::context::Context;
use super::load;
use super::output::{Listing, Text, columns};
use crate::base::Fault;
use crate::base::text::{nearest, quoted};
use crate::fl::Description;
use crate::fl::algorithm::FLOATS;
use crate::spec::catalog::{Bound, Default, Field, Type};
use crate::spec::node::short;
use serde_json::{Value, json};

/// Names by which PFLlib runs algorithms that have others here.
const PFLLIB: [(&str, &str); 4] = [("PerAvg", "perfedavg"), ("FedDistill", "fd"), ("FedMTL", "fedmtl"), ("LG-FedAvg", "lgfedavg")];

/// List the algorithms, or describe one: its paper, its rule, its hyper-parameters.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  pflpipe algorithms ditto")]
pub(super) struct Args {
    /// The algorithm
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let all = load::algorithms();
    let described: Vec<&Description> = all.iter().map(|entry| &entry.description).collect();
    match &args.name {
        None => context.show(&Listing {
            header: vec!["name", "algorithm", "year", "family", "what stays personal", "down", "up", "paper"],
            rows: described.iter().map(|d| row(d)).collect(),
            note: wrapped(FLOATS, "").trim_end().to_owned(),
            json: described.iter().map(|d| to_json(d)).collect(),
            key: 0,
        })?,
        Some(name) => {
            let known = PFLLIB.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(name)).map_or(name.as_str(), |(_, ours)| ours);
            let found = described.iter().find(|d| d.name == known || d.title.eq_ignore_ascii_case(known));
            let Some(description) = found else {
                let names = || described.iter().map(|d| d.name);
                let help = match nearest(name, names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the algorithms are {}", quoted(names())),
                };
                return Err(Fault::usage(format!("there is no algorithm `{name}`")).help(help).into());
            };
            context.show(&Text { text: text(description), json: to_json(description), quiet: format!("{}\n", description.name) })?;
        }
    }
    Ok(0)
}

fn row(d: &Description) -> Vec<String> {
    let words = [d.name, d.title, &d.year.to_string(), d.family, d.personal, d.down, d.up, &short_paper(d.paper)];
    words.map(str::to_owned).to_vec()
}

/// The first author and the venue of "Author et al., Title, Venue Year".
fn short_paper(paper: &str) -> String {
    let parts: Vec<&str> = paper.split(", ").collect();
    if parts.len() < 2 {
        return paper.to_owned();
    }
    // A volume stands before its year.
    let venue = parts.len() - if parts.last().is_some_and(|last| last.parse::<u16>().is_ok()) { 2 } else { 1 };
    format!("{}, {}", parts[0], parts[venue..].join(", "))
}

fn text(d: &Description) -> String {
    let mut out = format!("{} ({})\n\n", d.title, d.name);
    let floats = format!("down {}, up {}; {FLOATS}", d.down, d.up);
    let rows = [
        ("paper", d.paper),
        ("family", d.family),
        ("personal", d.personal),
        ("floats", &floats),
        ("rule", d.rule),
        ("differences", d.differences),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        out.push_str(&wrapped(&format!("{name}: {value}"), "  "));
    }
    out.push_str("\nIn a pipeline:\n  ");
    out.push_str(&wrapped(&format!("algorithm: {}", sample(d)), "    "));
    if d.fields.is_empty() {
        out.push_str("\nIt has no hyper-parameters of its own.\n");
    } else {
        out.push_str("\nHyper-parameters:\n");
        let rows: Vec<Vec<String>> = d.fields.iter().map(field).collect();
        out.push_str(&columns(&["  name", "symbol", "type", "default", "source"], &rows));
        for field in &d.fields {
            out.push_str(&wrapped(&format!("{}: {}", field.name, field.doc), "  "));
        }
    }
    out
}

/// How it is written with its hyper-parameters.
fn sample(d: &Description) -> String {
    let given: Vec<String> = d.fields.iter().filter_map(|f| default(&f.default).map(|value| format!("{}: {value}", f.name))).collect();
    if given.is_empty() { d.name.to_owned() } else { format!("{{name: {}, {}}}", d.name, given.join(", ")) }
}

pub(super) fn field(field: &Field) -> Vec<String> {
    let default = match &field.default {
        Default::Required => "required".to_owned(),
        Default::Absent => "absent".to_owned(),
        Default::Is(value) => short(value),
    };
    vec![format!("  {}", field.name), field.symbol.to_owned(), kind(&field.ty), default, field.source.to_owned()]
}

fn default(default: &Default) -> Option<String> {
    if let Default::Is(value) = default { Some(short(value)) } else { None }
}

/// A type with its range in a few words.
pub(super) fn kind(ty: &Type) -> String {
    match ty {
        Type::Bool => "true or false".to_owned(),
        Type::Int { min, max } => match (*min, *max) {
            (i64::MIN, i64::MAX) => "integer".to_owned(),
            (min, i64::MAX) => format!("integer >= {min}"),
            (i64::MIN, max) => format!("integer <= {max}"),
            (min, max) => format!("integer {min} to {max}"),
        },
        Type::Float { min, max } => match (min, max) {
            (Bound::None, Bound::None) => "number".to_owned(),
            (Bound::Incl(a), Bound::Incl(b)) => format!("number {a} to {b}"),
            (min, max) => {
                let low = match min {
                    Bound::None => String::new(),
                    Bound::Incl(a) => format!(" >= {a}"),
                    Bound::Excl(a) => format!(" > {a}"),
                };
                let high = match max {
                    Bound::None => String::new(),
                    Bound::Incl(b) => format!(" <= {b}"),
                    Bound::Excl(b) => format!(" < {b}"),
                };
                format!("number{low}{}{high}", if low.is_empty() || high.is_empty() { "" } else { "," })
            }
        },
        Type::Text => "text".to_owned(),
        Type::Choice(words) => words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or "),
        Type::List(inner) => format!("list of {}", kind(inner)),
        Type::Stage { kinds, .. } => format!("a stage of kind {}", kinds.join(" or ")),
        Type::Map(_) => "map".to_owned(),
    }
}

/// A parameter for programs.
pub(super) fn field_json(field: &Field) -> Value {
    let value = if let Default::Is(value) = &field.default { Some(value) } else { None };
    json!({
        "name": field.name,
        "doc": field.doc,
        "type": kind(&field.ty),
        "default": value,
        "required": field.default == Default::Required,
        "symbol": field.symbol,
        "source": field.source,
    })
}

fn to_json(d: &Description) -> Value {
    let fields: Vec<Value> = d.fields.iter().map(field_json).collect();
    json!({
        "name": d.name,
        "title": d.title,
        "family": d.family,
        "paper": d.paper,
        "year": d.year,
        "personal": d.personal,
        "down": d.down,
        "up": d.up,
        "rule": d.rule,
        "differences": d.differences,
        "revision": d.revision,
        "fields": fields,
    })
}

/// Text broken at blanks into lines of at most a hundred characters, continued with an indent.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    let (mut out, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 100 {
            out.push_str(&line);
            out.push('\n');
            line = format!("{indent}{word}");
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    out + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_in_a_few_words() {
        for (ty, want) in [
            (Type::at_least(1), "integer >= 1"),
            (Type::positive(), "number > 0"),
            (Type::fraction(), "number 0 to 1"),
            (Type::Float { min: Bound::Excl(0.0), max: Bound::Incl(1.0) }, "number > 0, <= 1"),
            (Type::List(Box::new(Type::Int { min: 0, max: 9 })), "list of integer 0 to 9"),
        ] {
            assert_eq!(kind(&ty), want);
        }
    }

    #[test]
    fn a_paper_in_short_is_its_first_author_and_venue() {
        let short = short_paper("Wu et al., Communication-efficient learning, via, commas, Nature Communications 13, 2022");
        assert_eq!(short, "Wu et al., Nature Communications 13, 2022");
        assert_eq!(short_paper("T. Dinh, Tran, Nguyen, Moreau Envelopes, NeurIPS 2020"), "T. Dinh, NeurIPS 2020");
        assert_eq!(short_paper("the lower baseline"), "the lower baseline");
    }

    #[test]
    fn every_algorithm_can_be_described() {
        for entry in load::algorithms().iter() {
            let text = text(&entry.description);
            assert!(text.contains(entry.description.paper.split(',').next().unwrap_or_default()), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 140), "{text}");
        }
    }
}
