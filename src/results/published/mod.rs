//! Published results of papers and of other programs, and those that a user brings: numbers with the setup that they belong to.
//!
//! The files beside this one are the tables as transcribed, one line a number, in the columns of [`COLUMNS`]. What a table's lines do not say
//! themselves (rounds, batch size, trials) comes from the papers and stands in [`BUILTIN`]. Nothing here knows how our own results are
//! stored: [`Setup`] is what both sides are described by.

mod csv;
mod setup;

pub use setup::{Partition, Setup, plain};

use crate::base::text::nearest;
use crate::base::{Fault, Outcome};
use crate::fl::history::METRICS;
use serde::Serialize;

/// The columns of a file of published numbers, in this order. `std` may be empty.
pub const COLUMNS: [&str; 9] = ["source", "table", "dataset", "model", "scenario", "algorithm", "metric", "mean", "std"];

/// The unit of a published number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Percent of a fraction: 85.85 is 0.8585.
    Percent,
    /// Minutes: 2 is 120 seconds.
    Minutes,
    /// As it stands.
    Plain,
}

impl Unit {
    fn of(self, number: f64) -> f64 {
        match self {
            Self::Percent => number / 100.0,
            Self::Minutes => number * 60.0,
            Self::Plain => number,
        }
    }
}

/// One published number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Paper, program and version.
    pub source: String,
    /// The table in it.
    pub table: String,
    /// The data set as it is called there.
    pub dataset: String,
    /// The model as it is called there.
    pub model: String,
    /// Partition and number of clients as they are called there.
    pub scenario: String,
    /// The algorithm as it is called there.
    pub algorithm: String,
    /// What was measured, as transcribed.
    pub metric: String,
    /// The number as published.
    pub mean: f64,
    /// The standard deviation over trials as published.
    pub sd: Option<f64>,
    /// The unit of both.
    pub unit: Unit,
    /// The setup in comparable terms.
    pub setup: Setup,
    /// Why the number is to be read with care.
    pub caution: Option<String>,
    /// Its line, where it is from a user's file.
    #[serde(skip)]
    pub line: Option<usize>,
}

impl Published {
    /// The number in the unit of our own measurements: accuracies as fractions, times in seconds.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.unit.of(self.mean)
    }

    /// The standard deviation in the unit of our own measurements.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        self.sd.map(|sd| self.unit.of(sd))
    }

    /// The setting, as `settings` of a comparison name it: data set, model, scenario.
    #[must_use]
    pub fn setting(&self) -> String {
        format!("{}, {}, {}", self.dataset, self.model, self.scenario)
    }

    /// Our metric of the same meaning, where we measure it.
    #[must_use]
    pub fn our_metric(&self) -> Option<&'static str> {
        match self.metric.as_str() {
            "client_acc_std_pct" => Some("test_accuracy_sd"),
            "time_per_iteration_min" => Some("seconds_per_round"),
            "total_time_min" => Some("seconds"),
            "iterations_to_converge" => Some("rounds"),
            name => {
                let bare = ["_pct", "_fraction", "_best", "_last"].iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
                let same = METRICS.iter().find(|metric| **metric == bare).copied();
                same.or_else(|| name.starts_with("test_acc").then_some("test_accuracy"))
            }
        }
    }

    /// Which evaluation it is from, where the transcription says so: `best` or `last`.
    #[must_use]
    pub fn selector(&self) -> Option<&'static str> {
        if ["total_time_min", "iterations_to_converge"].contains(&self.metric.as_str()) {
            return Some("best");
        }
        ["best", "last"].into_iter().find(|word| self.metric.contains(word))
    }
}

/// A published table that is part of the program.
pub struct Builtin {
    /// What `compare:` calls it.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    text: &'static str,
    setup: fn(&Published) -> Setup,
    caution: fn(&Published) -> Option<&'static str>,
}

macro_rules! table {
    ($name:literal, $file:literal, $doc:literal, $setup:expr, $caution:expr) => {
        Builtin { name: $name, doc: $doc, text: include_str!($file), setup: $setup, caution: $caution }
    };
}

/// Every table that is built in.
pub const BUILTIN: [Builtin; 9] = [
    table!("pfllib-table2", "pfllib_table2.csv", "PFLlib's Table 2: 20 methods in 8 settings, best accuracy", pfllib, pfllib_caution),
    table!("pfllib-beta-sweep", "pfllib_beta_sweep.csv", "PFLlib's website: 20 methods over Dirichlet 0.01 to 5", pfllib, beta_caution),
    table!("pfllib-time-cost", "pfllib_time_cost.csv", "PFLlib's website: minutes and iterations of 20 methods", pfllib, time_caution),
    table!("gpfl-table1", "gpfl_table1.csv", "GPFL's Table 1: 11 methods in 8 settings, best accuracy", pfllib, pfllib_caution),
    table!("gpfl-fairness", "gpfl_fairness.csv", "GPFL's fairness table: spread of accuracy over clients", pfllib, fairness_caution),
    table!("fedml-table5", "fedml_table5.csv", "FedML's Table 5 and its reference results", fedml, fedml_caution),
    table!("profed-table2", "profed_table2.csv", "ProFed's Table 2: FedAvg, FedProx, SCAFFOLD over regions", profed, profed_caution),
    table!("niid-bench", "niid_bench_leaderboard.csv", "NIID-Bench's leader board on CIFAR-10", niid, niid_caution),
    table!("flower-niid-bench", "flower_niid_bench.csv", "Flower's reproduction of NIID-Bench, 3 seeds", flower, niid_caution),
];

/// The names that `compare:` may give.
pub const NAMES: [&str; 9] = {
    let mut names = [""; 9];
    let mut i = 0;
    while i < 9 {
        names[i] = BUILTIN[i].name;
        i += 1;
    }
    names
};

/// The numbers of a table that is built in; none for a name that is not.
#[must_use]
pub fn builtin(name: &str) -> Option<Vec<Published>> {
    let table = BUILTIN.iter().find(|table| table.name == name)?;
    let lines = csv::parse(table.text).unwrap_or_default();
    let mut all: Vec<Published> = lines.into_iter().skip(1).filter_map(|(_, fields)| published(&fields).ok()).collect();
    for line in &mut all {
        line.setup = setup::of(line, (table.setup)(line));
        line.caution = (table.caution)(line).map(str::to_owned);
    }
    Some(all)
}

/// The numbers of a user's file, whose first line names the columns of [`COLUMNS`]. `text` is its content, `name` what messages call it.
///
/// # Errors
/// A pipeline fault that names the line: a missing column, a number that is none, a metric that this program does not measure.
pub fn read(name: &str, text: &str) -> Outcome<Vec<Published>> {
    let wrong = |line: usize, what: String| {
        Fault::pipeline(format!("{what} in line {line} of `{name}`")).help(format!("its first line must be `{}`", COLUMNS.join(",")))
    };
    let lines = csv::parse(text).map_err(|line| wrong(line, "a quotation mark is not closed".to_owned()))?;
    let Some(((_, header), rest)) = lines.split_first() else { return Err(wrong(1, "there are no columns".to_owned())) };
    let place = |column: &str| {
        header.iter().position(|name| name.trim() == column).ok_or_else(|| wrong(1, format!("the column `{column}` is missing")))
    };
    let places = COLUMNS.iter().map(|column| place(column)).collect::<Outcome<Vec<usize>>>()?;
    if let Some(column) = COLUMNS.iter().find(|column| header.iter().filter(|name| name.trim() == **column).count() > 1) {
        return Err(wrong(1, format!("the column `{column}` is there twice")));
    }
    if rest.is_empty() {
        return Err(Fault::pipeline(format!("`{name}` has no line below its columns")));
    }
    let mut all = Vec::new();
    for (line, fields) in rest {
        if fields.len() > header.len() {
            return Err(wrong(*line, format!("there are {} fields for {} columns", fields.len(), header.len())));
        }
        let fields: Vec<String> = places.iter().map(|place| fields.get(*place).cloned().unwrap_or_default()).collect();
        let mut found = published(&fields).map_err(|what| wrong(*line, what))?;
        found.setup = setup::of(&found, Setup::default());
        found.line = Some(*line);
        if let Some((what, help)) = misread(&found) {
            return Err(Fault::pipeline(format!("{what} in line {line} of `{name}`")).help(help));
        }
        all.push(found);
    }
    Ok(all)
}

/// What in a line of a user cannot be meant so, and what to write.
fn misread(line: &Published) -> Option<(String, String)> {
    let Some(metric) = line.our_metric() else {
        let bare = line.metric.trim_end_matches("_pct");
        let help = match nearest(bare, METRICS.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                "write a metric of a training, such as `test_accuracy`, or `test_accuracy_pct` where the numbers are in percent".to_owned()
            }
        };
        return Some((format!("`{}` is not a metric", line.metric), help));
    };
    let fraction = ["accuracy", "auc", "attack_success"].iter().any(|word| metric.contains(word));
    (fraction && !(0.0..=1.0).contains(&line.value())).then(|| {
        let help = match line.unit {
            Unit::Percent => "percent are from 0 to 100".to_owned(),
            _ => format!("a fraction is from 0 to 1; in percent the metric is called `{metric}_pct`"),
        };
        (format!("`{}` is {}", line.metric, line.mean), help)
    })
}

fn published(fields: &[String]) -> Result<Published, String> {
    let [source, table, dataset, model, scenario, algorithm, metric, mean, sd] = fields else {
        return Err(format!("{} fields instead of {}", fields.len(), COLUMNS.len()));
    };
    let number =
        |text: &String| text.trim().parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(|| format!("`{text}` is not a number"));
    Ok(Published {
        source: source.clone(),
        table: table.clone(),
        dataset: dataset.clone(),
        model: model.clone(),
        scenario: scenario.clone(),
        algorithm: algorithm.clone(),
        metric: metric.clone(),
        mean: number(mean)?,
        sd: match sd.trim() {
            "" => None,
            _ => Some(number(sd)?)
                .filter(|sd| *sd >= 0.0)
                .map_or_else(|| Err(format!("a deviation of `{sd}` is negative")), |sd| Ok(Some(sd)))?,
        },
        unit: match metric {
            name if name.contains("pct") => Unit::Percent,
            name if name.ends_with("_min") => Unit::Minutes,
            _ => Unit::Plain,
        },
        setup: Setup::default(),
        caution: None,
        line: None,
    })
}

// PFLlib, section "Experimental setup"; GPFL's are the same.
fn pfllib(line: &Published) -> Setup {
    let learning_rate = match line.model.as_str() {
        "ResNet-18" | "fastText" => 0.1,
        "HAR-CNN" => 0.01,
        _ => 0.005,
    };
    Setup {
        rounds: Some(2000),
        batch_size: Some(10),
        local_epochs: Some(1),
        learning_rate: Some(learning_rate),
        join_ratio: Some(1.0),
        optimizer: Some("sgd".to_owned()),
        trials: Some(3),
        ..Setup::default()
    }
}

// FedML's benchmark documents; the paper itself does not say alpha and hyper-parameters.
fn fedml(line: &Published) -> Setup {
    if line.table != "Table 5" {
        return Setup::default();
    }
    Setup {
        rounds: Some(100),
        batch_size: Some(64),
        local_epochs: Some(20),
        learning_rate: Some(0.001),
        join_ratio: Some(1.0),
        optimizer: Some("sgd".to_owned()),
        ..Setup::default()
    }
}

fn profed(_: &Published) -> Setup {
    Setup {
        rounds: Some(30),
        batch_size: Some(32),
        local_epochs: Some(2),
        learning_rate: Some(0.001),
        optimizer: Some("adam".to_owned()),
        trials: Some(5),
        ..Setup::default()
    }
}

fn niid(_: &Published) -> Setup {
    Setup::default()
}

fn flower(_: &Published) -> Setup {
    Setup { trials: Some(3), ..Setup::default() }
}

const ERA: &str = "the numbers of PFLlib's Table 2 and GPFL's Table 1 are the same and stem from code of 2023 (unshuffled batches), which the authors say cannot be reproduced exactly";

fn pfllib_caution(line: &Published) -> Option<&'static str> {
    let tiny = line.dataset == "Tiny-ImageNet" && line.model == "4-layer CNN" && line.scenario.starts_with("dirichlet");
    match line.algorithm.as_str() {
        "FedGen" if tiny => Some("FedGen on Tiny-ImageNet is 19.39 in Table 2 and 19.19 in the beta sweep of the same authors"),
        "APFL" if tiny => Some("APFL on Tiny-ImageNet is 34.86 in Table 2 and 34.87 in the beta sweep of the same authors"),
        _ => Some(ERA),
    }
}

fn beta_caution(line: &Published) -> Option<&'static str> {
    match (line.algorithm.as_str(), line.dataset.as_str()) {
        ("FedAvg", "Cifar100") if line.scenario.contains("beta=0.5") => Some(
            "FedAvg on Cifar100 at beta 0.5 is published as 27.99 between 31.89 and 35.51 of its neighbours, where FedProx has 35.05: probably an error",
        ),
        ("FedGen", "Tiny-ImageNet") if line.scenario.contains("beta=0.1") => {
            Some("FedGen on Tiny-ImageNet is 19.39 in Table 2 and 19.19 in the beta sweep of the same authors")
        }
        ("APFL", "Tiny-ImageNet") if line.scenario.contains("beta=0.1") => {
            Some("APFL on Tiny-ImageNet is 34.86 in Table 2 and 34.87 in the beta sweep of the same authors")
        }
        _ => None,
    }
}

fn time_caution(_: &Published) -> Option<&'static str> {
    Some("times are those of a machine: PFLlib's of its authors' GPU, ours of this CPU and of what else it did meanwhile")
}

fn fairness_caution(line: &Published) -> Option<&'static str> {
    line.metric.contains("derived").then_some("accuracies of GPFL's fairness table are derived as spread over coefficient of variation")
}

fn fedml_caution(line: &Published) -> Option<&'static str> {
    (line.table == "Table 5")
        .then_some("FedML's documents say SGD with lr 0.001, its commands use Adam, and users who follow them report 20 to 50 %")
}

fn profed_caution(_: &Published) -> Option<&'static str> {
    Some("ProFed's Table 2 aggregates over data sets and 3, 6 and 9 regions without saying which")
}

fn niid_caution(line: &Published) -> Option<&'static str> {
    ((line.mean - 10.0).abs() < 0.15).then_some("accuracies of about 10 % on ten classes are those of a training that diverged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_line_is_read() {
        for (table, lines) in BUILTIN.iter().zip([160, 160, 60, 88, 134, 32, 7, 36, 60]) {
            let all = builtin(table.name).expect("it is there");
            assert_eq!(all.len(), lines, "{}", table.name);
            assert!(all.iter().all(|line| !line.source.is_empty() && !line.algorithm.is_empty()), "{}", table.name);
        }
        assert_eq!(NAMES[0], "pfllib-table2");
        assert_eq!(builtin("pfllib"), None);
    }

    #[test]
    fn settings_are_understood() {
        let all = builtin("pfllib-table2").expect("it is there");
        let first = &all[0];
        assert!((first.value() - 0.8041).abs() < 1e-12);
        assert_eq!((first.sd, first.our_metric()), (Some(0.08), Some("test_accuracy")));
        assert_eq!(first.setup.partition, Some(Partition::Pathological(2)));
        assert_eq!((first.setup.clients, first.setup.rounds, first.setup.learning_rate), (Some(20), Some(2000), Some(0.005)));
        assert_eq!(all[3].setup.partition, Some(Partition::Dirichlet(0.1)));
        let leader = builtin("niid-bench").expect("it is there");
        assert_eq!((leader[0].setup.rounds, leader[0].setup.clients), (Some(50), Some(10)));
        let fedml = builtin("fedml-table5").expect("it is there");
        assert_eq!((fedml[0].setup.partition, fedml[1].setup.partition), (Some(Partition::Iid), Some(Partition::Dirichlet(0.5))));
    }

    #[test]
    fn times_are_in_seconds() {
        let times = builtin("pfllib-time-cost").expect("it is there");
        let line = |metric: &str| times.iter().find(|line| line.metric == metric && line.algorithm == "FedAvg").expect("it is there");
        let (each, all, rounds) = (line("time_per_iteration_min"), line("total_time_min"), line("iterations_to_converge"));
        assert!((each.value() - 95.4).abs() < 1e-9 && (each.our_metric(), each.selector()) == (Some("seconds_per_round"), None));
        assert!((all.value() - 21900.0).abs() < 1e-9 && (all.our_metric(), all.selector()) == (Some("seconds"), Some("best")));
        assert_eq!((rounds.value(), rounds.our_metric(), rounds.selector()), (230.0, Some("rounds"), Some("best")));
    }

    #[test]
    fn inconsistent_lines_are_flagged() {
        let beta = builtin("pfllib-beta-sweep").expect("it is there");
        let odd = beta.iter().find(|l| l.mean == 27.99).expect("the odd one");
        assert!(odd.caution.as_ref().is_some_and(|text| text.contains("probably an error")));
        let diverged = builtin("flower-niid-bench").expect("it is there").into_iter().filter(|l| l.caution.is_some()).count();
        assert!(diverged >= 2, "{diverged}");
    }

    #[test]
    fn a_users_file_may_have_its_columns_in_any_order() {
        let text = "algorithm,mean,std,source,table,dataset,model,scenario,metric\n\"Per-FedAvg\",0.5,,me,1,\"a, b\",m,\"dirichlet alpha=0.3, N=5\",test_acc_fraction\n";
        let all = read("mine.csv", text).expect("valid");
        assert_eq!((all[0].dataset.as_str(), all[0].value(), all[0].setup.partition), ("a, b", 0.5, Some(Partition::Dirichlet(0.3))));
        for (text, words) in [
            ("", "there are no columns in line 1"),
            ("source,mean\n", "the column `table` is missing in line 1"),
            (&format!("{}\na,b,c,d,e,f,g,x,\n", COLUMNS.join(",")), "`x` is not a number in line 2"),
            (&format!("{}\n", COLUMNS.join(",")), "`mine.csv` has no line below its columns"),
            (&format!("{},mean\na\n", COLUMNS.join(",")), "the column `mean` is there twice"),
            (&format!("{}\na,b,c,d,e,f,auc,0.5,0.1,9\n", COLUMNS.join(",")), "there are 10 fields for 9 columns in line 2"),
            (&format!("{}\na,b,c,d,e,f,auc,0.5,-1\n", COLUMNS.join(",")), "a deviation of `-1` is negative in line 2"),
            (&format!("{}\n\"a", COLUMNS.join(",")), "a quotation mark is not closed"),
        ] {
            let fault = read("mine.csv", text).expect_err(text);
            assert!(fault.to_string().contains(words), "{fault}");
        }
    }
}
