//! Windows of body-worn sensors: UCI HAR, PAMAP2, and the 23 subjects of SP-SW-HAR. Subjects are the groups.
//!
//! HAR and PAMAP2 are prepared as PFLlib does it, its ways included: HAR's windows are reinterpreted instead of transposed, and a
//! window of PAMAP2 has the smallest activity in it.

use super::Shape;
use super::assemble::{Rows, of_floats};
use super::dataset::Dataset;
use super::members::{Place, Wanted};
use super::registry::Request;
use crate::base::{Fault, Outcome};
use crate::spec::catalog::{Field, Type};
use std::collections::BTreeMap;

/// The most bytes of a file of HAR, of which the largest has 15 MB, and of a recording of PAMAP2, which has up to 250 MB.
const GREATEST: u64 = 64 << 20;
const RECORDING: u64 = 512 << 20;
const HAR_WINDOW: usize = 128;
const HAR_SIGNALS: [&str; 9] =
    ["body_acc_x", "body_acc_y", "body_acc_z", "body_gyro_x", "body_gyro_y", "body_gyro_z", "total_acc_x", "total_acc_y", "total_acc_z"];
const AXES: &[(&str, &str)] = &[
    ("pfllib", "the numbers of a window, time by time, are read as if they were signal by signal, as PFLlib does"),
    ("signals", "each channel is one signal over time"),
];

pub(super) fn har_fields() -> Vec<Field> {
    vec![Field::with("axes", Type::Choice(AXES), "pfllib", "How a window of 128 times and 9 signals becomes 9 channels.")]
}

/// UCI HAR: 9 signals in windows of 128, activities 1 to 6, 30 subjects.
pub(super) fn har(request: &Request<'_>) -> Outcome<Dataset> {
    let own_axes = request.params.choice("axes", AXES)? == Some(1);
    let archives = ["UCI HAR Dataset.zip", "UCI_HAR_Dataset.zip", "human+activity+recognition+using+smartphones.zip"];
    let markers = ["train/y_train.txt", "UCI HAR Dataset/train/y_train.txt"];
    let place = Place::find(request.dirs, request.folders(), &archives, &markers)?.into_iter().next().ok_or_else(|| request.missing())?;
    if let Place::Archive(source) = &place {
        request.verify(source)?;
    }
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let is = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        !name.contains("__MACOSX")
            && (file.starts_with("y_t") || file.starts_with("subject_t") || name.contains("Inertial Signals/"))
            && file.ends_with(".txt")
    };
    place.each(&Wanted { name: &is, most: GREATEST }, &mut |name, content| {
        request.go_on()?;
        files.insert(name.rsplit('/').next().unwrap_or(name).to_owned(), content);
        Ok(())
    })?;
    let read = |name: &str| -> Outcome<Vec<f32>> {
        let content = files.get(name).ok_or_else(|| place.fault(format_args!("lacks `{name}`")))?;
        numbers(content).map_err(|why| place.fault(format_args!("holds `{name}`, which {why}")))
    };
    let mut rows = Rows { what: "subject", ..Rows::default() };
    let mut values = Vec::new();
    for side in ["train", "test"] {
        let labels = read(&format!("y_{side}.txt"))?;
        let subjects = read(&format!("subject_{side}.txt"))?;
        let signals = HAR_SIGNALS.iter().map(|signal| read(&format!("{signal}_{side}.txt"))).collect::<Outcome<Vec<_>>>()?;
        if subjects.len() != labels.len() || signals.iter().any(|signal| signal.len() != labels.len() * HAR_WINDOW) {
            return Err(place.fault(format_args!("has files of `{side}` that do not belong together: {} labels", labels.len())));
        }
        for (window, (label, subject)) in labels.iter().zip(&subjects).enumerate() {
            rows.labels.push(class(*label, 1, 6).map_err(|why| place.fault(why))?);
            rows.groups.push(format!("{}", *subject as u32));
            // Stored time by time, each time with its channels.
            for time in 0..HAR_WINDOW {
                for channel in 0..9 {
                    let (from, at) =
                        if own_axes { (channel, time) } else { ((HAR_WINDOW * channel + time) % 9, (HAR_WINDOW * channel + time) / 9) };
                    values.push(signals[from][window * HAR_WINDOW + at]);
                }
            }
        }
        if side == "train" {
            rows.train = rows.labels.len();
        }
    }
    of_floats(request.name, Shape { channels: 9, height: 1, width: HAR_WINDOW }, 6, &values, rows, request.origin())
}

fn class(value: f32, least: u32, most: u32) -> Result<u32, String> {
    let found = Some(value as u32).filter(|class| *class as f32 == value && (least..=most).contains(class));
    found.map(|class| class - least).ok_or_else(|| format!("has the class {value}, but classes are {least} to {most}"))
}

/// Numbers separated by blanks; NaN is one of them.
fn numbers(content: &[u8]) -> Result<Vec<f32>, String> {
    let text = std::str::from_utf8(content).map_err(|_| "is no text")?;
    let number =
        |field: &str| field.parse().map_err(|_| format!("has `{}` where a number belongs", field.chars().take(20).collect::<String>()));
    text.split_ascii_whitespace().map(number).collect()
}

/// Columns of the measurements, counted from 0: acceleration (16 g), gyroscope, magnetometer of hand, chest and ankle.
const PAMAP2_COLUMNS: [[usize; 9]; 3] =
    [[4, 5, 6, 10, 11, 12, 13, 14, 15], [21, 22, 23, 27, 28, 29, 30, 31, 32], [38, 39, 40, 44, 45, 46, 47, 48, 49]];
const PAMAP2_WINDOW: usize = 256;
const PAMAP2_STEP: usize = 128;

/// PAMAP2: 27 channels of 9 subjects in windows of 256 with step 128, 12 activities.
pub(super) fn pamap2(request: &Request<'_>) -> Outcome<Dataset> {
    let archives = ["PAMAP2_Dataset.zip", "pamap2+physical+activity+monitoring.zip"];
    let markers = ["Protocol/subject101.dat", "PAMAP2_Dataset/Protocol/subject101.dat"];
    let place = Place::find(request.dirs, request.folders(), &archives, &markers)?.into_iter().next().ok_or_else(|| request.missing())?;
    // By subject: the protocol, then what is optional.
    let mut recordings: BTreeMap<(u32, bool), Vec<u8>> = BTreeMap::new();
    let subject_of = |name: &str| name.rsplit('/').next()?.strip_prefix("subject")?.strip_suffix(".dat")?.parse::<u32>().ok();
    let is =
        |name: &str| !name.contains("__MACOSX") && (name.contains("Protocol/") || name.contains("Optional/")) && subject_of(name).is_some();
    place.each(&Wanted { name: &is, most: RECORDING }, &mut |name, content| {
        request.go_on()?;
        recordings.insert((subject_of(name).unwrap_or_default(), name.contains("Optional/")), content);
        Ok(())
    })?;
    let mut subjects: BTreeMap<u32, (Vec<f32>, Vec<u32>)> = BTreeMap::new();
    for ((subject, _), content) in recordings {
        request.go_on()?;
        let wrong = |why: String| place.fault(format_args!("holds `subject{subject}.dat`, which {why}"));
        let all = numbers(&content).map_err(wrong)?;
        if !all.len().is_multiple_of(54) {
            return Err(wrong(format!("has {} numbers, but rows of 54 belong there", all.len())));
        }
        let (values, activities) = subjects.entry(subject).or_default();
        for row in all.chunks_exact(54) {
            activities.push(row[1] as u32);
            let kept = PAMAP2_COLUMNS.iter().flatten().map(|&column| row[column]);
            values.extend(kept.map(|value| if value.is_nan() { 0.0 } else { value }));
        }
    }
    let mut rows = Rows { what: "subject", ..Rows::default() };
    let mut out = Vec::new();
    for (subject, (mut values, activities)) in subjects {
        for channel in 0..27 {
            let most = values.iter().skip(channel).step_by(27).fold(0.0_f32, |most, value| most.max(value.abs()));
            if most > 0.0 {
                values.iter_mut().skip(channel).step_by(27).for_each(|value| *value /= most);
            }
        }
        let mut start = 0;
        while start + PAMAP2_WINDOW < activities.len() {
            let activity = activities[start..start + PAMAP2_WINDOW].iter().min().copied().unwrap_or_default();
            let class = match activity {
                1..=7 => Some(activity),
                24 => Some(0),
                12 => Some(8),
                13 => Some(9),
                16 => Some(10),
                17 => Some(11),
                _ => None,
            };
            if let Some(class) = class {
                rows.labels.push(class);
                rows.groups.push(subject.to_string());
                // Height is the place on the body, width the time; each of them with its 9 channels.
                for place in 0..3 {
                    for row in values[start * 27..(start + PAMAP2_WINDOW) * 27].chunks_exact(27) {
                        out.extend_from_slice(&row[place * 9..place * 9 + 9]);
                    }
                }
            }
            start += PAMAP2_STEP;
        }
    }
    rows.train = rows.labels.len();
    of_floats(request.name, Shape { channels: 9, height: 3, width: PAMAP2_WINDOW }, 12, &out, rows, request.origin())
}

const DEVICES: &[(&str, &str)] = &[("phone", "the smartphone"), ("watch", "the smartwatch")];
const POSTURES: [&str; 5] = ["SEATED", "STANDING_UP", "WALKING", "TURNING", "SITTING_DOWN"];

pub(super) fn postures_fields() -> Vec<Field> {
    vec![
        Field::with("sensor", Type::Choice(DEVICES), "phone", "Whose measurements to take."),
        Field::with("window", Type::Int { min: 1, max: 100_000 }, 128, "Times of a sample."),
        Field::with("step", Type::at_least(1), 64, "Times from the start of a sample to that of the next."),
    ]
}

/// SP-SW-HAR: acceleration and rotation of 23 subjects; the class of a window is the one of most of its times. Every channel is
/// standardized over all windows.
pub(super) fn postures(request: &Request<'_>) -> Outcome<Dataset> {
    let ending = if request.params.choice("sensor", DEVICES)? == Some(1) { "_sw.csv" } else { "_sp.csv" };
    let window = request.params.count("window", 1)?.unwrap_or(128);
    let step = request.params.count("step", 1)?.unwrap_or(64);
    let archives = ["sp-sw-har-dataset-DATA.tar.xz"];
    let place =
        Place::find(request.dirs, request.folders(), &archives, &["DATA/s01"])?.into_iter().next().ok_or_else(|| request.missing())?;
    if let Place::Archive(source) = &place {
        request.verify(source)?;
    }
    let mut recordings: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    place.each(&Wanted { name: &|name| name.ends_with(ending), most: 1 << 26 }, &mut |name, content| {
        recordings.insert(name.rsplit('/').next().unwrap_or(name).to_owned(), content);
        Ok(())
    })?;
    let mut rows = Rows { what: "subject", ..Rows::default() };
    let mut values: Vec<f32> = Vec::new();
    for (name, content) in recordings {
        request.go_on()?;
        let wrong = |why: &dyn std::fmt::Display| place.fault(format_args!("holds `{name}`, which {why}"));
        let mut reader = csv::ReaderBuilder::new().from_reader(content.as_slice());
        let header = reader.headers().map_err(|e| wrong(&e))?.clone();
        let column = |wanted: &str| {
            header.iter().position(|field| field.trim() == wanted).ok_or_else(|| wrong(&format!("has no column `{wanted}`")))
        };
        let columns = ["x_acc", "y_acc", "z_acc", "x_gyro", "y_gyro", "z_gyro"].map(&column);
        let label = column("label")?;
        let (mut measured, mut classes) = (Vec::new(), Vec::new());
        for row in reader.records() {
            let row = row.map_err(|e| wrong(&e))?;
            for column in &columns {
                let column = column.as_ref().map_err(Clone::clone)?;
                let value: Option<f32> = row.get(*column).and_then(|field| field.trim().parse().ok());
                measured.push(value.ok_or_else(|| wrong(&"has a row without numbers"))?);
            }
            let class = row.get(label).and_then(|field| POSTURES.iter().position(|posture| *posture == field.trim()));
            classes.push(class.ok_or_else(|| wrong(&"has an unknown label"))?);
        }
        let subject = name.split('_').next().unwrap_or_default().to_owned();
        let windows = (classes.len() + 1).saturating_sub(window).div_ceil(step);
        let less = "choose a smaller `window` or a greater `step`, or use a machine with more memory";
        request.room((rows.labels.len() + windows) as u64, window as u64 * 6 * 8, less)?;
        let mut start = 0;
        while start + window <= classes.len() {
            let mut counts = [0; POSTURES.len()];
            classes[start..start + window].iter().for_each(|&class| counts[class] += 1);
            let greatest = counts.iter().max().copied().unwrap_or_default();
            // Of equal ones that which comes first in the window.
            let most = classes[start..start + window].iter().find(|&&class| counts[class] == greatest).copied().unwrap_or_default();
            rows.labels.push(most as u32);
            rows.groups.push(subject.clone());
            values.extend_from_slice(&measured[start * 6..(start + window) * 6]);
            start = start.saturating_add(step);
        }
    }
    if rows.labels.is_empty() {
        return Err(Fault::storage(format!("`{}` has no windows of {window} times", place.path().display())));
    }
    for channel in 0..6 {
        let own = || values.iter().skip(channel).step_by(6).map(|value| f64::from(*value));
        let n = (values.len() / 6) as f64;
        let mean = own().sum::<f64>() / n;
        let sd = (own().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n).sqrt().max(1e-12);
        values.iter_mut().skip(channel).step_by(6).for_each(|value| *value = ((f64::from(*value) - mean) / sd) as f32);
    }
    rows.train = rows.labels.len();
    of_floats(request.name, Shape { channels: 6, height: 1, width: window }, POSTURES.len(), &values, rows, request.origin())
}
