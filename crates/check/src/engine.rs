//! The search for crash states that fail, and for what they have in common: the same for all media.
//!
//! [`explore`] goes through the crash points of a [`Medium`](medium::Medium) and has the states that a
//! strategy chooses checked, [`minimise`] says what a failure comes from, [`journal`] keeps results
//! across runs. [`crash_points`] is the walk that media share.
//!
//! **Architecture invariant:** nothing in here names memory or files. Of a run it knows how it ended
//! and what it printed, never how the target was started.

pub mod crash_points;
pub mod explore;
#[cfg(test)]
mod fake_medium;
pub mod journal;
pub mod medium;
pub mod minimise;
pub mod outcome;
pub mod result_table;
