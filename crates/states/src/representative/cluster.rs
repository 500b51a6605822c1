//! Splitting by time: DBSCAN over positions in the recording (§4.1.2).
//!
//! On a line, DBSCAN needs no index: positions are sorted, so that the neighbours of each lie around
//! it. A position with enough neighbours is a *core*; cores that are neighbours are in one cluster,
//! and a position that is no core is in the first cluster that has a core beside it.

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
        if positions.is_empty() {
            return vec![Vec::new()];
        }
        let is_close = |left: u32, right: u32| right - left <= self.gap;
        let cores = self.cores(positions);
        let mut parts: Vec<Vec<u32>> = Vec::new();
        // The last core that was met, and the part that it is in.
        let mut last_core: Option<(u32, usize)> = None;
        // What stands behind the last part that a core before it could claim.
        let mut loose: Vec<u32> = Vec::new();
        for (at, is_core) in positions.iter().zip(cores) {
            let before = last_core.filter(|(core, _)| is_close(*core, *at));
            match (before, is_core) {
                (Some((_, part)), true) => {
                    parts[part].push(*at);
                    last_core = Some((*at, part));
                }
                (Some((_, part)), false) => parts[part].push(*at),
                (None, true) => {
                    let claimed = loose.partition_point(|one| !is_close(*one, *at));
                    let mut part = loose.split_off(claimed);
                    parts.extend(loose.drain(..).map(|one| vec![one]));
                    part.push(*at);
                    parts.push(part);
                    last_core = Some((*at, parts.len() - 1));
                }
                (None, false) => loose.push(*at),
            }
        }
        parts.extend(loose.into_iter().map(|one| vec![one]));
        parts.sort_unstable();
        parts
    }

    /// Of each position, whether it has enough neighbours.
    fn cores(&self, positions: &[u32]) -> Vec<bool> {
        let (mut begin, mut end) = (0, 0);
        let is_core = |at: &u32| {
            while at - positions[begin] > self.gap {
                begin += 1;
            }
            while positions
                .get(end)
                .is_some_and(|next| next <= at || next - at <= self.gap)
            {
                end += 1;
            }
            end - begin >= self.least as usize
        };
        positions.iter().map(is_core).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn a_gap_as_wide_as_can_be_leaves_all_in_one() {
        let closeness = Closeness {
            gap: u32::MAX,
            least: 1,
        };
        assert_eq!(closeness.split(&[0, 7, u32::MAX]), [[0, 7, u32::MAX]]);
    }

    /// DBSCAN as it is defined, with every pair looked at: clusters grow from their first core, in
    /// the order of positions, and take in whatever is not taken.
    fn by_definition(closeness: Closeness, positions: &[u32]) -> Vec<Vec<u32>> {
        let neighbours = |at: u32| {
            let all = positions.iter().copied();
            all.filter(move |other| other.abs_diff(at) <= closeness.gap)
        };
        let is_core = |at: u32| neighbours(at).count() >= closeness.least as usize;
        let mut rest: Vec<u32> = positions.to_vec();
        let mut parts = Vec::new();
        for first in positions.iter().filter(|at| is_core(**at)) {
            let mut part = Vec::new();
            let mut open = vec![*first];
            while let Some(at) = open.pop() {
                let Some(index) = rest.iter().position(|one| *one == at) else {
                    continue;
                };
                rest.remove(index);
                part.push(at);
                if is_core(at) {
                    open.extend(neighbours(at));
                }
            }
            part.sort_unstable();
            parts.push(part);
        }
        parts.retain(|part| !part.is_empty());
        parts.extend(rest.into_iter().map(|one| vec![one]));
        parts.sort_unstable();
        parts
    }

    proptest! {
        #[test]
        fn splitting_sorted_positions_is_dbscan(
            positions in proptest::collection::btree_set(0..200_u32, 1..60),
            gap in 0..12_u32,
            least in 0..6_u32,
        ) {
            let positions: Vec<u32> = positions.into_iter().collect();
            let closeness = Closeness { gap, least };
            let expected = by_definition(closeness, &positions);
            prop_assert_eq!(closeness.split(&positions), expected);
        }
    }
}
