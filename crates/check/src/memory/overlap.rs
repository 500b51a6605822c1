//! Operations that run at once: which have begun, which have returned, and in which orders they may
//! have taken place.
//!
//! They are the parts of one line of the workload, and nothing else runs meanwhile. An operation
//! that returned before another began took place before it. One that has returned has happened; one
//! that has not begun has not.
//!
//! Which call is which part is known by the place that calls it (`crashpoint.h` has one for each).
//! Where it is not, only how many have begun and returned counts, and every order is taken to be
//! possible: less is demanded, and nothing wrongly.

use crate::engine::crash_points::Phase;
use crate::engine::outcome::{MAX_OVERLAPPING, OutcomeSet, RecoveryOutcome};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlapGroup {
    count: usize,
    begun: u8,
    returned: u8,
    /// For each, those that had returned when it began.
    after: [u8; MAX_OVERLAPPING],
    /// A part was called from a place that says nothing.
    is_unknown: bool,
    /// All outcomes in which a crash could leave the program at any time.
    pub outcomes: OutcomeSet,
}

impl OverlapGroup {
    pub fn new(count: usize) -> OverlapGroup {
        OverlapGroup {
            count: count.clamp(1, MAX_OVERLAPPING),
            outcomes: OutcomeSet::COMMITTED,
            ..OverlapGroup::default()
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// A part begins; its number.
    pub fn begin(&mut self, known: Option<u8>) -> u8 {
        let is_free = |lane: &u8| usize::from(*lane) < self.count && self.begun & (1 << lane) == 0;
        let known = known.filter(is_free);
        self.is_unknown |= known.is_none() && self.count > 1;
        let lane = known.or_else(|| (0..MAX_OVERLAPPING as u8).find(is_free));
        let lane = lane.unwrap_or_default();
        self.begun |= 1 << lane;
        self.after[usize::from(lane)] = self.returned;
        self.outcomes = self.outcomes.union(self.allowed());
        lane
    }

    pub fn end(&mut self, lane: u8) {
        self.returned |= 1 << lane;
    }

    pub fn have_all_begun(&self) -> bool {
        self.begun == RecoveryOutcome::all_rolled_back(self.count).0
    }

    pub fn have_all_returned(&self) -> bool {
        self.returned == RecoveryOutcome::all_rolled_back(self.count).0
    }

    pub fn phase(&self, operation: u32) -> Phase {
        match (self.have_all_returned(), self.have_all_begun()) {
            (true, _) => Phase::Returned(operation),
            (false, true) if self.returned == 0 => Phase::InFlight(operation),
            (false, _) => Phase::Overlapping {
                operation,
                allowed: self.allowed(),
            },
        }
    }

    /// Outcomes in which a crash may leave the program now.
    fn allowed(&self) -> OutcomeSet {
        let all = RecoveryOutcome::all_rolled_back(self.count).0;
        let fits = |happened: u8| {
            if self.is_unknown {
                let range = self.returned.count_ones()..=self.begun.count_ones();
                range.contains(&happened.count_ones())
            } else {
                self.returned & !happened == 0 && happened & !self.begun == 0
            }
        };
        let outcomes = (0..=all).filter(|missing| fits(all & !missing));
        outcomes.fold(OutcomeSet::NONE, |outcomes, missing| {
            outcomes.with(RecoveryOutcome(missing))
        })
    }

    /// All orders in which the operations of an outcome may have taken place.
    pub fn orders(&self, outcome: RecoveryOutcome) -> Vec<Vec<usize>> {
        let happened = (0..self.count).filter(|one| outcome.happened(*one));
        let mut orders = Vec::new();
        self.extend(&mut Vec::new(), &happened.collect::<Vec<_>>(), &mut orders);
        orders
    }

    fn extend(&self, order: &mut Vec<usize>, left: &[usize], orders: &mut Vec<Vec<usize>>) {
        if left.is_empty() {
            orders.push(order.clone());
            return;
        }
        for next in left {
            let waits = |other: &usize| !self.is_unknown && self.after[*next] & (1 << other) != 0;
            if left.iter().any(|other| other != next && waits(other)) {
                continue;
            }
            let rest: Vec<usize> = left.iter().filter(|one| *one != next).copied().collect();
            order.push(*next);
            self.extend(order, &rest, orders);
            order.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_is_in_flight_and_then_done() {
        let mut one = OverlapGroup::new(1);
        assert_eq!(one.begin(None), 0);
        assert_eq!(one.phase(5), Phase::InFlight(5));
        one.end(0);
        assert_eq!(one.phase(5), Phase::Returned(5));
    }

    #[test]
    fn what_has_returned_must_have_happened_and_what_has_not_begun_cannot() {
        let mut two = OverlapGroup::new(2);
        assert_eq!(two.begin(Some(1)), 1);
        let only_second = OutcomeSet::NONE
            .with(RecoveryOutcome(0b11))
            .with(RecoveryOutcome(0b01));
        let amid = |allowed| Phase::Overlapping {
            operation: 0,
            allowed,
        };
        assert_eq!(two.phase(0), amid(only_second));
        assert_eq!(two.begin(Some(0)), 0);
        assert_eq!(two.phase(0), Phase::InFlight(0));
        two.end(0);
        let first_is_there = OutcomeSet::COMMITTED.with(RecoveryOutcome(0b10));
        assert_eq!(two.phase(0), amid(first_is_there));
        assert_eq!(two.orders(RecoveryOutcome::COMMITTED), [[0, 1], [1, 0]]);
        assert_eq!(two.orders(RecoveryOutcome(0b10)), [[0]]);
        assert_eq!(two.orders(RecoveryOutcome(0b11)), [Vec::<usize>::new()]);
    }

    #[test]
    fn an_operation_that_began_after_another_returned_took_place_after_it() {
        let mut two = OverlapGroup::new(2);
        two.begin(Some(1));
        two.end(1);
        two.begin(Some(0));
        assert_eq!(two.orders(RecoveryOutcome::COMMITTED), [[1, 0]]);
        // The first alone never was possible.
        assert!(!two.outcomes.contains(RecoveryOutcome(0b10)));
    }

    #[test]
    fn calls_that_cannot_be_told_apart_allow_either() {
        let mut two = OverlapGroup::new(2);
        two.begin(None);
        two.end(0);
        two.begin(None);
        let allowed = two.phase(0).allowed();
        let outcomes =
            [0b00, 0b01, 0b10, 0b11].map(|outcome| allowed.contains(RecoveryOutcome(outcome)));
        assert_eq!(outcomes, [true, true, true, false]);
        assert_eq!(two.orders(RecoveryOutcome::COMMITTED).len(), 2);
    }
}
