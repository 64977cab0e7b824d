//! Plots as SVG: text that any browser, LaTeX or word processor takes, and that can be searched and styled.
//!
//! Numbers and labels in, one drawing out. Colors are Okabe and Ito's, which the color-blind tell apart; marks and dashes differ too,
//! so that a print in black and white can be read. A drawing follows the reader's light or dark mode.

mod axis;
mod bubbles;
mod critical;
mod curves;
mod front;
mod graph;
mod heat;
mod pictures;
mod scatter;
mod strips;
mod svg;

pub use bubbles::{Bubbles, bubbles};
pub use critical::{Critical, critical};
pub use curves::{Curves, Point, Series, curves};
pub use front::{Front, Spot, front};
pub use graph::{Box, graph};
pub use heat::{Heat, heat};
pub use pictures::{Picture, pictures};
pub use scatter::{Placed, Scatter, scatter};
pub use strips::{Strip, Strips, strips};
pub use svg::{STYLE, Svg};
