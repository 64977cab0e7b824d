//! What counts as equal (fixtures/README.md).

use crate::fixture::{Metric, Run};
use pflpipe::engine::Compute;

/// The relative L2 error. Where the reference is zero but for rounding (below 1e-6 everywhere), ours must be below 1e-6 too: such a
/// tensor follows a gradient that is truly zero, like that of a bias before a batch normalisation.
pub fn relative_error(name: &str, ours: &[f32], reference: &[f32]) -> Result<f64, String> {
    if ours.len() != reference.len() {
        return Err(format!("{name}: {} values, the reference has {}", ours.len(), reference.len()));
    }
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let distance = norm(&mut ours.iter().zip(reference).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    let size = norm(&mut reference.iter().map(|v| f64::from(*v)));
    if !distance.is_finite() {
        return Err(format!("{name}: not finite"));
    }
    if reference.iter().all(|v| v.abs() < 1e-6) {
        let largest = ours.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        return if largest < 1e-6 { Ok(0.0) } else { Err(format!("{name}: {largest:.1e} where the reference is 0")) };
    }
    Ok(distance / size)
}

/// The largest relative error of a tensor of this algorithm.
pub fn tolerance(algorithm: &str, name: &str) -> f64 {
    match algorithm {
        "FedPHP" => 5e-3,
        "FedCP" if name.contains(".cs") => 2e-5,
        _ => 1e-4,
    }
}

/// By how much the tolerances of states and losses grow where the reference's own rounding has grown: with scaled inputs the first steps
/// of FedKD throw client 0 far out. The reference itself, computed in `float64`, differs there from its fixture by 5.9e-3 in a weight
/// tensor and by 4.9e-4 in the loss; computed in `float32` by torch 2.15 instead of 2.7, by 5.9e-3 and 7.8e-4. So 4e-4 is what is
/// left of the fixture's own accuracy, and 1e-4 would only ask for the same accidents of rounding. All other tensors, factors and losses of
/// that run agree to 1e-4.
///
/// Stock operations sum the statistics of batches in single precision. FedAS's own fixture with BatchNorm has a place for that: in the
/// first round of client 0 two activations of the first convolution that are 4e-6 apart decide about a maximum or a ReLU. The reference
/// itself, computed in `float64` from a start that is off by 1e-5 of each weight, differs from its fixture by the same 3.55e-2 in
/// `conv1.1.bias`, which has hardly moved from 0, by 8.3e-4 in the weights before it, and by 1e-4 in what follows. A start off by 1e-6
/// does not. FedPHP's with decay and normalisation differs on stock operations in that bias of one client, by 7.1e-3, and
/// in that client's training loss, by 7.8e-4; in nothing else.
pub fn strain(run: &Run, compute: Compute, name: &str) -> f64 {
    let own = if run.algorithm == "FedKD" && run.input_scale > 1.0 { 4.0 } else { 1.0 };
    match (compute, run.model.ends_with("_bn")) {
        (Compute::Fused, _) | (_, false) => own,
        _ if run.algorithm == "FedAS" && name.ends_with("conv1.1.bias") => 360.0,
        _ if run.algorithm == "FedAS" => 10.0,
        (Compute::Stock, _) if run.algorithm == "FedPHP" && name.ends_with("conv1.1.bias") => 80.0,
        (Compute::Stock, _) if run.algorithm == "FedPHP" && name == "loss" => 10.0,
        (Compute::Stock, _) => own,
        // Sums of a GPU run in yet another order.
        _ => own * 10.0,
    }
}

/// How many pairs of a positive and a negative score may change sides by rounding, because they tie to 1e-6. Those of our own fixtures
/// are known one by one; elsewhere one pair may.
pub fn loose_pairs(run: &Run, metric: &Metric, known: bool) -> f64 {
    match (run.algorithm.as_str(), run.clients, metric.round, metric.client) {
        _ if !known => 1.0,
        ("GPFL", 4, 2, 2) | ("Ditto", 6, 0, 2) => 1.0,
        // Client 2's network is dead there: all samples have the same scores, but the fixture rounds its last batch, of one
        // sample, differently, and breaks 21 ties, of which each is half a pair. In `float64` the reference has all ties, as ours.
        ("FedKD", 4, 2, 2) if run.input_scale > 1.0 => 10.5,
        _ => 0.0,
    }
}
