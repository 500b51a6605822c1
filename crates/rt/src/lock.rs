//! The one lock of the runtime, for slow paths: loading code, mapping memory, forking.
//!
//! Signals are blocked while it is held, so that a handler never waits for the thread that it
//! interrupted. No hook that runs often takes it.

use crate::process::Process;
use crate::sys;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

static HELD: AtomicU32 = AtomicU32::new(0);

/// All signals of the calling thread are blocked while it lives.
pub struct Quiet {
    mask: u64,
}

impl Quiet {
    pub fn new() -> Quiet {
        Quiet {
            mask: set_mask(u64::MAX),
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        set_mask(self.mask);
    }
}

fn set_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    let (new, old_at) = ((&raw const mask) as usize, (&raw mut old) as usize);
    let arguments = [libc::SIG_SETMASK as usize, new, old_at, 8, 0, 0];
    // SAFETY: both are 8 bytes, which is the kernel's size of a set of signals.
    let _ = unsafe { sys::syscall(libc::SYS_rt_sigprocmask, arguments) };
    old
}

/// The lock is held while it lives; it is the way to what the lock guards.
pub struct Guard {
    // Fields are dropped after `Guard::drop`: signals come back when the lock is free again.
    _quiet: Quiet,
}

struct Guarded(UnsafeCell<Process>);

// SAFETY: only a guard gives access.
unsafe impl Sync for Guarded {}

static PROCESS: Guarded = Guarded(UnsafeCell::new(Process::new()));

pub fn lock() -> Guard {
    let quiet = Quiet::new();
    while HELD
        .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        sys::yield_now();
    }
    Guard { _quiet: quiet }
}

/// The lock if nobody holds it.
pub fn try_lock() -> Option<Guard> {
    let quiet = Quiet::new();
    HELD.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_ok()
        .then(|| Guard { _quiet: quiet })
}

impl Drop for Guard {
    fn drop(&mut self) {
        HELD.store(0, Ordering::Release);
    }
}

impl Deref for Guard {
    type Target = Process;

    fn deref(&self) -> &Process {
        // SAFETY: the lock is held, and there is one guard of it.
        unsafe { &*PROCESS.0.get() }
    }
}

impl DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Process {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *PROCESS.0.get() }
    }
}
