//! Mathematics that several algorithms share, one subject a file.

pub(crate) mod calibration;
pub(crate) mod classes;
pub(crate) mod distillation;
pub(crate) mod flat;
pub(crate) mod frozen;
pub(crate) mod heads;
pub(crate) mod low_rank;
pub(crate) mod mmd;
pub(crate) mod normed;
pub(crate) mod probe;
pub(crate) mod prototypes;
pub(crate) mod pull;
pub(crate) mod variant;
