//! Data sets of several domains that come as numbers: Digit5 (MATLAB files) and Amazon Review (npz). Domains are the groups.

use super::Shape;
use super::assemble::{Rows, of_bytes, of_floats};
use super::dataset::{Dataset, Scaling};
use super::mat::{Mat, Numbers};
use super::npy::Npz;
use super::partition::numpy::Legacy;
use super::picture::Picture;
use super::registry::Request;
use crate::base::fault::Placed;
use crate::base::{Fault, Outcome, memory};

const SIDE: usize = 32;
const PICTURE: usize = SIDE * SIDE * 3;
/// The most samples of a domain, as PFLlib takes them.
const TRAIN: usize = 25_000;
const TEST: usize = 9_000;
/// The most bytes of a file, unpacked: the synthetic digits have 479,400 pictures.
const GREATEST: u64 = 2 << 30;

/// Pictures of 32 x 32 x 3, and their classes.
struct Side {
    pictures: Vec<u8>,
    labels: Vec<u32>,
}

/// Digit5: MNIST-M, MNIST, synthetic digits, USPS and SVHN, of each at most 25,000 training and 9,000 test pictures, chosen as PFLlib
/// does with its seed.
pub(super) fn digit5(request: &Request<'_>) -> Outcome<Dataset> {
    let read = |name: &str| -> Outcome<Mat> {
        let source = request.file(name)?;
        Mat::parse(&source.whole(GREATEST)?, GREATEST).at(|| format!("`{}`", source.path.display()))
    };
    let mut rng = Legacy::new(1);
    let mut shuffled = |side: Side| {
        let order = rng.permutation(side.labels.len() as u32);
        let pictures = order.iter().flat_map(|&at| &side.pictures[at as usize * PICTURE..][..PICTURE]).copied().collect();
        Side { pictures, labels: order.iter().map(|&at| side.labels[at as usize]).collect() }
    };
    let mut domains: Vec<(&str, [Side; 2])> = Vec::new();
    let file = read("mnistm_with_label.mat")?;
    let of = |set: &str, labels: &str| rows_first(&file, set, labels).at(|| "`mnistm_with_label.mat`");
    domains.push(("mnistm", [shuffled(of("train", "label_train")?), of("test", "label_test")?]));
    let file = read("mnist_data.mat")?;
    let of = |set: &str, labels: &str| rows_first(&file, set, labels).at(|| "`mnist_data.mat`");
    domains.push(("mnist", [shuffled(of("train_32", "label_train")?), of("test_32", "label_test")?]));
    let last = |name: &str| rows_last(&read(name)?).at(|| format!("`{name}`"));
    domains.push(("syn", [last("synth_train_32x32.mat")?, last("synth_test_32x32.mat")?]));
    let (train, test) = usps(&read("usps_28x28.mat")?).at(|| "`usps_28x28.mat`")?;
    domains.push(("usps", [train, test]));
    domains.push(("svhn", [shuffled(last("svhn_train_32x32.mat")?), last("svhn_test_32x32.mat")?]));
    let (mut values, mut rows) = (Vec::new(), Rows { what: "domain", ..Rows::default() });
    for (at, most) in [TRAIN, TEST].into_iter().enumerate() {
        for (number, (name, sides)) in domains.iter().enumerate() {
            let kept = sides[at].labels.len().min(most);
            rows.labels.extend(&sides[at].labels[..kept]);
            values.extend_from_slice(&sides[at].pictures[..kept * PICTURE]);
            rows.groups.extend(std::iter::repeat_n(format!("{number} {name}"), kept));
        }
        if at == 0 {
            rows.train = rows.labels.len();
        }
    }
    let shape = Shape { channels: 3, height: SIDE, width: SIDE };
    of_bytes(request.name, shape, 10, &values, Scaling::symmetric(255), rows, request.origin())
}

fn wrong(numbers: &Numbers) -> Fault {
    Fault::storage(format!("its pictures have the shape {:?}, which is not that of Digit5", numbers.shape))
}

/// Pictures by number, row, column and maybe color; classes one-hot.
fn rows_first(mat: &Mat, set: &str, labels: &str) -> Outcome<Side> {
    let pictures = mat.array(set)?;
    let (count, channels) = match *pictures.shape.as_slice() {
        [count, SIDE, SIDE] => (count, 1),
        [count, SIDE, SIDE, channels @ (1 | 3)] => (count, channels),
        _ => return Err(wrong(pictures)),
    };
    let mut bytes = Vec::with_capacity(count * PICTURE);
    for picture in 0..count {
        for place in 0..SIDE * SIDE {
            let (row, column) = (place / SIDE, place % SIDE);
            let of = |channel: usize| pictures.values.get(picture + count * (row + SIDE * (column + SIDE * (channel % channels)))) as u8;
            bytes.extend([of(0), of(1), of(2)]);
        }
    }
    let hot = mat.array(labels)?;
    let &[rows, classes] = hot.shape.as_slice() else { return Err(wrong(hot)) };
    if rows != count {
        return Err(Fault::storage(format!("it has {count} pictures, but {rows} labels")));
    }
    let label = |row: usize| {
        (0..classes).rev().max_by(|&a, &b| hot.values.get(row + rows * a).total_cmp(&hot.values.get(row + rows * b))).unwrap_or_default()
    };
    Ok(Side { pictures: bytes, labels: (0..rows).map(|row| label(row) as u32).collect() })
}

/// Pictures by row, column, color and number in `X`; classes 1 to 10 in `y`, of which 10 is the digit 0.
fn rows_last(mat: &Mat) -> Outcome<Side> {
    let pictures = mat.array("X")?;
    let &[SIDE, SIDE, 3, count] = pictures.shape.as_slice() else { return Err(wrong(pictures)) };
    let mut bytes = Vec::with_capacity(count * PICTURE);
    for picture in 0..count {
        for place in 0..SIDE * SIDE {
            let (row, column) = (place / SIDE, place % SIDE);
            bytes.extend((0..3).map(|channel| pictures.values.get(row + SIDE * (column + SIDE * (channel + 3 * picture))) as u8));
        }
    }
    let labels = mat.numbers("y")?;
    if labels.len() != count {
        return Err(Fault::storage(format!("it has {count} pictures, but {} labels", labels.len())));
    }
    Ok(Side { pictures: bytes, labels: labels.into_iter().map(digit).collect() })
}

fn digit(label: f64) -> u32 {
    if label == 10.0 { 0 } else { label as u32 }
}

/// USPS: cells of training pictures, their labels, test pictures, their labels; gray, 28 x 28, from 0 to 1. The reference repeats the
/// training pictures four times.
fn usps(mat: &Mat) -> Outcome<(Side, Side)> {
    let cells = mat.cells("dataset")?;
    let [train, test, train_labels, test_labels] = cells.as_slice() else {
        return Err(Fault::storage(format!("its `dataset` has {} cells, but needs pictures and labels of two sets", cells.len())));
    };
    let side = |pictures: &Numbers, labels: &Numbers| -> Outcome<Side> {
        let &[count, 1, 28, 28] = pictures.shape.as_slice() else { return Err(wrong(pictures)) };
        let mut bytes = Vec::with_capacity(count * PICTURE);
        for picture in 0..count {
            let of = |place: usize| (pictures.values.get(picture + count * (place / 28 + 28 * (place % 28))) * 255.0) as u8;
            let gray = Picture { width: 28, height: 28, channels: 1, bytes: (0..784).map(of).collect() };
            bytes.extend(gray.resized(SIDE, SIDE).bytes.into_iter().flat_map(|byte| [byte; 3]));
        }
        if labels.values.len() != count {
            return Err(Fault::storage(format!("it has {count} pictures, but {} labels", labels.values.len())));
        }
        Ok(Side { pictures: bytes, labels: (0..count).map(|at| digit(labels.values.get(at))).collect() })
    };
    let mut train = side(train, train_labels)?;
    train = Side { pictures: train.pictures.repeat(4), labels: train.labels.repeat(4) };
    Ok((train, side(test, test_labels)?))
}

const FEATURES: usize = 5_000;
/// The most reviews; the original has 27,677.
const REVIEWS: usize = 100_000;
const DOMAINS: [&str; 4] = ["books", "dvd", "electronics", "kitchen"];

/// Amazon Review: 5,000 counts of words of each review, two classes, four domains.
pub(super) fn amazon_review(request: &Request<'_>) -> Outcome<Dataset> {
    let source = request.file("amazon.npz")?;
    let place = || format!("`{}`", source.path.display());
    let mut file = Npz::open(&source)?;
    let mut read = |name: &str| file.array(name).at(place);
    let (data, column, row) = (read("xx_data")?, read("xx_col")?, read("xx_row")?);
    let (labels, offsets) = (read("yy")?.floats("yy")?, read("offset")?.integers("offset")?);
    // The matrix is stored with its sides exchanged.
    let (data, rows, columns) = (data.floats("xx_data")?, column.integers("xx_col")?, row.integers("xx_row")?);
    let count = labels.len();
    let sound = offsets.len() == DOMAINS.len() + 1 && offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    if !sound || offsets[0] != 0 || offsets[DOMAINS.len()] != count as i64 || data.len() != rows.len() || data.len() != columns.len() {
        return Err(source.fault(format_args!("has arrays that do not belong together: {count} labels, borders {offsets:?}")));
    }
    if count > REVIEWS {
        return Err(source.fault(format_args!("has {count} reviews, but at most {REVIEWS} are read")));
    }
    // The values, and the samples that are made of them.
    let what = format!("data set `{}` of {count} reviews", request.name);
    memory::demand_or(2 * 4 * (count * FEATURES) as u64, &what, "use a machine with more memory")?;
    let mut rng = Legacy::new(1);
    let mut out = Rows { what: "domain", train: count, ..Rows::default() };
    let mut place_of = vec![0; count];
    for (domain, border) in DOMAINS.iter().zip(offsets.windows(2)) {
        let mut order: Vec<usize> = (border[0] as usize..border[1] as usize).collect();
        rng.shuffle(&mut order);
        for review in order {
            place_of[review] = out.labels.len();
            out.labels.push(u32::from(labels[review] > 0.0));
            out.groups.push((*domain).to_owned());
        }
    }
    let mut values = vec![0.0_f32; count * FEATURES];
    for ((&value, &row), &column) in data.iter().zip(&rows).zip(&columns) {
        let row = usize::try_from(row).ok().filter(|row| *row < count);
        let row = row.ok_or_else(|| source.fault(format_args!("names a review beyond its {count}")))?;
        if let Some(column) = usize::try_from(column).ok().filter(|column| *column < FEATURES) {
            values[place_of[row] * FEATURES + column] += value;
        }
    }
    of_floats(request.name, Shape { channels: FEATURES, height: 1, width: 1 }, 2, &values, out, request.origin())
}
