//! Data sets from their original file formats, and the rules that give their samples to clients.
//!
//! Nothing here knows of models, training or the network: files must already be there, and are checked before they are used.

mod cifar;
mod dataset;
mod files;
mod idx;
mod npy;
mod optdigits;
mod params;
pub mod partition;
mod parts;
mod pickle;
mod registry;

pub use crate::engine::Shape;
pub use dataset::{Bytes, Dataset, Groups, Origin, Samples, Scaling, Vocabulary};
pub use partition::{Client, Partition};
pub use parts::Parts;
pub use registry::{fingerprint, load, variants};
