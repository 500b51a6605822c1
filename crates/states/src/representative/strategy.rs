//! Crash states inside of representatives.
//!
//! # Model
//!
//! At a crash point at which a representative is under way, every closed set of those of its nodes that
//! are pending is tried, the ones nearest to the extremes first. What else is pending is kept
//! ("operations before the representative are also made persistent", §3.5), as far as what is lost
//! lets it. Where that differs, all of its nodes and none of them are tried once more with all of that
//! lost which they do not need: what came before was perhaps never made durable, and kept it would
//! hide that.
//!
//! States in which no few places of the program have values that are new together are not tried
//! ([`super::coverage`]). Crash points at which none is under way are not looked at at all, but for those at
//! which an operation returns while others go on: there, that nothing is lost.

use super::coverage::{Assignment, Coverage, Others, lost};
use super::plan::{Behaviour, RepresentativePlan};
use crate::{Bounded, Strategy};
use crashpoint_persist::graph::{Chain, Cut, Frontier, Implication, NodeId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Arc, Mutex};

/// How much is tried of one representative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sets of its nodes at one crash point.
    pub sets: usize,
    /// Nodes that it has; larger ones are left to the next strategy.
    pub least_nodes: usize,
    pub most_nodes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sets: 64,
            least_nodes: 0,
            most_nodes: usize::MAX,
        }
    }
}

/// Nodes of the largest representative of each turn.
const SIZES: [usize; 3] = [8, 64, usize::MAX];

#[derive(Clone, Debug)]
pub struct Representative {
    plan: Arc<RepresentativePlan>,
    limits: Limits,
    /// Orders at which something is under way: beginnings and ends, apart from each other.
    busy: Vec<(u64, u64)>,
    coverage: Arc<Mutex<Coverage>>,
}

impl Representative {
    pub fn new(plan: Arc<RepresentativePlan>, limits: Limits) -> Representative {
        let mut representative = Representative {
            plan,
            limits,
            busy: Vec::new(),
            coverage: Arc::default(),
        };
        let all = representative.all();
        let mut spans: Vec<(u64, u64)> = all.map(|one| (one.begin, one.end)).collect();
        spans.sort_unstable();
        for (begin, end) in spans {
            match representative.busy.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                Some(_) | None => representative.busy.push((begin, end)),
            }
        }
        representative
    }

    /// A plan as several strategies, for the smaller representatives and then for the larger: what
    /// a budget leaves room for is the small ones.
    pub fn by_size(plan: &Arc<RepresentativePlan>, sets: usize) -> Vec<Representative> {
        let mut all = Vec::new();
        // What one of them has tried, the others need not.
        let coverage: Arc<Mutex<Coverage>> = Arc::default();
        let mut least_nodes = 0;
        for most_nodes in SIZES {
            let limits = Limits {
                sets,
                least_nodes,
                most_nodes,
            };
            let one = Representative {
                coverage: Arc::clone(&coverage),
                ..Representative::new(Arc::clone(plan), limits)
            };
            if one.all().next().is_some() {
                all.push(one);
            }
            least_nodes = most_nodes.saturating_add(1);
        }
        all
    }

    fn returns_amid(&self, order: u64) -> bool {
        self.plan.returned_amid.binary_search(&order).is_ok()
    }

    fn all(&self) -> impl Iterator<Item = &Behaviour> {
        let limits = self.limits;
        let of_size = move |one: &&Behaviour| {
            (limits.least_nodes..=limits.most_nodes).contains(&one.nodes.len())
        };
        self.plan.representatives.iter().filter(of_size)
    }
}

impl Strategy for Representative {
    fn name(&self) -> &'static str {
        "representative"
    }

    fn wants(&self, order: u64) -> bool {
        let after = self.busy.partition_point(|(begin, _)| *begin <= order);
        let last = after.checked_sub(1).map(|at| self.busy[at]);
        last.is_some_and(|(_, end)| order <= end) || self.returns_amid(order)
    }

    fn skips_explained_states(&self) -> bool {
        true
    }

    fn cuts<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Cut> + 'a> {
        let order = frontier.order;
        let this = &*self;
        let under_way = this
            .all()
            .filter(move |one| one.begin <= order && order <= one.end);
        let mut met: FxHashSet<Cut> = FxHashSet::default();
        let cuts = under_way.flat_map(move |one| {
            let mut coverage = this.coverage.lock().expect("no panic");
            let mut cuts = this.inside(one, frontier);
            cuts.retain(|(cut, others)| {
                let assignment = Assignment::new(one, &lost(frontier, cut), order, *others);
                coverage.choose(&assignment, order, cut)
            });
            cuts
        });
        let amid = this.returns_amid(order).then(|| frontier.all());
        let cuts = cuts.map(|(cut, _)| cut).chain(amid);
        Box::new(cuts.filter(move |cut| met.insert(cut.clone())))
    }
}

impl Representative {
    fn inside(&self, behaviour: &Behaviour, frontier: &Frontier) -> Vec<(Cut, Others)> {
        let Some(part) = Part::of(frontier, &behaviour.nodes) else {
            return Vec::new();
        };
        let chosen = Bounded::new(usize::MAX)
            .cuts(&part.frontier)
            .take(self.limits.sets)
            .collect::<Vec<Cut>>();
        let kept = chosen
            .iter()
            .map(|cut| (part.with_others(frontier, cut), Others::Kept));
        // The extremes come first.
        let lost = chosen
            .iter()
            .take(2)
            .map(|cut| (part.without_others(frontier, cut), Others::Lost));
        kept.chain(lost).collect()
    }
}

/// Some of the nodes of a frontier, as a frontier of their own.
struct Part {
    frontier: Frontier,
    /// Of each chain, which one it is part of, and how much of that one its nodes lie behind.
    chains: Vec<(u32, Vec<u32>)>,
}

impl Part {
    fn of(whole: &Frontier, nodes: &[NodeId]) -> Option<Part> {
        let mut chains: Vec<(u32, Vec<u32>)> = Vec::new();
        let wanted: FxHashSet<NodeId> = nodes.iter().copied().collect();
        for (number, chain) in (0..).zip(&whole.chains) {
            let places = (0..).zip(&chain.nodes);
            let own: Vec<u32> = places
                .filter(|(_, node)| wanted.contains(node))
                .map(|(place, _)| place)
                .collect();
            if !own.is_empty() {
                chains.push((number, own));
            }
        }
        if chains.is_empty() {
            return None;
        }
        let mut implications = Vec::new();
        for (if_chain, (number, own)) in (0..).zip(&chains) {
            let mut known = vec![0; chains.len()];
            for (if_more_than, place) in (0..).zip(own) {
                let needs = needs(whole, *number, *place);
                for (then_chain, (other, places)) in (0..).zip(&chains) {
                    let kept = needs.get(other).copied().unwrap_or(0);
                    let then_least = places.partition_point(|place| *place < kept) as u32;
                    let known = &mut known[then_chain as usize];
                    if then_chain != if_chain && then_least > *known {
                        *known = then_least;
                        implications.push(Implication {
                            if_chain,
                            if_more_than,
                            then_chain,
                            then_least,
                        });
                    }
                }
            }
        }
        let nodes = |(number, own): &(u32, Vec<u32>)| {
            let all = &whole.chains[*number as usize].nodes;
            let nodes = own.iter().map(|place| all[*place as usize]).collect();
            Chain { nodes }
        };
        let frontier = Frontier::new(
            whole.order,
            chains.iter().map(nodes).collect(),
            implications,
        );
        Some(Part { frontier, chains })
    }

    /// All else is kept, but for what needs something lost.
    fn with_others(&self, whole: &Frontier, cut: &Cut) -> Cut {
        let mut all = whole.all();
        for ((number, own), kept) in self.chains.iter().zip(&cut.0) {
            if let Some(place) = own.get(*kept as usize) {
                all.0[*number as usize] = *place;
            }
        }
        whole.floor(all)
    }

    /// All else is lost, but for what something kept needs.
    fn without_others(&self, whole: &Frontier, cut: &Cut) -> Cut {
        let mut none = whole.none();
        for ((number, own), kept) in self.chains.iter().zip(&cut.0) {
            let last = kept.checked_sub(1).map(|last| own[last as usize]);
            none.0[*number as usize] = last.map_or(0, |place| place + 1);
        }
        whole.ceiling(none)
    }
}

/// What keeping a node needs: of which chains how many nodes.
fn needs(whole: &Frontier, chain: u32, place: u32) -> FxHashMap<u32, u32> {
    let mut kept: FxHashMap<u32, u32> = FxHashMap::default();
    kept.insert(chain, place + 1);
    let mut open = vec![chain];
    while let Some(chain) = open.pop() {
        let has = kept[&chain];
        for tie in whole.premises(chain).filter(|tie| has > tie.if_more_than) {
            let least = kept.entry(tie.then_chain).or_insert(0);
            if *least < tie.then_least {
                *least = tie.then_least;
                open.push(tie.then_chain);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::facts::NEVER;
    use super::super::plan::NodeOrigin;
    use super::*;
    use crate::samples::{chains, frontiers, sorted};
    use itertools::Itertools as _;
    use std::collections::BTreeSet;

    /// Of a node from a place of its own.
    fn origin(node: u32) -> NodeOrigin {
        NodeOrigin {
            site: u64::from(node),
            order: 0,
            acknowledged_at: NEVER,
            recurs: false,
        }
    }

    fn plan(nodes: &[u32], begin: u64, end: u64) -> Arc<RepresentativePlan> {
        Arc::new(RepresentativePlan {
            behaviours: 1,
            shapes: 1,
            returned_amid: Vec::new(),
            representatives: vec![Behaviour {
                of: 0,
                nodes: nodes.iter().copied().map(NodeId).collect(),
                origins: nodes.iter().copied().map(origin).collect(),
                begin,
                end,
                stands_for: 1,
                places: 1,
            }],
        })
    }

    fn all_inside(frontier: &Frontier, nodes: &[u32]) -> Vec<Cut> {
        let limits = Limits {
            sets: usize::MAX,
            ..Limits::default()
        };
        let plan = plan(nodes, 0, 10);
        let strategy = Representative::new(Arc::clone(&plan), limits);
        let inside = strategy.inside(&plan.representatives[0], frontier);
        let inside: BTreeSet<Cut> = inside.into_iter().map(|(cut, _)| cut).collect();
        inside.into_iter().collect()
    }

    #[test]
    fn inside_of_a_representative_with_all_that_is_pending_is_every_state() {
        for frontier in frontiers() {
            let chains = frontier.chains.iter();
            let all: Vec<u32> = chains.flat_map(|c| &c.nodes).map(|n| n.0).collect();
            let expected = if all.is_empty() {
                Vec::new()
            } else {
                sorted(frontier.cuts())
            };
            assert_eq!(all_inside(&frontier, &all), expected, "{frontier:?}");
        }
    }

    #[test]
    fn inside_of_a_part_is_all_with_all_else_kept_and_the_extremes_with_all_else_lost() {
        for frontier in frontiers() {
            let part: Vec<u32> = (0..8).step_by(2).collect();
            let is_part = |node: &NodeId| part.contains(&node.0);
            let mut expected = BTreeSet::new();
            for cut in frontier.cuts() {
                let mut lost = frontier.lost(&cut);
                lost.retain(is_part);
                let mut kept = frontier.kept(&cut);
                kept.retain(is_part);
                if lost.is_empty() && kept.is_empty() {
                    continue;
                }
                expected.insert(frontier.without(&lost));
                if lost.is_empty() || kept.is_empty() {
                    expected.insert(frontier.with(&kept));
                }
            }
            assert_eq!(all_inside(&frontier, &part), Vec::from_iter(expected));
        }
    }

    /// Of each three nodes which of them are lost, in all of these states.
    fn by_threes(frontier: &Frontier, cuts: &[Cut]) -> BTreeSet<[(NodeId, bool); 3]> {
        let mut threes = BTreeSet::new();
        for cut in cuts {
            let lost = frontier.lost(cut).into_iter().map(|node| (node, true));
            let kept = frontier.kept(cut).into_iter().map(|node| (node, false));
            let fates = lost.chain(kept).sorted_unstable();
            threes.extend(fates.array_combinations());
        }
        threes
    }

    #[test]
    fn what_is_tried_shows_what_all_that_is_inside_shows_by_threes() {
        for frontier in frontiers() {
            let chains = frontier.chains.iter();
            let all: Vec<u32> = chains.flat_map(|c| &c.nodes).map(|n| n.0).collect();
            let limits = Limits {
                sets: usize::MAX,
                ..Limits::default()
            };
            let mut strategy = Representative::new(plan(&all, 0, 10), limits);
            let tried = sorted(strategy.cuts(&frontier));
            let inside = all_inside(&frontier, &all);
            assert!(tried.iter().all(|cut| inside.contains(cut)));
            assert_eq!(by_threes(&frontier, &tried), by_threes(&frontier, &inside));
        }
    }

    #[test]
    fn only_moments_at_which_a_representative_is_under_way_are_wanted() {
        let mut several = (*plan(&[0], 5, 8)).clone();
        several.representatives.push(Behaviour {
            begin: 20,
            end: 20,
            ..several.representatives[0].clone()
        });
        let strategy = Representative::new(Arc::new(several), Limits::default());
        let wanted = (0..30).filter(|order| strategy.wants(*order));
        assert_eq!(wanted.collect::<Vec<_>>(), [5, 6, 7, 8, 20]);
    }

    #[test]
    fn nothing_is_lost_where_an_operation_returns_amid_others() {
        let mut amid = (*plan(&[0], 0, 2)).clone();
        amid.returned_amid = vec![7];
        let mut strategy = Representative::new(Arc::new(amid), Limits::default());
        let wanted = (0..10).filter(|order| strategy.wants(*order));
        assert_eq!(wanted.collect::<Vec<_>>(), [0, 1, 2, 7]);
        let at = |order| Frontier::new(order, chains(&[1, 1]), Vec::new());
        assert_eq!(strategy.cuts(&at(6)).count(), 0);
        assert_eq!(sorted(strategy.cuts(&at(7))), [at(7).all()]);
    }

    #[test]
    fn small_and_large_representatives_can_be_tried_one_after_the_other() {
        let plan = plan(&[0, 1, 2], 0, 10);
        let frontier = Frontier::new(3, chains(&[1, 1, 1]), Vec::new());
        let tried = |least_nodes, most_nodes| {
            let limits = Limits {
                sets: 64,
                least_nodes,
                most_nodes,
            };
            Representative::new(Arc::clone(&plan), limits)
                .cuts(&frontier)
                .count()
        };
        assert_eq!((tried(0, 2), tried(3, usize::MAX)), (0, 8));
    }

    #[test]
    fn of_the_rounds_of_a_loop_one_is_lost() {
        let mut looped = (*plan(&[0, 1, 2, 3, 4], 0, 10)).clone();
        for origin in &mut looped.representatives[0].origins {
            origin.site = 7;
        }
        let looped = Arc::new(looped);
        let frontier = Frontier::new(3, chains(&[1, 1, 1, 1, 1]), Vec::new());
        let mut strategy = Representative::new(Arc::clone(&looped), Limits::default());
        let first = sorted(strategy.cuts(&frontier));
        // All kept, all lost, and one in which some are lost.
        assert_eq!(first.len(), 3);
        assert_eq!(sorted(strategy.cuts(&frontier)), first, "asked again");
        let later = Frontier::new(4, chains(&[1; 5]), Vec::new());
        assert_eq!(strategy.cuts(&later).count(), 0);
    }

    #[test]
    fn turns_share_what_was_chosen() {
        let mut two = (*plan(&[0], 0, 10)).clone();
        let mut larger = plan(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 0, 10).representatives[0].clone();
        larger.origins.iter_mut().for_each(|origin| origin.site = 0);
        two.representatives.push(larger);
        let mut turns = Representative::by_size(&Arc::new(two), 64);
        assert_eq!(turns.len(), 2);
        let at = |order| Frontier::new(order, chains(&[1; 9]), Vec::new());
        let tried = |turn: &mut Representative, orders: [u64; 2]| {
            orders.map(|order| turn.cuts(&at(order)).count())
        };
        let mut alone = Representative::new(Arc::clone(&turns[1].plan), turns[1].limits);
        tried(&mut turns[0], [3, 4]);
        // What is left is that some are lost and some not.
        assert_eq!(tried(&mut turns[1], [5, 6]), [1, 0]);
        // Alone, that nothing is lost, or all, too.
        assert_eq!(tried(&mut alone, [5, 6]), [3, 0]);
    }
}
