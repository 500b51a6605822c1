//! Writing records into the stream of a thread.
//!
//! Every event does the same: make sure that the address is persistent memory, that the stream
//! stands in the context of the running activation and has room; take an order number; encode;
//! move the cursor. The cursor moves last and by one store, so that a record is in the stream
//! whole or not at all.

use crate::contexts;
use crate::process;
use crate::regions::REGIONS;
use crate::serve::marks;
use crate::shadow;
use crate::state::State;
use crate::stream::{self, CHUNK_BYTES, SMALL_BYTES};
use core::sync::atomic::{Ordering, compiler_fence};
use crashpoint_abi::record::{
    Encoder, MappingFields, Memory, RecordPosition, StoreKind, ThreadSync,
};

/// Ranges filled with one byte become a record of their own from this length on.
const FILL_BYTES: u64 = 32;

impl State {
    /// Whether the address lies in the region that was hit last.
    #[inline(always)]
    pub fn covers(&self, address: u64) -> bool {
        address.wrapping_sub(self.own.region_base) < self.own.region_span
            && self.own.region_generation == REGIONS.generation()
    }

    /// Whether the address is persistent memory; the region is remembered.
    #[inline(always)]
    pub fn is_persistent(&mut self, address: u64) -> bool {
        self.covers(address) || self.find_region(address)
    }

    #[cold]
    #[inline(never)]
    fn find_region(&mut self, address: u64) -> bool {
        let (region, generation) = REGIONS.find(address);
        let Some(region) = region else { return false };
        self.own.region_base = region.base;
        self.own.region_span = region.length();
        self.own.shadow_delta = match region.shadow {
            0 => 0,
            shadow => shadow.wrapping_sub(region.base),
        };
        self.own.region_generation = generation;
        if self.is_dead() {
            self.own.marks = marks::of(&region);
        }
        true
    }

    /// Makes the stream ready for a small record of the running activation. False: nothing is
    /// recorded.
    #[inline(always)]
    pub fn is_ready(&mut self) -> bool {
        self.is_ready_now() || self.make_ready()
    }

    /// Whether the stream is ready as it stands.
    #[inline(always)]
    pub fn is_ready_now(&self) -> bool {
        // SAFETY: the frame is one of the shadow stack.
        let context = unsafe { (*self.thread.frame).context };
        context == self.own.context && self.header.cursor <= self.own.limit
    }

    /// Activations come and go, so this is not rare.
    #[inline(never)]
    pub fn make_ready(&mut self) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: both are frames of this thread's shadow stack.
        let context = unsafe {
            self.own
                .contexts
                .resolve_known(self.own.bottom, self.thread.frame)
        };
        if context == 0 {
            self.enter_context();
        } else if context != self.own.context {
            self.own.context = context;
            self.encode(|to, _| to.context(context - 1));
        }
        self.has_room()
    }

    #[inline(always)]
    fn has_room(&mut self) -> bool {
        self.header.cursor <= self.own.limit || stream::turn(self)
    }

    #[cold]
    #[inline(never)]
    fn enter_context(&mut self) {
        let mut table = core::mem::replace(&mut self.own.contexts, contexts::ContextTable::new());
        let (bottom, top) = (self.own.bottom, self.thread.frame);
        // SAFETY: both are frames of this thread's shadow stack.
        let context = unsafe {
            table.resolve(bottom, top, |parent, site| {
                if self.has_room() {
                    self.encode(|to, _| to.define_context(parent - 1, site));
                }
            })
        };
        self.own.contexts = table;
        if context != self.own.context && self.has_room() {
            self.own.context = context;
            self.encode(|to, _| to.context(context - 1));
        }
    }

    /// Writes at the cursor and moves it. There must be room.
    #[inline(always)]
    fn encode<R>(&mut self, write: impl FnOnce(&mut Encoder, &mut Memory) -> R) -> R {
        // SAFETY: a cursor up to the limit has room for a head and a small rest behind it.
        let mut to = unsafe { Encoder::new(self.header.cursor as *mut u8) };
        let result = write(&mut to, &mut self.own.memory);
        compiler_fence(Ordering::SeqCst);
        self.header.cursor = to.position() as u64;
        result
    }

    /// Writes an ordered record. The stream must be ready.
    #[inline(always)]
    pub fn record<R>(
        &mut self,
        site: u32,
        order: u64,
        write: impl FnOnce(&mut Encoder, &mut Memory, RecordPosition) -> R,
    ) -> R {
        self.encode(|to, memory| write(to, memory, RecordPosition { order, site }))
    }

    /// The next order number. The state must not be dead.
    #[inline(always)]
    pub fn take_order(&self) -> u64 {
        // SAFETY: a state that records has the page.
        unsafe { (*self.own.order).take() }
    }

    /// The next order number, if this is the only thread of the recording.
    #[inline(always)]
    pub fn take_order_alone(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (*self.own.order).take_alone() }
    }

    /// Whether this is the only thread of the recording.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        // SAFETY: where there is persistent memory, there is the page.
        unsafe { !(*self.own.order).is_shared() }
    }

    /// Records an event that is not about an address, from a slow path.
    pub fn event(
        &mut self,
        site: u32,
        write: impl FnOnce(&mut Encoder, &mut Memory, RecordPosition),
    ) {
        if self.is_ready() {
            let order = self.take_order();
            self.record(site, order, write);
        }
    }

    pub fn sync(&mut self, site: u32, kind: ThreadSync, object: u64) {
        self.event(site, |to, memory, at| to.sync(memory, at, kind, object));
    }

    pub fn map(&mut self, map: &MappingFields) {
        let site = self.thread.external_site;
        self.event(site, |to, memory, at| to.map(memory, at, map));
    }

    pub fn unmap(&mut self, address: u64, length: u64) {
        let site = self.thread.external_site;
        self.event(site, |to, memory, at| to.unmap(memory, at, address, length));
    }

    pub fn msync(&mut self, address: u64, length: u64) {
        let site = self.thread.external_site;
        self.event(site, |to, memory, at| to.msync(memory, at, address, length));
    }

    /// Records that a range has been written, with what it holds now.
    #[cold]
    #[inline(never)]
    pub fn range(&mut self, site: u32, kind: StoreKind, address: u64, length: u64) {
        if marks::are_wanted(self) {
            // Of other kinds not every byte may have been written.
            if kind == StoreKind::Memory {
                marks::store(self, address, length);
            }
            return;
        }
        let Some(end) = address.checked_add(length) else {
            return;
        };
        let mut at = address;
        while let Some(part) = REGIONS.first_in(at, end) {
            if part.shadow != 0 {
                // SAFETY: the part is mapped, and its shadow too.
                unsafe { shadow::copy(part.base, part.shadow, part.length()) };
            }
            self.written(site, kind, part.base, part.length());
            at = part.end;
        }
    }

    /// Records what a part of persistent memory holds as having been written.
    pub fn written(&mut self, site: u32, kind: StoreKind, address: u64, length: u64) {
        if length >= FILL_BYTES {
            // SAFETY: the caller has found the range in a region, and the target has just written
            // it.
            let filled = unsafe { filled_with(address, length) };
            if let Some(byte) = filled {
                return self.event(site, |to, memory, at| {
                    to.fill(memory, at, kind, address, length, byte);
                });
            }
        }
        let mut done = 0;
        while done < length {
            let from = address + done;
            // Records end at multiples of 8, within which a store persists whole.
            let next = (from + CHUNK_BYTES as u64) & !7;
            let chunk = (next - from).min(length - done);
            // SAFETY: as above.
            unsafe { self.chunk(site, kind, from, chunk as u32) };
            done += chunk;
        }
    }

    /// # Safety
    /// The bytes are readable; there are at most `CHUNK_BYTES` and 8.
    unsafe fn chunk(&mut self, site: u32, kind: StoreKind, address: u64, length: u32) {
        if !self.is_ready() {
            return;
        }
        if length as usize > SMALL_BYTES {
            let end = self.own.limit + SMALL_BYTES as u64;
            if self.header.cursor + u64::from(length) > end && !stream::turn(self) {
                return;
            }
        }
        let order = self.take_order();
        // SAFETY: the caller vouches for the bytes, the check above for room.
        self.record(site, order, |to, memory, at| unsafe {
            to.store_bytes(memory, at, kind, address, address as *const u8, length);
        });
    }
}

/// The byte that a range is filled with.
///
/// # Safety
/// The range is readable.
unsafe fn filled_with(address: u64, length: u64) -> Option<u8> {
    // SAFETY: the caller vouches for the range.
    unsafe {
        let start = address as *const u8;
        let byte = start.read();
        let pattern = u64::from(byte) * 0x0101_0101_0101_0101;
        let words = length / 8;
        for word in 0..words as usize {
            if start.cast::<u64>().add(word).read_unaligned() != pattern {
                return None;
            }
        }
        let tail = words * 8..length;
        tail.into_iter()
            .all(|at| start.add(at as usize).read() == byte)
            .then_some(byte)
    }
}

/// The state of the running thread if something is recorded.
pub fn recording_state<'a>() -> Option<&'a mut State> {
    process::is_recording().then(state)
}

/// The state of the running thread if persistent memory is tracked. It is dead in a process that
/// does not record.
pub fn tracking_state<'a>() -> Option<&'a mut State> {
    process::is_tracking().then(state)
}

fn state<'a>() -> &'a mut State {
    // SAFETY: the state of the running thread, which has it in hand nowhere else: this is called
    // from functions of libc that we stand in for, never from inside a hook.
    unsafe { &mut *crate::state::current() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_is_one_byte_over_the_whole_range() {
        for length in [32usize, 33, 39, 40, 4096] {
            let mut bytes = std::vec![7u8; length];
            let filled = |bytes: &[u8]| {
                // SAFETY: the slice is readable.
                unsafe { filled_with(bytes.as_ptr() as u64, bytes.len() as u64) }
            };
            assert_eq!(filled(&bytes), Some(7));
            for at in [0, 1, length / 2, length - 1] {
                bytes[at] = 8;
                assert_eq!(filled(&bytes), None, "{at} of {length}");
                bytes[at] = 7;
            }
        }
    }
}
