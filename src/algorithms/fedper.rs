//! FedPer: a shared base, personal heads.

use crate::engine::{Entry, Part};
use crate::fl::{Algorithm, Description};
use serde::Deserialize;

/// Arivazhagan et al., 2019.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedPer {}

impl Algorithm for FedPer {
    type Server = ();
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedper",
            title: "FedPer",
            family: "model splitting",
            paper: "Arivazhagan et al., Federated Learning with Personalization Layers, arXiv 1912.00818, 2019",
            year: 2019,
            personal: "the head",
            down: "b",
            up: "b",
            rule: "base and head are trained together; only the bases are averaged, as FedAvg",
            differences: "none",
            fields: Vec::new(),
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Base
    }
}
