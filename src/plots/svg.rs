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
    /// What the lines of a long title need above the drawing.
    above: f64,
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
        Self { width, height, above: 0.0, title: title.to_owned(), body: String::new() }
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
        let (w, h, top) = (short(self.width), short(self.height + self.above), short(-self.above));
        let title = markup(&self.title);
        let y = if self.above > 0.0 { format!(" y=\"{top}\"") } else { String::new() };
        format!(
            "<svg{namespace} class=\"plot\" viewBox=\"0 {top} {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" aria-label=\"{title}\">\n{style}<rect class=\"ground\"{y} width=\"{w}\" height=\"{h}\"/>\n{}</svg>",
            self.body
        )
    }

    /// Draws the title at the top. What does not fit into the width goes on in further lines, for which there is room above.
    pub(super) fn headline(&mut self) {
        let lines = wrapped(&self.title, size_of("title"), self.width - 2.0 * MARGIN);
        self.above = LINE * lines.len().saturating_sub(1) as f64;
        for (line, text) in lines.iter().enumerate() {
            self.text("title", (MARGIN, 22.0 - self.above + LINE * line as f64), Anchor::Start, text);
        }
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

    /// A text. It stays inside the drawing: in its middle it is moved, then shortened, and the mouse shows all of it.
    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let (mut x, right) = (at.0, self.width - EDGE);
        let room = match anchor {
            Anchor::Start => right - x,
            Anchor::End => x - EDGE,
            Anchor::Middle => {
                let half = (width_of(text, size_of(class)) / 2.0).min(self.width / 2.0 - EDGE);
                x = x.min(right - half).max(EDGE + half);
                right - EDGE
            }
        };
        self.text_within(class, (x, at.1), anchor, text, room);
    }

    /// A text of at most so many pixels. What is longer is shortened, and the mouse shows all of it.
    pub(super) fn text_within(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str, room: f64) {
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
            fitted(text, size_of(class), room)
        );
    }

    /// A text that runs upwards, centered.
    pub(super) fn upward(&mut self, class: &str, at: (f64, f64), text: &str) {
        let text = fitted(text, size_of(class), 2.0 * at.1.min(self.height - at.1) - 2.0 * EDGE);
        let (x, y) = (short(at.0), short(at.1));
        let _ = writeln!(
            self.body,
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{text}</text>"
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

/// Pixels left and right of a title.
const MARGIN: f64 = 16.0;
/// Pixels between a text and the border.
const EDGE: f64 = 4.0;
/// Pixels from one line of a title to the next.
const LINE: f64 = 18.0;

/// The size of a text of that class in pixels, a little more than in the style sheet: some fonts are wide, and bold letters are.
fn size_of(class: &str) -> f64 {
    match class.split(' ').next() {
        Some("title") => 15.8,
        Some("soft" | "tick") => 11.4,
        _ => 12.5,
    }
}

/// The lines of a text that are no wider than `room`, broken between words, and within one that alone is wider.
fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if width_of(&longer, size) <= room {
            *line = longer;
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        for c in word.chars() {
            let line = lines.last_mut().expect("there is one");
            let mut longer = line.clone();
            longer.push(c);
            if line.is_empty() || width_of(&longer, size) <= room { *line = longer } else { lines.push(c.to_string()) }
        }
    }
    lines
}

/// A text as markup; one that is wider than `room` without its middle, with all of it for the mouse.
fn fitted(text: &str, size: f64, room: f64) -> String {
    if width_of(text, size) <= room {
        return markup(text);
    }
    let letters: Vec<char> = text.chars().collect();
    let part = |n: usize| -> String {
        let head = (n * 2).div_ceil(3);
        letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - (n - head)..]).collect()
    };
    // The beginning says the method, the end the parameter by which it differs from the next.
    let most = (2..letters.len()).rev().find(|n| width_of(&part(*n), size) <= room).unwrap_or(1);
    format!("{}<title>{}</title>", markup(&part(most.min(letters.len()))), markup(text))
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
    fn titles_are_broken_into_lines_that_fit() {
        let text = "a title of some words and averyveryverylongwordwithoutanyplacetobreakitanywhere end";
        let lines = wrapped(text, 14.0, 200.0);
        assert!(lines.len() > 3 && lines.iter().all(|line| width_of(line, 14.0) <= 200.0), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        assert_eq!((wrapped("", 14.0, 200.0), wrapped("ab", 14.0, 1.0)), (vec![String::new()], vec!["a".to_owned(), "b".to_owned()]));
        let mut svg = Svg::new(240.0, 100.0, text);
        svg.headline();
        let text = svg.document();
        assert!(text.contains(&format!("viewBox=\"0 -{0} 240 {1}\"", svg.above, 100.0 + svg.above)) && svg.above >= LINE, "{text}");
    }

    #[test]
    fn no_text_leaves_the_drawing() {
        let name = "fedsomething(variant=pfllib, lambda=0.01, personal_epochs=5, rate=0.005)";
        let mut svg = Svg::new(300.0, 100.0, "t");
        for (anchor, x) in [(Anchor::Start, 200.0), (Anchor::End, 120.0), (Anchor::Middle, 20.0), (Anchor::Middle, 290.0)] {
            svg.text("label", (x, 20.0), anchor, name);
        }
        svg.upward("soft", (10.0, 50.0), name);
        svg.text("tick", (290.0, 20.0), Anchor::Middle, "30 rounds");
        let text = svg.inline();
        assert_eq!(text.matches(&format!("<title>{name}</title>")).count(), 5, "{text}");
        assert!(text.contains("fed") && text.contains("…") && text.contains("005)<title>"), "{text}");
        let x: f64 =
            text.rsplit("<text class=\"tick\" x=\"").next().and_then(|rest| rest.split('"').next()?.parse().ok()).expect("a place");
        assert!(x + width_of("30 rounds", 11.0) / 2.0 <= 300.0, "{x}");
    }

    #[test]
    fn texts_are_escaped_and_coordinates_short() {
        let mut svg = Svg::new(80.0, 20.0, "a < b");
        svg.text("label", (1.25, f64::NAN), Anchor::Start, "<&\">");
        svg.disc("s0", (3.0, -0.01), 2.0, "tip");
        let text = svg.document();
        assert!(text.contains("x=\"1.2\" y=\"0\" text-anchor=\"start\">&lt;&amp;&quot;&gt;</text>"), "{text}");
        assert!(text.contains("cx=\"3\" cy=\"0\" r=\"2\"><title>tip</title>"), "{text}");
        assert!(text.contains("aria-label=\"a &lt; b\""), "{text}");
    }
}
