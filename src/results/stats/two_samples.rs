//! Two methods on unrelated seeds: Welch's t-test.

use super::describe::Summary;
use super::distributions::t_sf;
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
