//! Photographs in folders or archives of picture files.

use super::{NONE, file};
use crate::data::folders;
use crate::data::registry::{Entry, Trust};
use crate::data::remote::Sum;

pub(super) const TINY_IMAGENET: Entry = Entry {
    name: "tiny-imagenet",
    doc: "Tiny-ImageNet: 100,000 training pictures of 64 x 64, 200 classes; `tiny-imagenet-200.zip` or its folder in `TinyImagenet/`.",
    folders: &["TinyImagenet", "TinyImagenet/tiny-imagenet-200", "tiny-imagenet-200"],
    files: &[file(
        "tiny-imagenet-200.zip",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        248_100_043,
        Sum::Md5("90528d7ca1a48142e341f4ef8d21d0de"),
    )],
    members: &[],
    source: "Y. Le, X. Yang, Tiny ImageNet visual recognition challenge, Stanford CS231N, 2015",
    license: "ImageNet's terms: non-commercial research",
    note: "",
    trust: Trust::Files,
    fields: NONE,
    load: folders::tiny_imagenet,
};

pub(super) const COUNTRY211: Entry = Entry {
    name: "country211",
    doc: "Country211: photographs of 211 countries, made 3 x 64 x 64; `country211.tgz` or its folder in `Country211/`.",
    folders: &["Country211", "Country211/country211", "country211"],
    files: &[file(
        "country211.tgz",
        "https://openaipublic.azureedge.net/clip/data/country211.tgz",
        0,
        Sum::Md5("84988d7644798601126c29e9877aab6a"),
    )],
    members: &[],
    source: "A. Radford et al., Learning transferable visual models from natural language supervision, ICML 2021",
    license: "each photograph under its own Creative Commons license",
    note: "",
    trust: Trust::Files,
    fields: NONE,
    load: folders::country211,
};

pub(super) const FLOWERS102: Entry = Entry {
    name: "flowers102",
    doc: "Flowers102: 8,189 photographs of 102 flowers, made 3 x 64 x 64; the archive and two MATLAB files in `Flowers102/`.",
    folders: &["Flowers102", "flowers-102", "Flowers102/flowers-102"],
    files: &[
        file(
            "102flowers.tgz",
            "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/102flowers.tgz",
            344_862_509,
            Sum::Md5("52808999861908f626f3c1f4e79d11fa"),
        ),
        file(
            "imagelabels.mat",
            "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/imagelabels.mat",
            502,
            Sum::Md5("e0620be6f572b9609742df49c70aed4d"),
        ),
        file(
            "setid.mat",
            "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/setid.mat",
            14_989,
            Sum::Md5("a5357ecc9cb78c4bef273ce3793fc85c"),
        ),
    ],
    members: &[],
    source: "M.-E. Nilsback, A. Zisserman, Automated flower classification over a large number of classes, ICVGIP 2008",
    license: "none stated",
    note: "",
    trust: Trust::Files,
    fields: NONE,
    load: folders::flowers102,
};

pub(super) const GTSRB: Entry = Entry {
    name: "gtsrb",
    doc: "GTSRB: 39,270 German traffic signs, made 3 x 32 x 32, 43 classes; three zips or their folders in `GTSRB/`.",
    folders: &["GTSRB", "gtsrb"],
    files: &[
        file(
            "GTSRB-Training_fixed.zip",
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/GTSRB-Training_fixed.zip",
            0,
            Sum::Md5("513f3c79a4c5141765e10e952eaa2478"),
        ),
        file(
            "GTSRB_Final_Test_Images.zip",
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/GTSRB_Final_Test_Images.zip",
            0,
            Sum::Md5("c7e4e6327067d32654124b0fe9e82185"),
        ),
        file(
            "GTSRB_Final_Test_GT.zip",
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/GTSRB_Final_Test_GT.zip",
            0,
            Sum::Md5("fe31e9c9270bbcd7b84b7f21a9d9d9e5"),
        ),
    ],
    members: &[],
    source: "J. Stallkamp et al., Man vs. computer: benchmarking machine learning algorithms for traffic sign recognition, 2012",
    license: "free for research",
    note: "",
    trust: Trust::Files,
    fields: NONE,
    load: folders::gtsrb,
};

pub(super) const STANFORD_CARS: Entry = Entry {
    name: "stanford-cars",
    doc: "Stanford Cars: 16,185 photographs of 196 cars, made 3 x 64 x 64; three archives and an annotation file in `StanfordCars/`.",
    folders: &["StanfordCars", "stanford_cars", "StanfordCars/stanford_cars"],
    files: &[
        file("cars_train.tgz", "", 979_269_282, Sum::Md5("065e5b463ae28d29e77c1b4b166cfe61")),
        file("cars_test.tgz", "", 977_350_468, Sum::Md5("4ce7ebf6a94d07f1952d94dd34c4d501")),
        file("car_devkit.tgz", "", 330_960, Sum::Md5("c3b158d763b6e2245038c8ad08e45376")),
        file("cars_test_annos_withlabels.mat", "", 185_758, Sum::Md5("b0a2b23655a3edd16d84508592a98d10")),
    ],
    members: &[],
    source: "J. Krause, M. Stark, J. Deng, L. Fei-Fei, 3D object representations for fine-grained categorization, 2013",
    license: "non-commercial research",
    note: "the original address is gone; copies carry the same checksums",
    trust: Trust::Files,
    fields: NONE,
    load: folders::cars,
};

pub(super) const COVIDX: Entry = Entry {
    name: "covidx",
    doc: "COVIDx: chest radiographs, made 3 x 64 x 64, positive or negative; Kaggle's folder or archive in `COVIDx/`.",
    folders: &["COVIDx", "covidx-cxr2"],
    files: &[file("covidx-cxr2.zip", "", 0, Sum::Unknown)],
    members: &[],
    source: "L. Wang, Z. Lin, A. Wong, COVID-Net, Scientific Reports 10, 2020",
    license: "mixed sources, several of them non-commercial",
    note: "https://www.kaggle.com/datasets/andyczhao/covidx-cxr2 (needs a login); PFLlib draws positives again to even the classes, this \
           does not",
    trust: Trust::Files,
    fields: folders::covidx_fields,
    load: folders::covidx,
};

pub(super) const KVASIR: Entry = Entry {
    name: "kvasir",
    doc: "kvasir: 8,000 pictures from inside the body, made 3 x 64 x 64, 8 classes; `kvasir-dataset-v2.zip` or its folder in `kvasir/`.",
    folders: &["kvasir", "kvasir/kvasir-dataset-v2", "kvasir-dataset-v2"],
    files: &[file("kvasir-dataset-v2.zip", "https://datasets.simula.no/downloads/kvasir/kvasir-dataset-v2.zip", 0, Sum::Unknown)],
    members: &[],
    source: "K. Pogorelov et al., Kvasir: a multi-class image dataset for computer aided gastrointestinal disease detection, MMSys 2017",
    license: "research and education only",
    note: "",
    trust: Trust::Files,
    fields: NONE,
    load: folders::kvasir,
};

pub(super) const UTKFACE: Entry = Entry {
    name: "utkface",
    doc: "UTKFace: aligned faces, of which the class is the age in decades (12 classes); `UTKFace.tar.gz` or its folder in `UTKFace/`.",
    folders: &["UTKFace", "UTKFace/UTKFace"],
    files: &[file("UTKFace.tar.gz", "", 0, Sum::Unknown)],
    members: &[],
    source: "Z. Zhang, Y. Song, H. Qi, Age progression/regression by conditional adversarial autoencoder, CVPR 2017",
    license: "non-commercial research; faces of real people",
    note: "https://susanqq.github.io/UTKFace/",
    trust: Trust::Files,
    fields: folders::utkface_fields,
    load: folders::utkface,
};
