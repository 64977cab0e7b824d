//! The rule `label-count`: every client has a number of classes, and each class is shared out evenly among its clients.
//!
//! NIID-Bench's "#C=k": client i owns class i mod C and k-1 others, drawn by Python's generator; numpy's shuffles each class. Its
//! classes may go to few clients or many. The clean procedure gives every class to the same number of clients, or one more.

use super::super::params::Params;
use super::numpy::Legacy;
use super::python::Python;
use super::request::Request;
use super::{Drawn, Flags, deal, pathological};
use crate::base::Outcome;
use crate::base::random::{Purpose, shuffle, stream};
use crate::spec::catalog::{Field, Type};

pub(super) fn fields() -> Vec<Field> {
    vec![Field::with("classes_per_client", Type::at_least(1), 2, "The number of classes of each client.").from("k", "NIID-Bench")]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let mut clients = vec![Vec::new(); request.clients];
    let mut left_out = 0;
    if let Some(rng) = rng {
        let classes = request.classes();
        let each = pathological::per_client(request, params, classes)?;
        let mut python = Python::new(request.seed);
        let mut holders = vec![Vec::new(); classes];
        for client in 0..request.clients {
            let mut own = vec![client % classes];
            // With all classes the reference draws nothing.
            while each < classes && own.len() < each {
                let class = python.below(classes as u32) as usize;
                if !own.contains(&class) {
                    own.push(class);
                }
            }
            let own = if each == classes { (0..classes).collect() } else { own };
            own.into_iter().for_each(|class: usize| holders[class].push(client));
        }
        for (own, holders) in request.by_class.iter().zip(&holders) {
            let mut own = own.clone();
            rng.shuffle(&mut own);
            if holders.is_empty() {
                left_out += own.len() as u64;
                continue;
            }
            for (piece, &client) in deal::cut(&own, &deal::even(own.len(), holders.len())).into_iter().zip(holders) {
                clients[client].extend(piece);
            }
        }
    } else {
        let present = request.present();
        let each = pathological::per_client(request, params, present.len())?;
        let mut rng = stream(request.seed, Purpose::Partition, 0, 0, 0);
        let holders = pathological::holders(request, each, &present, &mut rng)?;
        for (&class, holders) in present.iter().zip(&holders) {
            let mut own = request.by_class[class].clone();
            shuffle(&mut rng, &mut own);
            for (piece, &client) in deal::cut(&own, &deal::even(own.len(), holders.len())).into_iter().zip(holders) {
                clients[client].extend(piece);
            }
        }
    }
    request.enough(&clients, false)?;
    Ok(Drawn::whole(clients, Flags { attempts: 1, left_out, ..Flags::default() }))
}
