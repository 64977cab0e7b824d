//! Local: every client trains alone.

use crate::base::Outcome;
use crate::engine::Entry;
use crate::fl::{Algorithm, Client, Description, Sends, Server, Trainer};
use serde::Deserialize;

/// The lower baseline without communication.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Local {}

impl Algorithm for Local {
    type Server = ();
    type Client = ();
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "local",
            title: "Local",
            family: "local",
            paper: "the lower baseline of every comparison; PFLlib's implementation",
            year: 2017,
            personal: "the whole model",
            down: "0",
            up: "0",
            rule: "w_c <- w_c after E epochs of SGD at client c; nothing is sent",
            differences: "PFLlib draws the cohort twice a round and uses the second draw; here it is drawn once",
            fields: Vec::new(),
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn sends(&self) -> Sends {
        Sends::Other("sends nothing")
    }

    fn shared(&self, _: &Entry) -> bool {
        false
    }

    /// There is no server model to adopt: a new client starts from the initial one and trains alone.
    fn adopt(&self, _: &mut Trainer<'_>, _: &Server<()>, _: &mut Client<()>) -> Outcome<()> {
        Ok(())
    }
}
