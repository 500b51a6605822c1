//! Writes that are written down inside the program instead of stopping it.
//!
//! A stop costs many times what a write does. So the watcher preloads a small library
//! (`libcrashpoint_syscallbuf.so`), which shares some memory with it and stands in front of `write`. For
//! descriptors that the watcher has marked in [`Shared::marked`], it makes the call at [`CODE`],
//! where the filter lets it pass, and appends a [`WriteRecord`]: what was written and where, and the
//! stack as it was. Whenever the program stops, the watcher reads the records before anything else.
//!
//! The watcher marks descriptors only while the program has one thread, and takes all marks back at
//! every stop that is not a write; so between two stops nothing but marked writes changes the
//! folder, and records are in their order.
//!
//! ```text
//! watcher                              program
//!    |  a write stops, and another        |
//!    |--- marks its descriptor ---------->|
//!    |                                    | write: record begun, call, record done
//!    |                                    | write: …
//!    |<------------- any other stop ------|
//!    | reads the records, takes marks back|
//! ```
//!
//! Bump [`VERSION`] when any of this changes its meaning.

use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64};

/// Version of this protocol.
pub const VERSION: u32 = 1;

/// Environment variable: the path of the shared memory. The library takes it, and itself, out of
/// the environment before the program sees it.
pub const VARIABLE: &str = "CRASHPOINT_SYSCALLBUF";

/// Where the library puts `syscall; ret`: far from where Linux puts anything by itself.
pub const CODE: u64 = 0x6e65_6172_0000;
/// What the filter sees as the address of a call that was made there.
pub const CALL_END: u64 = CODE + 2;

/// Descriptors above are never marked.
pub const DESCRIPTORS: usize = 1024;
/// Where records begin.
pub const HEADER_BYTES: usize = 4096;
/// The header and all records.
pub const SHARED_BYTES: usize = 1 << 20;
/// Deeper stacks, or longer writes, stop as usual.
pub const MAX_STACK_BYTES: usize = 16 << 10;
pub const MAX_WRITE_BYTES: usize = 64 << 10;

/// The beginning of the shared memory.
#[repr(C)]
pub struct Shared {
    /// By the watcher, before the program starts.
    pub version: AtomicU32,
    /// By the library: it is there.
    pub ready: AtomicU32,
    /// Bytes of records. Raised by the library, reset by the watcher.
    pub used: AtomicU64,
    /// By the library: the address of libc's `write`.
    pub write: AtomicU64,
    /// By the watcher: which descriptors are written without a stop.
    pub marked: [AtomicU8; DESCRIPTORS],
}

/// [`WriteRecord::state`]: the call may not have happened yet.
pub const BEGUN: u32 = 0;
/// All of the record is valid.
pub const DONE: u32 = 1;

/// One write. Behind it lie the bytes of the stack, from `stack_pointer` upwards, and then those that
/// were written; the next record begins at a multiple of 8.
#[repr(C)]
pub struct WriteRecord {
    /// With everything behind it.
    pub bytes: AtomicU32,
    pub state: AtomicU32,
    pub descriptor: AtomicU32,
    pub stack_bytes: AtomicU32,
    pub wanted: AtomicU64,
    /// As the kernel returned it.
    pub returned: AtomicI64,
    /// The position of the file after the call.
    pub end: AtomicU64,
    /// At the first instruction of `write`: it points to the return address.
    pub stack_pointer: AtomicU64,
    pub frame_pointer: AtomicU64,
}

const _: () = assert!(size_of::<Shared>() <= HEADER_BYTES);
const _: () = assert!(size_of::<WriteRecord>().is_multiple_of(8));
