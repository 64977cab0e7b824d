//! SCAFFOLD: control variates correct the drift of the clients.

use crate::base::Outcome;
use crate::engine::Params;
use crate::engine::update::Correction;
use crate::fl::{Aggregation, Algorithm, Client, Description, Sends, Server, State, Trainer, Uploaded, Visitor, World};
use crate::spec::catalog::{Field, Type};
use serde::Deserialize;
use serde_json::json;

/// Karimireddy et al., ICML 2020, Algorithm 1 with option II.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scaffold {
    server_learning_rate: f32,
    divisor: Divisor,
    // Trainings from before it was introduced do not name it.
    #[serde(default = "acting")]
    controls: bool,
}

fn acting() -> bool {
    true
}

/// By what the sum of the model changes is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Divisor {
    Static,
    Uploaded,
}

/// A control variate, zero at the start.
#[derive(Clone, Debug)]
pub(crate) struct Control(Params<f32>);

impl Default for Control {
    fn default() -> Self {
        Self(Params::from(Vec::new()))
    }
}

impl State for Control {
    fn visit(&mut self, visitor: &mut dyn Visitor) {
        visitor.params("control", &mut self.0);
    }
}

impl Scaffold {
    /// 1 / (K lr) with K local steps: in f64, from left to right, with the undecayed rate, as the reference computes it.
    fn kappa(world: &World, samples: usize, epochs: u64) -> Option<f32> {
        let batches = samples / world.settings.batch_size;
        (batches > 0).then(|| (1.0 / batches as f64 / epochs as f64 / world.settings.learning_rate) as f32)
    }
}

impl Algorithm for Scaffold {
    type Server = Control;
    type Client = Control;
    type Upload = ();

    fn describe() -> Description {
        Description {
            name: "scaffold",
            title: "SCAFFOLD",
            family: "traditional",
            paper: "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020",
            year: 2020,
            personal: "a control variate c_i",
            down: "2 w",
            up: "2 w",
            rule: "each step at client i: y_i <- y_i - lr (grad - c_i + c); c_i <- c_i - c + (x - y_i)/(K lr); \
                   x <- x + eta_s sum_i (y_i - x)/m; c <- c + sum_i (change of c_i)/N",
            differences: "PFLlib divides by the nominal cohort size whatever arrived (`divisor: static`, the default); the paper divides \
                          by the clients that took part (`uploaded`). A client with fewer samples than a batch keeps its control and sends \
                          no change, where PFLlib divides by zero",
            fields: vec![
                Field::with("server_learning_rate", Type::positive(), 1.0, "Step of the server.").from("eta_s", "PFLlib; the paper uses 1"),
                Field::with(
                    "divisor",
                    Type::Choice(&[
                        ("static", "the nominal cohort size, as PFLlib"),
                        ("uploaded", "the uploads that arrived, as the paper"),
                    ]),
                    "static",
                    "What the sum of the model changes is divided by; differs only when uploads are lost or the cohort size is drawn.",
                )
                .from("|S|", "PFLlib"),
                Field {
                    introduced: Some(json!(true)),
                    ..Field::with("controls", Type::Bool, true, "Whether the control variates act; without them, they stay 0: an ablation.")
                        .from("c", "the paper")
                },
            ],
            revision: 1,
        }
    }

    fn rests(&self) -> bool {
        true
    }

    fn sends(&self) -> Sends {
        Sends::AveragedAnd("the control variate of the server")
    }

    fn down(&self, world: &World, _: &Server<Control>, _: &Client<Control>) -> u64 {
        2 * world.layout().len as u64
    }
    fn up(&self, world: &World, (): &mut ()) -> u64 {
        2 * world.layout().len as u64
    }

    fn setup(&self, world: &World, server: &mut Server<Control>, clients: &mut [Client<Control>]) -> Outcome<()> {
        let zero = Control(Params::from(vec![0.0; world.layout().len]));
        server.state = zero.clone();
        clients.iter_mut().for_each(|client| client.state = zero.clone());
        Ok(())
    }

    fn corrections<'a>(&'a self, server: &'a Server<Control>, own: &'a Control) -> Vec<Correction<'a, f32>> {
        vec![Correction::Add(&server.state.0), Correction::Subtract(&own.0)]
    }

    /// The client's new control: c_i - c + (x - y_i)/(K lr).
    fn upload(&self, trainer: &mut Trainer<'_>, server: &Server<Control>, client: &mut Client<Control>) -> Outcome<()> {
        if let Some(kappa) = Self::kappa(trainer.world, trainer.samples(), trainer.epochs()).filter(|_| self.controls) {
            let (x, c) = (&server.global.params, &server.state.0);
            for (((own, c), x), y) in client.state.0.iter_mut().zip(c.iter()).zip(x.iter()).zip(client.model.params.iter()) {
                *own = (*own - c) + kappa * (x - y);
            }
        }
        Ok(())
    }

    fn aggregate(
        &self,
        trainer: &mut Trainer<'_>,
        server: &mut Server<Control>,
        uploads: &[Uploaded<()>],
        round: &Aggregation<'_>,
    ) -> Outcome<()> {
        let world = trainer.world;
        let count = match self.divisor {
            Divisor::Static => round.nominal,
            Divisor::Uploaded => uploads.len(),
        } as f32;
        let (clients, old_x, old_c) = (round.clients as f32, server.global.params.clone(), server.state.0.clone());
        let (x, c) = (&mut server.global.params[..], &mut server.state.0[..]);
        for upload in uploads {
            // Without a step the model did not move, and the control variates stay.
            let Some(kappa) = Self::kappa(world, upload.samples, world.settings.local_epochs) else { continue };
            for i in 0..x.len() {
                let y = upload.model.params[i];
                x[i] += (y - old_x[i]) / count * self.server_learning_rate;
                if self.controls {
                    c[i] += (kappa * (old_x[i] - y) - old_c[i]) / clients;
                }
            }
        }
        Ok(())
    }
}
