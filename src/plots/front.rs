//! Accuracy against cost: every method a spot, and the front of those that no other beats in both.

use super::axis::{Area, Scale, Unit, below, beside, fitted, label, margin, names, spread};
use super::svg::{Anchor, Svg, width_of};

/// One method.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// Its name.
    pub name: String,
    /// Its family; equal families have equal marks.
    pub family: String,
    /// What it costs.
    pub cost: f64,
    /// What it reaches, as a fraction.
    pub value: f64,
}

/// Methods by cost and accuracy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Front {
    /// The title.
    pub title: String,
    /// What the cost is.
    pub cost: String,
    /// What is reached.
    pub value: String,
    /// The methods.
    pub spots: Vec<Spot>,
}

/// The spots that no other one beats: none is at most as dear and at least as good, and better in one of both. By rising cost.
fn best(spots: &[Spot]) -> Vec<usize> {
    let beaten = |a: &Spot| spots.iter().any(|b| b.cost <= a.cost && b.value >= a.value && (b.cost < a.cost || b.value > a.value));
    let mut found: Vec<usize> = (0..spots.len()).filter(|s| !beaten(&spots[*s])).collect();
    found.sort_by(|a, b| spots[*a].cost.total_cmp(&spots[*b].cost));
    found
}

/// Draws the spots and the front. Costs stand on a logarithmic axis where they differ more than tenfold.
#[must_use]
pub fn front(plot: &Front) -> Svg {
    let (width, height) = (760.0, 430.0);
    let spots: Vec<Spot> = plot.spots.iter().filter(|s| s.cost.is_finite() && s.value.is_finite()).cloned().collect();
    // What costs nothing (local training sends nothing) has no place on a logarithmic axis: it stands at its left end.
    let positive = || spots.iter().map(|s| s.cost).filter(|cost| *cost > 0.0);
    let (least, most) = positive().fold((f64::INFINITY, 0.0_f64), |(a, b), cost| (a.min(cost), b.max(cost)));
    let log = least.is_finite() && most / least > 10.0;
    let free = log && spots.iter().any(|s| s.cost <= 0.0);
    let vertical = Scale::covering(spots.iter().map(|s| s.value), false, height - 52.0, 44.0).with_room(0.06, Unit::Percent);
    let ticks: Vec<(f64, String)> = vertical.ticks(6).into_iter().map(|v| (v, label(v, Unit::Percent))).collect();
    let area =
        Area { left: margin(ticks.iter().map(|(_, t)| t.as_str()), 11.0) + 16.0, top: 44.0, right: width - 170.0, bottom: height - 52.0 };
    let from = if free { area.left + 40.0 } else { area.left };
    let horizontal = Scale::covering(spots.iter().map(|s| s.cost), log, from, area.right).with_room(0.06, Unit::Plain);
    let mut svg = Svg::new(width, height, &plot.title);
    beside(&mut svg, area, &vertical, &ticks);
    below(&mut svg, area, &horizontal, &horizontal.ticks(6).into_iter().map(|v| (v, label(v, Unit::Plain))).collect::<Vec<_>>());
    names(&mut svg, area, &plot.cost, &plot.value);
    let at = |s: &Spot| (if free && s.cost <= 0.0 { area.left + 14.0 } else { horizontal.at(s.cost) }, vertical.at(s.value));
    if free {
        svg.text("tick", (area.left + 14.0, area.bottom + 16.0), Anchor::Middle, "0");
    }
    let chosen = best(&spots);
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for s in &chosen {
        let (x, y) = at(&spots[*s]);
        if let Some((_, before)) = steps.last() {
            steps.push((x, *before));
        }
        steps.push((x, y));
    }
    svg.path("front", &steps, "no method is cheaper and better than those on this line");
    let mut families: Vec<&str> = Vec::new();
    for spot in &spots {
        if !families.contains(&spot.family.as_str()) {
            families.push(&spot.family);
        }
    }
    for (index, spot) in spots.iter().enumerate() {
        let family = families.iter().position(|f| *f == spot.family).unwrap_or(0);
        let tip = format!("{}: {} at {}", spot.name, label(spot.value, Unit::Percent), label(spot.cost, Unit::Plain));
        svg.mark(family, at(spot), if chosen.contains(&index) { 5.5 } else { 4.0 }, &tip);
    }
    // Names of the front, or of all where there are few; those that would meet move apart.
    let named: Vec<usize> = if spots.len() <= 10 { (0..spots.len()).collect() } else { chosen };
    let wanted: Vec<f64> = named.iter().map(|s| at(&spots[*s]).1).collect();
    for (s, y) in named.iter().zip(spread(&wanted, 13.0, area.top, area.bottom)) {
        let (x, _) = at(&spots[*s]);
        // On the right where the whole name has room; else where there is more, and no wider than that.
        let (left, right) = (x - 9.0 - area.left, area.right - x - 9.0);
        let name = &spots[*s].name;
        if width_of(name, 12.0) <= right || right >= left {
            svg.text("label", (x + 9.0, y + 4.0), Anchor::Start, &fitted(name, 12.0, right));
        } else {
            svg.text("label", (x - 9.0, y + 4.0), Anchor::End, &fitted(name, 12.0, left));
        }
    }
    for (family, name) in families.iter().enumerate() {
        let y = area.top + 8.0 + 18.0 * family as f64;
        svg.mark(family, (area.right + 16.0, y), 4.0, "");
        svg.text("soft", (area.right + 26.0, y + 4.0), Anchor::Start, &fitted(name, 12.0, width - area.right - 30.0));
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_what_nothing_beats() {
        let spot = |name: &str, cost, value| Spot { name: name.into(), family: String::new(), cost, value };
        let spots = [spot("a", 1.0, 0.5), spot("b", 2.0, 0.4), spot("c", 3.0, 0.9), spot("d", 3.0, 0.8), spot("e", 0.5, 0.1)];
        assert_eq!(best(&spots), [4, 0, 2]);
        let text = front(&Front { title: "t".into(), cost: "floats".into(), value: "accuracy".into(), spots: spots.to_vec() }).document();
        assert_eq!(text.matches("class=\"mark").count(), 5 + 1, "one mark each, and one in the legend");
        let long = "a method of a name that has no room beside its mark, whichever side it stands on, not even half of it, which is long";
        let spots = vec![spot("b", 1.0, 0.4), spot(long, 2.0, 0.9), spot("c", 3.0, 0.8)];
        let text = front(&Front { title: "t".into(), cost: "floats".into(), value: "accuracy".into(), spots }).document();
        assert!(text.contains("…</text>") && !text.contains(&format!("{long}</text>")), "{text}");
        assert!(front(&Front::default()).document().contains("</svg>"));
    }
}
