//! A forked child goes on recording under a name of its own.
//!
//! The child inherits the shadow stack, the regions and the shadow (which stays shared with its
//! parent, as the files are); its streams are new and begin with its mappings. They are mapped
//! where the parent's were, because activations on the stack know their state by address.
//!
//! **Not seen:** children that are made by the system call itself or by `_Fork`. They write into
//! their parent's streams, and both are spoilt from there on. A child of `vfork` or `posix_spawn`
//! runs while its parent waits, so that it may use the parent's streams until it calls exec.

use crate::events;
use crate::exit;
use crate::libraries;
use crate::lock::{self, Guard};
use crate::process::{self, Status, Stop};
use crate::regions::REGIONS;
use crate::run;
use crate::serve;
use crate::shadow;
use crate::state::{self, State};
use crate::stream;
use crate::tls;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
use crashpoint_abi::record::{MappingFields, ThreadSync};
use crashpoint_abi::serve::notes;
use libc::pid_t;

unsafe extern "C" {
    /// Another name of `fork`.
    fn __fork() -> pid_t;
}

/// The lock, held over the fork.
struct Held(UnsafeCell<Option<Guard>>);

// SAFETY: used by whoever holds the lock.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// The place of the fork in the order: before anything that the child does.
static ORDER: AtomicU64 = AtomicU64::new(0);

pub fn prepare() {
    // SAFETY: the functions stay, since the library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

unsafe extern "C" fn before() {
    if process::is_serving() {
        // SAFETY: the lock is held.
        unsafe { *HELD.0.get() = Some(lock::lock()) };
        return;
    }
    if !matches!(process::status(), Status::Recording | Status::Stopped) {
        return;
    }
    let state = events::recording_state();
    let guard = lock::lock();
    if let Some(state) = state
        && let Some(order) = process::order()
    {
        if let Some((base, end)) = REGIONS.envelope() {
            shadow::compare_range(&guard, state, base, end);
        }
        order.share();
        ORDER.store(order.take_shared(), Ordering::Relaxed);
    }
    // SAFETY: the lock is held.
    unsafe { *HELD.0.get() = Some(guard) };
}

unsafe extern "C" fn in_parent() {
    // SAFETY: the lock is held if there is a guard, and otherwise nobody has put one there.
    drop(unsafe { (*HELD.0.get()).take() });
}

unsafe extern "C" fn in_child() {
    // SAFETY: as above; there is one thread.
    let Some(mut guard) = (unsafe { (*HELD.0.get()).take() }) else {
        return;
    };
    if process::is_serving() {
        return;
    }
    let mut name = [0; 64];
    let parent = run::name();
    let length = parent.len().min(name.len());
    name[..length].copy_from_slice(&parent[..length]);
    exit::reopen();
    libraries::forget();
    if process::is_recording()
        && let Err(error) = process::begin_child(&name[..length])
    {
        process::stop(Stop::File(error));
    }
    state::reset_numbers();
    let state = restart_all(tls::get());
    if process::is_recording()
        && let Some(state) = state
    {
        guard.modules.tell_all();
        guard.files.tell_all();
        for region in (0..REGIONS.count()).filter_map(|index| REGIONS.get(index)) {
            state.map(&MappingFields {
                address: region.base,
                length: region.length(),
                file: region.file as u32,
                file_offset: region.offset,
                shared: true,
            });
        }
    }
}

/// Gives the one thread of a child new streams, for itself and for the handlers it is in.
fn restart_all<'a>(current: *mut State) -> Option<&'a mut State> {
    // SAFETY: the states of the running thread; `before` has made sure that there is one.
    unsafe {
        let mut at = current.as_mut()?;
        stream::detach(at);
        // States for handlers that do not run now are the parent's.
        at.own.inner = core::ptr::null_mut();
        while let Some(outer) = at.own.outer.as_mut() {
            at = outer;
        }
        loop {
            at.restart(state::next_number());
            match at.own.inner.as_mut() {
                Some(inner) => at = inner,
                None => return Some(at),
            }
        }
    }
}

/// # Safety
/// As `fork`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    if REGIONS.count() != 0 && process::is_serving() {
        serve::note(notes::FORKED);
    }
    // SAFETY: passed on.
    let child = unsafe { __fork() };
    if child > 0
        && let Some(state) = events::recording_state()
        && state.is_ready()
    {
        let order = ORDER.load(Ordering::Relaxed);
        let site = state.thread.external_site;
        state.record(site, order, |to, memory, at| {
            to.sync(memory, at, ThreadSync::Fork, child as u64);
        });
    }
    child
}
