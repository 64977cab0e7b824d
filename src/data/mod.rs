//! Data sets from their original file formats, and the rules that give their samples to clients.
//!
//! Nothing here knows of models or training. Files are checked before they are used; only [`fetch`] knows the network.

mod added;
mod assemble;
mod augment;
mod batches;
mod cifar;
mod counts;
mod dataset;
mod domains;
mod emnist;
mod ends;
mod facts;
pub mod fetch;
mod files;
mod folders;
mod hdf5;
mod idx;
mod known;
mod leaf;
mod mat;
mod members;
mod npy;
mod omniglot;
mod optdigits;
mod params;
pub mod partition;
mod parts;
mod pfllib;
mod pickle;
mod picture;
mod registry;
mod remote;
mod rules;
mod sensors;
mod synthetic;
mod tables;
mod text;
mod tff;
mod writers;

pub use crate::engine::Shape;
pub use added::{Added, announce};
pub use dataset::{Bytes, Dataset, Groups, Origin, Samples, Scaling, Vocabulary};
pub use facts::{Facts, facts};
pub use partition::{Client, Partition};
pub use parts::Parts;
pub use pfllib::{Made, export as export_pfllib};
pub use registry::{Entry, entries, fingerprint, load, load_until, variants};
pub use remote::{Remote, Sum};
pub use rules::rules;
