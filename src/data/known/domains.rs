//! Data sets of several domains, whose samples come from different places.

use super::{NONE, file};
use crate::data::registry::{Entry, Trust};
use crate::data::remote::Sum;
use crate::data::{domains, folders};

pub(super) const DIGIT5: Entry = Entry {
    name: "digit5",
    doc: "Digit5: digits of 3 x 32 x 32 of five domains (MNIST-M, MNIST, synthetic, USPS, SVHN), 10 classes; MATLAB files in `Digit5/`.",
    folders: &["Digit5", "Digit5/rawdata"],
    files: &[
        file("mnistm_with_label.mat", "", 0, Sum::Unknown),
        file("mnist_data.mat", "", 0, Sum::Unknown),
        file("synth_train_32x32.mat", "", 0, Sum::Unknown),
        file("synth_test_32x32.mat", "", 0, Sum::Unknown),
        file("usps_28x28.mat", "", 0, Sum::Unknown),
        file("svhn_train_32x32.mat", "", 0, Sum::Unknown),
        file("svhn_test_32x32.mat", "", 0, Sum::Unknown),
    ],
    members: &[],
    source: "X. Peng et al., Moment matching for multi-source domain adaptation, ICCV 2019",
    license: "mixed; SVHN for non-commercial use, USPS none stated",
    note: "https://drive.google.com/uc?id=1PT6K-_wmsUEUCxoYzDy0mxF-15tvb2Eu holds them in `Digit5.zip`",
    trust: Trust::Files,
    fields: NONE,
    load: domains::digit5,
};

pub(super) const DOMAINNET: Entry = Entry {
    name: "domainnet",
    doc: "DomainNet: pictures of 345 classes in six domains, made 3 x 64 x 64; six zips and the split lists in `DomainNet/`.",
    folders: &["DomainNet", "DomainNet/rawdata"],
    files: &[
        file("clipart.zip", "http://csr.bu.edu/ftp/visda/2019/multi-source/groundtruth/clipart.zip", 0, Sum::Unknown),
        file("infograph.zip", "http://csr.bu.edu/ftp/visda/2019/multi-source/infograph.zip", 0, Sum::Unknown),
        file("painting.zip", "http://csr.bu.edu/ftp/visda/2019/multi-source/groundtruth/painting.zip", 0, Sum::Unknown),
        file("quickdraw.zip", "http://csr.bu.edu/ftp/visda/2019/multi-source/quickdraw.zip", 0, Sum::Unknown),
        file("real.zip", "http://csr.bu.edu/ftp/visda/2019/multi-source/real.zip", 0, Sum::Unknown),
        file("sketch.zip", "http://csr.bu.edu/ftp/visda/2019/multi-source/sketch.zip", 0, Sum::Unknown),
        file("clipart_train.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/clipart_train.txt", 0, Sum::Unknown),
        file("clipart_test.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/clipart_test.txt", 0, Sum::Unknown),
        file("infograph_train.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/infograph_train.txt", 0, Sum::Unknown),
        file("infograph_test.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/infograph_test.txt", 0, Sum::Unknown),
        file("painting_train.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/painting_train.txt", 0, Sum::Unknown),
        file("painting_test.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/painting_test.txt", 0, Sum::Unknown),
        file("quickdraw_train.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/quickdraw_train.txt", 0, Sum::Unknown),
        file("quickdraw_test.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/quickdraw_test.txt", 0, Sum::Unknown),
        file("real_train.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/real_train.txt", 0, Sum::Unknown),
        file("real_test.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/real_test.txt", 0, Sum::Unknown),
        file("sketch_train.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/sketch_train.txt", 0, Sum::Unknown),
        file("sketch_test.txt", "http://csr.bu.edu/ftp/visda/2019/multi-source/domainnet/txt/sketch_test.txt", 0, Sum::Unknown),
    ],
    members: &[],
    source: "X. Peng et al., Moment matching for multi-source domain adaptation, ICCV 2019",
    license: "non-commercial research",
    note: "training pictures are only scaled; `cut_seed` cuts and turns them at random, as PFLlib does without a seed",
    trust: Trust::Files,
    fields: folders::domainnet_fields,
    load: folders::domainnet,
};

pub(super) const CAMELYON17: Entry = Entry {
    name: "camelyon17",
    doc: "Camelyon17: tissue of 3 x 96 x 96, 2 classes, five hospitals; WILDS' archive or its folder in `Camelyon17/`.",
    folders: &["Camelyon17", "Camelyon17/camelyon17_v1.0", "camelyon17_v1.0"],
    files: &[file("camelyon17_v1.0.tar.gz", "", 10_658_709_504, Sum::Unknown)],
    members: &[],
    source: "P. Bandi et al., From detection of individual metastases to classification of lymph node status, IEEE TMI 2018; WILDS 1.0",
    license: "CC0",
    note: "https://worksheets.codalab.org/rest/bundles/0xe45e15f39fb54e9d9e919556af67aabe/contents/blob/",
    trust: Trust::Files,
    fields: NONE,
    load: folders::camelyon17,
};

pub(super) const IWILDCAM: Entry = Entry {
    name: "iwildcam",
    doc: "iWildCam: animals before camera traps, made 3 x 64 x 64, by trap; WILDS' archive or its folder in `iWildCam/`.",
    folders: &["iWildCam", "iWildCam/iwildcam_v2.0", "iwildcam_v2.0"],
    files: &[file("iwildcam_v2.0.tar.gz", "", 11_957_420_032, Sum::Unknown)],
    members: &[],
    source: "S. Beery, A. Agarwal, E. Cole, V. Birodkar, The iWildCam 2021 competition dataset, 2021; WILDS 2.0",
    license: "CDLA-Permissive-1.0",
    note: "https://worksheets.codalab.org/rest/bundles/0x6313da2b204647e79a14b468131fcd64/contents/blob/",
    trust: Trust::Files,
    fields: NONE,
    load: folders::iwildcam,
};
