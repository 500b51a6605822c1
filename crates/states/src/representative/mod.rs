//! Representative testing, after Pathfinder (OOPSLA 2025): programs do the same thing again and
//! again, and one instance with the fewest constraints stands for the rest.
//!
//! # Model
//!
//! 1. A recording is divided into *update behaviours*: sets of nodes that belong together. For
//!    files by functions ([`calls`], §4.1), for memory by objects ([`objects`], §4.2).
//! 2. A behaviour's [`Shape`] is its persistence graph with nodes told apart by where in the program
//!    they come from. One shape *represents* another if it has all its places and no order among
//!    them that the other does not have ([`Shape::represents`], definitions 3.1 to 3.5).
//! 3. Behaviours are grouped from the largest to the smallest ([`group`]); each group is tried by
//!    its representative alone, the smallest representatives first ([`Representative`]).
//!
//! # What it misses
//!
//! That two instances from the same places behave alike is a guess: a bug that needs the third
//! instance of a behaviour, because of what the first two left, is not found. What came before a
//! representative and may still be lost is kept, and lost as a whole with all or nothing of the
//! representative, not varied one by one. Of all states of representatives those are tried that
//! together show every few places in all the fates that they have together (`coverage`).

pub mod calls;
mod cluster;
mod coverage;
pub mod facts;
mod groups;
pub mod objects;
mod plan;
mod relation;
mod strategy;

pub use facts::{Facts, NEVER};
pub use groups::{Group, group};
pub use plan::{Behaviour, Gathered, NodeOrigin, PlanBuilder, RepresentativePlan};
pub use relation::{ProgramPlace, Shape};
pub use strategy::{Limits, Representative};
