//! What to tell people: findings resolved to source lines, merged, and rendered.
//!
//! [`resolve`] turns what a rule reports (sites, contexts, addresses) into a [`Finding`] with
//! source lines and call stacks. [`merge`](merge::merge) makes one finding of equal ones.
//! [`terminal`], [`json`] and [`sarif`] are sinks of the same [`Report`]; the last two have wire
//! structs of their own, so that the types inside can change while the formats stay.
//!
//! **Architecture invariant:** pure. Nothing here prints, and only [`source::Sources::from_disk`]
//! reads files.

mod finding;
mod helpers;
pub mod json;
pub mod merge;
pub mod redact;
pub mod resolve;
pub mod sarif;
pub mod source;
pub mod terminal;

#[cfg(test)]
mod examples;

pub use finding::{
    Crash, Figures, Finding, Frame, Location, Place, Report, Rule, Severity, Step, TestFigures,
};
