//! What must hold: conditions that a program's own behaviour hints at.
//!
//! A [`Conditions`] says of places in persistent memory which should persist before which, and
//! which together. They are *likely*: a state that violates one is worth trying, and no more. After
//! Witcher (Fu et al., SOSP 2021, table 2): see [`Rule`].
//!
//! [`dependence`] finds the hints in a recording at level flow; [`conditions`] keeps them, by ranges
//! of bytes, so that whoever walks along the stores of the same recording can ask what each is
//! bound to.
//!
//! **Architecture invariant:** pure; nothing here knows crash states or runs a program.
#![forbid(unsafe_code)]

pub mod conditions;
pub mod dependence;
mod recent;
mod sets;

pub use conditions::{Conditions, Hint, HintId, Range, RangeId, Rule};
pub use dependence::{Inferred, infer};
