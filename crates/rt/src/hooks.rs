//! The functions that instrumented code calls, but for stores (see `stores`); their contract is
//! [`crashpoint_abi::hooks`].
//!
//! Those that run often do what is common on a straight way without a stack frame of their own;
//! for everything else they jump to a second function with the same parameters.

use crate::memory;
use crate::serve::marks;
use crate::shadow;
use crate::state::{self, State};
use crate::stream;
use crate::{signals, threads, tls};
use crashpoint_abi::hooks::{LOAD_ESCAPE, LOAD_STRING};
use crashpoint_abi::record::{FenceKind, FlushKind, ThreadSync};
use crashpoint_abi::{ShadowFrame, Thread, flow};

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_enter(site: u32) -> *mut Thread {
    let state = tls::get();
    // SAFETY: the state of the running thread; the frame stays within the shadow stack.
    unsafe {
        if state.is_null() {
            return enter_first(site);
        }
        let state = &mut *state;
        if state.thread.flow_cursor > state.thread.flow_limit {
            return enter_full(site);
        }
        let next = state.thread.frame.add(1);
        let last = state.own.last_frame;
        let frame = if next > last { last } else { next };
        state.thread.frame = frame;
        // A frame without a context, in one store.
        frame.cast::<u64>().write(u64::from(site));
        if state.own.flow != 0 {
            let at = state.thread.flow_cursor;
            let record = u64::from(flow::ENTER) | u64::from(site) << 8;
            at.cast::<u64>().write_unaligned(record);
            state.thread.flow_cursor = at.add(flow::ENTER_BYTES);
        }
        &raw mut state.thread
    }
}

/// The first function that a thread enters.
#[cold]
#[inline(never)]
unsafe extern "C" fn enter_first(site: u32) -> *mut Thread {
    state::current();
    // SAFETY: there is a state now.
    unsafe { __crashpoint_enter(site) }
}

/// Flow needs room, or somebody wants to know.
#[cold]
#[inline(never)]
unsafe extern "C" fn enter_full(site: u32) -> *mut Thread {
    // SAFETY: the state of the running thread; there is room afterwards.
    unsafe {
        let state = &mut *tls::get();
        marks::enter(state);
        stream::turn_flow(state);
        __crashpoint_enter(site)
    }
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_load(
    thread: *mut Thread,
    site: u32,
    address: u64,
    size: u64,
) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    if size >= LOAD_ESCAPE {
        return load_unmeasured(state, site, address, size);
    }
    if state.is_dead() {
        return marks::load(state, address, size);
    }
    if !state.is_persistent(address) || !state.is_ready() {
        return;
    }
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let order = state.take_order();
    state.record(site, order, |to, memory, at| {
        to.load(memory, at, address, size)
    });
}

/// A load of a string, or none at all.
#[cold]
#[inline(never)]
fn load_unmeasured(state: &mut State, site: u32, address: u64, size: u64) {
    if size == LOAD_ESCAPE {
        return marks::escape(state, site, address);
    }
    if state.is_persistent(address) {
        let end = state.own.region_base + state.own.region_span;
        let most = (size & !LOAD_STRING).min(end - address);
        let length = memory::string_length(address, most);
        // SAFETY: the state's own thread.
        unsafe { __crashpoint_load(&raw mut state.thread, site, address, length) };
    }
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_flush(
    thread: *mut Thread,
    site: u32,
    address: u64,
    kind: u32,
) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    let delta = state.own.shadow_delta;
    let is_plain = state.covers(address)
        && state.is_ready_now()
        // SAFETY: a line lies within a page, which the target is about to flush.
        && (delta == 0 || !unsafe { shadow::line_differs(address, delta) });
    if !is_plain {
        // SAFETY: passed on.
        return unsafe { flush_slowly(thread, site, address, kind) };
    }
    state.flushed(site, address, kind);
}

impl State {
    #[inline(always)]
    fn flushed(&mut self, site: u32, address: u64, kind: u32) {
        self.thread.pending += 1;
        let kind = FlushKind::from_bits(kind as u8).unwrap_or(FlushKind::Clflush);
        let order = self.take_order();
        self.record(site, order, |to, memory, at| {
            to.flush(memory, at, kind, address)
        });
    }
}

#[inline(never)]
unsafe extern "C" fn flush_slowly(thread: *mut Thread, site: u32, address: u64, kind: u32) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    if !state.is_persistent(address) || !state.is_ready() {
        return;
    }
    let delta = state.own.shadow_delta;
    // SAFETY: a line lies within a page, which the target is about to flush.
    if delta != 0 && unsafe { shadow::line_differs(address, delta) } {
        shadow::foreign_line(state, address);
        if !state.is_ready() {
            return;
        }
    }
    state.flushed(site, address, kind);
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_fence(thread: *mut Thread, site: u32, kind: u32) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    state.thread.pending = 0;
    if !state.is_ready_now() {
        // SAFETY: passed on.
        return unsafe { fence_unready(thread, site, kind) };
    }
    let kind = FenceKind::from_bits(kind as u8).unwrap_or(FenceKind::Mfence);
    let order = state.take_order();
    state.record(site, order, |to, memory, at| to.fence(memory, at, kind));
}

#[inline(never)]
unsafe extern "C" fn fence_unready(thread: *mut Thread, site: u32, kind: u32) {
    // SAFETY: passed on; the stream is ready then.
    unsafe {
        if State::of(thread).make_ready() {
            __crashpoint_fence(thread, site, kind);
        }
    }
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_opaque(thread: *mut Thread, site: u32) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    if state.is_dead() {
        return marks::opaque();
    }
    state.event(site, |to, memory, at| to.opaque(memory, at));
}

/// # Safety
/// From instrumented code; `arguments` are `count` words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_call(
    thread: *mut Thread,
    site: u32,
    arguments: *const u64,
    count: u32,
) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    // SAFETY: the caller vouches for the arguments; at most 8 of them fit a small record.
    state.event(site, |to, memory, at| unsafe {
        to.call(memory, at, arguments, count)
    });
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_return(thread: *mut Thread, site: u32, value: u64) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    state.event(site, |to, memory, at| to.call_returned(memory, at, value));
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_sync(thread: *mut Thread, site: u32, object: u64, kind: u32) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    let Some(kind) = ThreadSync::from_bits(kind as u8) else {
        return;
    };
    let object = match kind {
        ThreadSync::Join => threads::number_of(object).map_or(object, u64::from),
        _ => object,
    };
    state.sync(site, kind, object);
}

/// # Safety
/// From instrumented code; `frame` is the frame that entering gave to this activation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_resync(
    thread: *mut Thread,
    frame: *mut ShadowFrame,
    site: u32,
) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    state.thread.frame = frame;
    if tls::get() != &raw mut *state {
        signals::left_handler(state);
    }
    if state.own.flow == 0 {
        return;
    }
    if state.thread.flow_cursor > state.thread.flow_limit {
        stream::turn_flow(state);
    }
    // SAFETY: the frame is one of the shadow stack; up to the limit there is room.
    unsafe {
        let depth = frame.offset_from(state.own.bottom) as u32;
        let at = state.thread.flow_cursor;
        at.write(flow::LANDED);
        let both = u64::from(depth) | u64::from(site) << 32;
        at.add(1).cast::<u64>().write_unaligned(both);
        state.thread.flow_cursor = at.add(flow::LANDED_BYTES);
    }
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_flow_full(thread: *mut Thread) {
    // SAFETY: instrumented code passes its own thread.
    stream::turn_flow(unsafe { State::of(thread) });
}
