//! The stages of a pipeline and what they read from each other, from left to right.

use super::svg::{Anchor, Svg, width_of};

/// A stage.
#[derive(Clone, Debug, PartialEq)]
pub struct Box {
    /// Its name.
    pub name: String,
    /// What stands below the name: its kind and how many there are.
    pub note: String,
    /// Positions of the stages that it reads; smaller than its own.
    pub reads: Vec<usize>,
}

/// Draws each stage in the column after the last stage that it reads.
#[must_use]
pub fn graph(title: &str, boxes: &[Box]) -> Svg {
    let mut columns: Vec<usize> = Vec::new();
    for (index, stage) in boxes.iter().enumerate() {
        let column = stage.reads.iter().filter(|read| **read < index).map(|read| columns[*read] + 1).max().unwrap_or(0);
        columns.push(column);
    }
    let wide = boxes.iter().map(|b| width_of(&b.name, 12.0).max(width_of(&b.note, 11.0))).fold(70.0, f64::max) + 20.0;
    let (high, gap, row_gap) = (40.0, 46.0, 16.0);
    let mut filled = vec![0_usize; columns.iter().max().map_or(1, |c| c + 1)];
    let places: Vec<(f64, f64)> = columns
        .iter()
        .map(|column| {
            let row = filled[*column];
            filled[*column] += 1;
            (16.0 + (wide + gap) * *column as f64, 36.0 + (high + row_gap) * row as f64)
        })
        .collect();
    let width = 32.0 + (wide + gap) * filled.len() as f64 - gap;
    let height = 36.0 + (high + row_gap) * filled.iter().copied().max().unwrap_or(1).max(1) as f64 + 4.0;
    let mut svg = Svg::new(width.max(240.0), height, title);
    svg.headline();
    for (stage, (x, y)) in boxes.iter().zip(&places) {
        for read in &stage.reads {
            let Some((fx, fy)) = places.get(*read) else { continue };
            let (from, to) = ((fx + wide, fy + high / 2.0), (*x, y + high / 2.0));
            let bend = to.0 - gap / 2.0;
            svg.path("axis", &[from, (bend, from.1), (bend, to.1), (to.0 - 4.0, to.1)], "");
            svg.area("faint", &[(to.0, to.1), (to.0 - 7.0, to.1 - 3.5), (to.0 - 7.0, to.1 + 3.5)]);
        }
    }
    for (stage, (x, y)) in boxes.iter().zip(&places) {
        svg.rect("box", (*x, *y), (wide, high), "");
        svg.text("label", (x + wide / 2.0, y + 17.0), Anchor::Middle, &stage.name);
        svg.text("soft", (x + wide / 2.0, y + 32.0), Anchor::Middle, &stage.note);
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_stands_right_of_what_it_reads() {
        let stage = |name: &str, reads: &[usize]| Box { name: name.into(), note: "train x 3".into(), reads: reads.to_vec() };
        let text = graph("stages", &[stage("data", &[]), stage("split", &[0]), stage("net", &[0]), stage("run", &[1, 2])]).document();
        assert_eq!(text.matches("<polyline").count(), 4);
        let x = |name: &str| -> f64 {
            let before = &text[..text.find(&format!(">{name}</text>")).expect("drawn")];
            let from = before.rfind(" x=\"").expect("a place") + 4;
            before[from..].split('"').next().and_then(|n| n.parse().ok()).expect("a number")
        };
        assert!(x("data") < x("split") && (x("split") - x("net")).abs() < 1e-9 && x("net") < x("run"));
    }
}
