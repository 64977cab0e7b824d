//! Pictures in folders, one's own and those of data sets.

use crate::{first, get, png, put, sound, temporary, zip};
use pflpipe::data::Shape;
use serde_json::json;

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
    let empty = |folder: &str, groups: bool| {
        let fault = get("images", json!({"folder": folder, "groups": groups}), dir.path()).expect_err("nothing in it");
        assert!(fault.what.contains(&format!("/{folder}`")) && fault.help.is_some(), "{fault}");
        fault.what
    };
    put(dir.path(), "flat/a.png", &png(2, 2, [9, 9, 9]));
    assert!(empty("flat", false).contains("has no pictures `CLASS/PICTURE` that end in .png"));
    assert!(empty("flat", true).contains("has no pictures `CLASS/GROUP/PICTURE`"));
    put(dir.path(), "half/train/readme.txt", b"");
    assert!(empty("half", false).contains("has no pictures `train/CLASS/PICTURE`"));
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
fn drawings_that_are_not_there_are_named() {
    let dir = temporary();
    std::fs::create_dir_all(dir.path().join("Omniglot/images_background_small2/Latin")).expect("a temporary folder");
    let fault = get("omniglot", json!({}), dir.path()).expect_err("another subset");
    let help = fault.help.expect("help");
    assert!(help.starts_with("say `subset: small2`, which is there; or put `images_background.zip` into"), "{help}");
    let fault = get("omniglot", json!({"subset": "small2"}), dir.path()).expect_err("empty");
    assert!(fault.what.contains("has no drawings: there are no files `images_background_small2/ALPHABET/CHARACTER/"), "{fault}");
    let fault = get("omniglot", json!({"subset": "small1"}), dir.path()).expect_err("not there");
    assert!(fault.help.expect("help").contains("`images_background_small1.zip`"));
}
