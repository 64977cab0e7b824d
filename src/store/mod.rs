//! The content-addressed store: objects, records, index, leases, checkpoints, garbage collection.

/// An open store.
#[derive(Debug)]
pub struct Store {}
