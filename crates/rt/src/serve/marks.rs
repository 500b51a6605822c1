//! Where a child marks what it loads: one bit for each 8 aligned bytes of a persistent file.
//!
//! What it has stored itself, all 8 bytes at once, is no longer what it found: loads of that are not
//! marked. Loads are reported before they happen and stores after, so that whatever other threads
//! do, a load that comes first is marked.
//!
//! The file of marks is made by the checker and mapped once, by the server, so that children have
//! it without a system call. Its head lists the persistent files by device and inode; the checker
//! may change the list between runs, so it is read when a file is mapped. Marks are only ever set,
//! by one atomic instruction: threads, signal handlers and forked processes may all do so.

use crate::config::Config;
use crate::memory;
use crate::process::fatal;
use crate::regions::{REGIONS, Region};
use crate::run::{Lossy, describe};
use crate::state::State;
use crate::sys::{Errno, File, PAGE_BYTES};
use crate::text::Text;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use crashpoint_abi::serve::{
    READS_FILES, READS_HEADER_BYTES, READS_MAGIC, ReadsFile, ReadsHeader, VERSION, notes,
};

static HEADER: AtomicPtr<ReadsHeader> = AtomicPtr::new(core::ptr::null_mut());
/// Bytes of the file of marks.
static LENGTH: AtomicU64 = AtomicU64::new(0);

/// The number that this process gave to each file of the list; 0: none.
static NUMBERS: [AtomicU32; READS_FILES] = [const { AtomicU32::new(0) }; READS_FILES];

/// Marks of eight words, in one byte.
const BYTES_PER_MARKS: u64 = 64;

fn map(path: &[u8]) -> Result<(usize, u64), Errno> {
    let mut text = Text::new()?;
    text.push(path);
    let path = text.path().ok_or(Errno(libc::EINVAL))?;
    let file = File::open(path, libc::O_RDWR)?;
    let length = file.status()?.st_size as u64;
    if length < READS_HEADER_BYTES as u64 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: no address is wanted.
    let place = unsafe { memory::file(&file, length as usize, 0) }?;
    Ok((place, length))
}

/// Maps the file of marks if there is one, else a page for notes. Before the first fork.
pub fn open(config: &Config) {
    if config.reads.is_empty() {
        match memory::shared(PAGE_BYTES) {
            Ok(page) => super::NOTES.store(page as *mut AtomicU32, Ordering::Relaxed),
            Err(_) => fatal(format_args!("no memory for the fork server")),
        }
        return;
    }
    let (place, length) = map(config.reads).unwrap_or_else(|error| {
        fatal(format_args!(
            "cannot mark loads in {} (CRASHPOINT_READS): {}",
            Lossy(config.reads),
            describe(error)
        ))
    });
    let header = place as *mut ReadsHeader;
    // SAFETY: mapped for good, and at least as long as the head.
    unsafe {
        if (*header).magic != READS_MAGIC || (*header).version != VERSION {
            fatal(format_args!(
                "{} (CRASHPOINT_READS) is no file of marks of version {VERSION}",
                Lossy(config.reads)
            ));
        }
        super::NOTES.store((&raw mut (*header).notes).cast(), Ordering::Relaxed);
    }
    LENGTH.store(length, Ordering::Relaxed);
    HEADER.store(header, Ordering::Relaxed);
}

pub fn are_open() -> bool {
    !HEADER.load(Ordering::Relaxed).is_null()
}

/// An entry of the list, as it is now.
fn entry(at: usize) -> Option<ReadsFile> {
    let header = HEADER.load(Ordering::Relaxed);
    if header.is_null() {
        return None;
    }
    // SAFETY: mapped for good. A checker that does not keep to the protocol may be writing; what is
    // read is checked before it is used.
    unsafe {
        let count = (&raw const (*header).file_count).read_volatile() as usize;
        let files = (&raw const (*header).files).cast::<ReadsFile>();
        (at < count.min(READS_FILES)).then(|| files.add(at).read_volatile())
    }
}

/// A file is mapped for the first time: its loads are marked if the checker asked for that. The
/// lock is held.
pub fn know(device: u64, inode: u64, number: u32) {
    let found = (0..READS_FILES)
        .find(|&at| entry(at).is_some_and(|file| (file.device, file.inode) == (device, inode)));
    match found {
        Some(at) => NUMBERS[at].store(number, Ordering::Release),
        None => {
            super::note(notes::UNMARKED_READS);
        }
    }
}

/// Where the marks of a region are.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkRange {
    /// The address of those of its first byte, and of the marks of what was stored.
    pub loaded: u64,
    pub stored: u64,
    /// How many bytes of the region have marks.
    pub span: u64,
}

pub fn of(region: &Region) -> MarkRange {
    let number = region.file as u32;
    let found = NUMBERS
        .iter()
        .position(|known| known.load(Ordering::Acquire) == number)
        .and_then(entry);
    let Some(file) = found else {
        return MarkRange::default();
    };
    let most = LENGTH.load(Ordering::Relaxed);
    let length = file.length.div_ceil(BYTES_PER_MARKS);
    let is_inside = |start: u64| start.checked_add(length).is_some_and(|end| end <= most);
    if !is_inside(file.offset) || !is_inside(file.stored) {
        return MarkRange::default();
    }
    let start = HEADER.load(Ordering::Relaxed) as u64 + region.offset / BYTES_PER_MARKS;
    let span = file
        .length
        .saturating_sub(region.offset)
        .min(region.length());
    MarkRange {
        loaded: start + file.offset,
        stored: start + file.stored,
        span,
    }
}

/// Assembly that may read anything.
pub fn opaque() {
    if are_open() {
        super::note(notes::UNMARKED_READS);
    }
}

/// Whether this is a thread of a process that does not record, but marks.
pub fn are_wanted(state: &State) -> bool {
    state.is_dead() && super::marks_loads()
}

/// A thread of a process that does not record has loaded something.
pub fn load(state: &mut State, address: u64, size: u64) {
    if !super::marks_loads() {
        return;
    }
    if state.is_persistent(address)
        && size <= state.own.region_base + state.own.region_span - address
    {
        return in_region(state, address, size);
    }
    let end = address.saturating_add(size);
    let mut at = address;
    while let Some(part) = REGIONS.first_in(at, end) {
        if state.is_persistent(part.base) {
            in_region(state, part.base, part.length());
        }
        at = part.end;
    }
}

/// An address is about to be handed to a function that may have no hooks. If it has, it enters
/// next, and `enter` looks; that costs nothing otherwise, since entering asks for room first.
pub fn escape(state: &mut State, site: u32, address: u64) {
    if !super::marks_loads() || !state.is_persistent(address) {
        return;
    }
    if state.own.escape_frame.is_null() {
        count_escaped(1);
    } else {
        // The last one did not enter.
        super::note(notes::UNMARKED_READS);
    }
    state.own.escape_frame = state.thread.frame;
    state.own.escape_site = site;
    state.thread.flow_limit = core::ptr::null_mut();
}

/// A function is entered: the one that was handed an address, or another one.
pub fn enter(state: &mut State) {
    let frame = state.own.escape_frame;
    if frame.is_null() {
        return;
    }
    state.own.escape_frame = core::ptr::null_mut();
    // SAFETY: a frame of the shadow stack, which stays.
    let is_callee =
        state.thread.frame == frame && unsafe { (*frame).site } == state.own.escape_site;
    if !is_callee {
        super::note(notes::UNMARKED_READS);
    }
    count_escaped(-1);
}

fn count_escaped(more: i32) {
    // SAFETY: mapped for good.
    if let Some(header) = unsafe { HEADER.load(Ordering::Relaxed).as_ref() } {
        header.escaped.fetch_add(more as u32, Ordering::Relaxed);
    }
}

/// Whether addresses have gone where nobody knows; forgets them.
pub fn take_escaped() -> bool {
    // SAFETY: mapped for good.
    unsafe { HEADER.load(Ordering::Relaxed).as_ref() }
        .is_some_and(|header| header.escaped.swap(0, Ordering::Relaxed) != 0)
}

/// A load from the region that was hit last.
fn in_region(state: &State, address: u64, size: u64) {
    let own = &state.own;
    let from = address.wrapping_sub(own.region_base);
    let end = from.saturating_add(size);
    if end > own.marks.span {
        // Beyond what the checker knows of the file.
        super::note(notes::UNMARKED_READS);
    }
    let end = end.min(own.marks.span);
    if from >= end {
        return;
    }
    let (loaded, stored) = (own.marks.loaded as *mut u8, own.marks.stored as *mut u8);
    // SAFETY: the marks reach as far as the span does.
    unsafe { mark(loaded, Some(stored), from / 8, (end - 1) / 8) };
}

/// A thread of a process that does not record has stored something. All of it: what may have been
/// left as it was must not be told here.
pub fn store(state: &mut State, address: u64, size: u64) {
    if size < 8 || !state.is_persistent(address) {
        return;
    }
    let own = &state.own;
    let from = address.wrapping_sub(own.region_base);
    // Whole words, up to the end of the region; what lies beyond it is left as it is.
    let end = from.saturating_add(size).min(own.marks.span) / 8;
    let first = from.div_ceil(8);
    if first < end {
        // SAFETY: the marks reach as far as the span does.
        unsafe { mark(own.marks.stored as *mut u8, None, first, end - 1) };
    }
}

/// Marks words from the first to the last, but for those that have marks elsewhere.
///
/// # Safety
/// There are marks for them all, in both places.
unsafe fn mark(marks: *mut u8, except: Option<*mut u8>, first: u64, last: u64) {
    for byte in first / 8..=last / 8 {
        let low = if byte == first / 8 { first % 8 } else { 0 };
        let high = if byte == last / 8 { last % 8 } else { 7 };
        let bits = (0xffu8 << low) & (0xffu8 >> (7 - high));
        // SAFETY: the caller vouches for it; others set bits by atomic instructions only.
        let at = |marks: *mut u8| unsafe { AtomicU8::from_ptr(marks.add(byte as usize)) };
        let marks = at(marks);
        // Most words are loaded more than once, and a locked instruction is not cheap.
        if marks.load(Ordering::Relaxed) & bits == bits {
            continue;
        }
        let bits = bits & !except.map_or(0, |except| at(except).load(Ordering::Relaxed));
        if bits != 0 {
            marks.fetch_or(bits, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_words_is_marked_exactly() {
        for first in 0..32u64 {
            for last in first..32 {
                let mut marks = [0u8; 4];
                // SAFETY: marks of 32 words.
                unsafe { mark(marks.as_mut_ptr(), None, first, last) };
                for word in 0..32 {
                    let is_marked = marks[word / 8] >> (word % 8) & 1 == 1;
                    let expected = (first..=last).contains(&(word as u64));
                    assert_eq!(is_marked, expected, "{word} in {first}..={last}");
                }
            }
        }
    }

    #[test]
    fn what_has_marks_elsewhere_gets_none() {
        let (mut marks, mut stored) = ([0u8; 2], [0b0001_0000, 0xff]);
        // SAFETY: marks of 16 words.
        unsafe { mark(marks.as_mut_ptr(), Some(stored.as_mut_ptr()), 3, 12) };
        assert_eq!(marks, [0b1110_1000, 0]);
    }
}
