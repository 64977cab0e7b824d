//! The rule `feature-noise`: an even split, and noise whose strength grows with the client's number.
//!
//! NIID-Bench draws the noise anew at every access; here it is drawn once, so that the data set behind the partition is an ordinary
//! one. The noise of client i of N has the standard deviation `noise` * i / (N-1), in units of the greatest value of a byte.

use super::super::dataset::{Bytes, Dataset, Samples};
use super::super::params::Params;
use super::super::parts::{HEADER, with_header};
use super::numpy::Legacy;
use super::portable::gauss;
use super::request::Request;
use super::{Drawn, Partition, iid};
use crate::base::Outcome;
use crate::base::random::{Purpose, stream};
use crate::spec::catalog::{Field, Type};
use serde_json::{Map, Value};

pub(super) fn fields() -> Vec<Field> {
    vec![
        Field::with("noise", Type::positive(), 0.1, "Standard deviation of the last client's noise; a pixel's range is 0 to 1. Above 0.")
            .from("sigma", "NIID-Bench"),
    ]
}

pub(super) fn draw(request: &Request<'_>, params: &Params<'_>, _: Option<&mut Legacy>) -> Outcome<Drawn> {
    iid::draw(request, params, None)
}

/// Noise that a partition adds to the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Standard deviation of the last client's noise.
    pub greatest: f64,
    /// The seed of the partition.
    pub seed: u64,
}

/// The noise that a partition of this kind with these parameters adds; none for most kinds.
///
/// # Errors
/// A stage fault when a parameter is wrong.
pub fn noise(kind: &str, params: &Map<String, Value>) -> Outcome<Option<Noise>> {
    if kind != "feature-noise" {
        return Ok(None);
    }
    let params = Params::new(params, kind);
    let greatest = params.number("noise", 0.0, None)?.unwrap_or(0.1);
    Ok(Some(Noise { greatest, seed: params.integer("seed", 0, u64::MAX)?.unwrap_or(1) }))
}

impl Noise {
    /// The data set with the noise of each client on its samples, which become floats.
    ///
    /// # Errors
    /// A stage fault when the partition is one of another data set, or the samples are a text.
    pub fn add(&self, data: Dataset, partition: &Partition) -> Outcome<Dataset> {
        partition.fits(data.len(), data.classes())?;
        if data.vocabulary().is_some() {
            return Err(crate::base::Fault::stage("noise can be added to numbers only, but the samples are a text"));
        }
        // Samples were scaled as (x - mean) / sd, so the noise is divided by sd too.
        let unit = if let Samples::U8 { scaling, .. } = data.samples() { f64::from(scaling.sd) } else { 1.0 };
        let mut strength = vec![0.0; data.len()];
        let last = partition.clients().len().saturating_sub(1).max(1) as f64;
        for (id, client) in partition.clients().iter().enumerate() {
            let own = self.greatest * id as f64 / last / unit;
            partition.own(client).for_each(|&index| strength[index as usize] = own);
        }
        let values = data.shape().numel();
        let mut bytes = with_header(data.len(), values * 4);
        let mut sample = Vec::new();
        for (index, &strength) in strength.iter().enumerate() {
            data.gather(&[index as u32], &mut sample);
            if strength > 0.0 {
                let mut rng = stream(self.seed, Purpose::Noise, index as u64, 0, 0);
                sample.iter_mut().for_each(|value| *value = (f64::from(*value) + strength * gauss(&mut rng)) as f32);
            }
            bytes.extend(sample.iter().flat_map(|value| value.to_le_bytes()));
        }
        data.with_samples(Samples::F32(Bytes::new(bytes, HEADER)))
    }
}
