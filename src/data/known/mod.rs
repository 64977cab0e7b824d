//! The table of the data sets: names, files, checksums, licenses, loaders.
//!
//! Checksums are those that torchvision, torchtext and TensorFlow Datasets publish. Each file holds the entries of one subject.

mod domains;
mod folders;
mod own;
mod pictures;
mod sensors;
mod texts;
mod tff;

use super::registry::Entry;
use super::remote::{Remote, Sum};
use crate::spec::catalog::Field;

const fn file(file: &'static str, url: &'static str, size: u64, sum: Sum) -> Remote {
    Remote { file, url, size, sum }
}

const NONE: fn() -> Vec<Field> = Vec::new;

/// Every data set, in the order of lists.
pub(super) const ENTRIES: &[Entry] = &[
    pictures::OPTDIGITS,
    pictures::MNIST,
    pictures::FASHION_MNIST,
    pictures::CIFAR10,
    pictures::CIFAR100,
    pictures::EMNIST,
    pictures::FEMNIST,
    pictures::FEMNIST_WRITERS,
    texts::SHAKESPEARE,
    tff::FED_EMNIST,
    tff::FED_CIFAR100,
    tff::FED_SHAKESPEARE,
    tff::FED_STACKOVERFLOW,
    texts::AG_NEWS,
    texts::SOGOU_NEWS,
    texts::AMAZON_REVIEW,
    texts::AMAZON_SENTENCES,
    texts::TINY_SHAKESPEARE,
    sensors::HAR,
    sensors::PAMAP2,
    sensors::SP_SW_HAR,
    pictures::OMNIGLOT,
    pictures::SEMEION,
    domains::DIGIT5,
    domains::DOMAINNET,
    domains::CAMELYON17,
    domains::IWILDCAM,
    folders::TINY_IMAGENET,
    folders::COUNTRY211,
    folders::FLOWERS102,
    folders::GTSRB,
    folders::STANFORD_CARS,
    folders::COVIDX,
    folders::KVASIR,
    folders::UTKFACE,
    pictures::CINIC10,
    own::SYNTHETIC,
    own::FCUBE,
    own::IDX,
    own::IMAGES,
    own::CSV,
    own::NPZ,
    own::SAFETENSORS,
    own::LEAF,
];
