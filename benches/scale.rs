//! Many clients: memory and time of a round: `cargo bench --bench scale`.
//!
//! 10,000 clients with 50 images each (drawn from one data set, so that clients share some), 100 of them in a round, 100 rounds, PFLlib's
//! CNN on 1x28x28 images, batch 10, one epoch, evaluated before the first and after the last round. Beside it the same number of images a
//! round at 20 clients that all take part. Each runs in a process of its own; what is printed is the greatest resident memory of the
//! process, the size of the file in which clients without room in memory lie, the processor and wall seconds of a median round, and the
//! seconds of all rounds by what they were spent on. The last lines are 500 clients on CIFAR-10, all in every round; PFLlib says that such a
//! simulation (on CIFAR-100) takes 5.08 GB of a GPU. Images are the data set's where a data folder (`PFLPIPE_DATA` or `../shared/data`) has
//! it, else noise of their shape.
//!
//! Arguments are lines of the table: `ALGORITHM:DATA:CLIENTS:IMAGES:COHORT:ROUNDS:LIMIT`, with the limit of memory in MiB; none are the default
//! ones.

use pflpipe::algorithms;
use pflpipe::base::Outcome;
use pflpipe::base::random::{Purpose, stream, unit};
use pflpipe::base::threads::Budget;
use pflpipe::data::{self, Bytes, Client, Dataset, Origin, Samples, Shape};
use pflpipe::engine::Model;
use pflpipe::fl::meter::Work;
use pflpipe::fl::{History, Monitor, Seeded, Settings, World};
use pflpipe::models;
use pflpipe::spec::catalog::Default;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: pflpipe::engine::simd::Aligned = pflpipe::engine::simd::Aligned;

/// In the process that measures one line, that line.
const LINE: &str = "PFLPIPE_SCALE_LINE";
const DEFAULT: [&str; 9] = [
    "fedavg:fashion-mnist:20:250:20:20:4096",
    "fedavg:fashion-mnist:10000:50:100:100:4096",
    "fedper:fashion-mnist:20:250:20:20:4096",
    "fedper:fashion-mnist:10000:50:100:100:4096",
    "ditto:fashion-mnist:20:250:20:20:4096",
    "ditto:fashion-mnist:10000:50:100:100:4096",
    "fedavg:cifar10:500:90:500:2:4096",
    "fedper:cifar10:500:90:500:2:4096",
    "ditto:cifar10:500:90:500:2:4096",
];

/// Marks the clocks after each round, and has a file.
#[derive(Default)]
struct Watch {
    marks: Vec<(f64, Instant)>,
    shelf: Option<File>,
}

impl Monitor for Watch {
    fn progress(&mut self, _: u64, _: u64, _: &History) {
        self.marks.push((busy(), Instant::now()));
    }
    fn shelf(&mut self) -> Outcome<Option<File>> {
        let folder = std::env::var_os("TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let file = tempfile::tempfile_in(folder).expect("a temporary file");
        self.shelf = file.try_clone().ok();
        Ok(Some(file))
    }
    fn conclude(&mut self, _: &mut dyn pflpipe::fl::checkpoint::Parts) -> Outcome<pflpipe::fl::checkpoint::Snapshot> {
        Ok(pflpipe::fl::checkpoint::Snapshot::default())
    }
}

/// Processor seconds of this process where the system tells.
fn busy() -> f64 {
    let line = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may hold spaces.
    let fields: Vec<&str> = line.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The greatest resident memory of this process so far, in MiB; 0 where the system does not tell.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// The default hyper-parameters of an algorithm.
fn defaults(name: &str) -> Map<String, Value> {
    let registry = algorithms::all();
    let fields = &registry.get(name).expect("a known algorithm").description.fields;
    let given = fields.iter().filter_map(|f| if let Default::Is(value) = &f.default { Some((f.name, value.clone())) } else { None });
    given.chain([("name", json!(name))]).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn images(name: &str) -> Arc<Dataset> {
    let folder =
        std::env::var_os("PFLPIPE_DATA").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let params = json!({"verify": false});
    if let Ok(data) = data::load(name, params.as_object().expect("a map"), &[folder]) {
        return Arc::new(data);
    }
    let (channels, side) = if name == "cifar10" { (3, 32) } else { (1, 28) };
    let (count, shape) = (20_000, Shape { channels, height: side, width: side });
    let mut rng = stream(1, Purpose::Noise, 0, 0, 0);
    let values = (0..count * shape.numel()).flat_map(|_| (unit(&mut rng) as f32 * 2.0 - 1.0).to_le_bytes()).collect();
    let labels = (0..count as u32).map(|i| i % 10).collect();
    let samples = Samples::F32(Bytes::new(Arc::new(values), 0));
    Arc::new(Dataset::new("noise", shape, 10, samples, labels, count, Origin::default()).expect("a valid data set"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Runs one line of the table and prints it.
fn measure(line: &str) {
    let parts: Vec<&str> = line.split(':').collect();
    let [name, images_of, numbers @ ..] = &parts[..] else { panic!("`{line}` has no data") };
    let numbers: Vec<usize> = numbers.iter().map(|n| n.parse().expect("a number")).collect();
    let [clients, each, cohort, rounds, limit] = numbers[..] else { panic!("`{line}` has not five numbers") };
    let data = images(images_of);
    let network = models::build("cnn", &Map::new(), data.shape(), 10).expect("the images fit");
    let initial = Model::init(Arc::new(network), &mut stream(3, Purpose::Initialisation, 0, 0, 0));
    let all = data.len();
    let shard = |id: usize| {
        let own = |from: usize, count: usize| (from..from + count).map(|i| (i * 7919 % all) as u32).collect();
        Client { train: own(id * (each + 10), each), test: own(id * (each + 10) + each, 10) }
    };
    let settings = json!({"rounds": rounds, "eval_every": rounds, "train_loss": "off", "join_ratio": cohort as f64 / clients as f64});
    let settings: Settings = serde_json::from_value(settings).expect("the settings fit");
    let streams = Box::new(Seeded { sampling: 1, batches: 2 });
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shards = (0..clients).map(shard).collect();
    let mut world = World::new(initial, data, shards, settings, streams, Budget::new(threads)).expect("a valid world");
    world.memory = Some((limit as u64) << 20);
    let _permit = world.budget.acquire();
    let mut watch = Watch::default();
    let run = algorithms::all().build(&defaults(name)).expect("the defaults fit").simulate(&world, &mut watch).expect("it runs");
    let busy = median(watch.marks.windows(2).map(|pair| pair[1].0 - pair[0].0).collect());
    let wall = median(watch.marks.windows(2).map(|pair| (pair[1].1 - pair[0].1).as_secs_f64()).collect());
    let file = watch.shelf.and_then(|file| file.metadata().ok()).map_or(0, |metadata| metadata.len());
    let accuracy = run.history.series("test_accuracy").last().map_or(f64::NAN, |(_, value)| *value);
    print!("{line:43} {:8.0} {:8.0} {busy:8.3} {wall:8.3} {accuracy:7.3}  ", peak(), file as f64 / 1048576.0);
    for work in Work::ALL {
        print!(" {:9.2}", world.meter.seconds(work));
    }
    println!();
}

fn main() {
    // As the program does.
    pflpipe::engine::simd::Aligned::give_back_large();
    if let Ok(line) = std::env::var(LINE) {
        return measure(&line);
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let lines = if wanted.is_empty() { DEFAULT.map(str::to_owned).to_vec() } else { wanted };
    print!("line                                         MiB res MiB file    cpu s   wall s   acc.  ");
    Work::ALL.iter().for_each(|work| print!(" {:>9}", work.name()));
    println!();
    let program = std::env::current_exe().expect("this program has a path");
    for line in lines {
        let status = std::process::Command::new(&program).env(LINE, &line).status().expect("this program can be started");
        assert!(status.success(), "`{line}` failed");
    }
}
