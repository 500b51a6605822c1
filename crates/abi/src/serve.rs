//! The fork server: how a checker asks a target to run again and again from one start.
//!
//! A target that is started with [`crate::env::SERVE`] does not reach `main`. The runtime's
//! constructor connects to the socket named there (a `SOCK_SEQPACKET` Unix socket, one message per
//! packet), says [`Hello`], and waits. For each [`Request`] it forks: the child returns from the
//! constructor and runs as if it had just been started; the server waits for it and answers with
//! one [`Reply`]. Arguments, environment, working folder and standard streams are those of the
//! start, so whatever differs from run to run lies in files: the pool, the list of operations.
//!
//! ```text
//! checker                      server                       child
//!    |<-------- Hello -----------|
//!    |--------- Request -------->|--- fork ------------------->| constructor returns, main runs
//!    |        (Cancel)           |                             |
//!    |                           |<------ ends, or is killed --|
//!    |<-------- Reply -----------| nothing of the child is left: not one process
//! ```
//!
//! While a child runs, the checker may send [`CANCEL`] as the kind of a further request: the child
//! and everything it started are killed, and the reply has [`ended::CANCELLED`]. One that comes
//! when the run is over is ignored, so that a checker may cancel a run whose reply is on its way,
//! and reads that reply as usual. When the socket closes, or the server gets SIGTERM, SIGINT or
//! SIGHUP, it kills what runs and ends.
//!
//! A child leads a process group, in a session without a terminal; it has the environment of the
//! start without [`crate::env::SERVE`] and [`crate::env::READS`], leaves no core, and finds
//! standard input where it stood at the start if that can be wound back. What it appends to
//! standard output and error stays.
//!
//! Bump [`VERSION`] when any of this changes its meaning.

use core::sync::atomic::AtomicU32;

/// Version of this protocol.
pub const VERSION: u32 = 2;

/// The first message of a server.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    pub version: u32,
    pub process: u32,
    /// Linked objects (the program and its libraries) with code that was built by `crashpoint-cc`.
    /// 0: no loads can be marked.
    pub modules: u32,
    pub reserved: u32,
}

/// [`Request::kind`]: run the target once.
pub const RUN: u32 = 1;
/// [`Request::kind`]: end the run that is under way.
pub const CANCEL: u32 = 2;

/// What a run is to be like: bits of [`Request::flags`].
pub mod flags {
    /// Persistent files are mapped privately: what the child stores never reaches them. What it
    /// writes to them by system calls does.
    pub const PRIVATE: u32 = 1;
    /// What the child loads from persistent memory is marked in the [`super::ReadsHeader`] file.
    /// Without such a file the run is [`super::ended::NOT_STARTED`].
    pub const READS: u32 = 2;
}

/// A message to the server.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub kind: u32,
    pub flags: u32,
    /// Limits for the child and each process it starts; 0 is none. Bytes of address space (pools,
    /// the file of marks and some 20 MiB of the runtime count), bytes of any file it writes,
    /// seconds of processor time, and processes of this user.
    pub memory_bytes: u64,
    pub file_bytes: u64,
    pub cpu_seconds: u32,
    pub processes: u32,
}

/// How a run ended: bits of [`Reply::ended`].
pub mod ended {
    /// The checker asked for it.
    pub const CANCELLED: u32 = 1;
    /// The child ended and left processes behind, which were killed.
    pub const LEFTOVERS: u32 = 2;
    /// The child could not be started; `status` is the error number.
    pub const NOT_STARTED: u32 = 4;
}

/// What a run did that bears on how the next ones may be made: bits of [`Reply::notes`].
pub mod notes {
    /// It mapped a persistent file.
    pub const MAPPED: u32 = 1;
    /// With [`super::flags::PRIVATE`]: it mapped the same bytes of a persistent file twice, or after
    /// it had stored to an earlier mapping of them, so that mappings did not show each other's
    /// stores.
    pub const MAPPED_AGAIN: u32 = 2;
    /// It forked while persistent memory was mapped.
    pub const FORKED: u32 = 4;
    /// It started another program, by a function of the exec family. (`posix_spawn`, `system` and
    /// `popen` are not seen.)
    pub const EXECUTED: u32 = 8;
    /// With [`super::flags::READS`]: what was read may not be marked. Code that was not built by
    /// `crashpoint-cc` mapped a persistent file or got an address in persistent memory as an
    /// argument of a function that we do not know; or the marks do not cover what was mapped.
    pub const UNMARKED_READS: u32 = 16;
}

/// The answer to a [`RUN`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// As `waitpid` reports it.
    pub status: i32,
    pub ended: u32,
    pub notes: u32,
    pub reserved: u32,
    /// From the fork to the end of the last process.
    pub wall_ns: u64,
    pub user_us: u64,
    pub system_us: u64,
}

/// First bytes of the file named by [`crate::env::READS`].
pub const READS_MAGIC: [u8; 8] = *b"CPREADS\n";

/// Most persistent files whose loads can be marked.
pub const READS_FILES: usize = 32;

/// The head of the file in which loads are marked. The checker makes the file, the server maps it
/// before it forks, children mark in it.
#[repr(C)]
#[derive(Debug)]
pub struct ReadsHeader {
    pub magic: [u8; 8],
    pub version: u32,
    pub file_count: u32,
    /// Bits of [`notes`] that the running child has set; the server clears them before each run.
    pub notes: AtomicU32,
    /// Calls that were handed an address in persistent memory and have not turned out to be of code
    /// with hooks. If there are some in the end, the server notes [`notes::UNMARKED_READS`].
    pub escaped: AtomicU32,
    pub files: [ReadsFile; READS_FILES],
}

/// Where the marks of one persistent file lie: from `offset` in the file of marks on, one bit for
/// each 8 aligned bytes of the persistent file, the lowest bit of a byte first. What a run loads
/// after it has stored those 8 bytes itself says nothing about what it found, and is not marked; to
/// know of it, the child keeps as many bits from `stored` on, which begin as zero too.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadsFile {
    pub device: u64,
    pub inode: u64,
    pub offset: u64,
    pub stored: u64,
    /// Of the persistent file, as far as it is marked.
    pub length: u64,
}

/// Bytes before the first mark.
pub const READS_HEADER_BYTES: usize = 4096;

const _: () = assert!(size_of::<ReadsHeader>() <= READS_HEADER_BYTES);
