//! Why a crash state fails, for people: what a program does wrong after a crash, which calls were
//! lost, which sync would prevent it, what replays the crash, and the graph of it.
//!
//! **Architecture invariant:** prints nothing and knows neither settings nor commands.
#![forbid(unsafe_code)]

pub mod files;
pub mod manuals;
pub mod outcome;
pub mod picture;
pub mod replay;
