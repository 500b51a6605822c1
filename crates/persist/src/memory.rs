//! The persistence graph of memory, and the states of cache lines: what becomes of stores.
//!
//! # Model
//!
//! A [`Node`] is at most 8 bytes of a store, within an aligned word. A [`MemoryWalker`] takes in the
//! events of a recording and knows, under a [`Model`], which nodes are durable and which sets of the
//! others a crash may keep, in the terms of [`crate::graph`].
//!
//! [`x86`] answers a smaller question faster, for the rules of misuse: of the latest value of every
//! byte, whether it is dirty, on its way or durable. `agreement.rs` holds the two against each other:
//! what one calls durable, the other guarantees.
//!
//! [`lines`] is the table that line states are kept in, open to analyses that keep something of their
//! own for every cache line. [`origin`] numbers the places (site, call stack, thread) that events
//! come from, so that a line's history stays small.
//!
//! **x86** with ADR, after Px86 (see [`x86`]):
//!
//! - cached stores to one line persist in their order: one chain for each line; the nodes of one
//!   store follow each other by address;
//! - a non-temporal store leaves the write-combining buffers at any time: one chain for each word.
//!   Stores to one word persist in their order, cached or not. Intel lets a processor evict the
//!   whole line at a non-temporal store that hits it; as this is not promised, it is not assumed;
//! - a flush of a line, of whatever kind and by whatever thread, makes the nodes that the line has
//!   so far durable at the next fence (`sfence`, `mfence`, a locked instruction) of the flushing
//!   thread; a non-temporal store is durable at the next fence of its own thread;
//! - `clflush` is moreover ordered: "no write to memory may be reordered with" it (Intel's manual,
//!   volume 3, memory ordering). No node that its thread issues later, non-temporal or not, is
//!   durable unless the nodes that the flushed line had are. What that sentence says of *earlier*
//!   non-temporal stores to other lines is not used;
//! - `msync` makes all lines of its range durable.
//!
//! **eADR**: caches are inside the domain of persistence, so that nodes are durable when they are
//! issued and the frontier is empty. What is left is that a crash may come between any two nodes:
//! see [`MemoryWalker::torn`]. Write-combining buffers are taken to be inside as well.
//!
//! **msync**: a file on ordinary storage that is mapped. The kernel may write a page back at any
//! time: one chain for each page of 4096 bytes, durable by `msync` of the page and by nothing else;
//! `munmap` loses and promises nothing. Pages torn by the device are not modelled.
//!
//! # Deviations
//!
//! Threads' accesses are taken in the recorded order; what lingers in a store buffer is only as
//! late as a line in the cache is. A *foreign* write (by code that was not instrumented) is noticed
//! late: its nodes are ordinary ones of their line, issued when they were noticed, so that a flush
//! that the foreign code executed itself is not known and its bytes may be thought lost. Opaque
//! assembly is taken to store, flush and fence nothing.

mod chains;
pub mod lines;
mod model;
mod node;
pub mod origin;
mod walker;
pub mod x86;

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use lines::{LineId, LineTable, Piece, pieces};
pub use model::Model;
pub use node::Node;
pub use origin::{Origin, OriginInfo, Origins};
pub use walker::MemoryWalker;
