//! Streams: how records leave the process.
//!
//! A stream is written through two windows that are mapped from its file (see
//! [`crashpoint_abi::layout`]). When one is full, its content is written behind the records that
//! the file already holds, and the other one takes over by one store to the cursor: a process that
//! is killed at any moment leaves positions that fit. The windows exist on the disk from the start,
//! so that a full disk shows as an error of `write`, never as a signal in the target.

use crate::memory;
use crate::process::{self, Stop};
use crate::state::State;
use crate::sys::{self, Errno, File};
use core::sync::atomic::{Ordering, compiler_fence};
use crashpoint_abi::layout::{
    STREAM_FLOW, STREAM_HEADER_BYTES, STREAM_MAGIC, STREAM_PM, WINDOW_BYTES, WINDOWS_OFFSET,
};
use crashpoint_abi::record::MAX_HEAD_BYTES;
use crashpoint_abi::{StreamHeader, TRACE_VERSION, flow};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    Pm,
    Flow,
}

/// Most bytes of one store record. Longer ranges become several records.
pub const CHUNK_BYTES: usize = 16 << 10;

/// Records with this many bytes besides their head fit wherever `cursor <= limit`.
pub const SMALL_BYTES: usize = 64;

/// Distance of the limit of a PM window from its end.
const PM_RESERVE: usize = MAX_HEAD_BYTES + SMALL_BYTES;

/// A flow window keeps room for what may be written after one check, and for the full width of
/// the last write.
const FLOW_RESERVE: usize = flow::ROOM_BYTES + 64;

/// Opens the files of a state and maps them, over what was there. False: nothing is recorded.
pub fn begin(state: &mut State, number: u32) -> bool {
    if !process::is_recording() {
        return false;
    }
    let begun = make(state, StreamKind::Pm).and_then(|file| {
        // SAFETY: the place is the state's own.
        let mapped = replace(state, |place, length| unsafe {
            memory::file(&file, length, place)
        })?;
        start_pm(state, number);
        Ok(mapped)
    });
    let begun = begun.and_then(|_| {
        if process::level() < crashpoint_abi::Level::Flow {
            use_scratch(state);
            return Ok(());
        }
        let file = make(state, StreamKind::Flow)?;
        // SAFETY: no address is wanted.
        let place = unsafe { memory::file(&file, STREAM_HEADER_BYTES, 0) }?;
        start_flow(state, place);
        Ok(())
    });
    if let Err(error) = begun {
        process::stop(Stop::File(error));
    }
    begun.is_ok()
}

/// Takes a state out of its files, which keep what they have. In a forked child they are the
/// parent's: nothing of the state may be changed before this.
pub fn detach(state: &mut State) {
    if state.header.window_address != 0 {
        leave_file(state);
        release_flow(state);
    }
}

/// Puts memory of our own where a state's file is mapped.
fn leave_file(state: &mut State) {
    // SAFETY: the place is the state's own.
    let replaced = replace(state, |place, length| unsafe {
        memory::anonymous_at(place, length)
    });
    if replaced.is_err() {
        process::fatal(format_args!("no memory for the state of a thread"));
    }
    state.header.window_address = 0;
}

/// Maps something else where a state lies, and keeps the state.
fn replace(
    state: &mut State,
    map: impl FnOnce(usize, usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let place = (&raw mut *state) as usize;
    // SAFETY: the state is plain data. It is put back into a page that is mapped either way.
    unsafe {
        let saved = core::ptr::read(state);
        let mapped = map(place, STREAM_HEADER_BYTES);
        core::ptr::write(state, saved);
        mapped
    }
}

fn make(state: &State, kind: StreamKind) -> Result<File, Errno> {
    let path = state.path(kind).ok_or(Errno(libc::ENAMETOOLONG))?;
    let file = File::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC)?;
    if STREAM_HEADER_BYTES as u64 > sys::file_size_limit() {
        return Err(Errno(libc::EFBIG));
    }
    file.allocate(STREAM_HEADER_BYTES as u64)?;
    Ok(file)
}

fn fill_header(header: &mut StreamHeader, kind: u32, number: u32) {
    header.version = TRACE_VERSION;
    header.kind = kind;
    header.process = sys::process_id();
    header.thread = number;
    header.system_thread = sys::thread_id();
    header.limit_reached.store(0, Ordering::Relaxed);
    header.window_offset = STREAM_HEADER_BYTES as u64;
    header.second_window_offset = STREAM_HEADER_BYTES as u64;
    // Without the magic number, a reader takes the stream for one that was never begun.
    compiler_fence(Ordering::SeqCst);
    header.magic = STREAM_MAGIC;
}

fn start_pm(state: &mut State, number: u32) {
    let address = (&raw const *state) as u64 + WINDOWS_OFFSET as u64;
    let header = &mut state.header;
    header.window_address = address;
    header.cursor = address;
    fill_header(header, STREAM_PM, number);
    state.own.limit = address + (WINDOW_BYTES - PM_RESERVE) as u64;
}

fn start_flow(state: &mut State, place: usize) {
    let address = (place + WINDOWS_OFFSET) as u64;
    // SAFETY: `make` has mapped it, and it is ours.
    let header = unsafe { &mut *(place as *mut StreamHeader) };
    header.window_address = address;
    header.cursor = address;
    fill_header(header, STREAM_FLOW, state.header.thread);
    state.header.flow_window_offset = STREAM_HEADER_BYTES as u64;
    state.header.flow_second_window_offset = STREAM_HEADER_BYTES as u64;
    state.thread.flow_cursor = address as *mut u8;
    state.thread.flow_limit = (address + (WINDOW_BYTES - FLOW_RESERVE) as u64) as *mut u8;
    compiler_fence(Ordering::SeqCst);
    state.header.flow_window_address = address;
    state.own.flow = 1;
}

/// Lets flow go where nobody reads it.
fn use_scratch(state: &mut State) {
    state.own.flow = 0;
    // SAFETY: the arena lives as long as the state.
    let scratch = unsafe { (&raw mut (*state.own.arena).scratch).cast::<u8>() };
    state.thread.flow_cursor = scratch;
    // SAFETY: within the scratch, with room for one group behind it.
    state.thread.flow_limit = unsafe { scratch.add(flow::ROOM_BYTES - 64) };
}

/// Nothing more is recorded for this state. What stands in its PM window stays readable; flow ends
/// with what the file holds. The state leaves its files: it lives on, and the files are done.
#[cold]
pub fn give_up(state: &mut State) {
    state.header.limit_reached.store(1, Ordering::Relaxed);
    let flow = state.header.flow_window_address;
    if flow != 0 {
        state.header.flow_window_offset = Window::flow(state).written_to;
        state.header.flow_window_address = 0;
    }
    if state.header.window_address != 0 {
        leave_file(state);
    }
    state.header.flow_window_address = flow;
    release_flow(state);
    use_scratch(state);
    state.own.limit = 0;
    // Never at or below the limit again.
    state.header.cursor = state.header.cursor.max(1);
}

/// The window that a cursor is in.
struct Window {
    start: u64,
    length: usize,
    /// Where its content goes in the file.
    written_to: u64,
    is_second: bool,
}

impl Window {
    fn new(address: u64, offsets: [u64; 2], cursor: u64) -> Window {
        let is_second = cursor - address >= WINDOW_BYTES as u64;
        let start = address + if is_second { WINDOW_BYTES as u64 } else { 0 };
        Window {
            start,
            length: (cursor - start) as usize,
            written_to: offsets[usize::from(is_second)],
            is_second,
        }
    }

    fn pm(state: &State) -> Window {
        let header = &state.header;
        let offsets = [header.window_offset, header.second_window_offset];
        Window::new(header.window_address, offsets, header.cursor)
    }

    fn flow(state: &State) -> Window {
        let header = &state.header;
        let offsets = [header.flow_window_offset, header.flow_second_window_offset];
        let cursor = state.thread.flow_cursor as u64;
        Window::new(header.flow_window_address, offsets, cursor)
    }

    /// Writes the content to the file; returns where the stream ends now.
    fn write_out(&self, state: &State, kind: StreamKind) -> Result<u64, Stop> {
        let end = self.written_to + self.length as u64;
        if self.length == 0 {
            return Ok(end);
        }
        if !process::charge(self.length as u64) || end > sys::file_size_limit() {
            return Err(Stop::Limit);
        }
        let path = state.path(kind).ok_or(Stop::File(Errno(libc::ENOENT)))?;
        let file = File::open(path, libc::O_WRONLY).map_err(Stop::File)?;
        // SAFETY: the window is mapped, and its owner waits.
        let bytes = unsafe { core::slice::from_raw_parts(self.start as *const u8, self.length) };
        file.write_at(bytes, self.written_to).map_err(|error| {
            // Half of a window is no use: its records stand whole in the window.
            let _ = file.truncate(self.written_to);
            Stop::File(error)
        })?;
        Ok(end)
    }

    /// Where the other window of the two at `address` begins; its place in the file, one of the two
    /// `offsets`, becomes `end`.
    fn start_of_other(&self, address: u64, offsets: [&mut u64; 2], end: u64) -> u64 {
        let other = usize::from(!self.is_second);
        let [first, second] = offsets;
        *(if self.is_second { first } else { second }) = end;
        address + (other * WINDOW_BYTES) as u64
    }
}

/// Writes a full window to its file; returns where the stream ends now. None: nothing more is
/// recorded.
fn finish(state: &mut State, window: &Window, kind: StreamKind) -> Option<u64> {
    let written = if process::is_recording() {
        window.write_out(state, kind)
    } else {
        Err(Stop::Limit)
    };
    match written {
        Ok(end) => Some(end),
        Err(reason) => {
            process::stop(reason);
            give_up(state);
            None
        }
    }
}

/// Goes on in the other PM window. False: nothing more is recorded.
#[cold]
pub fn turn(state: &mut State) -> bool {
    if state.is_dead() {
        return false;
    }
    let window = Window::pm(state);
    let Some(end) = finish(state, &window, StreamKind::Pm) else {
        return false;
    };
    let header = &mut state.header;
    let offsets = [&mut header.window_offset, &mut header.second_window_offset];
    let start = window.start_of_other(header.window_address, offsets, end);
    compiler_fence(Ordering::SeqCst);
    header.cursor = start;
    state.own.limit = start + (WINDOW_BYTES - PM_RESERVE) as u64;
    true
}

/// Goes on in the other flow window, or at the start of the scratch.
#[cold]
pub fn turn_flow(state: &mut State) {
    if state.own.flow == 0 {
        return use_scratch(state);
    }
    let window = Window::flow(state);
    let Some(end) = finish(state, &window, StreamKind::Flow) else {
        return;
    };
    let header = &mut state.header;
    let offsets = [
        &mut header.flow_window_offset,
        &mut header.flow_second_window_offset,
    ];
    let start = window.start_of_other(header.flow_window_address, offsets, end);
    compiler_fence(Ordering::SeqCst);
    state.thread.flow_cursor = start as *mut u8;
    state.thread.flow_limit = (start + (WINDOW_BYTES - FLOW_RESERVE) as u64) as *mut u8;
}

/// Brings everything into the file and leaves the first windows empty: the form that streams have
/// after an orderly end. More may follow nevertheless.
pub fn settle(state: &mut State) {
    for _ in 0..2 {
        let window = Window::pm(state);
        if state.is_dead() || (window.length == 0 && !window.is_second) || !turn(state) {
            break;
        }
    }
    for _ in 0..2 {
        if state.own.flow == 0 {
            break;
        }
        let window = Window::flow(state);
        if window.length == 0 && !window.is_second {
            break;
        }
        turn_flow(state);
    }
}

/// Unmaps the flow stream. The caller sees to it that flow goes elsewhere.
pub fn release_flow(state: &mut State) {
    let address = state.header.flow_window_address as usize;
    if address != 0 {
        // SAFETY: the mapping is ours.
        let _ = unsafe { memory::unmap(address - WINDOWS_OFFSET, STREAM_HEADER_BYTES) };
        state.header.flow_window_address = 0;
    }
}
