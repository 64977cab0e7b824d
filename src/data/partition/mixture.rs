//! The rule `mixture`: every client has its own mixture of classes, and its samples are drawn one by one from that.
//!
//! FedLab (and before it FedDyn's code) draws a client and a class of its mixture until all clients are full, and draws the class
//! again while there is nothing left of it: for ever, when a client's mixture is used up. Its indices are positions in a permuted copy
//! of the labels, so that in fact classes and mixtures have nothing to do with each other; that is kept, as numbers should compare.
//! The clean procedure draws among the classes that are left.

use super::super::params::Params;
use super::numpy::Legacy;
use super::portable::{exp, gauss, ln_gamma_draw};
use super::quantity::dirichlet_weights;
use super::request::Request;
use super::{Drawn, Flags, deal};
use crate::base::random::{Purpose, Stream, shuffle, stream, unit};
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type, When};

const SIZES: &[(&str, &str)] = &[
    ("equal", "all alike; `fedlab` leaves out what does not divide"),
    ("lognormal", "log-normal with the spread `size_sigma`"),
    ("dirichlet", "proportional to a symmetric Dirichlet draw with the parameter `size_alpha`"),
];
/// FedLab's least size with sizes of a Dirichlet draw.
const LEAST: f64 = 10.0;

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with("alpha", Type::positive(), 0.3, "Concentration of the mixtures: the smaller, the fewer classes a client has. Above 0.")
            .from("dir_alpha", "FedLab's examples"),
        Field::with("sizes", Type::Choice(SIZES), "equal", "How many samples the clients get."),
        Field::with("size_sigma", Type::positive(), 0.3, "`sizes: lognormal` only: the standard deviation of the logarithm of the sizes.")
            .from("unbalance_sgm", "FedLab's examples")
            .read_with("sizes", When::Is(&["lognormal"])),
        Field::with("size_alpha", Type::positive(), 1.0, "`sizes: dirichlet` only: the concentration of the sizes.")
            .read_with("sizes", When::Is(&["dirichlet"])),
        Field::with(
            "corrected",
            Type::Bool,
            false,
            "`fedlab` only: give out the samples of the classes that were drawn, instead of those at the same places of the data set.",
        )
        .read_with("variant", When::Is(&["fedlab"])),
    ]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let alpha = params.number("alpha", 0.0, None)?.unwrap_or(0.3);
    let sizes = Sizes {
        kind: params.choice("sizes", SIZES)?.unwrap_or_default(),
        sigma: params.number("size_sigma", 0.0, None)?.unwrap_or(0.3),
        alpha: params.number("size_alpha", 0.0, None)?.unwrap_or(1.0),
    };
    let clients = match rng {
        Some(rng) => fedlab(request, alpha, &sizes, params.flag("corrected", false)?, rng)?,
        None => clean(request, alpha, &sizes),
    };
    request.enough(&clients, false)?;
    let left_out = request.labels.len() - clients.iter().map(Vec::len).sum::<usize>();
    Ok(Drawn::whole(clients, Flags { attempts: 1, left_out: left_out as u64, ..Flags::default() }))
}

struct Sizes {
    kind: usize,
    sigma: f64,
    alpha: f64,
}

impl Sizes {
    fn fedlab(&self, request: &Request<'_>, rng: &mut Legacy) -> Outcome<Vec<usize>> {
        let (n, total) = (request.clients, request.labels.len());
        let mean = total / n;
        match self.kind {
            1 => {
                let draws: Vec<f64> = (0..n).map(|_| rng.lognormal((mean as f64).ln(), self.sigma)).collect();
                let sum = super::numpy::sum(&draws);
                let mut sizes: Vec<i64> = draws.iter().map(|draw| (draw / sum * total as f64) as i64).collect();
                let excess = sizes.iter().sum::<i64>() - total as i64;
                if let Some(size) = sizes.iter_mut().find(|size| **size > excess) {
                    *size -= excess;
                }
                Ok(sizes.into_iter().map(|size| size.max(0) as usize).collect())
            }
            2 => {
                let mut best = 0.0_f64;
                for _ in 0..request.attempts {
                    request.stop.go_on()?;
                    let mut p = rng.dirichlet(self.alpha, n);
                    let sum = super::numpy::sum(&p);
                    p.iter_mut().for_each(|p| *p = *p / sum * total as f64);
                    if p.iter().all(|p| *p >= LEAST) {
                        return Ok(p.into_iter().map(|p| p as usize).collect());
                    }
                    best = best.max(p.iter().copied().fold(f64::INFINITY, f64::min));
                }
                Err(request.exhausted(request.attempts, best as usize, LEAST as usize, "size_alpha"))
            }
            _ => Ok(vec![mean; n]),
        }
    }
    fn clean(&self, request: &Request<'_>, rng: &mut Stream) -> Vec<usize> {
        let n = request.clients;
        let weights = match self.kind {
            1 => (0..n).map(|_| exp((self.sigma * gauss(rng)).clamp(-700.0, 700.0))).collect(),
            2 => dirichlet_weights(rng, self.alpha, n),
            _ => vec![1.0; n],
        };
        deal::apportion(request.labels.len(), &weights, request.least.unwrap_or(1))
    }
}

fn fedlab(request: &Request<'_>, alpha: f64, sizes: &Sizes, corrected: bool, rng: &mut Legacy) -> Outcome<Vec<Vec<u32>>> {
    let (n, classes) = (request.clients, request.classes());
    let mut sizes = sizes.fedlab(request, rng)?;
    let order = rng.permutation(request.labels.len() as u32);
    let mut priors: Vec<Vec<f64>> = (0..n).map(|_| rng.dirichlet(alpha, classes)).collect();
    for prior in &mut priors {
        let mut running = 0.0;
        prior.iter_mut().for_each(|p| {
            running += *p;
            *p = running;
        });
    }
    // Places in the permuted labels, each class ascending; they are given out from the end.
    let mut left = vec![Vec::new(); classes];
    for (place, &sample) in order.iter().enumerate() {
        left[request.labels[sample as usize] as usize].push(place as u32);
    }
    let mut clients: Vec<Vec<u32>> = sizes.iter().map(|&size| vec![0; size]).collect();
    let mut open: usize = sizes.iter().sum();
    // The reference needs a few draws a sample; a class that is used up takes many, and one that never ends takes all.
    let mut draws = 2_000 * request.labels.len() as u64 + 1_000_000;
    while open > 0 {
        let client = rng.up_to(n as u32 - 1) as usize;
        if sizes[client] == 0 {
            continue;
        }
        sizes[client] -= 1;
        open -= 1;
        loop {
            draws -= 1;
            if draws == 0 {
                return Err(Fault::stage(
                    "infeasible: the mixtures of some clients seem used up before the clients are full; the reference would go on, maybe without end",
                )
                .at("partition `mixture`")
                .help(request.help(&["a greater `alpha`", "`variant: clean`, which then draws from the other classes"])));
            }
            let u = rng.double();
            let class = priors[client].iter().position(|p| u <= *p).unwrap_or(0);
            if let Some(place) = left[class].pop() {
                clients[client][sizes[client]] = if corrected { order[place as usize] } else { place };
                break;
            }
        }
    }
    Ok(clients)
}

fn clean(request: &Request<'_>, alpha: f64, sizes: &Sizes) -> Vec<Vec<u32>> {
    let mut rng = stream(request.seed, Purpose::Partition, 0, 0, 0);
    let sizes = sizes.clean(request, &mut rng);
    let mut left = request.by_class.clone();
    left.iter_mut().for_each(|own| shuffle(&mut rng, own));
    let logs: Vec<Vec<f64>> = (0..request.clients).map(|_| left.iter().map(|_| ln_gamma_draw(&mut rng, alpha)).collect()).collect();
    // In a random order, so that what runs out early runs out for everybody.
    let mut turns: Vec<u32> = sizes.iter().enumerate().flat_map(|(client, &size)| std::iter::repeat_n(client as u32, size)).collect();
    shuffle(&mut rng, &mut turns);
    let mut clients: Vec<Vec<u32>> = sizes.iter().map(|&size| Vec::with_capacity(size)).collect();
    // The weights of a client change only when a class runs out.
    let mut weights: Vec<Vec<f64>> = vec![Vec::new(); request.clients];
    for client in turns {
        let client = client as usize;
        if weights[client].is_empty() {
            let most = (0..left.len()).filter(|&class| !left[class].is_empty()).map(|class| logs[client][class]).fold(f64::MIN, f64::max);
            let weight = |(own, log): (&Vec<u32>, &f64)| if own.is_empty() { 0.0 } else { exp(log - most) };
            weights[client] = left.iter().zip(&logs[client]).map(weight).collect();
        }
        let mut at = unit(&mut rng) * weights[client].iter().sum::<f64>();
        let drawn = weights[client].iter().position(|weight| {
            at -= weight;
            at < 0.0
        });
        let open = |class: &usize| !left[*class].is_empty();
        // Only rounding can lead past the last one.
        let Some(class) = drawn.filter(open).or_else(|| (0..left.len()).rev().find(open)) else { break };
        clients[client].extend(left[class].pop());
        if left[class].is_empty() {
            weights.iter_mut().for_each(Vec::clear);
        }
    }
    clients
}
