//! Results to table: samples gathered by row and column, their statistics, and one file for each format.
//!
//! Nothing here knows where a sample comes from: it is handed labels and numbers.

pub mod format;
pub mod pick;
mod sample;
mod text;
mod value;

pub use format::{Format, Look};
pub use sample::{Cell, Counts, Sample, Stats};
pub use value::{Best, Column, Entry, Heading, Measure, Quantity, Rank, Table};
