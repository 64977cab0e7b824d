//! Rows, arrays and texts: csv, npz, safetensors, LEAF's json, reviews, news.

use crate::{copy, first, get, golden, params, put, sound, tar_gz, temporary};
use pflpipe::base::FaultKind;
use pflpipe::data::Shape;
use pflpipe::data::partition::{Population, build_from};
use serde_json::{Value, json};

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
fn rows_of_csv_that_are_not_sound_are_named() {
    let dir = temporary();
    let read = |content: &str| {
        put(dir.path(), "own.csv", content.as_bytes());
        get("csv", json!({"file": "own.csv", "group": "who", "label": "y"}), dir.path())
    };
    let wrong = |content: &str, said: &str| {
        let fault = read(content).expect_err(content);
        assert!(fault.kind == FaultKind::Storage && fault.what.contains(said), "{content:?}: {fault}");
    };
    assert_eq!(read("a,y,who\n1,-1,u\n2,1,v\n").expect("sound").labels(), [0, 1]);
    assert_eq!(read("a,y,who\n1,3,u\n2,1,v\n").expect("sound").classes(), 4);
    wrong("a,y,who\n1,0,u\nnan,1,v\n", "has `nan`, which is no number to train on, in column `a` of row 3");
    wrong("a,y,who\n-inf,0,u\n", "has `-inf`, which is no number to train on, in column `a` of row 2");
    wrong("a,y,who\n1e39,0,u\n", "has `1e39`, which");
    wrong("a,y,who\n1,,u\n", "has no class in column `y` of row 2");
    wrong("a,y,who\n1,0, \n", "has no group in column `who` of row 2");
    wrong("a,y,who\n1,0,\"u\n2,1,v\n3,0,w\n", "has a group of several lines in column `who` of row 2");
    wrong("a,y,who\n1,0,u\n1,5,u\n1,99999,v\n", "has the class 99999, but only 3 classes in all");
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
    // Texts have a class for each character.
    put(dir.path(), "texts/train/a_train_b.json", br#"{"users": ["u"], "user_data": {"u": {"x": ["ab"], "y": ["c"]}}}"#);
    put(dir.path(), "texts/test/a_test_b.json", br#"{"users": [], "user_data": {}}"#);
    let texts = |classes: u64| get("leaf", json!({"folder": "texts", "classes": classes}), dir.path());
    assert_eq!(texts(90).expect("sound").classes(), 90);
    let fault = texts(10).expect_err("fewer classes than characters");
    assert!(fault.what.contains("`classes` is 10, but the next one of a text is one of 80 characters"), "{fault}");
    for (content, part) in [
        (&br#"{"users": ["u"], "user_data": {}}"#[..], "has no data of user `u`"),
        (br#"{"users": ["u", "u"], "user_data": {"u": {"x": [[1]], "y": [0]}}}"#, "names the user `u` twice"),
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
