//! Other ways to the same data sets: an archive in an archive, LEAF's pickle, PFLlib's random steps, its folder's configuration; and what
//! is said of those of which a part is missing or damaged.

use image::{GrayImage, ImageFormat, Luma, Rgb, RgbImage};
use pflpipe::base::Fault;
use pflpipe::data::{Added, Dataset, Shape, load, variants};
use serde_json::{Value, json};
use std::io::{Cursor, Write};
use std::path::Path;

fn get(name: &str, setting: Value, dir: &Path) -> Result<Dataset, Fault> {
    load(name, setting.as_object().expect("a map"), &[dir.to_path_buf()])
}

fn sound(name: &str, setting: Value, dir: &Path) -> Dataset {
    get(name, setting, dir).unwrap_or_else(|fault| panic!("{name}: {fault}"))
}

fn values(data: &Dataset, index: u32) -> Vec<f32> {
    let mut values = Vec::new();
    data.gather(&[index], &mut values);
    values
}

fn put(dir: &Path, name: &str, content: &[u8]) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().expect("inside")).expect("a temporary folder");
    std::fs::write(path, content).expect("a temporary file");
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).expect("memory");
        writer.write_all(content).expect("memory");
    }
    writer.finish().expect("memory").into_inner()
}

/// A picture with one color on the left and another on the right.
fn picture(left: [u8; 3], right: [u8; 3]) -> Vec<u8> {
    let picture = RgbImage::from_fn(80, 64, |x, _| Rgb(if x < 40 { left } else { right }));
    let mut out = Cursor::new(Vec::new());
    picture.write_to(&mut out, ImageFormat::Png).expect("memory");
    out.into_inner()
}

#[test]
fn ucis_zip_in_a_zip_is_read_through() {
    // One subject of PAMAP2: 600 rows of 54 numbers, activity 4 throughout.
    let row = |at: usize| format!("{at} 4 {}\n", (2..54).map(|column| (at * column % 17).to_string()).collect::<Vec<_>>().join(" "));
    let rows: String = (0..600).map(row).collect();
    let inner = zip(&[("PAMAP2_Dataset/Protocol/subject101.dat", rows.as_bytes())]);
    let plain = temporary();
    put(plain.path(), "PAMAP2/PAMAP2_Dataset.zip", &inner);
    let wanted = sound("pamap2", json!({}), plain.path());
    let name = "PAMAP2/pamap2+physical+activity+monitoring.zip";
    let wrapped = temporary();
    put(wrapped.path(), name, &zip(&[("readme.pdf", b"x"), ("PAMAP2_Dataset.zip", &inner)]));
    let found = sound("pamap2", json!({}), wrapped.path());
    assert_eq!((found.labels(), values(&found, 1)), (wanted.labels(), values(&wanted, 1)));
    assert_eq!(found.len(), 3);
    // Cut, and what is only called an archive.
    put(wrapped.path(), name, &zip(&[("PAMAP2_Dataset.zip", &inner[..inner.len() / 2])]));
    assert!(get("pamap2", json!({}), wrapped.path()).expect_err("cut").what.contains("is not a sound archive"));
    put(wrapped.path(), name, &zip(&[("PAMAP2_Dataset.zip", b"no archive")]));
    assert!(get("pamap2", json!({}), wrapped.path()).is_err());
    // HAR's wrapper has a published checksum.
    put(wrapped.path(), "HAR/human+activity+recognition+using+smartphones.zip", &zip(&[("UCI HAR Dataset.zip", &inner)]));
    assert!(get("har", json!({}), wrapped.path()).expect_err("another file").what.contains("c00b8030"));
    assert!(get("har", json!({"verify": false}), wrapped.path()).expect_err("other content").what.contains("lacks `y_train.txt`"));
}

/// A pickle of protocol 2 of a list of writers.
fn writers(all: &[(&str, &[(&str, &str)])]) -> Vec<u8> {
    let mut out = vec![0x80, 2, b']', b'('];
    let text = |out: &mut Vec<u8>, text: &str| {
        out.push(b'X');
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
    };
    for (writer, pictures) in all {
        text(&mut out, writer);
        out.extend([b']', b'(']);
        for (path, code) in *pictures {
            text(&mut out, path);
            text(&mut out, code);
            out.push(0x86);
        }
        out.extend([b'e', 0x86]);
    }
    out.extend([b'e', b'.']);
    out
}

#[test]
fn leafs_pickle_of_writers_is_read_as_pfllib_does() {
    let dir = temporary();
    let gray = |byte: u8, side: u32| {
        let mut out = Cursor::new(Vec::new());
        GrayImage::from_pixel(side, side, Luma([byte])).write_to(&mut out, ImageFormat::Png).expect("memory");
        out.into_inner()
    };
    for (name, byte) in [("a", 255), ("b", 0), ("c", 51), ("d", 102)] {
        put(dir.path(), &format!("FEMNIST/raw_data/by_class/{name}.png"), &gray(byte, 8));
    }
    let path = |name: &str| format!("data/raw_data/by_class/{name}.png");
    let (a, b, c, d) = (path("a"), path("b"), path("c"), path("d"));
    let all: &[(&str, &[(&str, &str)])] =
        &[("f0002_10", &[(&a, "30")]), ("f0001_41", &[(&b, "7a"), (&c, "41")]), ("f0000_14", &[(&d, "61")])];
    put(dir.path(), "FEMNIST/intermediate/images_by_writer.pkl", &writers(all));
    let data = sound("femnist-writers", json!({"writers": 2}), dir.path());
    assert_eq!((data.len(), data.classes(), data.shape()), (3, 62, Shape { channels: 3, height: 8, width: 8 }));
    assert_eq!(data.groups().expect("writers").names, ["f0001_41", "f0002_10"]);
    assert_eq!((data.labels(), &data.groups().expect("writers").of[..]), (&[61, 10, 0][..], &[0, 0, 1][..]));
    assert_eq!((values(&data, 0), values(&data, 2)), (vec![-1.0; 192], vec![1.0; 192]));
    let small = sound("femnist-writers", json!({"channels": 1, "size": 4}), dir.path());
    assert_eq!((small.len(), small.shape()), (4, Shape { channels: 1, height: 4, width: 4 }));
    for (all, part) in [
        (&[("w", &[(a.as_str(), "3a")][..])][..], "which is none of 62"),
        (&[("w", &[("../../etc/passwd", "30")][..])], "which is not below"),
        (&[("w", &[("/etc/passwd", "30")][..])], "which is not below"),
        (&[("w", &[][..])], "has no pictures"),
    ] {
        put(dir.path(), "FEMNIST/intermediate/images_by_writer.pkl", &writers(all));
        let fault = get("femnist-writers", json!({}), dir.path()).expect_err(part);
        assert!(fault.to_string().contains(part), "{fault}");
    }
    put(dir.path(), "FEMNIST/intermediate/images_by_writer.pkl", b"cposix\nsystem\n(S'true'\ntR.");
    assert!(get("femnist-writers", json!({}), dir.path()).expect_err("code").to_string().contains("it would run `posix.system`"));
}

#[test]
fn pfllibs_random_steps_are_frozen_by_a_seed() {
    let dir = temporary();
    let (left, right) = ([250, 10, 10], [10, 10, 250]);
    for domain in ["clipart", "infograph", "painting", "quickdraw", "real", "sketch"] {
        let mut lists = [String::new(), String::new()];
        for number in 0..6 {
            let list = usize::from(number == 5);
            put(dir.path(), &format!("DomainNet/{domain}/cat/{number}.png"), &picture(left, right));
            lists[list] += &format!("{domain}/cat/{number}.png {number}\n");
        }
        put(dir.path(), &format!("DomainNet/{domain}_train.txt"), lists[0].as_bytes());
        put(dir.path(), &format!("DomainNet/{domain}_test.txt"), lists[1].as_bytes());
    }
    let plain = sound("domainnet", json!({}), dir.path());
    let cut = sound("domainnet", json!({"cut_seed": 1}), dir.path());
    assert_eq!((plain.labels(), plain.shape()), (cut.labels(), cut.shape()));
    let all = |data: &Dataset| (0..data.len() as u32).map(|at| values(data, at)).collect::<Vec<_>>();
    assert_eq!(all(&cut), all(&sound("domainnet", json!({"cut_seed": 1}), dir.path())));
    assert_ne!(all(&cut), all(&sound("domainnet", json!({"cut_seed": 2}), dir.path())));
    // Test pictures are only scaled; about half of the 30 training pictures are turned: then blue is on the left.
    let train = cut.original_train();
    assert_eq!(all(&cut)[train..], all(&plain)[train..]);
    let turned = all(&cut)[..train].iter().filter(|values| values[2] > values[0]).count();
    assert!((6..=24).contains(&turned), "{turned} of {train}");

    for name in ["a", "b", "c", "d", "e"] {
        put(dir.path(), &format!("COVIDx/train/{name}.png"), &picture(left, right));
    }
    put(dir.path(), "COVIDx/test/f.png", &picture(left, right));
    put(
        dir.path(),
        "COVIDx/train.txt",
        b"p a.png negative x\np b.png negative x\np c.png positive x\np d.png negative x\np e.png negative x\n",
    );
    put(dir.path(), "COVIDx/test.txt", b"p f.png positive x\n");
    assert_eq!(sound("covidx", json!({}), dir.path()).labels(), [0, 0, 1, 0, 0, 1]);
    let drawn = sound("covidx", json!({"draw_seed": 1}), dir.path());
    assert_eq!((drawn.len(), drawn.original_train(), drawn.labels()[8]), (9, 8, 1));
    assert_eq!(drawn.labels()[..8].iter().filter(|&&label| label == 1).count(), 4);
    put(dir.path(), "COVIDx/train.txt", b"p a.png negative x\n");
    assert!(get("covidx", json!({"draw_seed": 1}), dir.path()).expect_err("one class").what.contains("no training pictures"));
}

#[test]
fn a_folder_of_pfllib_says_how_its_clients_were_made() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pfllib/images");
    let added = Added { kind: "pfllib".into(), name: "mine".into(), folder };
    let data = added.load().expect("a sound folder");
    assert_eq!(data.origin().source, "generated by PFLlib's scripts: noniid, unbalanced, dir, alpha 0.1, batch size 10");
}

#[test]
fn folders_from_which_pictures_are_missing_are_refused_by_their_published_numbers() {
    let dir = temporary();
    let at = |path: &str| put(dir.path(), path, &picture([5; 3], [5; 3]));
    at("kvasir/kvasir-dataset-v2/polyps/1.png");
    at("TinyImagenet/tiny-imagenet-200/train/n01443537/images/n01443537_0.png");
    ["train/AD", "valid/AD", "test/AD"].iter().for_each(|folder| at(&format!("Country211/country211/{folder}/1.png")));
    ["train/airplane", "valid/airplane", "test/airplane"].iter().for_each(|folder| at(&format!("CINIC10/{folder}/1.png")));
    at("UTKFace/UTKFace/27_0_1_20170104020210872.jpg.chip.jpg");
    put(dir.path(), "GTSRB/GTSRB/Training/00042/00000.ppm", b"P6\n1 1\n255\nabc");
    put(dir.path(), "GTSRB/GTSRB/Final_Test/Images/00000.ppm", b"P6\n1 1\n255\nabc");
    put(dir.path(), "GTSRB/GT-final_test.csv", b"Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n00000.ppm;1;1;0;0;1;1;16\n");
    for (name, wanted) in [
        ("kvasir", "has pictures of 1 class, but the data set has 8"),
        ("tiny-imagenet", "has pictures of 1 class in `train/`, but the data set has 200"),
        ("country211", "has pictures of 1 class in `train/`, but the data set has 211"),
        ("cinic10", "has pictures of 1 class in `train/`, but the data set has 10"),
        ("utkface", "has 1 picture, but the data set 23708"),
        ("gtsrb", "has 1 picture, but the data set 26640 or 39209"),
    ] {
        let fault = get(name, json!({}), dir.path()).expect_err("incomplete");
        assert!(fault.what.contains(wanted), "{name}: {fault}");
        assert!(fault.help.expect("help").contains("`verify: false` takes what is there"), "{name}");
        // Whoever wants a part says so, and a pipeline may.
        assert!(get(name, json!({"verify": false}), dir.path()).is_ok(), "{name}");
        let variant = variants().into_iter().find(|variant| variant.name == name).expect("a data set");
        assert!(variant.fields.iter().any(|field| field.name == "verify"), "{name}");
    }
}

#[test]
fn what_is_damaged_in_an_archive_is_named_with_the_archive() {
    let dir = temporary();
    put(dir.path(), "kvasir/kvasir-dataset-v2.zip", &zip(&[("kvasir-dataset-v2/polyps/1.png", b"no picture")]));
    let text = get("kvasir", json!({}), dir.path()).expect_err("no picture").to_string();
    assert!(text.contains("kvasir-dataset-v2.zip`") && text.contains("`kvasir-dataset-v2/polyps/1.png` is not a sound picture"), "{text}");
    put(
        dir.path(),
        "Omniglot/images_background_small1.zip",
        &zip(&[("images_background_small1/Latin/character01/0001_01.png", b"no picture")]),
    );
    let text = get("omniglot", json!({"subset": "small1", "verify": false}), dir.path()).expect_err("no picture").to_string();
    assert!(text.contains("images_background_small1.zip`") && text.contains("/0001_01.png` is not a sound picture"), "{text}");
    put(dir.path(), "Flowers102/jpg/image_00001.jpg", &picture([1; 3], [1; 3]));
    put(dir.path(), "Flowers102/imagelabels.mat", b"no file of MATLAB");
    let text = get("flowers102", json!({"verify": false}), dir.path()).expect_err("no labels").to_string();
    assert!(text.contains("imagelabels.mat`: no sound file of MATLAB"), "{text}");
}

#[test]
fn a_label_that_the_configuration_rules_out_is_told_with_its_file() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pfllib/images");
    let copied = temporary();
    for file in ["train/0.npz", "train/1.npz", "test/0.npz", "test/1.npz"] {
        put(copied.path(), file, &std::fs::read(from.join(file)).expect("a golden file"));
    }
    put(copied.path(), "config.json", br#"{"num_clients": 2, "num_classes": 2}"#);
    let added = Added { kind: "pfllib".into(), name: "mine".into(), folder: copied.path().to_path_buf() };
    let text = added.load().expect_err("there is a label 2").to_string();
    assert!(text.contains("train/0.npz`: it has the label 2, but `config.json` says 2 classes"), "{text}");
    // A path is named once, whatever is wrong.
    put(copied.path(), "train/1.npz", b"no archive");
    put(copied.path(), "config.json", br#"{"num_clients": 2, "num_classes": 3}"#);
    let text = added.load().expect_err("no archive").to_string();
    assert_eq!(text.matches("train/1.npz").count(), 1, "{text}");
}
