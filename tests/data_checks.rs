//! What `check` finds of data sets, partitions and models before anything is read: each at its place, with what to do.

use pflpipe::catalog::catalog;
use pflpipe::spec::catalog::{Catalog, Field, Shape, Type, When};
use pflpipe::spec::{Overrides, load};
use std::path::Path;

/// `line:column code: message [help]` of everything that is said of a pipeline.
fn said(text: &str) -> Vec<String> {
    let catalog = catalog(&pflpipe::algorithms::all());
    let diagnostics = match load(Path::new("p.yaml"), text, &Overrides::default(), &catalog) {
        Ok(pipeline) => pipeline.warnings,
        Err(diagnostics) => diagnostics,
    };
    let items = diagnostics.to_json();
    let one = |item: &serde_json::Value| {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        format!("{}:{} {}: {} [{}]", item["line"], item["column"], text("code"), text("message"), text("help"))
    };
    items.as_array().expect("a list").iter().map(one).collect()
}

/// What is said of a pipeline of a data set, a partition and a model; each part is a line of its own: 2, 3, 4.
fn of(data: &str, split: &str, net: &str) -> Vec<String> {
    said(&format!(
        "stages:\n  data: {{dataset: {{{data}}}}}\n  split: {{partition: {{data: data, {split}}}}}\n  net: {{model: {{data: data, {net}}}}}\n"
    ))
}

const DIGITS: &str = "name: optdigits";
const OWN: &str = "name: npz, file: x.npz";
const IID: &str = "kind: iid, clients: 4";
const MLP: &str = "kind: mlp";

fn split(split: &str) -> Vec<String> {
    of(OWN, split, MLP)
}

#[track_caller]
fn one(found: &[String], line: usize, words: &[&str]) {
    let fits = |line: &String, place: &str| line.starts_with(place) && words.iter().all(|word| line.contains(word));
    assert!(found.len() == 1 && fits(&found[0], &format!("{line}:")), "wanted {line}: {words:?}, found {found:#?}");
}

#[track_caller]
fn nothing(found: &[String]) {
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn parameters_that_nobody_reads_are_refused() {
    let idle = |found: Vec<String>, line: usize, name: &str, why: &str| {
        one(&found, line, &["idle: ", &format!("`{name}` of stage"), &format!("is not read {why}"), "[leave it out, or "]);
    };
    idle(split("kind: iid, clients: 4, stratified: false"), 3, "stratified", "with `variant: pfllib`");
    idle(split("kind: iid, clients: 4, variant: fedml, balance: false"), 3, "balance", "with `variant: fedml`");
    idle(split("kind: iid, clients: 4, variant: clean, size_alpha: 2"), 3, "size_alpha", "with `balance: true`");
    idle(split("kind: iid, clients: 4, balance: false, size_alpha: 2"), 3, "size_alpha", "with `variant: pfllib`");
    nothing(&split("kind: iid, clients: 4, variant: clean, balance: false, size_alpha: 2, stratified: false"));
    one(&split("kind: dirichlet, clients: 4, balance: false"), 3, &["is not possible with `variant: pfllib`", "[say `variant: clean` or"]);
    nothing(&split("kind: dirichlet, clients: 4, balance: false, variant: fedml"));
    idle(split("kind: natural, fewer: merge"), 3, "fewer", "without `clients`");
    nothing(&split("kind: natural, fewer: merge, clients: 3"));
    idle(split("kind: mixture, clients: 4, size_alpha: 2"), 3, "size_alpha", "with `sizes: equal`");
    idle(split("kind: mixture, clients: 4, sizes: dirichlet, size_sigma: 2"), 3, "size_sigma", "with `sizes: dirichlet`");
    idle(split("kind: mixture, clients: 4, variant: clean, corrected: true"), 3, "corrected", "with `variant: clean`");
    nothing(&split("kind: mixture, clients: 4, sizes: lognormal, size_sigma: 2, corrected: true"));
    idle(split("kind: quantity, clients: 4, variant: clean, max_attempts: 9"), 3, "max_attempts", "with `variant: clean`");
    idle(split("kind: regions, clients: 4, alpha: 0.1"), 3, "alpha", "with `skew: hard`");
    idle(split("kind: regions, clients: 4, skew: iid, max_attempts: 9"), 3, "max_attempts", "with `skew: iid`");
    idle(split("kind: regions, clients: 4, shares: [[1], [1], [1]]"), 3, "shares", "with `skew: hard`");
    let matrix = "kind: regions, clients: 4, regions: 1, skew: matrix";
    idle(split(&format!("{matrix}, variant: profed, shares: [[1]], alpha: 2")), 3, "alpha", "with `skew: matrix`");
    nothing(&split("kind: regions, clients: 4, skew: dirichlet, alpha: 0.1, max_attempts: 9"));
    // The ratio of a split that is not made; some rules take the least samples from it.
    let ratio = |more: &str| split(&format!("train_ratio: 0.5, clients: 4, hold_out: 0.2, test: hold-out, {more}"));
    for kind in ["mixture", "label-count", "quantity", "pachinko", "feature-noise", "extended-dirichlet", "iid"] {
        idle(ratio(&format!("kind: {kind}")), 3, "train_ratio", "with `test: hold-out`");
    }
    nothing(&ratio("kind: dirichlet"));
    nothing(&ratio("kind: pathological"));
    nothing(&ratio("kind: iid, balance: false"));
    idle(ratio("kind: dirichlet, least_samples: 5"), 3, "train_ratio", "with `test: hold-out` and with `least_samples: 5`");
    idle(ratio("kind: dirichlet, variant: fedml"), 3, "train_ratio", "with `test: hold-out` and with `variant: fedml`");
    idle(ratio("kind: pathological, balance: true"), 3, "train_ratio", "with `test: hold-out` and with `balance: true`");
    idle(split("kind: imported, train_ratio: 0.5"), 3, "train_ratio", "without `file`");
    nothing(&split("kind: imported, train_ratio: 0.5, file: lists.json"));
}

#[test]
fn options_of_data_sets_and_models_that_nobody_reads_are_refused() {
    let data = |data: &str| of(data, "kind: imported", "kind: mlp");
    one(&of("name: amazon-sentences, form: counts, length: 9", IID, MLP), 2, &["`length` of stage `data` is not read with `form: counts`"]);
    one(&data("name: synthetic, iid: true, alpha: 0.5"), 2, &["`alpha` of stage `data` is not read with `iid: true`", "say `iid: false`"]);
    nothing(&data("name: synthetic, iid: true, beta: 0.5"));
    let net = |net: &str| of(OWN, IID, net);
    one(
        &net("kind: resnet, group_channels: 16"),
        4,
        &["`group_channels` of stage `net` is not read with `norm: batch`", "say `norm: group`"],
    );
    nothing(&net("kind: resnet, group_channels: 16, norm: group"));
    one(&net("kind: mlp, hidden: [], activation: tanh"), 4, &["`activation` of stage `net` is not read with `hidden: []`"]);
    one(&net("kind: digit5cnn, hidden: [9], dropout: 0.2"), 4, &["`dropout` 0.2 is not read with 1 dense layers"]);
    nothing(&net("kind: digit5cnn, hidden: [9, 9], dropout: 0.2"));
    one(&net("kind: layers, layers: [relu], words: 9"), 4, &["`words` is not read without a layer `embedding`"]);
    one(&net("kind: layers, layers: [relu], padding: 0"), 4, &["`padding` is not read without a layer `embedding`"]);
    let lstm = |more: &str| {
        let list = format!("[{{layer: embedding, out: 4}}, {{layer: lstm, hidden: 4{more}}}, {{layer: pick, at: last}}]");
        of("name: tiny-shakespeare", IID, &format!("kind: layers, layers: {list}"))
    };
    one(&lstm(", dropout: 0.5"), 4, &["`layers.1.dropout` of stage `net` is not read with `layers: 1`"]);
    nothing(&lstm(", dropout: 0.5, layers: 2"));
    let conv = |kernel: &str| net(&format!("kind: layers, layers: [{{layer: conv, out: 4, kernel: {kernel}, dilation: [2]}}]"));
    one(&conv("[1, 1]"), 4, &["`layers.0.dilation` of stage `net` is not read with `kernel: [1, 1]`"]);
    nothing(&conv("[1, 3]"));
}

#[test]
fn usual_values_and_defaults_of_a_kind_may_stand_where_they_are_not_read() {
    nothing(&split("kind: iid, clients: 4, stratified: true, size_alpha: 1, balance: true"));
    nothing(&split("kind: regions, clients: 4, alpha: 0.5"));
    nothing(&of(OWN, IID, "kind: resnet, group_channels: 32"));
    // What `defaults` says for all stages of a kind is passed over where it does not apply.
    let text = "defaults: {partition: {alpha: 0.1, clients: 4}}\nstages:\n  d: {dataset: optdigits}\n  \
                a: {partition: {data: d, kind: dirichlet}}\n  b: {partition: {data: d, kind: regions}}\n";
    nothing(&said(text));
    // A sweep may give to all cells what only some of them read.
    let sweep = |skews: &str| {
        format!(
            "sweep: {{grid: {{skew: [{skews}]}}}}\nstages:\n  d: {{dataset: optdigits}}\n  \
             s: {{partition: {{data: d, kind: regions, clients: 6, skew: \"{{{{ skew }}}}\", alpha: 0.1}}}}\n"
        )
    };
    nothing(&said(&sweep("hard, dirichlet")));
    one(&said(&sweep("hard, iid")), 4, &["`alpha` of stage `s` is not read with `skew: hard`"]);
}

#[test]
fn what_cannot_be_met_is_found_before_anything_is_read() {
    let seed = "clients: 4, seed: 4294967296";
    one(
        &split(&format!("kind: iid, {seed}")),
        3,
        &["`seed` is 4294967296, but `variant: pfllib` takes 0 to 4294967295", "[numpy's generator"],
    );
    nothing(&split(&format!("kind: iid, variant: clean, {seed}")));
    let limits = "kind: iid, clients: 4, least_samples: 9, most_samples: 5";
    one(&split(limits), 3, &["`most_samples` is 5, which is less than `least_samples`, 9", "[raise"]);
    one(
        &split("kind: iid, clients: 4, test: hold-out"),
        3,
        &["needs samples that are held out", "[say `pool: train`, or `hold_out: 0.1`]"],
    );
    one(&split("kind: iid, clients: 4, test: original, pool: train"), 3, &["`pool: train` gives no client a sample"]);
    one(&split("kind: regions, clients: 2, regions: 3"), 3, &["2 clients cannot be in 3 regions", "[choose at least as many"]);
    one(&split("kind: regions, clients: 4, skew: matrix"), 3, &["needs either `shares` or `label_shares`", "[give one"]);
    let labels =
        |labels: &str| split(&format!("kind: regions, clients: 4, regions: 2, variant: clean, skew: matrix, label_shares: {labels}"));
    one(&labels("[[0.9, 0.2]]"), 3, &["sum to 1.1", "must not be above 1", "[lower them"]);
    one(
        &split(&format!("{}, variant: profed", "kind: regions, clients: 4, regions: 1, skew: matrix, label_shares: [[1]]")),
        3,
        &["is not possible with"],
    );
    one(&labels("[[0.5, 0.2], [1]]"), 3, &["`label_shares` of class 1 has 1 number, but must have 2"]);
    nothing(&labels("[[0.9, 0.1], [0, 1]]"));
    for path in ["/data/lists.json", "../lists.json"] {
        one(&split(&format!("kind: imported, file: {path}")), 3, &["must be a path inside a data folder", "[say `--data DIR`"]);
        one(&of(&format!("name: csv, file: {path}"), IID, MLP), 2, &["must be a path inside a data folder"]);
        one(&of(&format!("name: images, folder: {path}"), IID, MLP), 2, &["must be a path inside a data folder"]);
    }
    one(&of("name: csv, file: a.csv, delimiter: ', '", IID, MLP), 2, &["`delimiter` is `, `, but must be one character"]);
    one(&of("name: csv, file: a.csv, label: y, group: y", IID, MLP), 2, &["`group` and `label` are both `y`"]);
    let digits = |split: &str| of(DIGITS, split, MLP);
    one(&digits("kind: natural"), 3, &["does not say who its samples come from"]);
    one(&digits("kind: pachinko, clients: 3"), 3, &["have none above them"]);
    one(&digits("kind: power-law, clients: 15"), 3, &["15 clients are no multiple of the 10 classes"]);
    one(&digits("kind: regions, clients: 40, regions: 11"), 3, &["`regions` is 11, but there are only 10 classes"]);
    one(
        &digits("kind: iid, clients: 100, hold_out: 0.999"),
        3,
        &["`hold_out: 0.999` leaves 16 of 5620 samples at most", "a lower `hold_out`"],
    );
    one(&of("name: ag-news", "kind: feature-noise, clients: 3", "kind: fasttext"), 3, &["noise can be added to numbers only"]);
}

#[test]
fn models_of_texts_have_the_words_and_the_length_of_their_data() {
    let net = |data: &str, net: &str| of(data, IID, net);
    nothing(&net("name: tiny-shakespeare", "kind: lstm"));
    nothing(&net("name: tiny-shakespeare", "kind: lstm, words: 66"));
    nothing(&net("name: tiny-shakespeare", "kind: lstm, words: 65")); // the last one only fills up
    one(
        &net("name: tiny-shakespeare", "kind: lstm, words: 64"),
        4,
        &["`words` is 64, but the data set has 66 words", "[leave `words` out]"],
    );
    one(&net("name: shakespeare", "kind: rnn, words: 60"), 4, &["`words` is 60, but the data set has 81 words"]);
    one(&net("name: fed-shakespeare", "kind: rnn, words: 89"), 4, &["`words` is 89, but the data set has 90 words"]);
    one(&net("name: ag-news, words: 5000", "kind: fasttext, words: 4999"), 4, &["`words` is 4999, but the data set has 5000 words"]);
    nothing(&net("name: ag-news, words: 5000", "kind: fasttext, words: 5000"));
    nothing(&net("name: ag-news, words: 5000, subset: test", "kind: fasttext, words: 4999")); // the file may have fewer
    one(
        &net("name: ag-news, length: 4", "kind: textcnn"),
        4,
        &["the kernels span [3, 4, 5] words, but the texts have 4", "or longer texts"],
    );
    nothing(&net("name: ag-news, length: 5", "kind: textcnn"));
    nothing(&net("name: ag-news, length: 5", "kind: layers, layers: [{layer: embedding, out: 4}, mean]"));
}

#[test]
fn networks_deeper_than_can_be_made_are_refused_at_once() {
    let begun = std::time::Instant::now();
    for net in ["kind: vit, patch: 2, depth: 65536", "kind: vit, patch: 2, depth: 800"] {
        one(&of(DIGITS, IID, net), 4, &["layers, but at most 10000 are possible", "[choose fewer layers]"]);
    }
    one(&of("name: tiny-shakespeare", IID, "kind: lstm, layers: 65536, hidden: 1"), 4, &["layers, but at most 10000 are possible"]);
    let list = vec!["relu"; 10_000].join(", ");
    one(&of(DIGITS, IID, &format!("kind: layers, layers: [{list}]")), 4, &["the network has 10002 layers, but at most 10000"]);
    let deep = vec!["{layer: linear, out: 2}"; 4_999].join(", ");
    nothing(&of(DIGITS, IID, &format!("kind: layers, layers: [flatten, {deep}]")));
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

/// What a field is read with is beside it, and may be so.
#[test]
fn conditions_are_about_parameters_that_are_there() {
    fn visit(shape: &Shape, path: &str, count: &mut usize) {
        let alone: Vec<&Field> = shape.fields.iter().collect();
        let variants = shape.tag.iter().flat_map(|tag| &tag.variants);
        let all = variants.map(|variant| (variant.name, variant.fields.iter().chain(&shape.fields).collect::<Vec<_>>()));
        for (name, fields) in all.chain([("", alone)]) {
            for field in &fields {
                let place = format!("{path} {name} {}", field.name);
                for (other, when) in field.read.iter().flatten() {
                    *count += 1;
                    let found = fields.iter().find(|field| field.name == *other);
                    let other = found.unwrap_or_else(|| panic!("{place}: there is no `{other}`"));
                    if let (When::Is(words) | When::IsNot(words), Type::Choice(choice)) = (when, &other.ty) {
                        assert!(words.iter().all(|word| choice.iter().any(|(own, _)| own == word)), "{place}: {words:?}");
                    }
                    assert!(
                        !matches!(when, When::Given | When::Absent) || other.default == pflpipe::spec::catalog::Default::Absent,
                        "{place}"
                    );
                }
                match &field.ty {
                    Type::Map(inner) => visit(inner, &place, count),
                    Type::List(inner) => {
                        if let Type::Map(inner) = &**inner {
                            visit(inner, &place, count);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    let mut count = 0;
    catalog(&pflpipe::algorithms::all()).kinds().iter().for_each(|kind| visit(&kind.shape, kind.name, &mut count));
    assert!(count > 30, "{count}");
}

#[test]
fn what_a_known_data_set_cannot_give_is_found_before_it_is_read() {
    let at = |data: &str, split: &str| of(data, split, "kind: logistic");
    let digits = |split: &str| of(DIGITS, split, MLP);
    let limit = |data: &str| at(data, IID);
    one(&limit("name: optdigits, limit: 5621"), 2, &["`limit` is 5621, but data set `optdigits` has 5620 samples", "[choose at most 5620"]);
    nothing(&limit("name: optdigits, limit: 5620"));
    one(&limit("name: fcube, samples: 40, limit: 41"), 2, &["data set `fcube` has 40 samples"]);
    nothing(&limit("name: mnist, limit: 99999, verify: false"));
    // An original test set.
    let train = "kind: iid, clients: 4, pool: train";
    let original = "kind: iid, clients: 4, test: original";
    for data in ["name: semeion", "name: fcube", "name: optdigits, limit: 3823", "name: synthetic"] {
        one(&at(data, train), 3, &["`pool: train` needs an original test set, but the data set has none", "[use `hold_out`"]);
        one(&at(data, original), 3, &["`test: original` needs an original test set, but the data set has none", "[use `test: split`"]);
    }
    for data in ["name: optdigits, limit: 3824", "name: optdigits", "name: mnist", OWN] {
        nothing(&at(data, train));
        nothing(&at(data, original));
    }
    // Groups and classes.
    one(
        &at("name: fcube", "kind: natural, clients: 5"),
        3,
        &["5 clients need as many groups, but the data set has 4", "[choose at most 4"],
    );
    nothing(&at("name: fcube", "kind: natural, clients: 4"));
    one(&at("name: synthetic, users: 7", "kind: natural, clients: 8"), 3, &["but the data set has 7"]);
    one(
        &at("name: fcube", "kind: natural, least_classes: 3"),
        3,
        &["`least_classes` is 3, but the data set has 2 classes", "[choose 1 to 2"],
    );
    nothing(&at("name: fcube", "kind: natural, least_classes: 2"));
    one(&digits("kind: imported"), 3, &["the data set came without clients", "[say which `file`"]);
    nothing(&digits("kind: imported, file: lists.json"));
    nothing(&split("kind: imported"));
    // Room for every class, for a test set, and for both sides of a split.
    for kind in ["kind: pathological, variant: clean", "kind: extended-dirichlet", "kind: extended-dirichlet, variant: clean"] {
        let of = |n: usize| digits(&format!("{kind}, clients: {n}"));
        one(
            &of(4),
            3,
            &["4 clients of 2 classes each cannot hold all 10 classes", "[choose more clients or a greater `classes_per_client`]"],
        );
        nothing(&of(5));
    }
    nothing(&digits("kind: pathological, clients: 2, balance: true"));
    one(&digits("kind: power-law, variant: clean, clients: 8"), 3, &["8 clients of two neighboring classes each cannot hold all 10"]);
    nothing(&digits("kind: power-law, variant: clean, clients: 9"));
    let held = |fraction: f64| digits(&format!("kind: iid, clients: 4, test: hold-out, hold_out: {fraction}"));
    one(&held(0.0008), 3, &["`hold_out: 0.0008` is less than half a sample of each class", "[choose a greater `hold_out`]"]);
    nothing(&held(0.001));
    let most = |more: &str| split(&format!("kind: iid, clients: 4, {more}"));
    one(&most("most_samples: 1"), 3, &["`most_samples` is 1, of which `train_ratio` 0.75 leaves a client none for training"]);
    one(&most("most_samples: 4, train_ratio: 0.2"), 3, &["`most_samples` is 4, of which `train_ratio` 0.2"]);
    nothing(&most("most_samples: 2"));
    nothing(&most("most_samples: 1, variant: clean"));
}

#[test]
fn a_padding_needs_no_words() {
    let net = |data: &str, net: &str| of(data, IID, net);
    for kind in ["fasttext", "textcnn", "lstm", "rnn", "rnn-stackoverflow"] {
        nothing(&net("name: amazon-sentences", &format!("kind: {kind}, padding: 5")));
        nothing(&net(OWN, &format!("kind: {kind}, padding: 70000")));
    }
    one(
        &net("name: amazon-sentences", "kind: lstm, padding: 1907"),
        4,
        &["`padding` is 1907, but the words of the data set are 0 to 1906", "[leave `padding` out]"],
    );
}

#[test]
fn what_fits_no_machine_is_refused() {
    let said = of("name: ag-news, length: 100000", IID, "kind: fasttext");
    // A quarter of a terabyte of news is more than most machines have.
    assert!(said.is_empty() || said[0].contains("data set `ag-news` of 127600 samples needs at least"), "{said:#?}");
    let large = "with which samples are drawn that are not finite";
    one(
        &of("name: synthetic, alpha: 1.0e+308", "kind: natural", "kind: logistic"),
        2,
        &["`alpha` is 1e308, ", large, "[choose at most 1e30]"],
    );
    let large = "with which numbers are drawn that are not finite";
    one(&split("kind: dirichlet, clients: 4, alpha: 1.0e+308"), 3, &["`alpha` is 1e308, ", large, "[choose at most 1e100]"]);
    one(
        &split("kind: mixture, clients: 4, sizes: lognormal, size_sigma: 1000"),
        3,
        &["`size_sigma` is 1e3, ", large, "[choose at most 1e2]"],
    );
}
