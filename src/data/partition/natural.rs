//! The rule `natural`: the data set's own groups are the clients.
//!
//! PFLlib does so for HAR, PAMAP2, FEMNIST, Shakespeare, Omniglot, iWildCam, Camelyon17 and the sets of several domains. The groups
//! come from the loader; here they are chosen, put together and ordered.

use super::super::params::Params;
use super::numpy::Legacy;
use super::request::Request;
use super::{Drawn, Flags, deal, known};
use crate::base::random::{Purpose, shuffle, stream};
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Field, Type, When};

const FEWER: &[(&str, &str)] = &[
    ("largest", "the groups with the most samples, as PFLlib takes the 100 largest writers of FEMNIST; of equal ones the first"),
    ("merge", "groups are put together at random, each client the same number of them or one more, as NIID-Bench does with writers"),
];
const ORDERS: &[(&str, &str)] = &[
    ("group", "as the data set has the groups"),
    ("smallest-first", "by the number of original training samples, as PFLlib orders the speakers of Shakespeare"),
    ("largest-first", "by the number of samples, the largest first"),
];

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::optional("clients", Type::at_least(1), "The number of clients; one for each group when absent."),
        Field::with("fewer", Type::Choice(FEWER), "largest", "What is done when there are fewer clients than groups.")
            .read_with("clients", When::Given),
        Field::with("order", Type::Choice(ORDERS), "group", "The order of the clients."),
        Field::optional(
            "least_classes",
            Type::at_least(1),
            "Groups with samples of fewer classes are left out; PFLlib's iWildCam wants 3.",
        ),
    ]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, _: Option<&mut Legacy>) -> Outcome<Drawn> {
    let Some((groups, of)) = request.groups else {
        return Err(Fault::stage("the data set does not say who its samples come from, so it has no natural clients")
            .help("choose another `kind`; `pflpipe data info NAME` says what a data set has"));
    };
    let what = groups.what.as_str();
    let mut samples = vec![Vec::new(); groups.names.len()];
    of.iter().enumerate().for_each(|(sample, &group)| samples[group as usize].push(sample as u32));
    let least_classes = params.count("least_classes", 1)?.unwrap_or(1);
    known::so_many_classes(least_classes, request.classes())?;
    let enough = |own: &Vec<u32>| {
        let mut labels: Vec<u32> = own.iter().map(|&sample| request.labels[sample as usize]).collect();
        labels.sort_unstable();
        labels.dedup();
        own.len() >= request.least.unwrap_or(1) && labels.len() >= least_classes
    };
    samples.retain(enough);
    let clients = params.count("clients", 1)?.unwrap_or(samples.len());
    if samples.len() < clients || samples.is_empty() {
        let there = text::count(samples.len(), what);
        // Groups are left out only for these.
        let mut ways = vec!["fewer clients"];
        ways.extend(request.least.map(|_| "a lower `least_samples`"));
        ways.extend((least_classes > 1).then_some("a lower `least_classes`"));
        let enough = match (request.least.is_some(), least_classes > 1) {
            (false, false) => "",
            (true, false) => " with enough samples",
            (false, true) => " with samples of enough classes",
            (true, true) => " with enough samples and classes",
        };
        if samples.is_empty() {
            ways.remove(0);
            return Err(Fault::stage(format!("infeasible: there is no {what}{enough}")).help(request.help(&ways)));
        }
        return Err(Fault::stage(format!(
            "infeasible: {} need as many {}, but there {} {there}{enough}",
            text::count(clients, "client"),
            text::plural(what),
            if samples.len() == 1 { "is" } else { "are" },
        ))
        .help(request.help(&ways)));
    }
    let mut chosen: Vec<Vec<u32>> = if params.choice("fewer", FEWER)? == Some(1) {
        shuffle(&mut stream(request.seed, Purpose::Partition, 0, 0, 0), &mut samples);
        let mut rest = samples.into_iter();
        deal::even(rest.len(), clients).into_iter().map(|count| rest.by_ref().take(count).flatten().collect()).collect()
    } else {
        let mut order: Vec<usize> = (0..samples.len()).collect();
        order.sort_by_key(|&group| std::cmp::Reverse(samples[group].len()));
        order.truncate(clients);
        order.sort_unstable();
        order.into_iter().map(|group| std::mem::take(&mut samples[group])).collect()
    };
    match params.choice("order", ORDERS)? {
        Some(1) => chosen.sort_by_key(|own| own.iter().filter(|&&sample| request.is_training(sample)).count()),
        Some(2) => chosen.sort_by_key(|own| std::cmp::Reverse(own.len())),
        _ => {}
    }
    let left_out = request.labels.len() - chosen.iter().map(Vec::len).sum::<usize>();
    Ok(Drawn::whole(chosen, Flags { attempts: 1, left_out: left_out as u64, ..Flags::default() }))
}
