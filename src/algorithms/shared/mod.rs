//! Mathematics that several algorithms share, one subject a file.

pub(crate) mod prototypes;
pub(crate) mod variant;
