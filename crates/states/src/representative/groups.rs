//! Behaviours in groups, each with one that represents the others (§3.4).

use super::relation::Shape;

/// Behaviours, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub representative: usize,
    /// All that it represents, itself first; a behaviour may be in several groups.
    pub members: Vec<usize>,
}

/// From the largest to the smallest, each behaviour joins every group whose representative
/// represents it, or begins one. Of behaviours that are equally large, those with fewer edges come
/// first, and then those that come first: that decides who represents where several could.
pub fn group(shapes: &[&Shape]) -> Vec<Group> {
    let mut order: Vec<usize> = (0..shapes.len()).collect();
    order.sort_by_key(|index| {
        let shape = shapes[*index];
        let size = std::cmp::Reverse(shape.places().len());
        (size, shape.edges().len(), *index)
    });
    let mut groups: Vec<Group> = Vec::new();
    for index in order {
        let mut joined = false;
        for group in &mut groups {
            if shapes[group.representative].represents(shapes[index]) {
                group.members.push(index);
                joined = true;
            }
        }
        if !joined {
            groups.push(Group {
                representative: index,
                members: vec![index],
            });
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::relation::ProgramPlace;
    use super::*;
    use proptest::prelude::*;

    fn shape(places: &[u64], edges: &[(usize, usize)]) -> Shape {
        let places: Vec<ProgramPlace> = places.iter().copied().map(ProgramPlace).collect();
        Shape::new(&places, edges.iter().copied())
    }

    #[test]
    fn figure_6_has_two_groups() {
        let (s2, s3_2) = (shape(&[1, 2], &[(0, 1)]), shape(&[3, 4], &[]));
        let s3_1 = shape(&[3, 4, 5], &[(1, 2)]);
        let groups = group(&[&s2, &s3_2, &s3_1]);
        let expected = [(2, vec![2, 1]), (0, vec![0])];
        let expected = expected.map(|(representative, members)| Group {
            representative,
            members,
        });
        assert_eq!(groups, expected);
    }

    #[test]
    fn a_behaviour_joins_every_group_that_represents_it() {
        let (left, right) = (shape(&[1, 2, 3], &[]), shape(&[1, 2, 4], &[]));
        let both = shape(&[1, 2], &[]);
        let groups = group(&[&left, &right, &both]);
        assert!(groups.len() == 2 && groups.iter().all(|group| group.members.contains(&2)));
    }

    proptest! {
        #[test]
        fn everybody_is_represented_and_no_representative_is(
            graphs in proptest::collection::vec(
                (proptest::collection::vec(0..5_u64, 1..5),
                 proptest::collection::vec((0..5_usize, 0..5_usize), 0..5)), 0..12),
        ) {
            let shapes: Vec<Shape> = graphs.iter().map(|(places, edges)| {
                let inside = |(a, b): &&(usize, usize)| a < b && *b < places.len();
                let edges: Vec<(usize, usize)> = edges.iter().filter(inside).copied().collect();
                shape(places, &edges)
            }).collect();
            let all: Vec<&Shape> = shapes.iter().collect();
            let groups = group(&all);
            for (index, shape) in all.iter().enumerate() {
                prop_assert!(groups.iter().any(|g| g.members.contains(&index)));
                for group in &groups {
                    let is_member = group.members.contains(&index);
                    let is_represented = all[group.representative].represents(shape);
                    prop_assert!(!is_member || is_represented);
                    let is_other = index != group.representative;
                    let represents = groups.iter().any(|g| g.representative == index);
                    prop_assert!(!(is_other && represents && is_represented));
                }
            }
        }
    }
}
