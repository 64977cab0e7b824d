//! The rule `pachinko`: every client draws coarse classes, and within each of them fine classes (Pachinko allocation).
//!
//! TensorFlow Federated's CIFAR-100: coarse mixtures from a symmetric Dirichlet distribution with 0.1, fine ones with 10, 500 clients
//! of 100 samples. Source: S. Reddi et al., "Adaptive federated optimization", ICLR 2021, appendix F.

use super::super::params::Params;
use super::numpy::Legacy;
use super::quantity::dirichlet_weights;
use super::request::Request;
use super::{Drawn, Flags, deal};
use crate::base::random::{Purpose, Stream, shuffle, stream, unit};
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};
use std::collections::BTreeMap;

pub(super) fn fields() -> Vec<Field> {
    let source = "TensorFlow Federated";
    vec![
        Field::with("alpha", Type::positive(), 0.1, "Concentration of a client's mixture of coarse classes. Above 0.")
            .from("alpha", source),
        Field::with("beta", Type::positive(), 10.0, "Concentration of a client's mixture within a coarse class. Above 0.")
            .from("beta", source),
    ]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, _: Option<&mut Legacy>) -> Outcome<Drawn> {
    if request.superclasses.is_empty() {
        return Err(Fault::stage("the classes of the data set have none above them, which `pachinko` needs")
            .help("use `cifar100`, or another kind of partition"));
    }
    let alpha = params.number("alpha", 0.0, None)?.unwrap_or(0.1);
    let beta = params.number("beta", 0.0, None)?.unwrap_or(10.0);
    // By coarse class: its fine classes, and what is left of each.
    let mut tree: BTreeMap<u32, Vec<Vec<u32>>> = BTreeMap::new();
    for (class, (own, &coarse)) in request.by_class.iter().zip(request.superclasses).enumerate() {
        let mut own = own.clone();
        shuffle(&mut stream(request.seed, Purpose::Partition, 0, class as u64, 0), &mut own);
        tree.entry(coarse).or_default().push(own);
    }
    let mut tree: Vec<Vec<Vec<u32>>> = tree.into_values().collect();
    let sizes = deal::even(request.labels.len(), request.clients);
    let draw = |(client, size): (usize, usize)| {
        let mut rng = stream(request.seed, Purpose::Partition, client as u64 + 1, 0, 0);
        let coarse = dirichlet_weights(&mut rng, alpha, tree.len());
        let fine: Vec<Vec<f64>> = tree.iter().map(|classes| dirichlet_weights(&mut rng, beta, classes.len())).collect();
        let mut own = Vec::with_capacity(size);
        while own.len() < size {
            // What is used up is taken out, and the others share its weight.
            let Some(above) = pick(&mut rng, &coarse, |node| tree[node].iter().any(|left| !left.is_empty())) else { break };
            let Some(class) = pick(&mut rng, &fine[above], |class| !tree[above][class].is_empty()) else { break };
            own.extend(tree[above][class].pop());
        }
        own
    };
    let clients: Vec<Vec<u32>> = sizes.into_iter().enumerate().map(draw).collect();
    request.enough(&clients, false)?;
    Ok(Drawn::whole(clients, Flags { attempts: 1, ..Flags::default() }))
}

/// Draws one of the open places by weight; evenly when all their weights are 0.
fn pick(rng: &mut Stream, weights: &[f64], open: impl Fn(usize) -> bool) -> Option<usize> {
    let places: Vec<usize> = (0..weights.len()).filter(|&place| open(place)).collect();
    let sum: f64 = places.iter().map(|&place| weights[place]).sum();
    let weight = |place: usize| if sum > 0.0 { weights[place] } else { 1.0 };
    let mut at = unit(rng) * if sum > 0.0 { sum } else { places.len() as f64 };
    let found = places.iter().find(|&&place| {
        at -= weight(place);
        at < 0.0
    });
    found.or(places.last()).copied()
}
