//! What needs no files of others: formulas, and formats for data of one's own.

use crate::data::registry::{Entry, Trust};
use crate::data::{folders, idx, leaf, synthetic, tables};
use crate::spec::catalog::{Field, Type};

pub(super) const SYNTHETIC: Entry = Entry {
    name: "synthetic",
    doc: "FedProx's synthetic(alpha, beta): 60 numbers, 10 classes, a linear model for each user; drawn, no files.",
    folders: &[],
    files: &[],
    members: &[],
    source: "T. Li et al., Federated optimization in heterogeneous networks, MLSys 2020",
    license: "none needed",
    note: "drawn by the program",
    trust: Trust::Drawn,
    fields: synthetic::fields,
    load: synthetic::fedprox,
};

pub(super) const FCUBE: Entry = Entry {
    name: "fcube",
    doc: "FCUBE of NIID-Bench: points of a cube, 2 classes, 4 parties of opposite octants; drawn, no files.",
    folders: &[],
    files: &[],
    members: &[],
    source: "Q. Li, Y. Diao, Q. Chen, B. He, Federated learning on non-IID data silos: an experimental study, ICDE 2022",
    license: "none needed",
    note: "drawn by the program",
    trust: Trust::Drawn,
    fields: synthetic::fcube_fields,
    load: synthetic::fcube,
};

pub(super) const IDX: Entry = Entry {
    name: "idx",
    doc: "Gray pictures of your own in four IDX files named as those of MNIST; values become [-1, 1].",
    folders: &[],
    files: &[],
    members: &[],
    source: "",
    license: "",
    note: "your own",
    trust: Trust::Own,
    fields: || {
        vec![
            Field::required("folder", Type::Text, "The folder of the four files, inside a data folder."),
            Field::optional("classes", Type::Int { min: 1, max: 256 }, "The number of classes; the highest label and one when absent."),
        ]
    },
    load: |r| {
        let folder = r.params.required("folder", r.params.text("folder")?)?;
        crate::data::registry::inside("folder", folder)?;
        let classes = r.params.integer("classes", 1, 256)?.map(|n| n as usize);
        idx::load_own(r.name, folder, r.dirs, &idx::Request { verify: false, classes, limit: r.params.count("limit", 1)? })
    },
};

pub(super) const IMAGES: Entry = Entry {
    name: "images",
    doc: "Pictures of your own (png, jpeg, ppm) in folders by class; values become [-1, 1].",
    folders: &[],
    files: &[],
    members: &[],
    source: "",
    license: "",
    note: "your own",
    trust: Trust::Own,
    fields: folders::own_fields,
    load: folders::own,
};

pub(super) const CSV: Entry = Entry {
    name: "csv",
    doc: "Rows of your own: numbers, a class, and maybe who they come from.",
    folders: &[],
    files: &[],
    members: &[],
    source: "",
    license: "",
    note: "your own",
    trust: Trust::Own,
    fields: tables::csv_fields,
    load: tables::rows_of_csv,
};

pub(super) const NPZ: Entry = Entry {
    name: "npz",
    doc: "Arrays of your own in a file of numpy's; bytes become [-1, 1], other numbers stay as they are.",
    folders: &[],
    files: &[],
    members: &[],
    source: "",
    license: "",
    note: "your own",
    trust: Trust::Own,
    fields: tables::array_fields,
    load: tables::npz,
};

pub(super) const SAFETENSORS: Entry = Entry {
    name: "safetensors",
    doc: "Arrays of your own in a file of safetensors; bytes become [-1, 1], other numbers stay as they are.",
    folders: &[],
    files: &[],
    members: &[],
    source: "",
    license: "",
    note: "your own",
    trust: Trust::Own,
    fields: tables::array_fields,
    load: tables::safetensors,
};

pub(super) const LEAF: Entry = Entry {
    name: "leaf",
    doc: "Users of your own in LEAF's json: `train/` and `test/` with `users` and `user_data`.",
    folders: &[],
    files: &[],
    members: &[],
    source: "",
    license: "",
    note: "your own",
    trust: Trust::Own,
    fields: leaf::fields,
    load: |r| leaf::load(r, &leaf::Known { what: "user", classes: None, shape: None, symmetric: false }),
};
