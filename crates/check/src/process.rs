//! Running a target: started once and forked for each run ([`server`]), or started anew for each
//! ([`spawned`]); the command ([`launch`]), its limits and its end ([`run`]), what of its output
//! counts ([`output`]), and what it says of a failure ([`message`]).
//!
//! **Architecture invariant:** knows nothing of crash states.

mod activity;
mod addresses;
pub mod launch;
pub mod message;
pub mod output;
mod patience;
pub(crate) mod pin;
pub mod run;
pub(crate) mod runner;
pub mod server;
pub mod spawned;
mod wire;
