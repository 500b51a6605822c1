//! A second image of persistent memory, to notice what uninstrumented code writes.
//!
//! The shadow of a file holds what the recording knows: the content when the file was first mapped
//! and every recorded store since. Where memory differs from it, somebody wrote unseen: a library
//! that is not instrumented, the kernel on behalf of `read`, assembly that we do not model. The
//! difference is recorded as one store of kind `Foreign`, by whatever call left instrumented code
//! last, and the shadow is brought up to date, so that it is reported once. Lines are compared when
//! they are flushed, whole regions when they are synchronised, unmapped, forked or left by exit.
//!
//! The shadow belongs to the file, not to the mapping: two mappings of one file have one. It is
//! shared with forked children, as the file is.
//!
//! **Threads.** A store and its hook are two steps. Between them, another thread that flushes the
//! line sees a difference that is none. So when there are other threads, two rules hold:
//!
//! - A hook copies to the shadow what memory holds, first of all; then it takes its order number
//!   (an instruction with `lock`, which is a fence), looks again and repeats if memory has changed.
//!   The last hook to write a byte thereby leaves in the shadow what memory holds, in whatever
//!   order two threads stored and their hooks ran.
//! - A difference counts only if memory and shadow both stay as they are until every other thread
//!   has run on for some microseconds or waits in the kernel (see `others`), so that none is still
//!   between a store and its hook. If a thread does not get to run, the difference is left for the
//!   next comparison. A store that another process makes through a mapping of its own is foreign
//!   to this one, unless they are parent and child.
//!
//! A signal handler may have interrupted its own thread between a store and its hook, so that
//! nothing is compared in handlers.
//!
//! **Not seen:** a foreign write that does not change a byte, one that is overwritten before the
//! line is flushed, and one to a page that the kernel has taken away again before the end.

use crate::lock;
use crate::others;
use crate::state::State;
use crate::sys;
use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8,
};
use core::sync::atomic::{Ordering, compiler_fence, fence};
use crashpoint_abi::CACHE_LINE_BYTES;
use crashpoint_abi::record::StoreKind;

/// Puts a stored value into the shadow.
///
/// # Safety
/// `size` bytes are writable at `to`.
#[inline(always)]
pub unsafe fn put(to: u64, value: u64, size: u32) {
    // SAFETY: the caller vouches for it.
    unsafe {
        match size {
            8 => (to as *mut u64).write_unaligned(value),
            4 => (to as *mut u32).write_unaligned(value as u32),
            2 => (to as *mut u16).write_unaligned(value as u16),
            _ => (to as *mut u8).write(value as u8),
        }
    }
}

/// # Safety
/// `size` bytes are readable.
#[inline(always)]
unsafe fn get(from: u64, size: u32) -> u64 {
    // Other threads may write: each call reads memory.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the caller vouches for it.
    unsafe {
        match size {
            8 => (from as *const u64).read_unaligned(),
            4 => (from as *const u32).read_unaligned().into(),
            2 => (from as *const u16).read_unaligned().into(),
            _ => (from as *const u8).read().into(),
        }
    }
}

/// Copies a range to the shadow.
///
/// # Safety
/// The range is readable, its shadow writable.
#[inline(always)]
pub unsafe fn copy(from: u64, to: u64, length: u64) {
    // SAFETY: the caller vouches for it; a shadow never overlaps its region.
    unsafe {
        core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, length as usize);
    }
}

/// Copies what a store left behind, while other threads may store too. To be followed by a fence
/// and [`confirm`].
///
/// # Safety
/// `size` bytes are readable at the address and writable in the shadow.
#[inline(always)]
pub unsafe fn follow(address: u64, delta: u64, size: u32) -> u64 {
    // SAFETY: the caller vouches for it.
    unsafe {
        let seen = get(address, size);
        put(address.wrapping_add(delta), seen, size);
        seen
    }
}

/// Makes sure that what [`follow`] saw was not overtaken by another thread's store, whose hook may
/// have run in between.
///
/// # Safety
/// As `follow`.
#[inline(always)]
pub unsafe fn confirm(address: u64, delta: u64, size: u32, mut seen: u64) {
    // SAFETY: the caller vouches for it.
    unsafe {
        loop {
            let now = get(address, size);
            if now == seen {
                return;
            }
            seen = now;
            put(address.wrapping_add(delta), seen, size);
            fence(Ordering::SeqCst);
        }
    }
}

/// Whether the cache line of an address differs from its shadow.
///
/// # Safety
/// The line is readable, and its shadow.
#[inline(always)]
pub unsafe fn line_differs(address: u64, delta: u64) -> bool {
    let line = address & !(CACHE_LINE_BYTES - 1);
    let shadow = line.wrapping_add(delta);
    // SAFETY: the caller vouches for 64 bytes at both.
    unsafe {
        let equal = |at: u64| -> __m128i {
            let memory = _mm_loadu_si128((line + at) as *const __m128i);
            let known = _mm_loadu_si128((shadow + at) as *const __m128i);
            _mm_cmpeq_epi8(memory, known)
        };
        let low = _mm_and_si128(equal(0), equal(16));
        let high = _mm_and_si128(equal(32), equal(48));
        _mm_movemask_epi8(_mm_and_si128(low, high)) != 0xffff
    }
}

/// How often a difference is looked at before other threads are waited for.
const LOOKS: u32 = 64;

/// Records that somebody wrote to a cache line unseen.
#[cold]
#[inline(never)]
pub fn foreign_line(state: &mut State, address: u64) {
    if !state.own.outer.is_null() {
        return;
    }
    let line = address & !(CACHE_LINE_BYTES - 1);
    let shadow = line.wrapping_add(state.own.shadow_delta);
    // SAFETY: a cache line of persistent memory and its shadow.
    let read = || unsafe { (read_line(line), read_line(shadow)) };
    let seen = read();
    if !state.is_alone() {
        for _ in 0..LOOKS {
            core::hint::spin_loop();
            if read() != seen {
                return;
            }
        }
        if !others::let_pass() || read() != seen {
            return;
        }
    }
    let (memory, known) = seen;
    foreign_runs(state, line, &memory, &known);
    crate::libraries::tell_once();
}

type Line = [u8; CACHE_LINE_BYTES as usize];

/// # Safety
/// The line is readable.
unsafe fn read_line(at: u64) -> Line {
    // Other threads may write: each call reads memory.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the caller vouches for it.
    unsafe { (at as *const Line).read_unaligned() }
}

/// Differences with fewer equal bytes between them are one.
const GAP_BYTES: usize = 8;

/// The runs of bytes that differ, joined over small gaps.
pub fn runs<'a>(
    memory: &'a [u8],
    known: &'a [u8],
) -> impl Iterator<Item = core::ops::Range<usize>> + 'a {
    let length = memory.len().min(known.len());
    let mut at = 0;
    core::iter::from_fn(move || {
        let start = (at..length).find(|&at| memory[at] != known[at])?;
        let mut end = start + 1;
        at = end;
        while at < length && at - end < GAP_BYTES {
            if memory[at] != known[at] {
                end = at + 1;
            }
            at += 1;
        }
        at = end;
        Some(start..end)
    })
}

/// Records each run of differing bytes and brings the shadow up to date.
fn foreign_runs(state: &mut State, base: u64, memory: &[u8], known: &[u8]) {
    let site = state.thread.external_site;
    for run in runs(memory, known) {
        let (address, length) = (base + run.start as u64, run.len() as u64);
        state.range(site, StoreKind::Foreign, address, length);
    }
}

/// Compares pages with their shadow and records what differs. `memory` and `known` are buffers of
/// one length, a multiple of the page size.
pub struct Comparison<'a> {
    pub memory: &'a mut [u8],
    pub known: &'a mut [u8],
}

impl Comparison<'_> {
    /// Compares a range of a region that has a shadow; true if something differed.
    pub fn compare(&mut self, state: &mut State, base: u64, end: u64, shadow: u64) -> bool {
        let mut found = false;
        let mut at = base;
        while at < end {
            let length = (end - at).min(self.memory.len() as u64) as usize;
            let from = shadow + (at - base);
            // A page that cannot be read (made inaccessible, or cut off the file) is passed over.
            if sys::read_own_memory(at, &mut self.memory[..length]) != Ok(length) {
                at += sys::PAGE_BYTES as u64;
                continue;
            }
            // SAFETY: the shadow spans the region.
            let known = unsafe { core::slice::from_raw_parts(from as *const u8, length) };
            if self.memory[..length] != *known && self.settled(state, at, from, length) {
                foreign_runs(state, at, &self.memory[..length], &self.known[..length]);
                found = true;
            }
            at += length as u64;
        }
        found
    }

    /// Leaves in the buffers a difference that counts; false if there is none.
    fn settled(&mut self, state: &State, at: u64, from: u64, length: usize) -> bool {
        let known = &mut self.known[..length];
        // SAFETY: the shadow spans the region.
        let shadow = unsafe { core::slice::from_raw_parts(from as *const u8, length) };
        known.copy_from_slice(shadow);
        if state.is_alone() {
            return true;
        }
        if !others::let_pass() {
            return false;
        }
        // Only lines that stay as they are count.
        let mut now = [0; 64];
        let mut differs = false;
        for start in (0..length).step_by(now.len()) {
            let line = start..(start + now.len()).min(length);
            let size = line.len();
            let memory = &mut self.memory[line.clone()];
            let known = &mut self.known[line.clone()];
            if memory == known {
                continue;
            }
            let read = sys::read_own_memory(at + start as u64, &mut now[..size]);
            if read == Ok(size) && now[..size] == *memory && shadow[line] == *known {
                differs = true;
            } else {
                known.copy_from_slice(memory);
            }
        }
        differs
    }
}

/// Memory for a comparison.
pub fn with_buffers<R>(then: impl FnOnce(Comparison<'_>) -> R) -> Option<R> {
    let mut buffers = crate::memory::ScratchBlock::new(2 * BUFFER_BYTES).ok()?;
    let (memory, known) = buffers.split_at_mut(BUFFER_BYTES);
    Some(then(Comparison { memory, known }))
}

const BUFFER_BYTES: usize = 64 << 10;

/// Compares the persistent memory in a range with what is known of it. `_proof`: regions do not
/// change meanwhile.
pub fn compare_range(_proof: &lock::Guard, state: &mut State, base: u64, end: u64) {
    if !state.own.outer.is_null() || crate::process::is_serving() {
        return;
    }
    let mut at = base;
    let mut found = false;
    let _ = with_buffers(|mut comparison| {
        while let Some(part) = crate::regions::REGIONS.first_in(at, end) {
            if part.shadow != 0 {
                crate::pagemap::each_present(part.base, part.end, |from, to| {
                    let shadow = part.shadow + (from - part.base);
                    found |= comparison.compare(state, from, to, shadow);
                });
            }
            at = part.end;
        }
    });
    if found {
        crate::libraries::tell_once();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn runs_are_exact_and_joined_over_small_gaps() {
        let known = [0u8; 64];
        let with = |places: &[usize]| -> Vec<(usize, usize)> {
            let mut memory = known;
            for &at in places {
                memory[at] = 1;
            }
            runs(&memory, &known)
                .map(|run| (run.start, run.end))
                .collect()
        };
        assert_eq!(with(&[]), []);
        assert_eq!(with(&[0]), [(0, 1)]);
        assert_eq!(with(&[63]), [(63, 64)]);
        assert_eq!(with(&[3, 5, 12]), [(3, 13)]);
        assert_eq!(with(&[3, 12]), [(3, 4), (12, 13)]);
        assert_eq!(with(&[3, 11]), [(3, 12)]);
        assert_eq!(with(&[0, 20, 40]), [(0, 1), (20, 21), (40, 41)]);
    }

    #[test]
    fn a_line_differs_in_any_byte() {
        #[repr(align(64))]
        struct Lines([Line; 2]);
        let mut lines = Lines([[7; 64]; 2]);
        let differs = |lines: &Lines| {
            let base = lines.0.as_ptr() as u64;
            // SAFETY: two lines that lie side by side.
            unsafe { line_differs(base + 5, 64) }
        };
        assert!(!differs(&lines));
        for at in 0..64 {
            lines.0[1][at] = 8;
            assert!(differs(&lines), "{at}");
            lines.0[1][at] = 7;
        }
    }
}
