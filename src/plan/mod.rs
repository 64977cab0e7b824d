//! Specification to plan: the graph of stages to run, their keys, and why each would run.
//!
//! ```text
//! Pipeline -> expand -> Plan -> key -> decide
//! ```

pub mod decide;
pub mod expand;
pub mod export;
pub mod key;

pub use decide::{Decision, Explanation, History, Reason, decide, explain, reason};
pub use expand::{Input, Node, NodeId, Plan};
pub use export::Format;
pub use key::{Manifest, StageKey};
