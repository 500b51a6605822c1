//! Workloads: the generator of operations.
//!
//! A workload is a list of lines, each one operation of the target: a word that names it, then its
//! arguments. [`generate`] makes such a list up from the kinds of operations that the target knows,
//! as Witcher does (§7.1): operations by weight, keys mostly unused where something is inserted and
//! mostly used everywhere else. [`parse`] and [`write`](fn@write) take it from and to plain text,
//! so that a user can write, keep and shrink it. [`probes`] makes up the questions that show what a
//! crash has left.

mod generate;
mod kind;
mod list;
mod pool;
mod probe;

#[cfg(test)]
mod laws;

pub use generate::{KeySettings, Settings, generate};
pub use kind::{ArgumentError, ArgumentKind, OperationKind, is_name};
pub use list::{AT_ONCE, Operation, parse, write};
pub use probe::{probes, removals};
