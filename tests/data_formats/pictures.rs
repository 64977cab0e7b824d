//! Pictures in batches and arrays: CIFAR's, EMNIST's, MATLAB's.

use crate::{copy, first, get, golden, gz, params, png, put, sound, tar_gz, temporary, zip};
use pflpipe::base::FaultKind;
use pflpipe::data::partition::{Population, build_from};
use serde_json::json;

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
