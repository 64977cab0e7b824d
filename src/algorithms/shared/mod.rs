//! What several algorithms need, one subject a file.

pub(super) mod distillation;
pub(super) mod flat;
pub(super) mod heads;
pub(super) mod labels;
pub(super) mod mmd;
pub(super) mod newcomers;
pub(super) mod normed;
pub(super) mod prototypes;
pub(super) mod variant;
