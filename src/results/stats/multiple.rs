//! Many tests at once: Holm's step-down correction.

/// Holm's adjusted p-values (1979), in the order of the given ones. The chance of any false rejection stays below the level,
/// whatever the dependence of the tests.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut reached = 0.0_f64;
    for (place, index) in order.into_iter().enumerate() {
        reached = reached.max(((p.len() - place) as f64 * p[index]).min(1.0));
        adjusted[index] = reached;
    }
    adjusted
}
