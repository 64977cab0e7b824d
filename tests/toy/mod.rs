//! A small world for the tests of store and exec: stages that add, fail, panic, wait and lie, and a planner for them.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use pflpipe::base::threads::Budget;
use pflpipe::base::{Digest, Fault, FaultKind, ObjectRef, Outcome, canon};
use pflpipe::exec::{CPU, Event, Executor, InProcess, Interrupt, Job, Planner, Prepared, Schedule, Settings, State, Summary};
use pflpipe::stage::task::{Host, Outputs, Report, Runner, Task};
use pflpipe::store::{Disk, Store};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A graph of toy stages that is its own planner.
#[derive(Default)]
pub struct Graph {
    pub jobs: Vec<Job>,
    params: Vec<Map<String, Value>>,
}

impl Graph {
    /// Adds a stage and returns its position.
    pub fn add(&mut self, name: &str, kind: &str, params: Value, deps: &[usize]) -> usize {
        self.jobs.push(Job::new(name, kind, deps.to_vec()));
        self.params.push(params.as_object().cloned().unwrap_or_default());
        self.jobs.len() - 1
    }

    /// Two numbers, two sums on them, and the sum of all: 6 stages.
    pub fn six(first: u64) -> Self {
        let mut graph = Self::default();
        let a = graph.add("a", "number", json!({"value": first}), &[]);
        let b = graph.add("b", "number", json!({"value": 2}), &[]);
        let c = graph.add("c", "sum", json!({}), &[a, b]);
        let d = graph.add("d", "steps", json!({"steps": 4}), &[a]);
        let e = graph.add("e", "sum", json!({"plus": 10}), &[b, c]);
        graph.add("f", "sum", json!({}), &[c, d, e]);
        graph
    }

    fn description(&self, job: usize, outputs: &[Option<Outputs>]) -> Value {
        let inputs: Vec<Value> = self.jobs[job].deps.iter().map(|dep| json!(outputs[*dep].as_ref().expect("known"))).collect();
        json!({"kind": self.jobs[job].kind, "params": self.params[job], "inputs": inputs})
    }
}

impl Planner for Graph {
    fn key(&self, job: usize, outputs: &[Option<Outputs>]) -> Outcome<Digest> {
        if self.jobs[job].kind == "unplannable" {
            return Err(Fault::stage("no key"));
        }
        Ok(canon::digest(&self.description(job, outputs)))
    }

    fn prepare(&self, job: usize, outputs: &[Option<Outputs>]) -> Outcome<Prepared> {
        let described = &self.jobs[job];
        let inputs = described.deps.iter().enumerate().map(|(n, dep)| (format!("in{n}"), outputs[*dep].clone().expect("known")));
        let lineage = described.kind.starts_with("steps").then(|| canon::digest(&json!([described.kind, described.deps])));
        Ok(Prepared {
            task: Task {
                key: self.key(job, outputs)?,
                kind: described.kind.clone(),
                label: described.label.clone(),
                params: self.params[job].clone(),
                inputs: inputs.collect(),
                shorter: None,
                device: described.device.clone(),
                checkpoint_seconds: 0.0,
                memory: None,
            },
            manifest: self.description(job, outputs),
            lineage,
            extent: self.params[job].get("steps").and_then(Value::as_u64),
        })
    }
}

/// Runs the toy stages and counts how often each was started.
#[derive(Default)]
pub struct ToyRunner {
    pub started: Mutex<BTreeMap<String, usize>>,
    now: AtomicUsize,
    pub most: AtomicUsize,
    on_device: Mutex<BTreeMap<String, usize>>,
}

impl ToyRunner {
    pub fn started(&self) -> usize {
        self.started.lock().expect("not poisoned").values().sum()
    }

    fn number(host: &dyn Host, outputs: &Outputs) -> Outcome<u64> {
        let bytes = host.store().read(&outputs["value"])?;
        String::from_utf8_lossy(&bytes).parse().map_err(|_| Fault::stage("an input is not a number"))
    }

    fn finish(host: &dyn Host, value: u64) -> Outcome<Outputs> {
        Ok(BTreeMap::from([("value".to_owned(), host.store().put(value.to_string().as_bytes())?)]))
    }

    fn steps(task: &Task, host: &dyn Host) -> Outcome<Outputs> {
        let steps = task.params["steps"].as_u64().expect("a number");
        let pause = task.params.get("pause_ms").and_then(Value::as_u64).unwrap_or(0);
        let mut state: (u64, u64) = match host.store().load_checkpoint(&task.key) {
            Some(bytes) => {
                let tree: BTreeMap<String, ObjectRef> = serde_json::from_slice(&bytes).map_err(|e| Fault::stage(e.to_string()))?;
                serde_json::from_slice(&host.store().read(&tree["state"])?).map_err(|e| Fault::stage(e.to_string()))?
            }
            None => (0, 1),
        };
        host.report(Report::Log { warning: false, line: format!("from step {}", state.0) });
        while state.0 < steps {
            state = (state.0 + 1, state.1.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(state.0) % 1_000_003);
            let object = host.store().put(&serde_json::to_vec(&state).expect("plain data"))?;
            let manifest = serde_json::to_vec(&json!({"state": object})).expect("plain data");
            host.store().save_checkpoint(&task.key, &manifest, &[object])?;
            host.report(Report::Progress { done: state.0, total: steps, values: BTreeMap::new() });
            if host.stopping() {
                return Err(Fault::new(FaultKind::Interrupted, format!("stopped after step {}", state.0)));
            }
            std::thread::sleep(Duration::from_millis(pause));
        }
        Self::finish(host, state.1)
    }

    fn run_kind(&self, task: &Task, host: &dyn Host, nth: usize) -> Outcome<Outputs> {
        let param = |name: &str| task.params.get(name).and_then(Value::as_u64);
        match task.kind.as_str() {
            "number" => Self::finish(host, param("value").unwrap_or(0)),
            "sum" => {
                let mut sum = param("plus").unwrap_or(0);
                for outputs in task.inputs.values() {
                    sum += Self::number(host, outputs)?;
                }
                Self::finish(host, sum)
            }
            "parity" => Self::finish(host, Self::number(host, &task.inputs["in0"])? % 2),
            "steps" => Self::steps(task, host),
            "sleep" => {
                std::thread::sleep(Duration::from_millis(param("ms").unwrap_or(0)));
                Self::finish(host, param("ms").unwrap_or(0))
            }
            "fail" => Err(Fault::stage("it always fails").help("use another kind")),
            // Fails until its attempt of that number: attempts are counted in the store, so this works across processes.
            "flaky" => {
                if u64::from(host.store().attempts(&task.key)) < param("until").unwrap_or(1) {
                    return Err(Fault::stage("not yet"));
                }
                Self::finish(host, 7)
            }
            "panic" => panic!("value {} is odd", param("value").unwrap_or(0)),
            "abort" => std::process::abort(),
            "exit" => {
                eprintln!("out of luck");
                std::process::exit(3)
            }
            "noise" => {
                println!("this goes to standard output\n{{\"say\": 1}}");
                eprintln!("and this to standard error");
                Self::finish(host, 1)
            }
            "stubborn" => {
                let end = Instant::now() + Duration::from_millis(param("ms").unwrap_or(10_000));
                while Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Self::finish(host, 1)
            }
            "dice" => Self::finish(host, Digest::of(format!("{:?}{nth}{}", Instant::now(), std::process::id()).as_bytes()).0[0].into()),
            "hole" => Ok(BTreeMap::from([("value".to_owned(), ObjectRef { digest: Digest::of(b"never stored"), size: 12 })])),
            other => Err(Fault::stage(format!("no kind `{other}`"))),
        }
    }
}

impl Runner for ToyRunner {
    fn run(&self, task: &Task, host: &dyn Host) -> Outcome<Outputs> {
        let nth = {
            let mut started = self.started.lock().expect("not poisoned");
            let nth = started.entry(task.label.clone()).or_default();
            *nth += 1;
            *nth
        };
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        if task.device != CPU {
            let mut busy = self.on_device.lock().expect("not poisoned");
            let busy = busy.entry(task.device.clone()).or_default();
            *busy += 1;
            assert_eq!(*busy, 1, "two stages on one device");
        }
        let result = self.run_kind(task, host, nth);
        if task.device != CPU {
            *self.on_device.lock().expect("not poisoned").entry(task.device.clone()).or_default() -= 1;
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

/// What a run said and came to.
pub struct Ran {
    pub summary: Summary,
    pub events: Vec<Event>,
}

impl Ran {
    pub fn state(&self, job: usize) -> State {
        self.summary.states[job]
    }
    pub fn count(&self, state: State) -> usize {
        self.summary.states.iter().filter(|s| **s == state).count()
    }
    pub fn value(&self, store: &Store, job: usize) -> u64 {
        let object = self.summary.outputs[job].as_ref().expect("has outputs")["value"];
        String::from_utf8_lossy(&store.read(&object).expect("there")).parse().expect("a number")
    }
}

/// A store without fsync.
pub fn quick_store(root: &Path) -> Store {
    Store::open_with(root, Arc::new(Disk), false).expect("a store")
}

/// Runs a graph.
pub fn run(graph: &Graph, store: &Store, executor: &dyn Executor, settings: &Settings, interrupt: &Interrupt) -> Ran {
    let mut events = Vec::new();
    let schedule = Schedule { jobs: &graph.jobs, planner: graph, store, executor, settings, interrupt, history: None };
    let summary = schedule.run(&mut |event| events.push(event.clone())).expect("a sound graph");
    Ran { summary, events }
}

/// Runs a graph on threads of this process.
pub fn run_here(graph: &Graph, store: &Store, runner: &Arc<ToyRunner>, settings: &Settings) -> Ran {
    let executor = InProcess::new(store, Arc::clone(runner) as Arc<dyn Runner + Send>, &Budget::new(settings.slots), &[]);
    run(graph, store, &executor, settings, &Interrupt::new())
}
