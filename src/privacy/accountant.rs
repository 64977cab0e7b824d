//! The accountant: adds up the Rényi curves of releases, and turns the sum into (epsilon, delta).

use super::rdp::{gaussian, orders};
use crate::base::{Fault, Outcome};

/// The sum of the curves of all releases so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Accountant {
    sum: Vec<f64>,
}

impl Default for Accountant {
    fn default() -> Self {
        Self { sum: vec![0.0; orders().len()] }
    }
}

impl Accountant {
    /// Adds `times` releases of one curve at [`orders`].
    pub fn add(&mut self, curve: &[f64], times: u64) {
        if times > 0 {
            self.sum.iter_mut().zip(curve).for_each(|(sum, value)| *sum += value * times as f64);
        }
    }

    /// The least epsilon that these orders show at this delta in (0, 1): rdp - (ln delta + ln a)/(a - 1) + ln((a - 1)/a), at least
    /// 0 (Balle, Barthe, Gaboardi, Hsu, Sato 2020, Theorem 21). 0 before any release, and infinite when a release had no noise.
    #[must_use]
    pub fn epsilon(&self, delta: f64) -> f64 {
        if self.sum.iter().all(|value| *value == 0.0) {
            return 0.0;
        }
        let at = |(order, rdp): (f64, &f64)| {
            let epsilon = rdp - (delta.ln() + order.ln()) / (order - 1.0) + ((order - 1.0) / order).ln();
            // Below 0 it is no epsilon of its own, but 0 holds.
            epsilon.max(0.0)
        };
        orders().into_iter().zip(&self.sum).map(at).fold(f64::INFINITY, f64::min)
    }
}

/// The noise multipliers among which [`calibrate`] looks.
pub const NOISES: (f64, f64) = (1e-3, 1e6);

/// Refuses an epsilon for which no noise multiplier of [`NOISES`] can be found.
///
/// # Errors
/// A stage fault that names what can be reached: no noise multiplier up to a million is enough, or the least one spends less.
pub fn reachable(target: f64, epsilon_of: impl Fn(f64) -> f64) -> Outcome<()> {
    let (least, most) = (epsilon_of(NOISES.1), epsilon_of(NOISES.0));
    // Nothing at all is spent where nothing is released.
    if target >= least && (target <= most || most <= 0.0) {
        return Ok(());
    }
    let help = if target < least {
        "raise `epsilon` or `delta`, or lower the number of rounds"
    } else {
        "lower `epsilon`; `noise_multiplier: 0` is without any privacy"
    };
    let written = |epsilon: f64| if epsilon == 0.0 { "0".to_owned() } else { format!("{epsilon:.2e}") };
    let range = if most.is_finite() { format!("{} to {}", written(least), written(most)) } else { format!("{} and more", written(least)) };
    Err(Fault::stage(format!("`epsilon` {target} is out of reach: noise can be found for {range}")).help(help))
}

/// The noise multiplier at which `epsilon_of` reaches `target` from below, by bisection to a relative 1e-6; what is returned meets it.
///
/// # Errors
/// That of [`reachable`].
pub fn calibrate(target: f64, epsilon_of: impl Fn(f64) -> f64) -> Outcome<f64> {
    reachable(target, &epsilon_of)?;
    let (mut low, mut high) = (0.0, 1.0);
    while epsilon_of(high) > target && high < NOISES.1 {
        (low, high) = (high, (high * 2.0).min(NOISES.1));
    }
    while high - low > 1e-6 * high {
        let middle = f64::midpoint(low, high);
        if epsilon_of(middle) > target {
            low = middle;
        } else {
            high = middle;
        }
        if high < NOISES.0 {
            return Ok(NOISES.0);
        }
    }
    Ok(high)
}

/// The epsilon of `steps` subsampled Gaussian releases: rate and noise multiplier as in [`gaussian`].
#[must_use]
pub fn gaussian_epsilon(rate: f64, noise: f64, steps: u64, delta: f64) -> f64 {
    let mut accountant = Accountant::default();
    accountant.add(&gaussian(rate, noise), steps);
    accountant.epsilon(delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_released_costs_nothing_and_no_noise_protects_nothing() {
        assert_eq!(Accountant::default().epsilon(1e-5), 0.0);
        assert_eq!(gaussian_epsilon(0.1, 0.0, 1, 1e-5), f64::INFINITY);
        assert_eq!(gaussian_epsilon(0.1, 1.0, 0, 1e-5), 0.0);
    }

    #[test]
    fn more_steps_cost_more_and_noise_or_rarer_sampling_less() {
        let base = gaussian_epsilon(0.1, 1.0, 100, 1e-5);
        assert!(gaussian_epsilon(0.1, 1.0, 200, 1e-5) > base && gaussian_epsilon(0.1, 2.0, 100, 1e-5) < base);
        assert!(gaussian_epsilon(0.05, 1.0, 100, 1e-5) < base && gaussian_epsilon(0.1, 1.0, 100, 1e-7) > base);
    }

    #[test]
    fn calibration_meets_its_target_closely() {
        for target in [0.5, 2.0, 8.0] {
            let epsilon = |noise| gaussian_epsilon(0.2, noise, 50, 1e-5);
            let noise = calibrate(target, epsilon).expect("it can be reached");
            assert!(epsilon(noise) <= target && target - epsilon(noise) < 1e-4 * target, "{target}: {noise}");
        }
        assert!(calibrate(1e-9, |_| 1.0).is_err());
        let fault = calibrate(1e12, |noise| gaussian_epsilon(0.1, noise, 10, 1e-5)).expect_err("no noise is that small");
        assert!(fault.what.contains("`epsilon` 1000000000000 is out of reach: noise can be found for "), "{fault}");
    }
}
