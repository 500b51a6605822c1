//! One stream of one thread: its header, how far it goes, and its records.

use crate::mapped::Bytes;
use crate::{OpenErrorKind, ProblemKind, Statistics};
use crashpoint_abi::layout::{
    Position, STREAM_FLOW, STREAM_HEADER_BYTES, STREAM_MAGIC, STREAM_PM, THREAD_OFFSET,
    WINDOWS_OFFSET, offsets, position,
};
use crashpoint_abi::record::{self, DecodeError, Memory, Payload, Record};
use crashpoint_abi::{StreamHeader, TRACE_VERSION};
use std::mem::offset_of;
use std::ops::Range;

/// Order numbers may go back this much: processes that join a recording unannounced race for the
/// counter for an instant, see the runtime. More is damage.
const ORDER_RACE: u64 = 64;

/// What a header says, as far as it can be believed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    pub(crate) system_thread: u32,
    pub(crate) limit_reached: bool,
    /// How far the PM stream goes, and the flow stream of the same thread.
    pub(crate) pm: End,
    pub(crate) flow: End,
}

/// How far a stream goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing was ever written.
    #[default]
    Empty,
    At(Position),
    /// The positions contradict each other; this one is where the file should end.
    Unknown(u64),
}

/// The first page of a stream, or `None` if it was never written.
pub(crate) fn header(bytes: &[u8]) -> Result<Option<Header>, OpenErrorKind> {
    let magic = &bytes[..bytes.len().min(STREAM_MAGIC.len())];
    if !STREAM_MAGIC.starts_with(magic) && magic.iter().any(|byte| *byte != 0) {
        return Err(OpenErrorKind::Foreign {
            found: magic.to_vec(),
        });
    }
    let Some(page) = bytes.get(..WINDOWS_OFFSET) else {
        return Ok(None);
    };
    if magic != STREAM_MAGIC {
        return Ok(None);
    }
    let version = word32(page, offset_of!(StreamHeader, version));
    if version != TRACE_VERSION {
        return Err(OpenErrorKind::Version {
            found: version.into(),
            offset: offset_of!(StreamHeader, version) as u64,
        });
    }
    let pm = [
        offset_of!(StreamHeader, window_address),
        offset_of!(StreamHeader, window_offset),
        offset_of!(StreamHeader, second_window_offset),
        offset_of!(StreamHeader, cursor),
    ];
    let flow = [
        offset_of!(StreamHeader, flow_window_address),
        offset_of!(StreamHeader, flow_window_offset),
        offset_of!(StreamHeader, flow_second_window_offset),
        THREAD_OFFSET + offsets::THREAD_FLOW_CURSOR,
    ];
    Ok(Some(Header {
        kind: word32(page, offset_of!(StreamHeader, kind)),
        process: word32(page, offset_of!(StreamHeader, process)),
        thread: word32(page, offset_of!(StreamHeader, thread)),
        system_thread: word32(page, offset_of!(StreamHeader, system_thread)),
        limit_reached: word32(page, offset_of!(StreamHeader, limit_reached)) != 0,
        pm: end(pm.map(|at| word64(page, at))),
        flow: end(flow.map(|at| word64(page, at))),
    }))
}

fn end([window, offset, second_offset, cursor]: [u64; 4]) -> End {
    match (window, offset) {
        (0, 0) => End::Empty,
        // The writer has given up its windows: what the file holds is all.
        (0, _) => End::At(Position {
            file_end: offset,
            window_start: WINDOWS_OFFSET,
            window_length: 0,
        }),
        _ => match position(window, offset, second_offset, cursor) {
            Some(position) => End::At(position),
            None => End::Unknown(offset),
        },
    }
}

fn word32(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

fn word64(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

/// Something wrong at a position of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) offset: usize,
    pub(crate) kind: ProblemKind,
}

/// The file of a stream. Of a PM stream that has been scanned, every record decodes.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) bytes: Bytes,
    /// Where its records are: first those that were written out, then those that still stand in a
    /// window. No record straddles.
    pub(crate) segments: [Range<usize>; 2],
    /// Whether the header told the end; otherwise it is the end of the file, or a zero before it.
    pub(crate) exact: bool,
}

impl Stream {
    /// Finds the records by the positions of a header. A file that is shorter than it should be,
    /// or whose positions are impossible, is read as far as it goes.
    pub(crate) fn new(bytes: Bytes, end: End) -> (Stream, Option<Cut>) {
        let start = STREAM_HEADER_BYTES.min(bytes.len());
        let (segments, file_end) = match end {
            End::Empty => (Some([start..start, 0..0]), 0),
            End::Unknown(end) => (None, end),
            End::At(position) => (segments(&position, start, bytes.len()), position.file_end),
        };
        let cut = segments.is_none().then(|| Cut {
            offset: offset_of!(StreamHeader, window_address),
            kind: ProblemKind::BadPositions {
                end: file_end,
                file_bytes: bytes.len() as u64,
            },
        });
        let stream = Stream {
            segments: segments.unwrap_or([start..bytes.len(), 0..0]),
            bytes,
            exact: cut.is_none(),
        };
        (stream, cut)
    }

    /// How many bytes of records there are.
    pub(crate) fn record_bytes(&self) -> usize {
        self.segments.iter().map(ExactSizeIterator::len).sum()
    }

    /// The records, segment by segment: bytes of the file up to the segment's end, and its start.
    pub(crate) fn slices(&self) -> [(&[u8], usize); 2] {
        self.segments
            .clone()
            .map(|segment| (&self.bytes[..segment.end], segment.start))
    }

    /// Leaves out what comes from a position of the file on.
    fn cut(&mut self, segment: usize, at: usize) {
        self.segments[segment].end = at;
        if segment == 0 {
            self.segments[1] = 0..0;
        }
    }
}

fn segments(position: &Position, start: usize, length: usize) -> Option<[Range<usize>; 2]> {
    let file_end = usize::try_from(position.file_end).ok()?;
    let window = position.window_start..position.window_start + position.window_length;
    let fits = start <= file_end && file_end <= length && window.end <= length;
    fits.then_some([start..file_end, window])
}

/// What a scan of a PM stream finds.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) cut: Option<Cut>,
    pub(crate) statistics: Statistics,
    /// Parent (by number in this stream) and site (in the process), from number 1.
    pub(crate) contexts: Vec<(u32, u32)>,
    /// The files (numbers in the process) that are mapped, each with the order of its first
    /// mapping that is shared or not.
    pub(crate) mapped: Vec<MappedFile>,
}

/// The first mapping of a file, of its kind, in a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedFile {
    pub(crate) number: u32,
    pub(crate) shared: bool,
    pub(crate) order: u64,
}

/// Decodes all records of a stream and cuts it where they end.
pub(crate) fn scan(stream: &mut Stream) -> Scan {
    let mut scan = Scan::default();
    let mut memory = Memory::default();
    let mut previous = 0;
    for index in 0..stream.segments.len() {
        let segment = stream.segments[index].clone();
        let mut at = segment.start;
        while at < segment.end {
            let bytes = &stream.bytes[at..segment.end];
            match scan.step(bytes, &mut memory, &mut previous) {
                Ok(size) => at += size,
                Err(kind) => {
                    let zero = DecodeError::UnknownKind(0);
                    let end = !stream.exact && kind == ProblemKind::BadRecord { error: zero };
                    scan.cut = (!end).then_some(Cut { offset: at, kind });
                    stream.cut(index, at);
                    break;
                }
            }
        }
        if scan.cut.is_some() {
            break;
        }
    }
    scan.statistics.pm_bytes = stream.record_bytes() as u64;
    scan
}

impl Scan {
    #[inline]
    fn step(
        &mut self,
        bytes: &[u8],
        memory: &mut Memory,
        previous: &mut u64,
    ) -> Result<usize, ProblemKind> {
        let (record, size) = record::decode(bytes, memory).map_err(|error| match error {
            DecodeError::Truncated => ProblemKind::Truncated,
            DecodeError::UnknownKind(_) | DecodeError::BadField(_) => {
                ProblemKind::BadRecord { error }
            }
        })?;
        match record.payload {
            Payload::Context(context) => self.defined(context)?,
            Payload::DefineContext { parent } => {
                self.defined(parent)?;
                self.contexts.push((parent, record.site));
            }
            _ => self.ordered(&record, previous)?,
        }
        self.statistics.count(&record.payload);
        Ok(size)
    }

    fn defined(&self, context: u32) -> Result<(), ProblemKind> {
        if context as usize <= self.contexts.len() {
            Ok(())
        } else {
            Err(ProblemKind::UndefinedContext { context })
        }
    }

    #[inline]
    fn ordered(&mut self, record: &Record<'_>, previous: &mut u64) -> Result<(), ProblemKind> {
        let found = record.order;
        if found <= *previous && *previous - found >= ORDER_RACE {
            let previous = *previous;
            return Err(ProblemKind::OrderGoesBack { previous, found });
        }
        *previous = found.max(*previous);
        if let Payload::Map { file, shared, .. } = record.payload {
            self.map(file, shared, found);
        }
        Ok(())
    }
}

impl Scan {
    #[cold]
    fn map(&mut self, number: u32, shared: bool, order: u64) {
        let same = |known: &MappedFile| (known.number, known.shared) == (number, shared);
        if !self.mapped.iter().any(same) {
            self.mapped.push(MappedFile {
                number,
                shared,
                order,
            });
        }
    }
}

/// Whether a stream is what its name says.
pub(crate) fn fits(header: &Header, pm: bool, process: u32, thread: u32) -> bool {
    let kind = if pm { STREAM_PM } else { STREAM_FLOW };
    (header.kind, header.process, header.thread) == (kind, process, thread)
}
