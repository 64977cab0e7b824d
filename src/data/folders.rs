//! Pictures in folders: of one's own, and the data sets that come so. A list says which picture has which class, group and side.
//!
//! Pictures are made 3 x 64 x 64 or as the reference has them, by Pillow's bilinear filter.

use super::Shape;
use super::assemble::{Rows, of_bytes};
use super::augment;
use super::counts::{self, Known};
use super::dataset::{Dataset, Scaling};
use super::mat::Mat;
use super::members::{Place, Wanted};
use super::picture::Picture;
use super::registry::Request;
use crate::base::fault::Placed;
use crate::base::{Fault, Outcome, text};
use crate::spec::catalog::{Field, Type};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of a picture's file.
const GREATEST: u64 = 256 << 20;
/// Pictures decoded at once.
const PORTION: usize = 512;
/// The most bytes of a list in MATLAB's format.
const LIST: u64 = 1 << 24;

/// Where a picture belongs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    /// Training pictures come first.
    test: bool,
    path: String,
    class: String,
    group: String,
}

/// Whether a picture is for testing, its class and its group.
type Belongs = (bool, String, String);

/// How pictures become samples.
#[derive(Clone, Copy)]
struct Form {
    channels: usize,
    /// Height and width; those of the first picture when absent.
    size: Option<usize>,
    scaling: Scaling,
    what: &'static str,
    /// The seed by which training pictures are cut, where they are.
    cut: Option<u64>,
}

const UNIT: Scaling = Scaling { divisor: 255.0, mean: 0.0, sd: 1.0 };

impl Form {
    fn symmetric(size: usize) -> Self {
        Self { channels: 3, size: Some(size), scaling: Scaling::symmetric(255), what: "", cut: None }
    }
    fn unit(size: usize, what: &'static str) -> Self {
        Self { channels: 3, size: Some(size), scaling: UNIT, what, cut: None }
    }
}

fn is_picture(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    !name.starts_with('.') && [".png", ".jpg", ".jpeg", ".ppm", ".pgm"].iter().any(|ending| name.ends_with(ending))
}

/// Reads the pictures that `place_of` knows. Classes are the sorted names, unless `classes` gives them.
fn read(
    request: &Request<'_>,
    places: &[Place],
    form: Form,
    classes: Option<&[String]>,
    place_of: &(dyn Fn(&str) -> Option<Belongs> + Sync),
) -> Outcome<Dataset> {
    read_checked(request, places, form, classes, place_of, &|_| Ok(()))
}

/// As [`read`], and `check` sees what was found, so that nothing that belongs there is left out in silence.
fn read_checked(
    request: &Request<'_>,
    places: &[Place],
    form: Form,
    classes: Option<&[String]>,
    place_of: &(dyn Fn(&str) -> Option<Belongs> + Sync),
    check: &dyn Fn(&[&Item]) -> Outcome<()>,
) -> Outcome<Dataset> {
    let mut found: BTreeMap<Item, Picture> = BTreeMap::new();
    let less = "choose a smaller `size`, or use a machine with more memory";
    for place in places {
        let mut waiting: Vec<(Item, Vec<u8>)> = Vec::new();
        let mut size = form.size;
        let mut decode = |waiting: &mut Vec<(Item, Vec<u8>)>, size: &mut Option<usize>| -> Outcome<()> {
            let one = |(item, content): (Item, Vec<u8>)| {
                let mut picture = Picture::decode(&content, form.channels, &item.path).at(|| shown(place))?;
                if let Some(size) = form.size {
                    picture = match form.cut.filter(|_| !item.test) {
                        Some(seed) => augment::cut(&picture, size, seed, &item.path),
                        None => picture.resized(size, size),
                    };
                }
                Ok((item, picture))
            };
            // One by one, and once more as they are kept.
            let known = found.first_key_value().map_or(0, |(_, first)| first.bytes.len());
            let numel = form.size.map_or(known, |size| form.channels * size * size) as u64;
            request.room((found.len() + waiting.len()) as u64, 2 * numel, less)?;
            for made in std::mem::take(waiting).into_par_iter().map(one).collect::<Outcome<Vec<_>>>()? {
                let (item, picture) = made;
                if form.size.is_none()
                    && found.first_key_value().is_some_and(|(_, first)| (first.width, first.height) != (picture.width, picture.height))
                {
                    return Err(place
                        .fault(format_args!("holds `{}` of {} x {}, unlike other pictures", item.path, picture.width, picture.height))
                        .help("say `size` to make them alike"));
                }
                size.get_or_insert(picture.width);
                found.insert(item, picture);
            }
            Ok(())
        };
        let is = |path: &str| is_picture(path) && place_of(path).is_some();
        place.each(&Wanted { name: &is, most: GREATEST }, &mut |path, content| {
            request.go_on()?;
            let Some((test, class, group)) = place_of(path) else { return Ok(()) };
            waiting.push((Item { test, path: path.to_owned(), class, group }, content));
            if waiting.len() == PORTION { decode(&mut waiting, &mut size) } else { Ok(()) }
        })?;
        decode(&mut waiting, &mut size)?;
    }
    let Some((_, first)) = found.first_key_value() else { return Err(none_there(request, places)) };
    check(&found.keys().collect::<Vec<_>>())?;
    let shape = Shape { channels: form.channels, height: first.height, width: first.width };
    let names: Vec<String> = match classes {
        Some(names) => names.to_vec(),
        None => found.keys().map(|item| item.class.clone()).collect::<BTreeSet<_>>().into_iter().collect(),
    };
    let numbers: BTreeMap<&String, u32> = names.iter().zip(0..).collect();
    let mut rows = Rows { what: form.what, ..Rows::default() };
    let mut values = Vec::with_capacity(found.len() * shape.numel());
    for (item, picture) in &found {
        let class = numbers.get(&item.class);
        let unknown = || Fault::storage(format!("`{}` has the unknown class `{}`", item.path, item.class));
        rows.labels.push(*class.ok_or_else(unknown).at(|| places.iter().map(shown).collect::<Vec<_>>().join(", "))?);
        rows.train += usize::from(!item.test);
        if !form.what.is_empty() {
            rows.groups.push(item.group.clone());
        }
        values.extend_from_slice(&picture.bytes);
    }
    of_bytes(request.name, shape, names.len(), &values, form.scaling, rows, request.origin())
}

/// The fault of folders and archives that are there, but have no picture where pictures belong.
fn none_there(request: &Request<'_>, places: &[Place]) -> Fault {
    let Some(place) = places.first() else { return request.missing() };
    if request.is_own() {
        let groups = request.params.flag("groups", false).unwrap_or_default();
        let split = matches!(place, Place::Folder(root) if root.join("train").is_dir());
        let (side, group) = (if split { "train/" } else { "" }, if groups { "GROUP/" } else { "" });
        return place
            .fault(format_args!("has no pictures `{side}CLASS/{group}PICTURE` that end in .png, .jpg, .jpeg, .ppm or .pgm"))
            .help("put the pictures of each class into a folder of its own");
    }
    let fault = request.missing();
    let help = fault.help.unwrap_or_default();
    place.fault(format_args!("has none of the pictures of `{}`", request.name)).help(help)
}

/// Makes sure that all that a list names was found; `part` is the file that holds it.
fn all_there<'a>(place: &Place, list: &str, part: &str, named: impl Iterator<Item = &'a str>, found: &BTreeSet<&str>) -> Outcome<()> {
    let (mut count, mut gone, mut first) = (0_usize, 0_usize, "");
    for name in named {
        count += 1;
        if !found.contains(name) {
            gone += 1;
            first = if first.is_empty() { name } else { first };
        }
    }
    if gone == 0 {
        return Ok(());
    }
    let what = format!("lacks {gone} of the {} that `{list}` names, such as `{first}`", text::count(count, "picture"));
    Err(place.fault(what).help(format!("put the whole of {part} beside the others; part of a data set is none")))
}

/// Makes sure that there are as many pictures as are known, unless `verify: false`.
fn counted(request: &Request<'_>, place: &Place, known: &Known, items: &[&Item]) -> Outcome<()> {
    if !request.verifies() {
        return Ok(());
    }
    let sides = ["train", "valid", "test"];
    let side = |item: &Item| sides.into_iter().find(|side| item.path.split('/').any(|part| part == *side)).unwrap_or_default();
    known.check(place, items.iter().map(|item| (side(item), item.class.as_str())))
}

/// Makes sure that there are pictures of each side, which is a folder of that name, and as many as are known.
fn sides_there(request: &Request<'_>, place: &Place, known: &Known, items: &[&Item]) -> Outcome<()> {
    let gone = |side: &&&str| !items.iter().any(|item| item.path.split('/').any(|part| part == **side));
    match ["train", "valid", "test"].iter().find(gone) {
        None => counted(request, place, known, items),
        Some(side) => Err(place.fault(format_args!("has no pictures in `{side}/`")).help("fetch or unpack the data set again, all of it")),
    }
}

/// Where a file lies, for messages.
fn shown(place: &Place) -> String {
    format!("`{}`", place.path().display())
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

const COLORS: &[(&str, &str)] = &[("rgb", "three channels"), ("gray", "one channel")];

pub(super) fn own_fields() -> Vec<Field> {
    vec![
        Field::required(
            "folder",
            Type::Text,
            "The folder inside a data folder: `CLASS/PICTURE`, or `train/CLASS/...` and `test/CLASS/...`.",
        ),
        Field::optional("size", Type::Int { min: 1, max: 4096 }, "Height and width of all samples; as the pictures are when absent."),
        Field::with("colors", Type::Choice(COLORS), "rgb", "Channels of a sample."),
        Field::with("groups", Type::Bool, false, "A level of folders between class and picture is the group, for natural clients."),
    ]
}

/// Pictures of one's own.
pub(super) fn own(request: &Request<'_>) -> Outcome<Dataset> {
    let folder = request.params.required("folder", request.params.text("folder")?)?;
    let grouped = request.params.flag("groups", false)?;
    let size = request.params.integer("size", 1, 4096)?.map(|size| size as usize);
    let channels = if request.params.choice("colors", COLORS)? == Some(1) { 1 } else { 3 };
    let place = request.place(folder)?;
    let split = matches!(&place, Place::Folder(root) if root.join("train").is_dir());
    let form = Form { channels, size, scaling: Scaling::symmetric(255), what: if grouped { "group" } else { "" }, cut: None };
    read(request, &[place], form, None, &move |path| {
        let mut parts: Vec<&str> = path.split('/').collect();
        let test = split && {
            let side = parts.remove(0);
            match side {
                "train" => false,
                "test" | "val" | "valid" => true,
                _ => return None,
            }
        };
        match (parts.as_slice(), grouped) {
            ([class, .., _], false) => Some((test, (*class).to_owned(), String::new())),
            ([class, group, .., _], true) => Some((test, (*class).to_owned(), (*group).to_owned())),
            _ => None,
        }
    })
}

fn places(request: &Request<'_>, archives: &[&str], markers: &[&str]) -> Outcome<Vec<Place>> {
    let found = Place::find(request.dirs, request.folders(), archives, markers)?;
    for place in &found {
        if let Place::Archive(source) = place {
            request.verify(source)?;
        }
    }
    if found.is_empty() { Err(request.missing()) } else { Ok(found) }
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').collect()
}

/// kvasir: 8 classes of pictures from inside the body.
pub(super) fn kvasir(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["kvasir-dataset-v2.zip"], &["kvasir-dataset-v2", "polyps"])?;
    let place_of = |path: &str| match parts(path).as_slice() {
        [.., class, _] if !path.contains("__MACOSX") => Some((false, (*class).to_owned(), String::new())),
        _ => None,
    };
    read_checked(request, &found, Form::unit(64, ""), None, &place_of, &|items| counted(request, &found[0], &counts::KVASIR, items))
}

/// Tiny-ImageNet: the training pictures of 200 classes, as PFLlib takes them.
pub(super) fn tiny_imagenet(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["tiny-imagenet-200.zip"], &["tiny-imagenet-200/train", "train"])?;
    let place_of = |path: &str| {
        let parts = parts(path);
        let train = parts.iter().position(|part| *part == "train")?;
        Some((false, (*parts.get(train + 1).filter(|_| parts.len() > train + 2)?).to_owned(), String::new()))
    };
    let check = |items: &[&Item]| counted(request, &found[0], &counts::TINY_IMAGENET, items);
    read_checked(request, &found, Form::symmetric(64), None, &place_of, &check)
}

/// Country211: train, valid and test pictures of 211 countries.
pub(super) fn country211(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["country211.tgz"], &["country211/train", "train"])?;
    let place_of = |path: &str| match parts(path).as_slice() {
        [.., side @ ("train" | "valid" | "test"), class, _] => Some((*side != "train", (*class).to_owned(), String::new())),
        _ => None,
    };
    let check = |items: &[&Item]| sides_there(request, &found[0], &counts::COUNTRY211, items);
    read_checked(request, &found, Form::symmetric(64), None, &place_of, &check)
}

/// CINIC-10: train, valid and test pictures of 10 classes.
pub(super) fn cinic10(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["CINIC-10.tar.gz"], &["train/airplane"])?;
    let place_of = |path: &str| match parts(path).as_slice() {
        [.., side @ ("train" | "valid" | "test"), class, _] => Some((*side == "test", (*class).to_owned(), String::new())),
        _ => None,
    };
    let check = |items: &[&Item]| sides_there(request, &found[0], &counts::CINIC10, items);
    read_checked(request, &found, Form::symmetric(32), None, &place_of, &check)
}

/// GTSRB: German traffic signs, 43 classes; training pictures in folders, test pictures in a list.
pub(super) fn gtsrb(request: &Request<'_>) -> Outcome<Dataset> {
    let archives = ["GTSRB-Training_fixed.zip", "GTSRB_Final_Test_Images.zip", "GTSRB_Final_Test_GT.zip"];
    let found = places(request, &archives, &["GTSRB/Training"])?;
    let list = found.iter().find_map(|place| place.read("GT-final_test.csv", 1 << 26).ok());
    let list = list.ok_or_else(|| found[0].fault("lacks `GT-final_test.csv`").help("put `GTSRB_Final_Test_GT.zip` beside the others"))?;
    let mut tests: BTreeMap<String, u32> = BTreeMap::new();
    let mut reader = csv::ReaderBuilder::new().delimiter(b';').from_reader(list.as_slice());
    for row in reader.records() {
        let row = row.map_err(|e| found[0].fault(format_args!("has a `GT-final_test.csv` that cannot be read: {e}")))?;
        let class = row.get(7).and_then(|field| field.trim().parse().ok()).filter(|class| *class < 43);
        let class = class.ok_or_else(|| found[0].fault("has a row without a class from 0 to 42 in `GT-final_test.csv`"))?;
        tests.insert(row.get(0).unwrap_or_default().to_owned(), class);
    }
    let classes: Vec<String> = (0..43).map(|class| format!("{class:05}")).collect();
    let place_of = |path: &str| match parts(path).as_slice() {
        [.., "Training", class, _] => Some((false, (*class).to_owned(), String::new())),
        [.., "Final_Test", "Images", file] => Some((true, format!("{:05}", tests.get(*file)?), String::new())),
        _ => None,
    };
    let check = |items: &[&Item]| {
        if items.iter().all(|item| item.test) {
            return Err(found[0].fault("has no training pictures").help("put `GTSRB-Training_fixed.zip` beside the others"));
        }
        let there = items.iter().filter(|item| item.test).map(|item| last(&item.path)).collect();
        all_there(&found[0], "GT-final_test.csv", "`GTSRB_Final_Test_Images.zip`", tests.keys().map(String::as_str), &there)?;
        let train: Vec<&Item> = items.iter().filter(|item| !item.test).copied().collect();
        counted(request, &found[0], &counts::GTSRB, &train)
    };
    read_checked(request, &found, Form::symmetric(32), Some(&classes), &place_of, &check)
}

/// Flowers102: the class of each picture stands in `imagelabels.mat`, its side in `setid.mat`.
pub(super) fn flowers102(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["102flowers.tgz"], &["jpg"])?;
    let numbers = |file: &str, name: &str| {
        let source = request.file(file)?;
        let read = Mat::parse(&source.whole(LIST)?, LIST).and_then(|mat| mat.numbers(name));
        read.at(|| format!("`{}`", source.path.display()))
    };
    let labels = numbers("imagelabels.mat", "labels")?;
    let tests: BTreeSet<usize> = numbers("setid.mat", "tstid")?.into_iter().map(|id| id as usize).collect();
    let classes: Vec<String> = (1..=102).map(|class| format!("{class}")).collect();
    let number_of =
        |path: &str| last(path).strip_prefix("image_")?.strip_suffix(".jpg")?.parse::<usize>().ok().filter(|number| *number > 0);
    let place_of = |path: &str| {
        let number = number_of(path)?;
        // One without a class is refused below.
        let class = labels.get(number - 1).map_or(0, |class| *class as u32);
        Some((tests.contains(&number), class.to_string(), String::new()))
    };
    let check = |items: &[&Item]| {
        let count = labels.len();
        if let Some(item) = items.iter().find(|item| number_of(&item.path).is_none_or(|number| number > count)) {
            let what = format!("holds `{}`, but `imagelabels.mat` has {}", item.path, text::count(count, "label"));
            return Err(found[0].fault(what).help("fetch `imagelabels.mat` again"));
        }
        let names: Vec<String> = (1..=count).map(|number| format!("image_{number:05}.jpg")).collect();
        let there = items.iter().map(|item| last(&item.path)).collect();
        all_there(&found[0], "imagelabels.mat", "`102flowers.tgz`", names.iter().map(String::as_str), &there)
    };
    read_checked(request, &found, Form::symmetric(64), Some(&classes), &place_of, &check)
}

/// Stanford Cars: classes stand in MATLAB's annotations.
pub(super) fn cars(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["cars_train.tgz", "cars_test.tgz", "car_devkit.tgz"], &["cars_train"])?;
    let train = match request.file("cars_train_annos.mat") {
        Ok(source) => source.whole(LIST)?,
        Err(fault) => found.iter().find_map(|place| place.read("cars_train_annos.mat", LIST).ok()).ok_or(fault)?,
    };
    let test = request.file("cars_test_annos_withlabels.mat")?.whole(LIST)?;
    let annotations = |content: &[u8]| -> Outcome<BTreeMap<String, u32>> {
        let mat = Mat::parse(content, LIST)?;
        let (names, classes) = (mat.texts_of("annotations", "fname")?, mat.numbers_of("annotations", "class")?);
        Ok(names.into_iter().zip(classes.into_iter().map(|class| class as u32)).collect())
    };
    let train = annotations(&train).at(|| "`cars_train_annos.mat`")?;
    let test = annotations(&test).at(|| "`cars_test_annos_withlabels.mat`")?;
    let classes: Vec<String> = (1..=196).map(|class| format!("{class}")).collect();
    let place_of = |path: &str| match parts(path).as_slice() {
        [.., "cars_train", file] => Some((false, train.get(*file)?.to_string(), String::new())),
        [.., "cars_test", file] => Some((true, test.get(*file)?.to_string(), String::new())),
        _ => None,
    };
    let check = |items: &[&Item]| {
        for (is_test, named, list, part) in [
            (false, &train, "cars_train_annos.mat", "`cars_train.tgz`"),
            (true, &test, "cars_test_annos_withlabels.mat", "`cars_test.tgz`"),
        ] {
            let there = items.iter().filter(|item| item.test == is_test).map(|item| last(&item.path)).collect();
            all_there(&found[0], list, part, named.keys().map(String::as_str), &there)?;
        }
        Ok(())
    };
    read_checked(request, &found, Form::symmetric(64), Some(&classes), &place_of, &check)
}

/// COVIDx: lists of patient, file, class and source; two classes.
pub(super) fn covidx(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["covidx-cxr2.zip", "archive.zip"], &["train.txt"])?;
    let mut sides: BTreeMap<(bool, String), String> = BTreeMap::new();
    for (list, test) in [("train.txt", false), ("val.txt", true), ("test.txt", true)] {
        let Some(content) = found.iter().find_map(|place| place.read(list, 1 << 26).ok()) else {
            if list == "val.txt" { continue } else { return Err(request.missing()) }
        };
        for line in String::from_utf8_lossy(&content).lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            if let [_, file, class @ ("positive" | "negative"), ..] = fields.as_slice() {
                sides.insert((test, format!("{}/{file}", list.trim_end_matches(".txt"))), (*class).to_owned());
            }
        }
    }
    let classes = ["negative".to_owned(), "positive".to_owned()];
    let key_of = |path: &str| match parts(path)[..] {
        [.., side, file] => Some((side != "train", format!("{side}/{file}"))),
        _ => None,
    };
    let place_of = |path: &str| {
        let key = key_of(path)?;
        sides.get(&key).map(|class| (key.0, class.clone(), String::new()))
    };
    let check = |items: &[&Item]| {
        let keys: Vec<String> = items.iter().filter_map(|item| key_of(&item.path)).map(|(_, key)| key).collect();
        let there = keys.iter().map(String::as_str).collect();
        let named = sides.keys().map(|(_, key)| key.as_str());
        all_there(&found[0], "train.txt`, `val.txt` or `test.txt", "Kaggle's archive", named, &there)
    };
    let data = read_checked(request, &found, Form::unit(64, ""), Some(&classes), &place_of, &check)?;
    let Some(seed) = request.params.integer("draw_seed", 0, u64::from(u32::MAX))? else { return Ok(data) };
    let train = data.original_train();
    let mut taken = augment::draw(&data.labels()[..train], seed as u32).at(|| shown(&found[0]))?;
    let drawn = taken.len();
    taken.extend(train as u32..data.len() as u32);
    data.taking(&taken, drawn)
}

pub(super) fn covidx_fields() -> Vec<Field> {
    vec![augment::draw_field()]
}

pub(super) fn domainnet_fields() -> Vec<Field> {
    vec![augment::cut_field()]
}

/// DomainNet: six domains as groups, 345 classes, official split lists.
pub(super) fn domainnet(request: &Request<'_>) -> Outcome<Dataset> {
    const DOMAINS: [&str; 6] = ["clipart", "infograph", "painting", "quickdraw", "real", "sketch"];
    let archives: Vec<String> = DOMAINS.iter().map(|domain| format!("{domain}.zip")).collect();
    let found = places(request, &archives.iter().map(String::as_str).collect::<Vec<_>>(), &DOMAINS)?;
    let mut sides: BTreeMap<String, (bool, u32)> = BTreeMap::new();
    for domain in DOMAINS {
        for (side, test) in [("train", false), ("test", true)] {
            let source = request.file(&format!("{domain}_{side}.txt"))?;
            let content = source.whole(1 << 28)?;
            for line in String::from_utf8_lossy(&content).lines() {
                let (path, class) = line.rsplit_once(' ').unwrap_or_default();
                let class = class.trim().parse().map_err(|_| source.fault("has a line that does not end in a class"))?;
                sides.insert(path.to_owned(), (test, class));
            }
        }
    }
    let classes: Vec<String> = (0..345).map(|class| class.to_string()).collect();
    let form = Form { cut: request.params.integer("cut_seed", 0, i64::MAX as u64)?, ..Form::unit(64, "domain") };
    let place_of = |path: &str| {
        let (test, class): &(bool, u32) = sides.get(path)?;
        Some((*test, class.to_string(), path.split('/').next()?.to_owned()))
    };
    let check = |items: &[&Item]| {
        let there: BTreeSet<&str> = items.iter().map(|item| item.path.as_str()).collect();
        for domain in DOMAINS {
            let named = sides.keys().map(String::as_str).filter(|path| path.split('/').next() == Some(domain));
            all_there(&found[0], &format!("{domain}_train.txt` or `{domain}_test.txt"), &format!("`{domain}.zip`"), named, &there)?;
        }
        Ok(())
    };
    read_checked(request, &found, form, Some(&classes), &place_of, &check)
}

/// Camelyon17 and iWildCam of WILDS: `metadata.csv` beside the pictures.
pub(super) fn camelyon17(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["camelyon17_v1.0.tar.gz"], &["metadata.csv", "camelyon17_v1.0/metadata.csv"])?;
    let rows = metadata(&found, &["patient", "node", "x_coord", "y_coord", "tumor", "center", "split"])?;
    let mut sides = BTreeMap::new();
    for row in rows {
        let [patient, node, x, y, tumor, center, split] = &row[..] else { continue };
        let patient = format!("{patient:0>3}");
        // 0 train, 1 validation within the hospitals of training (not used by the reference), 2 validation, 3 test.
        let name = format!("patches/patient_{patient}_node_{node}/patch_patient_{patient}_node_{node}_x_{x}_y_{y}.png");
        sides.insert(name, (split != "0", tumor.clone(), center.clone(), split.clone()));
    }
    let classes = ["0".to_owned(), "1".to_owned()];
    let place_of = |path: &str| {
        let at = path.find("patches/")?;
        let (test, tumor, center, split): &(bool, String, String, String) = sides.get(&path[at..])?;
        (split != "1").then(|| (*test, tumor.clone(), center.clone()))
    };
    let check = |items: &[&Item]| {
        let there = items.iter().filter_map(|item| item.path.get(item.path.find("patches/")?..)).collect();
        let named = sides.iter().filter(|(_, (_, _, _, split))| split != "1").map(|(name, _)| name.as_str());
        all_there(&found[0], "metadata.csv", "`camelyon17_v1.0.tar.gz`", named, &there)
    };
    read_checked(request, &found, Form::unit(96, "hospital"), Some(&classes), &place_of, &check)
}

/// iWildCam: camera traps as groups.
pub(super) fn iwildcam(request: &Request<'_>) -> Outcome<Dataset> {
    let found = places(request, &["iwildcam_v2.0.tar.gz"], &["metadata.csv", "iwildcam_v2.0/metadata.csv"])?;
    let rows = metadata(&found, &["filename", "y", "location_remapped", "split"])?;
    let mut sides = BTreeMap::new();
    for row in rows {
        let [file, class, location, split] = &row[..] else { continue };
        if ["train", "val", "test"].contains(&split.as_str()) {
            sides.insert(file.clone(), (split != "train", format!("{class:0>4}"), location.clone()));
        }
    }
    let check = |items: &[&Item]| {
        let there = items.iter().map(|item| last(&item.path)).collect();
        all_there(&found[0], "metadata.csv", "`iwildcam_v2.0.tar.gz`", sides.keys().map(String::as_str), &there)
    };
    read_checked(request, &found, Form::unit(64, "trap"), None, &|path| sides.get(last(path)).cloned(), &check)
}

/// The named columns of `metadata.csv`.
fn metadata(places: &[Place], wanted: &[&str]) -> Outcome<Vec<Vec<String>>> {
    let content = places.iter().find_map(|place| place.read("metadata.csv", 1 << 28).ok());
    let all = places.iter().map(shown).collect::<Vec<_>>().join(", ");
    let content = content.ok_or_else(|| Fault::storage(format!("{all} lacks `metadata.csv`")))?;
    let wrong = |why: String| Fault::storage(format!("`metadata.csv` {why}")).at(all.clone());
    let mut reader = csv::ReaderBuilder::new().from_reader(content.as_slice());
    let header = reader.headers().map_err(|e| wrong(format!("cannot be read: {e}")))?.clone();
    let column = |name: &&str| header.iter().position(|field| field == *name).ok_or_else(|| wrong(format!("has no column `{name}`")));
    let columns = wanted.iter().map(column).collect::<Outcome<Vec<_>>>()?;
    let cells = |row: csv::StringRecord| columns.iter().map(|&column| row.get(column).unwrap_or_default().to_owned()).collect();
    reader.records().map(|row| row.map(cells).map_err(|e| wrong(format!("cannot be read: {e}")))).collect()
}

pub(super) fn utkface_fields() -> Vec<Field> {
    vec![Field::with("size", Type::Int { min: 8, max: 200 }, 64, "Height and width of a sample; the pictures are 200 x 200.")]
}

/// UTKFace: aligned faces; the class is the age in decades, of which there are 12, since trainings here classify.
pub(super) fn utkface(request: &Request<'_>) -> Outcome<Dataset> {
    let size = request.params.integer("size", 8, 200)?.unwrap_or(64) as usize;
    let found = places(request, &["UTKFace.tar.gz"], &["UTKFace", "1_0_0_20161219140623097.jpg.chip.jpg"])?;
    let classes: Vec<String> = (0..12).map(|decade| decade.to_string()).collect();
    let place_of = |path: &str| {
        let age: u32 = path.rsplit('/').next()?.split('_').next()?.parse().ok()?;
        (age < 120).then(|| (false, (age / 10).to_string(), String::new()))
    };
    let check = |items: &[&Item]| counted(request, &found[0], &counts::UTKFACE, items);
    read_checked(request, &found, Form::unit(size, ""), Some(&classes), &place_of, &check)
}
