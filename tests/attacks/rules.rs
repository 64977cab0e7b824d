//! What does not go together is found by `check`, and by `plan` and `run` before anything runs, at its place in the text.

use crate::stage::{Place, said};
use serde_json::Value;

/// A pipeline; each part is a line of its own. The training's line is 6, the attack's 7, the table's 9.
fn text(net: &str, train: &str, attack: &str, value: &str) -> String {
    format!(
        "name: small
stages:
  data: {{dataset: optdigits}}
  split: {{partition: {{data: data, kind: iid, clients: 10}}}}
  net: {{model: {{data: data, {net}}}}}
  run: {{train: {{partition: split, model: net, rounds: 5, {train}}}}}
  leak: {{attack: {{of: run, {attack}}}}}
tables:
  main: {{value: {value}}}
"
    )
}

/// The messages of `check`, each as `line:column message [help]`.
fn check(place: &Place, text: &str) -> Vec<String> {
    std::fs::write(place.path().join("small.yaml"), text).expect("a writable folder");
    let output = place.pflpipe(&["check", "small.yaml", "--output", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&output)));
    let messages = answer["messages"].as_array().expect("messages");
    let one = |m: &Value| {
        let help = m["help"].as_str().map(|help| format!(" [{help}]")).unwrap_or_default();
        format!("{}:{} {}{help}", m["line"], m["column"], m["message"].as_str().unwrap_or_default())
    };
    messages.iter().map(one).collect()
}

const NET: &str = "kind: mlp, hidden: [12]";
const AVG: &str = "algorithm: fedavg";
const DLG: &str = "kind: dlg";
const PSNR: &str = "leak.psnr";

#[test]
fn what_does_not_go_together_is_found_with_its_place() {
    let place = Place::new();
    assert_eq!(check(&place, &text(NET, AVG, DLG, PSNR)), Vec::<String>::new());
    let train = |more: &str| text(NET, &format!("{AVG}, {more}"), DLG, PSNR);
    let attack = |attack: &str| text(NET, AVG, attack, PSNR);
    let net = |net: &str| text(net, AVG, "kind: membership", "leak.auc");
    for (text, line, words) in [
        (train("threat: {kind: zero, attackers: 1.5}"), 6, "`attackers` is 1.5, which is neither a whole number nor below 1"),
        (train("threat: {kind: zero, attackers: 11}"), 6, "`attackers` is 11, but only 10 clients train"),
        (train("threat: {kind: zero, first_round: 3, last_round: 2}"), 6, "`last_round` is 2, before `first_round`, which is 3"),
        (train("threat: {kind: zero, first_round: 6}"), 6, "`first_round` is 6, but the training has 5 rounds"),
        (train("threat: {kind: label-flipping, from: [3], to: [3]}"), 6, "label 3 of `label-flipping` becomes 3"),
        (train("threat: {kind: edge-case, source: 3, target: 3}"), 6, "`source` and `target` of `edge-case` are both 3"),
        (
            train("defence: {kind: krum, byzantine: 4}"),
            6,
            "`krum` needs n >= 2f + 3, here at least 11 uploads in a round, but there are 10",
        ),
        (train("defence: {kind: bulyan, byzantine: 2}"), 6, "`bulyan` needs n >= 4f + 3"),
        (train("secure: secagg, defence: median"), 6, "`secagg` cannot go with `median`"),
        (train("secure: {kind: secagg, dropouts: 0.5}"), 6, "only 5 of 10 clients send their masked update, but `threshold` 7"),
        (train("privacy: {kind: dp-fedavg, clip: 1, noise_multiplier: 1, delta: 1e-3}, defence: median"), 6, "`dp-fedavg` cannot go with"),
        (train("privacy: {kind: dp-sgd, clip: 1, noise_multiplier: 1}"), 6, "noise but no `delta`"),
        (attack("kind: dlg, round: 6"), 7, "`round` is 6, but the training has 5 rounds"),
        (attack("kind: dlg, clients: 11"), 7, "`clients` is 11, but only 10 clients take part in a round"),
        (attack("kind: dlg, batches: 3"), 7, "`batches` is not a parameter of `variant: paper` [`variant: pfllib` has it]"),
        (attack("kind: dlg, variant: pfllib, restarts: 3"), 7, "`restarts` is not a parameter of `variant: pfllib`"),
        (
            attack("kind: membership, shadow_models: 3").replace(PSNR, "leak.auc"),
            7,
            "`shadow_models` is not a parameter of `method: loss-threshold`",
        ),
        (attack("kind: membership"), 9, "`psnr` is not measured by stage `leak`, which has `kind: membership` [choose from `auc`"),
        (text(NET, AVG, DLG, "leak.auc"), 9, "`auc` is not measured by stage `leak`, which has `kind: dlg`"),
        (net("kind: resnet, depth: 20"), 5, "`depth` of model `resnet` is 20, but must be 10, 18, 34 or 56"),
        (net("kind: vit, width: 65"), 5, "`width` 65 cannot be divided among 4 `heads`"),
        (net("kind: layers, layers: [{layer: conv, out: 2, kernel: [3, 3, 3]}]"), 5, "`kernel` of `conv` is [3,3,3]"),
        (net("kind: layers, layers: [{layer: load, as: x}]"), 5, "there is no saved value `x`"),
        (net("kind: layers, layers: [{layer: save, as: x}, relu, {layer: save, as: x}]"), 5, "`x` is saved twice"),
        (net("kind: layers, layers: [{layer: concat, all: []}]"), 5, "`concat` without names"),
        (
            text(NET, "algorithm: ditto, privacy: {kind: dp-sgd, clip: 1, noise_multiplier: 1, delta: 1e-3}", DLG, PSNR),
            6,
            "several gradients",
        ),
        (text(NET, "algorithm: fedrep, privacy: {kind: dp-sgd, clip: 1, epsilon: 1, delta: 1e-3}", DLG, PSNR), 6, "more passes than"),
        (text(NET, "algorithm: fedavg, optimizer: adam", DLG, PSNR), 7, "whose updates are no gradients"),
        (
            text("kind: fasttext", AVG, DLG, PSNR).replace("optdigits", "ag-news"),
            7,
            "the model takes texts, but gradient attacks rebuild numbers",
        ),
        (text(NET, "algorithm: fedproto, defence: median", DLG, PSNR), 6, "`median` does not apply: `fedproto` sends prototypes"),
        // What is known of a data set without reading it.
        (train("threat: {kind: pixel-backdoor, target: 10}"), 6, "`target` is 10, but the data set has the labels 0 to 9"),
        (train("threat: {kind: pixel-backdoor, size: 9}"), 6, "a pattern of 9 x 9 pixels does not fit samples of 8 x 8"),
        (train("threat: {kind: pixel-backdoor, fraction: 0.05}"), 6, "of a batch of 10 samples is none, rounded down"),
        (train("threat: {kind: label-flipping, from: [3], to: [12]}"), 6, "changes label 12, but the data set has the labels 0 to 9"),
        (train("few_shot: 1, batch_size: 12"), 6, "nobody trains"),
        (attack("kind: idlg"), 7, "iDLG reads off the class of one sample, but the update is of 10"),
        (net("kind: cnn"), 5, "a height of 2 is too small for a kernel of 5"),
        (train("privacy: {kind: dp-fedavg, clip: 1, epsilon: 1e-9, delta: 1e-5}"), 6, "is out of reach: noise can be found for"),
        (
            text("kind: cnn, kernel: 3, padding: 1, norm: batch", &format!("{AVG}, secure: secagg"), DLG, PSNR),
            6,
            "does not sum the running statistics",
        ),
    ] {
        let said = check(&place, &text);
        assert!(said.len() == 1 && said[0].starts_with(&format!("{line}:")) && said[0].contains(words), "{words}: {said:?}");
        // A run says the same before anything is done.
        let run = place.pflpipe(&["run", "small.yaml"]);
        assert_eq!(run.status.code(), Some(3), "{}", crate::stage::said(&run));
        assert!(!place.path().join("store/rec").read_dir().is_ok_and(|mut dir| dir.next().is_some()), "{words}");
    }
    // A threat to what is sent has samples as a way out, a defence has none.
    let said = check(&place, &text(NET, "algorithm: fedproto, defence: median", DLG, PSNR));
    assert!(!said[0].contains("hreat"), "{said:?}");
}

#[test]
fn what_can_run_but_hardly_as_meant_is_a_warning() {
    let place = Place::new();
    for (train, words) in [
        (
            "privacy: {kind: dp-fedavg, clip: 1, noise_multiplier: 1, delta: 0.5}",
            "`delta` is 0.5, not below one over the number of clients",
        ),
        ("drop_rate: 1", "`drop_rate` 1 leaves no upload in a round: the server never changes"),
        ("batch_size: 600, local_epochs: 1", "`batch_size` is 600, but clients have 421.5 training samples on average"),
    ] {
        let said = check(&place, &text(NET, &format!("{AVG}, {train}"), "kind: membership", "leak.auc"));
        assert!(said.len() == 1 && said[0].starts_with("6:") && said[0].contains(words), "{words}: {said:?}");
        assert_eq!(place.pflpipe(&["check", "small.yaml"]).status.code(), Some(0), "{words}");
    }
}

#[test]
fn the_place_is_the_parameter_itself_and_a_sweep_says_it_once() {
    let place = Place::new();
    let said = check(&place, &text(NET, "algorithm: fedavg, threat: {kind: zero, attackers: 12}", DLG, PSNR));
    let line = text(NET, "algorithm: fedavg, threat: {kind: zero, attackers: 12}", DLG, PSNR);
    let column = line.lines().nth(5).and_then(|line| line.find("12}")).expect("there") + 1;
    assert!(said[0].starts_with(&format!("6:{column} ")), "{said:?}");
    let sweep = text(NET, "algorithm: fedavg, seed: \"{{ seed }}\", defence: {kind: krum, byzantine: \"{{ f }}\"}", DLG, PSNR)
        .replace("stages:", "sweep: {grid: {seed: [0, 1, 2], f: [1, 4, 9]}}\nstages:")
        .replace("{value:", "{rows: f, over: seed, value:");
    let said = check(&place, &sweep);
    assert_eq!(said.len(), 2, "{said:?}");
    let shown = place.pflpipe(&["check", "small.yaml"]);
    let shown = crate::stage::said(&shown);
    assert!(shown.contains("in 3 cells, the first is seed=0, f=4") || shown.contains("in 3 cells, the first is f=4, seed=0"), "{shown}");
}

#[test]
fn what_does_not_matter_is_neither_in_the_parameters_nor_in_the_key() {
    let place = Place::new();
    std::fs::write(place.path().join("small.yaml"), text(NET, AVG, "kind: membership", "leak.auc")).expect("writable");
    let expanded = place.pflpipe(&["expand", "small.yaml", "--output", "json"]);
    assert!(!said(&expanded).contains("shadow_models"), "{}", said(&expanded));
    let with = place.pflpipe(&["expand", "small.yaml", "--output", "json", "--set", "leak.method=shadow"]);
    assert!(said(&with).contains("shadow_models"), "{}", said(&with));
}
