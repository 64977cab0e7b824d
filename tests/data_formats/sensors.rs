//! Windows of body-worn sensors.

use crate::{first, get, put, sound, temporary, zip};
use pflpipe::data::Shape;
use serde_json::json;
use std::path::Path;

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
