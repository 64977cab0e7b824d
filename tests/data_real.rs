//! The original files of data sets, where they are there: counts that their makers state, and what the reference makes of them.

use pflpipe::data::partition::{Population, build_from};
use pflpipe::data::{Dataset, Shape, facts, load};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The folder with the original files, when there is one.
fn originals(needed: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let dirs: Vec<PathBuf> = std::env::var_os("PFLPIPE_DATA").map_or_else(|| vec![beside], |list| std::env::split_paths(&list).collect());
    let found = dirs.iter().find(|dir| dir.join(needed).is_dir()).cloned();
    if found.is_none() {
        println!("skipped: no folder `{needed}` in {dirs:?}; set PFLPIPE_DATA");
    }
    found
}

fn params(value: Value) -> Map<String, Value> {
    value.as_object().expect("a map").clone()
}

fn get(name: &str, setting: Value, dir: &Path) -> Dataset {
    load(name, &params(setting), &[dir.to_path_buf()]).unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

fn counts(data: &Dataset) -> Vec<usize> {
    let mut counts = vec![0; data.classes()];
    data.labels().iter().for_each(|&label| counts[label as usize] += 1);
    counts
}

fn first(data: &Dataset, index: u32) -> Vec<f32> {
    let mut values = Vec::new();
    data.gather(&[index], &mut values);
    values
}

#[test]
fn ag_news_is_tokenized_as_the_reference_does() {
    let Some(dir) = originals("AGNews") else { return };
    let data = get("ag-news", json!({"subset": "test"}), &dir);
    assert_eq!((data.len(), data.original_train(), data.classes()), (7600, 7600, 4));
    assert_eq!(counts(&data), [1900; 4]);
    assert_eq!(data.shape(), Shape { channels: 1, height: 1, width: 200 });
    // Made by tests/golden/text/make.py, which follows torchtext.
    let golden: Value = serde_json::from_str(include_str!("golden/text/ag_news.json")).expect("golden numbers");
    assert_eq!(json!(data.vocabulary().expect("a text").size), golden["vocabulary"]);
    for (row, wanted) in golden["rows"].as_object().expect("a map") {
        let row: u32 = row.parse().expect("a number");
        let ids: Vec<u32> = first(&data, row).iter().map(|&id| id as u32).collect();
        assert_eq!(json!(ids), *wanted, "row {row}");
    }
    let fault = load("ag-news", &Map::new(), std::slice::from_ref(&dir)).expect_err("no train.csv");
    assert!(fault.what.contains("lacks `train.csv`") && fault.help.expect("help").contains("subset: test"));
    let back = Dataset::from_parts(&data.to_parts().info, data.to_parts().samples, &data.to_parts().labels).expect("own format");
    assert_eq!(first(&back, 5), first(&data, 5));
}

#[test]
fn sentences_and_plays_are_read() {
    if let Some(dir) = originals("AmazonSentences") {
        let data = get("amazon-sentences", json!({}), &dir);
        assert_eq!((data.len(), counts(&data)), (1000, vec![500, 500]));
        assert!(data.length(0) > 5 && data.length(0) <= 40);
        // The same sentences as counts of words, as Amazon Review has them.
        let counts = get("amazon-sentences", json!({"form": "counts"}), &dir);
        assert_eq!((counts.len(), counts.labels()), (1000, data.labels()));
        assert!(counts.shape().channels > 1000 && counts.shape().width == 1, "{:?}", counts.shape());
        let words: f32 = first(&counts, 0).iter().sum();
        assert_eq!(words as usize, data.length(0), "a short sentence has all its words in both forms");
    }
    if let Some(dir) = originals("TinyShakespeare") {
        let data = get("tiny-shakespeare", json!({}), &dir);
        assert_eq!((data.classes(), data.shape().width), (65, 80));
        let groups = data.groups().expect("speakers");
        assert!(groups.names.len() > 100 && groups.names.len() <= 299, "{}", groups.names.len());
        // The next sample of a speaker begins 20 characters later.
        let (a, b) = (first(&data, 0), first(&data, 1));
        assert_eq!(a[20..], b[..60]);
        let partition = build_from("natural", &params(json!({"least_samples": 50})), &Population::of(&data), &[]).expect("feasible");
        assert!(partition.clients().len() > 50);
    }
}

#[test]
fn omniglot_has_alphabets_characters_and_drawers() {
    let Some(dir) = originals("Omniglot") else { return };
    let data = get("omniglot", json!({"subset": "small1"}), &dir);
    assert_eq!((data.len(), data.classes(), data.shape()), (2720, 5, Shape { channels: 1, height: 105, width: 105 }));
    assert_eq!(data.groups().expect("drawers").names.len(), 20);
    let values = first(&data, 0);
    assert!(values.iter().all(|&v| v == 0.0 || v == 1.0));
    let ink = values.iter().filter(|&&v| v == 0.0).count();
    assert!(ink > 100 && ink < 2000, "{ink} dark pixels");
    let data = get("omniglot", json!({"subset": "small2", "label": "character"}), &dir);
    assert_eq!((data.len(), data.classes(), counts(&data)), (3120, 156, vec![20; 156]));
    let partition = build_from("natural", &Map::new(), &Population::of(&data), &[]).expect("feasible");
    assert!(partition.clients().iter().all(|client| client.len() == 156));
    let fault = load("omniglot", &Map::new(), std::slice::from_ref(&dir)).expect_err("the large sets are not there");
    assert!(fault.what.contains("are not there"), "{fault}");
}

#[test]
fn the_23_subjects_of_sp_sw_har_have_their_windows() {
    let Some(dir) = originals("SP-SW-HAR") else { return };
    let data = get("sp-sw-har", json!({}), &dir);
    assert_eq!((data.len(), data.shape()), (3714, Shape { channels: 6, height: 1, width: 128 }));
    assert_eq!(counts(&data), [242, 431, 1801, 808, 432]);
    let partition = build_from("natural", &Map::new(), &Population::of(&data), &[]).expect("feasible");
    let sizes: Vec<usize> = partition.clients().iter().map(|client| client.len()).collect();
    assert_eq!((sizes.len(), sizes.iter().min(), sizes.iter().max()), (23, Some(&100), Some(&196)));
    assert_eq!(get("sp-sw-har", json!({"sensor": "watch"}), &dir).len(), 3771);
}

#[test]
fn semeion_is_the_published_file() {
    let Some(dir) = originals("Semeion") else { return };
    let data = get("semeion", json!({}), &dir);
    assert_eq!((data.len(), counts(&data)), (1593, vec![161, 162, 159, 159, 161, 159, 161, 158, 155, 158]));
    assert!(first(&data, 0).iter().all(|&v| v == -1.0 || v == 1.0));
}

#[test]
fn fashion_mnist_is_found_in_the_folder_of_a_package() {
    let Some(dir) = originals("FashionMNIST") else { return };
    let package = tempfile::tempdir().expect("a temporary folder");
    let folder = package.path().join("fashion-mnist");
    std::fs::create_dir(&folder).expect("a temporary folder");
    for file in std::fs::read_dir(dir.join("FashionMNIST")).expect("there") {
        let file = file.expect("there");
        if file.file_name().to_string_lossy().ends_with(".gz") {
            // Debian's files are packed anew, without a name in the header.
            let mut plain = Vec::new();
            let packed = std::fs::File::open(file.path()).expect("there");
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed), &mut plain).expect("sound");
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, &plain).expect("memory");
            std::fs::write(folder.join(file.file_name()), encoder.finish().expect("memory")).expect("a temporary file");
        }
    }
    assert_eq!(get("fashion-mnist", json!({}), package.path()).len(), 70_000);
}

#[test]
fn what_is_known_of_a_data_set_before_it_is_read_is_what_it_has() {
    let mut seen = 0;
    for (folder, name, setting) in [
        ("", "optdigits", json!({})),
        ("", "optdigits", json!({"limit": 100})),
        ("", "synthetic", json!({})),
        ("", "fcube", json!({"samples": 40})),
        ("MNIST", "mnist", json!({})),
        ("FashionMNIST", "fashion-mnist", json!({"limit": 300})),
        ("CIFAR10", "cifar10", json!({"subset": "first-1"})),
        ("Semeion", "semeion", json!({})),
        ("AGNews", "ag-news", json!({"subset": "test"})),
        ("AmazonSentences", "amazon-sentences", json!({})),
        ("AmazonSentences", "amazon-sentences", json!({"form": "counts"})),
        ("AmazonSentences", "amazon-sentences", json!({"length": 7})),
        ("TinyShakespeare", "tiny-shakespeare", json!({"length": 30, "step": 50})),
    ] {
        let Some(dir) = (if folder.is_empty() { Some(PathBuf::from(".")) } else { originals(folder) }) else { continue };
        let known = facts(name, &params(setting.clone())).expect("a known data set");
        let data = get(name, setting, &dir);
        assert_eq!(known.classes, data.classes(), "{name}");
        assert!(known.shape.is_none_or(|shape| shape == data.shape()), "{name}: {known:?}, {:?}", data.shape());
        assert!(known.samples.is_none_or(|samples| samples == data.len()), "{name}: {known:?}, {}", data.len());
        assert_eq!(known.text, data.vocabulary().is_some(), "{name}");
        assert!(known.tests.is_none_or(|tests| tests == (data.original_train() < data.len())), "{name}: {known:?}");
        assert!(known.count.is_none_or(|count| data.groups().is_some_and(|groups| groups.names.len() <= count)), "{name}: {known:?}");
        let mut counts = vec![0; data.classes()];
        data.labels().iter().for_each(|&label| counts[label as usize] += 1);
        assert!(known.largest.is_none_or(|largest| counts.iter().all(|count| *count <= largest)), "{name}: {known:?}, {counts:?}");
        assert!(!known.full || counts.iter().all(|count| *count > 0), "{name}: {counts:?}");
        assert!(known.words.is_none_or(|words| Some(words) == data.vocabulary()), "{name}: {known:?}, {:?}", data.vocabulary());
        assert_eq!((known.groups, known.superclasses), (data.groups().is_some(), !data.superclasses().is_empty()), "{name}");
        seen += 1;
    }
    assert!(seen >= 4, "those without files are always there");
}

#[test]
fn a_packed_tar_that_is_cut_or_goes_on_is_refused() {
    let Some(dir) = originals("SP-SW-HAR") else { return };
    let name = "SP-SW-HAR/sp-sw-har-dataset-DATA.tar.xz";
    let whole = std::fs::read(dir.join(name)).expect("there");
    let space = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(space.path().join("SP-SW-HAR")).expect("a temporary folder");
    // The last bytes are the footer of the packing, behind everything that is packed.
    for content in [whole[..whole.len() - 4].to_vec(), whole[..whole.len() - 100].to_vec(), [&whole[..], b"behind"].concat()] {
        std::fs::write(space.path().join(name), content).expect("a temporary file");
        let fault = load("sp-sw-har", &params(json!({})), &[space.path().to_path_buf()]).expect_err("not whole");
        assert!(fault.what.contains("is not a sound archive"), "{fault}");
    }
}
