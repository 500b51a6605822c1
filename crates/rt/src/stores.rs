//! The hooks of stores, of every width.
//!
//! A store to the region that was hit last, by the only thread, in the same context and with room
//! in the window, is recorded on a straight way. All else is in further functions.

use crate::serve::marks;
use crate::shadow;
use crate::state::State;
use crashpoint_abi::Thread;
use crashpoint_abi::record::StoreKind;

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
    if !(state.covers(address) && state.is_alone()) {
        // SAFETY: passed on.
        return unsafe { store_slowly(thread, site, address, value, size_and_kind) };
    }
    if !state.is_ready_now() {
        // SAFETY: passed on.
        return unsafe { store_unready(thread, site, address, value, size_and_kind) };
    }
    let delta = state.own.shadow_delta;
    let (size, kind) = store_kind(size_and_kind);
    if delta != 0 {
        // SAFETY: the shadow spans the region.
        unsafe { shadow::put(address.wrapping_add(delta), value, size) };
    }
    state.thread.pending += u32::from(kind == StoreKind::NonTemporal);
    let order = state.take_order_alone();
    let is_short = state.record(site, order, |to, memory, at| {
        to.store_short(memory, at, kind, address, value, size)
    });
    if !is_short {
        // SAFETY: passed on.
        unsafe { store_ordered(thread, site, address, value, size_and_kind, order) };
    }
}

#[inline(always)]
fn store_kind(size_and_kind: u32) -> (u32, StoreKind) {
    let kind = StoreKind::from_bits((size_and_kind >> 8) as u8).unwrap_or(StoreKind::Plain);
    (size_and_kind & 0xff, kind)
}

/// Nothing is recorded, but it may matter what was stored.
#[cold]
#[inline(never)]
fn marked(state: &mut State, address: u64, size_and_kind: u32) {
    let (size, kind) = store_kind(size_and_kind);
    // Assembly may store less than it declares.
    if marks::are_wanted(state) && kind != StoreKind::Assembly {
        marks::store(state, address, size.into());
    }
}

/// The stream must turn, or change to another context.
#[inline(never)]
unsafe extern "C" fn store_unready(
    thread: *mut Thread,
    site: u32,
    address: u64,
    value: u64,
    size_and_kind: u32,
) {
    // SAFETY: passed on; the stream is ready then.
    unsafe {
        let state = State::of(thread);
        if state.make_ready() {
            __crashpoint_store(thread, site, address, value, size_and_kind);
        } else {
            marked(state, address, size_and_kind);
        }
    }
}

/// The record has a form that is not common.
#[cold]
#[inline(never)]
unsafe extern "C" fn store_ordered(
    thread: *mut Thread,
    site: u32,
    address: u64,
    value: u64,
    size_and_kind: u32,
    order: u64,
) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    let (size, kind) = store_kind(size_and_kind);
    state.record(site, order, |to, memory, at| {
        to.store(memory, at, kind, address, value, size);
    });
}

/// A store by one of several threads, or to another region than the last.
#[inline(never)]
unsafe extern "C" fn store_slowly(
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
    let (size, kind) = store_kind(size_and_kind);
    let delta = state.own.shadow_delta;
    // The shadow comes first: until then the store looks foreign to others.
    let mut seen = 0;
    if delta != 0 {
        // SAFETY: the target has just written there; the shadow spans the region.
        seen = unsafe { shadow::follow(address, delta, size) };
    }
    state.thread.pending += u32::from(kind == StoreKind::NonTemporal);
    if !state.is_ready() {
        return marked(state, address, size_and_kind);
    }
    let order = state.take_order();
    if delta != 0 && !state.is_alone() {
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
    if !state.is_persistent(address) || marks::are_wanted(state) {
        return state.range(site, kind, address, length);
    }
    state.thread.pending += u32::from(kind == StoreKind::NonTemporal);
    let from = address as *const u8;
    // SAFETY: the target has just written there.
    let is_done = unsafe { vector(state, site, address, from, length, kind) };
    if !is_done {
        state.range(site, kind, address, length);
    }
}

/// # Safety
/// From instrumented code; `value` points to what was stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_vector(
    thread: *mut Thread,
    site: u32,
    address: u64,
    value: *const u8,
    size_and_kind: u32,
) {
    // SAFETY: instrumented code passes its own thread.
    let state = unsafe { State::of(thread) };
    let (size, kind) = store_kind(size_and_kind);
    if !state.is_persistent(address) {
        return;
    }
    if marks::are_wanted(state) {
        return marked(state, address, size_and_kind);
    }
    state.thread.pending += u32::from(kind == StoreKind::NonTemporal);
    // SAFETY: the caller vouches for the value.
    let is_done = unsafe { vector(state, site, address, value, size.into(), kind) };
    if !is_done {
        state.range(site, kind, address, size.into());
    }
}

/// Records the store of a vector to the region that was hit last. False if it has another length
/// or reaches out of the region.
///
/// # Safety
/// `length` bytes are readable.
#[inline(always)]
unsafe fn vector(
    state: &mut State,
    site: u32,
    address: u64,
    from: *const u8,
    length: u64,
    kind: StoreKind,
) -> bool {
    // Each width has code of its own.
    // SAFETY: passed on.
    unsafe {
        match length {
            16 => vector_of::<16>(state, site, address, from, kind),
            32 => vector_of::<32>(state, site, address, from, kind),
            64 => vector_of::<64>(state, site, address, from, kind),
            _ => false,
        }
    }
}

/// # Safety
/// `LENGTH` bytes are readable.
unsafe fn vector_of<const LENGTH: usize>(
    state: &mut State,
    site: u32,
    address: u64,
    from: *const u8,
    kind: StoreKind,
) -> bool {
    if !state.covers(address + LENGTH as u64 - 1) {
        return false;
    }
    // SAFETY: the caller vouches for it.
    let bytes = unsafe { from.cast::<[u8; LENGTH]>().read_unaligned() };
    let delta = state.own.shadow_delta;
    if delta != 0 {
        let to = address.wrapping_add(delta) as *mut [u8; LENGTH];
        // SAFETY: the shadow spans the region.
        unsafe { to.write_unaligned(bytes) };
    }
    if state.is_ready() {
        let order = state.take_order();
        let length = const { LENGTH as u32 };
        // SAFETY: `bytes` has that length, and a small record fits.
        state.record(site, order, |to, memory, at| unsafe {
            to.store_bytes(memory, at, kind, address, bytes.as_ptr(), length);
        });
    }
    true
}
