//! The rule `pathological`: every client has only a few classes.
//!
//! PFLlib goes through the classes in order and gives consecutive slices of each to the first clients that still want classes, so
//! that clients come in blocks with equal label sets; when the numbers do not divide, it leaves classes out. The clean procedure
//! draws the label sets, uses every class and shuffles its samples.

use super::super::params::Params;
use super::numpy::Legacy;
use super::request::Request;
use super::{Drawn, Flags, deal, known};
use crate::base::fault::Placed;
use crate::base::random::{Purpose, shuffle, stream, unit};
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Field, Type};

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with("classes_per_client", Type::at_least(1), 2, "The number of classes of each client.").from("", "PFLlib, 10 classes"),
        Field::with("balance", Type::Bool, false, "Share each class out evenly among its clients; otherwise the shares are random.")
            .from("", "PFLlib"),
    ]
}

/// The parameter `classes_per_client`, at most the number of classes with samples.
pub(super) fn per_client(request: &Request<'_>, params: &Params<'_>, present: usize) -> Outcome<usize> {
    let found = params.count("classes_per_client", 1)?.unwrap_or(2);
    if found > present {
        return Err(Fault::stage(format!("`classes_per_client` is {found}, but the data set has {}", text::count(present, "class")))
            .help(format!("choose 1 to {present}"))
            .at(format!("partition `{}`", request.rule.name)));
    }
    Ok(found)
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let balance = params.flag("balance", false)?;
    match rng {
        Some(rng) => slices(request, per_client(request, params, request.classes())?, balance, rng),
        None => clean(request, params, balance),
    }
}

/// PFLlib's procedure, also behind its `iid`.
pub(super) fn slices(request: &Request<'_>, per_client: usize, balance: bool, rng: &mut Legacy) -> Outcome<Drawn> {
    let least = request.least.unwrap_or(request.reference_least) as f64;
    let (n, c) = (request.clients as f64, request.classes() as f64);
    let most = (n / c * per_client as f64).ceil() as usize;
    let mut quota = vec![per_client; request.clients];
    let mut clients = vec![Vec::new(); request.clients];
    let mut left_out = 0;
    for (class, own) in request.by_class.iter().enumerate() {
        let chosen: Vec<usize> = (0..request.clients).filter(|&client| quota[client] > 0).take(most).collect();
        if chosen.is_empty() {
            left_out += own.len() as u64;
            continue;
        }
        let share = own.len() as f64 / chosen.len() as f64;
        let mut counts = if balance {
            vec![share as usize; chosen.len() - 1]
        } else {
            // numpy's randint cuts the fractions of its bounds off.
            let (low, high) = ((share / 10.0).max(least / c) as usize, share as usize);
            if low >= high {
                return Err(Fault::stage(format!(
                    "infeasible: class {class} has {} for {}: the least random share is {low}, the greatest is below {high}",
                    text::count(own.len(), "sample"),
                    text::count(chosen.len(), "client"),
                ))
                .at(format!("partition `{}`", request.rule.name))
                .help(request.help(&["fewer clients", "`balance: true`", "`variant: clean`"])));
            }
            let range = u32::try_from(high - 1 - low).unwrap_or(u32::MAX);
            (1..chosen.len()).map(|_| low + rng.up_to(range) as usize).collect()
        };
        // Shares are cut off, so the last client takes what is left of the class.
        counts.push(own.len() - counts.iter().sum::<usize>());
        let mut rest = own.as_slice();
        for (&client, &count) in chosen.iter().zip(&counts) {
            let (piece, after) = rest.split_at(count);
            clients[client].extend_from_slice(piece);
            quota[client] -= 1;
            rest = after;
        }
    }
    request.enough(&clients, !balance)?;
    Ok(Drawn::whole(clients, Flags { attempts: 1, left_out, ..Flags::default() }))
}

fn clean(request: &Request<'_>, params: &Params<'_>, balance: bool) -> Outcome<Drawn> {
    let present = request.present();
    let per_client = per_client(request, params, present.len())?;
    let mut rng = stream(request.seed, Purpose::Partition, 0, 0, 0);
    let holders = holders(request, per_client, &present, &mut rng)?;
    let least = request.least.unwrap_or(request.reference_least) as f64;
    let mut clients = vec![Vec::new(); request.clients];
    for (&class, holders) in present.iter().zip(&holders) {
        let mut own = request.by_class[class].clone();
        shuffle(&mut rng, &mut own);
        let share = own.len() as f64 / holders.len() as f64;
        let (weights, floor) = if balance {
            (vec![1.0; holders.len()], share as usize)
        } else {
            // No share is below a tenth of the mean, as in the reference.
            let floor = (share / 10.0).max(least / per_client as f64).min(share) as usize;
            (holders.iter().map(|_| unit(&mut rng)).collect(), floor.max(1))
        };
        for (piece, &client) in deal::cut(&own, &deal::apportion(own.len(), &weights, floor)).iter().zip(holders) {
            clients[client].extend_from_slice(piece);
        }
    }
    request.enough(&clients, !balance)?;
    Ok(Drawn::whole(clients, Flags { attempts: 1, ..Flags::default() }))
}

/// Draws the clients of each class with samples, ascending, so that each class has a client and a sample for each of them.
pub(super) fn holders(
    request: &Request<'_>,
    per_client: usize,
    present: &[usize],
    rng: &mut crate::base::random::Stream,
) -> Outcome<Vec<Vec<usize>>> {
    let place = || format!("partition `{}`", request.rule.name);
    known::covered(request.clients, per_client, present.len()).at(place)?;
    let holders = deal::deal_classes(rng, present.len(), request.clients, per_client);
    let short = present.iter().zip(&holders).find(|&(&class, holders)| request.by_class[class].len() < holders.len());
    match short {
        None => Ok(holders),
        Some((&class, holders)) => Err(Fault::stage(format!(
            "infeasible: class {class} has {} for {}",
            text::count(request.by_class[class].len(), "sample"),
            text::count(holders.len(), "client")
        ))
        .at(place())
        .help(request.help(&["fewer clients", "a lower `classes_per_client`"]))),
    }
}
