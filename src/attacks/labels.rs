//! The class of a single sample, read off the last layer's gradient (iDLG: Zhao, Mopuri, Bilen, arXiv 2001.02610, 2020).

use super::matching::Seen;
use crate::engine::{Entry, Layout};

/// The class of the one sample behind a gradient of cross-entropy; none where the last layer was not sent.
///
/// The gradient by the last layer's bias is softmax minus one-hot, so that only the true class is negative; that by a row of its weights
/// is the same times the features. The bias is used where it was sent, as it does not depend on the signs of features.
#[must_use]
pub fn single(seen: &Seen, layout: &Layout, classes: usize) -> Option<u32> {
    let last = layout.entries.iter().map(|entry| entry.layer).max()?;
    let sent = |entry: &&Entry| seen.sent.iter().any(|r| r.start <= entry.range.start && entry.range.end <= r.end);
    let of = |weight: bool| {
        let entry = layout.entries.iter().filter(|e| e.layer == last && (e.shape.len() > 1) == weight).find(sent)?;
        Some(layout.export(&seen.update, entry))
    };
    let signs = match of(false) {
        Some(bias) => bias,
        None => {
            let weights = of(true)?;
            weights.chunks_exact((weights.len() / classes.max(1)).max(1)).map(|row| row.iter().sum()).collect()
        }
    };
    let least = signs.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?.0;
    u32::try_from(least).ok()
}
