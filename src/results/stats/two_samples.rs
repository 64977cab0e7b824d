//! Two methods on unrelated seeds: Welch's t-test.

use super::describe::Summary;
use super::distributions::{t_quantile, t_sf};
use super::paired::Tested;

/// The difference of two means with its standard error and Welch and Satterthwaite's degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The first mean minus the second.
    pub mean: f64,
    /// The standard error of that difference.
    pub error: f64,
    /// Degrees of freedom, not a whole number in general.
    pub df: f64,
}

impl Difference {
    /// The ends of the interval in which the difference of the true means lies with confidence `level`, such as 0.95.
    #[must_use]
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = t_quantile(0.5 + level / 2.0, self.df) * self.error;
        (self.mean - half, self.mean + half)
    }
}

/// The difference of the means of two samples; none when neither has a spread.
#[must_use]
pub fn difference(a: &Summary, b: &Summary) -> Option<Difference> {
    let part = |s: &Summary| s.sd.map(|sd| (sd * sd / s.n as f64, (s.n - 1) as f64));
    let ((va, da), (vb, db)) = (part(a)?, part(b)?);
    let variance = va + vb;
    (variance > 0.0).then(|| Difference {
        mean: a.mean - b.mean,
        error: variance.sqrt(),
        df: variance * variance / (va * va / da + vb * vb / db),
    })
}

/// Welch's t-test (1947) of two means. None below two values of either, and when neither varies.
#[must_use]
pub fn welch(a: &[f64], b: &[f64]) -> Option<Tested> {
    let difference = difference(&Summary::of(a)?, &Summary::of(b)?)?;
    let t = difference.mean / difference.error;
    Some(Tested { statistic: t, p: 2.0 * t_sf(t.abs(), difference.df) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_unequal_variances() {
        let summary = |values: &[f64]| Summary::of(values).expect("there are values");
        let found = difference(&summary(&[91.2, 92.5, 90.1, 93.3]), &summary(&[88.0, 89.9, 90.4])).expect("they vary");
        // SciPy: ttest_ind(a, b, equal_var=False).confidence_interval(0.95).
        let (low, high) = found.interval(0.95);
        assert!((low + 0.317_101_655_935_79).abs() < 1e-8 && (high - 5.000_434_989_269_1).abs() < 1e-8, "{low} to {high}");
    }
}
