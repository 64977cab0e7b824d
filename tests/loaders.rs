//! Loaders: the original files give the known data sets, and whatever else lies there gives a clear fault.

use flate2::Compression;
use flate2::write::GzEncoder;
use pflpipe::base::{Fault, FaultKind};
use pflpipe::data::{Dataset, Shape, load, variants};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const NAMES: [&str; 4] = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

/// The folder with the original files, when there is one.
fn originals(test: &str, needed: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let dirs: Vec<PathBuf> = std::env::var_os("PFLPIPE_DATA").map_or_else(|| vec![beside], |list| std::env::split_paths(&list).collect());
    let found = dirs.iter().find(|dir| dir.join(needed).is_dir()).cloned();
    if found.is_none() {
        println!("skipped: {test} needs the folder `{needed}` in {dirs:?}; set PFLPIPE_DATA");
    }
    found
}

fn get(name: &str, params: Value, dir: &Path) -> Result<Dataset, Fault> {
    let params: Map<String, Value> = params.as_object().expect("a map").clone();
    load(name, &params, &[dir.to_path_buf()])
}

fn counts(data: &Dataset) -> Vec<usize> {
    let mut counts = vec![0; data.classes()];
    data.labels().iter().for_each(|&label| counts[label as usize] += 1);
    counts
}

/// Mean and sd of the pixels of the original training set, in [0, 1].
fn moments(data: &Dataset) -> (f64, f64) {
    let indices: Vec<u32> = (0..data.original_train() as u32).collect();
    let mut values = Vec::new();
    data.gather(&indices, &mut values);
    let pixels = || values.iter().map(|&v| f64::from(v) * 0.5 + 0.5);
    let mean = pixels().sum::<f64>() / values.len() as f64;
    let variance = pixels().map(|p| (p - mean) * (p - mean)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn images(count: u32, height: u32, width: u32) -> Vec<u8> {
    let mut out: Vec<u8> = [0x0803, count, height, width].iter().flat_map(|n| n.to_be_bytes()).collect();
    out.extend((0..count * height * width).map(|i| (i % 251) as u8));
    out
}

fn labels(count: u32) -> Vec<u8> {
    let mut out: Vec<u8> = [0x0801, count].iter().flat_map(|n| n.to_be_bytes()).collect();
    out.extend((0..count).map(|i| (i % 10) as u8));
    out
}

/// A folder with four sound files of the format of MNIST: 12 training and 5 test images of 3 x 2.
fn own() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let contents = [images(12, 3, 2), labels(12), images(5, 3, 2), labels(5)];
    for (name, content) in NAMES.iter().zip(contents) {
        put(&dir, name, &content);
    }
    dir
}

fn put(dir: &TempDir, name: &str, content: &[u8]) {
    std::fs::write(dir.path().join(name), content).expect("a temporary file");
}

/// The fault of loading the folder as MNIST without checksums.
fn fault(dir: &TempDir) -> Fault {
    let fault = get("mnist", json!({"verify": false}), dir.path()).expect_err("not sound");
    assert_eq!(fault.kind, FaultKind::Storage, "{fault}");
    fault
}

#[test]
fn optdigits_needs_no_files() {
    let data = load("optdigits", &Map::new(), &[]).expect("part of the program");
    assert_eq!((data.len(), data.original_train(), data.classes()), (5620, 3823, 10));
    assert_eq!(data.shape(), Shape { channels: 1, height: 8, width: 8 });
    assert_eq!(counts(&data), [554, 571, 557, 572, 568, 558, 558, 566, 554, 562]);
    let mut values = Vec::new();
    data.gather(&[0, 3823], &mut values);
    // The first lines of both files begin 0,1,6,15,12 and 0,0,5,13,9.
    let scaled = |v: f32| (v / 16.0 - 0.5) / 0.5;
    assert_eq!(values[..5], [0.0, 1.0, 6.0, 15.0, 12.0].map(scaled));
    assert_eq!(values[64..69], [0.0, 0.0, 5.0, 13.0, 9.0].map(scaled));
    assert_eq!((data.labels()[0], data.labels()[3823]), (0, 0));
    let few = load("optdigits", json!({"limit": 3825}).as_object().expect("a map"), &[]).expect("part of the program");
    assert_eq!((few.len(), few.original_train(), few.labels()), (3825, 3823, &data.labels()[..3825]));
    assert!(load("optdigits", json!({"limit": 5621}).as_object().expect("a map"), &[]).is_err());
}

#[test]
fn mnist_and_fashion_mnist_are_the_published_ones() {
    let Some(dir) = originals("mnist", "MNIST") else { return };
    let data = get("mnist", json!({}), &dir).expect("the original files");
    assert_eq!((data.len(), data.original_train(), data.shape().numel()), (70_000, 60_000, 784));
    assert_eq!(counts(&data), [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]);
    let (mean, sd) = moments(&data);
    assert!((mean - 0.1307).abs() < 5e-5 && (sd - 0.3081).abs() < 5e-5, "{mean} {sd}");
    let packed = include_bytes!("golden/partitions/mnist.labels");
    assert!(data.labels().chunks(2).zip(packed).all(|(pair, byte)| pair[0] + pair[1] * 16 == u32::from(*byte)));

    let data = get("fashion-mnist", json!({"limit": 60_500}), &dir).expect("the original files");
    assert_eq!((data.len(), data.original_train(), data.name()), (60_500, 60_000, "fashion-mnist"));
    let (mean, sd) = moments(&data);
    assert!((mean - 0.2860).abs() < 5e-5 && (sd - 0.3530).abs() < 5e-5, "{mean} {sd}");
    // The folder of the files themselves is taken too; there the other data set's files are found out by their checksums.
    get("fashion-mnist", json!({}), &dir.join("FashionMNIST")).expect("the original files");
    let fault = get("mnist", json!({}), &dir.join("FashionMNIST")).expect_err("not MNIST");
    assert!(fault.what.contains("expected sha256 440fcabf") && fault.what.contains("found 3aede38d"), "{fault}");
}

#[test]
fn mnist_unpacked_or_packed_anew_is_still_mnist() {
    let Some(original) = originals("unpacked mnist", "MNIST") else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir_all(dir.path().join("MNIST/raw")).expect("a temporary folder");
    for name in NAMES {
        let packed = std::fs::File::open(original.join("MNIST").join(format!("{name}.gz"))).expect("an original file");
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut plain).expect("sound");
        let (name, content) = if name.contains("labels") { (format!("{name}.gz"), gz(&plain)) } else { (name.to_owned(), plain) };
        std::fs::write(dir.path().join("MNIST/raw").join(name), content).expect("a temporary file");
    }
    assert_eq!(get("mnist", json!({}), dir.path()).expect("the same content").len(), 70_000);
    // One changed pixel is found.
    let path = dir.path().join("MNIST/raw").join(NAMES[2]);
    let mut content = std::fs::read(&path).expect("just written");
    content[5000] ^= 1;
    std::fs::write(&path, &content).expect("a temporary file");
    let fault = get("mnist", json!({}), dir.path()).expect_err("changed");
    assert!(fault.what.contains("t10k-images") && fault.what.contains("expected sha256 0fa7898d"), "{fault}");
    assert_eq!(get("mnist", json!({"verify": false}), dir.path()).expect("the same format").len(), 70_000);
}

#[test]
fn training_and_test_files_in_exchange_are_recognized() {
    let Some(original) = originals("swapped mnist", "MNIST") else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (from, to) in NAMES.iter().zip([NAMES[2], NAMES[3], NAMES[0], NAMES[1]]) {
        let packed = original.join("MNIST").join(format!("{from}.gz"));
        std::fs::copy(packed, dir.path().join(format!("{to}.gz"))).expect("a temporary file");
    }
    let fault = get("mnist", json!({}), dir.path()).expect_err("swapped");
    assert!(fault.what.contains("train-images-idx3-ubyte.gz` has the wrong content"), "{fault}");
    assert!(fault.help.expect("help").contains("`t10k-images-idx3-ubyte` under a wrong name"));
}

#[test]
fn cifar10_puts_channels_last_and_a_subset_must_be_asked_for() {
    let Some(dir) = originals("cifar10", "CIFAR10") else { return };
    let data = get("cifar10", json!({"subset": "first-1"}), &dir).expect("the first batch");
    assert_eq!((data.len(), data.original_train(), data.classes()), (20_000, 10_000, 10));
    let expected = [1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981].map(|n| n + 1000);
    assert_eq!(counts(&data), expected);
    // The first image is a frog: red 59, green 62, blue 63, then 43, 46, 45.
    let mut values = Vec::new();
    data.gather(&[0], &mut values);
    let scaled = |v: f32| (v / 255.0 - 0.5) / 0.5;
    assert_eq!(values[..6], [59.0, 62.0, 63.0, 43.0, 46.0, 45.0].map(scaled));
    assert_eq!(data.labels()[0], 6);
    let fault = get("cifar10", json!({}), &dir).expect_err("four batches are not there");
    if !dir.join("CIFAR10/cifar-10-binary.tar.gz").exists() {
        assert!(fault.what.contains("lacks `data_batch_2.bin`, `data_batch_3.bin`"), "{fault}");
        assert!(fault.help.expect("help").contains("subset: first-1"));
    }
    let parts = data.to_parts();
    let back = Dataset::from_parts(&parts.info, parts.samples, &parts.labels).expect("own format");
    let mut again = Vec::new();
    back.gather(&[0], &mut again);
    assert_eq!(values, again);
}

#[test]
fn own_files_of_the_format_load_without_checksums_only() {
    let dir = own();
    let data = get("mnist", json!({"verify": false}), dir.path()).expect("sound files");
    assert_eq!((data.len(), data.original_train(), data.shape()), (17, 12, Shape { channels: 1, height: 3, width: 2 }));
    assert_eq!(data.labels(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 0, 1, 2, 3, 4]);
    let mut values = Vec::new();
    data.gather(&[12], &mut values);
    assert_eq!(values[..2], [-1.0, (1.0_f32 / 255.0 - 0.5) / 0.5]);
    let fault = get("mnist", json!({}), dir.path()).expect_err("not MNIST");
    assert!(fault.what.contains("expected 47040016 bytes, found 88"), "{fault}");
    assert!(fault.help.expect("help").contains("verify: false"));

    let parent = tempfile::tempdir().expect("a temporary folder");
    std::fs::rename(dir.path(), parent.path().join("mine")).expect("a temporary folder");
    let data = get("idx", json!({"folder": "mine"}), parent.path()).expect("sound files");
    assert_eq!((data.len(), data.classes(), data.name()), (17, 10, "idx"));
    let fault = get("idx", json!({"folder": "mine", "classes": 5}), parent.path()).expect_err("labels up to 9");
    assert!(fault.what.contains("has label 5, but labels are 0 to 4"), "{fault}");
}

#[test]
fn missing_files_are_named_with_the_folder_to_put_them() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, file, folder) in [
        ("mnist", "train-images-idx3-ubyte.gz", "DIR/MNIST"),
        ("fashion-mnist", "t10k-labels-idx1-ubyte.gz", "DIR/FashionMNIST"),
        ("cifar10", "cifar-10-binary.tar.gz", "DIR/CIFAR10"),
    ] {
        let fault = get(name, json!({}), dir.path()).expect_err("nothing there");
        assert_eq!(fault.kind, FaultKind::Storage);
        assert!(fault.what.contains(&dir.path().display().to_string()), "{fault}");
        let help = fault.help.expect("help");
        assert!(help.contains(file) && help.contains(folder) && help.contains("--data DIR") && help.contains("PFLPIPE_DATA"), "{help}");
        let fault = load(name, &Map::new(), &[]).expect_err("no folder");
        assert!(fault.what.contains("no data folder is set"), "{fault}");
    }
    let dir = own();
    std::fs::remove_file(dir.path().join(NAMES[3])).expect("there");
    assert!(fault(&dir).what.ends_with("lacks `t10k-labels-idx1-ubyte`"));
    let fault = get("mnits", json!({}), dir.path()).expect_err("a typo");
    assert_eq!(fault.help.as_deref(), Some("did you mean `mnist`?"));
}

#[test]
fn truncated_and_overlong_files_are_refused_plain_and_packed() {
    let (sound, sound_labels) = (images(12, 3, 2), labels(12));
    for cut in [0, 1, 3, 4, 15, 16, 17, sound.len() - 1] {
        let dir = own();
        put(&dir, NAMES[0], &sound[..cut]);
        let plain = fault(&dir);
        assert!(plain.what.contains(NAMES[0]) && plain.what.contains("truncated"), "{cut}: {plain}");
        put(&dir, &format!("{}.gz", NAMES[0]), &gz(&sound[..cut]));
        let packed = fault(&dir);
        assert!(packed.what.contains(".gz") && packed.what.contains("truncated"), "{cut}: {packed}");
    }
    for cut in [0, 5, 8, 19] {
        let dir = own();
        put(&dir, NAMES[1], &sound_labels[..cut]);
        assert!(fault(&dir).what.contains("truncated"));
    }
    for (name, content) in [(NAMES[0], &sound), (NAMES[1], &sound_labels)] {
        let dir = own();
        put(&dir, name, &[&content[..], &[0]].concat());
        assert!(fault(&dir).what.ends_with("holds more than its header says"));
    }
    let packed = gz(&sound);
    for cut in [0, 5, 11, packed.len() / 2, packed.len() - 1] {
        let dir = own();
        put(&dir, &format!("{}.gz", NAMES[0]), &packed[..cut]);
        let fault = fault(&dir);
        assert!(fault.what.contains("truncated"), "{cut}: {fault}");
    }
}

#[test]
fn garbage_and_wrong_kinds_of_files_are_told_apart() {
    let dir = own();
    put(&dir, &format!("{}.gz", NAMES[0]), b"<html>not found</html>");
    assert!(fault(&dir).what.contains("is not a sound gzip file"));

    let dir = own();
    put(&dir, NAMES[0], &labels(12));
    let swapped = fault(&dir);
    assert!(swapped.what.ends_with("holds labels where images belong"), "{swapped}");
    assert!(swapped.help.expect("help").contains("swapped"));

    let dir = own();
    put(&dir, NAMES[0], &gz(&images(12, 3, 2)));
    assert!(fault(&dir).help.expect("help").contains("packed with gzip: add `.gz`"));

    let dir = own();
    put(&dir, NAMES[1], b"hello, world");
    assert!(fault(&dir).what.contains("expected magic 0x00000801, found 0x68656c6c"));

    let dir = own();
    put(&dir, NAMES[1], &labels(5));
    put(&dir, NAMES[3], &labels(12));
    let crossed = fault(&dir);
    assert!(crossed.what.contains("holds 12 images, but") && crossed.what.contains("holds 5 labels"), "{crossed}");
    assert_eq!(crossed.help.as_deref(), Some("the files of the training and the test set are swapped"));

    let dir = own();
    put(&dir, NAMES[2], &images(5, 2, 3));
    assert!(fault(&dir).what.ends_with("holds images of 2 x 3, but the training images are 3 x 2"));

    let dir = own();
    let mut wrong = labels(12);
    wrong[8 + 7] = 10;
    put(&dir, NAMES[1], &wrong);
    assert!(fault(&dir).what.contains("sample 7 of data set `mnist` has label 10, but labels are 0 to 9"));

    let dir = own();
    put(&dir, NAMES[0], &images(0, 3, 2));
    assert!(fault(&dir).what.contains("holds no pixels"));
}

#[test]
fn a_header_that_promises_too_much_takes_no_memory() {
    for (count, height, width) in [(u32::MAX, u32::MAX, u32::MAX), (u32::MAX, 1, 1), (1 << 20, 64, 63), (1 << 20, 1 << 20, 1)] {
        let dir = own();
        let head: Vec<u8> = [0x0803, count, height, width].iter().flat_map(|n| n.to_be_bytes()).collect();
        put(&dir, &format!("{}.gz", NAMES[0]), &gz(&head));
        let fault = fault(&dir);
        assert!(fault.what.contains("promises"), "{fault}");
    }
    // A stream of zeros that unpacks to far more than its header says is left after one byte.
    let dir = own();
    let bomb = [images(12, 3, 2), vec![0; 64 << 20]].concat();
    put(&dir, &format!("{}.gz", NAMES[0]), &gz(&bomb));
    assert!(fault(&dir).what.ends_with("holds more than its header says"));
}

#[test]
fn a_folder_in_the_place_of_a_file_is_refused() {
    for (name, file) in [
        ("mnist", NAMES[0]),
        ("mnist", "t10k-labels-idx1-ubyte.gz"),
        ("cifar10", "data_batch_3.bin"),
        ("cifar10", "cifar-10-binary.tar.gz"),
    ] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(dir.path().join(file)).expect("a temporary folder");
        let fault = get(name, json!({}), dir.path()).expect_err("a folder");
        assert!(fault.kind == FaultKind::Storage && fault.what.contains("is a folder, but must be a file"), "{fault}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_without_waiting() {
    for (name, file) in [
        ("mnist", NAMES[0]),
        ("mnist", "train-images-idx3-ubyte.gz"),
        ("cifar10", "data_batch_1.bin"),
        ("cifar10", "cifar-10-binary.tar.gz"),
    ] {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let made = std::process::Command::new("mkfifo").arg(dir.path().join(file)).status();
        if !made.is_ok_and(|status| status.success()) {
            println!("skipped: there is no mkfifo");
            return;
        }
        let fault = get(name, json!({"verify": false}), dir.path()).expect_err("a pipe");
        assert!(fault.what.contains("is a pipe, socket or device, but must be a file"), "{fault}");
    }
}

/// Records of CIFAR-10 with labels 0, 1, ...
fn records(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| std::iter::once((i % 10) as u8).chain((0..3072).map(move |at| (at / 1024 * 10 + i) as u8))).collect()
}

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append_data(&mut header, format!("cifar-10-batches-bin/{name}"), *content).expect("memory");
    }
    builder.into_inner().expect("memory").finish().expect("memory")
}

#[test]
fn batches_of_ones_own_load_from_files_and_archives_alike() {
    let (train, test) = (records(3), records(2));
    let files = tempfile::tempdir().expect("a temporary folder");
    put(&files, "data_batch_1.bin", &train);
    put(&files, "test_batch.bin", &test);
    let packed = tempfile::tempdir().expect("a temporary folder");
    put(
        &packed,
        "cifar-10-binary.tar.gz",
        &archive(&[("batches.meta.txt", b"airplane"), ("test_batch.bin", &test), ("data_batch_1.bin", &train)]),
    );
    let setting = json!({"subset": "first-1", "verify": false});
    for dir in [&files, &packed] {
        let data = get("cifar10", setting.clone(), dir.path()).expect("sound");
        assert_eq!((data.len(), data.original_train(), data.labels()), (5, 3, &[0, 1, 2, 0, 1][..]));
        let mut values = Vec::new();
        data.gather(&[2], &mut values);
        assert_eq!(values[..6], [2.0, 12.0, 22.0, 2.0, 12.0, 22.0].map(|v: f32| (v / 255.0 - 0.5) / 0.5));
        let fault = get("cifar10", json!({"subset": "first-1"}), dir.path()).expect_err("not the official size");
        assert!(fault.what.contains("is truncated: `"), "{fault}");
        let fault = get("cifar10", json!({"subset": "first-2", "verify": false}), dir.path()).expect_err("one batch");
        assert!(fault.what.ends_with("lacks `data_batch_2.bin`"), "{fault}");
    }
    put(&files, "test_batch.bin", &test[..test.len() - 1]);
    assert!(
        get("cifar10", setting.clone(), files.path()).expect_err("not whole").what.contains("expected 1 to 100000 records of 3073 bytes")
    );
    let mut wrong = test.clone();
    wrong[3073] = 10;
    put(&files, "test_batch.bin", &wrong);
    assert!(get("cifar10", setting, files.path()).expect_err("label 10").what.contains("sample 4 of data set `cifar10` has label 10"));
}

#[test]
fn wrong_content_of_the_right_size_is_found_by_its_checksum() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let content = records(10_000);
    put(&dir, "data_batch_1.bin", &content);
    put(&dir, "test_batch.bin", &content);
    let fault = get("cifar10", json!({"subset": "first-1"}), dir.path()).expect_err("made up");
    assert!(fault.what.contains("data_batch_1.bin` has the wrong content: expected sha256 cee91656"), "{fault}");
    let packed = tempfile::tempdir().expect("a temporary folder");
    put(&packed, "cifar-10-binary.tar.gz", &archive(&[("data_batch_1.bin", &content)]));
    let fault = get("cifar10", json!({"subset": "first-1"}), packed.path()).expect_err("made up");
    assert!(fault.what.contains("data_batch_1.bin` has the wrong content: expected sha256 cee91656"), "{fault}");
}

#[test]
fn damaged_archives_are_faults_of_any_length() {
    let sound = archive(&[("data_batch_1.bin", &records(3)), ("test_batch.bin", &records(2))]);
    for cut in (0..sound.len()).step_by(37) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        put(&dir, "cifar-10-binary.tar.gz", &sound[..cut]);
        // The end of the stream, after all that is needed, may be missing; nothing before it.
        if let Err(fault) = get("cifar10", json!({"subset": "first-1", "verify": false}), dir.path()) {
            assert_eq!(fault.kind, FaultKind::Storage, "{cut}: {fault}");
        }
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    put(&dir, "cifar-10-binary.tar.gz", b"not an archive");
    assert!(get("cifar10", json!({}), dir.path()).expect_err("garbage").what.contains("is not a sound archive"));
    put(&dir, "cifar-10-binary.tar.gz", &archive(&[("test_batch.bin", &records(1)), ("test_batch.bin", &records(1))]));
    assert!(get("cifar10", json!({"verify": false}), dir.path()).expect_err("twice").what.contains("holds `test_batch.bin` twice"));
}

#[test]
fn the_catalog_names_every_data_set_once() {
    let names: Vec<&str> = variants().iter().map(|v| v.name).collect();
    assert_eq!(names[..4], ["optdigits", "mnist", "fashion-mnist", "cifar10"]);
    assert_eq!(names.len(), names.iter().collect::<std::collections::BTreeSet<_>>().len());
    for (name, setting) in
        [("mnist", json!({"verify": "no"})), ("cifar10", json!({"subset": "first-9"})), ("optdigits", json!({"limit": 0}))]
    {
        assert_eq!(get(name, setting, Path::new(".")).expect_err("a wrong value").kind, FaultKind::Stage);
    }
}
