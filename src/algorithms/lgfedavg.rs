//! LG-FedAvg: personal representations under a shared head.

use crate::engine::{Entry, Part};
use crate::fl::{Algorithm, Description};
use serde::Deserialize;

/// Liang et al., 2020.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LgFedAvg {}

impl Algorithm for LgFedAvg {
    type Server = ();
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "lgfedavg",
            title: "LG-FedAvg",
            family: "model splitting",
            paper: "Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global Representations, arXiv 2001.01523, \
                    2020",
            year: 2020,
            personal: "the base",
            down: "h",
            up: "h",
            rule: "base and head are trained together; only the heads are averaged, as FedAvg",
            differences: "the authors start from a model that FedAvg has trained; PFLlib and this implementation start from the initial one",
            fields: Vec::new(),
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn shared(&self, layer: &Entry) -> bool {
        layer.part == Part::Head
    }
}
