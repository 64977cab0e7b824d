//! Results to table: samples gathered by row and column, their statistics, and one file for each format.
//!
//! Nothing here knows where a sample comes from: it is handed labels and numbers.

pub mod analysis;
pub mod beside;
pub mod format;
mod grid;
pub mod pick;
mod sample;
mod spent;
mod text;
mod value;

pub use analysis::{Against, Analysis, Wanted};
pub use beside::Beside;
pub use format::{Format, Look};
pub use sample::{Cell, Counts, Observation, Sample};
pub use value::{Best, Column, Entry, Heading, Measure, Quantity, Rank, Show, Table};
