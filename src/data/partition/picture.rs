//! A partition as a picture: a bubble for each client and class, in the terminal and as SVG.

use super::Manifest;
use crate::base::text;
use std::fmt::Write;

/// Bubbles of the terminal, by area.
const LEVELS: [char; 5] = ['·', '∘', '○', '◉', '●'];
/// The most classes that the terminal shows.
const MOST_CLASSES: usize = 40;

impl Manifest {
    fn most(&self) -> u64 {
        self.clients.iter().flat_map(|client| client.counts.iter().copied()).max().unwrap_or(0)
    }
    /// Bubbles as lines of at most `width` characters: a line for each class, a column for each client.
    #[must_use]
    pub fn bubbles(&self, width: usize) -> String {
        let most = self.most().max(1);
        let label = self.classes.saturating_sub(1).to_string().len().max(5);
        let columns = (width.saturating_sub(label + 2) / 2).clamp(1, self.clients.len().max(1));
        let mut out = format!("{:>label$}  clients 0 to {}\n", "class", columns - 1);
        for class in 0..self.classes.min(MOST_CLASSES) {
            let _ = write!(out, "{class:>label$}  ");
            let mut line = String::new();
            for client in self.clients.iter().take(columns) {
                let count = client.counts.get(class).copied().unwrap_or(0);
                let level = (LEVELS.len() as f64 * (count as f64 / most as f64).sqrt()).ceil() as usize;
                line.push(if count == 0 { ' ' } else { LEVELS[level.clamp(1, LEVELS.len()) - 1] });
                line.push(' ');
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        let _ =
            write!(out, "{:>label$}  {} is up to {most} samples in one class, {} up to {}", "", LEVELS[4], LEVELS[0], (most / 25).max(1));
        for (more, what) in [(self.clients.len().saturating_sub(columns), "client"), (self.classes.saturating_sub(MOST_CLASSES), "class")] {
            if more > 0 {
                let _ = write!(out, "; {more} more {}", if what == "class" { "classes".into() } else { text::count(2, what).split_off(2) });
            }
        }
        out.push('\n');
        out
    }
    /// Bubbles as an SVG picture: clients from left to right, classes from bottom to top, areas in proportion to the counts. It
    /// follows the colors of the page, light or dark.
    #[must_use]
    pub fn svg(&self, title: &str) -> String {
        let (clients, classes, most) = (self.clients.len().max(1), self.classes.max(1), self.most().max(1));
        let step = (960.0 / clients as f64).clamp(4.0, 36.0);
        let rise = (640.0 / classes as f64).clamp(4.0, 36.0);
        let (left, top) = (56.0, 40.0);
        let (width, height) = (left + step * clients as f64 + 24.0, top + rise * classes as f64 + 48.0);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
             role=\"img\" font-family=\"sans-serif\" font-size=\"11\">\n<title>{0}</title>\n<style>svg{{--ink:#222;--bubble:#0072b2;\
             --grid:#ddd}}@media(prefers-color-scheme:dark){{svg{{--ink:#ddd;--bubble:#56b4e9;--grid:#444}}}}text{{fill:var(--ink)}}\
             circle{{fill:var(--bubble)}}line{{stroke:var(--grid)}}</style>\n<text x=\"{left}\" y=\"20\" font-size=\"14\">{0}</text>\n",
            text::markup(title)
        );
        let bottom = top + rise * classes as f64;
        let every = |n: usize, size: f64| (1..).find(|k| size * *k as f64 >= 24.0 || k * 2 > n).unwrap_or(1);
        for class in (0..classes).step_by(every(classes, rise)) {
            let y = bottom - rise * (class as f64 + 0.5);
            let _ = writeln!(
                out,
                "<line x1=\"{left}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{class}</text>",
                width - 24.0,
                left - 6.0,
                y + 4.0
            );
        }
        for client in (0..clients).step_by(every(clients, step)) {
            let x = left + step * (client as f64 + 0.5);
            let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{client}</text>", bottom + 16.0);
        }
        let _ =
            writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">client</text>", f64::midpoint(left, width), bottom + 34.0);
        let _ = writeln!(
            out,
            "<text x=\"14\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {:.1})\">class</text>",
            f64::midpoint(top, bottom),
            f64::midpoint(top, bottom)
        );
        let greatest = step.min(rise) / 2.0;
        for (id, client) in self.clients.iter().enumerate() {
            for (class, &count) in client.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let radius = (greatest * (count as f64 / most as f64).sqrt()).max(0.4);
                let (x, y) = (left + step * (id as f64 + 0.5), bottom - rise * (class as f64 + 0.5));
                let _ = writeln!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"><title>client {id}, class {class}: {count}</title></circle>"
                );
            }
        }
        out.push_str("</svg>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Client, Flags, Partition, Procedure};

    #[test]
    fn bubbles_grow_with_the_counts() {
        let clients = vec![Client { train: (0..25).collect(), test: vec![] }, Client { train: vec![25], test: vec![26, 27] }];
        let labels: Vec<u32> = (0..28).map(|i| u32::from(i >= 27)).collect();
        let partition = Partition::new("iid", Procedure::Clean, 28, 2, Flags::default(), clients).expect("complete");
        let manifest = partition.manifest(&labels).expect("fits");
        let text = manifest.bubbles(80);
        assert_eq!(text.lines().collect::<Vec<_>>()[..3], ["class  clients 0 to 1", "    0  ● ∘", "    1    ·"]);
        assert!(manifest.bubbles(9).contains("1 more client"), "{}", manifest.bubbles(9));
        let svg = manifest.svg("a < b");
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b") && svg.matches("<circle").count() == 3, "{svg}");
    }
}
