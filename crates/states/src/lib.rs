//! Which crashes to try: strategies that pick crash states out of a frontier.
//!
//! At a point of the recording, a [`Frontier`] says which crash states are possible; there may be
//! more of them than anybody can try. A [`Strategy`] says which ones to try, best first; when to stop
//! and which images are the same is for the caller. All of a strategy's cuts are closed, and none
//! comes twice at a point.
//!
//! **Architecture invariant:** pure; a strategy sees frontiers and returns cuts, and neither
//! materialises nor judges them.
#![forbid(unsafe_code)]

mod bounded;
pub mod conditions;
mod exhaustive;
mod random;
pub mod representative;

#[cfg(test)]
mod samples;

use crashpoint_persist::graph::{Cut, Frontier};

pub use bounded::Bounded;
pub use conditions::ByConditions;
pub use exhaustive::Exhaustive;
pub use random::Random;
pub use representative::Representative;

/// States of one kind are taken to be alike: where several of them fail, more of them would show
/// nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub u32);

/// A crash state to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub cut: Cut,
    /// None: like no other.
    pub kind: Option<KindId>,
}

impl From<Cut> for Choice {
    fn from(cut: Cut) -> Choice {
        Choice { cut, kind: None }
    }
}

/// Picks crash states.
pub trait Strategy: Send {
    /// As in settings and reports.
    fn name(&self) -> &'static str;

    /// Whether it has anything to try at a crash point, named by the order of the last event before
    /// it. Asked before a frontier is made, which costs as much as there is pending.
    fn wants(&self, _order: u64) -> bool {
        true
    }

    /// Whether states are left out that a known cause would explain, were they to fail.
    fn skips_explained_states(&self) -> bool {
        false
    }

    /// Crash states to try at a point, each at most once, best first.
    fn cuts<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Cut> + 'a>;

    /// The same, with what they are alike to.
    fn choices<'a>(&'a mut self, frontier: &'a Frontier) -> Box<dyn Iterator<Item = Choice> + 'a> {
        Box::new(self.cuts(frontier).map(Choice::from))
    }
}
