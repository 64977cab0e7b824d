//! Tables through a template: the built-in one of LaTeX, or one of the user's own. Both are given the same.

use super::super::grid::Line;
use super::super::value::{Rank, Table};
use super::latex::escaped;
use crate::base::{Fault, Outcome};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Value, context};
use std::collections::BTreeSet;

/// Renders a minijinja template over `tables`. `name` is its file: it stands in messages, and one that ends in `.html` or `.html.j2`
/// gets its texts escaped for HTML.
///
/// Each table has `name`, `label` (its slug, which no other table has), `title`, `legend`, `troubles`, `notes` (what added columns mean), `caption` (all these in a line), `row_axis`,
/// `column_axis`, `columns`, `under_axis` (so many of them stand under the column axis), `rows`, `sheets`, `wide` and `anything_wide`
/// (whether the table, or one of its sheets too, may be wider than a page). A row has `label`, `group`, `heading` (the group where it
/// begins, else empty) and `cells`; a cell has `text` (number and note), `number`, `mean`, `spread`, `note` and `rank` (1, 2 or none). A
/// sheet has `title`, `header`, `rows`, `notes`, `caption` and `wide`. All are texts as a table on the terminal shows them. The filter
/// `latex` escapes for LaTeX, `slug` keeps letters and digits. The line feed after a block and the blanks before one are left out.
///
/// # Errors
/// A usage fault that says where the template is wrong.
pub fn with_template(name: &str, template: &str, tables: &[Table]) -> Outcome<String> {
    rendered(name, template, tables).map_err(|e| {
        Fault::usage(format!("the template cannot be used: {e:#}"))
            .help("README.md lists what a template is given; `pflpipe templates latex` prints one to start from")
    })
}

pub(super) fn rendered(name: &str, template: &str, tables: &[Table]) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|name| {
        let bare = name.strip_suffix(".j2").unwrap_or(name);
        if bare.ends_with(".html") { AutoEscape::Html } else { AutoEscape::None }
    });
    environment.add_filter("latex", |text: &str| escaped(text));
    environment.add_filter("slug", slug);
    environment.add_template(name, template)?;
    let labels = slugs(tables);
    let tables: Vec<Value> = tables.iter().zip(&labels).map(|(table, label)| one(table, label)).collect();
    let text = environment.get_template(name)?.render(context! { tables })?;
    Ok(text.trim_end().to_owned() + "\n")
}

/// A name of nothing but letters, digits and dashes, as labels and identifiers take it.
pub(super) fn slug(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// The slug of each table's name; names that would have the same one, or that of another table's sheet, are told apart by a number.
#[must_use]
pub fn slugs<'a>(tables: impl IntoIterator<Item = &'a Table>) -> Vec<String> {
    let names: Vec<String> = tables.into_iter().map(|table| slug(&table.heading.name)).collect();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut all = Vec::new();
    for name in &names {
        // A sheet's label is that of its table with a number.
        let of_sheet = |label: &str| {
            label.rsplit_once('-').is_some_and(|(table, n)| n.parse::<u32>().is_ok() && names.iter().any(|name| name == table))
        };
        let free = |label: &String| !taken.contains(label) && !of_sheet(label);
        let numbered = (2..).map(|n| format!("{name}-x{n}"));
        let label = std::iter::once(name.clone()).chain(numbered).find(free).unwrap_or_default();
        taken.insert(label.clone());
        all.push(label);
    }
    all
}

fn one(table: &Table, label: &str) -> Value {
    let (heading, grid) = (&table.heading, table.grid());
    let (mut group, mut begins) = (String::new(), String::new());
    let mut rows: Vec<Value> = Vec::new();
    // The texts of each column, from which its width is told.
    let mut texts: Vec<Vec<String>> = std::iter::once(&heading.row_axis).chain(&grid.columns).map(|head| vec![head.clone()]).collect();
    for line in &grid.lines {
        match line {
            Line::Heading(text) => {
                group.clone_from(text);
                begins.clone_from(text);
            }
            Line::Row(label, cells) => {
                texts[0].push(label.clone());
                let mut shown = Vec::new();
                for (column, (text, rank)) in cells.iter().enumerate() {
                    let note = if text.note.is_empty() { String::new() } else { format!(" ({})", text.note) };
                    let whole = text.number().map_or_else(|| text.note.clone(), |number| format!("{number}{note}"));
                    let rank = match rank {
                        Rank::Best => Some(1),
                        Rank::Second => Some(2),
                        Rank::None => None,
                    };
                    texts[column + 1].push(whole.clone());
                    shown.push(context! {
                        text => whole,
                        number => text.number(),
                        mean => text.mean.clone(),
                        spread => text.spread.clone(),
                        note => text.note.clone(),
                        rank => rank,
                    });
                }
                rows.push(context! { label => label, group => group.clone(), heading => std::mem::take(&mut begins), cells => shown });
            }
        }
    }
    let (sheets, wide_sheets): (Vec<Value>, Vec<bool>) = table
        .sheets()
        .into_iter()
        .map(|sheet| {
            let columns = (0..sheet.header.len())
                .map(|column| sheet.rows.iter().chain([&sheet.header]).filter_map(|row| row.get(column).cloned()).collect::<Vec<_>>());
            let wide = wide(&columns.collect::<Vec<_>>());
            let caption = std::iter::once(&sheet.title).chain(&sheet.notes).cloned().collect::<Vec<_>>().join("; ");
            let value = context! {
                title => sheet.title,
                header => sheet.header,
                rows => sheet.rows,
                notes => sheet.notes,
                caption => caption,
                wide => wide,
            };
            (value, wide)
        })
        .unzip();
    let (title, legend, troubles) = (table.title(), table.legend(), table.troubles());
    let mut caption = format!("{title} ({legend})");
    for more in [&troubles, &grid.legend] {
        if !more.is_empty() {
            caption.push_str(&format!("; {more}"));
        }
    }
    let wide = wide(&texts);
    context! {
        name => heading.name.clone(),
        label => label,
        title => title,
        legend => legend,
        troubles => troubles,
        notes => grid.legend,
        caption => caption,
        row_axis => heading.row_axis.clone(),
        column_axis => heading.column_axis.clone(),
        columns => grid.columns,
        under_axis => grid.under_axis,
        rows => rows,
        sheets => sheets,
        wide => wide,
        anything_wide => wide || wide_sheets.contains(&true),
    }
}

/// Whether columns of such texts may be wider than the text of a page.
fn wide(columns: &[Vec<String>]) -> bool {
    let width = |texts: &Vec<String>| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0) + 2;
    columns.iter().map(width).sum::<usize>() > 70
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_template_sees_texts_and_ranks() {
        let template = "{% for table in tables %}{{ table.title }}: {% for row in table.rows %}{{ row.label }}={{ row.cells[0].text }}{% if row.cells[0].rank == 1 %}!{% endif %};{% endfor %}{% endfor %}\n\n";
        let text = with_template("mine.j2", template, &[sample()]).expect("renders");
        assert_eq!(
            text,
            "Test accuracy: fedavg=80.41 ± 0.09;ditto=93.04 ± 0.07!;a_b|c&d=89.99 ± 0.03 (n=2, 1 diverged);gpfl=92.89 ± 0.03;\n"
        );
        let fault = with_template("mine.j2", "\n{{ nothing }}", &[]).expect_err("not given");
        assert!(fault.to_string().contains("mine.j2:2"), "{fault}");
        assert!(with_template("mine.j2", "{% if %}", &[]).is_err());
    }

    #[test]
    fn names_of_one_slug_get_labels_of_their_own() {
        let named = |name: &str| {
            let mut table = sample();
            table.heading.name = name.to_owned();
            table
        };
        let tables = ["a b", "a_b", "a-b-1", "c"].map(named);
        assert_eq!(slugs(&tables), ["a-b", "a-b-x2", "a-b-1-x2", "c"]);
        let text = with_template("mine.j2", "{% for table in tables %}{{ table.label }} {% endfor %}", &tables).expect("renders");
        assert_eq!(text, "a-b a-b-x2 a-b-1-x2 c\n");
    }

    #[test]
    fn only_html_is_escaped_by_itself() {
        let template = "{{ tables[0].rows[2].label }} {{ tables[0].rows[2].label | latex }} {{ 'a b' | slug }}";
        let text = |name: &str| with_template(name, template, &[sample()]).expect("renders");
        assert_eq!(text("mine.tex"), "a_b|c&d a\\_b\\textbar{}c\\&d a-b\n");
        assert!(text("mine.html.j2").starts_with("a_b|c&amp;d ") && text("mine.html").starts_with("a_b|c&amp;d "));
    }
}
