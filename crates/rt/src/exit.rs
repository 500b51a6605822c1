//! How a process ends.
//!
//! An orderly end (exit, `_exit`, exec) compares persistent memory with its shadow one last
//! time, records `ProcessExit`, brings windows into the files and writes the `end` line. A process
//! that is killed or aborts leaves all that out; its streams are exact nevertheless. (`abort` is
//! not ours: libc calls its own from within, and two of them do not link in a static program.)
//!
//! `exit` runs the handlers of `atexit` and the destructors of objects; both may store to
//! persistent memory. In a dynamic program our own handler (registered before the loader's) comes
//! last, in a static one our destructor does: the second of the two is the end.

use crate::events;
use crate::libraries;
use crate::lock;
use crate::process::{self, Status};
use crate::regions::REGIONS;
use crate::run;
use crate::shadow;
use crate::state::State;
use crate::stream;
use crate::sys;
use crate::text::Text;
use core::ffi::c_void;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use crashpoint_abi::record::ThreadSync;
use libc::c_int;

unsafe extern "C" {
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn at_quick_exit(handler: extern "C" fn()) -> c_int;
}

const HANDLER_RAN: u32 = 1;
const DESTRUCTOR_RAN: u32 = 2;

static PHASE: AtomicU32 = AtomicU32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ENDED: AtomicBool = AtomicBool::new(false);

pub fn prepare() {
    // SAFETY: the library is never unloaded, so that the handlers stay.
    unsafe {
        on_exit(handler, core::ptr::null_mut());
        at_quick_exit(quick_handler);
    }
}

extern "C" fn handler(code: c_int, _argument: *mut c_void) {
    CODE.store(code, Ordering::Relaxed);
    if PHASE.fetch_or(HANDLER_RAN, Ordering::Relaxed) & DESTRUCTOR_RAN != 0 {
        end("exit", code);
    }
}

/// Runs as a destructor of the library or program that this code is part of.
pub extern "C" fn destructor() {
    if PHASE.fetch_or(DESTRUCTOR_RAN, Ordering::Relaxed) & HANDLER_RAN != 0 {
        end("exit", CODE.load(Ordering::Relaxed));
    }
}

/// `quick_exit` does not tell its code.
extern "C" fn quick_handler() {
    end("quick_exit", 0);
}

/// In a forked child, or when an exec has failed: the end is still to come.
pub fn reopen() {
    ENDED.store(false, Ordering::Relaxed);
}

/// Writes down that this process ends.
pub fn end(how: &str, code: c_int) {
    let has_run = matches!(process::status(), Status::Recording | Status::Stopped);
    if !has_run || !run::is_owner() || ENDED.swap(true, Ordering::Relaxed) {
        return;
    }
    let state = events::recording_state();
    if let Some(state) = state {
        let process = lock::lock();
        if let Some((base, end)) = REGIONS.envelope() {
            shadow::compare_range(&process, state, base, end);
        }
        drop(process);
        state.sync(0, ThreadSync::ProcessExit, 0);
        settle_all(state);
    }
    libraries::tell_once();
    if let Ok(mut line) = Text::new() {
        let _ = write!(line, "{{\"end\":{{\"how\":\"{how}\",\"code\":{code}}}}}");
        run::tell(&mut line);
    }
    if let Some(order) = process::order() {
        order.leave(sys::process_id());
    }
}

/// Settles the streams of a thread: those of the handlers it is in, and its own.
fn settle_all(state: &mut State) {
    let mut at: *mut State = state;
    while !at.is_null() {
        // SAFETY: the states of the running thread; interrupted ones do not go on.
        unsafe {
            stream::settle(&mut *at);
            at = (*at).own.outer;
        }
    }
}

/// # Safety
/// As `_exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(code: c_int) -> ! {
    end("_exit", code);
    sys::exit(code)
}

/// # Safety
/// As `_Exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(code: c_int) -> ! {
    end("_exit", code);
    sys::exit(code)
}
