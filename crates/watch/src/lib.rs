//! What is seen from outside: the system calls of an unmodified program that change files.
//!
//! The program runs under ptrace(2), with a filter (seccomp) that lets everything pass that cannot
//! matter. A call that may change the watched folder is looked at before it starts (what is there
//! now?) and when it has returned (what did it do?), and becomes a
//! [`Call`](crashpoint_trace::files::Call): inodes instead of paths and descriptors, with the bytes
//! that were written, and the call stack.
//!
//! **One at a time.** Calls that touch the folder are let into the kernel one after the other, of
//! however many threads and processes. So the order of the recording is the order in which they
//! took effect, an `fsync` covers what returned before it, and what is seen before and after a call
//! is that call's doing. The price: overlaps that the program could have had are not recorded.
//! Output is never held up.
//!
//! *Not seen*: other programs that change the folder meanwhile (noticed where it shows, and
//! remarked), and stores through shared mappings as they happen: those are found by comparison, see
//! `mappings`, or told by the program itself if it was built with `crashpoint-cc`, see `stores`.
//! io_uring and `io_submit` do not exist, as the program is told.
//!
//! **Architecture invariant:** what the program does is never changed: its signals, its exit status
//! and its results are its own, but for the refusals above. In its memory there may be a library of
//! ours (see `syscallbuf`), which is gone from its environment before `main`.

mod affinity;
mod before;
mod calls;
mod descriptors;
mod error;
mod filter;
mod inodes;
mod launch;
mod mappings;
mod paths;
mod ptrace;
mod session;
mod stacks;
mod stores;
mod syscallbuf;
mod table;
mod task_lifecycle;
mod tasks;
mod timer;
mod watcher;

pub use crashpoint_trace::files::{ProgramEnd, Remark};
pub use error::WatchError;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// What to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Only what lies below is recorded. It must exist.
    pub folder: &'a Path,
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// Where it is started.
    pub directory: &'a Path,
    /// All of its environment.
    pub environment: &'a [(OsString, OsString)],
    pub stdin: Stdin<'a>,
    /// Whether call stacks are recorded.
    pub stacks: bool,
    /// Whether standard output and standard error go on to ours; they are recorded either way.
    pub pass_output: bool,
    /// The program is killed after this time.
    pub timeout: Option<Duration>,
    /// `libcrashpoint_syscallbuf.so`, with which writes need not stop the program. Without it, or where it
    /// cannot be used, the recording is the same and takes longer.
    pub syscallbuf: Option<&'a Path>,
}

/// What the program reads.
#[derive(Clone, Copy, Debug)]
pub enum Stdin<'a> {
    Inherit,
    Null,
    File(&'a Path),
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub ended: ProgramEnd,
    /// Calls that were recorded.
    pub calls: u64,
    /// What could not be understood, or was done differently; in the recording too.
    pub remarks: Vec<Remark>,
}

/// Runs the program to its end, and that of everything it started; the recording is then in
/// `out/files`. `out` must not lie in the watched folder.
pub fn record(options: &Options<'_>, out: &Path) -> Result<Recorded, WatchError> {
    session::record(options, out, |_| ())
}

/// The same; `started` is called once the program runs, with the number of its process.
pub fn record_with(
    options: &Options<'_>,
    out: &Path,
    started: impl FnOnce(i32) + Send,
) -> Result<Recorded, WatchError> {
    session::record(options, out, started)
}

/// The names of the calls that stop a program, all or some of the time.
pub fn watched_calls() -> Vec<&'static str> {
    let stops = |row: &&(u16, &'static str, table::Class)| match row.2 {
        table::Class::Watched(_) | table::Class::Reported | table::Class::Refused => true,
        table::Class::Harmless => false,
    };
    table::TABLE.iter().filter(stops).map(|row| row.1).collect()
}
