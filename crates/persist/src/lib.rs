//! What may be lost: the persistence state of every byte of persistent memory that a recording
//! touches.
//!
//! [`x86`] is the model of the processor: which stores are still in the cache, on their way, or
//! durable. [`lines`] is the table it is kept in, open to analyses that keep something of their
//! own for every cache line. [`origin`] numbers the places (site, call stack, thread) that events
//! come from, so that a line's history stays small.
//!
//! [`graph`] says which sets of stores a crash may leave behind, under this model and under others.
//! [`files`] says the same of what system calls did to files, in the same terms.
//!
//! **Architecture invariant:** this crate performs no I/O and judges nothing: it says what state a
//! byte is in, never whether that is right.
#![forbid(unsafe_code)]

pub mod files;
pub mod graph;
pub mod lines;
pub mod origin;
pub mod x86;

pub use lines::{LineId, LineTable, Piece, pieces};
pub use origin::{Origin, OriginInfo, Origins};
