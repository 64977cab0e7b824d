//! The scheduler and both executors: what is cached, what runs, what fails, and how a run stops.

mod toy;

use pflpipe::base::FaultKind;
use pflpipe::base::threads::Budget;
use pflpipe::exec::{ChildProcess, Event, Executor, Finish, InProcess, Interrupt, Schedule, Settings, State, WorkerCommand, trace, worker};
use pflpipe::stage::task::{Outputs, Report, Runner};
use pflpipe::store::{RunStart, RunStatus, Store};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use toy::{Graph, ToyRunner, quick_store, run, run_here};

/// Not a test: the other executor starts this program again with these arguments, and here it works as a worker.
#[test]
fn worker_entry() {
    if std::env::var_os("PFLPIPE_TEST_WORKER").is_none() {
        return;
    }
    let ticket = std::env::args().next_back().expect("the ticket is the last argument");
    let mut output = std::io::stdout();
    // The test harness has written the beginning of a line.
    writeln!(output).expect("open");
    let code = worker::main(Path::new(&ticket), &ToyRunner::default(), std::io::stdin(), output);
    std::process::exit(i32::from(code));
}

fn children(store: &Store) -> ChildProcess {
    let command = WorkerCommand {
        program: std::env::current_exe().expect("known"),
        arguments: ["worker_entry", "--exact", "--nocapture"].map(Into::into).to_vec(),
        environment: vec![("PFLPIPE_TEST_WORKER".into(), "1".into())],
    };
    ChildProcess::new(store, command, &[], 1)
}

fn threads(store: &Store, runner: &Arc<ToyRunner>, slots: usize) -> InProcess {
    InProcess::new(store, Arc::clone(runner) as Arc<dyn Runner + Send>, &Budget::new(slots), &[])
}

fn settings(slots: usize) -> Settings {
    Settings { slots, ..Settings::default() }
}

/// Runs a check with each executor on a fresh store.
fn with_both(check: impl Fn(&Store, &dyn Executor)) {
    for processes in [false, true] {
        let dir = tempfile::tempdir().expect("temporary folder");
        let store = quick_store(dir.path());
        if processes {
            check(&store, &children(&store));
        } else {
            check(&store, &threads(&store, &Arc::default(), 2));
        }
        let left = std::fs::read_dir(dir.path().join("tmp")).expect("listable").count();
        assert_eq!(left, 0, "no temporary file stays");
    }
}

#[test]
fn a_graph_runs_once_and_is_cached_after() {
    with_both(|store, executor| {
        let graph = Graph::six(1);
        let first = run(&graph, store, executor, &settings(2), &Interrupt::new());
        assert_eq!(first.count(State::Done), 6, "{:?}", first.summary.faults);
        assert_eq!((first.value(store, 2), first.value(store, 4)), (3, 15));
        let second = run(&graph, store, executor, &settings(2), &Interrupt::new());
        assert_eq!(second.count(State::Cached), 6);
        assert_eq!(first.summary.outputs, second.summary.outputs);
        assert!(second.summary.fault().is_none());
    });
}

#[test]
fn an_equal_output_stops_the_wave() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let runner = Arc::new(ToyRunner::default());
    let graph = |value: u64| {
        let mut graph = Graph::default();
        let a = graph.add("a", "number", json!({"value": value}), &[]);
        let b = graph.add("b", "parity", json!({}), &[a]);
        let c = graph.add("c", "sum", json!({}), &[b]);
        graph.add("d", "sum", json!({"plus": 1}), &[c]);
        graph
    };
    run_here(&graph(3), &store, &runner, &settings(1));
    let second = run_here(&graph(5), &store, &runner, &settings(1));
    assert_eq!(second.summary.states, [State::Done, State::Done, State::Cached, State::Cached]);
    assert_eq!(runner.started(), 6);
}

#[test]
fn a_failure_blocks_what_needs_it_and_keep_going_runs_the_rest() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        let bad = graph.add("bad", "fail", json!({}), &[]);
        let needs = graph.add("needs", "sum", json!({}), &[bad]);
        let last = graph.add("last", "sum", json!({}), &[needs]);
        let other = graph.add("other", "number", json!({"value": 1}), &[]);
        let stopped = run(&graph, store, executor, &settings(1), &Interrupt::new());
        assert_eq!(stopped.summary.states, [State::Failed, State::Blocked, State::Blocked, State::Ready]);
        let going = Settings { keep_going: true, ..settings(1) };
        let ran = run(&graph, store, executor, &going, &Interrupt::new());
        assert_eq!((ran.state(last), ran.state(other)), (State::Blocked, State::Done));
        let fault = ran.summary.fault().expect("one failed");
        assert_eq!((fault.kind, fault.to_string().as_str()), (FaultKind::Stage, "bad: it always fails"));
        assert_eq!(fault.help.as_deref(), Some("use another kind"));
        assert!(ran.events.iter().any(|e| matches!(e, Event::Blocked { job, by, .. } if *job == last && *by == bad)));
        let key = ran.summary.keys[bad].expect("known");
        assert_eq!(store.failures(&key).len(), 2, "every failed attempt is on record");
        assert_eq!(store.lookup(&key), None, "and none is a hit");
    });
}

#[test]
fn a_flaky_stage_is_repeated_as_often_as_allowed() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        let job = graph.add("flaky", "flaky", json!({"until": 3}), &[]);
        graph.jobs[job].retries = 2;
        let ran = run(&graph, store, executor, &settings(1), &Interrupt::new());
        assert_eq!(ran.state(job), State::Done);
        let retries = ran.events.iter().filter(|e| matches!(e, Event::Failed { retry: true, .. })).count();
        assert_eq!((retries, store.attempts(&ran.summary.keys[job].expect("known"))), (2, 3));
        let mut graph = Graph::default();
        let job = graph.add("flaky", "flaky", json!({"until": 9}), &[]);
        graph.jobs[job].retries = 1;
        assert_eq!(run(&graph, store, executor, &settings(1), &Interrupt::new()).state(job), State::Failed);
    });
}

#[test]
fn a_stage_that_times_out_fails_and_continues_from_its_checkpoint() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        let job = graph.add("slow", "steps", json!({"steps": 40, "pause_ms": 10}), &[]);
        graph.jobs[job].timeout = Some(Duration::from_millis(120));
        let ran = run(&graph, store, executor, &settings(1), &Interrupt::new());
        assert_eq!(ran.state(job), State::Failed);
        let fault = ran.summary.fault().expect("it failed");
        assert!(fault.kind == FaultKind::Stage && fault.what.contains("timed out after 120 ms"), "{fault}");
        graph.jobs[job].timeout = None;
        let ran = run(&graph, store, executor, &settings(1), &Interrupt::new());
        assert_eq!(ran.state(job), State::Done);
        let key = ran.summary.keys[job].expect("known");
        let log = store.log(&key, 2).expect("there");
        assert!(log.contains("from step ") && !log.contains("from step 0"), "{log}");
        assert_eq!(store.load_checkpoint(&key), None, "a finished stage needs none");
    });
}

#[test]
fn a_stage_that_does_not_stop_is_given_up() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        let job = graph.add("stubborn", "stubborn", json!({"ms": 4000}), &[]);
        graph.jobs[job].timeout = Some(Duration::from_millis(50));
        let begun = Instant::now();
        let ran = run(&graph, store, executor, &Settings { grace: Duration::from_millis(50), ..settings(1) }, &Interrupt::new());
        assert!(begun.elapsed() < Duration::from_millis(3500), "{:?}", begun.elapsed());
        assert!(ran.state(job) == State::Failed && ran.summary.fault().expect("failed").what.contains("timed out"));
        // The next run waits for what was left behind, or runs the stage again after it was killed.
        graph.jobs[job].timeout = None;
        let ran = run(&graph, store, executor, &settings(1), &Interrupt::new());
        assert!(ran.state(job).has_outputs());
    });
}

#[test]
fn a_panic_is_the_failure_of_its_stage_alone() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        let bad = graph.add("bad", "panic", json!({"value": 3}), &[]);
        let good = graph.add("good", "number", json!({"value": 1}), &[]);
        let ran = run(&graph, store, executor, &Settings { keep_going: true, ..settings(1) }, &Interrupt::new());
        assert_eq!((ran.state(bad), ran.state(good)), (State::Failed, State::Done));
        let fault = ran.summary.fault().expect("it failed");
        assert!(fault.what.contains("panicked at") && fault.what.contains("value 3 is odd"), "{fault}");
    });
}

#[test]
fn a_worker_that_dies_takes_nothing_along() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let mut graph = Graph::default();
    let abort = graph.add("abort", "abort", json!({}), &[]);
    let exit = graph.add("exit", "exit", json!({}), &[]);
    let noise = graph.add("noise", "noise", json!({}), &[]);
    let ran = run(&graph, &store, &children(&store), &Settings { keep_going: true, ..settings(2) }, &Interrupt::new());
    assert_eq!((ran.state(abort), ran.state(exit), ran.state(noise)), (State::Failed, State::Failed, State::Done));
    assert!(ran.summary.faults[&abort].what.contains("was killed by signal 6"), "{}", ran.summary.faults[&abort]);
    let fault = &ran.summary.faults[&exit];
    assert!(fault.what.contains("exit code 3") && fault.what.contains("out of luck"), "{fault}");
    assert_eq!(store.failures(&ran.summary.keys[exit].expect("known")).len(), 1);
    let heard =
        |text: &str| ran.events.iter().any(|e| matches!(e, Event::Report { report: Report::Log { line, .. }, .. } if line.contains(text)));
    assert!(heard("and this to standard error"));
    assert!(store.log(&ran.summary.keys[noise].expect("known"), 1).expect("there").contains("and this to standard error"));
}

#[test]
fn a_program_that_is_not_there_is_a_device_fault() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let command = WorkerCommand { program: dir.path().join("nothing"), arguments: vec![], environment: vec![] };
    let ran = run(&Graph::six(1), &store, &ChildProcess::new(&store, command, &[], 1), &settings(1), &Interrupt::new());
    assert_eq!(ran.summary.fault().expect("it failed").kind, FaultKind::Device);
}

#[test]
fn a_worker_without_its_inputs_says_so() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let fault = {
        let mut graph = Graph::default();
        let a = graph.add("a", "number", json!({"value": 41}), &[]);
        graph.add("b", "sum", json!({}), &[a]);
        let ran = run_here(&graph, &store, &Arc::default(), &settings(1));
        let order = pflpipe::exec::Order {
            task: pflpipe::exec::Planner::prepare(&graph, 1, &ran.summary.outputs).expect("known").task,
            stage: "b".to_owned(),
            coords: BTreeMap::new(),
            manifest: json!(null),
            lineage: None,
            extent: None,
            run: String::new(),
            force: false,
        };
        let other = dir.path().join("other");
        let ticket = worker::Ticket { order, store: other, durable: false, data_dirs: vec![], threads: 1 };
        let path = dir.path().join("ticket");
        std::fs::write(&path, serde_json::to_vec(&ticket).expect("plain data")).expect("writable");
        let mut output = Vec::new();
        assert_eq!(worker::main(&path, &ToyRunner::default(), std::io::empty(), &mut output), 75);
        String::from_utf8(output).expect("text")
    };
    assert!(fault.contains("not in the store yet"), "{fault}");
    assert_eq!(worker::main(Path::new("/nowhere"), &ToyRunner::default(), std::io::empty(), std::io::sink()), 4);
}

#[test]
fn a_device_that_is_not_there_stops_before_anything_runs() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let runner = Arc::new(ToyRunner::default());
    let mut graph = Graph::six(1);
    graph.jobs[5].device = "cuda:1".to_owned();
    let settings = Settings { devices: vec!["cuda:0".to_owned()], ..settings(1) };
    let executor = threads(&store, &runner, 1);
    let interrupt = Interrupt::new();
    let schedule = Schedule {
        jobs: &graph.jobs,
        planner: &graph,
        store: &store,
        executor: &executor,
        settings: &settings,
        interrupt: &interrupt,
        history: None,
    };
    let fault = schedule.run(&mut |_| {}).expect_err("no such device");
    assert!(fault.kind == FaultKind::Device && fault.what.contains("`cuda:1`"), "{fault}");
    assert_eq!(runner.started(), 0);
}

#[test]
fn each_device_runs_one_stage_at_a_time_beside_the_cpu() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let runner = Arc::new(ToyRunner::default());
    let mut graph = Graph::default();
    for n in 0..12 {
        let job = graph.add(&format!("s{n}"), "sleep", json!({"ms": 150 + n}), &[]);
        graph.jobs[job].device = ["cpu", "cuda:0", "cuda:1"][n % 3].to_owned();
    }
    let devices = vec!["cuda:0".to_owned(), "cuda:1".to_owned()];
    let ran = run_here(&graph, &store, &runner, &Settings { devices, ..settings(1) });
    assert_eq!(ran.count(State::Done), 12, "{:?}", ran.summary.faults);
    assert_eq!(runner.most.load(Ordering::SeqCst), 3, "one on each at the same time");
    let time_line = trace::chrome(&ran.summary, &graph.jobs);
    let rows = time_line["traceEvents"].as_array().expect("a list");
    assert_eq!(rows.iter().filter(|e| e["ph"] == "M").count(), 3);
    assert_eq!(rows.iter().filter(|e| e["ph"] == "X").count(), 12);
}

#[test]
fn slots_bound_how_many_run_at_a_time() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    for slots in [1, 3] {
        let runner = Arc::new(ToyRunner::default());
        let mut graph = Graph::default();
        for n in 0..9 {
            graph.add(&format!("s{n}"), "sleep", json!({"ms": 15, "n": n, "slots": slots}), &[]);
        }
        run_here(&graph, &store, &runner, &settings(slots));
        assert_eq!(runner.most.load(Ordering::SeqCst), slots);
    }
}

#[test]
fn the_first_interrupt_checkpoints_and_the_next_run_continues() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        let slow = graph.add("slow", "steps", json!({"steps": 60, "pause_ms": 10}), &[]);
        let after = graph.add("after", "sum", json!({}), &[slow]);
        let interrupt = Interrupt::new();
        let signal = interrupt.clone();
        let mut seen = 0;
        let mut sink = |event: &Event| {
            if matches!(event, Event::Report { report: Report::Progress { .. }, .. }) {
                seen += 1;
                if seen == 3 {
                    signal.raise(seen > 100);
                }
            }
        };
        let settings = settings(1);
        let schedule =
            Schedule { jobs: &graph.jobs, planner: &graph, store, executor, settings: &settings, interrupt: &interrupt, history: None };
        let summary = schedule.run(&mut sink).expect("a sound graph");
        assert_eq!(summary.states, [State::Interrupted, State::Unknown]);
        assert_eq!(summary.fault().expect("interrupted").kind, FaultKind::Interrupted);
        let key = summary.keys[slow].expect("known");
        assert!(store.load_checkpoint(&key).is_some() && store.failures(&key).is_empty());
        let ran = run(&graph, store, executor, &settings, &Interrupt::new());
        assert_eq!(ran.state(after), State::Done);
        assert!(!store.log(&key, 2).expect("there").contains("from step 0"));
        // The same bits as without an interruption.
        let dir = tempfile::tempdir().expect("temporary folder");
        let other = quick_store(dir.path());
        let whole = run_here(&graph, &other, &Arc::default(), &settings);
        assert_eq!(whole.summary.outputs, ran.summary.outputs);
    });
}

#[test]
fn the_second_interrupt_does_not_wait() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        graph.add("stubborn", "stubborn", json!({"ms": 4000}), &[]);
        let interrupt = Interrupt::new();
        let signal = interrupt.clone();
        let begun = Instant::now();
        let mut sink = |event: &Event| {
            if matches!(event, Event::Started { .. }) {
                signal.raise(true);
                signal.raise(true);
                signal.raise(true);
            }
        };
        let settings = settings(1);
        let schedule =
            Schedule { jobs: &graph.jobs, planner: &graph, store, executor, settings: &settings, interrupt: &interrupt, history: None };
        let summary = schedule.run(&mut sink).expect("a sound graph");
        assert!(begun.elapsed() < Duration::from_millis(3500), "{:?}", begun.elapsed());
        assert_eq!(summary.fault().expect("interrupted").kind, FaultKind::Terminated);
        // Let what was left behind end before its folder goes.
        std::thread::sleep(Duration::from_millis(4200).saturating_sub(begun.elapsed()));
    });
}

#[test]
fn two_runs_on_one_store_do_each_stage_once() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let runner = Arc::new(ToyRunner::default());
    let graph = || {
        let mut graph = Graph::six(1);
        for n in 0..6 {
            graph.add(&format!("s{n}"), "sleep", json!({"ms": 20, "n": n}), &[]);
        }
        graph
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let store = quick_store(dir.path());
                    run_here(&graph(), &store, &runner, &settings(2)).summary
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().expect("no panic")).collect()
    });
    assert_eq!(runner.started(), 12, "{:?}", runner.started);
    for summary in &results {
        assert!(summary.states.iter().all(|s| s.has_outputs()));
        assert_eq!(summary.outputs, results[0].outputs);
    }
}

#[test]
fn equal_stages_of_one_graph_run_once() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let runner = Arc::new(ToyRunner::default());
    let mut graph = Graph::default();
    for n in 0..4 {
        graph.add(&format!("same{n}"), "sleep", json!({"ms": 30}), &[]);
    }
    let ran = run_here(&graph, &store, &runner, &settings(4));
    assert_eq!((runner.started(), ran.count(State::Done), ran.count(State::Cached)), (1, 1, 3));
}

#[test]
fn a_forced_stage_runs_again_and_a_different_result_is_found() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        let fine = graph.add("fine", "number", json!({"value": 5}), &[]);
        let dice = graph.add("dice", "dice", json!({}), &[]);
        let first = run(&graph, store, executor, &settings(1), &Interrupt::new());
        graph.jobs[fine].force = true;
        graph.jobs[dice].force = true;
        // One in 256 throws is equal by chance.
        let mut differed = false;
        for _ in 0..5 {
            let again = run(&graph, store, executor, &settings(1), &Interrupt::new());
            assert_eq!(again.count(State::Done), 2);
            assert_eq!(again.summary.outputs, first.summary.outputs, "the first result holds");
            differed |= again.events.iter().any(|e| matches!(e, Event::Warning { line } if line.contains("another result")));
        }
        assert!(differed);
        let strict = Settings { strict: true, keep_going: true, ..settings(1) };
        let found = (0..5).find_map(|_| run(&graph, store, executor, &strict, &Interrupt::new()).summary.fault());
        assert_eq!(found.expect("found").kind, FaultKind::NonDeterminism);
    });
}

#[test]
fn an_output_that_was_never_stored_is_a_failure() {
    with_both(|store, executor| {
        let mut graph = Graph::default();
        let job = graph.add("hole", "hole", json!({}), &[]);
        let ran = run(&graph, store, executor, &settings(1), &Interrupt::new());
        assert!(ran.summary.faults[&job].what.contains("not in the store"));
        assert_eq!(store.lookup(&ran.summary.keys[job].expect("known")), None);
    });
}

#[test]
fn a_stage_without_a_key_fails_alone() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let mut graph = Graph::default();
    let bad = graph.add("bad", "unplannable", json!({}), &[]);
    let good = graph.add("good", "number", json!({"value": 1}), &[]);
    let ran = run_here(&graph, &store, &Arc::default(), &Settings { keep_going: true, ..settings(1) });
    assert_eq!((ran.state(bad), ran.state(good)), (State::Failed, State::Done));
}

/// Overwrites every object with as many other bytes, which no look at sizes can tell.
fn damage(store: &Store, outputs: &[Option<Outputs>]) {
    for object in outputs.iter().flatten().map(|o| o["value"]) {
        let hex = object.digest.hex();
        let path = store.root().join("cas").join(&hex[..2]).join(&hex[2..]);
        if path.exists() {
            std::fs::remove_file(&path).expect("removable");
            std::fs::write(&path, vec![b'x'; usize::try_from(object.size).expect("small")]).expect("writable");
        }
    }
}

#[test]
fn damaged_results_are_made_anew_by_the_run_that_reads_them() {
    with_both(|store, executor| {
        let graph = |plus: u64| {
            let mut graph = Graph::default();
            let a = graph.add("a", "number", json!({"value": 3}), &[]);
            let b = graph.add("b", "sum", json!({"plus": 1}), &[a]);
            for n in 0..4 {
                graph.add(&format!("c{n}"), "sum", json!({"plus": plus + n}), &[b, b]);
            }
            graph
        };
        let first = run(&graph(10), store, executor, &settings(2), &Interrupt::new());
        damage(store, &first.summary.outputs);
        // Both a and b are found; what reads b finds out, and b in turn that a is damaged, too.
        let second = run(&graph(100), store, executor, &settings(2), &Interrupt::new());
        assert_eq!(second.count(State::Done), 6, "{:?}", second.summary.faults);
        assert_eq!(second.summary.outputs[..2], first.summary.outputs[..2]);
        assert_eq!(second.value(store, 5), 4 + 4 + 103);
        let anew = |e: &&Event| matches!(e, Event::Warning { line } if line.contains("it is made anew"));
        assert_eq!(second.events.iter().filter(anew).count(), 2);
        assert!(second.summary.fault().is_none());
        let third = run(&graph(100), store, executor, &settings(2), &Interrupt::new());
        assert_eq!(third.count(State::Cached), 6);
    });
}

#[test]
fn damage_found_in_a_store_is_repaired_by_the_next_run() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let graph = Graph::six(1);
    let first = run_here(&graph, &store, &Arc::default(), &settings(1));
    damage(&store, &first.summary.outputs);
    assert!(!store.verify(1.0).damaged.is_empty());
    let again = run_here(&graph, &store, &Arc::default(), &settings(1));
    assert_eq!(again.count(State::Done), 6);
    assert_eq!(again.summary.outputs, first.summary.outputs);
    assert!(again.events.iter().any(|e| matches!(e, Event::Warning { line } if line.contains("missing or truncated"))));
}

#[test]
fn the_history_of_a_run_keeps_its_keys_and_its_progress() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let graph = Graph::six(1);
    let executor = threads(&store, &Arc::default(), 1);
    let (settings, interrupt) = (settings(1), Interrupt::new());
    let history = store.begin_run(&RunStart { pipeline: "six".to_owned(), ..RunStart::default() }).expect("writable");
    let schedule = Schedule {
        jobs: &graph.jobs,
        planner: &graph,
        store: &store,
        executor: &executor,
        settings: &settings,
        interrupt: &interrupt,
        history: Some(&history),
    };
    let summary = schedule.run(&mut |_| {}).expect("a sound graph");
    let counts = summary.counts().into_iter().map(|(s, n)| (format!("{s:?}").to_lowercase(), n as u64)).collect();
    let info = history.finish(RunStatus::Done, counts).expect("writable");
    let events: Vec<Event> = store.run_events(&info.id).into_iter().map(|v| serde_json::from_value(v).expect("an event")).collect();
    assert_eq!(events.iter().filter(|e| matches!(e, Event::Done { .. })).count(), 6);
    assert!(events.iter().any(|e| matches!(e, Event::Report { .. })));
    assert!(matches!(events.last(), Some(Event::End { .. })));
    let record = store.record(&summary.keys[3].expect("known")).expect("readable").expect("there");
    assert_eq!((record.run.as_str(), record.stage.as_str(), record.attempt, record.extent), (info.id.as_str(), "d", 1, Some(4)));
    assert_eq!(record.manifest["params"], json!({"steps": 4}));
}

#[test]
fn a_longer_stage_is_handed_the_longest_shorter_result() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let store = quick_store(dir.path());
    let graph = |steps: u64| {
        let mut graph = Graph::default();
        graph.add("s", "steps", json!({"steps": steps}), &[]);
        graph
    };
    let ten = run_here(&graph(10), &store, &Arc::default(), &settings(1));
    struct Spy(std::sync::Mutex<Option<pflpipe::stage::task::Outputs>>);
    impl Runner for Spy {
        fn run(
            &self,
            task: &pflpipe::stage::task::Task,
            host: &dyn pflpipe::stage::task::Host,
        ) -> pflpipe::base::Outcome<pflpipe::stage::task::Outputs> {
            *self.0.lock().expect("not poisoned") = task.shorter.clone();
            ToyRunner::default().run(task, host)
        }
    }
    let spy = Arc::new(Spy(std::sync::Mutex::new(None)));
    let executor = InProcess::new(&store, Arc::clone(&spy) as Arc<dyn Runner + Send>, &Budget::new(1), &[]);
    run(&graph(20), &store, &executor, &settings(1), &Interrupt::new());
    assert_eq!(*spy.0.lock().expect("not poisoned"), ten.summary.outputs[0]);
}

#[test]
fn finishes_are_plain_data() {
    let text = serde_json::to_string(&Finish::Busy).expect("plain data");
    assert_eq!(serde_json::from_str::<Finish>(&text).expect("same format"), Finish::Busy);
}
