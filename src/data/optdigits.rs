//! The handwritten digits of the UCI repository, embedded in the program: 5,620 pictures of 8 x 8, values 0 to 16.
//!
//! It needs no files, so that every example and test can run. Text format: 64 values and the class on each line, separated by
//! commas. License and citation: `assets/optdigits/LICENSE.md`.

use super::Shape;
use super::dataset::{Bytes, Dataset, Origin, Samples, Scaling};
use super::parts::{HEADER, with_header};
use crate::base::{Fault, Outcome};
use flate2::read::GzDecoder;
use std::io::Read;

const TRAIN: &[u8] = include_bytes!("../../assets/optdigits/optdigits.tra.gz");
const TEST: &[u8] = include_bytes!("../../assets/optdigits/optdigits.tes.gz");
const SIDE: usize = 8;
const GREATEST: u8 = 16;
const SAMPLES: usize = 5_620;

/// The training digits followed by the test digits; `limit` keeps the first ones only.
///
/// # Errors
/// A stage fault when `limit` is more than there are.
pub(super) fn load(limit: Option<usize>) -> Outcome<Dataset> {
    let kept = limit.unwrap_or(SAMPLES);
    if kept > SAMPLES {
        return Err(Fault::stage(format!("`limit` is {kept}, but data set `optdigits` has {SAMPLES} samples")));
    }
    let mut bytes = with_header(kept, SIDE * SIDE);
    let mut labels = Vec::with_capacity(SAMPLES);
    let train = read(TRAIN, kept, &mut bytes, &mut labels)?;
    read(TEST, kept - train, &mut bytes, &mut labels)?;
    let samples = Samples::bytes(Bytes::new(bytes, HEADER), Scaling::symmetric(GREATEST));
    let origin = Origin {
        source: "E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998, \
                 doi:10.24432/C50P49"
            .into(),
        license: "CC BY 4.0".into(),
    };
    let shape = Shape { channels: 1, height: SIDE, width: SIDE };
    Dataset::new("optdigits", shape, 10, samples, labels, train, origin)
}

/// Appends at most `most` digits and returns how many.
fn read(packed: &[u8], most: usize, bytes: &mut Vec<u8>, labels: &mut Vec<u32>) -> Outcome<usize> {
    let damaged = || Fault::internal("the embedded digits are damaged");
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).map_err(|_| damaged())?;
    let mut count = 0;
    for line in text.lines().take(most) {
        let from = bytes.len();
        for field in line.split(',') {
            bytes.push(field.parse().ok().filter(|value| *value <= GREATEST).ok_or_else(damaged)?);
        }
        labels.push(u32::from(bytes.pop().ok_or_else(damaged)?));
        if bytes.len() - from != SIDE * SIDE {
            return Err(damaged());
        }
        count += 1;
    }
    Ok(count)
}
