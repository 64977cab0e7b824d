//! Pictures that are small as they are distributed: digits, letters, clothes, CIFAR.

use super::{NONE, file};
use crate::data::registry::{Entry, Trust};
use crate::data::remote::Sum;
use crate::data::{batches, cifar, emnist, folders, idx, leaf, omniglot, optdigits, tables, writers};
use crate::engine::Shape;
use crate::spec::catalog::{Field, Type};

const MNIST_URL: [&str; 4] = [
    "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
    "https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
    "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
    "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
];
const FASHION_URL: [&str; 4] = [
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
];
const GZ: [&str; 4] =
    ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"];

const CIFAR10_MEMBERS: &[(&str, Sum)] = &[
    ("data_batch_1", Sum::Md5("c99cafc152244af753f735de768cd75f")),
    ("data_batch_2", Sum::Md5("d4bba439e000b95fd0a9bffe97cbabec")),
    ("data_batch_3", Sum::Md5("54ebc095f3ab1f0389bbae665268c751")),
    ("data_batch_4", Sum::Md5("634d18415352ddfa80567beed471001a")),
    ("data_batch_5", Sum::Md5("482c414d41f54cd18b22e5b47cb7c3cb")),
    ("test_batch", Sum::Md5("40351d587109b95175f43aff81a1287e")),
];

pub(super) const OPTDIGITS: Entry = Entry {
    name: "optdigits",
    doc: "Handwritten digits of the UCI repository: 5,620 gray pictures of 8 x 8, 10 classes; part of the program.",
    folders: &[],
    files: &[],
    members: &[],
    source: "E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998",
    license: "CC BY 4.0",
    note: "part of the program",
    trust: Trust::Drawn,
    fields: NONE,
    load: |r| optdigits::load(r.params.count("limit", 1)?),
};

pub(super) const MNIST: Entry = Entry {
    name: "mnist",
    doc: "MNIST: 70,000 gray handwritten digits of 28 x 28, 10 classes; four IDX files in `MNIST/`.",
    folders: idx::MNIST.subfolders,
    files: &[
        file(GZ[0], MNIST_URL[0], 9_912_422, Sum::Sha256(idx::MNIST.published[0].packed)),
        file(GZ[1], MNIST_URL[1], 28_881, Sum::Sha256(idx::MNIST.published[1].packed)),
        file(GZ[2], MNIST_URL[2], 1_648_877, Sum::Sha256(idx::MNIST.published[2].packed)),
        file(GZ[3], MNIST_URL[3], 4_542, Sum::Sha256(idx::MNIST.published[3].packed)),
    ],
    members: &[],
    source: idx::MNIST.source,
    license: idx::MNIST.license,
    note: "",
    trust: Trust::Published,
    fields: NONE,
    load: |r| {
        idx::load(
            &idx::MNIST,
            r.dirs,
            &idx::Request { verify: r.params.flag("verify", true)?, classes: Some(10), limit: r.params.count("limit", 1)? },
        )
    },
};

pub(super) const FASHION_MNIST: Entry = Entry {
    name: "fashion-mnist",
    doc: "Fashion-MNIST: 70,000 gray pictures of clothes of 28 x 28, 10 classes; four IDX files in `FashionMNIST/`.",
    folders: idx::FASHION.subfolders,
    files: &[
        file(GZ[0], FASHION_URL[0], 26_421_880, Sum::Sha256(idx::FASHION.published[0].packed)),
        file(GZ[1], FASHION_URL[1], 29_515, Sum::Sha256(idx::FASHION.published[1].packed)),
        file(GZ[2], FASHION_URL[2], 4_422_102, Sum::Sha256(idx::FASHION.published[2].packed)),
        file(GZ[3], FASHION_URL[3], 5_148, Sum::Sha256(idx::FASHION.published[3].packed)),
    ],
    members: &[],
    source: idx::FASHION.source,
    license: idx::FASHION.license,
    note: "Debian's package `dataset-fashion-mnist` is found, too",
    trust: Trust::Published,
    fields: NONE,
    load: |r| {
        idx::load(
            &idx::FASHION,
            r.dirs,
            &idx::Request { verify: r.params.flag("verify", true)?, classes: Some(10), limit: r.params.count("limit", 1)? },
        )
    },
};

pub(super) const CIFAR10: Entry = Entry {
    name: "cifar10",
    doc: "CIFAR-10: 60,000 color pictures of 32 x 32, 10 classes; the archive or batches of the binary or the Python version in \
          `CIFAR10/`.",
    folders: &["CIFAR10", "cifar10"],
    files: &[file(
        "cifar-10-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        170_052_171,
        Sum::Sha256("c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
    )],
    members: CIFAR10_MEMBERS,
    source: "A. Krizhevsky, Learning multiple layers of features from tiny images, technical report, University of Toronto, 2009",
    license: "no formal license; offered for research",
    note: "the Python version, `cifar-10-python.tar.gz`, is read as well",
    trust: Trust::Published,
    fields: || {
        vec![Field::with("subset", Type::Choice(cifar::SUBSETS), "all", "Which batches to use; missing ones are an error otherwise.")]
    },
    load: |r| {
        let subset = r.params.choice("subset", cifar::SUBSETS)?.unwrap_or(0);
        match cifar::load(r.dirs, subset, r.params.flag("verify", true)?, r.params.count("limit", 1)?) {
            Err(fault) if cifar::is_missing(&fault) => batches::cifar10_python(r, if subset == 0 { 5 } else { subset })?.ok_or(fault),
            other => other,
        }
    },
};

pub(super) const CIFAR100: Entry = Entry {
    name: "cifar100",
    doc: "CIFAR-100: 60,000 color pictures of 32 x 32, 100 classes in 20 coarse ones; the archive of the binary or the Python version \
          in `CIFAR100/`.",
    folders: &["CIFAR100", "cifar100"],
    files: &[file(
        "cifar-100-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        168_513_733,
        Sum::Sha256("58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),
    )],
    members: &[
        ("cifar-100-python.tar.gz", Sum::Md5("eb9058c3a382ffc7106e4002c42a8d85")),
        ("train", Sum::Md5("16019d7e3df5f24257cddd939b257f8d")),
        ("test", Sum::Md5("f0ef6b0ae62326f3e7ffdfab6717acfc")),
    ],
    source: "A. Krizhevsky, Learning multiple layers of features from tiny images, technical report, University of Toronto, 2009",
    license: "no formal license; offered for research",
    note: "the Python version, `cifar-100-python.tar.gz`, is read as well",
    trust: Trust::Files,
    fields: NONE,
    load: batches::cifar100,
};

pub(super) const EMNIST: Entry = Entry {
    name: "emnist",
    doc: "EMNIST: gray handwritten characters of 28 x 28, transposed as distributed; six splits; `gzip.zip` or its files in `EMNIST/`.",
    folders: &["EMNIST", "EMNIST/raw", "emnist"],
    files: &[file(
        "gzip.zip",
        "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        561_753_746,
        Sum::Sha256("fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e"),
    )],
    members: &[],
    source: "G. Cohen, S. Afshar, J. Tapson, A. van Schaik, EMNIST: extending MNIST to handwritten letters, IJCNN 2017",
    license: "derived from NIST Special Database 19, a work of the US government",
    note: "",
    trust: Trust::Files,
    fields: emnist::fields,
    load: emnist::load,
};

pub(super) const FEMNIST: Entry = Entry {
    name: "femnist",
    doc: "FEMNIST: handwritten characters of 28 x 28, 62 classes, by writer; LEAF's json in `FEMNIST/train/` and `FEMNIST/test/`.",
    folders: &["FEMNIST", "FEMNIST/data", "femnist/data"],
    files: &[],
    members: &[],
    source: "S. Caldas et al., LEAF: a benchmark for federated settings, arXiv:1812.01097, 2018",
    license: "NIST's data are a work of the US government",
    note: "run LEAF's `preprocess.sh -s niid --sf 1.0 -k 0 -t sample` and put its `train/` and `test/` there",
    trust: Trust::Files,
    fields: NONE,
    load: |r| {
        let shape = Some(Shape { channels: 1, height: 28, width: 28 });
        leaf::load(r, &leaf::Known { what: "writer", classes: Some(62), shape, symmetric: true })
    },
};

pub(super) const OMNIGLOT: Entry = Entry {
    name: "omniglot",
    doc: "Omniglot: drawings of 105 x 105 by alphabet, character and 20 drawers; zips or their folders in `Omniglot/`, \
          also the small sets `images_background_small1.zip` and `..._small2.zip`.",
    folders: &["Omniglot", "omniglot-py", "omniglot"],
    files: &[
        file(
            "images_background.zip",
            "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/images_background.zip",
            9_464_212,
            Sum::Sha256("ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640"),
        ),
        file(
            "images_evaluation.zip",
            "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/images_evaluation.zip",
            6_462_886,
            Sum::Sha256("1f61a8f3366785b057fc117d9228e78a16e3d976c8953b2a10fcc74cf0609cee"),
        ),
    ],
    members: &[
        ("images_background_small1.zip", Sum::Sha256("f38eb80f801274ac2b4dff5b24289016bfaba4a7d5bb50deebf27104ad6cb8a4")),
        ("images_background_small2.zip", Sum::Sha256("3ccaa407515a8778e5d0861875af38b17e418f301ad5bb3b5a6b65d901a41c7f")),
    ],
    source: "B. Lake, R. Salakhutdinov, J. Tenenbaum, Human-level concept learning through probabilistic program induction, Science 350, 2015",
    license: "MIT",
    note: "`subset: small1` or `small2` takes `images_background_small1.zip` or `images_background_small2.zip` instead, from the same \
           address; `data fetch` gets the two large ones",
    trust: Trust::Files,
    fields: omniglot::fields,
    load: omniglot::load,
};

pub(super) const SEMEION: Entry = Entry {
    name: "semeion",
    doc: "Semeion: 1,593 handwritten digits of 16 x 16 black and white pixels, 10 classes; `semeion.data` in `Semeion/`.",
    folders: &["Semeion", "SEMEION"],
    files: &[file(
        "semeion.data",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/semeion/semeion.data",
        2_889_702,
        Sum::Md5("cb545d371d2ce14ec121470795a77432"),
    )],
    members: &[],
    source: "Semeion Handwritten Digit, UCI Machine Learning Repository, doi:10.24432/C5SC8V",
    license: "CC BY 4.0",
    note: "",
    trust: Trust::Published,
    fields: NONE,
    load: tables::semeion,
};

pub(super) const CINIC10: Entry = Entry {
    name: "cinic10",
    doc: "CINIC-10: 270,000 color pictures of 32 x 32, 10 classes; `CINIC-10.tar.gz` or its folders in `CINIC10/`.",
    folders: &["CINIC10", "cinic10", "CINIC-10"],
    files: &[file("CINIC-10.tar.gz", "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz", 0, Sum::Unknown)],
    members: &[],
    source: "L. Darlow, E. Crowley, A. Antoniou, A. Storkey, CINIC-10 is not ImageNet or CIFAR-10, arXiv:1810.03505, 2018",
    license: "MIT for the collection; ImageNet's terms for the pictures",
    note: "",
    trust: Trust::Files,
    fields: NONE,
    load: folders::cinic10,
};

pub(super) const FEMNIST_WRITERS: Entry = Entry {
    name: "femnist-writers",
    doc: "FEMNIST as PFLlib takes it: pictures of 128 x 128 in three channels of the 100 busiest writers, 62 classes; LEAF's pickle in `FEMNIST/`.",
    folders: &["FEMNIST", "FEMNIST/data", "femnist/data"],
    files: &[],
    members: &[],
    source: "S. Caldas et al., LEAF: a benchmark for federated settings, arXiv:1812.01097, 2018",
    license: "NIST's data are a work of the US government",
    note: "run LEAF's `preprocess.sh`: its `intermediate/images_by_writer.pkl`, beside the pictures that it names",
    trust: Trust::Files,
    fields: writers::fields,
    load: writers::load,
};
