//! The attack stage through the program: nothing is trained again, results are the same however they are reached, mistakes are named.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn pflpipe(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_pflpipe"))
            .args(arguments)
            .current_dir(self.path())
            .env("PFLPIPE_CACHE", self.path().join("store"))
            .env_remove("PFLPIPE_DATA")
            .output()
            .expect("the program starts")
    }
    /// Writes a pipeline of one training of `rounds` rounds and of `attacks`, and runs it.
    fn run(&self, algorithm: &str, rounds: u64, attacks: &str, arguments: &[&str]) -> Output {
        let text = format!(
            "name: small
stages:
  data: {{dataset: optdigits}}
  split: {{partition: {{data: data, kind: pathological, clients: 4, classes_per_client: 1, seed: 1}}}}
  net: {{model: {{kind: mlp, data: data, hidden: [12], seed: 1}}}}
  run:
    train: {{algorithm: {algorithm}, partition: split, model: net, rounds: {rounds}, few_shot: 1, batch_size: 1, learning_rate: 0.05, seed: 1}}
{attacks}"
        );
        std::fs::write(self.path().join("small.yaml"), text).expect("a writable folder");
        self.pflpipe(&[&["run", "small.yaml", "--output", "json"], arguments].concat())
    }
    fn tables(&self) -> String {
        let shown = self.pflpipe(&["table", "small.yaml", "--format", "long"]);
        assert!(shown.status.success(), "{}", said(&shown));
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }
}

pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// How many stages were executed.
fn executed(output: &Output) -> u64 {
    assert!(output.status.success(), "{}", said(output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["counts"]["done"].as_u64().unwrap_or(0)
}

const LEAK: &str = "  leak: {attack: {kind: inverting-gradients, of: run, iterations: 30, restarts: 2";
const TABLE: &str = "\ntables:\n  leak: {value: [leak.psnr, leak.ssim.min, leak.mse.max, leak.label_accuracy]}\n";

#[test]
fn an_attack_trains_nothing_again_and_observes_the_round_that_was() {
    let place = Place::new();
    assert_eq!(executed(&place.run("fedavg", 4, "", &[])), 4);
    // Added to a finished training: one stage runs.
    let attack = format!("{LEAK}}}}}{TABLE}");
    assert_eq!(executed(&place.run("fedavg", 4, &attack, &["-j", "1"])), 1);
    let last = place.tables();
    assert!(last.contains("leak.psnr.mean"), "{last}");
    assert_eq!(executed(&place.run("fedavg", 4, &attack, &[])), 0);
    // An earlier round is the last state of a shorter training, and threads change nothing.
    let earlier = format!("{LEAK}, round: 4}}}}{TABLE}");
    assert_eq!(executed(&place.run("fedavg", 6, &earlier, &["-j", "3"])), 2);
    assert_eq!(place.tables(), last);
    let other = format!("{LEAK}, round: 0}}}}{TABLE}");
    assert_eq!(executed(&place.run("fedavg", 6, &other, &[])), 1);
    assert_ne!(place.tables(), last);
}

#[test]
fn an_observer_sees_uploads_and_not_the_servers_private_mean() {
    let place = Place::new();
    let attack = "  leak: {attack: {kind: idlg, of: run, round: 0, iterations: 1}}\ntables:\n  leak: {value: leak.label_accuracy}\n";
    // Noise of the server's that hides nothing: from the mean of four classes, only one client's would be right.
    let private = ["--set", "run.privacy={kind: dp-fedavg, clip: 100, noise_multiplier: 1e-9, delta: 1e-3}"];
    assert_eq!(executed(&place.run("fedavg", 1, attack, &private)), 5);
    let shown = said(&place.pflpipe(&[&["table", "small.yaml"], &private[..]].concat()));
    assert!(shown.contains("100.00"), "{shown}");
}

#[test]
fn what_nobody_sends_is_not_applicable_and_no_failure() {
    let place = Place::new();
    let attacks = "  leak: {attack: {kind: idlg, of: run, iterations: 2}}
  psnr: {attack: {kind: inverting-gradients, of: run, iterations: 5}}
tables:
  leak: {value: [leak.psnr, psnr.psnr]}
";
    for (algorithm, idlg, inverting) in [
        ("fedproto", "not applicable", "not applicable"),
        ("local", "not applicable", "not applicable"),
        // The head stays at home, and with it the class; the base still gives the picture away.
        ("fedper", "not applicable", "value"),
        ("fedkd", "value", "value"),
        ("pflda", "value", "value"),
    ] {
        let run = place.run(algorithm, 2, attacks, &[]);
        assert!(run.status.success(), "{algorithm}: {}", said(&run));
        let table = place.tables();
        let states: Vec<&str> =
            table.lines().skip(1).map(|line| if line.contains("not applicable") { "not applicable" } else { "value" }).collect();
        assert_eq!(states, [idlg, inverting], "{algorithm}: {table}");
    }
    // Behind secure aggregation nobody sees a single update.
    let secure = ["--set", "run.secure={kind: secagg}"];
    let run = place.run("fedavg", 2, attacks, &secure);
    assert!(run.status.success(), "{}", said(&run));
    let shown = place.pflpipe(&[&["table", "small.yaml", "--format", "long"], &secure[..]].concat());
    assert_eq!(said(&shown).matches("not applicable").count(), 2, "{}", said(&shown));
    // Where every upload is lost there is none to see, and that is what is said.
    let lost = ["--set", "run.drop_rate=1"];
    let run = place.run("fedavg", 2, attacks, &lost);
    assert!(run.status.success() && said(&run).contains("leaves no upload in a round"), "{}", said(&run));
    let shown = place.pflpipe(&[&["table", "small.yaml"], &lost[..]].concat());
    assert!(said(&shown).contains("`fedavg` gets no upload in this round"), "{}", said(&shown));
}

#[test]
fn rules_are_named() {
    let place = Place::new();
    for (attack, algorithm, wanted) in [
        ("kind: dlg, of: run, round: 3", "fedavg", "`round` is 3, but the training has 2 rounds"),
        ("kind: dlg, of: run, round: 1, most_samples: 0", "fedavg", "most_samples"),
        ("kind: membership, of: run, iterations: 3", "fedavg", "iterations"),
        ("kind: dlg, of: net", "fedavg", "`net`"),
    ] {
        let run = place.run(algorithm, 2, &format!("  leak: {{attack: {{{attack}}}}}\n"), &[]);
        assert!(!run.status.success() && said(&run).contains(wanted), "{attack}: {}", said(&run));
    }
    for (change, attack, wanted) in [
        ("run.few_shot=0", "kind: dlg, of: run, most_samples: 3", "at most 3 are rebuilt (`most_samples`)"),
        ("run.few_shot=2", "kind: idlg, of: run", "iDLG reads off the class of one sample, but the update is of 2"),
        ("run.few_shot=2", "kind: inverting-gradients, of: run, labels: inferred", "`labels: inferred` reads off the class of one sample"),
        ("run.batch_size=3", "kind: dlg, of: run", "incomplete batch of 3 is left out"),
    ] {
        let run = place.run("fedavg", 1, &format!("  leak: {{attack: {{{attack}}}}}\n"), &["--set", change]);
        assert!(run.status.code() == Some(1) && said(&run).contains(wanted), "{attack}: {}", said(&run));
    }
}

#[test]
fn membership_is_measured_for_both_models_and_pictures_are_in_the_report() {
    let place = Place::new();
    let attacks = "  mia: {attack: {kind: membership, of: run}}
  shadow: {attack: {kind: membership, of: run, method: shadow, shadow_models: 1, shadow_epochs: 1, clients: 2}}
  leak: {attack: {kind: dlg, of: run, variant: pfllib, iterations: 1}}
tables:
  members: {value: [mia.auc, \"mia.global:auc\", shadow.tpr.max]}
  leak: {value: leak.psnr}
";
    let run = place.run("ditto", 2, attacks, &["--set", "run.few_shot=0", "--set", "run.batch_size=8"]);
    assert!(run.status.success(), "{}", said(&run));
    let report = place.pflpipe(&["report", "small.yaml", "-o", "report.html", "--set", "run.few_shot=0", "--set", "run.batch_size=8"]);
    assert!(report.status.success(), "{}", said(&report));
    let page = std::fs::read_to_string(place.path().join("report.html")).expect("a page");
    assert!(page.contains("data:image/png;base64,") && page.contains("id=\"reconstructions\""));
    assert!(page.contains("mia.auc.mean"));
}

#[test]
fn every_algorithm_can_be_observed() {
    let place = Place::new();
    let names: Vec<&str> = pflpipe::algorithms::all().iter().map(|entry| entry.description.name).collect();
    let text = format!(
        "name: small
sweep: {{grid: {{algorithm: [{}], kind: [inverting-gradients, membership]}}}}
stages:
  data: {{dataset: optdigits}}
  split: {{partition: {{data: data, kind: pathological, clients: 4, classes_per_client: 3, seed: 1}}}}
  net: {{model: {{kind: mlp, data: data, hidden: [12], seed: 1}}}}
  run:
    train:
      algorithm: \"{{{{ algorithm }}}}\"
      partition: split
      model: net
      rounds: 1
      few_shot: 4
      batch_size: 6
      learning_rate: 0.05
      join_ratio: 0.5
  leak: {{attack: {{kind: \"{{{{ kind }}}}\", of: run, iterations: \"{{{{ 2 if kind == 'inverting-gradients' else none }}}}\"}}}}
tables:
  leak: {{rows: algorithm, columns: kind, value: [leak.psnr, leak.auc]}}
",
        names.join(", ")
    );
    std::fs::write(place.path().join("small.yaml"), text).expect("a writable folder");
    let run = place.pflpipe(&["run", "small.yaml", "-k", "--output", "json"]);
    assert!(run.status.success(), "{}", said(&run));
    let table = place.tables();
    let state = |algorithm: &str, kind: &str, metric: &str| {
        let line = table.lines().find(|line| line.contains(&format!(",{algorithm},")) && line.contains(&format!("{kind} {metric}")));
        let line = line.unwrap_or_else(|| panic!("{algorithm} {kind}: {table}"));
        if line.contains("not applicable") {
            "not applicable"
        } else if line.contains(",missing") {
            "missing"
        } else {
            "value"
        }
    };
    let nothing: Vec<&str> =
        names.iter().copied().filter(|name| state(name, "inverting-gradients", "psnr.mean") == "not applicable").collect();
    assert_eq!(nothing, ["local", "fedproto", "fd", "fedpcl", "fedgh"], "{table}");
    for name in &names {
        assert_eq!(state(name, "membership", "auc.mean"), "value", "{name}: {table}");
        assert!(nothing.contains(name) || state(name, "inverting-gradients", "psnr.mean") == "value", "{name}: {table}");
    }
}

#[test]
fn an_attack_that_was_interrupted_goes_on_where_it_was() {
    for (attack, change) in [
        ("kind: inverting-gradients, of: run, iterations: 2500, restarts: 2", "run.few_shot=1"),
        ("kind: dlg, of: run, iterations: 60, restarts: 3", "run.few_shot=1"),
        ("kind: dlg, of: run, iterations: 40, variant: pfllib", "run.few_shot=1"),
        // The rounds before the observed one are work, too.
        ("kind: inverting-gradients, of: run, iterations: 30, round: 39", "run.rounds=40"),
    ] {
        let text = |more: &str| format!("  leak: {{attack: {{{attack}}}{more}}}{TABLE}");
        let whole = Place::new();
        let run = whole.run("fedavg", 2, &text(""), &["--set", change, "-j", "1"]);
        assert!(run.status.success(), "{attack}: {}", said(&run));
        let place = Place::new();
        // Each time it is stopped after its first opportunity, or the next.
        let mut stopped = 0;
        for time in 0.. {
            let run = place.run("fedavg", 2, &text(", timeout: 0.3"), &["--set", change, "-j", "1", "--checkpoint", "0"]);
            if run.status.success() {
                break;
            }
            assert!(said(&run).contains("timeout") && time < 200, "{attack}: {}", said(&run));
            stopped += 1;
        }
        let tables = |place: &Place| {
            let shown = place.pflpipe(&["table", "small.yaml", "--format", "long", "--set", change]);
            String::from_utf8_lossy(&shown.stdout).into_owned()
        };
        println!("{attack}: stopped {stopped} times");
        assert_eq!(tables(&place), tables(&whole), "{attack}");
    }
}

#[test]
fn an_attack_that_ran_out_of_time_is_failed_in_the_table() {
    let place = Place::new();
    let attack = format!("  leak: {{attack: {{kind: inverting-gradients, of: run, iterations: 1000000}}, timeout: 0.5}}{TABLE}");
    let run = place.run("fedavg", 1, &attack, &[]);
    assert_eq!(run.status.code(), Some(1), "{}", said(&run));
    let table = place.tables();
    assert!(table.lines().skip(1).all(|line| line.contains(",failed,")), "{table}");
}
