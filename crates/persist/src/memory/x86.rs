//! Persistence states of bytes under x86 with ADR: what has left the caches is safe, what is in
//! them is not.
//!
//! # Model
//!
//! After Raad, Wickerson, Neis and Vafeiadis, *Persistency Semantics of the Intel-x86
//! Architecture* (POPL 2020; Px86), and Intel's manual. For the latest value of every byte the
//! tracker knows one of
//!
//! - **dirty**: stored, and not written back since. It may reach memory at any time, or never.
//! - **pending**: on its way. Its line was flushed after the store by `clflushopt` or `clwb`, or
//!   the store was non-temporal. It is durable once a thread that flushed it (or stored it past
//!   the cache) executes `sfence`, `mfence` or a locked instruction; a fence of another thread
//!   promises nothing.
//! - **durable**: that has happened.
//!
//! A store takes the byte back to dirty whatever it was: a flush that is under way carries the old
//! value. `clflush` leaves a byte pending too, but **ordered**: Px86 keeps it in order with all
//! later stores and flushes of its thread, so nothing stored after it can be durable without it.
//! Only a program that promises durability to the outside world has to wait for it with a fence.
//!
//! A non-temporal store replaces the cached bytes it covers; other bytes of the line stay as they
//! are. `msync` counts as flush and fence of its range.
//!
//! # Deviations
//!
//! Threads' accesses to one line are taken in the recorded order; a store that was still in a
//! store buffer when another thread flushed the line counts as flushed. A *foreign* write (by code
//! that was not instrumented) is noticed late and may have been flushed by the same code: its bytes
//! are in no state, and nothing should be concluded from them.

mod line;
mod tracker;

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests;

pub use line::{LineState, Mark, Writer};
pub use tracker::{Fenced, Flushed, LineTracker, StoreRoute, Who};
