//! FedAvg: the mean of locally trained models. The hooks' defaults are this algorithm.

use crate::fl::{Algorithm, Description};
use serde::Deserialize;

/// McMahan et al., AISTATS 2017, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedAvg {}

impl Algorithm for FedAvg {
    type Server = ();
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedavg",
            title: "FedAvg",
            family: "traditional",
            paper: "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017",
            year: 2017,
            personal: "nothing",
            down: "w",
            up: "w",
            rule: "w <- sum_c (n_c / n) w_c, where w_c is w after E epochs of SGD at client c",
            differences: "BatchNorm statistics stay at each client, as in PFLlib: only parameters are averaged",
            fields: Vec::new(),
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }
}
