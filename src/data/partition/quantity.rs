//! The rule `quantity`: clients differ in size only.
//!
//! NIID-Bench draws sizes from a Dirichlet distribution until the smallest is 10 and cuts a permutation of all samples. The clean
//! procedure gives every client its least samples first and shares out the rest, so that one draw is always enough.

use super::super::params::Params;
use super::numpy::{self, Legacy};
use super::portable::{exp, ln_gamma_draw};
use super::request::Request;
use super::rules::MOST_ATTEMPTS;
use super::{Drawn, Flags, deal};
use crate::base::Outcome;
use crate::base::random::{Purpose, Stream, shuffle, stream};
use crate::spec::catalog::{Field, Type, When};

/// The least samples of a client in NIID-Bench.
const LEAST: usize = 10;

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with("beta", Type::positive(), 0.5, "Concentration of the sizes: the smaller, the more they differ. Above 0.")
            .from("beta", "NIID-Bench"),
        Field::optional(
            "max_attempts",
            Type::Int { min: 1, max: MOST_ATTEMPTS as i64 },
            "`niid-bench` only: the most draws until every client has `least_samples`; when absent, as many as take about half a second.",
        )
        .read_with("variant", When::Is(&["niid-bench"])),
    ]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let beta = params.number("beta", 0.0, None)?.unwrap_or(0.5);
    let total = request.labels.len();
    let Some(rng) = rng else {
        let mut rng = stream(request.seed, Purpose::Partition, 0, 0, 0);
        let weights = dirichlet_weights(&mut rng, beta, request.clients);
        let floor = request.least.unwrap_or(LEAST.min(total / request.clients));
        let sizes = deal::apportion(total, &weights, floor);
        let mut order: Vec<u32> = (0..total as u32).collect();
        shuffle(&mut rng, &mut order);
        return Ok(Drawn::whole(deal::cut(&order, &sizes), Flags { attempts: 1, ..Flags::default() }));
    };
    let least = request.least.unwrap_or(LEAST);
    request.feasible(least)?;
    let order = rng.permutation(total as u32);
    let mut best = 0.0_f64;
    for attempt in 1..=request.attempts {
        request.stop.go_on()?;
        let mut p = rng.dirichlet(beta, request.clients);
        let sum = numpy::sum(&p);
        p.iter_mut().for_each(|p| *p /= sum);
        // NaN where no draw was above 0; then the smallest is taken for 0.
        let smallest = p.iter().map(|p| p * total as f64).fold(f64::INFINITY, |a, b| if b.is_nan() { 0.0 } else { a.min(b) });
        best = best.max(smallest);
        if smallest < least as f64 {
            continue;
        }
        let (mut clients, mut running, mut from) = (Vec::new(), 0.0, 0);
        for p in &p[..request.clients - 1] {
            running += p;
            let cut = ((running * total as f64) as usize).clamp(from, total);
            clients.push(order[from..cut].to_vec());
            from = cut;
        }
        clients.push(order[from..].to_vec());
        return Ok(Drawn::whole(clients, Flags { attempts: attempt, ..Flags::default() }));
    }
    Err(request.exhausted(request.attempts, best as usize, least, "beta"))
}

/// Weights in proportion to a symmetric Dirichlet draw, the greatest of them 1.
pub(super) fn dirichlet_weights(rng: &mut Stream, alpha: f64, n: usize) -> Vec<f64> {
    let logs: Vec<f64> = (0..n).map(|_| ln_gamma_draw(rng, alpha)).collect();
    let most = logs.iter().copied().fold(f64::MIN, f64::max);
    logs.iter().map(|log| exp(log - most)).collect()
}
