//! The report: one HTML page with tables, plots, pipeline and provenance, which needs nothing else to be read.
//!
//! It is handed finished parts and puts them in order; where they come from is decided above it.

use crate::base::{Fault, Outcome};
use crate::plots::{self, Svg};
use crate::table::{Table, format};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value, context};

/// A drawing with its words.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is, as a name for files: `curves-accuracy-0.1`.
    pub name: String,
    /// One or two sentences below it.
    pub caption: String,
    /// The drawing.
    pub svg: Svg,
}

/// A table with its drawings.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The table.
    pub table: Table,
    /// Its drawings.
    pub figures: Vec<Figure>,
}

/// A list with names, for provenance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Column names.
    pub header: Vec<String>,
    /// Cells by row.
    pub rows: Vec<Vec<String>>,
}

/// Everything that a report shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The pipeline's name.
    pub title: String,
    /// Names and values that say what was run where.
    pub facts: Vec<(String, String)>,
    /// What has to be known before any number is read.
    pub warnings: Vec<String>,
    /// Tables with their drawings.
    pub sections: Vec<Section>,
    /// Originals beside what attacks made of them.
    pub reconstructions: Vec<Figure>,
    /// Partitions.
    pub partitions: Vec<Figure>,
    /// What trained models make of test samples.
    pub features: Vec<Figure>,
    /// The graph of stages.
    pub graph: Option<Figure>,
    /// The text of the pipeline.
    pub pipeline: String,
    /// Every stage with its key and where it ran.
    pub stages: Listing,
}

/// The built-in template of the page.
pub const TEMPLATE: &str = include_str!("../../templates/report/report.html.j2");
const STYLE: &str = include_str!("../../templates/report/report.css");
const SCRIPT: &str = include_str!("../../templates/report/report.js");

/// Writes the page, by a template of the user's own (its name and its text) where there is one. Equal pages give equal bytes.
///
/// # Errors
/// A usage fault when the user's template is wrong, an internal one when the built-in is.
pub fn render(page: &Page, template: Option<(&str, &str)>) -> Outcome<String> {
    let wrong = |e: minijinja::Error| match template {
        Some(_) => {
            Fault::usage(format!("the template cannot be used: {e:#}")).help("`templates/report/report.html.j2` is the built-in one")
        }
        None => Fault::internal(format!("the template of reports is broken: {e:#}")),
    };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(wrong)?);
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    let (name, text) = template.unwrap_or(("report.html.j2", TEMPLATE));
    environment.add_template(name, text).map_err(wrong)?;
    let text = environment.get_template(name).and_then(|template| template.render(values(page))).map_err(wrong)?;
    Ok(text.trim_end().to_owned() + "\n")
}

fn values(page: &Page) -> Value {
    let figure =
        |figure: &Figure| context! { name => figure.name.clone(), caption => figure.caption.clone(), svg => safe(figure.svg.inline()) };
    let sections: Vec<Value> = page
        .sections
        .iter()
        .zip(format::slugs(page.sections.iter().map(|section| &section.table)))
        .map(|(section, id)| {
            let mut families: Vec<String> = Vec::new();
            for group in &section.table.groups {
                if !families.contains(group) {
                    families.push(group.clone());
                }
            }
            context! {
                id => id,
                title => section.table.title(),
                families => families,
                html => safe(format::fragment(&section.table, 2)),
                figures => section.figures.iter().map(figure).collect::<Vec<_>>(),
            }
        })
        .collect();
    context! {
        title => page.title.clone(),
        facts => page.facts.clone(),
        warnings => page.warnings.clone(),
        sections => sections,
        reconstructions => page.reconstructions.iter().map(figure).collect::<Vec<_>>(),
        partitions => page.partitions.iter().map(figure).collect::<Vec<_>>(),
        features => page.features.iter().map(figure).collect::<Vec<_>>(),
        graph => page.graph.as_ref().map(figure),
        pipeline => page.pipeline.clone(),
        stages => context! { header => page.stages.header.clone(), rows => page.stages.rows.clone() },
        style => safe(format!("{}{}{STYLE}", format::STYLE, plots::STYLE)),
        script => safe(SCRIPT.to_owned()),
        version => env!("CARGO_PKG_VERSION"),
    }
}

fn safe(text: String) -> Value {
    Value::from_safe_string(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_nothing_is_loaded_from_elsewhere() {
        let page = Page {
            title: "a <b> & \"c\"".into(),
            facts: vec![("CPU".into(), "x < y".into())],
            warnings: vec!["1 of 4 samples <diverged>".into()],
            pipeline: "name: </pre><script>alert(1)</script>".into(),
            stages: Listing { header: vec!["stage".into()], rows: vec![vec!["run[a=<1>]".into()]] },
            ..Page::default()
        };
        let text = render(&page, None).expect("renders");
        assert!(text.contains("<title>a &lt;b&gt; &amp; &quot;c&quot;</title>"), "{text}");
        assert!(text.contains("1 of 4 samples &lt;diverged&gt;") && !text.contains("<script>alert"));
        for external in ["http://", "https://", " src=", "@import", "url("] {
            assert!(!text.contains(external), "`{external}` would load something");
        }
        assert_eq!(text, render(&page, None).expect("renders"));
        assert!(render(&page, Some(("mine", "{% if %}"))).is_err());
        assert_eq!(render(&page, Some(("mine", "{{ title }}"))).expect("renders"), "a &lt;b&gt; &amp; &quot;c&quot;\n");
    }
}
