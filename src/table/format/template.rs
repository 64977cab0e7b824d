//! Tables through a template of the user's own.

use super::super::grid::Line;
use super::super::value::{Rank, Table};
use crate::base::{Fault, Outcome};
use minijinja::{Environment, Value, context};

/// Renders a minijinja template over `tables`: each has `name`, `title`, `legend`, `troubles`, `row_axis`, `column_axis`, `columns`,
/// `rows` and `sheets`. A row has `label`, `group` and `cells`; a cell has `text` (number and note), `mean`, `spread`, `note` and `rank` (1, 2 or
/// none). A sheet has `title`, `header`, `rows` and `notes`. All are texts as a table on the terminal shows them.
///
/// # Errors
/// A usage fault that says where the template is wrong.
pub fn with_template(template: &str, tables: &[Table]) -> Outcome<String> {
    let wrong =
        |e: minijinja::Error| Fault::usage(format!("the template cannot be used: {e:#}")).help("README.md lists what a template is given");
    let mut environment = Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.add_template("yours", template).map_err(wrong)?;
    let tables: Vec<Value> = tables.iter().map(one).collect();
    let text = environment.get_template("yours").and_then(|template| template.render(context! { tables })).map_err(wrong)?;
    Ok(text.trim_end().to_owned() + "\n")
}

fn one(table: &Table) -> Value {
    let grid = table.grid();
    let mut group = String::new();
    let mut rows: Vec<Value> = Vec::new();
    for line in &grid.lines {
        match line {
            Line::Heading(text) => group.clone_from(text),
            Line::Row(label, cells) => {
                let cells: Vec<Value> = cells
                    .iter()
                    .map(|(text, rank)| {
                        let note = if text.note.is_empty() { String::new() } else { format!(" ({})", text.note) };
                        let shown = text.number().map_or_else(|| text.note.clone(), |number| format!("{number}{note}"));
                        let rank = match rank {
                            Rank::Best => Some(1),
                            Rank::Second => Some(2),
                            Rank::None => None,
                        };
                        context! { text => shown, mean => text.mean.clone(), spread => text.spread.clone(), note => text.note.clone(), rank => rank }
                    })
                    .collect();
                rows.push(context! { label => label, group => group.clone(), cells => cells });
            }
        }
    }
    let sheets: Vec<Value> =
        table.sheets().into_iter().map(|s| context! { title => s.title, header => s.header, rows => s.rows, notes => s.notes }).collect();
    let heading = &table.heading;
    context! {
        name => heading.name.clone(),
        title => table.title(),
        legend => table.legend(),
        troubles => table.troubles(),
        row_axis => heading.row_axis.clone(),
        column_axis => heading.column_axis.clone(),
        columns => grid.columns,
        rows,
        sheets,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_template_sees_texts_and_ranks() {
        let template = "{% for table in tables %}{{ table.title }}: {% for row in table.rows %}{{ row.label }}={{ row.cells[0].text }}{% if row.cells[0].rank == 1 %}!{% endif %};{% endfor %}{% endfor %}\n\n";
        let text = with_template(template, &[sample()]).expect("renders");
        assert_eq!(
            text,
            "Test accuracy: fedavg=80.41 ± 0.09;ditto=93.04 ± 0.07!;a_b|c&d=89.99 ± 0.03 (n=2, 1 diverged);gpfl=92.89 ± 0.03;\n"
        );
        assert!(with_template("{{ nothing }}", &[]).is_err());
        assert!(with_template("{% if %}", &[]).is_err());
    }
}
