//! Splitting by time: DBSCAN over positions in the recording (§4.1.2).

use ndarray::Array2;
use petal_clustering::{Dbscan, Fit};
use petal_neighbors::distance::Euclidean;

/// What decides whether steps lie close enough together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closeness {
    /// Steps this many positions apart are neighbours.
    pub gap: u32,
    /// With fewer neighbours, itself counted, a step does not hold a cluster together.
    pub least: u32,
}

impl Default for Closeness {
    /// As Pathfinder has it.
    fn default() -> Closeness {
        Closeness { gap: 10, least: 1 }
    }
}

impl Closeness {
    /// Splits ascending positions; what belongs to nobody is alone. In order of time.
    pub fn split(&self, positions: &[u32]) -> Vec<Vec<u32>> {
        let is_close = |pair: &[u32]| pair[1] - pair[0] <= self.gap;
        if self.least <= 2 && positions.len() >= 2 && positions.windows(2).all(is_close) {
            return vec![positions.to_vec()];
        }
        if positions.len() < 2 {
            return vec![positions.to_vec()];
        }
        let column: Vec<f64> = positions.iter().copied().map(f64::from).collect();
        let column = Array2::from_shape_vec((positions.len(), 1), column);
        let column = column.expect("as many rows as numbers");
        let mut dbscan = Dbscan::new(
            f64::from(self.gap) + 0.5,
            self.least as usize,
            Euclidean::default(),
        );
        let (clusters, outside) = dbscan.fit(&column, None);
        let mut parts: Vec<Vec<u32>> = clusters
            .into_values()
            .map(|members| members.into_iter().map(|at| positions[at]).collect())
            .collect();
        parts.extend(outside.into_iter().map(|at| vec![positions[at]]));
        for part in &mut parts {
            part.sort_unstable();
        }
        parts.sort_unstable();
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_one_neighbour_it_is_a_cut_at_every_wide_gap() {
        let closeness = Closeness { gap: 10, least: 1 };
        let positions = [1, 5, 15, 26, 27, 90];
        let parts = closeness.split(&positions);
        assert_eq!(parts, [vec![1, 5, 15], vec![26, 27], vec![90]]);
        assert_eq!(closeness.split(&[3]), [vec![3]]);
        assert_eq!(closeness.split(&[3, 13]), [vec![3, 13]]);
    }

    #[test]
    fn what_has_too_few_neighbours_is_alone_and_not_left_out() {
        let closeness = Closeness { gap: 2, least: 3 };
        let parts = closeness.split(&[1, 2, 3, 9, 20, 21, 22]);
        assert_eq!(parts, [vec![1, 2, 3], vec![9], vec![20, 21, 22]]);
    }
}
