//! Plans: expansion, keys that change when they must and only then, decisions and their reasons.

mod fake;

use fake::{Fake, TABLE2};
use pflpipe::base::Digest;
use pflpipe::plan::{Decision, Format, History, Manifest, NodeId, Plan, Reason, decide, explain};
use pflpipe::spec::catalog::{Catalog, Default, Field, Type};
use pflpipe::spec::{Overrides, load};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn plan_with(text: &str, catalog: &dyn Catalog, set: &[(&str, &str)]) -> Plan {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let overrides = Overrides { set, ..Overrides::default() };
    let pipeline = load(Path::new("p.yaml"), text, &overrides, catalog).unwrap_or_else(|e| panic!("{e}"));
    Plan::new(&pipeline, catalog, "cpu").expect("same catalog")
}

fn plan(text: &str) -> Plan {
    plan_with(text, &Fake::new(), &[])
}

/// Keys as if every stage had run: an output's digest is made from its stage's key.
fn keys(plan: &Plan) -> Vec<Digest> {
    let mut keys: Vec<Digest> = Vec::new();
    for id in plan.order() {
        let key = plan.digest(id, &|node, output| Some(output_digest(&keys[node.index()], output))).expect("all inputs are known");
        keys.push(key);
    }
    keys
}

fn output_digest(key: &Digest, output: &str) -> Digest {
    Digest::of(format!("{key} {output}").as_bytes())
}

/// The keys by label.
fn keys_by_label(plan: &Plan) -> BTreeMap<String, Digest> {
    plan.order().map(|id| plan.node(id).label()).zip(keys(plan)).collect()
}

/// A pipeline with a stage of every kind.
const EVERYTHING: &str = "
stages:
  d: {dataset: {name: synthetic, samples: 100}}
  p: {partition: {kind: dirichlet, data: d, alpha: 0.1}}
  q: {partition: {kind: pathological, data: d}}
  m: {model: {kind: mlp, data: d}}
  r: {train: {algorithm: {name: ditto}, partition: p, model: m, note: x}}
  s: {train: {algorithm: {name: gpfl}, partition: q, model: m}}
  a: {attack: {kind: dlg, of: r}}
  c: {compare: {runs: [r, s]}}
";

#[test]
fn axes_enter_only_the_stages_that_read_them() {
    let plan = plan(TABLE2);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    plan.nodes.iter().for_each(|node| *counts.entry(&node.stage).or_default() += 1);
    assert_eq!(counts, [("data", 1), ("split", 6), ("net", 3), ("run", 18), ("leak", 18)].into());
    let run = plan.node_for(1, "run").expect("there");
    assert_eq!(plan.node(run).label(), "run[algorithm=fedavg, alpha=0.1, seed=1]");
    assert_eq!(plan.node(plan.node_for(1, "leak").expect("there")).label(), "leak[algorithm=fedavg, alpha=0.1, seed=1]");
    assert_eq!(plan.node(plan.node_for(1, "data").expect("there")).label(), "data");
    assert_eq!(plan.node_for(7, "split"), plan.node_for(1, "split"));
    assert_eq!(plan.node_for(1, "nothing"), None);
    let inputs: Vec<String> = plan.node(run).inputs.iter().map(|i| format!("{}<-{}", i.slot, plan.node(i.node).label())).collect();
    assert_eq!(inputs, ["model<-net[seed=1]", "partition<-split[alpha=0.1, seed=1]"]);
    assert_eq!(plan.coords(1)["alpha"], &json!(0.1));
    assert_eq!(plan.find("run[algorithm=fedavg,alpha=0.1, seed=1]"), [run]);
    assert_eq!(plan.find("run").len(), 18);
}

#[test]
fn a_named_map_is_shown_shortly() {
    let plan = plan(&TABLE2.replace("ditto,", "{name: ditto, mu: 0.5},"));
    assert!(plan.nodes.iter().any(|node| node.label() == "run[algorithm=ditto(mu=0.5), alpha=0.1, seed=0]"));
}

#[test]
fn every_node_comes_after_its_inputs_and_the_graph_agrees() {
    let plan = plan(TABLE2);
    for id in plan.order() {
        for input in &plan.node(id).inputs {
            assert!(input.node < id);
            assert!(plan.dependents(input.node).contains(&id));
        }
    }
    assert!(!petgraph::algo::is_cyclic_directed(plan.graph()));
    assert_eq!(plan.dependents(NodeId::new(0)).len(), 9);
}

#[test]
fn stages_that_choose_their_input_by_an_axis_share_what_is_equal() {
    let text = "
sweep: {grid: {source: [d, e], seed: [0, 1]}}
stages:
  d: {dataset: cifar10}
  e: {dataset: {name: synthetic, samples: \"{{ 10 + seed }}\"}}
  m: {model: {kind: cnn, data: \"{{ source }}\"}}
";
    let plan = plan(text);
    let labels: Vec<String> = plan.nodes.iter().map(|node| node.label()).collect();
    // A model of `d` does not depend on the seed, one of `e` does.
    assert_eq!(labels, ["d", "e[seed=0]", "e[seed=1]", "m[source=d]", "m[seed=0, source=e]", "m[seed=1, source=e]"]);
}

#[test]
fn a_list_of_stages_gives_numbered_slots() {
    let plan = plan(EVERYTHING);
    let compare = plan.node(plan.node_for(0, "c").expect("there"));
    let slots: Vec<String> = compare.inputs.iter().map(|i| format!("{}={}", i.slot, plan.node(i.node).stage)).collect();
    assert_eq!(slots, ["runs.0=r", "runs.1=s"]);
    assert!(compare.params.to_map().is_empty());
}

#[test]
fn ten_thousand_nodes_expand_at_once() {
    let text = TABLE2.replace("[0, 1, 2]", "{range: [0, 700]}");
    let catalog = Fake::new();
    let start = std::time::Instant::now();
    let pipeline = load(Path::new("p.yaml"), &text, &Overrides::default(), &catalog).unwrap_or_else(|e| panic!("{e}"));
    let plan = Plan::new(&pipeline, &catalog, "cpu").expect("same catalog");
    assert!(plan.nodes.len() > 10_000);
    let _ = keys(&plan);
    // Far beyond what it takes, so that a busy machine does not matter; quadratic code would take minutes.
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn keys_do_not_depend_on_names_order_comments_and_run_options() {
    let one = keys_by_label(&plan(EVERYTHING));
    let other = plan(
        "
# Other names, another order, comments.
name: other
stages:
  second:   {train: {note: x, model: weights, partition: parts, algorithm: ditto}, timeout: 3h, retries: 2}
  third:    {train: {algorithm: gpfl, partition: parts2, model: weights}}
  parts2:   {partition: {data: source, kind: pathological, classes_per_client: 2}}
  weights:  {model: {seed: 0, hidden: [200, 100], data: source, kind: mlp}}
  parts:    {partition: {alpha: 1e-1, data: source, kind: dirichlet, clients: 20}}
  source:   {dataset: {samples: 100, name: synthetic, flip: false}}
",
    );
    let other = keys_by_label(&other);
    for (a, b) in [("d", "source"), ("p", "parts"), ("q", "parts2"), ("m", "weights"), ("r", "second"), ("s", "third")] {
        assert_eq!(one[a], other[b], "{a} and {b}");
    }
    assert_eq!(one.values().collect::<BTreeSet<_>>().len(), one.len());
}

/// Another valid value of a type.
fn another(ty: &Type, now: &Value) -> Option<Value> {
    let candidates = match ty {
        Type::Bool => vec![json!(true), json!(false)],
        Type::Int { .. } => vec![json!(3), json!(4)],
        Type::Float { .. } => vec![json!(0.25), json!(0.75)],
        Type::Text => vec![json!("u"), json!("v")],
        Type::Choice(words) => words.iter().map(|(word, _)| json!(word)).collect(),
        Type::List(inner) => vec![json!([another(inner, now)?]), json!([])],
        Type::Stage { .. } | Type::Map(_) => return None,
    };
    candidates.into_iter().find(|value| value != now)
}

#[test]
fn every_parameter_of_every_kind_changes_the_key_and_downstream_only_that() {
    let catalog = Fake::new();
    let base = plan(EVERYTHING);
    let before = keys_by_label(&base);
    let mut tried = BTreeSet::new();
    for id in base.order() {
        let node = base.node(id);
        let kind = catalog.kind(node.kind).expect("there");
        let params = node.params.to_map();
        let nested = kind.shape.fields.iter().filter_map(|field| match (&field.ty, params.get(field.name)) {
            (Type::Map(shape), Some(Value::Object(map))) => Some((field.name, shape, map)),
            _ => None,
        });
        let top = [("", &kind.shape, &params)];
        for (prefix, shape, map) in top.into_iter().chain(nested) {
            let own = shape.tag.as_ref().and_then(|tag| shape.variant(map.get(tag.name)?.as_str()?)).map_or(&[][..], |v| &v.fields);
            for field in shape.fields.iter().chain(own) {
                let now = map.get(field.name).cloned().unwrap_or(Value::Null);
                let Some(value) = another(&field.ty, &now) else { continue };
                let path = if prefix.is_empty() { field.name.to_owned() } else { format!("{prefix}.{}", field.name) };
                let changed = plan_with(EVERYTHING, &catalog, &[(&format!("{}.{path}", node.stage), &value.to_string())]);
                let after = keys_by_label(&changed);
                assert_ne!(before[&*node.stage], after[&*node.stage], "{}.{path}", node.stage);
                for other in base.order().filter(|other| *other != id) {
                    let stage = &*base.node(other).stage;
                    assert_eq!(before[stage] != after[stage], reaches(&base, id, other), "{path} of {} and {stage}", node.stage);
                }
                tried.insert(format!("{}.{path}", node.kind));
            }
        }
    }
    assert_eq!(tried.len(), 20, "{tried:#?}");
    // The choice of the variant, and the order of a list of stages.
    for (from, to) in [("name: ditto", "name: fedavg"), ("runs: [r, s]", "runs: [s, r]"), ("{name: synthetic, samples: 100}", "cifar10")] {
        assert_ne!(before, keys_by_label(&plan(&EVERYTHING.replace(from, to))), "{to}");
    }
}

fn reaches(plan: &Plan, from: NodeId, to: NodeId) -> bool {
    plan.dependents(from).into_iter().any(|next| next == to || reaches(plan, next, to))
}

#[test]
fn revisions_change_keys() {
    let before = keys_by_label(&plan(EVERYTHING));
    let mut catalog = Fake::new();
    catalog.kinds_mut()[3].revision = 2;
    let after = keys_by_label(&plan_with(EVERYTHING, &catalog, &[]));
    assert_eq!(before["m"], after["m"]);
    assert!(before["r"] != after["r"] && before["s"] != after["s"]);

    // The revision of a nested variant concerns only the stages that select it.
    let mut catalog = Fake::new();
    let Type::Map(algorithms) = &mut catalog.kinds_mut()[3].shape.fields[0].ty else { panic!("algorithm is a map") };
    algorithms.tag.as_mut().expect("tagged").variants[1].revision = 2;
    let after = keys_by_label(&plan_with(EVERYTHING, &catalog, &[]));
    assert!(before["r"] != after["r"] && before["s"] == after["s"]);
}

#[test]
fn a_field_added_later_keeps_old_keys_while_it_has_its_introduced_value() {
    let mut old = Fake::new();
    old.kinds_mut()[3].shape.fields.retain(|field| field.name != "join_ratio");
    let before = keys_by_label(&plan_with(EVERYTHING, &old, &[]));
    assert_eq!(before, keys_by_label(&plan(EVERYTHING)));
    let changed = plan_with(EVERYTHING, &Fake::new(), &[("r.join_ratio", "0.5")]);
    assert_ne!(before["r"], keys_by_label(&changed)["r"]);
    // Of an optional field, too, absence is the old meaning.
    old.kinds_mut()[2].shape.fields.push(Field::optional("extra", Type::at_least(0), "New."));
    assert_eq!(before, keys_by_label(&plan_with(EVERYTHING, &old, &[])));
    // Another default of an old field is another key.
    let mut other = Fake::new();
    let lr = other.kinds_mut()[3].shape.fields.iter_mut().find(|field| field.name == "lr").expect("there");
    lr.default = Default::Is(json!(0.01));
    assert_ne!(before["r"], keys_by_label(&plan_with(EVERYTHING, &other, &[]))["r"]);
}

#[test]
fn only_the_class_of_the_device_enters_and_only_where_it_matters() {
    let catalog = Fake::new();
    let on = |device: &str| {
        let pipeline = load(Path::new("p.yaml"), EVERYTHING, &Overrides::default(), &catalog).unwrap_or_else(|e| panic!("{e}"));
        keys_by_label(&Plan::new(&pipeline, &catalog, device).expect("same catalog"))
    };
    let (cpu, first, second) = (on("cpu"), on("cuda:0"), on("cuda:1"));
    assert_eq!(first, second);
    assert_eq!(cpu["m"], first["m"]);
    assert_ne!(cpu["r"], first["r"]);
}

#[test]
fn stages_that_differ_only_in_rounds_share_a_lineage() {
    let key = |set: &[(&str, &str)]| {
        let plan = plan_with(EVERYTHING, &Fake::new(), set);
        let all = keys(&plan);
        let id = plan.node_for(0, "r").expect("there");
        let data = plan.node_for(0, "d").expect("there");
        let digest_of = |node: NodeId, output: &str| Some(output_digest(&all[node.index()], output));
        assert_eq!(plan.key(data, &digest_of).expect("no inputs").lineage, None);
        let key = plan.key(id, &digest_of).expect("known");
        assert_eq!(key.key, all[id.index()]);
        assert_eq!(key.manifest.key(), key.key);
        key
    };
    let (short, long, other) = (key(&[("r.rounds", "10")]), key(&[("r.rounds", "20")]), key(&[("r.lr", "0.1")]));
    assert_eq!(short.lineage, long.lineage);
    assert!(short.lineage.is_some() && short.lineage != other.lineage);
    assert_eq!((short.extent, long.extent), (Some(10), Some(20)));
    assert_ne!(short.key, long.key);
    assert!(short.lineage != Some(short.key));
}

/// Keys that must never change unnoticed. `PFLPIPE_BLESS=1` writes the file anew: do that only with a raised revision.
#[test]
fn golden_keys() {
    let mut found: BTreeMap<String, String> = keys_by_label(&plan(EVERYTHING)).into_iter().map(|(l, k)| (l, k.hex())).collect();
    found.extend(keys_by_label(&plan(TABLE2)).into_iter().map(|(label, key)| (label, key.hex())));
    golden("keys.json", &json!(found));
}

/// The introduced values are part of the keys' meaning, so they are frozen as well.
#[test]
fn golden_introduced() {
    golden("introduced.json", &json!(pflpipe::plan::key::introduced(&Fake::new())));
}

fn golden(name: &str, found: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let mut file: Value = std::fs::read_to_string(&path).map_or(json!({}), |text| serde_json::from_str(&text).expect("JSON"));
    if std::env::var_os("PFLPIPE_BLESS").is_some() {
        file["fixture"] = found.clone();
        let text = serde_json::to_string_pretty(&file).expect("plain data") + "\n";
        std::fs::write(&path, text).expect("written");
    }
    assert_eq!(&file["fixture"], found, "{name} differs; raise a revision, then run with PFLPIPE_BLESS=1");
}

/// Remembers what was run.
#[derive(Default)]
struct Memory {
    outputs: BTreeMap<Digest, BTreeMap<String, Digest>>,
    manifests: Vec<(String, String, Manifest)>,
    asked: RefCell<usize>,
}

impl Memory {
    /// Runs the whole plan; outputs differ exactly when keys do.
    fn run(&mut self, plan: &Plan) {
        let all = keys(plan);
        for id in plan.order() {
            let node = plan.node(id);
            let key = plan.key(id, &|node, output| Some(output_digest(&all[node.index()], output))).expect("known");
            let kind = Fake::new();
            let outputs = kind.kind(node.kind).expect("there").outputs;
            self.outputs.insert(key.key, outputs.iter().map(|o| ((*o).to_owned(), output_digest(&key.key, o))).collect());
            self.manifests.insert(0, (node.stage.to_string(), node.kind.to_owned(), key.manifest));
        }
    }
}

impl History for Memory {
    fn outputs(&self, key: &Digest) -> Option<BTreeMap<String, Digest>> {
        self.outputs.get(key).cloned()
    }
    fn nearest(&self, stage: &str, kind: &str, _: &BTreeMap<String, Value>) -> Vec<Manifest> {
        *self.asked.borrow_mut() += 1;
        self.manifests.iter().filter(|(s, k, _)| s == stage && k == kind).map(|(_, _, m)| m.clone()).collect()
    }
}

fn states(plan: &Plan, memory: &Memory) -> Vec<String> {
    let decisions = decide(plan, memory, &|_| false);
    plan.order().map(|id| format!("{}: {}", plan.node(id).label(), pflpipe::plan::decide::describe(plan, &decisions[id.index()]))).collect()
}

#[test]
fn decisions_follow_from_what_is_stored() {
    let small = TABLE2.replace("[fedavg, ditto, gpfl]", "[fedavg]").replace("[0.1, 0.5]", "[0.1]").replace("[0, 1, 2]", "[0]");
    let mut memory = Memory::default();
    let first = plan(&small);
    assert_eq!(
        states(&first, &memory),
        [
            "data: run: never run",
            "split[alpha=0.1, seed=0]: maybe: after data",
            "net[seed=0]: maybe: after data",
            "run[algorithm=fedavg, alpha=0.1, seed=0]: maybe: after data",
            "leak[algorithm=fedavg, alpha=0.1, seed=0]: maybe: after data",
        ]
    );
    memory.run(&first);
    assert!(states(&first, &memory).iter().all(|state| state.ends_with(": cached")));
    *memory.asked.borrow_mut() = 0;
    let _ = decide(&first, &memory, &|_| false);
    assert_eq!(*memory.asked.borrow(), 0, "a hit costs no look into the past");

    let second = plan(&small.replace("alpha: [0.1]", "alpha: [0.3]"));
    assert_eq!(
        states(&second, &memory),
        [
            "data: cached",
            "split[alpha=0.3, seed=0]: run: alpha: 0.1 -> 0.3",
            "net[seed=0]: cached",
            "run[algorithm=fedavg, alpha=0.3, seed=0]: maybe: after split[alpha=0.3, seed=0]",
            "leak[algorithm=fedavg, alpha=0.3, seed=0]: maybe: after split[alpha=0.3, seed=0]",
        ]
    );
    let third = plan(&small.replace("[fedavg]", "[{name: ditto, mu: 2}]").replace("rounds: 2000", "rounds: 5"));
    assert!(
        states(&third, &memory)[3]
            .ends_with("run: algorithm.mu: 2.0 is new, algorithm.name: fedavg -> ditto, algorithm.steps: 1 is new, rounds: 2000 -> 5")
    );

    let forced = decide(&first, &memory, &|node| &*node.stage == "net");
    assert!(matches!(&forced[2], Decision::Run { reason: Reason::Forced, .. }));
    assert!(matches!(&forced[3], Decision::Maybe { after } if after.index() == 2));
    assert!(matches!(&forced[1], Decision::Cached { .. }));

    // The outputs of one stage are lost.
    let net = keys(&first)[2];
    memory.outputs.remove(&net);
    assert_eq!(states(&first, &memory)[2], "net[seed=0]: run: its outputs are gone from the store");
    assert!(states(&first, &memory)[1].ends_with("cached"));

    let mut catalog = Fake::new();
    catalog.kinds_mut()[1].revision = 2;
    let raised = plan_with(&small, &catalog, &[]);
    assert_eq!(states(&raised, &memory)[1], "split[alpha=0.1, seed=0]: run: revision: 1 -> 2");
}

#[test]
fn equal_outputs_stop_the_wave() {
    let small = TABLE2.replace("[fedavg, ditto, gpfl]", "[fedavg]").replace("[0.1, 0.5]", "[0.1]").replace("[0, 1, 2]", "[0]");
    let mut memory = Memory::default();
    let first = plan(&small);
    memory.run(&first);
    // The partition ran anew with another alpha, but came out equal.
    let second = plan(&small.replace("alpha: [0.1]", "alpha: [0.3]"));
    let old = memory.outputs[&keys(&first)[1]].clone();
    let Decision::Run { key, .. } = &decide(&second, &memory, &|_| false)[1] else { panic!("it runs") };
    memory.outputs.insert(*key, old);
    assert!(states(&second, &memory).iter().all(|state| state.ends_with(": cached")));
}

#[test]
fn why_shows_every_component_beside_the_nearest() {
    let mut memory = Memory::default();
    memory.run(&plan(EVERYTHING));
    let plan = plan_with(EVERYTHING, &Fake::new(), &[("p.alpha", "0.3")]);
    let decisions = decide(&plan, &memory, &|_| false);
    let why = explain(&plan, plan.node_for(0, "p").expect("there"), &decisions, &memory);
    assert_eq!((why.label.as_str(), why.state.as_str(), why.compared), ("p", "run: alpha: 0.1 -> 0.3", true));
    let lines: Vec<String> = why
        .components
        .iter()
        .filter(|c| !c.name.starts_with("input"))
        .map(|c| format!("{}={}{}", c.name, c.now.as_ref().expect("now"), if c.changed { " *" } else { "" }))
        .collect();
    assert_eq!(
        lines,
        [
            "alpha=0.3 *",
            "clients=20",
            "kind=\"dirichlet\"",
            "seed=0",
            "revision of kind=1",
            "kind=\"partition\"",
            "revision=1",
            "key schema=1"
        ]
    );
    assert!(why.components.iter().any(|c| c.name == "input data.samples"));
    let later = explain(&plan, plan.node_for(0, "r").expect("there"), &decisions, &memory);
    assert_eq!((later.key, later.state.as_str()), (None, "maybe: after p"));
    let alpha = why.components.iter().find(|c| c.name == "alpha").expect("there");
    assert_eq!(serde_json::to_value(alpha).expect("plain data"), json!({"name": "alpha", "now": 0.3, "before": 0.1, "changed": true}));
}

#[test]
fn the_graph_is_drawn_collapsed_or_in_full() {
    let plan = plan(TABLE2);
    let dot = plan.export(Format::Dot, false);
    assert!(
        dot.starts_with("digraph \"table2\" {")
            && dot.contains("n1 [label=\"split\\npartition, 6 nodes\"];")
            && dot.contains("n1 -> n3 [label=\"partition\"];"),
        "{dot}"
    );
    let mermaid = plan.export(Format::Mermaid, false);
    assert!(mermaid.contains("n0[\"data<br/>dataset\"]") && mermaid.contains("n0 -->|\"data\"| n1"), "{mermaid}");
    let full: Value = serde_json::from_str(&plan.export(Format::Json, true)).expect("JSON");
    assert_eq!(full["nodes"].as_array().expect("list").len(), plan.nodes.len());
    assert_eq!(full["edges"].as_array().expect("list").len(), 6 + 3 + 36 + 18);
    assert_eq!(full["nodes"][1]["label"], "split[alpha=0.1, seed=0]");
}

/// The same pipeline in other words: entries reordered, numbers spelled differently, block or flow style.
fn reworded(order: &[usize], spelling: usize, block: bool) -> String {
    let alpha = ["0.1", "1e-1", ".1", "1.0e-1", "0.10", "+0.1"][spelling % 6];
    let rate = ["1", "1.0", "1e0", "1.", "+1"][spelling % 5];
    let rounds = ["100", "1e2", "100.0", "0x64"][spelling % 4];
    let mut entries = [
        ("algorithm", "{mu: 0.5, name: ditto}".to_owned()),
        ("partition", "p".to_owned()),
        ("model", "'m'".to_owned()),
        ("lr", rate.to_owned()),
        ("rounds", rounds.to_owned()),
        ("drop_last", "true".to_owned()),
    ];
    for (i, j) in order.iter().enumerate() {
        let n = entries.len();
        entries.swap(i % n, j % n);
    }
    let lines: Vec<String> = entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    let train = if block { format!("\n      {}", lines.join("\n      # a comment\n      ")) } else { format!("{{{}}}", lines.join(", ")) };
    let mut stages = [
        "d: {dataset: cifar10}".to_owned(),
        format!("p: {{partition: {{alpha: {alpha}, kind: \"dirichlet\", data: d}}}}"),
        "m: {model: {data: d, kind: cnn}}".to_owned(),
        format!("r:\n    train: {train}"),
    ];
    for (i, j) in order.iter().enumerate() {
        let n = stages.len();
        stages.swap(i % n, j % n);
    }
    format!("stages:\n  {}\n", stages.join("\n  "))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn keys_survive_rewording(order in proptest::collection::vec(0usize..6, 0..8), spelling in 0usize..60, block: bool) {
        let plain = keys_by_label(&plan(&reworded(&[], 0, false)));
        prop_assert_eq!(plain, keys_by_label(&plan(&reworded(&order, spelling, block))));
    }

    #[test]
    fn equal_components_and_only_they_give_equal_keys(a in components(), b in components()) {
        let manifest = |list: &[(String, Value)]| Manifest { components: list.iter().cloned().collect() };
        let (a, b) = (manifest(&a), manifest(&b));
        prop_assert_eq!(a.key() == b.key(), a == b);
        let text = serde_json::to_string(&a).expect("plain data");
        prop_assert_eq!(serde_json::from_str::<Manifest>(&text).expect("same format").key(), a.key());
    }
}

fn components() -> impl Strategy<Value = Vec<(String, Value)>> {
    let value = prop_oneof![
        any::<i64>().prop_map(Value::from),
        (-1000i32..1000).prop_map(|n| Value::from(f64::from(n) / 8.0)),
        "[ab]{0,2}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from)
    ];
    proptest::collection::vec(("[abc]{0,2}", value), 0..4)
}
