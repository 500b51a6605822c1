//! The runtime inside the target: what instrumented code calls, and what stands in front of a few
//! functions of libc.
//!
//! # Rules of this code
//!
//! It runs inside programs that nobody here wrote, between their instructions: in constructors
//! before `main`, in signal handlers, in forked children, while other threads hold any lock.
//!
//! - **No allocation.** Memory comes from `mmap`, never from `malloc`, which may be the target's
//!   own and may be what called us. `#![no_std]` keeps `Vec` and `String` out of reach; std is
//!   linked for its panic handler alone.
//! - **No lock in hooks.** Hooks touch their thread's state, read tables under a sequence lock, and
//!   take order numbers with one instruction. The lock of slow paths ([`lock`]) blocks signals
//!   while it is held.
//! - **No unwinding.** Hooks are `extern "C"`: a panic aborts. Where the target's own unwinding may
//!   pass through us (threads, signal handlers) the functions are `C-unwind` and own nothing.
//! - **No libc where it can be helped.** System calls are made directly: `errno` stays as it is,
//!   and functions that we stand in for are not reached in a circle.
//! - **No descriptor stays open.** Files are opened by absolute path, written, and closed.
//! - **Little stack.** A handler may run on a small alternate stack; buffers are mapped.
//! - **Async-signal-safety.** A hook may be interrupted anywhere by a handler that calls hooks:
//!   handlers have their own state ([`signals`]), cursors move by one store, order numbers are
//!   taken by one instruction.
//! - **The target comes first.** What cannot be recorded is said on stderr once, and the target
//!   goes on; it is ended only at the very start, if a recording was asked for and is impossible.
//!
//! Without `CRASHPOINT_OUT` in the environment everything stays off: gates stay closed, and what
//! stands in for libc passes on after one look at a flag. With `CRASHPOINT_SERVE` instead of it,
//! the target becomes a fork server ([`serve`]).
#![no_std]

extern crate std;

mod binaries;
mod config;
mod contexts;
mod events;
mod exec;
mod exit;
mod files;
mod fork;
mod glob;
mod hooks;
mod image;
mod libraries;
mod lock;
mod mapping;
mod maps;
mod memory;
mod modules;
mod order;
mod others;
mod pagemap;
mod placement;
mod proc;
mod process;
mod regions;
mod remap;
mod run;
mod serve;
mod shadow;
mod signals;
mod state;
mod stores;
mod stream;
mod sys;
mod text;
mod threads;
mod tls;
mod weak;

/// Reads the environment as early as the loader lets us.
#[used]
#[unsafe(link_section = ".init_array.00099")]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn constructor() {
        process::prepare();
        process::serve();
    }
    constructor
};

/// Destructors run from the last to the first: this one after those of the program.
#[used]
#[unsafe(link_section = ".fini_array.00000")]
static DESTRUCTOR: extern "C" fn() = exit::destructor;
