//! FedBN: everything is shared but the normalisation layers.

use crate::engine::Entry;
use crate::fl::{Algorithm, Description};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;

/// Li et al., ICLR 2021, Algorithm 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FedBn {
    #[serde(rename = "match")]
    matching: Matching,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Matching {
    Module,
    Name,
}

impl Algorithm for FedBn {
    type Server = ();
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "fedbn",
            title: "FedBN",
            family: "partial sharing",
            paper: "Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021",
            year: 2021,
            personal: "scale and shift of the normalisation layers",
            down: "w - n",
            up: "w",
            rule: "FedAvg, but a client keeps its own normalisation parameters; without normalisation layers it is FedAvg",
            differences: "PFLlib keeps what has `bn` in its name (`match: name`), which misses the layers of some models; the default \
                          `module` keeps every normalisation layer, as the paper means it. On a network without such layers it is FedAvg",
            fields: vec![
                Field::with(
                    "match",
                    Type::Choice(&[
                        ("module", "every normalisation layer stays local, as the paper"),
                        ("name", "parameters with `bn` in their name stay local, as PFLlib"),
                    ]),
                    "module",
                    "How the local layers are found.",
                )
                .from("-", "the paper"),
            ],
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn shared(&self, layer: &Entry) -> bool {
        match self.matching {
            Matching::Module => !layer.norm,
            Matching::Name => !layer.name.contains("bn"),
        }
    }

    /// The reference averages the normalisation layers too, though nobody reads the result.
    fn averaged(&self, _: &Entry) -> bool {
        true
    }
}
