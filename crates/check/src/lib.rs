//! Does it recover: crash states materialised, recovery run on each, and a verdict.
//!
//! [`timeline`] finds the moments at which a crash is tried, [`references`] what a consistent
//! program prints, [`explore`] tries what a strategy chooses, [`minimise`] says what a failure
//! comes from. Underneath, a [`worker`] has a target that waits at the door of `main`
//! ([`server`]) and files with the content of a crash state ([`pool`], [`image`]).
//!
//! **Architecture invariant:** knows nothing of source lines or reports; whatever the target does
//! is a result, never an error of this crate.
#![forbid(unsafe_code)]

mod activity;
mod addresses;
pub mod behaviours;
pub mod explore;
#[cfg(test)]
mod fake_medium;
pub mod files;
pub mod image;
pub mod journal;
pub mod judge;
pub mod launch;
pub mod medium;
pub mod memory;
pub mod minimise;
pub mod output;
pub mod overlap;
mod pin;
pub mod plan;
pub mod pool;
pub mod reads;
pub mod references;
mod runner;
pub mod server;
pub mod spawned;
pub mod table;
pub mod timeline;
mod wire;
pub mod worker;
