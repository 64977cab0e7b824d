//! Skeletons of pipelines for `pflpipe new`.
//!
//! The skeletons use `<< >>` and `<% %>` for their own variables, since `{{ }}` belongs to the pipeline that they write.

use super::yaml;
use crate::base::text::{nearest, quoted};
use crate::base::{Fault, Outcome};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior};
use std::collections::BTreeMap;

/// A skeleton.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// As `--template` names it.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// What `--set` may change: name, default, meaning.
    pub variables: &'static [(&'static str, &'static str, &'static str)],
    text: &'static str,
}

impl Template {
    /// The skeleton itself.
    #[must_use]
    pub fn text(&self) -> &'static str {
        self.text
    }
}

const NAME: (&str, &str, &str) = ("name", "benchmark", "name of the pipeline");
const DATASET: (&str, &str, &str) = ("dataset", "fashion-mnist", "data set");
const MODEL: (&str, &str, &str) = ("model", "cnn", "model family");
const ROUNDS: (&str, &str, &str) = ("rounds", "200", "rounds of training");
const CLIENTS: (&str, &str, &str) = ("clients", "20", "number of clients");
const ALPHA: (&str, &str, &str) = ("alpha", "0.1", "Dirichlet concentration");
const ALGORITHMS: (&str, &str, &str) = ("algorithms", "fedavg, ditto, gpfl", "algorithms, separated by commas");
const SEEDS: (&str, &str, &str) = ("seeds", "3", "number of seeds");

/// The skeletons, simplest first.
#[must_use]
pub fn templates() -> &'static [Template] {
    &[
        Template {
            name: "single-run",
            doc: "one training of one algorithm",
            variables: &[NAME, DATASET, MODEL, ("algorithm", "fedavg", "algorithm"), ROUNDS, CLIENTS, ALPHA],
            text: include_str!("../../templates/pipelines/single-run.yaml.j2"),
        },
        Template {
            name: "dirichlet-sweep",
            doc: "algorithms by Dirichlet alpha over several seeds, with a table",
            variables: &[
                NAME,
                DATASET,
                MODEL,
                ALGORITHMS,
                ("alphas", "0.1, 0.5, 1.0", "Dirichlet concentrations, separated by commas"),
                SEEDS,
                ROUNDS,
                CLIENTS,
            ],
            text: include_str!("../../templates/pipelines/dirichlet-sweep.yaml.j2"),
        },
        Template {
            name: "algorithm-comparison",
            doc: "algorithms with their parameters side by side on one partition",
            variables: &[NAME, DATASET, MODEL, ALGORITHMS, SEEDS, ROUNDS, CLIENTS, ALPHA],
            text: include_str!("../../templates/pipelines/algorithm-comparison.yaml.j2"),
        },
    ]
}

/// The text of a new pipeline. `sets` are the `--set` pairs.
///
/// # Errors
/// A usage fault for an unknown skeleton or variable, and for a value that does not fit into YAML.
pub fn new_from_template(name: &str, sets: &[(String, String)]) -> Outcome<String> {
    let all = templates();
    let template = all.iter().find(|template| template.name == name).ok_or_else(|| {
        let names = quoted(all.iter().map(|template| template.name));
        let near = nearest(name, all.iter().map(|template| template.name));
        let fault = Fault::usage(format!("there is no template `{name}`"));
        fault.help(near.map_or_else(|| format!("choose from {names}, or give a file"), |near| format!("did you mean `{near}`?")))
    })?;
    let mut values: BTreeMap<&str, &str> = template.variables.iter().map(|(name, default, _)| (*name, *default)).collect();
    for (variable, value) in sets {
        let Some(slot) = values.get_mut(variable.as_str()) else {
            let list: Vec<String> = template.variables.iter().map(|(name, default, doc)| format!("`{name}` ({doc}; {default})")).collect();
            let near = nearest(variable, template.variables.iter().map(|(name, _, _)| *name));
            let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            return Err(
                Fault::usage(format!("template `{name}` has no variable `{variable}`")).help(format!("{near}it has {}", list.join(", ")))
            );
        };
        *slot = line(variable, value)?;
    }
    sound(render(template.name, template.text, &values).map_err(|error| Fault::internal(format!("a template is broken: {error:#}")))?, sets)
}

/// The same from a template of the user's own, whose file is called `name`. It may use the variables of all built-in ones, whose defaults
/// hold, and any other that `sets` gives.
///
/// # Errors
/// A usage fault that says where the template is wrong, and for a value that does not fit into YAML.
pub fn new_from_text(name: &str, text: &str, sets: &[(String, String)]) -> Outcome<String> {
    let known = templates().iter().flat_map(|template| template.variables);
    let mut values: BTreeMap<&str, &str> = known.map(|(name, default, _)| (*name, *default)).collect();
    for (variable, value) in sets {
        values.insert(variable, line(variable, value)?);
    }
    let rendered = render(name, text, &values).map_err(|error| {
        Fault::usage(format!("the template `{name}` cannot be used: {error:#}"))
            .help("a variable is `<< name >>`, and `--set name=value` gives it a value; `templates/pipelines/` has the built-in templates")
    })?;
    sound(rendered, sets)
}

/// A value as it is put into a template.
fn line<'a>(variable: &str, value: &'a str) -> Outcome<&'a str> {
    if value.trim().is_empty() || value.contains(['\n', '\r']) {
        return Err(Fault::usage(format!("the value of `{variable}` must be one line of text, found `{}`", value.escape_debug())));
    }
    Ok(value.trim())
}

/// The text, if it is YAML: a value with a stray bracket or colon would otherwise be found only when the pipeline is run.
fn sound(text: String, sets: &[(String, String)]) -> Outcome<String> {
    if yaml::parse(&text, 0).is_ok_and(|(_, problems)| problems.is_empty()) {
        return Ok(text);
    }
    let shown: Vec<String> = sets.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let what = match shown.is_empty() {
        true => "what the template gives is not YAML".to_owned(),
        false => format!("the values {} do not fit into YAML", quoted(shown.iter().map(String::as_str))),
    };
    Err(Fault::usage(what).help("quote a text that contains `:`, `#` or brackets"))
}

fn render(name: &str, text: &str, values: &BTreeMap<&str, &str>) -> Result<String, minijinja::Error> {
    let syntax = SyntaxConfig::builder()
        .variable_delimiters("<<", ">>")
        .block_delimiters("<%", "%>")
        .comment_delimiters("<#", "#>")
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()?;
    let mut env = Environment::new();
    env.set_syntax(syntax);
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.render_named_str(name, text, minijinja::Value::from_pairs(values.iter().map(|(name, value)| (*name, *value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_renders_and_uses_all_its_variables() {
        for template in templates() {
            let text = new_from_template(template.name, &[]).expect(template.name);
            assert!(!text.contains("<<") && !text.contains("<%") && text.ends_with('\n'), "{text}");
            for (name, default, _) in template.variables {
                let changed = if default.parse::<f64>().is_ok() { "77" } else { "other" };
                let other = new_from_template(template.name, &[((*name).to_owned(), changed.to_owned())]).expect(name);
                assert_ne!(text, other, "`{name}` of {}", template.name);
            }
        }
    }

    #[test]
    fn a_template_of_ones_own_has_all_variables_and_new_ones() {
        for template in templates() {
            let text = new_from_text("mine.j2", template.text, &[]).expect(template.name);
            assert_eq!(text, new_from_template(template.name, &[]).expect(template.name));
        }
        let sets = [("more".to_owned(), "7".to_owned())];
        assert_eq!(new_from_text("mine.j2", "a: << more >>\n", &sets).expect("renders"), "a: 7\n");
        let fault = new_from_text("mine.j2", "b: 1\na: << more >>\n", &[]).expect_err("not given");
        assert!(fault.to_string().contains("mine.j2:2"), "{fault}");
        assert!(new_from_text("mine.j2", "a: [\n", &[]).expect_err("not YAML").to_string().contains("is not YAML"));
    }

    #[test]
    fn wrong_names_and_values_are_refused() {
        let set = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert_eq!(new_from_template("single", &[]).expect_err("name").kind.exit_code(), 2);
        let fault = new_from_template("single-run", &set("datset", "x")).expect_err("variable");
        let help = fault.help.expect("help");
        assert!(help.starts_with("did you mean `dataset`?") && help.contains("`alpha` (Dirichlet"), "{help}");
        assert!(new_from_template("single-run", &set("dataset", "a}")).is_err());
        assert!(new_from_template("single-run", &set("dataset", "a\nb")).is_err());
    }
}
