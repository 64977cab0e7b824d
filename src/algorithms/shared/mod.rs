//! Mathematics that several algorithms share, one subject a file.

pub(crate) mod classes;
pub(crate) mod distillation;
pub(crate) mod probe;
pub(crate) mod prototypes;
pub(crate) mod variant;
