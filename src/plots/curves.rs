//! Learning curves with bands, and sweeps of a parameter with error bars.

use super::axis::{Area, Scale, Unit, below, beside, label, margin, names, spread};
use super::svg::{Anchor, COLORS, Svg, width_of};

/// A mean with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where: rounds, or the value of a parameter.
    pub x: f64,
    /// The mean.
    pub mean: f64,
    /// The lower end of the band.
    pub low: f64,
    /// The upper end of the band.
    pub high: f64,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its points in order.
    pub points: Vec<Point>,
}

/// Lines over a common axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// The title.
    pub title: String,
    /// What the horizontal axis is.
    pub x: String,
    /// What the vertical axis is.
    pub y: String,
    /// Whether values are fractions that are shown in percent.
    pub percent: bool,
    /// Whether the horizontal axis is logarithmic.
    pub log: bool,
    /// Whether points are marked and have error bars, for a sweep; else lines have bands.
    pub marked: bool,
    /// Whether larger values are better: the best lines are drawn in color.
    pub larger_is_better: bool,
    /// The lines.
    pub series: Vec<Series>,
}

/// Draws the lines. More than seven cannot be told apart by color: the best seven at their ends are named, the others are thin and gray,
/// and tell their name under the mouse.
#[must_use]
pub fn curves(plot: &Curves) -> Svg {
    let (width, height) = (760.0, 430.0);
    let unit = if plot.percent { Unit::Percent } else { Unit::Plain };
    let mut order: Vec<usize> = (0..plot.series.len()).filter(|s| !plot.series[*s].points.is_empty()).collect();
    let end = |s: &usize| plot.series[*s].points.last().map_or(0.0, |point| point.mean);
    order.sort_by(|a, b| if plot.larger_is_better { end(b).total_cmp(&end(a)) } else { end(a).total_cmp(&end(b)) });
    let (mut named, rest) = order.split_at(order.len().min(COLORS));
    // Colors go by the order of the table, not by that of the results: so they stay when results change a little.
    let mut by_table = named.to_vec();
    by_table.sort_unstable();
    named = &by_table;

    let all = || plot.series.iter().flat_map(|series| &series.points);
    // Bands that reach far out must not squeeze the lines: the range is that of the means and of most of the bands, which end at the
    // frame. An error bar that is cut would say something else, so that all of them are inside.
    let (least, most) = if plot.marked { (0.0, 1.0) } else { (0.1, 0.9) };
    let lows = quantile(all().map(|p| p.low), least);
    let highs = quantile(all().map(|p| p.high), most);
    let values = all().map(|p| p.mean).chain(lows).chain(highs);
    let vertical = Scale::covering(values, false, height - 52.0, 44.0).with_room(0.04, unit);
    let ticks: Vec<(f64, String)> = vertical.ticks(6).into_iter().map(|v| (v, label(v, unit))).collect();
    let names_wide = named.iter().map(|s| width_of(&plot.series[*s].name, 12.0)).fold(60.0, f64::max).min(220.0);
    let area = Area {
        left: margin(ticks.iter().map(|(_, text)| text.as_str()), 11.0) + 16.0,
        top: 44.0,
        right: width - names_wide - 34.0,
        bottom: height - 52.0,
    };
    let room = if plot.marked { 0.04 } else { 0.0 };
    let mut horizontal = Scale::covering(all().map(|p| p.x), plot.log, area.left, area.right);
    if room > 0.0 {
        horizontal = horizontal.with_room(room, Unit::Plain);
    }
    let mut svg = Svg::new(width, height, &plot.title);
    beside(&mut svg, area, &vertical, &ticks);
    let mut places: Vec<f64> = if plot.marked { all().map(|p| p.x).collect() } else { horizontal.ticks(7) };
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() > 12 {
        places = horizontal.ticks(7);
    }
    below(&mut svg, area, &horizontal, &places.into_iter().map(|v| (v, label(v, Unit::Plain))).collect::<Vec<_>>());
    names(&mut svg, area, &plot.x, &plot.y);

    let at = |p: &Point, value: f64| (horizontal.at(p.x), vertical.within(value));
    for s in rest {
        let series = &plot.series[*s];
        svg.path("rest", &series.points.iter().map(|p| at(p, p.mean)).collect::<Vec<_>>(), &series.name);
    }
    for (color, s) in named.iter().enumerate() {
        let points = &plot.series[*s].points;
        if plot.marked {
            for p in points.iter().filter(|p| p.high > p.low) {
                svg.line(&format!("error s{color}"), at(p, p.low), at(p, p.high));
            }
        } else {
            let outline: Vec<(f64, f64)> = points.iter().map(|p| at(p, p.high)).chain(points.iter().rev().map(|p| at(p, p.low))).collect();
            if points.iter().any(|p| p.high > p.low) {
                svg.area(&format!("band s{color}"), &outline);
            }
        }
    }
    let wanted: Vec<f64> = named.iter().map(|s| vertical.at(end(s))).collect();
    let labels = spread(&wanted, 15.0, area.top, area.bottom);
    for (color, s) in named.iter().enumerate() {
        let series = &plot.series[*s];
        svg.path(&format!("curve s{color}"), &series.points.iter().map(|p| at(p, p.mean)).collect::<Vec<_>>(), &series.name);
        if plot.marked || series.points.len() == 1 {
            for p in &series.points {
                let tip = format!("{} at {}: {}", series.name, label(p.x, Unit::Plain), label(p.mean, unit));
                svg.mark(color, at(p, p.mean), 4.0, &tip);
            }
        }
        let from = series.points.last().map_or((area.right, wanted[color]), |p| at(p, p.mean));
        if (labels[color] - wanted[color]).abs() > 3.0 {
            svg.line("grid", (from.0 + 2.0, from.1), (area.right + 8.0, labels[color]));
        }
        svg.mark(color, (area.right + 8.0, labels[color]), 3.0, "");
        svg.text(&format!("label s{color}"), (area.right + 15.0, labels[color] + 4.0), Anchor::Start, &series.name);
    }
    if !rest.is_empty() {
        let text = format!("gray: {} others, each named under the mouse", rest.len());
        svg.text("soft", (area.right + 4.0, height - 6.0), Anchor::End, &text);
    }
    svg
}

/// The value below which a fraction of the values lies.
fn quantile(values: impl Iterator<Item = f64>, fraction: f64) -> Option<f64> {
    let mut all: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    all.sort_by(f64::total_cmp);
    all.get(((all.len().saturating_sub(1)) as f64 * fraction).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_are_drawn_and_seven_are_named() {
        let series = (0..20)
            .map(|s| Series {
                name: format!("method{s}"),
                points: (0..5)
                    .map(|x| Point { x: f64::from(x), mean: 0.03 * f64::from(s) + 0.01 * f64::from(x), low: 0.0, high: 0.9 })
                    .collect(),
            })
            .collect();
        let plot = Curves { title: "t".into(), percent: true, larger_is_better: true, series, ..Curves::default() };
        let text = curves(&plot).document();
        assert_eq!(text.matches("<polyline class=\"curve").count(), 7);
        assert_eq!(text.matches("<polyline class=\"rest").count(), 13);
        assert!(text.contains(">method19</text>") && !text.contains(">method12</text>"));
    }

    #[test]
    fn bars_and_bands_stay_inside_the_frame() {
        for marked in [true, false] {
            let wide = |x: f64, mean: f64| Point { x, mean, low: mean - 0.4, high: mean + 0.3 };
            let usual = |x: f64| Point { x, mean: 0.5, low: 0.49, high: 0.51 };
            let mut points: Vec<Point> = (1..30).map(|x| usual(f64::from(x))).collect();
            points.push(wide(30.0, 0.5));
            let series = vec![Series { name: "a".into(), points }];
            let plot = Curves { title: "t".into(), percent: true, marked, series, ..Curves::default() };
            let text = curves(&plot).document();
            let ends = text.split("<line class=\"error").skip(1).map(|rest| rest.split('>').next().unwrap_or_default());
            let number = |line: &str, name: &str| -> f64 {
                line.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next()?.parse().ok()).expect("a number")
            };
            for line in ends {
                for y in [number(line, "y1"), number(line, "y2")] {
                    assert!((44.0..=378.0).contains(&y), "{line}");
                }
            }
            let band = text.split("class=\"band").nth(1).and_then(|rest| rest.split("points=\"").nth(1)?.split('"').next());
            let places = band.into_iter().flat_map(|all| all.split(' ')).filter_map(|pair| pair.split(',').nth(1)?.parse::<f64>().ok());
            assert!(places.into_iter().all(|y| (44.0..=378.0).contains(&y)));
            assert_eq!(marked, text.contains("class=\"error"));
        }
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        assert!(curves(&Curves::default()).document().contains("</svg>"));
    }
}
