//! What may be lost: what a crash may leave behind of all that a recording did to persistent memory
//! and to files.
//!
//! [`graph`] is the core that both share: nodes, chains of nodes, and the sets of nodes that a crash
//! may keep. [`memory`] makes nodes of stores, under x86 with ADR, eADR or msync, and knows the state
//! of every cache line. [`files`] makes nodes of what system calls did to files, under models of
//! file systems.
//!
//! **Architecture invariant:** this crate performs no I/O and judges nothing: it says what state a
//! byte is in, never whether that is right.
#![forbid(unsafe_code)]

pub mod files;
pub mod graph;
pub mod memory;
pub mod split_mix;
