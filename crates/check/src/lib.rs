//! Does it recover: crash states materialised, recovery run on each, and a verdict.
//!
//! [`engine`] searches for crash states that fail, of whatever medium; [`memory`] and [`files`] are
//! the media, each with its crash points, its way to lay a state out and its oracle; [`process`] runs
//! the target.
//!
//! **Architecture invariant:** knows nothing of source lines or reports; whatever the target does
//! is a result, never an error of this crate. `engine` knows neither `memory` nor `files`, and
//! `process` none of the three.
#![forbid(unsafe_code)]

pub mod engine;
pub mod files;
pub mod memory;
pub mod process;
