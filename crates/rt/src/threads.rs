//! Threads begin and end.
//!
//! `pthread_create` and `thrd_create` are ours, so that the new thread has its number before it
//! runs and order numbers are shared before there are two threads. A thread that comes into being
//! in another way gets its state with its first event.

use crate::events;
use crate::memory;
use crate::process;
use crate::state::{self, State};
use crate::stream;
use crate::sys::PAGE_BYTES;
use crate::tls;
use crate::weak;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crashpoint_abi::record::ThreadSync;
use libc::{c_int, pthread_attr_t, pthread_t};

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;

unsafe extern "C" {
    fn timer_create();
}

/// In a static program, libc's `pthread_create` is linked only if somebody else needs it under its
/// inner name, since ours answers to the outer one. Timers do.
#[used]
static ANCHOR: unsafe extern "C" fn() = timer_create;

/// libc's own function: by its inner name in a static program, else by asking the loader.
fn real() -> Option<Create> {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let mut address = FOUND.load(Ordering::Relaxed);
    if address == 0 {
        address = match weak::address!("__pthread_create") {
            0 => weak::next(c"pthread_create")?,
            address => address,
        };
        FOUND.store(address, Ordering::Relaxed);
    }
    // SAFETY: that is its type.
    Some(unsafe { core::mem::transmute::<usize, Create>(address) })
}

/// What a new thread is told. It lies in a page of its own, which the thread gives back.
struct Birth {
    start: Start,
    argument: *mut c_void,
    number: u32,
}

unsafe extern "C-unwind" fn begin(birth: *mut c_void) -> *mut c_void {
    // SAFETY: what `pthread_create` below has written.
    let Birth {
        start,
        argument,
        number,
    } = unsafe { birth.cast::<Birth>().read() };
    // SAFETY: nobody else knows the page.
    let _ = unsafe { memory::unmap(birth as usize, PAGE_BYTES) };
    if process::is_recording() {
        // SAFETY: the state of this thread, fresh.
        let state = unsafe { &mut *state::adopt(number) };
        state.sync(0, ThreadSync::Start, u64::from(number));
    }
    // SAFETY: what the target asked for.
    unsafe { start(argument) }
}

/// # Safety
/// As `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = real() else {
        return libc::ENOSYS;
    };
    let (state, page) = match (events::recording_state(), memory::anonymous(PAGE_BYTES)) {
        (Some(state), Ok(page)) => (state, page),
        (_, page) => {
            if let Ok(page) = page {
                // SAFETY: mapped just now.
                let _ = unsafe { memory::unmap(page, PAGE_BYTES) };
            }
            // SAFETY: passed on.
            return unsafe { real(thread, attributes, start, argument) };
        }
    };
    if let Some(order) = process::order() {
        order.share();
    }
    let number = state::next_number();
    let birth = Birth {
        start,
        argument,
        number,
    };
    state.sync(
        state.thread.external_site,
        ThreadSync::Create,
        u64::from(number),
    );
    // SAFETY: a fresh page, which is more than large enough.
    let result = unsafe {
        (page as *mut Birth).write(birth);
        real(thread, attributes, begin, page as *mut c_void)
    };
    if result != 0 {
        // SAFETY: no thread has come into being to give it back.
        let _ = unsafe { memory::unmap(page, PAGE_BYTES) };
    }
    result
}

/// # Safety
/// As `thrd_create`. A result of type `int` comes back in the same register as a pointer, and
/// `thrd_join` takes its low half.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut pthread_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    const SUCCESS: c_int = 0;
    const ERROR: c_int = 2;
    const NO_MEMORY: c_int = 3;
    // SAFETY: passed on.
    match unsafe { pthread_create(thread, core::ptr::null(), start, argument) } {
        0 => SUCCESS,
        libc::ENOMEM => NO_MEMORY,
        _ => ERROR,
    }
}

/// Who is who: the names that threads have with libc, and our numbers. The last ones are kept.
struct Name {
    handle: AtomicU64,
    number: AtomicU32,
}

const NAMES: usize = 1 << 12;

static NAMED: [Name; NAMES] = [const {
    Name {
        handle: AtomicU64::new(0),
        number: AtomicU32::new(0),
    }
}; NAMES];
static NAMED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes the number of the running thread.
pub fn note(number: u32) {
    let at = NAMED_COUNT.fetch_add(1, Ordering::Relaxed);
    let name = &NAMED[at % NAMES];
    name.number.store(number, Ordering::Relaxed);
    // SAFETY: no conditions.
    name.handle
        .store(unsafe { libc::pthread_self() }, Ordering::Release);
}

/// The number of a thread, by its name with libc; the latest if the name was given anew.
pub fn number_of(handle: u64) -> Option<u32> {
    let count = NAMED_COUNT.load(Ordering::Acquire);
    (count.saturating_sub(NAMES)..count)
        .rev()
        .map(|at| &NAMED[at % NAMES])
        .find(|name| name.handle.load(Ordering::Acquire) == handle)
        .map(|name| name.number.load(Ordering::Relaxed))
}

/// The key whose destructor tells of the end of a thread, plus one; 0: there is none.
static KEY: AtomicU32 = AtomicU32::new(0);

pub fn prepare() {
    let mut key = 0;
    // SAFETY: the destructor stays, since the library is never unloaded.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) } == 0 {
        KEY.store(key + 1, Ordering::Relaxed);
    }
}

/// Asks to be told when the running thread ends.
pub fn watch_end(state: *mut State) {
    let key = KEY.load(Ordering::Relaxed);
    if key != 0 {
        // SAFETY: the key exists.
        unsafe { libc::pthread_setspecific(key - 1, state.cast()) };
    }
}

/// Destructors run in rounds, at most four. Those of the target may record until the last.
const ROUNDS: u32 = 3;

unsafe extern "C" fn ended(state: *mut c_void) {
    // SAFETY: the state of the running thread.
    let state = unsafe { &mut *state.cast::<State>() };
    state.own.rounds += 1;
    if state.own.rounds <= ROUNDS {
        return watch_end(state);
    }
    state.sync(0, ThreadSync::ThreadExit, u64::from(state.header.thread));
    tls::set(core::ptr::null_mut());
    let mut at: *mut State = state;
    while !at.is_null() {
        // SAFETY: no handler runs any more; each state is released once.
        unsafe {
            let inner = (*at).own.inner;
            stream::settle(&mut *at);
            (*at).release();
            at = inner;
        }
    }
}
