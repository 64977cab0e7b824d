//! A heat map: one square for each row and column, the darker the greater its number.

use super::axis::{Area, Unit, label, margin, names};
use super::svg::{Anchor, Svg, width_of};

/// Rows by columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heat {
    /// The title.
    pub title: String,
    /// What the columns are.
    pub x: String,
    /// What the rows are.
    pub y: String,
    /// Whether numbers are fractions.
    pub percent: bool,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The name and the numbers of each row; absent where there is none.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// How the numbers are written, by row and column; where it is empty, with three digits.
    pub texts: Vec<Vec<String>>,
}

/// The number of shades.
const SHADES: f64 = 10.0;
/// From this shade on the text is light.
const DARK: f64 = 6.0;

/// Draws a square with its number for each pair. Shades reach from the least to the greatest number, fractions from 0 to 1.
#[must_use]
pub fn heat(plot: &Heat) -> Svg {
    let unit = if plot.percent { Unit::Percent } else { Unit::Plain };
    let widest = plot.columns.iter().map(|name| width_of(name, 11.0)).fold(0.0, f64::max);
    let (step, row) = ((widest + 12.0).clamp(64.0, 150.0), 30.0);
    let left = margin(plot.rows.iter().map(|(name, _)| name.as_str()), 12.0);
    let area =
        Area { left, top: 44.0, right: left + step * plot.columns.len().max(1) as f64, bottom: 44.0 + row * plot.rows.len().max(1) as f64 };
    let (width, height) = ((area.right + 20.0).max(420.0), area.bottom + 52.0);
    let mut svg = Svg::new(width, height, &plot.title);
    names(&mut svg, area, &plot.x, "");
    let values = || plot.rows.iter().flat_map(|(_, values)| values.iter().flatten().copied()).filter(|v| v.is_finite());
    let (mut low, mut high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if plot.percent && low >= 0.0 && high <= 1.0 {
        (low, high) = (0.0, 1.0);
    }
    for (column, name) in plot.columns.iter().enumerate() {
        svg.text_within("tick", (area.left + step * (column as f64 + 0.5), area.bottom + 14.0), Anchor::Middle, name, step - 6.0);
    }
    for (i, (name, values)) in plot.rows.iter().enumerate() {
        let y = area.top + row * i as f64;
        svg.text("label", (area.left - 8.0, y + row / 2.0 + 4.0), Anchor::End, name);
        for (j, value) in values.iter().enumerate() {
            let x = area.left + step * j as f64;
            let middle = (x + step / 2.0, y + row / 2.0 + 4.0);
            let Some(value) = value.filter(|value| value.is_finite()) else {
                svg.text("soft", middle, Anchor::Middle, "\u{2013}");
                continue;
            };
            let shade = if high > low { ((value - low) / (high - low) * SHADES).round() } else { SHADES / 2.0 };
            let text = plot.texts.get(i).and_then(|texts| texts.get(j)).cloned().unwrap_or_else(|| label(value, unit));
            let tip = format!("{name}, {}: {text}", plot.columns.get(j).map_or("", String::as_str));
            svg.rect(&format!("heat h{shade}"), (x + 1.0, y + 1.0), (step - 2.0, row - 2.0), &tip);
            svg.text(if shade >= DARK { "light" } else { "label" }, middle, Anchor::Middle, &text);
        }
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_for_each_number_and_a_dash_where_there_is_none() {
        let rows = vec![("median".to_owned(), vec![Some(0.9), Some(0.1)]), ("krum".to_owned(), vec![None, Some(0.5)])];
        let plot = Heat {
            title: "attacks".into(),
            x: "threat".into(),
            y: "defence".into(),
            percent: true,
            columns: vec!["zero".into(), "random".into()],
            rows,
            texts: vec![vec!["90.00 %".into()]],
        };
        let text = heat(&plot).document();
        assert_eq!(text.matches("class=\"heat").count(), 3);
        assert!(text.contains("heat h9") && text.contains("heat h1\"") && text.contains("heat h5"), "{text}");
        assert!(text.contains("median, zero: 90.00 %") && text.contains("median, random: 10") && text.contains("\u{2013}"), "{text}");
        assert!(heat(&Heat::default()).document().contains("<svg"));
    }
}
