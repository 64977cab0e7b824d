//! Pipeline text to specification: YAML with positions, expressions, sweep, checks and suggestions.
//!
//! ```text
//! yaml -> document (extends, command line) -> vars, sweep, stages, tables (compiled) -> cells -> check -> Pipeline
//! ```

pub mod catalog;
pub mod cells;
pub mod check;
pub mod code;
pub mod diagnostic;
pub mod document;
pub mod expr;
mod idle;
mod instances;
pub mod node;
pub mod overrides;
pub mod params;
pub mod pipeline;
pub mod rules;
pub mod schema;
mod selector;
pub mod shown;
pub mod source;
pub mod stages;
pub mod sweep;
pub mod tables;
pub mod templates;
pub mod vars;
pub mod yaml;

pub use catalog::Catalog;
pub use diagnostic::Diagnostics;
pub use overrides::Overrides;
pub use params::Params;
pub use pipeline::{Axis, Cell, Instance, Pipeline, Stage, load, load_file};
pub use rules::{Breach, Setup, Setups};
pub use schema::schema;
pub use tables::{Best, Compare, Measure, Statistics, Table};
pub use templates::{Template, new_from_template, templates};
