//! The rule `iid`: every client has the label distribution of the whole data set.
//!
//! PFLlib takes it for a pathological partition with all classes, whose slices are random in size unless `balance` is set; the last
//! client then gets whatever is left of every class, about half of the data. FedML cuts a permutation of all samples into equal
//! pieces. The clean procedure deals shuffled samples evenly.

use super::super::params::Params;
use super::numpy::Legacy;
use super::portable::{exp, ln_gamma_draw};
use super::request::Request;
use super::{Drawn, Flags, Procedure, deal, pathological};
use crate::base::Outcome;
use crate::base::random::{Purpose, shuffle, stream};
use crate::spec::catalog::{Field, Type, When};

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with(
            "balance",
            Type::Bool,
            true,
            "Equal sizes, the only ones of `fedml`. Otherwise `pfllib` draws them so that the last client gets about half of the data, \
             and `clean` by `size_alpha`.",
        )
        .read_with("variant", When::Is(&["pfllib", "clean"])),
        Field::with(
            "stratified",
            Type::Bool,
            true,
            "`clean` only: deal each class evenly, so that label distributions agree but for rounding; otherwise shuffle all samples \
             together.",
        )
        .read_with("variant", When::Is(&["clean"])),
        Field::with(
            "size_alpha",
            Type::positive(),
            1.0,
            "`clean` with `balance: false` only: client sizes are proportional to a symmetric Dirichlet draw with this parameter.",
        )
        .read_with("variant", When::Is(&["clean"]))
        .read_with("balance", When::Is(&["false"])),
    ]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let balance = params.flag("balance", true)?;
    if let Some(rng) = rng {
        if request.procedure == Procedure::Fedml {
            let order = rng.permutation(request.labels.len() as u32);
            let clients = deal::cut(&order, &deal::even(order.len(), request.clients));
            return Ok(Drawn::whole(clients, Flags { attempts: 1, ..Flags::default() }));
        }
        return pathological::slices(request, request.classes(), balance, rng);
    }
    let stratified = params.flag("stratified", true)?;
    let size_alpha = params.number("size_alpha", 0.0, None)?.unwrap_or(1.0);
    let mut rng = stream(request.seed, Purpose::Partition, 0, 0, 0);
    let weights: Vec<f64> = if balance {
        vec![1.0; request.clients]
    } else {
        let logs: Vec<f64> = (0..request.clients).map(|_| ln_gamma_draw(&mut rng, size_alpha)).collect();
        let most = logs.iter().copied().fold(f64::MIN, f64::max);
        logs.iter().map(|log| exp(log - most)).collect()
    };
    // Every client gets one sample at least, or as many as asked for.
    let floor = request.least.unwrap_or(1);
    let sizes = deal::apportion(request.labels.len(), &weights, floor);
    let order = if stratified {
        let mut classes = request.by_class.clone();
        classes.iter_mut().for_each(|own| shuffle(&mut rng, own));
        deal::interleave(&classes)
    } else {
        let mut order: Vec<u32> = (0..request.labels.len() as u32).collect();
        shuffle(&mut rng, &mut order);
        order
    };
    let clients = deal::cut(&order, &sizes);
    Ok(Drawn::whole(clients, Flags { attempts: 1, ..Flags::default() }))
}
