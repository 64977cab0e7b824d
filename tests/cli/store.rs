//! Trouble with the store: said clearly where it stops the run, repaired where it does not.

use crate::space::{STAGES, Space};
use std::fs;

fn make_writable(path: &std::path::Path) {
    let mut permissions = fs::metadata(path).expect("it is there").permissions();
    #[expect(clippy::permissions_set_readonly_false, reason = "the file is in a temporary folder")]
    permissions.set_readonly(false);
    fs::set_permissions(path, permissions).expect("ours");
}

#[test]
fn a_store_that_cannot_be_written_stops_the_run_before_it_starts() {
    let space = Space::new();
    space.write("file", "not a folder");
    space.run(&["run", "small.yaml", "--cache", "file"]).fails(4, &["error: ", "`", "help: "]);
    space.run(&["run", "small.yaml", "--cache", "file/below"]).fails(4, &["error: "]);
    space.run(&["run", "small.yaml", "--cache", "/proc/pflpipe"]).fails(4, &["error: ", "/proc/pflpipe"]);
}

#[test]
fn a_newer_store_is_refused() {
    let space = Space::new();
    space.run(&["run", "small.yaml"]).ok();
    fs::write(space.path("cache/version"), "99\n").expect("writable");
    for arguments in [&["run", "small.yaml"][..], &["plan", "small.yaml"], &["cache", "info"]] {
        space.run(arguments).fails(4, &["error: ", "99", "help: "]);
    }
}

#[test]
fn damaged_records_objects_and_indices_are_run_again() {
    let space = Space::new();
    let want = space.run(&["run", "small.yaml"]).ok();

    let records = space.files("cache/rec");
    make_writable(&records[0]);
    fs::write(&records[0], "nonsense").expect("writable");
    let done = space.run(&["run", "small.yaml"]);
    assert!(done.err.contains("warning: ") && done.err.contains("1 executed, 8 cached"), "{}", done.err);
    assert_eq!(done.ok(), want);

    let objects = space.files("cache/cas");
    let largest = objects.iter().max_by_key(|path| fs::metadata(path).expect("it is there").len()).expect("objects");
    make_writable(largest);
    fs::write(largest, "cut").expect("writable");
    let done = space.run(&["run", "small.yaml"]);
    assert!(done.err.contains("warning: ") && !done.err.contains("0 executed"), "{}", done.err);
    assert_eq!(done.ok(), want);

    fs::write(space.path("cache/index.sqlite"), "this is not SQLite").expect("writable");
    let done = space.run(&["run", "small.yaml"]);
    assert!(done.err.contains(&format!("0 executed, {STAGES} cached")), "{}", done.err);
    assert_eq!(done.ok(), want);
}

#[test]
fn damage_that_keeps_the_size_is_healed_by_the_run_that_meets_it() {
    let space = Space::new();
    let want = space.run(&["run", "small.yaml"]).ok();
    for arguments in [&["run", "small.yaml"][..], &["run", "small.yaml", "--executor", "child", "--set", "rounds=3"]] {
        for object in space.files("cache/cas") {
            make_writable(&object);
            let mut bytes = fs::read(&object).expect("readable");
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            fs::write(&object, bytes).expect("writable");
        }
        let done = space.run(arguments);
        assert!(done.err.contains("damaged"), "{}", done.err);
        done.ok();
    }
    assert_eq!(space.run(&["run", "small.yaml"]).ok(), want);
    assert!(space.run(&["cache", "verify"]).ok().contains("all is well"));
}

#[test]
fn running_again_replaces_damaged_objects() {
    let space = Space::new();
    let want = space.run(&["run", "small.yaml"]).ok();
    for object in space.files("cache/cas") {
        make_writable(&object);
        let mut bytes = fs::read(&object).expect("readable");
        bytes[0] ^= 1;
        fs::write(&object, bytes).expect("writable");
    }
    let done = space.run(&["run", "small.yaml", "-f", "data", "-f", "split", "-f", "net", "-f", "run"]);
    assert!(done.err.contains(&format!("{STAGES} executed")), "{}", done.err);
    assert_eq!(done.ok(), want);
    assert!(space.run(&["cache", "verify"]).ok().contains("all is well"));
}

#[test]
fn a_folder_of_something_else_does_not_become_a_store() {
    let space = Space::new();
    let before = space.files(".").len();
    space.run(&["run", "small.yaml", "--cache", "."]).fails(4, &["is not a store, and not empty: it holds `small.yaml`", "--cache DIR"]);
    assert_eq!(space.files(".").len(), before);
    fs::create_dir(space.path("empty")).expect("writable");
    space.run(&["run", "small.yaml", "--cache", "empty"]).ok();
}

#[test]
fn a_table_leaves_damaged_results_out_and_says_so() {
    let space = Space::new();
    space.run(&["run", "small.yaml"]).ok();
    let listed = space.run(&["cache", "ls", "--kind", "train", "--output", "json"]).json();
    let metrics = listed[0]["record"]["outputs"]["metrics"]["digest"].as_str().expect("a digest").to_owned();
    let object = space.path(&format!("cache/cas/{}/{}", &metrics[..2], &metrics[2..]));
    make_writable(&object);
    let mut bytes = fs::read(&object).expect("readable");
    bytes[0] ^= 1;
    fs::write(&object, bytes).expect("writable");
    let done = space.run(&["table", "small.yaml"]);
    assert!(done.err.contains("1 result was damaged and left out"), "{}", done.err);
    done.ok();
}

#[test]
fn verify_finds_what_nobody_has_read() {
    let space = Space::new();
    space.run(&["run", "small.yaml"]).ok();
    assert!(space.run(&["cache", "verify"]).ok().contains("all is well"));
    let object = &space.files("cache/cas")[0];
    make_writable(object);
    let mut bytes = fs::read(object).expect("readable");
    bytes[0] ^= 1;
    fs::write(object, bytes).expect("writable");
    let done = space.run(&["cache", "verify"]);
    assert_eq!(done.code, 4);
    assert!(done.out.contains("damaged: "), "{}", done.out);
    assert!(!space.run(&["run", "small.yaml"]).err.contains(" 0 executed"));
    assert!(space.run(&["cache", "verify"]).ok().contains("all is well"));
}

#[test]
fn results_are_listed_pinned_moved_and_collected() {
    let space = Space::new();
    let want = space.run(&["run", "small.yaml"]).ok();
    assert_eq!(space.run(&["cache", "ls", "--output", "json"]).json().as_array().map(Vec::len), Some(STAGES));
    let info = space.run(&["cache", "info", "--output", "json"]).json();
    assert_eq!((&info["results"]["train"], &info["runs"]), (&4.into(), &1.into()));

    let key = space.run(&["cache", "ls", "--kind", "dataset", "--output", "quiet"]).ok().trim().to_owned();
    space.run(&["cache", "pin", &key, "--note", "for the paper"]).ok();
    assert!(space.run(&["cache", "ls"]).ok().contains("pinned: for the paper"));
    space.run(&["cache", "unpin", &key]).ok();
    space.run(&["cache", "ls", "--kind", "trian"]).fails(2, &["`trian` is not a kind of stages", "did you mean `train`?"]);
    space.run(&["cache", "pin", "zz"]).fails(2, &["no result has a key that begins with `zz`"]);

    assert!(space.run(&["cache", "export", "all.tar"]).ok().contains("9 results"));
    assert!(space.run(&["cache", "import", "all.tar", "--cache", "other"]).ok().contains("9 new"));
    assert!(space.run(&["cache", "import", "all.tar", "--cache", "other"]).ok().contains("0 new, 9 there already"));
    let done = space.run(&["run", "small.yaml", "--cache", "other"]);
    assert!(done.err.contains("0 executed"), "{}", done.err);
    assert_eq!(done.ok(), want);

    assert!(space.run(&["cache", "gc", "--dry-run"]).ok().contains("would free"));
    space.run(&["cache", "gc"]).ok();
    assert!(space.run(&["run", "small.yaml"]).err.contains("0 executed"), "the last runs keep their results");
    space.run(&["cache", "rebuild-index"]).ok();
    space.run(&["cache", "info", "--cache", "nowhere"]).fails(4, &["there is no store at `nowhere`"]);
    assert!(!space.path("nowhere").exists());
}

#[test]
fn the_environment_names_the_store() {
    let space = Space::new();
    let output = space.program(&["run", "small.yaml"]).env("PFLPIPE_CACHE", "elsewhere").output().expect("it starts");
    assert!(output.status.success());
    assert!(space.path("elsewhere/version").exists() && !space.path("cache").exists());
}

/// Four IDX files of a data set of one's own, all pixels of one value.
fn own_data(space: &Space, pixel: u8) {
    for (images, labels, count) in
        [("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 60u32), ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 20)]
    {
        let mut bytes = [&[0, 0, 8, 3][..], &count.to_be_bytes(), &2u32.to_be_bytes(), &2u32.to_be_bytes()].concat();
        bytes.extend(vec![pixel; 4 * count as usize]);
        std::fs::create_dir_all(space.path("data/mine")).expect("the space is ours");
        std::fs::write(space.path(&format!("data/mine/{images}")), bytes).expect("the space is ours");
        let mut bytes = [&[0, 0, 8, 1][..], &count.to_be_bytes()].concat();
        bytes.extend((0..count).map(|i| (i % 2) as u8));
        std::fs::write(space.path(&format!("data/mine/{labels}")), bytes).expect("the space is ours");
    }
}

#[test]
fn changed_files_of_ones_own_are_noticed() {
    let space = Space::new();
    space.write("own.yaml", "name: own\nstages:\n  data: {dataset: {name: idx, folder: mine}}\n");
    let run = |space: &Space| space.run(&["run", "own.yaml", "--data", "data", "--output", "json"]).json()["counts"].clone();
    own_data(&space, 7);
    assert_eq!(run(&space)["done"], 1);
    assert_eq!(run(&space)["cached"], 1);
    own_data(&space, 8);
    assert_eq!(run(&space)["done"], 1, "other pixels are another data set");
}
