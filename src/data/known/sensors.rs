//! Windows of body-worn sensors.

use super::{NONE, file};
use crate::data::registry::{Entry, Trust};
use crate::data::remote::Sum;
use crate::data::sensors;

pub(super) const HAR: Entry = Entry {
    name: "har",
    doc: "UCI HAR: 10,299 windows of a smartphone's 9 signals, 6 activities, 30 subjects; `UCI HAR Dataset.zip` or its folder in `HAR/`.",
    folders: &["HAR", "HAR/UCI HAR Dataset", "UCI HAR Dataset"],
    files: &[file(
        "UCI HAR Dataset.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00240/UCI%20HAR%20Dataset.zip",
        60_999_314,
        Sum::Sha256("2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0"),
    )],
    members: &[(
        "human+activity+recognition+using+smartphones.zip",
        Sum::Sha256("c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031"),
    )],
    source: "D. Anguita et al., A public domain dataset for human activity recognition using smartphones, ESANN 2013",
    license: "CC BY 4.0",
    note: "also inside `human+activity+recognition+using+smartphones.zip` of https://archive.ics.uci.edu/dataset/240",
    trust: Trust::Files,
    fields: sensors::har_fields,
    load: sensors::har,
};

pub(super) const PAMAP2: Entry = Entry {
    name: "pamap2",
    doc: "PAMAP2: windows of 27 channels of body-worn sensors, 12 activities, 9 subjects; `PAMAP2_Dataset.zip` or its folder in `PAMAP2/`.",
    folders: &["PAMAP2", "PAMAP2/PAMAP2_Dataset", "PAMAP2_Dataset"],
    files: &[file(
        "PAMAP2_Dataset.zip",
        "https://archive.ics.uci.edu/ml/machine-learning-databases/00231/PAMAP2_Dataset.zip",
        0,
        Sum::Unknown,
    )],
    members: &[],
    source: "A. Reiss, D. Stricker, Introducing a new benchmarked dataset for activity monitoring, ISWC 2012",
    license: "CC BY 4.0",
    note: "also inside `pamap2+physical+activity+monitoring.zip` of https://archive.ics.uci.edu/dataset/231",
    trust: Trust::Files,
    fields: NONE,
    load: sensors::pamap2,
};

pub(super) const SP_SW_HAR: Entry = Entry {
    name: "sp-sw-har",
    doc: "SP-SW-HAR: windows of a smartphone's or a smartwatch's 6 signals, 5 activities, 23 subjects; one archive in `SP-SW-HAR/`.",
    folders: &["SP-SW-HAR", "SP-SW-HAR/sp-sw-har-dataset"],
    files: &[file("sp-sw-har-dataset-DATA.tar.xz", "", 0, Sum::Unknown)],
    members: &[],
    source: "M. Matey-Sanz, S. Casteleyn, C. Granell, Dataset of inertial measurements of smartphones and smartwatches for human activity \
             recognition, Data in Brief, 2023, doi:10.1016/j.dib.2023.109809",
    license: "CC BY 4.0",
    note: "https://doi.org/10.5281/zenodo.8398688: its folder `DATA`, or that folder in an archive",
    trust: Trust::Files,
    fields: sensors::postures_fields,
    load: sensors::postures,
};
