//! Pipeline text to specification: YAML with positions, expressions, sweep, checks and suggestions.

pub mod catalog;
