//! A partition: clients by classes, each disc as large as the client has samples of the class.

use super::axis::{Area, names};
use super::svg::{Anchor, Svg};

/// A partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bubbles {
    /// The title.
    pub title: String,
    /// Samples of each class, by client.
    pub clients: Vec<Vec<u64>>,
}

/// Draws the discs; areas go with counts. Beyond 60 clients or 30 classes only the first are drawn, and it is said.
#[must_use]
pub fn bubbles(plot: &Bubbles) -> Svg {
    let clients = plot.clients.len().min(60);
    let all = plot.clients.iter().map(Vec::len).max().unwrap_or(0);
    let classes = all.min(30);
    let step = if clients > 30 { 14.0 } else { 22.0 };
    let row = if classes > 15 { 14.0 } else { 22.0 };
    let width = (56.0 + step * clients.max(1) as f64 + 20.0).max(420.0);
    let height = 40.0 + row * classes.max(1) as f64 + 68.0;
    let area = Area { left: 56.0, top: 40.0, right: 56.0 + step * clients.max(1) as f64, bottom: height - 68.0 };
    let mut svg = Svg::new(width, height, &plot.title);
    names(&mut svg, area, "client", "class");
    let most = plot.clients.iter().flatten().copied().max().unwrap_or(1).max(1) as f64;
    for class in 0..classes {
        let y = area.bottom - row * (class as f64 + 0.5);
        svg.line("grid", (area.left, y), (area.right, y));
        svg.text("tick", (area.left - 6.0, y + 4.0), Anchor::End, &class.to_string());
    }
    for (client, counts) in plot.clients.iter().take(clients).enumerate() {
        let x = area.left + step * (client as f64 + 0.5);
        if client % clients.div_ceil(20).max(1) == 0 {
            svg.text("tick", (x, area.bottom + 14.0), Anchor::Middle, &client.to_string());
        }
        for (class, count) in counts.iter().take(classes).enumerate().filter(|(_, count)| **count > 0) {
            let radius = (*count as f64 / most).sqrt() * step.min(row) * 0.5;
            let y = area.bottom - row * (class as f64 + 0.5);
            svg.disc("dot s0", (x, y), radius.max(0.8), &format!("client {client}, class {class}: {count} samples"));
        }
    }
    let mut note = format!("largest disc: {most} samples");
    if plot.clients.len() > clients || all > classes {
        note.push_str(&format!("; the first {clients} of {} clients, {classes} of {all} classes", plot.clients.len()));
    }
    // Below the discs, however few they are.
    svg.text("soft", (area.left, height - 10.0), Anchor::Start, &note);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disc_for_each_pair_with_samples() {
        let plot = Bubbles { title: "split".into(), clients: vec![vec![3, 0, 9], vec![0, 1, 0]] };
        let text = bubbles(&plot).document();
        assert_eq!(text.matches("<circle").count(), 3);
        assert!(text.contains("client 0, class 2: 9 samples") && text.contains("largest disc: 9 samples"));
        let many = Bubbles { title: "split".into(), clients: vec![vec![1; 100]; 100] };
        assert!(bubbles(&many).document().contains("the first 60 of 100 clients, 30 of 100 classes"));
    }
}
