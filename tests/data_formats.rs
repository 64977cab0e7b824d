//! Every format on small files made as the originals are, and on truncated, damaged and hostile ones.

use image::{ImageFormat, RgbImage};
use pflpipe::base::{Fault, FaultKind};
use pflpipe::data::partition::{Population, build_from};
use pflpipe::data::{Added, Dataset, Shape, export_pfllib, fingerprint, load};
use serde_json::{Map, Value, json};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

fn params(value: Value) -> Map<String, Value> {
    value.as_object().expect("a map").clone()
}

fn get(name: &str, setting: Value, dir: &Path) -> Result<Dataset, Fault> {
    load(name, &params(setting), &[dir.to_path_buf()])
}

fn sound(name: &str, setting: Value, dir: &Path) -> Dataset {
    let data = get(name, setting, dir).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    // Whatever is read can be stored and read again.
    let parts = data.to_parts();
    let back = Dataset::from_parts(&parts.info, parts.samples, &parts.labels).expect("own format");
    assert_eq!(
        (back.labels(), back.groups(), back.shape(), back.superclasses()),
        (data.labels(), data.groups(), data.shape(), data.superclasses())
    );
    data
}

fn first(data: &Dataset, index: u32) -> Vec<f32> {
    let mut values = Vec::new();
    data.gather(&[index], &mut values);
    values
}

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn put(dir: &Path, name: &str, content: &[u8]) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("inside")).expect("a temporary folder");
    std::fs::write(path, content).expect("a temporary file");
}

fn copy(from: &str, dir: &Path, to: &str) {
    put(dir, to, &std::fs::read(golden(from)).expect("a golden file"));
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, content) in members {
        writer.start_file(*name, options).expect("memory");
        writer.write_all(content).expect("memory");
    }
    writer.finish().expect("memory").into_inner()
}

fn gz(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

fn tar_gz(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Names that the builder would refuse are wanted, too.
        header.as_gnu_mut().expect("of this kind").name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).expect("memory");
    }
    gz(&builder.into_inner().expect("memory"))
}

/// A picture of one color.
fn png(width: u32, height: u32, color: [u8; 3]) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    RgbImage::from_pixel(width, height, image::Rgb(color)).write_to(&mut out, ImageFormat::Png).expect("memory");
    out.into_inner()
}

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
        export_pfllib(&data, &made, Some(0.5), &mut write).expect("sound");
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
fn batches_of_cifars_python_version_are_read() {
    for batch in ["batch2", "batch5"] {
        let dir = temporary();
        for name in ["data_batch_1", "test_batch"] {
            copy(&format!("pfllib/{batch}"), dir.path(), &format!("CIFAR10/cifar-10-batches-py/{name}"));
        }
        let data = sound("cifar10", json!({"subset": "first-1", "verify": false}), dir.path());
        assert_eq!((data.labels(), data.original_train()), (&[3, 9, 3, 9][..], 2));
        let scaled = |v: usize| ((v % 251) as f32 / 255.0 - 0.5) / 0.5;
        assert_eq!(first(&data, 0)[..4], [scaled(0), scaled(1024), scaled(2048), scaled(1)]);
        let fault = get("cifar10", json!({"subset": "first-1"}), dir.path()).expect_err("not the published one");
        assert!(fault.what.contains("expected md5 c99cafc1"), "{fault}");
        let packed = temporary();
        let content = std::fs::read(golden(&format!("pfllib/{batch}"))).expect("a golden file");
        let archive = tar_gz(&[("cifar-100-python/train", &content), ("cifar-100-python/test", &content)]);
        put(packed.path(), "CIFAR100/cifar-100-python.tar.gz", &archive);
        let data = sound("cifar100", json!({"verify": false}), packed.path());
        assert_eq!((data.labels(), data.superclasses()[5], data.superclasses()[99]), (&[5, 99, 5, 99][..], 1, 19));
        build_from("pachinko", &params(json!({"clients": 2})), &Population::of(&data), &[]).expect("two levels of classes");
    }
    let dir = temporary();
    let record = |coarse: u8, fine: u8| [vec![coarse, fine], vec![7; 3072]].concat();
    put(dir.path(), "CIFAR100/train.bin", &[record(3, 10), record(4, 11)].concat());
    put(dir.path(), "CIFAR100/test.bin", &record(3, 10));
    let data = sound("cifar100", json!({}), dir.path());
    assert_eq!((data.labels(), data.original_train(), data.superclasses()[11]), (&[10, 11, 10][..], 2, 4));
    put(dir.path(), "CIFAR100/test.bin", &record(4, 10));
    assert!(
        get("cifar100", json!({}), dir.path())
            .expect_err("two coarse classes")
            .what
            .contains("the fine class 10 into the coarse classes 3 and 4")
    );
    put(dir.path(), "CIFAR100/test.bin", &record(3, 10)[1..]);
    assert!(get("cifar100", json!({}), dir.path()).expect_err("truncated").what.contains("records have 3074"));
    // Code in the place of a batch.
    let dir = temporary();
    put(dir.path(), "cifar-10-batches-py/data_batch_1", b"cposix\nsystem\n(S'touch /tmp/owned'\ntR.");
    put(dir.path(), "cifar-10-batches-py/test_batch", b"");
    let fault = get("cifar10", json!({"subset": "first-1", "verify": false}), dir.path()).expect_err("code");
    assert!(fault.to_string().contains("it would run `posix.system`"), "{fault}");
}

fn har(dir: &Path, prefix: &str) {
    for (side, rows) in [("train", 2), ("test", 1)] {
        for (number, signal) in [
            "body_acc_x",
            "body_acc_y",
            "body_acc_z",
            "body_gyro_x",
            "body_gyro_y",
            "body_gyro_z",
            "total_acc_x",
            "total_acc_y",
            "total_acc_z",
        ]
        .iter()
        .enumerate()
        {
            let line = |row: usize| (0..128).map(|t| format!("  {:e}", (1000 * row + t) as f64 + number as f64 / 16.0)).collect::<String>();
            let text: String = (0..rows).map(|row| line(row) + "\n").collect();
            put(dir, &format!("{prefix}{side}/Inertial Signals/{signal}_{side}.txt"), text.as_bytes());
        }
        put(dir, &format!("{prefix}{side}/y_{side}.txt"), if side == "train" { b"5\n1\n" } else { b"6\n" });
        put(dir, &format!("{prefix}{side}/subject_{side}.txt"), if side == "train" { b"30\n2\n" } else { b"2\n" });
    }
}

#[test]
fn windows_of_har_are_read_in_both_ways() {
    let dir = temporary();
    har(dir.path(), "HAR/UCI HAR Dataset/");
    let data = sound("har", json!({}), dir.path());
    assert_eq!((data.labels(), data.original_train(), data.shape()), (&[4, 0, 5][..], 2, Shape { channels: 9, height: 1, width: 128 }));
    assert_eq!(data.groups().expect("subjects").names, ["2", "30"]);
    // Element 128 c + t of the window, time by time, is what channel c has at time t.
    let values = first(&data, 0);
    for (channel, time) in [(0, 0), (0, 100), (3, 5), (8, 127)] {
        let element = 128 * channel + time;
        assert_eq!(values[time * 9 + channel], (element / 9) as f32 + (element % 9) as f32 / 16.0);
    }
    let values = first(&sound("har", json!({"axes": "signals"}), dir.path()), 1);
    assert_eq!(values[100 * 9 + 4], 1100.0 + 4.0 / 16.0);
    // The same from an archive.
    let mut members = Vec::new();
    for file in walk(dir.path()) {
        members.push((file.strip_prefix("HAR/").expect("inside").to_owned(), std::fs::read(dir.path().join(&file)).expect("there")));
    }
    let members: Vec<(&str, &[u8])> = members.iter().map(|(name, content)| (name.as_str(), content.as_slice())).collect();
    let packed = temporary();
    put(packed.path(), "HAR/UCI HAR Dataset.zip", &zip(&members));
    assert_eq!(sound("har", json!({"verify": false}), packed.path()).labels(), data.labels());
    for (file, content, part) in [
        ("train/y_train.txt", &b"5\n7\n"[..], "has the class 7"),
        ("train/y_train.txt", b"5\n", "do not belong together"),
        ("test/subject_test.txt", b"x\n", "has `x` where a number belongs"),
    ] {
        let damaged = temporary();
        har(damaged.path(), "HAR/");
        put(damaged.path(), &format!("HAR/{file}"), content);
        let fault = get("har", json!({}), damaged.path()).expect_err(part);
        assert!(fault.what.contains(part), "{fault}");
    }
}

fn walk(root: &Path) -> Vec<String> {
    let (mut folders, mut files) = (vec![root.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("there").path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push(path.strip_prefix(root).expect("inside").to_str().expect("text").to_owned())
            }
        }
    }
    files.sort();
    files
}

#[test]
fn windows_of_pamap2_are_labeled_and_scaled_as_the_reference_does() {
    let row = |time: usize, activity: u32| -> String {
        let mut fields: Vec<String> = (0..54).map(|column| format!("{}", column + time)).collect();
        (fields[0], fields[1], fields[2]) = (format!("{}", time as f64 / 100.0), activity.to_string(), "NaN".into());
        if time == 3 {
            fields[4] = "NaN".into();
        }
        fields.join(" ") + "\n"
    };
    let dir = temporary();
    let protocol: String = (0..600).map(|t| row(t, if t < 300 { 24 } else { 4 })).collect();
    put(dir.path(), "PAMAP2/Protocol/subject101.dat", protocol.as_bytes());
    put(dir.path(), "PAMAP2/Protocol/subject102.dat", (0..300).map(|t| row(t, 0)).collect::<String>().as_bytes());
    put(dir.path(), "PAMAP2/Optional/subject101.dat", (600..700).map(|t| row(t, 4)).collect::<String>().as_bytes());
    let data = sound("pamap2", json!({}), dir.path());
    // Windows begin at 0, 128, 256 and 384; the smallest activity of each is 24, 4, 4, 4. Subject 102 has none that counts.
    assert_eq!((data.labels(), data.shape()), (&[0, 4, 4, 4][..], Shape { channels: 9, height: 3, width: 256 }));
    let values = first(&data, 0);
    // Column 4 has a missing value at time 3, and its greatest is 4 + 699.
    assert_eq!((values[0], values[9 * 3], values[9 * 4]), (4.0 / 703.0, 0.0, 8.0 / 703.0));
    // The second place of the body begins with column 21.
    assert_eq!(values[9 * 256], 21.0 / 720.0);
    put(dir.path(), "PAMAP2/Protocol/subject102.dat", b"1 2 3\n");
    assert!(get("pamap2", json!({}), dir.path()).expect_err("rows of three").what.contains("rows of 54"));
}

#[test]
fn emnist_is_read_from_its_zip_and_unpacked() {
    let idx = |magic: u32, numbers: &[u32], body: &[u8]| -> Vec<u8> {
        [magic].iter().chain(numbers).flat_map(|n| n.to_be_bytes()).chain(body.iter().copied()).collect()
    };
    let files = [
        ("train-images-idx3", idx(0x803, &[2, 2, 2], &[0, 255, 3, 4, 5, 6, 7, 8])),
        ("train-labels-idx1", idx(0x801, &[2], &[9, 0])),
        ("test-images-idx3", idx(0x803, &[1, 2, 2], &[1, 2, 3, 4])),
        ("test-labels-idx1", idx(0x801, &[1], &[4])),
    ];
    let names: Vec<String> = files.iter().map(|(name, _)| format!("gzip/emnist-digits-{name}-ubyte.gz")).collect();
    let packed: Vec<Vec<u8>> = files.iter().map(|(_, content)| gz(content)).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(String::as_str).zip(packed.iter().map(Vec::as_slice)).collect();
    let dir = temporary();
    put(dir.path(), "EMNIST/gzip.zip", &zip(&members));
    let data = sound("emnist", json!({"verify": false}), dir.path());
    assert_eq!((data.labels(), data.original_train(), first(&data, 0)[..2].to_vec()), (&[9, 0, 4][..], 2, vec![-1.0, 1.0]));
    assert!(get("emnist", json!({}), dir.path()).expect_err("not the published one").what.contains("expected sha256 fb9bb67e"));
    let loose = temporary();
    for (name, content) in &files {
        put(loose.path(), &format!("EMNIST/emnist-digits-{name}-ubyte"), content);
    }
    assert_eq!(sound("emnist", json!({}), loose.path()).labels(), data.labels());
    for (name, content) in &files {
        for cut in [0, 3, 7, content.len() - 1] {
            put(loose.path(), &format!("EMNIST/emnist-digits-{name}-ubyte"), &content[..cut]);
            assert!(get("emnist", json!({}), loose.path()).expect_err("truncated").what.contains("no sound IDX file"), "{name} {cut}");
        }
        put(loose.path(), &format!("EMNIST/emnist-digits-{name}-ubyte"), content);
    }
}

#[test]
fn pictures_of_ones_own_are_read_from_folders() {
    let dir = temporary();
    for (path, color) in
        [("train/cat/a.png", 255), ("train/dog/b.PNG", 0), ("test/cat/c.png", 128), ("train/cat/.hidden.png", 1), ("train/readme.txt", 0)]
    {
        put(dir.path(), &format!("pets/{path}"), &png(6, 4, [color, 0, color]));
    }
    let data = sound("images", json!({"folder": "pets", "size": 2}), dir.path());
    assert_eq!((data.labels(), data.original_train(), data.shape()), (&[0, 1, 0][..], 2, Shape { channels: 3, height: 2, width: 2 }));
    assert_eq!(first(&data, 0)[..3], [1.0, -1.0, 1.0]);
    let gray = sound("images", json!({"folder": "pets", "colors": "gray"}), dir.path());
    assert_eq!(gray.shape(), Shape { channels: 1, height: 4, width: 6 });
    // Pillow makes 105 of full red and blue.
    assert_eq!(first(&gray, 0)[0], 105.0 / 127.5 - 1.0);
    put(dir.path(), "pets/train/dog/d.png", &png(5, 5, [1, 1, 1]));
    assert!(get("images", json!({"folder": "pets"}), dir.path()).expect_err("another size").help.expect("help").contains("`size`"));
    put(dir.path(), "pets/train/dog/d.png", b"GIF89a");
    assert!(
        get("images", json!({"folder": "pets", "size": 2}), dir.path()).expect_err("no picture").what.contains("is not a sound picture")
    );
    put(dir.path(), "people/smile/anna/1.png", &png(2, 2, [9, 9, 9]));
    put(dir.path(), "people/frown/ben/1.png", &png(2, 2, [9, 9, 9]));
    let data = sound("images", json!({"folder": "people", "groups": true}), dir.path());
    assert_eq!((data.labels(), data.groups().expect("people").names.clone()), (&[0, 1][..], vec!["anna".to_owned(), "ben".to_owned()]));
    assert!(get("images", json!({"folder": "nowhere"}), dir.path()).expect_err("no folder").what.contains("there is no folder `nowhere`"));
}

#[test]
fn the_data_sets_of_pictures_are_read_in_their_layouts() {
    let dir = temporary();
    let at = |path: &str, shade: u8| put(dir.path(), path, &png(8, 8, [shade, shade, shade]));
    // kvasir, zipped; values stay in [0, 1].
    let picture = png(8, 8, [51, 51, 51]);
    let members: Vec<(&str, &[u8])> =
        vec![("kvasir-dataset-v2/polyps/1.png", &picture), ("kvasir-dataset-v2/cecum/2.png", &picture), ("kvasir-dataset-v2/", b"")];
    put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &zip(&members[..2]));
    let data = sound("kvasir", json!({"verify": false}), dir.path());
    assert_eq!((data.labels(), data.shape(), first(&data, 0)[0]), (&[0, 1][..], Shape { channels: 3, height: 64, width: 64 }, 0.2));
    // Tiny-ImageNet: only training pictures.
    at("TinyImagenet/tiny-imagenet-200/train/n01443537/images/n01443537_0.png", 1);
    at("TinyImagenet/tiny-imagenet-200/train/n01629819/images/n01629819_0.png", 2);
    at("TinyImagenet/tiny-imagenet-200/val/images/val_0.png", 3);
    assert_eq!(sound("tiny-imagenet", json!({"verify": false}), dir.path()).labels(), [0, 1]);
    at("Country211/country211/train/AD/1.png", 1);
    at("Country211/country211/test/AE/1.png", 1);
    at("Country211/country211/valid/AD/2.png", 1);
    let data = sound("country211", json!({"verify": false}), dir.path());
    assert_eq!((data.len(), data.original_train(), data.classes()), (3, 1, 2));
    at("CINIC10/train/airplane/a.png", 1);
    at("CINIC10/valid/airplane/a.png", 1);
    at("CINIC10/test/truck/a.png", 1);
    let data = sound("cinic10", json!({"verify": false}), dir.path());
    assert_eq!((data.labels(), data.original_train(), data.shape().width), (&[0, 0, 1][..], 2, 32));
    // GTSRB: ppm, and a list for the test pictures.
    put(dir.path(), "GTSRB/GTSRB/Training/00042/00000.ppm", b"P6\n1 1\n255\nabc");
    put(dir.path(), "GTSRB/GTSRB/Final_Test/Images/00000.ppm", b"P6\n1 1\n255\nabc");
    put(dir.path(), "GTSRB/GT-final_test.csv", b"Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n00000.ppm;1;1;0;0;1;1;16\n");
    let data = sound("gtsrb", json!({"verify": false}), dir.path());
    assert_eq!((data.labels(), data.original_train(), data.classes()), (&[42, 16][..], 1, 43));
    // What a list names must be there.
    put(
        dir.path(),
        "GTSRB/GT-final_test.csv",
        b"Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n00000.ppm;1;1;0;0;1;1;16\n00001.ppm;1;1;0;0;1;1;1\n",
    );
    let fault = get("gtsrb", json!({}), dir.path()).expect_err("a picture is gone");
    assert!(fault.what.contains("lacks 1 of the 2 pictures") && fault.help.expect("help").contains("GTSRB_Final_Test_Images.zip"));
    // COVIDx: lists.
    at("COVIDx/train/a.png", 1);
    at("COVIDx/test/b.png", 1);
    put(dir.path(), "COVIDx/train.txt", b"p1 a.png positive cohen\n");
    put(dir.path(), "COVIDx/test.txt", b"p2 b.png negative rsna\n");
    let data = sound("covidx", json!({}), dir.path());
    assert_eq!((data.labels(), data.original_train()), (&[1, 0][..], 1));
    put(dir.path(), "COVIDx/train.txt", b"p1 a.png positive cohen\np1 c.png negative cohen\n");
    assert!(get("covidx", json!({}), dir.path()).expect_err("a picture is gone").what.contains("such as `train/c.png`"));
    // UTKFace: the age stands in the name.
    for name in ["27_0_1_20170104020210872", "8_1_0_20170109190633", "116_1_2_20170112220255", "old_1_2_3"] {
        at(&format!("UTKFace/UTKFace/{name}.jpg.chip.jpg"), 7);
    }
    let data = sound("utkface", json!({"verify": false}), dir.path());
    assert_eq!((data.len(), data.classes()), (3, 12));
    let mut labels = data.labels().to_vec();
    labels.sort_unstable();
    assert_eq!(labels, [0, 2, 11]);
    // DomainNet: lists for six domains.
    for domain in ["clipart", "infograph", "painting", "quickdraw", "real", "sketch"] {
        at(&format!("DomainNet/{domain}/cat/1.png"), 3);
        at(&format!("DomainNet/{domain}/dog/2.png"), 3);
        put(dir.path(), &format!("DomainNet/{domain}_train.txt"), format!("{domain}/cat/1.png 0\n").as_bytes());
        put(dir.path(), &format!("DomainNet/{domain}_test.txt"), format!("{domain}/dog/2.png 344\n").as_bytes());
    }
    let data = sound("domainnet", json!({}), dir.path());
    assert_eq!((data.len(), data.original_train(), data.classes(), data.groups().expect("domains").names.len()), (12, 6, 345, 6));
    std::fs::remove_file(dir.path().join("DomainNet/sketch/dog/2.png")).expect("there");
    let fault = get("domainnet", json!({}), dir.path()).expect_err("a picture is gone");
    assert!(fault.what.contains("sketch/dog/2.png") && fault.help.expect("help").contains("sketch.zip"));
    // WILDS.
    let patch = "patches/patient_004_node_4/patch_patient_004_node_4_x_3328_y_21792.png";
    at(&format!("Camelyon17/camelyon17_v1.0/{patch}"), 3);
    put(
        dir.path(),
        "Camelyon17/camelyon17_v1.0/metadata.csv",
        b",patient,node,x_coord,y_coord,tumor,slide,center,split\n0,004,4,3328,21792,1,0,3,0\n1,004,4,1,1,0,0,3,1\n",
    );
    let data = sound("camelyon17", json!({}), dir.path());
    assert_eq!((data.labels(), data.classes(), data.groups().expect("hospitals").names.clone()), (&[1][..], 2, vec!["3".to_owned()]));
    at("iWildCam/iwildcam_v2.0/train/x.jpg", 3);
    at("iWildCam/iwildcam_v2.0/train/y.jpg", 3);
    put(dir.path(), "iWildCam/iwildcam_v2.0/metadata.csv", b"split,location_remapped,filename,y\ntrain,17,x.jpg,5\nid_val,17,y.jpg,9\n");
    assert_eq!(sound("iwildcam", json!({}), dir.path()).labels(), [0]);
}

#[test]
fn matlabs_files_give_classes_and_digits() {
    let dir = temporary();
    for number in 1..=4 {
        put(dir.path(), &format!("Flowers102/jpg/image_{number:05}.jpg"), &png(8, 8, [number, 0, 0]));
    }
    for name in ["imagelabels.mat", "setid.mat"] {
        copy(&format!("formats/flowers/{name}"), dir.path(), &format!("Flowers102/{name}"));
    }
    let data = sound("flowers102", json!({"verify": false}), dir.path());
    assert_eq!((data.labels(), data.original_train(), data.classes()), (&[2, 101, 0, 76][..], 2, 102));
    for (path, shade) in [("cars_train/00001.jpg", 1), ("cars_train/00002.jpg", 2), ("cars_test/00001.jpg", 3)] {
        put(dir.path(), &format!("StanfordCars/{path}"), &png(8, 8, [shade, 0, 0]));
    }
    for name in ["cars_train_annos.mat", "cars_test_annos_withlabels.mat"] {
        copy(&format!("formats/cars/{name}"), dir.path(), &format!("StanfordCars/{name}"));
    }
    let data = sound("stanford-cars", json!({"verify": false}), dir.path());
    assert_eq!((data.labels(), data.original_train(), data.classes()), (&[13, 195, 0][..], 2, 196));
    // Neither a set without its test pictures nor pictures without labels are sound.
    std::fs::remove_file(dir.path().join("StanfordCars/cars_test/00001.jpg")).expect("there");
    let fault = get("stanford-cars", json!({"verify": false}), dir.path()).expect_err("a part is gone");
    assert!(fault.help.expect("help").contains("cars_test.tgz"));
    put(dir.path(), "Flowers102/jpg/image_00005.jpg", &png(8, 8, [5, 0, 0]));
    assert!(get("flowers102", json!({"verify": false}), dir.path()).expect_err("no label").what.contains("has 4 labels"));

    let names =
        ["mnist_data", "mnistm_with_label", "svhn_test_32x32", "svhn_train_32x32", "synth_test_32x32", "synth_train_32x32", "usps_28x28"];
    for name in names {
        copy(&format!("formats/digit5/{name}.mat"), dir.path(), &format!("Digit5/{name}.mat"));
    }
    let data = sound("digit5", json!({}), dir.path());
    let groups = data.groups().expect("domains");
    assert_eq!(groups.names, ["0 mnistm", "1 mnist", "2 syn", "3 usps", "4 svhn"]);
    let of = |domain: u32| (0..data.len()).filter(|&i| groups.of[i] == domain).map(|i| data.labels()[i]).collect::<Vec<_>>();
    assert_eq!((of(2), of(3)), (vec![0, 2, 9, 0], vec![1, 0, 1, 0, 1, 0, 1, 0, 7]));
    let (mut mnistm, mut svhn) = (of(0), of(4));
    assert_eq!((mnistm.pop(), svhn.pop()), (Some(8), Some(0)));
    mnistm.sort_unstable();
    svhn.sort_unstable();
    assert_eq!((mnistm, svhn), (vec![5, 6, 7], vec![0, 2, 9]));
    // The second synthetic digit is the second picture of the file: 32 x 32 x 3 bytes that count up modulo 253.
    let index = (0..data.len() as u32).filter(|&i| groups.of[i as usize] == 2).nth(1).expect("there");
    let scaled = |v: usize| ((v % 253) as f32 / 255.0 - 0.5) / 0.5;
    assert_eq!(first(&data, index)[..4], [scaled(3072), scaled(3073), scaled(3074), scaled(3075)]);
    for name in names {
        let whole = std::fs::read(golden(&format!("formats/digit5/{name}.mat"))).expect("a golden file");
        for cut in [0, 100, 128, 130, 200, whole.len() / 2, whole.len() - 9] {
            put(dir.path(), &format!("Digit5/{name}.mat"), &whole[..cut]);
            let fault = get("digit5", json!({}), dir.path()).expect_err("truncated");
            assert!(fault.kind == FaultKind::Storage && fault.to_string().contains(name), "{name} {cut}: {fault}");
        }
        for at in (128..whole.len()).step_by(whole.len() / 60) {
            let mut changed = whole.clone();
            changed[at] ^= 0x81;
            put(dir.path(), &format!("Digit5/{name}.mat"), &changed);
            // Changed pixels do not matter here; nothing may panic.
            let _ = get("digit5", json!({}), dir.path());
        }
        put(dir.path(), &format!("Digit5/{name}.mat"), &whole);
    }
}

#[test]
fn amazon_reviews_become_counts_by_domain() {
    let dir = temporary();
    copy("formats/amazon.npz", dir.path(), "AmazonReview/amazon.npz");
    let data = sound("amazon-review", json!({}), dir.path());
    assert_eq!((data.len(), data.classes(), data.shape().channels), (8, 2, 5000));
    assert_eq!(data.groups().expect("domains").names, ["books", "dvd", "electronics", "kitchen"]);
    let rows: Vec<Vec<f32>> = (0..8).map(|i| first(&data, i)).collect();
    let sums: Vec<f32> = rows.iter().map(|row| row.iter().sum()).collect();
    let mut books = sums[..2].to_vec();
    books.sort_by(f32::total_cmp);
    // The last word of the last review is beyond the first 5,000.
    assert_eq!((books, sums.iter().sum::<f32>()), (vec![0.0, 3.0], 10.0));
}

#[test]
fn tables_and_arrays_of_ones_own_are_read() {
    let dir = temporary();
    put(dir.path(), "wine.csv", b"acid,who,sugar,kind\n1,b,10,red\n3,a,30,white\n2,b,20,red\n");
    let data = sound("csv", json!({"file": "wine.csv", "group": "who"}), dir.path());
    assert_eq!((data.labels(), data.shape().channels, data.groups().expect("groups").of.clone()), (&[0, 1, 0][..], 2, vec![1, 0, 1]));
    let sd = (2.0_f32 / 3.0).sqrt();
    assert!(first(&data, 1).iter().zip([1.0 / sd, 1.0 / sd]).all(|(a, b)| (a - b).abs() < 1e-6));
    let few = sound("csv", json!({"file": "wine.csv", "group": "who", "standardize": false, "limit": 2}), dir.path());
    assert_eq!((few.len(), first(&few, 1)), (2, vec![3.0, 30.0]));
    for (setting, part) in [
        (json!({"label": "acid"}), "has no number in column `who` of row 2"),
        (json!({"label": "color"}), "has no column `color`"),
        (json!({"delimiter": ";;"}), "must be one character"),
        (json!({"limit": 4, "group": "who"}), "`limit` is 4"),
    ] {
        let mut all = params(setting);
        all.insert("file".into(), json!("wine.csv"));
        assert!(get("csv", Value::Object(all), dir.path()).expect_err(part).what.contains(part));
    }
}

#[test]
fn arrays_of_numpy_and_safetensors_are_read() {
    let data = sound("npz", json!({"file": "arrays.npz"}), &golden("formats"));
    assert_eq!((data.labels(), data.original_train(), data.shape()), (&[1, 0, 2][..], 2, Shape { channels: 1, height: 3, width: 4 }));
    assert_eq!(first(&data, 1)[0], (12.0_f32 / 255.0 - 0.5) / 0.5);
    let data = sound("npz", json!({"file": "floats.npz", "layout": "channels-first"}), &golden("formats"));
    assert_eq!(
        (data.shape(), data.groups().expect("groups").names.clone()),
        (Shape { channels: 3, height: 1, width: 2 }, vec!["3".to_owned(), "7".to_owned()])
    );
    assert_eq!(first(&data, 0), [0.0, 1.0, 2.0, 0.5, 1.5, 2.5]);
    let dir = temporary();
    let x: Vec<u8> = [0.5_f32, 1.5, 2.5, 3.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    let views = [
        ("x", safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2, 2], &x).expect("fits")),
        ("y", safetensors::tensor::TensorView::new(safetensors::Dtype::U8, vec![2], &[1, 0]).expect("fits")),
    ];
    let content = safetensors::serialize(views, None).expect("memory");
    put(dir.path(), "own.safetensors", &content);
    let data = sound("safetensors", json!({"file": "own.safetensors"}), dir.path());
    assert_eq!((data.labels(), first(&data, 1)), (&[1, 0][..], vec![2.5, 3.5]));
    for cut in 0..content.len() {
        put(dir.path(), "own.safetensors", &content[..cut]);
        assert_eq!(get("safetensors", json!({"file": "own.safetensors"}), dir.path()).expect_err("truncated").kind, FaultKind::Storage);
    }
    let whole = std::fs::read(golden("formats/arrays.npz")).expect("a golden file");
    for cut in (0..whole.len()).step_by(11) {
        put(dir.path(), "cut.npz", &whole[..cut]);
        assert_eq!(get("npz", json!({"file": "cut.npz"}), dir.path()).expect_err("truncated").kind, FaultKind::Storage);
    }
    assert!(get("npz", json!({"file": "gone.npz"}), dir.path()).expect_err("gone").what.contains("there is no file `gone.npz`"));
}

#[test]
fn leafs_json_is_read_as_texts_or_numbers() {
    let dir = temporary();
    let text = "a".repeat(79) + "!";
    let play = |user: &str, y: &str| json!({"users": [user], "num_samples": [1], "user_data": {user: {"x": [text], "y": [y]}}}).to_string();
    put(dir.path(), "Shakespeare/train/all_data_niid_2_keep_0_train_9.json", play("HAMLET", "b").as_bytes());
    put(dir.path(), "Shakespeare/test/all_data_niid_2_keep_0_test_9.json", play("HAMLET", "\n").as_bytes());
    let data = sound("shakespeare", json!({}), dir.path());
    assert_eq!((data.classes(), data.original_train(), data.labels()), (80, 1, &[54, 0][..]));
    assert_eq!((first(&data, 0)[0], first(&data, 0)[79]), (53.0, 2.0));
    let partition = build_from("natural", &params(json!({"test": "original", "order": "smallest-first"})), &Population::of(&data), &[]);
    assert_eq!(partition.expect("feasible").clients()[0].test, [1]);
    let pixels: Vec<f32> = (0..784).map(|i| i as f32 / 783.0).collect();
    let digits = |user: &str| json!({"users": [user], "user_data": {user: {"x": [pixels], "y": [61]}}}).to_string();
    put(dir.path(), "FEMNIST/train/all_data_0.json", digits("f0001_41").as_bytes());
    put(dir.path(), "FEMNIST/test/all_data_0.json", digits("f0001_41").as_bytes());
    let data = sound("femnist", json!({}), dir.path());
    assert_eq!((data.classes(), data.shape().width, first(&data, 1)[783]), (62, 28, 1.0));
    put(dir.path(), "mine/train/a_train_b.json", br#"{"users": ["u"], "user_data": {"u": {"x": [[1, 2], [3, 4]], "y": [0, 1]}}}"#);
    put(dir.path(), "mine/test/a_test_b.json", br#"{"users": [], "user_data": {}}"#);
    assert_eq!(sound("leaf", json!({"folder": "mine"}), dir.path()).labels(), [0, 1]);
    for (content, part) in [
        (&br#"{"users": ["u"], "user_data": {}}"#[..], "has no data of user `u`"),
        (br#"{"users": ["u"], "user_data": {"u": {"x": [[1]], "y": [0, 1]}}}"#, "has 1 samples but 2 labels"),
        (br#"{"users": ["u"], "user_data": {"u": {"x": [[1], [1, 2]], "y": [0, 1]}}}"#, "has samples of 2 and of 1 values"),
        (br#"{"users": ["u"], "user_data": {"u": {"x": [[1]], "y": [-1]}}}"#, "that is no class"),
        (br#"{"users": ["u"], "user_data""#, "is no json of LEAF"),
        (br#"{"users": ["u"], "user_data": {"u": {"x": ["a$"], "y": ["a"]}}}"#, "has the character '$'"),
    ] {
        put(dir.path(), "mine/train/a_train_b.json", content);
        let fault = get("leaf", json!({"folder": "mine"}), dir.path()).expect_err(part);
        assert!(fault.what.contains(part), "{fault}");
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

#[test]
fn hostile_archives_are_refused_in_bounded_memory() {
    let picture = png(4, 4, [1, 2, 3]);
    // Names that lead out of the archive.
    for name in ["../../etc/passwd.png", "/etc/x.png", "kvasir-dataset-v2/polyps/../../../x.png", "C:/x/y.png", "..\\..\\x\\y.png"] {
        let dir = temporary();
        put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &zip(&[(name, &picture)]));
        let fault = get("kvasir", json!({}), dir.path()).expect_err("leads out");
        assert!(fault.what.contains("a name that leads out of it"), "{name}: {fault}");
        let dir = temporary();
        put(dir.path(), "UTKFace/UTKFace.tar.gz", &tar_gz(&[(name, &picture)]));
        let fault = get("utkface", json!({}), dir.path()).expect_err("leads out");
        assert!(fault.what.contains("a name that leads out of it"), "{name}: {fault}");
    }
    // A member of zeros that unpacks to more than a picture may have.
    let dir = temporary();
    let zeros = vec![0; 300 << 20];
    put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &zip(&[("kvasir-dataset-v2/polyps/1.png", &zeros)]));
    let fault = get("kvasir", json!({}), dir.path()).expect_err("a bomb");
    assert!(fault.what.contains("more than the 256.0 MiB"), "{fault}");
    put(dir.path(), "UTKFace/UTKFace.tar.gz", &tar_gz(&[("UTKFace/1_1_1_1.jpg.chip.jpg", &zeros)]));
    assert!(get("utkface", json!({}), dir.path()).expect_err("a bomb").what.contains("more than the 256.0 MiB"));
    drop(zeros);
    // A picture that promises more pixels than fit.
    let mut huge = png(4, 4, [1, 2, 3]);
    huge[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    put(dir.path(), "own/a/1.png", &huge);
    assert!(get("images", json!({"folder": "own"}), dir.path()).expect_err("huge").what.contains("is not a sound picture"));
    // Truncated at any place.
    let members: Vec<(&str, &[u8])> = vec![("kvasir-dataset-v2/polyps/1.png", &picture), ("kvasir-dataset-v2/cecum/2.png", &picture)];
    let (zipped, tarred) =
        (zip(&members), tar_gz(&[("UTKFace/27_1_1_1.jpg.chip.jpg", &picture), ("UTKFace/28_1_1_1.jpg.chip.jpg", &picture)]));
    for cut in (0..zipped.len()).step_by(13) {
        put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &zipped[..cut]);
        let fault = get("kvasir", json!({}), dir.path()).expect_err("truncated");
        assert_eq!(fault.kind, FaultKind::Storage, "{cut}: {fault}");
    }
    for cut in (0..tarred.len() - 40).step_by(13) {
        put(dir.path(), "UTKFace/UTKFace.tar.gz", &tarred[..cut]);
        let fault = get("utkface", json!({}), dir.path()).expect_err("truncated, or incomplete");
        assert_eq!(fault.kind, FaultKind::Storage, "{cut}: {fault}");
    }
    for at in (0..zipped.len()).step_by(3) {
        let mut changed = zipped.clone();
        changed[at] ^= 0x55;
        put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &changed);
        let _ = get("kvasir", json!({}), dir.path());
    }
    put(dir.path(), "SP-SW-HAR/sp-sw-har-dataset-DATA.tar.xz", b"\xfd7zXZ\x00\x00\x04\xe6\xd6\xb4\x46garbage that is no stream");
    assert!(get("sp-sw-har", json!({}), dir.path()).expect_err("garbage").what.contains("is not a sound archive"));
}

#[test]
fn news_are_refused_where_rows_are_not_news() {
    let dir = temporary();
    for (content, part) in [
        (&b"\"5\",\"a\",\"b\"\n"[..], "has no class from 1 to 4 at the start of row 1"),
        (b"\"1\",\"a\",\"b\"\n\"x\",\"a\",\"b\"\n", "at the start of row 2"),
        (b"\"1\",\"\xff\xfe\",\"b\"\n", "cannot be read"),
        (b"", "is empty"),
    ] {
        put(dir.path(), "AGNews/test.csv", content);
        let fault = get("ag-news", json!({"subset": "test", "verify": false}), dir.path()).expect_err(part);
        assert!(fault.to_string().contains(part), "{fault}");
    }
    assert!(
        get("ag-news", json!({"subset": "test"}), dir.path()).expect_err("not the published one").what.contains("expected md5 d52ea96a")
    );
    put(dir.path(), "AGNews/test.csv", b"\"1\",\"A b\",\"a.\"\n\"4\",\"b\",\"\"\n");
    let data = sound("ag-news", json!({"subset": "test", "verify": false, "length": 6}), dir.path());
    // Words by count: a and b twice, the full stop once.
    assert_eq!(
        (data.labels(), first(&data, 0), first(&data, 1)),
        (&[0, 3][..], vec![2.0, 4.0, 5.0, 4.0, 6.0, 0.0], vec![2.0, 5.0, 0.0, 0.0, 0.0, 0.0])
    );
    put(
        dir.path(),
        "SogouNews/sogou_news_csv.tar.gz",
        &tar_gz(&[("sogou_news_csv/train.csv", b"\"5\",\"a\",\"b\"\n"), ("sogou_news_csv/test.csv", b"\"1\",\"a\",\"b\"\n")]),
    );
    let data = sound("sogou-news", json!({"verify": false}), dir.path());
    assert_eq!((data.labels(), data.original_train()), (&[4, 0][..], 1));
}
