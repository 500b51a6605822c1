//! Behaviours of programs that persist by memory: by objects (§4.2).
//!
//! # Model
//!
//! An update belongs to the object that it changes a field of, and to those which that object is
//! part of (composite types). All updates of an object are its *instance subgraph*; in time it is
//! split into *epochs*, before an update `I` where
//!
//! 1. all updates of the object in this epoch are persisted, and `I` updates a field that the epoch
//!    has updated already; or
//! 2. all updates of some other object are persisted that were issued since this object's last one,
//!    and there were some.
//!
//! An epoch is a behaviour. A node's place is its field and where in the program it is stored.
//!
//! # Deviations
//!
//! The paper's second criterion speaks of all updates of a different instance "issued before `I`";
//! any object that was left alone long ago would fulfil it. As in its figure 8, only what was
//! updated in between counts here.

use super::facts::Facts;
use super::plan::PlanBuilder;
use super::relation::ProgramPlace;
use crashpoint_persist::graph::NodeId;
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::hash::{Hash as _, Hasher as _};

/// An instance of a type: where it lies, in whatever way its finder counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    pub of: u32,
    pub address: u64,
}

/// A field of an object, by its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    pub object: ObjectId,
    pub field: u64,
}

/// A node, and all that it is part of: the innermost object first.
#[derive(Clone, Debug)]
pub struct Update {
    pub node: NodeId,
    /// Where in the program.
    pub site: u64,
    pub members: SmallVec<[Member; 2]>,
}

/// An object, as far as its updates have been seen.
#[derive(Default)]
struct Instance {
    /// Of the epoch.
    nodes: Vec<(NodeId, ProgramPlace)>,
    fields: SmallVec<[u64; 8]>,
    /// Nodes that are not durable.
    pending: usize,
    last_order: u64,
}

/// Divides updates, ascending by node, into epochs, and hands over every one.
pub fn epochs(updates: &[Update], facts: &Facts, builder: &mut PlanBuilder<'_>) {
    let mut epochs = Epochs {
        instances: FxHashMap::default(),
        settled: BTreeSet::new(),
    };
    let mut durable: Vec<(u64, usize)> = updates
        .iter()
        .enumerate()
        .map(|(index, update)| (facts[update.node].durable, index))
        .collect();
    durable.sort_unstable();
    let mut durable = durable.into_iter().peekable();
    for update in updates {
        let order = facts[update.node].order;
        while let Some((_, index)) = durable.next_if(|(since, _)| *since < order) {
            for member in &updates[index].members {
                epochs.persisted(member.object);
            }
        }
        for member in &update.members {
            let ended = epochs.update(update, member, order);
            if !ended.is_empty() {
                builder.add(member.object.of, &ended);
            }
        }
    }
    let mut rest: Vec<(ObjectId, Instance)> = epochs.instances.into_iter().collect();
    rest.sort_by_key(|(object, instance)| (instance.nodes[0].0, *object));
    for (object, instance) in rest {
        builder.add(object.of, &instance.nodes);
    }
}

struct Epochs {
    instances: FxHashMap<ObjectId, Instance>,
    /// Objects of which everything is persisted, by their last updates.
    settled: BTreeSet<(u64, ObjectId)>,
}

impl Epochs {
    fn persisted(&mut self, object: ObjectId) {
        let instance = self.instances.get_mut(&object).expect("it was updated");
        instance.pending -= 1;
        if instance.pending == 0 {
            self.settled.insert((instance.last_order, object));
        }
    }

    /// Takes in an update; the epoch that ends before it, if one does.
    fn update(
        &mut self,
        update: &Update,
        member: &Member,
        order: u64,
    ) -> Vec<(NodeId, ProgramPlace)> {
        let object = member.object;
        let own = |other: &ObjectId| update.members.iter().any(|one| one.object == *other);
        let mut others = self.settled.iter().rev();
        let latest = others.find(|(_, other)| !own(other));
        let instance = self.instances.entry(object).or_default();
        let is_repeated = instance.fields.contains(&member.field);
        let is_first = instance.nodes.is_empty();
        let repeats = instance.pending == 0 && is_repeated;
        // Nodes of one store come together.
        let is_same = instance.last_order == order;
        let interrupted = latest.is_some_and(|(last, _)| *last > instance.last_order);
        let mut ended = Vec::new();
        if !is_first && !is_same && (repeats || interrupted) {
            ended = std::mem::take(&mut instance.nodes);
            instance.fields.clear();
        }
        if instance.pending == 0 {
            self.settled.remove(&(instance.last_order, object));
        }
        let mut hasher = FxHasher::default();
        (object.of, member.field, update.site).hash(&mut hasher);
        instance
            .nodes
            .push((update.node, ProgramPlace(hasher.finish())));
        if !instance.fields.contains(&member.field) {
            instance.fields.push(member.field);
        }
        instance.pending += 1;
        instance.last_order = order;
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::samples::fact;
    use super::super::facts::{Fact, NEVER};
    use super::*;

    const M: u32 = 1;
    const N: u32 = 2;

    /// Fields of objects, each with when it is issued and when it is durable.
    fn behaviours(updates: &[(u32, u64, u64, u64)]) -> Vec<(u32, Vec<u32>)> {
        let nodes: Vec<Fact> = updates
            .iter()
            .map(|(_, _, order, durable)| fact(*order, &[], *durable))
            .collect();
        let facts = Facts { nodes };
        let updates: Vec<Update> = (0..)
            .zip(updates)
            .map(|(node, (of, field, ..))| Update {
                node: NodeId(node),
                site: u64::from(node),
                members: [Member {
                    object: ObjectId {
                        of: *of,
                        address: 64 * u64::from(*of),
                    },
                    field: *field,
                }]
                .into_iter()
                .collect(),
            })
            .collect();
        let mut builder = PlanBuilder::new(&facts, &[]);
        epochs(&updates, &facts, &mut builder);
        let gathered = builder.gathered().into_iter();
        gathered
            .map(|one| (one.of, one.first.iter().map(|node| node.0).collect()))
            .collect()
    }

    #[test]
    fn figure_8_has_three_epochs_of_m_and_one_of_n() {
        let (a, b, c, d, e) = (0, 8, 16, 0, 8);
        let found = behaviours(&[
            (M, a, 1, 4),
            (M, b, 2, 4),
            (M, c, 3, 4),
            // Everything of M is persisted, and a is updated again: the first criterion.
            (M, a, 5, 12),
            (N, d, 6, 8),
            (N, e, 7, 8),
            // Everything of N is persisted in between: the second criterion.
            (M, c, 9, 12),
        ]);
        let expected = [
            (M, vec![0, 1, 2]),
            (M, vec![3]),
            (N, vec![4, 5]),
            (M, vec![6]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn figure_5_an_object_that_is_not_persisted_goes_on_though_a_field_repeats() {
        let found = behaviours(&[(M, 0, 1, NEVER), (M, 8, 2, NEVER), (M, 0, 3, NEVER)]);
        assert_eq!(found, [(M, vec![0, 1, 2])]);
    }

    #[test]
    fn new_fields_after_a_fence_belong_to_the_same_epoch() {
        let found = behaviours(&[(M, 0, 1, 2), (M, 8, 3, 4)]);
        assert_eq!(found, [(M, vec![0, 1])]);
    }

    #[test]
    fn an_object_that_was_left_alone_before_does_not_end_an_epoch() {
        let found = behaviours(&[(N, 0, 1, 2), (M, 0, 3, NEVER), (M, 8, 4, NEVER)]);
        assert_eq!(found, [(N, vec![0]), (M, vec![1, 2])]);
    }

    #[test]
    fn another_object_that_is_not_persisted_does_not_end_an_epoch() {
        let found = behaviours(&[(M, 0, 1, NEVER), (N, 0, 2, NEVER), (M, 8, 3, NEVER)]);
        assert_eq!(found, [(M, vec![0, 2]), (N, vec![1])]);
    }

    #[test]
    fn a_part_belongs_to_the_whole_too() {
        let nodes = vec![fact(1, &[], NEVER), fact(2, &[], NEVER)];
        let facts = Facts { nodes };
        let member = |of, address, field| Member {
            object: ObjectId { of, address },
            field,
        };
        let update = |node, members: &[Member]| Update {
            node: NodeId(node),
            site: 0,
            members: members.iter().copied().collect(),
        };
        let updates = [
            update(0, &[member(N, 128, 0), member(M, 64, 64)]),
            update(1, &[member(M, 64, 0)]),
        ];
        let mut builder = PlanBuilder::new(&facts, &[]);
        epochs(&updates, &facts, &mut builder);
        let of: Vec<(u32, usize)> = builder
            .gathered()
            .iter()
            .map(|one| (one.of, one.first.len()))
            .collect();
        assert_eq!(of, [(M, 2), (N, 1)]);
    }
}
