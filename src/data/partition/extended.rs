//! The rule `extended-dirichlet`: every client has a few classes drawn at random, shared out by Dirichlet proportions.
//!
//! Source: Y. Li, X. Lyu, "Convergence analysis of sequential federated learning on heterogeneous data", arXiv:2311.03154. PFLlib
//! gives what rounding leaves of a class to the last of its clients; the clean procedure leaves nothing.

use super::super::params::Params;
use super::numpy::Legacy;
use super::request::Request;
use super::{Drawn, dirichlet, known, pathological};
use crate::base::fault::Placed;
use crate::base::random::{Purpose, stream};
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};

/// The least samples of a client in PFLlib's procedure.
const LEAST: usize = 10;

pub(super) fn fields() -> Vec<Field> {
    vec![
        dirichlet::alpha_field(100.0),
        Field::with("classes_per_client", Type::at_least(1), 2, "The number of classes of each client.").from("C", "PFLlib, 10 classes"),
    ]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let alpha = params.number("alpha", 0.0, None)?.unwrap_or(100.0);
    let least = request.least.unwrap_or(LEAST);
    match rng {
        Some(rng) => {
            let per_client = pathological::per_client(request, params, request.classes())?;
            let holders = allocate(request, per_client, rng)?;
            let mut drawn =
                dirichlet::pfllib(request, alpha, &slices(&holders), least, dirichlet::Sharing { balance: true, leftovers: true }, rng)?;
            drawn.clients.iter_mut().for_each(|own| rng.shuffle(own));
            Ok(drawn)
        }
        None => {
            let present = request.present();
            let per_client = pathological::per_client(request, params, present.len())?;
            let mut rng = stream(request.seed, Purpose::Partition, 0, 0, 0);
            let mut holders = vec![Vec::new(); request.classes()];
            for (&class, own) in present.iter().zip(pathological::holders(request, per_client, &present, &mut rng)?) {
                holders[class] = own;
            }
            dirichlet::clean(request, alpha, &slices(&holders), least, true)
        }
    }
}

fn slices(holders: &[Vec<usize>]) -> Vec<&[usize]> {
    holders.iter().map(Vec::as_slice).collect()
}

/// PFLlib's allocation: every client draws its classes, all again until each class has half its mean number of clients.
fn allocate(request: &Request<'_>, per_client: usize, rng: &mut Legacy) -> Outcome<Vec<Vec<usize>>> {
    let classes = request.classes();
    known::covered(request.clients, per_client, classes).at(|| format!("partition `{}`", request.rule.name))?;
    let wanted = (per_client * request.clients / classes / 2).max(1);
    for _ in 0..request.attempts {
        request.stop.go_on()?;
        let mut holders = vec![Vec::new(); classes];
        for client in 0..request.clients {
            for &class in &rng.permutation(classes as u32)[..per_client] {
                holders[class as usize].push(client);
            }
        }
        if holders.iter().all(|own| own.len() >= wanted) {
            return Ok(holders);
        }
    }
    Err(Fault::stage(format!("infeasible: in {} draws some class always had fewer than {wanted} clients", request.attempts))
        .at(format!("partition `{}`", request.rule.name))
        .help("choose more clients, a greater `classes_per_client` or `max_attempts`, or `variant: clean`"))
}
