//! Scales, ticks and the frame of axes around a drawing.

use super::svg::{Anchor, Svg, width_of};

/// How a number on an axis is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unit {
    /// As it is, with thousands as k, M, G.
    #[default]
    Plain,
    /// A fraction in percent.
    Percent,
}

/// From numbers to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale that covers the values with a little room, from pixel `from` to pixel `to`.
    pub(super) fn covering(values: impl IntoIterator<Item = f64>, log: bool, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(|v| v.is_finite() && (!log || *v > 0.0)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if log {
            if low == high {
                (low, high) = (low / 2.0, high * 2.0);
            }
        } else if low == high {
            let half = if low == 0.0 { 0.5 } else { low.abs() * 0.05 };
            (low, high) = (low - half, high + half);
        }
        Self { low, high, log, from, to }
    }

    /// Widens the range by a fraction at both ends; a fraction of one and zero stay the ends of what can be.
    pub(super) fn with_room(mut self, room: f64, unit: Unit) -> Self {
        if self.log {
            let factor = (self.high / self.low).powf(room);
            (self.low, self.high) = (self.low / factor, self.high * factor);
            return self;
        }
        let (low, high) = (self.low, self.high);
        let width = (high - low) * room;
        self.low = if low >= 0.0 { (low - width).max(0.0) } else { low - width };
        self.high = if unit == Unit::Percent && high <= 1.0 { (high + width).min(1.0) } else { high + width };
        self
    }

    /// The pixel of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(self.low * 1e-3) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part.clamp(-0.05, 1.05) * (self.to - self.from)
    }

    /// The pixel of a value, or of the end of the range beyond which it lies.
    pub(super) fn within(&self, value: f64) -> f64 {
        self.at(value.clamp(self.low, self.high))
    }

    /// About `n` round values within the range.
    pub(super) fn ticks(&self, n: usize) -> Vec<f64> {
        if self.log {
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let steps: &[f64] = if last - first > 4 {
                &[1.0]
            } else if last - first > 1 {
                &[1.0, 3.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            let all = (first..=last).flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)));
            return all.filter(|v| *v >= self.low * 0.999 && *v <= self.high * 1.001).collect();
        }
        let raw = (self.high - self.low) / n.max(1) as f64;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * power).find(|s| *s >= raw * 0.999).unwrap_or(raw);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last.min(first + 50)).map(|i| i as f64 * step).collect()
    }
}

/// A tick's number: no more digits than the others need.
pub(super) fn label(value: f64, unit: Unit) -> String {
    let short = |v: f64| {
        let text = format!("{v:.3}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if text == "-0" { "0".to_owned() } else { text.to_owned() }
    };
    match unit {
        Unit::Percent => format!("{} %", short(value * 100.0)),
        Unit::Plain => match value.abs() {
            v if v >= 1e9 => format!("{} G", short(value / 1e9)),
            v if v >= 1e6 => format!("{} M", short(value / 1e6)),
            v if v >= 1e4 => format!("{} k", short(value / 1e3)),
            v if v > 0.0 && v < 1e-3 => format!("{value:.0e}"),
            _ => short(value),
        },
    }
}

/// A text that is no wider than this many pixels: its end is left out where it has to be.
pub(super) fn fitted(text: &str, size: f64, most: f64) -> String {
    if width_of(text, size) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width_of(&kept, size) + 0.62 * size > most {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

/// The part of a drawing inside the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    /// Left, top, right and bottom in pixels.
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// Room for the widest of some labels left of an axis, between bounds.
pub(super) fn margin<'a>(labels: impl IntoIterator<Item = &'a str>, size: f64) -> f64 {
    labels.into_iter().map(|text| width_of(text, size)).fold(0.0, f64::max).clamp(20.0, 240.0) + 16.0
}

/// Draws title and axis names.
pub(super) fn names(svg: &mut Svg, area: Area, x: &str, y: &str) {
    svg.headline();
    svg.text("soft", ((area.left + area.right) / 2.0, area.bottom + 36.0), Anchor::Middle, x);
    if !y.is_empty() {
        svg.upward("soft", (14.0, (area.top + area.bottom) / 2.0), y);
    }
}

/// Draws the horizontal axis below with grid lines.
pub(super) fn below(svg: &mut Svg, area: Area, scale: &Scale, ticks: &[(f64, String)]) {
    for (value, text) in ticks {
        let x = scale.at(*value);
        svg.line("grid", (x, area.top), (x, area.bottom));
        svg.text("tick", (x, area.bottom + 16.0), Anchor::Middle, text);
    }
    svg.line("axis", (area.left, area.bottom), (area.right, area.bottom));
}

/// Draws the vertical axis on the left with grid lines.
pub(super) fn beside(svg: &mut Svg, area: Area, scale: &Scale, ticks: &[(f64, String)]) {
    for (value, text) in ticks {
        let y = scale.at(*value);
        svg.line("grid", (area.left, y), (area.right, y));
        svg.text("tick", (area.left - 6.0, y + 4.0), Anchor::End, text);
    }
}

/// Moves labels apart so that they do not overlap: at least `gap` between neighbors, all within bounds where they fit.
pub(super) fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut at = wanted.to_vec();
    let mut least = low;
    for index in &order {
        at[*index] = at[*index].max(least);
        least = at[*index] + gap;
    }
    let mut most = high;
    for index in order.iter().rev() {
        at[*index] = at[*index].min(most);
        most = at[*index] - gap;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let scale = Scale::covering([0.13, 0.97], false, 0.0, 100.0);
        let ticks: Vec<String> = scale.ticks(5).into_iter().map(|t| label(t, Unit::Percent)).collect();
        assert_eq!(ticks, ["20 %", "40 %", "60 %", "80 %"]);
        let log = Scale::covering([0.01, 5.0], true, 0.0, 100.0);
        assert_eq!(log.ticks(5).into_iter().map(|t| label(t, Unit::Plain)).collect::<Vec<_>>(), ["0.01", "0.03", "0.1", "0.3", "1", "3"]);
        assert_eq!([12_500.0, 3e6, 2e9, 0.0, -0.0, 0.00002].map(|v| label(v, Unit::Plain)), ["12.5 k", "3 M", "2 G", "0", "0", "2e-5"]);
    }

    #[test]
    fn empty_and_single_values_have_a_scale() {
        for values in [vec![], vec![0.0], vec![0.5], vec![f64::NAN]] {
            let scale = Scale::covering(values, false, 10.0, 20.0);
            assert!(scale.at(0.5).is_finite() && !scale.ticks(5).is_empty());
        }
        assert!(!Scale::covering([3.0], true, 0.0, 1.0).ticks(3).is_empty());
    }

    #[test]
    fn room_does_not_leave_what_can_be() {
        let scale = Scale::covering([0.02, 0.99], false, 0.0, 1.0).with_room(0.1, Unit::Percent);
        assert_eq!((scale.low, scale.high), (0.0, 1.0));
    }

    #[test]
    fn long_texts_lose_their_end() {
        assert_eq!(fitted("short", 12.0, 100.0), "short");
        let cut = fitted("a name that is much too long for its place", 12.0, 100.0);
        assert!(cut.starts_with("a name") && cut.ends_with('…') && width_of(&cut, 12.0) <= 100.0, "{cut}");
    }

    #[test]
    fn labels_move_apart() {
        let at = spread(&[10.0, 11.0, 12.0], 5.0, 0.0, 100.0);
        assert!(at[1] - at[0] >= 5.0 && at[2] - at[1] >= 5.0);
        let at = spread(&[98.0, 99.0], 5.0, 0.0, 100.0);
        assert!(at[1] <= 100.0 && at[1] - at[0] >= 5.0);
    }
}
