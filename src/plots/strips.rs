//! How a measurement is spread over the clients: one row a method, one dot a client.

use super::axis::{Area, Scale, Unit, below, label, margin, names};
use super::svg::{Anchor, Svg};

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Strip {
    /// Its name.
    pub name: String,
    /// The values of the clients, as fractions.
    pub values: Vec<f64>,
}

/// Rows over a common axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strips {
    /// The title.
    pub title: String,
    /// What the values are.
    pub x: String,
    /// The rows.
    pub strips: Vec<Strip>,
}

/// Draws a dot for each client, a box from the first to the third quartile and a line at the median. Equal values are stacked apart.
#[must_use]
pub fn strips(plot: &Strips) -> Svg {
    let (width, step) = (760.0, if plot.strips.len() > 20 { 22.0 } else { 30.0 });
    let height = 44.0 + step * plot.strips.len().max(1) as f64 + 52.0;
    let area =
        Area { left: margin(plot.strips.iter().map(|s| s.name.as_str()), 12.0), top: 44.0, right: width - 20.0, bottom: height - 52.0 };
    let scale = Scale::covering(plot.strips.iter().flat_map(|s| s.values.iter().copied()), false, area.left, area.right)
        .with_room(0.03, Unit::Percent);
    let mut svg = Svg::new(width, height, &plot.title);
    below(&mut svg, area, &scale, &scale.ticks(8).into_iter().map(|v| (v, label(v, Unit::Percent))).collect::<Vec<_>>());
    names(&mut svg, area, &plot.x, "");
    for (row, strip) in plot.strips.iter().enumerate() {
        let middle = area.top + step * (row as f64 + 0.5);
        svg.text("label", (area.left - 8.0, middle + 4.0), Anchor::End, &strip.name);
        let mut sorted: Vec<f64> = strip.values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.is_empty() {
            svg.text("soft", (area.left + 6.0, middle + 4.0), Anchor::Start, "no values");
            continue;
        }
        let quantile = |part: f64| {
            let place = part * (sorted.len() - 1) as f64;
            let (low, high) = (place.floor() as usize, place.ceil() as usize);
            sorted[low] + (sorted[high] - sorted[low]) * place.fract()
        };
        let half = step * 0.36;
        let (first, third) = (scale.at(quantile(0.25)), scale.at(quantile(0.75)));
        let tip = format!(
            "{}: median {}, quartiles {} and {}, least {}",
            strip.name,
            label(quantile(0.5), Unit::Percent),
            label(quantile(0.25), Unit::Percent),
            label(quantile(0.75), Unit::Percent),
            label(sorted[0], Unit::Percent)
        );
        svg.rect("band s0", (first, middle - half), (third - first, 2.0 * half), &tip);
        // Dots that would cover each other go up and down in turns.
        let (mut last, mut stack) = (f64::NEG_INFINITY, 0_u32);
        for value in &sorted {
            let x = scale.at(*value);
            stack = if x - last < 3.0 { (stack + 1) % 7 } else { 0 };
            if stack == 0 {
                last = x;
            }
            let level = f64::from(stack.div_ceil(2)) * if stack % 2 == 1 { -1.0 } else { 1.0 };
            svg.disc("dot s0", (x, middle + level * half / 3.4), 2.1, "");
        }
        let median = scale.at(quantile(0.5));
        svg.line("strong", (median, middle - half), (median, middle + half));
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_for_each_client() {
        let strip = |name: &str, values: &[f64]| Strip { name: name.into(), values: values.to_vec() };
        let plot = Strips { title: "t".into(), x: "accuracy".into(), strips: vec![strip("a", &[0.1, 0.1, 0.5, 0.9]), strip("b", &[])] };
        let text = strips(&plot).document();
        assert_eq!(text.matches("<circle").count(), 4);
        assert!(text.contains("no values"));
        assert!(strips(&Strips::default()).document().contains("</svg>"));
    }
}
