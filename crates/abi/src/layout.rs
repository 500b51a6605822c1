//! Layouts shared in memory between instrumented code and the runtime, and the head of a stream.

use core::mem::offset_of;
use core::sync::atomic::AtomicU32;

/// What instrumented code of one linked object asks before anything else. Zero is off.
#[repr(C)]
#[derive(Debug)]
pub struct Gate {
    /// A [`crate::Level`].
    pub level: u32,
    pub reserved: u32,
    /// Envelope of all persistent memory: an address is a candidate if
    /// `address - pm_base < pm_span`. The runtime then checks exactly.
    pub pm_base: u64,
    pub pm_span: u64,
    /// As `pm_span`, for loads; 0 unless loads are recorded.
    pub load_span: u64,
    /// What is recorded beyond stores, flushes and fences: bits of [`detail`]. 0 at level off.
    pub detail: u32,
    pub reserved_too: u32,
}

/// Bits of [`Gate::detail`], so that one test tells that there is nothing to do.
pub mod detail {
    /// The flow stream is written (levels flow and value).
    pub const FLOW: u32 = 1;
    /// Values too (level value).
    pub const VALUE: u32 = 2;
    /// Loads from persistent memory are recorded, at any level.
    pub const LOADS: u32 = 4;
}

/// What one object (translation unit) tells the runtime when it is loaded.
#[repr(C)]
pub struct ModuleHeader {
    pub abi_version: u32,
    /// Sites in the program model of this object.
    pub site_count: u32,
    /// Identity of the program model in [`crate::MODEL_SECTION`].
    pub model_id: [u8; 16],
    /// First site number; written by the runtime when the object registers. Never 0 after that.
    pub site_base: u32,
    pub callee_count: u32,
    pub gate: *mut Gate,
    /// One byte for each callee that is called by name: not 0 if its calls are recorded.
    pub watch: *mut u8,
    /// The names of those callees, each followed by a zero byte.
    pub callee_names: *const u8,
    /// Addresses of the model's globals, in its order; null for those without a fixed address.
    pub globals: *const *const u8,
    pub global_count: u32,
    pub reserved: u32,
}

/// One activation of an instrumented function on the shadow stack.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowFrame {
    /// The call this activation is making or made last; at first the site of the function itself.
    pub site: u32,
    /// Interned identity of the callers' sites, 0 until somebody asks. Owned by the runtime.
    pub context: u32,
}

/// The part of a thread's state that instrumented code touches. It lies in the first page of the
/// thread's stream file, so that a killed target leaves exact positions.
#[repr(C)]
#[derive(Debug)]
pub struct Thread {
    /// Top of the shadow stack: the running activation.
    pub frame: *mut ShadowFrame,
    /// Next free byte of the flow stream.
    pub flow_cursor: *mut u8,
    /// While `flow_cursor <= flow_limit`, [`crate::flow::ROOM_BYTES`] can be written.
    pub flow_limit: *mut u8,
    /// Flushes and non-temporal stores of this thread since its last fence.
    pub pending: u32,
    /// The last call that left instrumented code, to name who may have written unseen.
    pub external_site: u32,
}

/// Offsets that the instrumenter emits.
pub mod offsets {
    use super::*;

    pub const GATE_LEVEL: usize = offset_of!(Gate, level);
    pub const GATE_PM_BASE: usize = offset_of!(Gate, pm_base);
    pub const GATE_PM_SPAN: usize = offset_of!(Gate, pm_span);
    pub const GATE_LOAD_SPAN: usize = offset_of!(Gate, load_span);
    pub const GATE_DETAIL: usize = offset_of!(Gate, detail);
    pub const MODULE_SITE_BASE: usize = offset_of!(ModuleHeader, site_base);
    pub const THREAD_FRAME: usize = offset_of!(Thread, frame);
    pub const THREAD_FLOW_CURSOR: usize = offset_of!(Thread, flow_cursor);
    pub const THREAD_FLOW_LIMIT: usize = offset_of!(Thread, flow_limit);
    pub const THREAD_PENDING: usize = offset_of!(Thread, pending);
    pub const THREAD_EXTERNAL_SITE: usize = offset_of!(Thread, external_site);
    pub const FRAME_SITE: usize = offset_of!(ShadowFrame, site);
}

/// First bytes of every stream file.
pub const STREAM_MAGIC: [u8; 8] = *b"CRASHPT\n";

/// Bytes of one of the two windows through which a stream is written.
///
/// A writer fills one window, writes its content behind the records that the file already holds,
/// and goes on in the other window. Writing 128 KiB at a time costs a third of what faulting in
/// fresh pages of a mapped file does, and the windows are mapped from the file, so that nothing is
/// lost when the writer is killed.
pub const WINDOW_BYTES: usize = 128 << 10;

/// Where the windows lie in a stream file: behind the page of [`StreamHeader`].
pub const WINDOWS_OFFSET: usize = 4096;

/// Bytes before the first record: [`StreamHeader`] and the two windows.
pub const STREAM_HEADER_BYTES: usize = WINDOWS_OFFSET + 2 * WINDOW_BYTES;

/// What a stream file holds.
pub const STREAM_PM: u32 = 1;
pub const STREAM_FLOW: u32 = 2;

/// The first page of a stream file. Positions are live: the reader computes how far the stream
/// goes with [`position`], whatever ended the writer.
#[repr(C)]
#[derive(Debug)]
pub struct StreamHeader {
    pub magic: [u8; 8],
    pub version: u32,
    /// [`STREAM_PM`] or [`STREAM_FLOW`].
    pub kind: u32,
    pub process: u32,
    /// Number of the thread within the process, from 0; signal handlers have streams of their own.
    pub thread: u32,
    pub system_thread: u32,
    /// Not 0 if recording stopped at the byte limit.
    pub limit_reached: AtomicU32,
    /// Where the first window is mapped in the target (the second one lies behind it), and the
    /// place in the file of what is written to the first window.
    /// In the first window, `end of stream = window_offset + (cursor - window_address)`; a writer
    /// that ends in an orderly way ends there, with an empty window.
    pub window_address: u64,
    pub window_offset: u64,
    /// Address of the next free byte, in the target. In a flow stream the reader takes it from the
    /// `thread` part of the PM stream's header instead.
    pub cursor: u64,
    /// For the flow stream of the same thread: its window. 0 where there is none. An address of 0
    /// with an offset: recording has stopped, and the stream ends at the offset.
    pub flow_window_address: u64,
    pub flow_window_offset: u64,
    /// The place in the file of what is written to the second window, of both streams.
    pub second_window_offset: u64,
    pub flow_second_window_offset: u64,
}

/// How far a stream goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Records lie in the file from [`STREAM_HEADER_BYTES`] to here.
    pub file_end: u64,
    /// The records that follow them are still in a window: its place in the file and their length.
    /// No record straddles.
    pub window_start: usize,
    pub window_length: usize,
}

/// Interprets the positions of a [`StreamHeader`]. `None`: they contradict each other.
pub fn position(
    window_address: u64,
    window_offset: u64,
    second_window_offset: u64,
    cursor: u64,
) -> Option<Position> {
    if window_address == 0 && window_offset != 0 {
        return Some(Position {
            file_end: window_offset,
            window_start: WINDOWS_OFFSET,
            window_length: 0,
        });
    }
    let length = usize::try_from(cursor.checked_sub(window_address)?).ok()?;
    let (index, file_end) = match length / WINDOW_BYTES {
        0 => (0, window_offset),
        1 => (1, second_window_offset),
        _ => return None,
    };
    Some(Position {
        file_end,
        window_start: WINDOWS_OFFSET + index * WINDOW_BYTES,
        window_length: length - index * WINDOW_BYTES,
    })
}

/// Offset of [`Thread`] in the first page of a PM stream.
pub const THREAD_OFFSET: usize = 512;

/// The file in the folder of traces whose page numbers the events of all threads, and where in it the
/// next number lies, a little-endian `u64`.
pub const ORDER_FILE: &str = "order";
pub const ORDER_NEXT_AT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_in_either_window_tells_where_the_stream_ends() {
        let at = |cursor| position(0x10_0000, 5000, 6000, cursor);
        let end = |file_end, window_start, window_length| {
            Some(Position {
                file_end,
                window_start,
                window_length,
            })
        };
        assert_eq!(at(0x10_0000), end(5000, WINDOWS_OFFSET, 0));
        assert_eq!(at(0x10_0000 + 7), end(5000, WINDOWS_OFFSET, 7));
        let second = WINDOWS_OFFSET + WINDOW_BYTES;
        let bytes = WINDOW_BYTES as u64;
        assert_eq!(at(0x10_0000 + bytes), end(6000, second, 0));
        let last = WINDOW_BYTES - 1;
        assert_eq!(at(0x10_0000 + 2 * bytes - 1), end(6000, second, last));
        assert_eq!(at(0x10_0000 + 2 * bytes), None);
        assert_eq!(at(0xf_ffff), None);
        assert_eq!(position(0, 5000, 0, 77), end(5000, WINDOWS_OFFSET, 0));
        assert_eq!(position(0, 0, 0, 1 << 40), None);
    }

    #[test]
    fn the_header_and_the_thread_share_a_page_without_overlap() {
        assert!(size_of::<StreamHeader>() <= THREAD_OFFSET);
        assert!(THREAD_OFFSET + size_of::<Thread>() <= WINDOWS_OFFSET);
    }
}
