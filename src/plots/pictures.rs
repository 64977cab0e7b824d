//! Small pictures side by side, each with a line of words below it.

use super::svg::{Anchor, Svg, width_of};

/// A picture: a PNG, and what stands below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// The bytes of the PNG.
    pub png: Vec<u8>,
    /// One line.
    pub words: String,
}

/// Places pictures from left to right, as wide as they are; what is no PNG is left out.
#[must_use]
pub fn pictures(title: &str, all: &[Picture]) -> Svg {
    let sized: Vec<(&Picture, f64, f64)> = all.iter().filter_map(|p| size(&p.png).map(|(w, h)| (p, w, h))).collect();
    let high = sized.iter().map(|(_, _, high)| *high).fold(0.0, f64::max);
    let room = |p: &Picture, wide: f64| wide.max(width_of(&p.words, 12.0)) + 16.0;
    let width = sized.iter().map(|(p, wide, _)| room(p, *wide)).sum::<f64>().max(200.0).max(width_of(title, 15.0).min(480.0)) + 24.0;
    let mut svg = Svg::new(width, high + 64.0, title);
    svg.headline();
    let mut left = 12.0;
    for (picture, wide, tall) in sized {
        svg.image((left, 36.0), (wide, tall), &picture.png);
        svg.text("tick", (left, high + 54.0), Anchor::Start, &picture.words);
        left += room(picture, wide);
    }
    svg
}

/// Width and height out of a PNG's header.
fn size(png: &[u8]) -> Option<(f64, f64)> {
    let header = png.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let number = |at: usize| header.get(at..at + 4).map(|b| f64::from(u32::from_be_bytes([b[0], b[1], b[2], b[3]])));
    Some((number(8)?, number(12)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_stand_inside_the_drawing() {
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        png.extend([0, 0, 0, 13]);
        png.extend(b"IHDR");
        png.extend([0, 0, 0, 30, 0, 0, 0, 20]);
        let all = [Picture { png, words: "client 0: <1>".into() }, Picture { png: b"GIF".to_vec(), words: "no".into() }];
        let text = pictures("leak", &all).document();
        assert_eq!(text.matches("<image").count(), 1);
        assert!(
            text.contains("width=\"30\" height=\"20\"") && text.contains("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAB4AAAAU\""),
            "{text}"
        );
        assert!(text.contains("client 0: &lt;1&gt;") && !text.contains(">no<"));
    }
}
