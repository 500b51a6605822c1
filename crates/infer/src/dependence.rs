//! From dependences between accesses to persistent memory to conditions.
//!
//! The persistence dependence graph of Witcher (§4.2.2) has an edge between two accesses if there
//! is a way between them through everything that is not persistent memory: a control edge if a
//! branch lies on the way, a data edge otherwise. It is not kept. A value carries the reads that
//! it comes from; as soon as an access shows what it depends on, that becomes conditions.
//!
//! # Deviations
//!
//! - Of the branches that decide that an access runs, the nearest [`REACH`] that depend on
//!   persistent memory count, and of what they depend on the nearest [`DECIDING`] reads; those
//!   further out decide about much that has nothing to do with it.
//! - A value that was chosen by a branch (where several meet, or in ordinary memory) carries what
//!   decided, of the nearest [`CHOICE`] branches.
//! - What is the way to a read counts too ([`Rule::Po4`]).

use crate::conditions::{Conditions, Range, RangeId, Rule};
use crate::recent::Recent;
use crate::sets::{AccessId, SetId, Sets};
use crashpoint_flow::{Access, Analysis, Followed};
use crashpoint_trace::program::Program;
use crashpoint_trace::{Recording, SiteId};
use rustc_hash::FxHashMap;

pub const REACH: usize = 8;
pub const CHOICE: usize = 2;
pub const DECIDING: usize = 12;

/// An access longer than this is cut: a range of pages says nothing about order.
const LONGEST_BYTES: u64 = 4096;

/// What came of a recording.
#[derive(Debug, Default)]
pub struct Inferred {
    pub conditions: Conditions,
    pub followed: Followed,
    /// Reads and writes of persistent memory that were looked at.
    pub reads: u64,
    pub writes: u64,
    /// Values that depend on more than is kept.
    pub cut: u64,
}

/// Infers conditions from a recording at level flow.
pub fn infer(recording: &Recording, program: &Program) -> Inferred {
    let mut dependence = Dependence::default();
    let followed = crashpoint_flow::walk(recording, program, &mut dependence);
    dependence.end(followed)
}

/// What a value depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label {
    data: SetId,
    control: SetId,
}

/// What decides: a list of sets, the nearest first. The default is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Control(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Decision {
    outer: Control,
    set: SetId,
}

/// The analysis that rides on the walker.
#[derive(Debug)]
pub struct Dependence {
    sets: Sets,
    accesses: Vec<(RangeId, SiteId)>,
    access_ids: FxHashMap<(RangeId, SiteId), AccessId>,
    decisions: Vec<Decision>,
    decision_ids: Recent<Decision, Control>,
    conditions: Conditions,
    reads: u64,
    writes: u64,
    /// Accesses that were looked at lately, and how often they came again.
    situations: Recent<Situation, u64>,
}

/// All that the conditions of an access depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Situation {
    access: AccessId,
    is_write: bool,
    data: SetId,
    carried: SetId,
    control: Control,
}

impl Default for Dependence {
    fn default() -> Dependence {
        let none = Decision {
            outer: Control(0),
            set: SetId::EMPTY,
        };
        Dependence {
            sets: Sets::default(),
            accesses: Vec::new(),
            access_ids: FxHashMap::default(),
            decisions: vec![none],
            decision_ids: Recent::default(),
            conditions: Conditions::default(),
            reads: 0,
            writes: 0,
            situations: Recent::default(),
        }
    }
}

impl Dependence {
    pub fn end(mut self, followed: Followed) -> Inferred {
        for (situation, again) in std::mem::take(&mut self.situations).into_values() {
            self.seen_again(&situation, again);
        }
        Inferred {
            conditions: self.conditions,
            followed,
            reads: self.reads,
            writes: self.writes,
            cut: self.sets.cut,
        }
    }

    fn seen_again(&mut self, situation: &Situation, times: u64) {
        if times == 0 {
            return;
        }
        for (rule, first, later) in self.hints(situation) {
            let site = |access: AccessId| self.accesses[access.0 as usize].1;
            let (first, later) = (site(first), site(later));
            self.conditions.seen_again(rule, first, later, times);
        }
    }

    fn access(&mut self, access: &Access) -> AccessId {
        let range = self.conditions.range(Range {
            start: access.pm,
            length: access.length.min(LONGEST_BYTES),
        });
        let key = (range, access.site);
        let next = AccessId(u32::try_from(self.accesses.len()).expect("fewer than 2^32"));
        let id = *self.access_ids.entry(key).or_insert(next);
        if id == next {
            self.accesses.push(key);
        }
        id
    }

    /// The nearest decisions.
    fn nearest(&self, control: Control, most: usize) -> impl Iterator<Item = SetId> + '_ {
        let mut next = control;
        std::iter::from_fn(move || {
            (next != Control::default()).then(|| {
                let decision = self.decisions[next.0 as usize];
                next = decision.outer;
                decision.set
            })
        })
        .take(most)
    }

    /// All that decides, directly or by what a value carries, each once.
    fn deciding(&self, control: Control, carried: SetId) -> Vec<AccessId> {
        let sets = self.nearest(control, REACH).chain([carried]);
        let mut all: Vec<AccessId> = Vec::new();
        for set in sets {
            for member in self.sets.members(set) {
                if !all.contains(member) {
                    all.push(*member);
                }
                if all.len() == DECIDING {
                    return all;
                }
            }
        }
        all
    }

    /// What an access in a situation hints at: what persists first, and what later.
    fn hints(&self, situation: &Situation) -> Vec<(Rule, AccessId, AccessId)> {
        let Situation {
            access,
            is_write,
            data,
            carried,
            control,
        } = *situation;
        let deciding = self.deciding(control, carried).into_iter();
        let data = self.sets.members(data).iter().copied();
        match is_write {
            true => data
                .map(|source| (Rule::Po1, source, access))
                .chain(deciding.map(|decided| (Rule::Po2, decided, access)))
                .collect(),
            false => deciding
                .map(|guardian| (Rule::Po3, access, guardian))
                .chain(data.map(|way| (Rule::Po4, access, way)))
                .filter(|(_, first, later)| first != later)
                .collect(),
        }
    }

    fn look_at(&mut self, situation: Situation) {
        if let Some(again) = self.situations.get(&situation) {
            *again += 1;
            return;
        }
        if let Some((forgotten, again)) = self.situations.insert(situation, 0) {
            self.seen_again(&forgotten, again);
        }
        for (rule, first, later) in self.hints(&situation) {
            self.add(rule, first, later);
            if rule == Rule::Po3 {
                let (range, site) = self.accesses[later.0 as usize];
                self.conditions.guards(range, site);
            }
        }
    }

    fn add(&mut self, rule: Rule, first: AccessId, later: AccessId) {
        let first = self.accesses[first.0 as usize];
        let later = self.accesses[later.0 as usize];
        self.conditions.add(rule, first, later);
    }
}

impl Analysis for Dependence {
    type Label = Label;
    type Control = Control;

    fn join(&mut self, one: Label, other: Label) -> Label {
        Label {
            data: self.sets.join(one.data, other.data),
            control: self.sets.join(one.control, other.control),
        }
    }

    fn chosen(&mut self, value: Label, control: Control) -> Label {
        let mut deciding = value.control;
        let nearest: Vec<SetId> = self.nearest(control, CHOICE).collect();
        for set in nearest {
            deciding = self.sets.join(deciding, set);
        }
        Label {
            control: deciding,
            ..value
        }
    }

    fn decide(&mut self, control: Control, condition: Label) -> Control {
        let set = self.sets.join(condition.data, condition.control);
        // Rounds of a loop that ask the same are one decision.
        if set == SetId::EMPTY || self.nearest(control, CHOICE).any(|known| known == set) {
            return control;
        }
        let decision = Decision {
            outer: control,
            set,
        };
        if let Some(id) = self.decision_ids.get(&decision) {
            return *id;
        }
        let id = Control(u32::try_from(self.decisions.len()).expect("fewer than 2^32"));
        self.decisions.push(decision);
        self.decision_ids.insert(decision, id);
        id
    }

    fn read(&mut self, access: &Access, pointer: Label, control: Control) -> Label {
        self.reads += 1;
        let read = self.access(access);
        self.look_at(Situation {
            access: read,
            is_write: false,
            data: pointer.data,
            carried: pointer.control,
            control,
        });
        Label {
            data: self.sets.one(read),
            control: SetId::EMPTY,
        }
    }

    fn write(&mut self, access: &Access, pointer: Label, value: Label, control: Control) {
        self.writes += 1;
        let written = self.access(access);
        let data = self.sets.join(value.data, pointer.data);
        let carried = self.sets.join(value.control, pointer.control);
        self.look_at(Situation {
            access: written,
            is_write: true,
            data,
            carried,
            control,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_trace::{PmAddress, ThreadIndex};

    fn access(start: u64, site: u32) -> Access {
        Access {
            pm: PmAddress(start),
            length: 8,
            site: SiteId(site),
            thread: ThreadIndex(0),
            order: None,
        }
    }

    /// First and later, by the rule that says so.
    fn pairs(dependence: &Dependence, rule: Rule) -> Vec<(u64, u64)> {
        let conditions = &dependence.conditions;
        let mut found = Vec::new();
        for start in (0..512).step_by(8) {
            for bound in conditions.earlier(PmAddress(start), 8) {
                if conditions.hints()[bound.hint.0 as usize].rule == rule {
                    found.push((conditions.get(bound.to).start.0, start));
                }
            }
        }
        found
    }

    const X: u64 = 64;
    const Y: u64 = 128;

    /// Nothing has happened but a read of `X`; with the label of nothing, and that of the read.
    fn after_reading_x() -> (Dependence, Label, Label) {
        let mut dependence = Dependence::default();
        let nothing = Label::default();
        let x = dependence.read(&access(X, 1), nothing, Control::default());
        (dependence, nothing, x)
    }

    #[test]
    fn what_is_written_persists_after_what_it_was_computed_from() {
        let (mut dependence, nothing, x) = after_reading_x();
        dependence.write(&access(Y, 2), nothing, x, Control::default());
        assert_eq!(pairs(&dependence, Rule::Po1), [(X, Y)]);
        assert!(pairs(&dependence, Rule::Po2).is_empty());
    }

    #[test]
    fn what_decided_about_a_write_persists_first() {
        let (mut dependence, nothing, x) = after_reading_x();
        let control = dependence.decide(Control::default(), x);
        dependence.write(&access(Y, 2), nothing, nothing, control);
        assert_eq!(pairs(&dependence, Rule::Po2), [(X, Y)]);
        assert!(pairs(&dependence, Rule::Po1).is_empty());
    }

    #[test]
    fn what_is_guarded_persists_before_its_guard() {
        let (mut dependence, nothing, x) = after_reading_x();
        let control = dependence.decide(Control::default(), x);
        dependence.read(&access(Y, 2), nothing, control);
        assert_eq!(pairs(&dependence, Rule::Po3), [(Y, X)]);
        assert!(dependence.conditions.guardian(PmAddress(X)).is_some());
        assert!(dependence.conditions.guardian(PmAddress(Y)).is_none());
    }

    #[test]
    fn what_a_pointer_leads_to_persists_before_the_pointer() {
        let mut dependence = Dependence::default();
        let x = dependence.read(&access(X, 1), Label::default(), Control::default());
        dependence.read(&access(Y, 2), x, Control::default());
        assert_eq!(pairs(&dependence, Rule::Po4), [(Y, X)]);
        assert!(dependence.conditions.guardian(PmAddress(X)).is_none());
    }

    #[test]
    fn a_value_that_was_chosen_carries_what_decided() {
        let (mut dependence, nothing, x) = after_reading_x();
        let control = dependence.decide(Control::default(), x);
        let flag = dependence.chosen(nothing, control);
        dependence.write(&access(Y, 2), nothing, flag, Control::default());
        assert_eq!(pairs(&dependence, Rule::Po2), [(X, Y)]);
    }

    #[test]
    fn a_loop_that_asks_the_same_again_is_one_decision() {
        let mut dependence = Dependence::default();
        let x = dependence.read(&access(X, 1), Label::default(), Control::default());
        let mut control = dependence.decide(Control::default(), x);
        for _ in 0..1000 {
            control = dependence.decide(control, x);
        }
        assert_eq!(dependence.decisions.len(), 2);
    }

    #[test]
    fn only_the_nearest_decisions_count() {
        let mut dependence = Dependence::default();
        let nothing = Label::default();
        let mut control = Control::default();
        for number in 0..2 * REACH as u64 {
            let read = dependence.read(&access(8 * number, 1), nothing, Control::default());
            control = dependence.decide(control, read);
        }
        dependence.write(&access(504, 2), nothing, nothing, control);
        let first = pairs(&dependence, Rule::Po2);
        assert_eq!(first.len(), REACH);
        assert!(first.contains(&(8 * (2 * REACH as u64 - 1), 504)));
    }
}
