//! The rule `power-law`: two neighboring classes a client, sizes by a log-normal law.
//!
//! FedProx's generator, whose MNIST with 1,000 clients FedML ships: client u has the classes u and u+1 (modulo their number). It
//! first takes 5 samples of each, in file order; what is left of a class is shared out by log-normal draws, and a share for which
//! not enough is left is dropped whole. The clean procedure shuffles each class and leaves nothing out.

use super::super::params::Params;
use super::numpy::{Legacy, sum};
use super::portable::{exp, gauss};
use super::request::Request;
use super::{Drawn, Flags, deal};
use crate::base::random::{Purpose, shuffle, stream};
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};

const SLOTS: usize = 2;
/// What a client takes of each of its classes first.
const FIRST: usize = 5;

pub(super) fn fields() -> Vec<Field> {
    let doc = "Spread of the log-normal law: the standard deviation of the logarithm. Above 0.";
    vec![Field::with("sigma", Type::positive(), 2.0, doc).from("sigma", "FedProx")]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let sigma = params.number("sigma", 0.0, None)?.unwrap_or(2.0);
    let (n, classes) = (request.clients, request.classes());
    let infeasible = |what: String, help: &str| Fault::stage(format!("infeasible: {what}")).at("partition `power-law`").help(help);
    let class_of = |client: usize, slot: usize| (client + slot) % classes;
    let mut clients = vec![Vec::new(); n];
    let left_out = if let Some(rng) = rng {
        if n % classes != 0 {
            let what = format!("{n} clients are no multiple of the {classes} classes");
            return Err(infeasible(what, "choose a multiple, or `variant: clean`"));
        }
        let rows = n / classes;
        let first = SLOTS * FIRST * rows;
        if let Some((class, own)) = request.by_class.iter().enumerate().find(|(_, own)| own.len() < first) {
            let what = format!("class {class} has {} samples, but its clients take {first} first", own.len());
            return Err(infeasible(what, "choose fewer clients, or `variant: clean`"));
        }
        let mut taken = vec![0; classes];
        let mut take = |client: &mut Vec<u32>, class: usize, count: usize| {
            client.extend_from_slice(&request.by_class[class][taken[class]..taken[class] + count]);
            taken[class] += count;
            taken[class]
        };
        for (client, own) in clients.iter_mut().enumerate() {
            (0..SLOTS).for_each(|slot| _ = take(own, class_of(client, slot), FIRST));
        }
        let draws: Vec<f64> = (0..n * SLOTS).map(|_| rng.lognormal(0.0, sigma)).collect();
        let mut at: Vec<usize> = vec![first; classes];
        let blocks: Vec<(f64, &[f64])> = draws.chunks_exact(rows * SLOTS).map(|block| (sum(block), block)).collect();
        for (client, own) in clients.iter_mut().enumerate() {
            for slot in 0..SLOTS {
                let class = class_of(client, slot);
                let all = request.by_class[class].len();
                let (whole, block) = blocks[class];
                let count = ((all - first) as f64 * block[client / classes * SLOTS + slot] / whole) as usize;
                if at[class] + count < all {
                    at[class] = take(own, class, count);
                }
            }
        }
        request.by_class.iter().zip(&at).map(|(own, at)| (own.len() - at) as u64).sum()
    } else {
        let mut holders = vec![Vec::new(); classes];
        for client in 0..n {
            // With one class both slots are the same.
            (0..SLOTS.min(classes)).for_each(|slot| holders[class_of(client, slot)].push(client));
        }
        for (class, (own, holders)) in request.by_class.iter().zip(&holders).enumerate() {
            let mut rng = stream(request.seed, Purpose::Partition, class as u64 + 1, 0, 0);
            let mut own = own.clone();
            shuffle(&mut rng, &mut own);
            if holders.is_empty() && !own.is_empty() {
                let what = format!("{n} clients of {SLOTS} classes each cannot hold all {classes} classes");
                return Err(infeasible(what, "choose more clients"));
            }
            if holders.is_empty() {
                continue;
            }
            let weights: Vec<f64> = holders.iter().map(|_| exp((sigma * gauss(&mut rng)).clamp(-700.0, 700.0))).collect();
            let floor = FIRST.max(request.least.unwrap_or(0).div_ceil(SLOTS)).min(own.len() / holders.len());
            for (piece, &client) in deal::cut(&own, &deal::apportion(own.len(), &weights, floor)).into_iter().zip(holders) {
                clients[client].extend(piece);
            }
        }
        0
    };
    request.enough(&clients, false)?;
    Ok(Drawn::whole(clients, Flags { attempts: 1, left_out, ..Flags::default() }))
}
