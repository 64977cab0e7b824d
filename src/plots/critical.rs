//! The critical-difference diagram (Demsar, 2006): mean ranks on a line, and bars over methods that cannot be told apart.

use super::axis::margin;
use super::svg::{Anchor, Svg};
use crate::results::stats::Friedman;

/// Methods with the test of their ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Critical<'a> {
    /// The title.
    pub title: String,
    /// The names, in the order of the test's mean ranks.
    pub names: &'a [String],
    /// The test.
    pub test: &'a Friedman,
}

/// Draws the diagram: better ranks on the left, names at both sides.
#[must_use]
pub fn critical(plot: &Critical<'_>) -> Svg {
    let order = plot.test.order();
    let groups = plot.test.groups();
    let n = order.len();
    let labels: Vec<String> = plot.names.iter().zip(&plot.test.mean_ranks).map(|(name, rank)| format!("{name} ({rank:.2})")).collect();
    let side = margin(labels.iter().map(String::as_str), 12.0) + 12.0;
    let width = 760.0_f64;
    let (left, right) = (side, width - side);
    let rows = n.div_ceil(2);
    let axis = 78.0;
    let bars = axis + 14.0;
    let names_top = bars + 8.0 * groups.len() as f64 + 18.0;
    let height = names_top + 18.0 * rows as f64 + 14.0;
    let mut svg = Svg::new(width, height, &plot.title);
    svg.headline();
    let last = n.max(2) as f64;
    let at = |rank: f64| left + (rank - 1.0) / (last - 1.0) * (right - left);
    svg.line("axis", (left, axis), (right, axis));
    let every = n.div_ceil(12).max(1);
    for rank in (1..=n).step_by(every) {
        let x = at(rank as f64);
        svg.line("axis", (x, axis - 5.0), (x, axis));
        svg.text("tick", (x, axis - 9.0), Anchor::Middle, &rank.to_string());
    }
    // The critical difference itself, above the axis.
    let end = at(1.0 + plot.test.critical).min(right);
    svg.line("strong", (left, 48.0), (end, 48.0));
    svg.line("strong", (left, 44.0), (left, 52.0));
    svg.line("strong", (end, 44.0), (end, 52.0));
    svg.text("soft", (left, 40.0), Anchor::Start, &format!("critical difference {:.2}", plot.test.critical));
    for (level, group) in groups.iter().enumerate() {
        let y = bars + 8.0 * level as f64;
        let rank = |place: usize| plot.test.mean_ranks[order[place]];
        svg.line("bar", (at(rank(group.start)) - 3.0, y), (at(rank(group.end - 1)) + 3.0, y));
    }
    for (place, row) in order.iter().enumerate() {
        let rank = plot.test.mean_ranks[*row];
        let x = at(rank);
        let (line, anchor, edge) = if place < rows {
            (names_top + 18.0 * place as f64, Anchor::End, left - 12.0)
        } else {
            (names_top + 18.0 * (n - 1 - place) as f64, Anchor::Start, right + 12.0)
        };
        svg.line("axis", (x, axis), (x, line));
        svg.line("axis", (x, line), (edge, line));
        let shift = if anchor == Anchor::End { -4.0 } else { 4.0 };
        svg.text("label", (edge + shift, line + 4.0), anchor, &labels[*row]);
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_join_what_cannot_be_told_apart() {
        let blocks: Vec<Vec<f64>> =
            (0..6).map(|b| (0..8).map(|m| -f64::from(m) + if b % 2 == 0 { 0.0 } else { f64::from(m % 2) * 1.5 }).collect()).collect();
        let test = Friedman::of(&blocks, 0.05).expect("a test");
        let names: Vec<String> = (0..8).map(|m| format!("method{m}")).collect();
        let text = critical(&Critical { title: "t".into(), names: &names, test: &test }).document();
        assert_eq!(text.matches("class=\"bar\"").count(), test.groups().len());
        assert!(text.contains(">method0 (") && text.contains(">method7 ("));
    }
}
