//! The data sets of TensorFlow Federated, with its clients.

use super::file;
use crate::data::registry::{Entry, Trust};
use crate::data::remote::Sum;
use crate::data::tff;

const NOTE: &str = "unpack the `.tar.bz2` that TFF and the `download_*.sh` of FedML fetch, and put its `.h5` files there";

pub(super) const FED_EMNIST: Entry = Entry {
    name: "fed-emnist",
    doc: "Federated EMNIST of TFF: characters of 28 x 28 by 3,400 writers, 62 classes (or 10 digits); `.h5` files in `FedEMNIST/`.",
    folders: &["FedEMNIST", "FederatedEMNIST/datasets", "FederatedEMNIST", "fed_emnist"],
    files: &[file("fed_emnist_train.h5", "", 0, Sum::Unknown), file("fed_emnist_test.h5", "", 0, Sum::Unknown)],
    members: &[],
    source: "S. Caldas et al., LEAF: a benchmark for federated settings, arXiv:1812.01097, 2018; as TensorFlow Federated distributes it",
    license: "NIST's data are a work of the US government",
    note: NOTE,
    trust: Trust::Files,
    fields: tff::emnist_fields,
    load: tff::emnist,
};

pub(super) const FED_CIFAR100: Entry = Entry {
    name: "fed-cifar100",
    doc: "Federated CIFAR-100 of TFF: 500 training and 100 test clients by Pachinko allocation, 3 x 32 x 32; `.h5` files in `FedCIFAR100/`.",
    folders: &["FedCIFAR100", "fed_cifar100/datasets", "fed_cifar100"],
    files: &[file("fed_cifar100_train.h5", "", 0, Sum::Unknown), file("fed_cifar100_test.h5", "", 0, Sum::Unknown)],
    members: &[],
    source: "S. Reddi et al., Adaptive federated optimization, ICLR 2021; A. Krizhevsky, technical report, University of Toronto, 2009",
    license: "no formal license; offered for research",
    note: NOTE,
    trust: Trust::Files,
    fields: tff::cifar_fields,
    load: tff::cifar,
};

pub(super) const FED_SHAKESPEARE: Entry = Entry {
    name: "fed-shakespeare",
    doc: "Shakespeare of TFF: the next of 90 characters after 80 others, by 715 roles; `.h5` files in `FedShakespeare/`.",
    folders: &["FedShakespeare", "fed_shakespeare/datasets", "fed_shakespeare"],
    files: &[file("shakespeare_train.h5", "", 0, Sum::Unknown), file("shakespeare_test.h5", "", 0, Sum::Unknown)],
    members: &[],
    source: "S. Caldas et al., LEAF: a benchmark for federated settings, arXiv:1812.01097, 2018; as TensorFlow Federated distributes it",
    license: "the text is in the public domain",
    note: NOTE,
    trust: Trust::Files,
    fields: tff::shakespeare_fields,
    load: tff::shakespeare,
};

pub(super) const FED_STACKOVERFLOW: Entry = Entry {
    name: "fed-stackoverflow",
    doc: "Stack Overflow of TFF: the next of 10,004 words after up to 20 others, by user; `.h5` files and the words in `FedStackOverflow/`.",
    folders: &["FedStackOverflow", "stackoverflow/datasets", "stackoverflow"],
    files: &[
        file("stackoverflow_train.h5", "", 0, Sum::Unknown),
        file("stackoverflow_test.h5", "", 0, Sum::Unknown),
        file("stackoverflow.word_count", "", 0, Sum::Unknown),
    ],
    members: &[],
    source: "Stack Overflow data, as TensorFlow Federated distributes it",
    license: "CC BY-SA 3.0",
    note: NOTE,
    trust: Trust::Files,
    fields: tff::overflow_fields,
    load: tff::overflow,
};
