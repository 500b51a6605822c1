//! What to tell people: findings resolved to source lines, merged, and rendered.
//!
//! [`resolve`] turns what a rule reports (sites, contexts, addresses) into a [`Finding`] with
//! source lines and call stacks. [`merge`](merge::merge) makes one finding of equal ones.
//! [`terminal`], [`json`], [`sarif`] and [`junit`] are sinks of the same [`Report`]; JSON and SARIF
//! have wire structs of their own, so that the types inside can change while the formats stay.
//! [`baseline`] knows which findings were accepted, and [`scripts`] the rules that users wrote.
//!
//! **Architecture invariant:** pure. Nothing here prints, and only [`source::Sources::from_disk`]
//! and [`scripts::read`] read files.

pub mod baseline;
mod category;
mod finding;
pub mod graph;
pub mod json;
pub mod junit;
pub mod merge;
pub mod plot;
pub mod resolve;
pub mod sarif;
pub mod scripts;
pub mod source;
pub mod terminal;
mod verdict;

#[cfg(test)]
mod examples;

pub use category::Category;
pub use crashpoint_rules::Severity;
pub use finding::{
    ConditionFigures, Confirmed, Crash, Figures, FileRange, Finding, Frame, Location, Report, Rule,
    Spot, Step, TestFigures,
};
pub use verdict::{LeftOut, LeftOutReason, Verdict};
