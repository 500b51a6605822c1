//! The functions that instrumented code calls; their contract is [`crashpoint_abi::hooks`].

use crate::shadow;
use crate::state::{self, State};
use crate::stream::{self, SMALL_BYTES};
use crate::{signals, tls};
use crashpoint_abi::record::{FenceKind, FlushKind, StoreKind, SyncKind};
use crashpoint_abi::{Frame, Thread, flow};

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_enter(site: u32) -> *mut Thread {
    let state = state::current();
    // SAFETY: the state of the running thread; the frame stays within the shadow stack.
    unsafe {
        let state = &mut *state;
        let next = state.thread.frame.add(1);
        let frame = if next > state.own.last_frame {
            state.own.last_frame
        } else {
            next
        };
        state.thread.frame = frame;
        *frame = Frame { site, context: 0 };
        if state.own.flow != 0 {
            enter_flow(state, site);
        }
        &raw mut state.thread
    }
}

#[inline(always)]
fn enter_flow(state: &mut State, site: u32) {
    if state.thread.flow_cursor > state.thread.flow_limit {
        stream::turn_flow(state);
    }
    // SAFETY: up to the limit there is room for a group of records.
    unsafe {
        let at = state.thread.flow_cursor;
        let record = u64::from(flow::ENTER) | u64::from(site) << 8;
        at.cast::<u64>().write_unaligned(record);
        state.thread.flow_cursor = at.add(flow::ENTER_BYTES);
    }
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_store(
    thread: *mut Thread,
    site: u32,
    address: u64,
    value: u64,
    size_and_kind: u32,
) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    if !state.is_persistent(address) {
        return;
    }
    let size = size_and_kind & 0xff;
    let kind = StoreKind::from_bits((size_and_kind >> 8) as u8).unwrap_or(StoreKind::Plain);
    let delta = state.own.shadow_delta;
    let is_alone = state.is_alone();
    // The shadow comes first: until then the store looks foreign to others.
    let mut seen = 0;
    if delta != 0 {
        // SAFETY: the target has just written there; the shadow spans the region.
        unsafe {
            if is_alone {
                shadow::put(address.wrapping_add(delta), value, size);
            } else {
                seen = shadow::follow(address, delta, size);
            }
        }
    }
    if kind == StoreKind::NonTemporal {
        state.thread.pending += 1;
    }
    if !state.is_ready() {
        return;
    }
    let order = state.take_order();
    if delta != 0 && !is_alone {
        // SAFETY: as above; taking a shared order number is a fence.
        unsafe { shadow::confirm(address, delta, size, seen) };
    }
    state.record(site, order, |to, memory, at| {
        to.store(memory, at, kind, address, value, size);
    });
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_range(
    thread: *mut Thread,
    site: u32,
    address: u64,
    length: u64,
    kind: u32,
) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    let kind = StoreKind::from_bits(kind as u8).unwrap_or(StoreKind::Memory);
    if kind == StoreKind::NonTemporal && state.is_persistent(address) {
        state.thread.pending += 1;
    }
    let is_small = length <= SMALL_BYTES as u64 && length != 0;
    if !is_small || !state.is_persistent(address) || !state.covers(address + length - 1) {
        return state.range(site, kind, address, length);
    }
    let delta = state.own.shadow_delta;
    if delta != 0 {
        // SAFETY: the range lies in the region, of which the shadow is a copy.
        unsafe { shadow::copy(address, address.wrapping_add(delta), length) };
    }
    state.written(site, kind, address, length);
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
    if !state.is_persistent(address) || !state.is_ready() {
        return;
    }
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    let order = state.take_order();
    state.record(site, order, |to, memory, at| {
        to.load(memory, at, address, size)
    });
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
    state.thread.pending += 1;
    let kind = FlushKind::from_bits(kind as u8).unwrap_or(FlushKind::Clflush);
    let order = state.take_order();
    state.record(site, order, |to, memory, at| {
        to.flush(memory, at, kind, address)
    });
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_fence(thread: *mut Thread, site: u32, kind: u32) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    state.thread.pending = 0;
    if !state.is_ready() {
        return;
    }
    let kind = FenceKind::from_bits(kind as u8).unwrap_or(FenceKind::Mfence);
    let order = state.take_order();
    state.record(site, order, |to, memory, at| to.fence(memory, at, kind));
}

/// # Safety
/// From instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_opaque(thread: *mut Thread, site: u32) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
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
    if let Some(kind) = SyncKind::from_bits(kind as u8) {
        state.sync(site, kind, object);
    }
}

/// # Safety
/// From instrumented code; `frame` is the frame that entering gave to this activation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_resync(thread: *mut Thread, frame: *mut Frame, site: u32) {
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
