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

use crate::judge::{MOST_AT_ONCE, World, Worlds};
use crate::timeline::Phase;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtOnce {
    count: usize,
    begun: u8,
    returned: u8,
    /// For each, those that had returned when it began.
    after: [u8; MOST_AT_ONCE],
    /// A part was called from a place that says nothing.
    is_unknown: bool,
    /// All worlds in which a crash could leave the program at any time.
    pub worlds: Worlds,
}

impl AtOnce {
    pub fn new(count: usize) -> AtOnce {
        AtOnce {
            count: count.clamp(1, MOST_AT_ONCE),
            worlds: Worlds::DONE,
            ..AtOnce::default()
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
        let lane = known.or_else(|| (0..MOST_AT_ONCE as u8).find(is_free));
        let lane = lane.unwrap_or_default();
        self.begun |= 1 << lane;
        self.after[usize::from(lane)] = self.returned;
        self.worlds = self.worlds.union(self.allowed());
        lane
    }

    pub fn end(&mut self, lane: u8) {
        self.returned |= 1 << lane;
    }

    pub fn have_all_begun(&self) -> bool {
        self.begun == World::nothing_of(self.count).0
    }

    pub fn have_all_returned(&self) -> bool {
        self.returned == World::nothing_of(self.count).0
    }

    pub fn phase(&self, operation: u32) -> Phase {
        match (self.have_all_returned(), self.have_all_begun()) {
            (true, _) => Phase::After(operation),
            (false, true) if self.returned == 0 => Phase::In(operation),
            (false, _) => Phase::Amid {
                operation,
                allowed: self.allowed(),
            },
        }
    }

    /// Worlds in which a crash may leave the program now.
    fn allowed(&self) -> Worlds {
        let all = World::nothing_of(self.count).0;
        let fits = |happened: u8| match self.is_unknown {
            true => {
                let range = self.returned.count_ones()..=self.begun.count_ones();
                range.contains(&happened.count_ones())
            }
            false => self.returned & !happened == 0 && happened & !self.begun == 0,
        };
        let worlds = (0..=all).filter(|missing| fits(all & !missing));
        worlds.fold(Worlds::NONE, |worlds, missing| worlds.with(World(missing)))
    }

    /// All orders in which the operations of a world may have taken place.
    pub fn orders(&self, world: World) -> Vec<Vec<usize>> {
        let happened = (0..self.count).filter(|one| world.happened(*one));
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
        let mut one = AtOnce::new(1);
        assert_eq!(one.begin(None), 0);
        assert_eq!(one.phase(5), Phase::In(5));
        one.end(0);
        assert_eq!(one.phase(5), Phase::After(5));
    }

    #[test]
    fn what_has_returned_must_have_happened_and_what_has_not_begun_cannot() {
        let mut two = AtOnce::new(2);
        assert_eq!(two.begin(Some(1)), 1);
        let only_second = Worlds::NONE.with(World(0b11)).with(World(0b01));
        let amid = |allowed| Phase::Amid {
            operation: 0,
            allowed,
        };
        assert_eq!(two.phase(0), amid(only_second));
        assert_eq!(two.begin(Some(0)), 0);
        assert_eq!(two.phase(0), Phase::In(0));
        two.end(0);
        let first_is_there = Worlds::DONE.with(World(0b10));
        assert_eq!(two.phase(0), amid(first_is_there));
        assert_eq!(two.orders(World::DONE), [[0, 1], [1, 0]]);
        assert_eq!(two.orders(World(0b10)), [[0]]);
        assert_eq!(two.orders(World(0b11)), [Vec::<usize>::new()]);
    }

    #[test]
    fn an_operation_that_began_after_another_returned_took_place_after_it() {
        let mut two = AtOnce::new(2);
        two.begin(Some(1));
        two.end(1);
        two.begin(Some(0));
        assert_eq!(two.orders(World::DONE), [[1, 0]]);
        // The first alone never was possible.
        assert!(!two.worlds.contains(World(0b10)));
    }

    #[test]
    fn calls_that_cannot_be_told_apart_allow_either() {
        let mut two = AtOnce::new(2);
        two.begin(None);
        two.end(0);
        two.begin(None);
        let allowed = two.phase(0).allowed();
        let worlds = [0b00, 0b01, 0b10, 0b11].map(|world| allowed.contains(World(world)));
        assert_eq!(worlds, [true, true, true, false]);
        assert_eq!(two.orders(World::DONE).len(), 2);
    }
}
