//! Few-shot training sets: a cap on the samples of each label.

/// The first `shots` samples of each label, in stored order; for training samples only.
///
/// Labels of positions that do not exist are left out.
#[must_use]
pub fn few_shot(train: &[u32], labels: &[u32], shots: usize) -> Vec<u32> {
    let mut counts = std::collections::BTreeMap::new();
    let keep = |index: &u32| {
        let Some(label) = labels.get(*index as usize) else { return false };
        let count = counts.entry(*label).or_insert(0);
        *count += 1;
        *count <= shots
    };
    let mut kept = train.to_vec();
    kept.retain(keep);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_label_stay_in_order() {
        let labels = [0, 1, 0, 1, 0, 2];
        assert_eq!(few_shot(&[5, 4, 3, 2, 1, 0], &labels, 1), [5, 4, 3]);
        assert_eq!(few_shot(&[5, 4, 3, 2, 1, 0], &labels, 2), [5, 4, 3, 2, 1]);
        assert!(few_shot(&[0, 1], &labels, 0).is_empty());
    }
}
