//! Centered clipping (Karimireddy, He, Jaggi, ICML 2021), with the buckets of the same authors (ICLR 2022).

use super::common::Form;
use super::vectors::{mean, squared_distance};
use crate::base::Outcome;
use crate::base::random::{Purpose, below, shuffle, stream};
use crate::fl::{Exchange, Intervention, Memory, Needs, Place, Sent};
use crate::spec::catalog::{Field, Type, Variant};
use serde::Deserialize;

/// c <- c + mean_i (x_i - c) min(1, tau / ||x_i - c||), for steps x_i = v_i - g around a centre that is carried over.
#[derive(Debug, Deserialize)]
pub(super) struct CenteredClipping {
    tau: f64,
    iterations: usize,
    bucket: usize,
    seed: u64,
    variant: Form,
}

pub(super) const NAME: &str = "centered-clipping";

pub(super) fn variant() -> Variant {
    Variant {
        name: NAME,
        doc: "Steps x_i = v_i - g are clipped around a centre c, the step of the round before: c <- c + mean_i (x_i - c) min(1, tau / \
              ||x_i - c||), and the server moves by c (Karimireddy et al., ICML 2021). Uploads count equally.",
        revision: 1,
        fields: vec![
            Field::with("tau", Type::positive(), 10.0, "The radius around the centre.").from("tau", "the paper and FedML"),
            Field::with("iterations", Type::at_least(1), 1, "How often the centre moves in a round.").from("L", "the paper"),
            Field::with("bucket", Type::at_least(1), 1, "Uploads are averaged in random buckets of so many first.").from("s", "the paper"),
            Field::with("seed", Type::at_least(0), 0, "Seed of the buckets."),
            Form::field("FedML takes the mean of a random bucket of the round as the centre, carries nothing over, and weighs by samples."),
        ],
    }
}

impl CenteredClipping {
    /// The means of random buckets of the uploads, with their weights.
    fn buckets(&self, sent: &[Sent], round: u64) -> (Vec<Vec<f32>>, Vec<f64>) {
        let mut order: Vec<usize> = (0..sent.len()).collect();
        if self.bucket > 1 {
            shuffle(&mut stream(self.seed, Purpose::Defence, 0, round, 0), &mut order);
        }
        let weigh = |i: &usize| if self.variant == Form::Fedml { sent[*i].weight } else { 1.0 };
        let bucket = |ids: &[usize]| {
            let weights: Vec<f64> = ids.iter().map(weigh).collect();
            let vectors: Vec<&[f32]> = ids.iter().map(|i| &sent[*i].params[..]).collect();
            (mean(&vectors, &weights), if self.variant == Form::Fedml { weights.iter().sum() } else { 1.0 })
        };
        order.chunks(self.bucket).map(bucket).unzip()
    }
}

/// Moves `centre` by the weighted mean of the clipped differences of the points to it.
fn step(centre: &mut [f32], points: &[Vec<f32>], weights: &[f64], tau: f64) {
    let total: f64 = weights.iter().sum();
    let mut moved = vec![0.0f64; centre.len()];
    for (point, weight) in points.iter().zip(weights) {
        let share = weight / total * (tau / (squared_distance(point, centre).sqrt() + 1e-8)).min(1.0);
        moved.iter_mut().zip(point).zip(centre.iter()).for_each(|((m, p), c)| *m += share * f64::from(p - c));
    }
    centre.iter_mut().zip(moved).for_each(|(c, m)| *c += m as f32);
}

impl Intervention for CenteredClipping {
    fn name(&self) -> &'static str {
        NAME
    }
    fn place(&self) -> Place {
        Place::Defence
    }
    fn needs(&self) -> Needs {
        Needs::Mean
    }
    fn sent(&self, exchange: &Exchange<'_>, sent: &mut Vec<Sent>, memory: &mut Memory) -> Outcome<Option<Vec<f32>>> {
        let (mut points, weights) = self.buckets(sent, exchange.round);
        if self.variant == Form::Fedml {
            let guess = below(&mut stream(self.seed, Purpose::Defence, 1, exchange.round, 0), points.len() as u64) as usize;
            let mut centre = points[guess].clone();
            (0..self.iterations).for_each(|_| step(&mut centre, &points, &weights, self.tau));
            return Ok(Some(centre));
        }
        for point in &mut points {
            point.iter_mut().zip(exchange.reference).for_each(|(v, g)| *v -= g);
        }
        let centre = memory.vectors.entry(0).or_insert_with(|| vec![0.0; exchange.reference.len()]);
        (0..self.iterations).for_each(|_| step(centre, &points, &weights, self.tau));
        Ok(Some(exchange.reference.iter().zip(centre).map(|(g, c)| g + *c).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::tests::{close, defend, defend_in};
    use super::*;

    fn clipping(variant: Form) -> CenteredClipping {
        CenteredClipping { tau: 2.0, iterations: 1, bucket: 1, seed: 0, variant }
    }

    #[test]
    fn a_far_step_counts_as_one_at_the_radius_and_the_centre_is_carried_over() {
        let uploads: [(&[f32], usize); 2] = [(&[2.0, 1.0], 1), (&[101.0, 1.0], 5)];
        let mut memory = Memory::default();
        // Steps (1, 0) and (100, 0) around 0: 1 and 2, mean 1.5.
        let first = defend_in(&clipping(Form::Paper), &[1.0, 1.0], &uploads, 0, &mut memory).expect("defended").1;
        close(&first.expect("an aggregate"), &[2.5, 1.0]);
        // Around 1.5: -0.5 and 2, mean 0.75.
        let second = defend_in(&clipping(Form::Paper), &[1.0, 1.0], &uploads, 1, &mut memory).expect("defended").1;
        close(&second.expect("an aggregate"), &[3.25, 1.0]);
    }

    #[test]
    fn fedml_starts_at_one_of_the_uploads_and_equal_ones_stay() {
        let equal: [(&[f32], usize); 3] = [(&[2.0, 1.0], 1), (&[2.0, 1.0], 5), (&[2.0, 1.0], 2)];
        close(&defend(&clipping(Form::Fedml), &[0.0, 0.0], &equal).expect("defended").1.expect("an aggregate"), &[2.0, 1.0]);
        let bucketed = CenteredClipping { bucket: 2, ..clipping(Form::Paper) };
        close(&defend(&bucketed, &[2.0, 0.0], &equal).expect("defended").1.expect("an aggregate"), &[2.0, 1.0]);
    }
}
