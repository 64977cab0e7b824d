//! The JSON Schema (draft 2020-12) of pipeline files, for editors.
//!
//! An editor sees one file and no values of expressions, so the schema is a little laxer than the check: an expression may stand
//! for any value, and required parameters may come from `defaults` or an extended file.

use super::catalog::{Bound, Catalog, Default, Field, Shape, StageKind, Type};
use super::tables;
use serde_json::{Map, Value, json};

/// The schema of pipelines of this catalog.
#[must_use]
pub fn schema(catalog: &dyn Catalog) -> Value {
    let kinds = catalog.kinds();
    let mut definitions = Map::new();
    definitions.insert("expression".to_owned(), expression());
    let mut stage = Map::new();
    let mut defaults = Map::new();
    for kind in kinds {
        let name = format!("kind-{}", kind.name);
        let mut params = shape(&kind.shape, false);
        params["description"] = kind.doc.into();
        definitions.insert(name.clone(), params);
        stage.insert(kind.name.to_owned(), json!({"$ref": format!("#/$defs/{name}")}));
        defaults.insert(kind.name.to_owned(), all_parameters(kind));
    }
    let option = |doc: &str, ty: Value| json!({"description": doc, "anyOf": [ty, {"$ref": "#/$defs/expression"}]});
    stage.insert(
        "timeout".to_owned(),
        option("The stage fails when it runs longer: seconds, or `90s`, `30min`, `2h`.", json!({"type": ["number", "string"]})),
    );
    stage.insert("retries".to_owned(), option("How often it is tried again.", json!({"type": "integer", "minimum": 0, "maximum": 100})));
    stage.insert("device".to_owned(), option("`cpu` or `cuda:N`.", json!({"type": "string", "pattern": "^(cpu|cuda:[0-9]{1,3})$"})));
    definitions.insert(
        "stage".to_owned(),
        json!({
            "description": "A stage: its kind with its parameters, and how it is run.",
            "type": ["object", "null"],
            "properties": stage,
            "additionalProperties": false,
        }),
    );
    definitions.insert("table".to_owned(), table(catalog));
    definitions.insert("axes".to_owned(), axes());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:pflpipe:schema:pipeline",
        "title": "pflpipe pipeline",
        "type": "object",
        "properties": {
            "name": {"description": "Name of the pipeline; the file's name where left out.", "type": "string"},
            "extends": {
                "description": "Files that this one builds on, relative to it.",
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            },
            "vars": {"description": "Values that expressions may use; `--set NAME=VALUE` changes them.", "type": ["object", "null"]},
            "sweep": sweep(),
            "defaults": {
                "description": "Parameters for all stages of a kind.",
                "type": ["object", "null"],
                "properties": defaults,
                "additionalProperties": false,
            },
            "stages": {
                "description": "The stages by name.",
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": "^[A-Za-z0-9_-]+$"},
                "additionalProperties": {"$ref": "#/$defs/stage"},
            },
            "tables": {
                "description": "The tables by name.",
                "type": ["object", "null"],
                "additionalProperties": {"$ref": "#/$defs/table"},
            },
        },
        "additionalProperties": false,
        "anyOf": [{"required": ["stages"]}, {"required": ["extends"]}],
        "$defs": definitions,
    })
}

fn expression() -> Value {
    json!({"description": "An expression over variables and axes.", "type": "string", "pattern": "\\{\\{[\\s\\S]*\\}\\}"})
}

fn axes() -> Value {
    let values = json!({
        "anyOf": [
            {"type": "array", "minItems": 1},
            {
                "type": "object",
                "properties": {"range": {
                    "description": "Start, end (left out) and perhaps the step.",
                    "type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3,
                }},
                "required": ["range"],
                "additionalProperties": false,
            },
            {"$ref": "#/$defs/expression"},
        ],
    });
    json!({
        "type": ["object", "null"],
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": values,
    })
}

fn sweep() -> Value {
    let axes = json!({"$ref": "#/$defs/axes"});
    let zip = json!({
        "description": "Axes that vary together; their lists have the same length.",
        "anyOf": [{"type": "array", "items": axes}, axes],
    });
    json!({
        "description": "Axes and the cells that they span.",
        "type": ["object", "null"],
        "properties": {
            "grid": {"description": "Axes whose values are all combined.", "$ref": "#/$defs/axes"},
            "zip": zip,
            "when": {
                "description": "Axes for only some cells.",
                "type": ["array", "null"],
                "items": {
                    "type": "object",
                    "properties": {"if": {"type": ["string", "boolean"]}, "grid": axes, "zip": zip},
                    "required": ["if"],
                    "additionalProperties": false,
                },
            },
            "exclude": {
                "description": "Cells to leave out: values of axes, or a condition.",
                "type": ["array", "null"],
                "items": {"type": ["object", "string"]},
            },
            "include": {"description": "Cells to add.", "type": ["array", "null"], "items": {"type": "object"}},
            "max": {
                "description": "More cells than this are refused (10000).",
                "anyOf": [{"type": "integer", "minimum": 1}, {"$ref": "#/$defs/expression"}],
            },
        },
        "additionalProperties": false,
    })
}

fn table(catalog: &dyn Catalog) -> Value {
    let names = |doc: &str| json!({"description": doc, "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]});
    let published = catalog.published();
    let known = if published.is_empty() {
        json!({"type": "string"})
    } else {
        json!({"anyOf": [{"enum": published}, {"type": "string", "pattern": "\\.csv$"}]})
    };
    let list = json!({"anyOf": [known, {"type": "array", "items": known}]});
    let compare = json!({"description": "Published tables, or csv files, whose numbers stand beside.", "anyOf": [known, {"type": "array", "items": known}, {
        "type": "object",
        "properties": {
            "table": list,
            "tables": list,
            "margin": {"description": "Numbers count as equal within it: 0.02 is two points of accuracy.", "type": "number", "exclusiveMinimum": 0},
            "settings": {
                "description": "Which published setting (`data set, model, scenario`) a label of an axis stands for.",
                "type": "object", "additionalProperties": {"type": "string"},
            },
        },
        "additionalProperties": false,
    }]});
    let test = json!({"enum": tables::TESTS});
    let statistics = json!({"description": "Tests of rows against each other.", "anyOf": [test, {
        "type": "object",
        "properties": {
            "test": test,
            "against": {"description": "A row, or `first`, `best`, `all`.", "type": "string"},
            "correction": {"enum": ["holm", "none"]},
            "level": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        },
        "additionalProperties": false,
    }]});
    json!({
        "description": "A table of results.",
        "type": ["object", "null"],
        "properties": {
            "rows": names("Axes that span the rows."),
            "columns": names("Axes that span the columns."),
            "value": names("`stage.metric.selector`, such as `run.test_accuracy.best`."),
            "values": names("The same as `value`."),
            "over": names("Axes over which the mean is taken."),
            "compare": compare,
            "statistics": statistics,
            "show": {"description": "What of a cell's values is shown.", "enum": tables::SHOWS},
            "ranks": {"description": "Whether mean ranks stand in a column of their own.", "type": "boolean"},
            "headings": {"description": "Whether rows stand under the family of their algorithm.", "enum": ["family", "none"]},
            "best": {"description": "Which value is marked.", "enum": ["max", "min"]},
            "title": {"description": "The caption.", "type": "string"},
            "formats": names("Formats that `run` and `table` write to files: term, md, latex, html, csv, json, long, series."),
            "format": names("The same as `formats`."),
            "digits": {"description": "Digits after the point.", "type": "integer", "minimum": 0, "maximum": 10},
            "percent": {"description": "Whether fractions are shown in percent.", "type": "boolean"},
            "where": {"description": "The condition of the cells that it shows.", "type": "string"},
            "filter": {"description": "The same as `where`.", "type": "string"},
        },
        "additionalProperties": false,
    })
}

/// All parameters of a kind whatever its variant, for `defaults`.
fn all_parameters(kind: &StageKind) -> Value {
    let mut properties = Map::new();
    if let Some(tag) = &kind.shape.tag {
        properties.insert(tag.name.to_owned(), choice(tag.doc, tag.variants.iter().map(|v| (v.name, v.doc))));
        for field in tag.variants.iter().flat_map(|variant| &variant.fields) {
            // Variants may give one name different types.
            let schema = if properties.contains_key(field.name) { json!(true) } else { self::field(field) };
            properties.insert(field.name.to_owned(), schema);
        }
    }
    for field in &kind.shape.fields {
        properties.insert(field.name.to_owned(), self::field(field));
    }
    json!({"type": ["object", "null"], "properties": properties, "additionalProperties": false})
}

/// `strict` requires what has no default; that is possible only where nothing else can bring it.
fn shape(shape: &Shape, strict: bool) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<&str> = Vec::new();
    let mut conditions = Vec::new();
    if let Some(tag) = &shape.tag {
        properties.insert(tag.name.to_owned(), choice(tag.doc, tag.variants.iter().map(|v| (v.name, v.doc))));
        if strict {
            required.push(tag.name);
        }
        let own: Vec<&str> = tag.variants.iter().flat_map(|variant| variant.fields.iter().map(|field| field.name)).collect();
        for name in &own {
            properties.insert((*name).to_owned(), json!(true));
        }
        for variant in &tag.variants {
            let mut then: Map<String, Value> = own.iter().map(|name| ((*name).to_owned(), json!(false))).collect();
            let mut needed = Vec::new();
            for field in &variant.fields {
                then.insert(field.name.to_owned(), self::field(field));
                if strict && field.default == Default::Required {
                    needed.push(field.name);
                }
            }
            if !then.is_empty() {
                let selected = json!({"properties": {tag.name: {"const": variant.name}}, "required": [tag.name]});
                conditions.push(json!({"if": selected, "then": {"properties": then, "required": needed}}));
            }
        }
    }
    for field in &shape.fields {
        properties.insert(field.name.to_owned(), self::field(field));
        if strict && field.default == Default::Required {
            required.push(field.name);
        }
    }
    let mut map = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        map["required"] = json!(required);
    }
    if !conditions.is_empty() {
        map["allOf"] = json!(conditions);
    }
    let mut any = vec![map];
    if let Some(tag) = &shape.tag {
        any.push(json!({"enum": tag.variants.iter().map(|v| v.name).collect::<Vec<_>>()}));
    }
    any.push(json!({"$ref": "#/$defs/expression"}));
    if !strict {
        any.push(json!({"type": "null"}));
    }
    json!({"anyOf": any})
}

fn choice<'a>(doc: &str, words: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let words: Vec<Value> = words.map(|(name, doc)| json!({"const": name, "description": doc})).collect();
    json!({"description": doc, "anyOf": [{"oneOf": words}, {"$ref": "#/$defs/expression"}]})
}

fn field(field: &Field) -> Value {
    let mut schema = with_expression(&field.ty);
    let mut doc = field.doc.to_owned();
    if !field.symbol.is_empty() {
        doc = format!("{doc} Symbol: {}.", field.symbol);
    }
    if !field.source.is_empty() {
        doc = format!("{doc} Default from: {}.", field.source);
    }
    schema["description"] = doc.into();
    if let Default::Is(value) = &field.default {
        schema["default"] = value.clone();
    }
    schema
}

fn with_expression(ty: &Type) -> Value {
    match ty {
        // Any text may be an expression, and shapes bring their own alternatives.
        Type::Text | Type::Stage { .. } => json!({"type": "string"}),
        Type::Map(inner) => shape(inner, true),
        _ => json!({"anyOf": [self::ty(ty), {"$ref": "#/$defs/expression"}]}),
    }
}

fn ty(ty: &Type) -> Value {
    match ty {
        Type::Bool => json!({"type": "boolean"}),
        Type::Int { min, max } => {
            let mut schema = json!({"type": "integer"});
            if *min != i64::MIN {
                schema["minimum"] = (*min).into();
            }
            if *max != i64::MAX {
                schema["maximum"] = (*max).into();
            }
            schema
        }
        Type::Float { min, max } => {
            let mut schema = json!({"type": "number"});
            match min {
                Bound::None => {}
                Bound::Incl(b) => schema["minimum"] = (*b).into(),
                Bound::Excl(b) => schema["exclusiveMinimum"] = (*b).into(),
            }
            match max {
                Bound::None => {}
                Bound::Incl(b) => schema["maximum"] = (*b).into(),
                Bound::Excl(b) => schema["exclusiveMaximum"] = (*b).into(),
            }
            schema
        }
        Type::Choice(words) => {
            json!({"oneOf": words.iter().map(|(name, doc)| json!({"const": name, "description": doc})).collect::<Vec<_>>()})
        }
        Type::List(inner) => json!({"type": "array", "items": with_expression(inner)}),
        Type::Text | Type::Stage { .. } | Type::Map(_) => with_expression(ty),
    }
}
