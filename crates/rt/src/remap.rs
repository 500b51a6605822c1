//! `mremap`, in place of libc's.
//!
//! What grows in place is recorded as a further mapping of the rest, what shrinks as the unmapping
//! of the rest; what moves appears at its new place before it vanishes from the old one, so that
//! the file does not look unmapped in between.

use crate::events;
use crate::files::Index;
use crate::lock;
use crate::mapping::{appear, fail, forget, pages, touches_persistent};
use crate::modules;
use crate::placement;
use crate::process;
use crate::regions::REGIONS;
use crate::serve::{self, private};
use crate::shadow;
use crate::sys::{self, Result};
use core::ffi::c_void;
use crashpoint_abi::serve::notes;
use libc::{c_int, size_t};

/// What the target asks of `mremap`.
struct Remap {
    old: usize,
    old_length: usize,
    new_length: usize,
    flags: c_int,
    new: usize,
}

impl Remap {
    /// # Safety
    /// As `mremap`.
    unsafe fn run(&self, flags: c_int, new: usize) -> Result<usize> {
        let arguments = [
            self.old,
            self.old_length,
            self.new_length,
            flags as usize,
            new,
            0,
        ];
        // SAFETY: passed on.
        unsafe { sys::syscall(libc::SYS_mremap, arguments) }
    }

    fn moves_only_if_needed(&self) -> bool {
        self.flags == libc::MREMAP_MAYMOVE
            && self.old_length != 0
            && self.new_length > self.old_length
    }

    /// Grows in place, or moves to a place of our choice: the kernel's would lie far away from
    /// all other persistent memory.
    fn run_placed(&self) -> Result<usize> {
        if self.moves_only_if_needed() {
            // SAFETY: nothing moves.
            if let Ok(address) = unsafe { self.run(0, 0) } {
                return Ok(address);
            }
            let length = self.new_length as u64;
            if let Some(place) = placement::free_place(placement::AREA_START, length) {
                let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                // SAFETY: the place is in our area, where nothing but persistent memory is.
                if let Ok(address) = unsafe { self.run(flags, place as usize) } {
                    return Ok(address);
                }
            }
        }
        // SAFETY: what the target asked for.
        unsafe { self.run(self.flags, self.new) }
    }
}

fn remap(remap: &Remap) -> Result<usize> {
    let is_fixed = remap.flags & libc::MREMAP_FIXED != 0;
    let source_length = remap.old_length.max(1);
    let concerns_us = process::is_tracking()
        && (touches_persistent(remap.old, source_length)
            || (is_fixed && touches_persistent(remap.new, remap.new_length)));
    if !concerns_us {
        // SAFETY: what the target asked for.
        return unsafe { remap.run(remap.flags, remap.new) };
    }
    let mut process = lock::lock();
    let Some(state) = events::tracking_state() else {
        // SAFETY: what the target asked for.
        return unsafe { remap.run(remap.flags, remap.new) };
    };
    if process::is_serving() && remap.old_length == 0 {
        serve::note(notes::MAPPED_AGAIN);
    }
    let (old_base, old_end) = pages(remap.old, remap.old_length);
    shadow::compare_range(&process, state, old_base, old_end);
    if remap.new_length < remap.old_length {
        let kept = pages(remap.old, remap.new_length).1;
        private::leaves(&mut process, kept, old_end);
    }
    if is_fixed {
        let (base, end) = pages(remap.new, remap.new_length);
        private::leaves(&mut process, base, end);
        shadow::compare_range(&process, state, base, end);
    }
    let source = REGIONS.find(old_base).0;
    let address = match source {
        Some(_) => remap.run_placed()?,
        // SAFETY: what the target asked for.
        None => unsafe { remap.run(remap.flags, remap.new) }?,
    };
    let (base, end) = pages(address, remap.new_length);
    if base == old_base && old_base != old_end {
        forget(state, end.min(old_end), old_end);
    } else if is_fixed {
        forget(state, base, end);
    }
    if let Some(source) = source {
        let from = if base == old_base && old_base != old_end {
            old_end
        } else {
            base
        };
        if from < end {
            let offset = source.offset + (old_base - source.base) + (from - base);
            let index = Index::of_number(source.file);
            appear(&mut process, state, index, (from, end), offset);
        }
    }
    let stays = remap.flags & libc::MREMAP_DONTUNMAP != 0;
    if base != old_base && !stays {
        forget(state, old_base, old_end);
    }
    modules::update_gates(&process);
    Ok(address)
}

/// # Safety
/// As `mremap`; the last argument counts only with `MREMAP_FIXED` or `MREMAP_DONTUNMAP`. (It is
/// variadic in C; callers pass it in the same register.)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_length: size_t,
    new_length: size_t,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    let request = Remap {
        old: old as usize,
        old_length,
        new_length,
        flags,
        new: new as usize,
    };
    match remap(&request) {
        Ok(address) => address as *mut c_void,
        Err(error) => fail(error, libc::MAP_FAILED),
    }
}
