//! The persistence graph of memory: which sets of stores a crash may leave behind.
//!
//! # Model
//!
//! A [`Node`] is the smallest unit that persists whole: at most 8 bytes of a store, within an
//! aligned word. A [`Walker`] takes in the events of a recording, one after the other, and knows
//! which nodes are durable and which are pending. Its [`Frontier`] says what a crash at this moment
//! may lose: the pending nodes lie in [`Chain`]s, a crash keeps a prefix of each (a [`Cut`]), and
//! [`Implication`]s between chains say which combinations of prefixes are possible. A crash state
//! is everything durable and a closed cut of the frontier.
//!
//! **x86** with ADR, after Px86 (see [`crate::x86`]):
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
//! see [`Walker::torn`]. Write-combining buffers are taken to be inside as well.
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
mod count;
mod cuts;
mod frontier;
mod model;
mod node;
mod walker;

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use count::Count;
pub use frontier::{Chain, Cut, Frontier, Implication};
pub use model::Model;
pub use node::{Node, NodeId};
pub use walker::{Fed, Walker};
