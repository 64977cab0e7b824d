//! Mathematics that several algorithms share, one subject a file.

pub(crate) mod variant;
