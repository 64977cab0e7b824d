//! The same points twice: marked by class on the left and by client on the right.

use super::axis::{Area, Scale, Unit};
use super::svg::{Anchor, COLORS, Svg};

/// A point with whom it belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// Where it lies.
    pub at: [f64; 2],
    /// Its class.
    pub class: u32,
    /// Its client.
    pub client: u32,
}

/// Points on a plane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scatter {
    /// The title.
    pub title: String,
    /// What the axes are.
    pub axes: [String; 2],
    /// The points.
    pub points: Vec<Placed>,
}

const SIDE: f64 = 340.0;
/// So many classes or clients have marks of their own in a legend.
const NAMED: usize = COLORS * COLORS;

/// Draws two panels with a legend below each.
#[must_use]
pub fn scatter(plot: &Scatter) -> Svg {
    let of = |point: &Placed, panel: usize| if panel == 0 { point.class } else { point.client };
    let kinds: [Vec<u32>; 2] = [0, 1].map(|panel| {
        let mut all: Vec<u32> = plot.points.iter().map(|point| of(point, panel)).collect();
        all.sort_unstable();
        all.dedup();
        all
    });
    let lines = kinds.iter().map(|kinds| kinds.len().min(NAMED).div_ceil(COLORS)).max().unwrap_or(0);
    let (width, height) = (2.0 * SIDE + 90.0, SIDE + 100.0 + 18.0 * lines as f64);
    let mut svg = Svg::new(width, height, &plot.title);
    svg.headline();
    for (panel, kinds) in kinds.iter().enumerate() {
        let left = 40.0 + panel as f64 * (SIDE + 30.0);
        let area = Area { left, top: 52.0, right: left + SIDE, bottom: 52.0 + SIDE };
        let what = if panel == 0 { "class" } else { "client" };
        svg.text("label", (left, 44.0), Anchor::Start, &format!("by {what}"));
        let along = |axis: usize, from: f64, to: f64| {
            Scale::covering(plot.points.iter().map(|point| point.at[axis]), false, from, to).with_room(0.04, Unit::Plain)
        };
        let (x, y) = (along(0, area.left, area.right), along(1, area.bottom, area.top));
        svg.line("axis", (area.left, area.bottom), (area.right, area.bottom));
        svg.line("axis", (area.left, area.top), (area.left, area.bottom));
        svg.text("soft", ((area.left + area.right) / 2.0, area.bottom + 20.0), Anchor::Middle, &plot.axes[0]);
        if panel == 0 {
            svg.upward("soft", (20.0, (area.top + area.bottom) / 2.0), &plot.axes[1]);
        }
        for point in &plot.points {
            let own = of(point, panel);
            let series = kinds.binary_search(&own).unwrap_or(0);
            svg.mark(series, (x.at(point.at[0]), y.at(point.at[1])), 2.4, &format!("class {}, client {}", point.class, point.client));
        }
        for (place, kind) in kinds.iter().take(NAMED).enumerate() {
            let at = (left + 6.0 + (place % COLORS) as f64 * 48.0, area.bottom + 40.0 + 18.0 * (place / COLORS) as f64);
            svg.mark(place, at, 3.6, "");
            svg.text("tick", (at.0 + 9.0, at.1 + 4.0), Anchor::Start, &kind.to_string());
        }
        if kinds.len() > NAMED {
            let note = format!("{} are drawn like the first ones", kinds.len() - NAMED);
            svg.text("soft", (left, area.bottom + 40.0 + 18.0 * lines as f64), Anchor::Start, &note);
        }
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn_in_both_panels() {
        let point = |i: u32| Placed { at: [f64::from(i), f64::from(i * i % 7)], class: i % 3, client: i % 5 };
        let plot = Scatter { title: "features".into(), axes: ["a".into(), "b".into()], points: (0..20).map(point).collect() };
        let text = scatter(&plot).document();
        assert_eq!(text.matches("class=\"mark").count(), 20 + 20 + 3 + 5);
        assert!(text.contains("class 1, client 4") && text.contains("by client"));
        let many = Scatter { points: (0..60).map(|i| Placed { class: i, ..point(i) }).collect(), ..plot };
        assert!(scatter(&many).document().contains("11 are drawn like the first ones"));
        assert!(scatter(&Scatter::default()).document().contains("</svg>"));
    }
}
