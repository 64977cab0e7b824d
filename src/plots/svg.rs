//! The drawing itself: a list of elements, written with escaped texts and rounded coordinates.

use crate::base::text::markup;
use std::fmt::Write;

/// What colors, lines and texts of a drawing look like; a page with several drawings needs it once.
pub const STYLE: &str = include_str!("../../templates/plots/plot.css");

/// So many colors tell series apart.
pub(super) const COLORS: usize = 7;

/// A drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

/// Where a text is anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty drawing, sizes in pixels. Its title is read out by screen readers.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        Self { width, height, title: title.to_owned(), body: String::new() }
    }

    /// A file: with its own style.
    #[must_use]
    pub fn document(&self) -> String {
        let style = format!("<style>{STYLE}</style>\n");
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", self.element(" xmlns=\"http://www.w3.org/2000/svg\"", &style))
    }

    /// An element of a page that has [`STYLE`].
    #[must_use]
    pub fn inline(&self) -> String {
        self.element("", "")
    }

    fn element(&self, namespace: &str, style: &str) -> String {
        let (w, h) = (short(self.width), short(self.height));
        let title = markup(&self.title);
        format!(
            "<svg{namespace} class=\"plot\" viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" aria-label=\"{title}\">\n{style}<rect class=\"ground\" width=\"{w}\" height=\"{h}\"/>\n{}</svg>",
            self.body
        )
    }

    /// A straight line.
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            self.body,
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            short(from.0),
            short(from.1),
            short(to.0),
            short(to.1)
        );
    }

    /// A line through points; `tip` is what a mouse over it shows, nothing when empty.
    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)], tip: &str) {
        if points.len() > 1 {
            let _ = writeln!(self.body, "<polyline class=\"{class}\" points=\"{}\">{}</polyline>", joined(points), tipped(tip));
        }
    }

    /// A filled outline.
    pub(super) fn area(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() > 2 {
            let _ = writeln!(self.body, "<polygon class=\"{class}\" points=\"{}\"/>", joined(points));
        }
    }

    /// A rectangle.
    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tip: &str) {
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">{}</rect>",
            short(at.0),
            short(at.1),
            short(size.0.max(0.0)),
            short(size.1.max(0.0)),
            tipped(tip)
        );
    }

    /// A disc.
    pub(super) fn disc(&mut self, class: &str, at: (f64, f64), radius: f64, tip: &str) {
        let _ = writeln!(
            self.body,
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\">{}</circle>",
            short(at.0),
            short(at.1),
            short(radius),
            tipped(tip)
        );
    }

    /// The mark of a series: its shape goes with its number, as its color does. After the last color, shapes are moved on by one.
    pub(super) fn mark(&mut self, series: usize, at: (f64, f64), radius: f64, tip: &str) {
        let class = format!("mark s{}", series % COLORS);
        let (x, y, r) = (at.0, at.1, radius);
        let corners: &[(f64, f64)] = match (series + series / COLORS) % COLORS {
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            4 => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
            5 => &[(-0.5, -1.2), (0.5, -1.2), (1.2, 0.0), (0.5, 1.2), (-0.5, 1.2), (-1.2, 0.0)],
            6 => &[(-1.2, -0.45), (1.2, -0.45), (1.2, 0.45), (-1.2, 0.45)],
            _ => {
                self.disc(&class, at, radius, tip);
                return;
            }
        };
        let points: Vec<(f64, f64)> = corners.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect();
        let _ = writeln!(self.body, "<polygon class=\"{class}\" points=\"{}\">{}</polygon>", joined(&points), tipped(tip));
    }

    /// A PNG, which becomes part of the text; pixels stay sharp.
    pub(super) fn image(&mut self, at: (f64, f64), size: (f64, f64), png: &[u8]) {
        let _ = writeln!(
            self.body,
            "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>",
            short(at.0),
            short(at.1),
            short(size.0),
            short(size.1),
            base64(png)
        );
    }

    /// A text.
    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            short(at.0),
            short(at.1),
            markup(text)
        );
    }

    /// A text that runs upwards, centered.
    pub(super) fn upward(&mut self, class: &str, at: (f64, f64), text: &str) {
        let (x, y) = (short(at.0), short(at.1));
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{}</text>",
            markup(text)
        );
    }
}

fn joined(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", short(*x), short(*y))).collect::<Vec<_>>().join(" ")
}

/// Bytes as text of 64 letters (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let all = three.iter().fold(0u32, |all, b| all << 8 | u32::from(*b)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(all >> (18 - 6 * place)) as usize & 63];
            text.push(if place > three.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

fn tipped(tip: &str) -> String {
    if tip.is_empty() { String::new() } else { format!("<title>{}</title>", markup(tip)) }
}

/// A coordinate to a tenth of a pixel, as short as it goes. What is not finite is drawn at the border.
fn short(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The width of a text in pixels, roughly: the font is the reader's.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().map(|c| if c.is_ascii_lowercase() || c == ' ' || c == '.' || c == ',' { 0.53 } else { 0.62 }).sum::<f64>() * size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_letters() {
        assert_eq!([&b""[..], b"f", b"fo", b"foo", b"foob"].map(base64), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }

    #[test]
    fn texts_are_escaped_and_coordinates_short() {
        let mut svg = Svg::new(10.0, 20.0, "a < b");
        svg.text("label", (1.25, f64::NAN), Anchor::Start, "<&\">");
        svg.disc("s0", (3.0, -0.01), 2.0, "tip");
        let text = svg.document();
        assert!(text.contains("x=\"1.2\" y=\"0\" text-anchor=\"start\">&lt;&amp;&quot;&gt;</text>"), "{text}");
        assert!(text.contains("cx=\"3\" cy=\"0\" r=\"2\"><title>tip</title>"), "{text}");
        assert!(text.contains("aria-label=\"a &lt; b\""), "{text}");
    }
}
