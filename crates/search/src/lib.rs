//! Which inputs to run.
//!
//! [`workload`] makes up the operations of a run. It is all that chooses an input today.
//!
//! **Architecture invariant:** pure; the same seed and settings give the same operations, in every
//! version of Crashpoint. A list that somebody keeps by its seed stays what it was.
#![forbid(unsafe_code)]

pub mod workload;
