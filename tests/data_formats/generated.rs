//! Folders that PFLlib's scripts made, and data sets that are drawn.

use crate::{copy, first, golden, params, put, sound, temporary};
use pflpipe::base::FaultKind;
use pflpipe::data::partition::{Population, build_from};
use pflpipe::data::{Added, Dataset, Made, Shape, export_pfllib, fingerprint};
use serde_json::{Map, json};
use std::path::Path;

#[test]
fn folders_of_pfllib_are_read_written_and_read_again() {
    let data_dir = temporary();
    let added = Added { kind: "pfllib".into(), name: "mine".into(), folder: golden("pfllib/images") };
    let (path, data) = added.save(&[data_dir.path().to_path_buf()]).expect("sound");
    assert!(path.ends_with("added/mine.json"));
    assert_eq!((data.len(), data.original_train(), data.classes()), (7, 4, 3));
    assert_eq!(data.shape(), Shape { channels: 2, height: 3, width: 2 });
    assert_eq!(data.labels(), [0, 2, 2, 1, 2, 1, 0]);
    // Channels first there, channels last here.
    assert_eq!(first(&data, 1)[..4], [12.0, 18.0, 13.0, 19.0]);
    let data = sound("mine", json!({}), data_dir.path());
    let dirs = [data_dir.path().to_path_buf()];
    let key = fingerprint("mine", &Map::new(), &dirs).expect("readable").expect("the content is in the key");
    let partition = build_from("imported", &Map::new(), &Population::of(&data), &[]).expect("clients came with it");
    let own = |id: usize| (partition.clients()[id].train.clone(), partition.clients()[id].test.clone());
    assert_eq!((own(0), own(1)), ((vec![0, 1, 2], vec![4]), (vec![3], vec![5, 6])));
    // Written back and read again it is the same data set, and so is what another partition makes of it.
    for (kind, setting) in [("imported", json!({})), ("iid", json!({"clients": 2, "variant": "clean"}))] {
        let made = build_from(kind, &params(setting), &Population::of(&data), &[]).expect("feasible");
        let out = temporary();
        let mut write = |name: &str, content: &[u8]| {
            put(out.path(), name, content);
            Ok(())
        };
        export_pfllib(&data, &made, &Made::by(kind, Some(0.5)), &mut write).expect("sound");
        let added = Added { kind: "pfllib".into(), name: "again".into(), folder: out.path().to_path_buf() };
        let again = added.load().expect("own format");
        let imported = build_from("imported", &Map::new(), &Population::of(&again), &[]).expect("clients came with it");
        for (a, b) in made.clients().iter().zip(imported.clients()) {
            for (a, b) in [(&a.train, &b.train), (&a.test, &b.test)] {
                let values = |data: &Dataset, of: &[u32]| {
                    let (mut values, mut labels) = (Vec::new(), Vec::new());
                    data.gather(of, &mut values);
                    data.gather_labels(of, &mut labels);
                    (values, labels)
                };
                assert_eq!(values(&data, a), values(&again, b));
            }
        }
    }
    let texts = Added { kind: "pfllib".into(), name: "texts".into(), folder: golden("pfllib/texts") }.load().expect("sound");
    assert_eq!((first(&texts, 0), texts.length(1), texts.vocabulary().expect("a text").size), (vec![2.0, 7.0, 5.0, 0.0], 2, 8));
    // What is wrong is said, and a changed file changes the key.
    let copied = temporary();
    for file in ["config.json", "train/0.npz", "train/1.npz", "test/0.npz", "test/1.npz"] {
        copy(&format!("pfllib/images/{file}"), copied.path(), file);
    }
    let moved = Added { folder: copied.path().to_path_buf(), ..added.clone() };
    moved.save(&dirs).expect("sound");
    assert_eq!(fingerprint("mine", &Map::new(), &dirs).expect("readable"), Some(key), "the place does not matter");
    let whole = std::fs::read(copied.path().join("train/0.npz")).expect("there");
    for cut in (0..whole.len()).step_by(7) {
        put(copied.path(), "train/0.npz", &whole[..cut]);
        assert_eq!(moved.load().expect_err("truncated").kind, FaultKind::Storage, "{cut}");
    }
    assert_ne!(fingerprint("mine", &Map::new(), &dirs).expect("readable"), Some(key));
    std::fs::remove_file(copied.path().join("train/0.npz")).expect("there");
    assert!(moved.load().expect_err("gone").what.ends_with("lacks `train/0.npz`"));
    for name in ["mnist", "a/b", "", "../x"] {
        assert!(Added { name: name.into(), ..added.clone() }.save(&dirs).is_err(), "{name}");
    }
}

#[test]
fn drawn_data_sets_are_the_same_every_time() {
    let data = sound("synthetic", json!({"alpha": 0.5, "beta": 0.5}), Path::new("."));
    assert_eq!((data.classes(), data.shape().channels, data.groups().expect("users").names.len()), (10, 60, 30));
    assert_eq!(data.to_parts().samples, sound("synthetic", json!({"alpha": 0.5, "beta": 0.5}), Path::new(".")).to_parts().samples);
    let counts: Vec<usize> = (0..30).map(|user| data.groups().expect("users").of.iter().filter(|&&of| of == user).count()).collect();
    assert!(counts.iter().all(|&count| count >= 50), "{counts:?}");
    let cube = sound("fcube", json!({}), Path::new("."));
    let partition = build_from("natural", &Map::new(), &Population::of(&cube), &[]).expect("four parties");
    assert_eq!((cube.len(), partition.clients().len()), (4000, 4));
    // Opposite octants have opposite classes, so every party has both.
    assert_eq!(partition.manifest(cube.labels()).expect("fits").indices.label_sets, 1);
    let few = sound("fcube", json!({"limit": 10}), Path::new("."));
    assert_eq!((few.len(), first(&few, 9)), (10, first(&cube, 9)));
}
