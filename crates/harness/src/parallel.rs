//! Work on many items at once.

use rayon::prelude::*;

/// Does something with each item, on all processors; results in the order of the items.
///
/// Each item starts processes and takes long, so no thread takes several items at a time.
pub fn on_all<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    items.par_iter().with_max_len(1).map(&work).collect()
}
