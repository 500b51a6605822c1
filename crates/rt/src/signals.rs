//! Signal handlers run with a state and a stream of their own.
//!
//! A handler may interrupt a hook in the middle of a record. So `sigaction` and its relatives
//! install a function of ours in front of the target's handler; it gives the thread another state
//! while the handler runs. The target sees its own handlers only: `oldact` is translated back.
//!
//! A handler that is left by `siglongjmp` or an exception leaves the interrupted hook unfinished:
//! the stream may have lost count of the addresses it is relative to. The thread goes on in fresh
//! streams then.
//!
//! **Not seen:** handlers installed by the system call itself or by `sigset`. They use the
//! interrupted thread's stream, and may spoil it from there on.

use crate::lock;
use crate::process::{self, Status};
use crate::serve;
use crate::state::{self, State};
use crate::tls;
use core::ffi::c_void;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use libc::{c_int, sighandler_t, siginfo_t};

unsafe extern "C" {
    fn __sigaction(
        signal: c_int,
        action: *const libc::sigaction,
        old: *mut libc::sigaction,
    ) -> c_int;
    /// Another name of `signal`.
    fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t;
}

/// What the target asked for.
struct Entry {
    handler: AtomicUsize,
    flags: AtomicI32,
}

const SIGNALS: usize = 65;

static TABLE: [Entry; SIGNALS] = [const {
    Entry {
        handler: AtomicUsize::new(0),
        flags: AtomicI32::new(0),
    }
}; SIGNALS];

impl Entry {
    fn get(&self) -> (usize, c_int) {
        (
            self.handler.load(Ordering::Relaxed),
            self.flags.load(Ordering::Relaxed),
        )
    }

    fn set(&self, (handler, flags): (usize, c_int)) {
        self.handler.store(handler, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
    }
}

type Handler = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// What the kernel calls.
unsafe extern "C-unwind" fn dispatch(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let address = TABLE[signal as usize % SIGNALS]
        .handler
        .load(Ordering::Relaxed);
    if address <= libc::SIG_IGN {
        return;
    }
    // SAFETY: the target's handler. One that takes the number alone ignores the rest.
    let handler: Handler = unsafe { core::mem::transmute(address) };
    let outer = tls::get();
    if outer.is_null() {
        // No hook has run in this thread, so none is interrupted.
        // SAFETY: what the kernel passed.
        return unsafe { handler(signal, info, context) };
    }
    // SAFETY: the state of the running thread; the frame is its own bottom.
    unsafe {
        let inner = state::for_handler(outer);
        tls::set(inner);
        handler(signal, info, context);
        (*inner).thread.frame = (*inner).own.bottom;
    }
    tls::set(outer);
}

fn dispatcher() -> usize {
    dispatch as *const () as usize
}

/// Control came back to `state` from a signal handler, but not by its return.
#[cold]
pub fn left_handler(state: &mut State) {
    let _quiet = lock::Quiet::new();
    tls::set(state);
    let mut inner = state.own.inner;
    while !inner.is_null() {
        // SAFETY: states for handlers of this thread, none of which runs any more.
        unsafe {
            (*inner).thread.frame = (*inner).own.bottom;
            inner = (*inner).own.inner;
        }
    }
    state.restart(state::next_number());
}

fn is_real(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN && handler != libc::SIG_ERR
}

fn entry(signal: c_int) -> Option<&'static Entry> {
    let concerns_us = match process::status() {
        Status::Unknown | Status::Off => false,
        Status::Ready | Status::Recording | Status::Stopped => true,
        Status::Serving => serve::marks_loads(),
    };
    TABLE
        .get(usize::try_from(signal).ok()?)
        .filter(|_| concerns_us)
}

/// # Safety
/// As `sigaction`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let Some(entry) = entry(signal) else {
        // SAFETY: passed on.
        return unsafe { __sigaction(signal, action, old) };
    };
    let _guard = lock::lock();
    let before = entry.get();
    // SAFETY: the caller's structures, each valid if it is not null.
    unsafe {
        let mut mine = action.as_ref().copied();
        if let Some(mine) = &mut mine
            && is_real(mine.sa_sigaction)
        {
            entry.set((mine.sa_sigaction, mine.sa_flags));
            mine.sa_sigaction = dispatcher();
            mine.sa_flags |= libc::SA_SIGINFO;
        }
        let mine = mine.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        let result = __sigaction(signal, mine, old);
        if result != 0 {
            entry.set(before);
        } else if let Some(old) = old.as_mut()
            && old.sa_sigaction == dispatcher()
        {
            let (handler, flags) = before;
            old.sa_sigaction = handler;
            old.sa_flags = old.sa_flags & !libc::SA_SIGINFO | flags & libc::SA_SIGINFO;
        }
        result
    }
}

/// # Safety
/// As `signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let Some(entry) = entry(signal) else {
        // SAFETY: passed on.
        return unsafe { ssignal(signal, handler) };
    };
    let _guard = lock::lock();
    let before = entry.get();
    let mine = if is_real(handler) {
        entry.set((handler, 0));
        dispatcher()
    } else {
        handler
    };
    // SAFETY: passed on.
    let old = unsafe { ssignal(signal, mine) };
    if old == libc::SIG_ERR {
        entry.set(before);
    }
    if old == dispatcher() { before.0 } else { old }
}

/// # Safety
/// As `signal` in its System V form: the handler is taken away when it runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: zeros are valid for both.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        let mut old: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER;
        if sigaction(signal, &raw const action, &raw mut old) < 0 {
            return libc::SIG_ERR;
        }
        old.sa_sigaction
    }
}

/// # Safety
/// As `__sysv_signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: passed on.
    unsafe { __sysv_signal(signal, handler) }
}
