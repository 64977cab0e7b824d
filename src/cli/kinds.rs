//! `kinds`: what a pipeline may say of each stage kind, from the descriptions that check it.

use super::algorithms::{field, field_json, wrapped};
use super::context::Context;
use super::output::{Listing, Text, columns};
use super::{Reply, load};
use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use crate::spec::Catalog;
use crate::spec::catalog::{Field, Shape, StageKind, Type, Variant};
use serde_json::json;

/// List the stage kinds, or the parameters of one: `partition`, or only those of `partition.dirichlet`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pflpipe kinds train
  pflpipe kinds partition.dirichlet
  pflpipe kinds train.defence
  pflpipe kinds train.defence.krum")]
pub(super) struct Args {
    /// The kind, also with one of its variants
    #[arg(value_name = "KIND")]
    kind: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Reply {
    let catalog = load::kinds();
    let Some(name) = &args.kind else {
        let row = |kind: &StageKind| vec![kind.name.to_owned(), few(&variants(kind)), kind.doc.to_owned()];
        context.show(&Listing {
            header: vec!["kind", "variants", "what"],
            rows: catalog.kinds().iter().map(row).collect(),
            note: "pflpipe kinds KIND lists its parameters; pflpipe algorithms lists those of `train`".to_owned(),
            json: catalog.kinds().iter().map(|kind| json!({"name": kind.name, "doc": kind.doc, "variants": variants(kind)})).collect(),
            key: 0,
        })?;
        return Ok(0);
    };
    let (word, variant) = name.split_once('.').map_or((name.as_str(), None), |(kind, variant)| (kind, Some(variant)));
    let kind = catalog.kind(word).ok_or_else(|| unknown(word, "kind of stages", catalog.kinds().iter().map(|kind| kind.name).collect()))?;
    if let Some(path) = variant
        && let (field, inner) = path.split_once('.').map_or((path, None), |(field, inner)| (field, Some(inner)))
        && let Some(nested) = nested(&kind.shape).find(|nested| nested.name == field && nested.shape.tag.is_some())
    {
        return choices(kind.name, &nested, inner, context);
    }
    let chosen = chosen(kind, variant)?;
    let mut text = format!("{}: {}\n\n", kind.name, kind.doc);
    text.push_str(&section("Parameters", &kind.shape.fields));
    for Nested { name, shape } in nested(&kind.shape) {
        text.push_str(&section(&format!("Parameters of `{name}`"), &shape.fields));
    }
    for variant in &chosen {
        text.push_str(&wrapped(&format!("{}: {}", variant.name, variant.doc), "  "));
        text.push_str(&section("", &variant.fields));
    }
    let json = json!({
        "name": kind.name,
        "doc": kind.doc,
        "fields": kind.shape.fields.iter().map(field_json).collect::<Vec<_>>(),
        "variants": chosen
            .iter()
            .map(|v| json!({"name": v.name, "doc": v.doc, "fields": v.fields.iter().map(field_json).collect::<Vec<_>>()}))
            .collect::<Vec<_>>(),
    });
    let quiet = kind.shape.fields.iter().map(|field| format!("{}\n", field.name)).collect();
    context.show(&Text { text: text.trim_end().to_owned() + "\n", json, quiet })?;
    Ok(0)
}

/// The variants of a parameter that is a map: all of them, or the parameters of one.
fn choices(kind: &str, nested: &Nested<'_>, wanted: Option<&str>, context: &mut Context<'_>) -> Reply {
    let variants: Vec<&Variant> = nested.shape.tag.iter().flat_map(|tag| &tag.variants).collect();
    let json = |v: &Variant| json!({"name": v.name, "doc": v.doc, "fields": v.fields.iter().map(field_json).collect::<Vec<_>>()});
    let Some(wanted) = wanted else {
        context.show(&Listing {
            header: vec![nested.name, "what"],
            rows: variants.iter().map(|v| vec![v.name.to_owned(), v.doc.to_owned()]).collect(),
            note: format!("pflpipe kinds {kind}.{}.NAME lists the parameters of one", nested.name),
            json: variants.iter().map(|v| json(v)).collect(),
            key: 0,
        })?;
        return Ok(0);
    };
    let Some(variant) = variants.iter().find(|v| v.name == wanted) else {
        return Err(unknown(wanted, &format!("variant of `{}`", nested.name), variants.iter().map(|v| v.name).collect()).into());
    };
    let text = wrapped(&format!("{}: {}", variant.name, variant.doc), "  ") + &section("", &variant.fields);
    let quiet = variant.fields.iter().map(|field| format!("{}\n", field.name)).collect();
    context.show(&Text { text: text.trim_end().to_owned() + "\n", json: json(variant), quiet })?;
    Ok(0)
}

/// The first of many words, and how many more there are.
fn few(words: &[&str]) -> String {
    const SHOWN: usize = 5;
    let more = words.len().saturating_sub(SHOWN);
    let shown = words[..words.len() - more].join(" ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// The words of a kind's tag.
fn variants(kind: &StageKind) -> Vec<&'static str> {
    kind.shape.tag.iter().flat_map(|tag| tag.variants.iter().map(|variant| variant.name)).collect()
}

fn chosen<'k>(kind: &'k StageKind, variant: Option<&str>) -> Outcome<Vec<&'k Variant>> {
    let all = kind.shape.tag.iter().flat_map(|tag| &tag.variants);
    let Some(wanted) = variant else { return Ok(all.collect()) };
    match kind.shape.variant(wanted) {
        Some(variant) => Ok(vec![variant]),
        None => Err(unknown(wanted, &format!("variant of `{}`", kind.name), variants(kind))),
    }
}

fn unknown(word: &str, what: &str, known: Vec<&'static str>) -> Fault {
    let near = nearest(word, known.iter().copied()).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    Fault::usage(format!("`{word}` is not a {what}")).help(format!("{near}choose from {}", quoted(known)))
}

struct Nested<'s> {
    name: &'static str,
    shape: &'s Shape,
}

/// Maps among the parameters that have parameters of their own, algorithms left out: they have a command.
fn nested(shape: &Shape) -> impl Iterator<Item = Nested<'_>> {
    shape.fields.iter().filter_map(|field| match &field.ty {
        Type::Map(shape) if field.name != "algorithm" => Some(Nested { name: field.name, shape }),
        _ => None,
    })
}

/// The parameters as a table with their meanings below, under a heading where there is one.
fn section(heading: &str, fields: &[Field]) -> String {
    if fields.is_empty() {
        return "\n".to_owned();
    }
    let mut out = if heading.is_empty() { String::new() } else { format!("{heading}:\n") };
    let rows: Vec<Vec<String>> = fields.iter().map(field).collect();
    out.push_str(&columns(&["  name", "symbol", "type", "default", "source"], &rows));
    for field in fields {
        out.push_str(&wrapped(&format!("  {}: {}", field.name, field.doc), "    "));
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_chosen_by_name() {
        let catalog = load::kinds();
        let kind = catalog.kind("partition").expect("a kind");
        assert_eq!(chosen(kind, Some("dirichlet")).expect("there").len(), 1);
        assert_eq!(chosen(kind, None).expect("all").len(), variants(kind).len());
        let fault = chosen(kind, Some("dirichlett")).expect_err("no such variant");
        assert!(fault.help.expect("help").starts_with("did you mean `dirichlet`?"));
    }
}
