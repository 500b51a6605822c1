//! Memory of the runtime's own, straight from the kernel.

use crate::sys::{self, Errno, Result};
use core::ops::{Deref, DerefMut};
use libc::c_int;

const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// # Safety
/// As the system call: with `MAP_FIXED` the range must be the caller's to replace.
pub unsafe fn map(
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: u64,
) -> Result<usize> {
    let (protection, flags) = (protection as usize, flags as usize);
    let arguments = [
        address,
        length,
        protection,
        flags,
        descriptor as usize,
        offset as usize,
    ];
    // SAFETY: passed on.
    unsafe { sys::syscall(libc::SYS_mmap, arguments) }
}

/// Fresh zeros, given pages as they are touched.
pub fn anonymous(length: usize) -> Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel picks a free range.
    unsafe { map(0, length, READ_WRITE, flags, -1, 0) }
}

/// Fresh zeros in place of what was there.
///
/// # Safety
/// The range must be the caller's to replace.
pub unsafe fn anonymous_at(place: usize, length: usize) -> Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: passed on.
    unsafe { map(place, length, READ_WRITE, flags, -1, 0) }
}

/// Fresh zeros that forked processes share.
pub fn shared(length: usize) -> Result<usize> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel picks a free range.
    unsafe { map(0, length, READ_WRITE, flags, -1, 0) }
}

/// The first bytes of a file, shared with it; at `place` if that is not 0.
///
/// # Safety
/// The range at `place` must be the caller's to replace.
pub unsafe fn file(file: &sys::File, length: usize, place: usize) -> Result<usize> {
    let fixed = if place == 0 { 0 } else { libc::MAP_FIXED };
    let flags = libc::MAP_SHARED | fixed;
    // SAFETY: passed on.
    unsafe { map(place, length, READ_WRITE, flags, file.number(), 0) }
}

/// # Safety
/// The range must be the caller's, and nobody may use it any more.
pub unsafe fn unmap(address: usize, length: usize) -> Result<()> {
    // SAFETY: passed on.
    unsafe { sys::syscall(libc::SYS_munmap, [address, length, 0, 0, 0, 0]) }.map(drop)
}

/// The length of a string with its end, at most so many bytes. Looks no further than it must, and
/// never faults behind the first page: what the string should be may be rubbish.
pub fn string_length(address: u64, most: u64) -> u64 {
    const CHUNK: usize = 256;
    let mut chunk = [0; CHUNK];
    let mut length = 0;
    while length < most {
        let at = address + length;
        let in_page = sys::PAGE_BYTES as u64 - at % sys::PAGE_BYTES as u64;
        let wanted = (most - length).min(in_page).min(CHUNK as u64) as usize;
        let bytes = &mut chunk[..wanted];
        if sys::read_own_memory(at, bytes) != Ok(wanted) {
            break;
        }
        if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
            return length + end as u64 + 1;
        }
        length += wanted as u64;
    }
    length.min(most)
}

/// A block of bytes for slow paths, instead of large arrays on a stack that may be a small
/// signal stack.
pub struct ScratchBlock {
    address: usize,
    length: usize,
}

impl ScratchBlock {
    pub fn new(length: usize) -> Result<ScratchBlock> {
        let length = length.next_multiple_of(sys::PAGE_BYTES);
        anonymous(length).map(|address| ScratchBlock { address, length })
    }

    /// Makes it longer; the address may change.
    pub fn grow(&mut self, length: usize) -> Result<()> {
        let length = length.next_multiple_of(sys::PAGE_BYTES);
        if length <= self.length {
            return Ok(());
        }
        let flags = libc::MREMAP_MAYMOVE as usize;
        let arguments = [self.address, self.length, length, flags, 0, 0];
        // SAFETY: the block is ours, and nothing borrows from it here.
        self.address = unsafe { sys::syscall(libc::SYS_mremap, arguments) }?;
        self.length = length;
        Ok(())
    }
}

impl Deref for ScratchBlock {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped for as long as `self` lives.
        unsafe { core::slice::from_raw_parts(self.address as *const u8, self.length) }
    }
}

impl DerefMut for ScratchBlock {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.address as *mut u8, self.length) }
    }
}

impl Drop for ScratchBlock {
    fn drop(&mut self) {
        // SAFETY: the block is ours and goes away.
        let _: core::result::Result<(), Errno> = unsafe { unmap(self.address, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_zero_at_the_limit_or_where_memory_does() {
        const PAGE: usize = sys::PAGE_BYTES;
        let place = anonymous(3 * PAGE).unwrap();
        // SAFETY: the pages are ours.
        unsafe {
            unmap(place + 2 * PAGE, PAGE).unwrap();
            core::ptr::write_bytes(place as *mut u8, b'x', 2 * PAGE);
            ((place + PAGE + 9) as *mut u8).write(0);
        }
        let length = |at: usize, most: u64| string_length((place + at) as u64, most);
        assert_eq!(length(PAGE, u64::MAX >> 1), 10);
        assert_eq!(length(PAGE - 5, u64::MAX >> 1), 15);
        assert_eq!(length(0, u64::MAX >> 1), PAGE as u64 + 10);
        assert_eq!(length(PAGE - 5, 7), 7);
        assert_eq!(length(PAGE + 9, 7), 1);
        assert_eq!(length(3, 0), 0);
        assert_eq!(length(PAGE + 10, u64::MAX >> 1), PAGE as u64 - 10);
        // SAFETY: as above.
        unsafe { unmap(place, 2 * PAGE) }.unwrap();
    }
}
