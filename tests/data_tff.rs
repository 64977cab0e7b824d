//! TensorFlow Federated's HDF5 files: read as h5py wrote them, and truncated or damaged ones refused.

use pflpipe::base::{Fault, FaultKind};
use pflpipe::data::{Dataset, Shape, load};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tff")
}

fn get(name: &str, setting: Value, dir: &Path) -> Result<Dataset, Fault> {
    load(name, setting.as_object().expect("a map"), &[dir.to_path_buf()])
}

fn sound(name: &str, setting: Value) -> Dataset {
    get(name, setting, &golden()).unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

fn values(data: &Dataset, index: u32) -> Vec<f32> {
    let mut values = Vec::new();
    data.gather(&[index], &mut values);
    values
}

/// A folder with copies of two files under the names of EMNIST's, the first one changed.
fn emnist(train: &str, change: impl FnOnce(&mut Vec<u8>)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut content = std::fs::read(golden().join(train)).expect("a golden file");
    change(&mut content);
    std::fs::write(dir.path().join("fed_emnist_train.h5"), content).expect("a temporary file");
    std::fs::copy(golden().join("fed_emnist_test.h5"), dir.path().join("fed_emnist_test.h5")).expect("a golden file");
    dir
}

#[test]
fn emnist_has_writers() {
    let data = sound("fed-emnist", json!({}));
    assert_eq!((data.len(), data.original_train(), data.classes()), (7, 5, 62));
    assert_eq!(data.shape(), Shape { channels: 1, height: 28, width: 28 });
    let groups = data.groups().expect("writers");
    assert_eq!((groups.what.as_str(), &groups.names[..]), ("writer", &["f0000_14".to_owned(), "f0001_41".to_owned()][..]));
    assert_eq!(groups.of, [0, 0, 1, 1, 1, 0, 1]);
    assert_eq!(data.labels(), [8, 15, 8, 15, 22, 8, 8]);
    assert_eq!(values(&data, 4)[..2], [(1568 % 256) as f32 / 255.0, (1569 % 256) as f32 / 255.0]);
    assert_eq!(sound("fed-emnist", json!({"clients": 1})).labels(), [8, 15, 8]);
    let fault = get("fed-emnist", json!({"characters": "digits"}), &golden()).expect_err("other files");
    assert!(fault.what.contains("fed_emnist") || fault.help.is_some_and(|help| help.contains("fed_emnist_digitsonly_train.h5")));
    // The files of the newest writer with few links, and of the usual one with several nodes of a tree.
    let latest = emnist("latest.h5", |_| ());
    assert_eq!(values(&get("fed-emnist", json!({}), latest.path()).expect("links in headers"), 4), values(&data, 4));
    let many = emnist("many.h5", |_| ());
    assert_eq!(get("fed-emnist", json!({}), many.path()).expect("several nodes").groups().expect("writers").names.len(), 14);
    let dense = emnist("dense.h5", |_| ());
    let fault = get("fed-emnist", json!({}), dense.path()).expect_err("a fractal heap");
    assert!(fault.what.contains("fractal heap") && fault.help.is_some_and(|help| help.contains("earliest")));
}

#[test]
fn cifar100_is_unpacked_from_chunks() {
    let data = sound("fed-cifar100", json!({}));
    assert_eq!((data.len(), data.original_train(), data.groups().map(|groups| groups.names.len())), (8, 7, Some(2)));
    assert_eq!(data.labels(), [0, 13, 26, 0, 13, 26, 39, 0]);
    let scaled = |byte: usize| ((byte * 5 % 251) as f32 / 255.0 - 0.5) / 0.5;
    // Sample 5 is the third of client 1.
    assert_eq!(values(&data, 5), (0..3072).map(|at| scaled(2 * 3072 + at)).collect::<Vec<f32>>());
}

#[test]
fn texts_are_cut_into_pieces() {
    let data = sound("fed-shakespeare", json!({"length": 4}));
    // 86 characters, then begin 87, end 88, unknown 89.
    assert_eq!((data.vocabulary().map(|v| (v.size, v.padding)), data.classes()), (Some((90, 0)), 90));
    assert_eq!(data.groups().map(|groups| groups.names.clone()), Some(vec!["THE_PLAY_A".into(), "THE_PLAY_B".into()]));
    // begin T o blank b | e , blank o r | blank n o t blank | t o blank b e | end, which is left alone.
    assert_eq!((values(&data, 0)[0], data.labels()[0]), (87.0, values(&data, 3)[3] as u32));
    // `~` is unknown: begin, ~, then the end.
    assert_eq!((values(&data, 4), data.labels()[4], data.length(4)), (vec![87.0, 89.0, 0.0, 0.0], 88, 2));
    // Nothing but begin and end.
    assert_eq!((values(&data, 5), data.labels()[5]), (vec![87.0, 0.0, 0.0, 0.0], 88));
    let data = sound("fed-stackoverflow", json!({"words": 4, "length": 5}));
    // a 1, list 2, how 3, i 4; begin 5, end 6, unknown 7.
    assert_eq!(data.classes(), 8);
    assert_eq!((values(&data, 0), data.labels()[0]), (vec![5.0, 3.0, 7.0, 4.0, 7.0], 1));
    assert_eq!((values(&data, 1), data.labels()[1]), (vec![5.0, 7.0, 0.0, 0.0, 0.0], 6));
    assert_eq!((values(&data, 2), data.labels()[2], data.original_train()), (vec![5.0, 1.0, 2.0, 0.0, 0.0], 6, 3));
}

#[test]
fn what_is_cut_or_changed_is_a_fault() {
    let whole = std::fs::read(golden().join("fed_emnist_train.h5")).expect("a golden file").len();
    for cut in [0, 7, 8, 47, 48, 95, 200, 1000, 4000, whole / 2, whole - 1] {
        let dir = emnist("fed_emnist_train.h5", |content| content.truncate(cut));
        let fault = get("fed-emnist", json!({}), dir.path()).expect_err("truncated");
        assert_eq!(fault.kind, FaultKind::Storage, "{cut}: {fault}");
    }
    // Every byte of the structure once wrong in two ways: an answer or a fault, never a panic, a hang or a flood.
    for name in ["fed_emnist_train.h5", "latest.h5"] {
        for at in (0..whole.min(8192)).step_by(13) {
            for flip in [0xff_u8, 0x01] {
                let dir = emnist(name, |content| {
                    if let Some(byte) = content.get_mut(at) {
                        *byte ^= flip;
                    }
                });
                let _ = get("fed-emnist", json!({}), dir.path());
            }
        }
    }
}

#[test]
fn packed_chunks_that_are_damaged_are_faults() {
    let content = std::fs::read(golden().join("fed_cifar100_train.h5")).expect("a golden file");
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::copy(golden().join("fed_cifar100_test.h5"), dir.path().join("fed_cifar100_test.h5")).expect("a golden file");
    let mut refused = 0;
    for at in (0..content.len()).step_by(23) {
        let mut damaged = content.clone();
        damaged[at] ^= 0x55;
        std::fs::write(dir.path().join("fed_cifar100_train.h5"), damaged).expect("a temporary file");
        refused += usize::from(get("fed-cifar100", json!({}), dir.path()).is_err());
    }
    assert!(refused > 20, "{refused} of {} refused", content.len() / 23);
}
