//! The fork server: the target runs again and again from one start.
//!
//! The contract is [`crashpoint_abi::serve`]. The server is the target itself, stopped in the
//! runtime's constructor: libraries are loaded and relocated, nothing of the program has run. Each
//! run is a fork of that. The server waits, kills, counts and answers; it never runs a line of the
//! target.
//!
//! - [`server`] holds the conversation with the checker and waits for the child.
//! - [`child`] turns a fork into the target: session, limits, signals as they were.
//! - [`sweep`] ends whatever a run has left.
//! - [`marks`] is where a child marks what it loads.
//! - [`private`] keeps private mappings from being taken for shared ones.
//! - [`objects`] tells which code was built with hooks.
//! - [`system`] are the system calls that only this needs.
//!
//! Two descriptors stay open in the server; children close them first of all. Nothing is recorded:
//! there is no folder and there are no streams. Threads have states as when recording, but dead
//! ones. Persistent files are found, placed and kept in the table of regions by the code that does
//! it when recording, so that a pool comes back to its recorded address.
//!
//! **When the checker is gone** its end of the socket closes, and the server kills what runs and
//! ends. The kernel also signals the end of a parent, but not by SIGKILL: a server that dies at
//! once leaves the grandchildren. A server that is killed takes its child along, and cannot do
//! more.

mod child;
pub mod marks;
pub mod objects;
pub mod private;
mod server;
mod sweep;
mod system;

use crate::config::Config;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use crashpoint_abi::serve::{flags, notes};

/// What this run was asked for, in a child; 0 in the server.
static FLAGS: AtomicU32 = AtomicU32::new(0);

/// Where a child notes what it does; in memory that it shares with the server.
static NOTES: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Stores are to stay in this process.
pub fn is_private() -> bool {
    FLAGS.load(Ordering::Relaxed) & flags::PRIVATE != 0
}

/// Loads are marked.
pub fn marks_loads() -> bool {
    FLAGS.load(Ordering::Relaxed) & flags::READS != 0
}

/// Notes something for the checker; says whether it had been noted before.
pub fn note(bits: u32) -> bool {
    // SAFETY: published by the server before it forks, mapped for good.
    match unsafe { NOTES.load(Ordering::Relaxed).as_ref() } {
        Some(notes) => notes.fetch_or(bits, Ordering::Relaxed) & bits == bits,
        None => false,
    }
}

/// Takes back what turned out not to be so.
pub fn take_back(bits: u32) {
    // SAFETY: as above.
    if let Some(notes) = unsafe { NOTES.load(Ordering::Relaxed).as_ref() } {
        notes.fetch_and(!bits, Ordering::Relaxed);
    }
}

/// What was noted since the last time.
fn take_notes() -> u32 {
    // SAFETY: as above.
    let noted = match unsafe { NOTES.load(Ordering::Relaxed).as_ref() } {
        Some(notes) => notes.swap(0, Ordering::Relaxed),
        None => 0,
    };
    if marks::take_escaped() {
        noted | notes::UNMARKED_READS
    } else {
        noted
    }
}

/// Serves. Returns in children only, as if nothing had been.
pub fn run(config: &Config) {
    server::run(config);
}
