//! The rule `dirichlet`: each class is shared out by proportions drawn from a symmetric Dirichlet distribution.
//!
//! The procedures give nothing more to a client that already holds its mean share. PFLlib draws everything anew until every client
//! has the least number of samples, for ever if need be; here the number of draws has a cap, after which the partition is repaired
//! where that is asked for, or the rule fails.

use super::super::params::Params;
use super::numpy::{self, Legacy};
use super::portable::{exp, ln_gamma_draw};
use super::repair::repair;
use super::request::Request;
use super::{Drawn, Flags, Procedure, known};
use crate::base::Outcome;
use crate::base::random::{Purpose, shuffle, stream};
use crate::spec::catalog::{Field, Type};

/// The least samples of a client in the procedures of FedML and NIID-Bench.
const LEAST: usize = 10;

pub(super) fn alpha_field(default: f64) -> Field {
    let doc = "Concentration: the smaller, the more the clients differ. Above 0.";
    Field::with("alpha", Type::positive(), default, doc).from("alpha", "PFLlib")
}

pub(super) fn fields() -> Vec<Field> {
    vec![
        alpha_field(0.1),
        Field::with(
            "balance",
            Type::Bool,
            true,
            "A client that holds its mean share gets no more classes; `pfllib` always does so, `clean` and `fedml` may go without.",
        ),
    ]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let alpha = params.number("alpha", 0.0, None)?.unwrap_or(0.1);
    let balance = params.flag("balance", true)?;
    let fedml = request.procedure == Procedure::Fedml;
    known::balance(request.rule, params.map())?;
    let everyone: Vec<usize> = (0..request.clients).collect();
    let holders: Vec<&[usize]> = vec![&everyone; request.classes()];
    let least = request.least.unwrap_or(request.reference_least);
    match rng {
        Some(rng) if fedml => {
            let least = request.least.unwrap_or(LEAST);
            let mut drawn = pfllib(request, alpha, &holders, least, Sharing { balance, leftovers: false }, rng)?;
            drawn.clients.iter_mut().for_each(|own| rng.shuffle(own));
            Ok(drawn)
        }
        Some(rng) => pfllib(request, alpha, &holders, least, Sharing { balance: true, leftovers: false }, rng),
        None => clean(request, alpha, &holders, least.max(1), balance),
    }
}

/// How the reference's loop shares out a class.
#[derive(Clone, Copy)]
pub(super) struct Sharing {
    /// A client that holds its mean share gets no more.
    pub balance: bool,
    /// The last client of the class takes what rounding leaves, as PFLlib's extended rule has it.
    pub leftovers: bool,
}

/// Draws until every client has `least` samples. `holders` are the clients that each class may go to.
pub(super) fn pfllib(
    request: &Request<'_>,
    alpha: f64,
    holders: &[&[usize]],
    least: usize,
    sharing: Sharing,
    rng: &mut Legacy,
) -> Outcome<Drawn> {
    let n = request.clients;
    let mean = request.labels.len() as f64 / n as f64;
    let allowed = table(holders, n);
    until_enough(request, least, &allowed, |_, clients| {
        let mut exhausted = 0;
        for (class, own) in request.by_class.iter().enumerate() {
            let mut own = own.clone();
            rng.shuffle(&mut own);
            let mut p = rng.dirichlet(alpha, n);
            for (client, p) in p.iter_mut().enumerate() {
                // A product, not a choice, as NaN has to stay NaN.
                *p *= f64::from(u8::from((!sharing.balance || (clients[client].len() as f64) < mean) && allowed[class][client]));
            }
            let sum = numpy::sum(&p);
            let mut cuts = Vec::with_capacity(n);
            let mut running = 0.0;
            for p in &p[..n - 1] {
                running += p / sum;
                // As numpy's cast, but for NaN, which it makes the least integer: then the pieces before the last are empty, as here.
                cuts.push(((running * own.len() as f64) as usize).min(own.len()));
            }
            exhausted += u32::from((running + p[n - 1] / sum).is_nan());
            if sharing.leftovers && cuts.last().is_some_and(|&cut| cut != own.len()) {
                let last = holders[class].last().copied().unwrap_or(0);
                cuts.iter_mut().skip(last).for_each(|cut| *cut = own.len());
            }
            cuts.push(own.len());
            let mut from = 0;
            for (client, &cut) in clients.iter_mut().zip(&cuts) {
                client.extend_from_slice(&own[from..cut.max(from)]);
                from = cut.max(from);
            }
        }
        exhausted
    })
}

/// The clean procedure: proportions by logarithms, so that they are never all zero, from a stream for each class and draw.
pub(super) fn clean(request: &Request<'_>, alpha: f64, holders: &[&[usize]], least: usize, balance: bool) -> Outcome<Drawn> {
    let mean = request.labels.len() as f64 / request.clients as f64;
    let allowed = table(holders, request.clients);
    until_enough(request, least, &allowed, |attempt, clients| {
        for (class, own) in request.by_class.iter().enumerate() {
            let mut rng = stream(request.seed, Purpose::Partition, class as u64 + 1, u64::from(attempt), 0);
            let mut own = own.clone();
            shuffle(&mut rng, &mut own);
            let logs: Vec<f64> = holders[class].iter().map(|_| ln_gamma_draw(&mut rng, alpha)).collect();
            let full = |at: usize| balance && clients[holders[class][at]].len() as f64 >= mean;
            // When all of its clients are full, the class is shared out among them all.
            let all_full = (0..logs.len()).all(full);
            let open: Vec<usize> = (0..logs.len()).filter(|&at| all_full || !full(at)).collect();
            let most = open.iter().map(|&at| logs[at]).fold(f64::MIN, f64::max);
            let weights: Vec<f64> = open.iter().map(|&at| exp(logs[at] - most)).collect();
            for (piece, &at) in super::deal::cut(&own, &super::deal::apportion(own.len(), &weights, 0)).iter().zip(&open) {
                clients[holders[class][at]].extend_from_slice(piece);
            }
        }
        0
    })
}

/// For each class, whether each of `n` clients may hold it.
fn table(holders: &[&[usize]], n: usize) -> Vec<Vec<bool>> {
    let of = |holders: &&[usize]| {
        let mut allowed = vec![false; n];
        holders.iter().for_each(|&client| allowed[client] = true);
        allowed
    };
    holders.iter().map(of).collect()
}

/// Draws again until every client has `least` samples, and then repairs the best draw or fails.
///
/// `draw` fills the empty clients and returns the number of classes whose proportions were undefined.
fn until_enough(
    request: &Request<'_>,
    least: usize,
    allowed: &[Vec<bool>],
    mut draw: impl FnMut(u32, &mut [Vec<u32>]) -> u32,
) -> Outcome<Drawn> {
    request.feasible(least)?;
    let mut best: Option<(usize, Vec<Vec<u32>>, u32)> = None;
    for attempt in 1..=request.attempts {
        request.stop.go_on()?;
        let mut clients = vec![Vec::new(); request.clients];
        let exhausted = draw(attempt, &mut clients);
        let smallest = clients.iter().map(Vec::len).min().unwrap_or(0);
        if smallest >= least {
            return Ok(Drawn::whole(clients, Flags { attempts: attempt, exhausted, ..Flags::default() }));
        }
        if best.as_ref().is_none_or(|(size, ..)| smallest > *size) {
            best = Some((smallest, clients, exhausted));
        }
    }
    let (smallest, mut clients, exhausted) = best.unwrap_or_default();
    let failed = || request.exhausted(request.attempts, smallest, least, "alpha");
    if !request.repair {
        return Err(failed());
    }
    let moved = repair(&mut clients, request.labels, allowed, least).ok_or_else(failed)?;
    Ok(Drawn::whole(clients, Flags { attempts: request.attempts, repaired: true, moved, exhausted, ..Flags::default() }))
}
