//! The rule `regions`: ProFed's, where regions differ in their labels and the devices of one region are alike.
//!
//! ProFed splits the data into training and validation samples first and partitions each of them by the same rule. Its matrix gives
//! every region a share of each class by drawing from all of its samples, so that a sample may belong to several regions, and its
//! Dirichlet rule shuffles both parts with one seed but different lengths, so that the two mixtures of a region differ. The clean
//! procedure shares out every class once and splits each device's samples afterwards.

use super::super::params::Params;
use super::numpy::Legacy;
use super::python::Python;
use super::request::Request;
use super::rules::MOST_ATTEMPTS;
use super::{Drawn, Flags, Procedure, deal, dirichlet};
use crate::base::random::{Purpose, shuffle, stream};
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Bound, Field, Type, When};
use crate::spec::rules::Breach;
use serde_json::{Map, Value};

const SKEWS: &[(&str, &str)] = &[
    ("iid", "every region has the labels of the whole"),
    ("hard", "every region has labels of its own, consecutive ones"),
    ("dirichlet", "each class is shared out among the regions by Dirichlet proportions"),
    ("matrix", "by `shares` or `label_shares`"),
];
/// The least samples of a region in ProFed's Dirichlet rule.
const LEAST: usize = 10;

pub(super) fn fields() -> Vec<Field> {
    let share = || Type::List(Box::new(Type::List(Box::new(Type::Float { min: Bound::Incl(0.0), max: Bound::None }))));
    vec![
        Field::with("regions", Type::at_least(1), 3, "The number of regions; the clients are dealt to them evenly, in order.")
            .from("", "ProFed"),
        Field::with("skew", Type::Choice(SKEWS), "hard", "How the regions differ.").from("", "ProFed"),
        Field::with("alpha", Type::positive(), 0.5, "`skew: dirichlet` only: the concentration. Above 0.")
            .from("alpha", "ProFed")
            .read_with("skew", When::Is(&["dirichlet"])),
        Field::optional(
            "shares",
            share(),
            "`skew: matrix`: for each region a list of the share of each class in it. `profed` takes so much of the region's samples; \
             `clean` shares out each class in these proportions.",
        )
        .read_with("skew", When::Is(&["matrix"])),
        Field::optional(
            "label_shares",
            share(),
            "`skew: matrix`, `clean` only: for each class a list of the share of it that each region gets; at most 1 together.",
        )
        .read_with("skew", When::Is(&["matrix"])),
        Field::optional(
            "max_attempts",
            Type::Int { min: 1, max: MOST_ATTEMPTS as i64 },
            "`skew: dirichlet` only: the most draws until every region has 10 samples; when absent, as many as take about half a second.",
        )
        .read_with("skew", When::Is(&["dirichlet"])),
    ]
}

/// What the regions are made by.
enum Skew {
    /// For each region the share of each class in it.
    Regions(Vec<Vec<f64>>),
    /// For each class the share of each region in it.
    Labels(Vec<Vec<f64>>),
    Dirichlet(f64),
}

/// What is wrong with the regions, as far as it can be seen without the data set; `classes` where they are known.
pub(super) fn rules(params: &Map<String, Value>, classes: Option<usize>) -> Vec<Breach> {
    let whole = |name: &str| params.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let word = |name: &str| params.get(name).and_then(Value::as_str);
    let regions = whole("regions").unwrap_or(3);
    let skew = word("skew").unwrap_or("hard");
    let breach = |path: &str, what: String, help: &str| vec![Breach::new(path, Fault::stage(what).help(help))];
    if let Some(clients) = whole("clients").filter(|clients| *clients < regions) {
        let what = format!("{} cannot be in {regions} regions", text::count(clients, "client"));
        return breach("regions", what, "choose at least as many clients as regions");
    }
    if let Some(classes) = classes.filter(|classes| skew == "hard" && regions > *classes) {
        let what = format!("`regions` is {regions}, but there are only {classes} classes to tell them apart");
        return breach("regions", what, "choose fewer regions, or `skew: dirichlet`");
    }
    if skew != "matrix" {
        return Vec::new();
    }
    let given = |name: &str| params.get(name).filter(|value| !value.is_null());
    let (name, rows, columns) = match (given("shares"), given("label_shares")) {
        (Some(_), None) => ("shares", Some(regions), classes),
        (None, Some(_)) => ("label_shares", classes, Some(regions)),
        (None, None) => return breach("skew", "`skew: matrix` needs either `shares` or `label_shares`".into(), "give one of them"),
        (Some(_), Some(_)) => {
            return breach(
                "label_shares",
                "`skew: matrix` needs either `shares` or `label_shares`, not both".into(),
                "leave one of them out",
            );
        }
    };
    let profed = word("variant") == Some(Procedure::Profed.describe().0);
    if name == "label_shares" && profed {
        return breach(name, "`label_shares` is not possible with `variant: profed`".into(), "use `shares`, or `variant: clean`");
    }
    matrix(name, given(name).unwrap_or(&Value::Null), rows, columns, profed)
}

/// What is wrong with a matrix of shares of so many rows and columns, where that is known.
fn matrix(name: &str, value: &Value, height: Option<usize>, width: Option<usize>, profed: bool) -> Vec<Breach> {
    let one = |path: String, fault: Fault| vec![Breach::new(path, fault)];
    let number = |value: &Value| value.as_f64().filter(|x| x.is_finite() && *x >= 0.0);
    let row = |value: &Value| value.as_array()?.iter().map(number).collect::<Option<Vec<f64>>>();
    let rows = value.as_array().and_then(|rows| rows.iter().map(row).collect::<Option<Vec<_>>>());
    let (of_row, of_column) = if name == "shares" { ("region", "class") } else { ("class", "region") };
    let form = format!("`{name}` is a list for each {of_row} of the share of each {of_column}");
    let Some(rows) = rows else {
        return one(name.into(), Fault::stage(format!("`{name}` must be lists of numbers of at least 0")).help(form));
    };
    if let Some(height) = height.filter(|height| *height != rows.len()) {
        let what = format!("`{name}` has {}, but must have {height}, one for each {of_row}", text::count(rows.len(), "list"));
        return one(name.into(), Fault::stage(what).help(form));
    }
    let width = width.or(rows.first().map(Vec::len)).unwrap_or_default();
    if let Some((at, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != width || row.is_empty()) {
        let found = text::count(row.len(), "number");
        let what = format!("`{name}` of {of_row} {at} has {found}, but must have {}, one for each {of_column}", width.max(1));
        return one(format!("{name}.{at}"), Fault::stage(what).help(form));
    }
    let nothing = |region: usize| match of_row {
        "region" => rows[region].iter().all(|share| *share <= 0.0),
        _ => rows.iter().all(|row| row[region] <= 0.0),
    };
    if let Some(region) = (0..if of_row == "region" { rows.len() } else { width }).find(|region| nothing(*region)) {
        let path = if of_row == "region" { format!("{name}.{region}") } else { name.to_owned() };
        let fault = Fault::stage(format!("region {region} gets no sample: all its shares are 0"));
        return one(path, fault.help("give each region a share of some class, or choose fewer `regions`"));
    }
    let whole = name == "label_shares" || profed;
    let above = |row: &[f64]| row.iter().sum::<f64>() > 1.0 + 1e-9;
    match rows.iter().enumerate().find(|(_, row)| whole && above(row)) {
        Some((at, row)) => {
            let what = format!("`{name}` of {of_row} {at} sum to {}, but must not be above 1", row.iter().sum::<f64>());
            one(format!("{name}.{at}"), Fault::stage(what).help("lower them, so that together they are at most 1"))
        }
        None => Vec::new(),
    }
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, rng: Option<&mut Legacy>) -> Outcome<Drawn> {
    let classes = request.classes();
    if let Some(breach) = rules(params.map(), Some(classes)).into_iter().next() {
        return Err(breach.fault);
    }
    let regions = params.count("regions", 1)?.unwrap_or(3);
    let skew = match params.choice("skew", SKEWS)?.unwrap_or(1) {
        0 => Skew::Regions(vec![vec![1.0 / classes as f64; classes]; regions]),
        1 => {
            let mut rows = vec![vec![0.0; classes]; regions];
            let mut first = 0;
            for (row, size) in rows.iter_mut().zip(deal::even(classes, regions)) {
                row[first..first + size].fill(1.0 / size as f64);
                first += size;
            }
            Skew::Regions(rows)
        }
        2 => Skew::Dirichlet(params.number("alpha", 0.0, None)?.unwrap_or(0.5)),
        _ => match params.matrix("shares", regions, classes)? {
            Some(rows) => Skew::Regions(rows),
            None => Skew::Labels(params.required("label_shares", params.matrix("label_shares", classes, regions)?)?),
        },
    };
    let devices = deal::even(request.clients, regions);
    match rng {
        Some(rng) => profed(request, &skew, &devices, rng),
        None => clean(request, &skew, &devices),
    }
}

fn clean(request: &Request<'_>, skew: &Skew, devices: &[usize]) -> Outcome<Drawn> {
    let mut flags = Flags { attempts: 1, ..Flags::default() };
    let mut regions: Vec<Vec<u32>> = vec![Vec::new(); devices.len()];
    if let Skew::Dirichlet(alpha) = skew {
        let everyone: Vec<usize> = (0..regions.len()).collect();
        let least = LEAST.min(request.labels.len() / regions.len());
        let drawn = dirichlet::clean(&request.of_clients(regions.len()), *alpha, &vec![&everyone[..]; request.classes()], least, true)?;
        (regions, flags) = (drawn.clients, drawn.flags);
    } else {
        for (class, own) in request.by_class.iter().enumerate() {
            let mut rng = stream(request.seed, Purpose::Partition, class as u64 + 1, 0, 0);
            let mut own = own.clone();
            shuffle(&mut rng, &mut own);
            let (weights, total): (Vec<f64>, usize) = match skew {
                Skew::Labels(rows) => {
                    let sum: f64 = rows[class].iter().sum();
                    (rows[class].clone(), ((sum * own.len() as f64).round() as usize).min(own.len()))
                }
                Skew::Regions(rows) => {
                    let weights: Vec<f64> = rows.iter().map(|row| row[class]).collect();
                    let wanted = weights.iter().any(|&weight| weight > 0.0);
                    (weights, if wanted { own.len() } else { 0 })
                }
                Skew::Dirichlet(_) => (Vec::new(), 0),
            };
            flags.left_out += (own.len() - total) as u64;
            if total > 0 {
                for (piece, region) in deal::cut(&own, &deal::apportion(total, &weights, 0)).into_iter().zip(&mut regions) {
                    region.extend(piece);
                }
            }
        }
    }
    let mut clients = Vec::with_capacity(request.clients);
    for (id, (own, &devices)) in regions.iter().zip(devices).enumerate() {
        let mut by_class = vec![Vec::new(); request.classes()];
        own.iter().for_each(|&sample| by_class[request.labels[sample as usize] as usize].push(sample));
        by_class.iter_mut().for_each(|own| shuffle(&mut stream(request.seed, Purpose::Partition, 0, id as u64, 1), own));
        clients.extend(deal::cut(&deal::interleave(&by_class), &deal::even(own.len(), devices)));
    }
    Ok(Drawn::whole(clients, flags))
}

fn profed(request: &Request<'_>, skew: &Skew, devices: &[usize], rng: &mut Legacy) -> Outcome<Drawn> {
    let total = request.labels.len();
    let order = rng.permutation(total as u32);
    let (train, validation) = order.split_at((total as f64 * request.ratio) as usize);
    let mut python = Python::new(request.seed);
    let seed = request.seed as u32;
    let mut attempts = 0;
    let mut sides = Vec::new();
    for part in [train, validation] {
        let mut by_class = vec![Vec::new(); request.classes()];
        part.iter().for_each(|&sample| by_class[request.labels[sample as usize] as usize].push(sample));
        sides.push(match skew {
            Skew::Regions(rows) => {
                attempts = 1;
                let budget = (part.len() / rows.len()) as f64;
                let take = |(own, share): (&Vec<u32>, &f64)| python.sample(own, ((share * budget).floor() as usize).min(own.len()));
                let mut take = take;
                rows.iter().map(|row| by_class.iter().zip(row).flat_map(&mut take).collect()).collect()
            }
            Skew::Dirichlet(alpha) => {
                let (regions, draws) = by_proportions(request, by_class, *alpha, devices.len(), part.len(), seed)?;
                attempts = attempts.max(draws);
                regions
            }
            // Refused by the rules.
            Skew::Labels(_) => vec![Vec::new(); devices.len()],
        });
    }
    // The environment seeds numpy again before it deals to the devices.
    let mut rng = Legacy::new(seed);
    let (mut clients, mut tests): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
    for (region, &devices) in devices.iter().enumerate() {
        for (side, out) in sides.iter_mut().zip([&mut clients, &mut tests]) {
            let own: &mut Vec<u32> = &mut side[region];
            rng.shuffle(own);
            out.extend(deal::cut(own, &deal::even(own.len(), devices)));
        }
    }
    let mut held = vec![0_u64; total];
    clients.iter().chain(&tests).flatten().for_each(|&sample| held[sample as usize] += 1);
    let left_out = held.iter().filter(|&&times| times == 0).count() as u64;
    let overlaps = held.iter().map(|times| times.saturating_sub(1)).sum();
    Ok(Drawn::split(clients, tests, Flags { attempts, left_out, overlaps, ..Flags::default() }))
}

/// The reference's Dirichlet loop, whose retries shuffle the classes as they were left.
fn by_proportions(
    request: &Request<'_>,
    mut by_class: Vec<Vec<u32>>,
    alpha: f64,
    n: usize,
    total: usize,
    seed: u32,
) -> Outcome<(Vec<Vec<u32>>, u32)> {
    let mut rng = Legacy::new(seed);
    let mean = total as f64 / n as f64;
    let mut best = 0;
    for attempt in 1..=request.attempts {
        request.stop.go_on()?;
        let mut regions: Vec<Vec<u32>> = vec![Vec::new(); n];
        for own in &mut by_class {
            rng.shuffle(own);
            let mut p = rng.dirichlet(alpha, n);
            p.iter_mut().zip(&regions).for_each(|(p, region)| *p *= f64::from(u8::from((region.len() as f64) < mean)));
            let sum = super::numpy::sum(&p);
            let (mut running, mut from) = (0.0, 0);
            for (p, region) in p.iter().zip(&mut regions).take(n - 1) {
                running += p / sum;
                let cut = ((running * own.len() as f64) as usize).clamp(from, own.len());
                region.extend(&own[from..cut]);
                from = cut;
            }
            regions[n - 1].extend(&own[from..]);
        }
        let smallest = regions.iter().map(Vec::len).min().unwrap_or_default();
        if smallest >= LEAST {
            regions.iter_mut().for_each(|own| rng.shuffle(own));
            return Ok((regions, attempt));
        }
        best = best.max(smallest);
    }
    Err(request.exhausted(request.attempts, best, LEAST, "alpha"))
}
