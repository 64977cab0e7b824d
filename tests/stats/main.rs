//! Every statistic against SciPy's values: `reference.json`, made by `make_reference.py` beside it.

use pflpipe::results::stats::{self, Friedman, Summary, Test, components, distributions, holm, paired, tost};
use serde_json::Value;

fn reference() -> Value {
    serde_json::from_str(include_str!("reference.json")).expect("valid JSON")
}

fn list(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
}

fn each<'a>(reference: &'a Value, name: &str) -> &'a Vec<Value> {
    reference[name].as_array().expect("a list")
}

#[track_caller]
fn near(ours: f64, theirs: &Value, within: f64) {
    let theirs = theirs.as_f64().expect("a number");
    assert!((ours - theirs).abs() <= within * theirs.abs().max(1e-3), "{ours} is not {theirs}");
}

#[test]
fn tails_and_quantiles() {
    let all = reference();
    let tails = &all["tails"];
    for case in each(tails, "t").iter().map(list) {
        near(distributions::t_sf(case[0], case[1]), &case[2].into(), 1e-9);
    }
    for case in each(tails, "t_quantile").iter().map(list) {
        near(distributions::t_quantile(case[0], case[1]), &case[2].into(), 1e-9);
    }
    for case in each(tails, "f").iter().map(list) {
        near(distributions::f_sf(case[0], case[1], case[2]), &case[3].into(), 1e-9);
    }
    for case in each(tails, "chi2").iter().map(list) {
        near(distributions::chi2_sf(case[0], case[1]), &case[2].into(), 1e-9);
    }
    for case in each(tails, "range").iter().map(list) {
        near(distributions::range_sf(case[0], case[1] as usize), &case[2].into(), 1e-6);
    }
    for case in each(tails, "range_quantile").iter().map(list) {
        near(distributions::range_quantile(case[0], case[1] as usize), &case[2].into(), 1e-6);
    }
}

#[test]
fn paired_tests_and_effect_sizes() {
    for case in each(&reference(), "pairs") {
        let pairs: Vec<(f64, f64)> = list(&case["a"]).into_iter().zip(list(&case["b"])).collect();
        for (name, test, _) in Test::ALL {
            let tested = test.run(&pairs).unwrap_or_else(|| panic!("{name} gives a value"));
            near(tested.statistic, &case[name][0], 1e-8);
            near(tested.p, &case[name][1], 1e-8);
        }
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
        near(paired::cohen_dz(&differences).expect("a spread"), &case["dz"], 1e-8);
    }
    for case in each(&reference(), "tied") {
        let tested = paired::wilcoxon(&list(&case["d"])).expect("not all zero");
        near(tested.statistic, &case["wilcoxon"][0], 1e-12);
        near(tested.p, &case["wilcoxon"][1], 1e-12);
    }
}

#[test]
fn equal_samples_have_no_test() {
    let same = [(0.5, 0.5), (0.6, 0.6), (0.7, 0.7)];
    assert!(Test::ALL.iter().filter(|(_, test, _)| *test != Test::Welch).all(|(_, test, _)| test.run(&same).is_none()));
    assert_eq!(paired::t_test(&[0.1, 0.1, 0.1]), None, "no spread, no t");
    assert_eq!(paired::rank_biserial(&[1.0, 2.0, 3.0]), Some(1.0));
    assert_eq!(paired::rank_biserial(&[1.0, -2.0, 3.0]), Some((1.0 - 2.0 + 3.0) / 6.0));
    assert_eq!(paired::rank_biserial(&[0.0]), None);
}

#[test]
fn three_seeds_never_reach_five_percent() {
    assert_eq!(paired::wilcoxon(&[0.1, 0.2, 0.3]).map(|t| t.p), Some(0.25));
    assert_eq!(paired::least_p(Test::Wilcoxon, 3), Some(0.25));
    assert_eq!(paired::least_pairs(Test::Wilcoxon, 0.05), 6);
    assert_eq!(paired::least_pairs(Test::PairedT, 0.05), 2);
}

#[test]
fn holm_steps_down() {
    let all = reference();
    let adjusted = holm(&list(&all["holm"]["p"]));
    for (ours, theirs) in adjusted.iter().zip(each(&all["holm"], "adjusted")) {
        near(*ours, theirs, 1e-12);
    }
    assert_eq!(holm(&[]), Vec::<f64>::new());
}

#[test]
fn friedman_and_nemenyi() {
    for case in each(&reference(), "friedman") {
        let blocks: Vec<Vec<f64>> = each(case, "blocks").iter().map(list).collect();
        let friedman = Friedman::of(&blocks, 0.05).expect("a test");
        near(friedman.chi2, &case["chi2"], 1e-9);
        near(friedman.p, &case["p"], 1e-8);
        near(friedman.f.expect("no perfect order"), &case["f"], 1e-8);
        near(friedman.p_f, &case["p_f"], 1e-7);
        near(friedman.critical, &case["critical"], 1e-6);
        near(friedman.pair(0, blocks[0].len() - 1), &case["pair"], 1e-6);
        for (ours, theirs) in friedman.mean_ranks.iter().zip(each(case, "ranks")) {
            near(*ours, theirs, 1e-12);
        }
    }
    let perfect: Vec<Vec<f64>> = (0..4).map(|_| vec![3.0, 2.0, 1.0]).collect();
    let friedman = Friedman::of(&perfect, 0.05).expect("a test");
    assert_eq!((friedman.f, friedman.p_f, friedman.mean_ranks.clone()), (None, 0.0, vec![1.0, 2.0, 3.0]));
    assert_eq!(friedman.groups(), [0..2, 1..3], "one rank apart is less than the critical difference of 1.66");
    assert_eq!(Friedman::of(&[vec![1.0, 1.0], vec![2.0, 2.0]], 0.05), None);
}

#[test]
fn intervals_and_medians() {
    for case in each(&reference(), "intervals") {
        let summary = Summary::of(&list(&case["x"])).expect("values");
        near(summary.median, &case["median"], 1e-12);
        near(summary.sd.expect("two values"), &case["sd"], 1e-9);
        let (low, high) = summary.interval(0.95).expect("two values");
        near(low, &case["interval"][0], 1e-8);
        near(high, &case["interval"][1], 1e-8);
    }
    assert_eq!(Summary::of(&[1.0]).expect("a value").interval(0.95), None);
}

#[test]
fn equivalence() {
    for case in each(&reference(), "tost") {
        let ours = Summary::of(&list(&case["x"])).expect("values");
        let mean = case["other"][0].as_f64().expect("a number");
        let n = case["other"][2].as_u64().expect("a count") as usize;
        let other = Summary { n, mean, sd: case["other"][1].as_f64(), median: mean, min: mean, max: mean };
        let found = tost(&ours, &other, case["margin"].as_f64().expect("a number")).expect("a spread");
        near(found.p, &case["p"], 1e-8);
        near(found.p_difference, &case["p_difference"], 1e-8);
    }
}

#[test]
fn variance_components() {
    let all = reference();
    let mut values = Vec::new();
    for (a, plane) in each(&all["components"], "y").iter().enumerate() {
        for (b, row) in plane.as_array().expect("a list").iter().enumerate() {
            values.extend(list(row).into_iter().enumerate().map(|(c, y)| (vec![a.to_string(), b.to_string(), c.to_string()], y)));
        }
    }
    let factors = ["partition", "init", "batch"].map(str::to_owned);
    let found = components(&factors, &values).expect("complete");
    for (component, theirs) in found.iter().zip(each(&all["components"], "variances")) {
        near(component.variance, theirs, 1e-9);
    }
    assert!((found.iter().map(|c| c.share).sum::<f64>() - 1.0).abs() < 1e-12);
    assert_eq!(components(&factors, &values[1..]), None, "an incomplete crossing");
    assert_eq!(stats::components(&[], &[]), None);
}

/// The published Table 2 of PFLlib, analysed anew: 20 methods in 8 settings.
#[test]
fn the_published_table_separates_few_methods() {
    use pflpipe::results::published::builtin;
    let all = builtin("pfllib-table2").expect("it is built in");
    let mut methods: Vec<&str> = Vec::new();
    let mut settings: Vec<(&str, &str, &str)> = Vec::new();
    for line in &all {
        let setting = (line.dataset.as_str(), line.model.as_str(), line.scenario.as_str());
        if !methods.contains(&line.algorithm.as_str()) {
            methods.push(&line.algorithm);
        }
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    let value = |setting: &(&str, &str, &str), method: &&str| {
        let line = all.iter().find(|l| (l.dataset.as_str(), l.model.as_str(), l.scenario.as_str()) == *setting && l.algorithm == *method);
        line.expect("a complete table").mean
    };
    let blocks: Vec<Vec<f64>> = settings.iter().map(|setting| methods.iter().map(|method| value(setting, method)).collect()).collect();
    let friedman = Friedman::of(&blocks, 0.05).expect("a test");
    // SciPy: chi2 127.96 with its correction for ties (127.9 without), so F 37.3; critical difference 10.48 by Demsar's formula.
    assert_eq!((format!("{:.1}", friedman.chi2), format!("{:.1}", friedman.f.expect("no perfect order"))), ("128.0".into(), "37.3".into()));
    assert_eq!(format!("{:.2}", friedman.critical), "10.48");
    let order = friedman.order();
    assert_eq!((methods[order[0]], friedman.mean_ranks[order[0]]), ("GPFL", 1.75));
    assert_eq!(methods[order[19]], "FedGen");
    let best = friedman.mean_ranks[order[0]];
    let alike = friedman.mean_ranks.iter().filter(|rank| **rank - best <= friedman.critical).count();
    assert_eq!(alike, 12, "twelve of twenty methods are not separable from the best");
}
