//! What makes a stop cheap.
//!
//! A stop is two switches between the program and the watcher. On one processor that takes a few
//! microseconds; across two it takes many times that, since each wakes the other up from idle. So as
//! long as the program has one thread, both stay on one processor. It must not notice: as soon as
//! it asks which processors it may use, or makes a thread or process, it has all of them again.
//!
//! The kernel also sends a signal for every stop, which nobody here needs.

use crate::ptrace::Tid;
use std::mem::MaybeUninit;

/// Keeps SIGCHLD for ends, not for stops, as long as it lives.
pub struct NoStopSignals {
    old: libc::sigaction,
}

impl NoStopSignals {
    pub fn new() -> NoStopSignals {
        let mut old = MaybeUninit::uninit();
        // SAFETY: reads the action into a place for it; with it, all of `old` is valid.
        let old: libc::sigaction = unsafe {
            libc::sigaction(libc::SIGCHLD, std::ptr::null(), old.as_mut_ptr());
            old.assume_init()
        };
        let mut new = old;
        new.sa_flags |= libc::SA_NOCLDSTOP;
        // SAFETY: the same handler as before, called less often.
        unsafe { libc::sigaction(libc::SIGCHLD, &new, std::ptr::null_mut()) };
        NoStopSignals { old }
    }
}

impl Drop for NoStopSignals {
    fn drop(&mut self) {
        // SAFETY: the action that was there before.
        unsafe { libc::sigaction(libc::SIGCHLD, &self.old, std::ptr::null_mut()) };
    }
}

/// Holds the watcher and a program of one thread on one processor.
pub struct SharedCpu {
    /// What the watcher may use.
    own: libc::cpu_set_t,
    held: Option<Held>,
    /// The program has asked: never again.
    over: bool,
}

struct Held {
    tid: Tid,
    /// What the program may use.
    allowed: libc::cpu_set_t,
}

fn affinity(tid: i32) -> Option<libc::cpu_set_t> {
    // SAFETY: a set of processors is plain bits, of which none is a valid value.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: writes at most the size that it is told.
    let got = unsafe { libc::sched_getaffinity(tid, size_of::<libc::cpu_set_t>(), &mut set) };
    (got == 0).then_some(set)
}

fn set_affinity(tid: i32, set: &libc::cpu_set_t) -> bool {
    // SAFETY: reads a set of the size that it is told.
    unsafe { libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), set) == 0 }
}

impl SharedCpu {
    pub fn new() -> SharedCpu {
        // SAFETY: see `affinity`.
        let none = unsafe { std::mem::zeroed() };
        let own = affinity(0);
        SharedCpu {
            over: own.is_none(),
            own: own.unwrap_or(none),
            held: None,
        }
    }

    /// The program has one thread, this one.
    pub fn hold(&mut self, tid: Tid) {
        if self.over || self.held.is_some() {
            return;
        }
        let Some(allowed) = affinity(tid.0) else {
            return;
        };
        // SAFETY: no arguments; the processor we are on.
        let here = unsafe { libc::sched_getcpu() };
        // SAFETY: tests a bit of a set that has room for all processors the kernel numbers so.
        let common = usize::try_from(here).is_ok_and(|here| unsafe {
            here < 8 * size_of::<libc::cpu_set_t>() && libc::CPU_ISSET(here, &allowed)
        });
        if !common {
            return;
        }
        // SAFETY: as above.
        let one = unsafe {
            let mut one = std::mem::zeroed();
            libc::CPU_SET(here as usize, &mut one);
            one
        };
        if set_affinity(tid.0, &one) && set_affinity(0, &one) {
            self.held = Some(Held { tid, allowed });
        }
    }

    /// The program may use what it could before.
    pub fn release(&mut self) {
        if let Some(held) = self.held.take() {
            // It may be gone, and then needs no processor.
            set_affinity(held.tid.0, &held.allowed);
            set_affinity(0, &self.own);
        }
    }

    /// And is not held again.
    pub fn end(&mut self) {
        self.release();
        self.over = true;
    }
}
