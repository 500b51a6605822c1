//! One stream of one thread: its header, how far it goes, and its records.

use crate::mapped::Bytes;
use crate::{OpenErrorKind, ProblemKind, Statistics};
use crashpoint_abi::layout::{
    STREAM_FLOW, STREAM_HEADER_BYTES, STREAM_MAGIC, STREAM_PM, THREAD_OFFSET, offsets,
};
use crashpoint_abi::record::{self, DecodeError, Memory, Payload, Record};
use crashpoint_abi::{StreamHeader, TRACE_VERSION};
use std::mem::offset_of;
use std::ops::Range;

/// What a header says, as far as it can be believed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    pub(crate) system_thread: u32,
    pub(crate) limit_reached: bool,
    /// Where the PM stream ends, and the flow stream of the same thread.
    pub(crate) end: Option<u64>,
    pub(crate) flow_end: Option<u64>,
}

/// The first page of a stream, or `None` if it was never written.
pub(crate) fn header(bytes: &[u8]) -> Result<Option<Header>, OpenErrorKind> {
    let magic = &bytes[..bytes.len().min(STREAM_MAGIC.len())];
    if !STREAM_MAGIC.starts_with(magic) && magic.iter().any(|byte| *byte != 0) {
        return Err(OpenErrorKind::Foreign {
            found: magic.to_vec(),
        });
    }
    let Some(page) = bytes.get(..STREAM_HEADER_BYTES) else {
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
    let end = |window: usize, offset: usize, cursor: usize| {
        let (window, cursor) = (word64(page, window), word64(page, cursor));
        word64(page, offset).checked_add(cursor.checked_sub(window)?)
    };
    Ok(Some(Header {
        kind: word32(page, offset_of!(StreamHeader, kind)),
        process: word32(page, offset_of!(StreamHeader, process)),
        thread: word32(page, offset_of!(StreamHeader, thread)),
        system_thread: word32(page, offset_of!(StreamHeader, system_thread)),
        limit_reached: word32(page, offset_of!(StreamHeader, limit_reached)) != 0,
        end: end(
            offset_of!(StreamHeader, window_address),
            offset_of!(StreamHeader, window_offset),
            offset_of!(StreamHeader, cursor),
        ),
        flow_end: end(
            offset_of!(StreamHeader, flow_window_address),
            offset_of!(StreamHeader, flow_window_offset),
            THREAD_OFFSET + offsets::THREAD_FLOW_CURSOR,
        ),
    }))
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

/// The range of a stream's records. A file whose header has an impossible position (the target
/// died while it moved its window) is read up to its first zero.
pub(crate) fn extent(bytes: &[u8], end: Option<u64>) -> (Range<usize>, Option<Cut>) {
    let start = STREAM_HEADER_BYTES.min(bytes.len());
    // Nothing was ever written: positions are all zero.
    if end == Some(0) {
        return (start..start, None);
    }
    match end.map(usize::try_from) {
        Some(Ok(end)) if (start..=bytes.len()).contains(&end) => (start..end, None),
        _ => {
            let kind = ProblemKind::BadPositions {
                end: end.unwrap_or(0),
                file_bytes: bytes.len() as u64,
            };
            let cut = Cut {
                offset: offset_of!(StreamHeader, window_address),
                kind,
            };
            (start..bytes.len(), Some(cut))
        }
    }
}

/// A stream's file. Of a PM stream that has been scanned, every record in the range decodes.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) bytes: Bytes,
    pub(crate) records: Range<usize>,
    /// Whether the header told the end; otherwise it is the end of the file.
    pub(crate) exact: bool,
}

/// What a scan of a PM stream finds.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Where reading stops.
    pub(crate) end: usize,
    pub(crate) cut: Option<Cut>,
    pub(crate) statistics: Statistics,
    /// Parent (by number in this stream) and site (in the process), from number 1.
    pub(crate) contexts: Vec<(u32, u32)>,
    /// Files (numbers in the process) that are mapped privately.
    pub(crate) private_files: Vec<u32>,
}

/// Decodes all records of a range of a file. If `exact` is false, a zero is the end.
pub(crate) fn scan(bytes: &[u8], range: Range<usize>, exact: bool) -> Scan {
    let mut scan = Scan {
        end: range.end,
        ..Scan::default()
    };
    let mut memory = Memory::default();
    let mut at = range.start;
    let mut previous = 0;
    while at < range.end {
        let step = record::decode(&bytes[at..range.end], &mut memory)
            .map_err(|error| match error {
                DecodeError::Truncated => ProblemKind::Truncated,
                DecodeError::UnknownKind(_) | DecodeError::BadField(_) => {
                    ProblemKind::BadRecord { error }
                }
            })
            .and_then(|(record, size)| {
                scan.check(&record, &mut previous)?;
                Ok(size)
            });
        match step {
            Ok(size) => at += size,
            Err(ProblemKind::BadRecord {
                error: DecodeError::UnknownKind(0),
            }) if !exact => {
                scan.end = at;
                break;
            }
            Err(kind) => {
                scan.cut = Some(Cut { offset: at, kind });
                scan.end = at;
                break;
            }
        }
    }
    scan.statistics.pm_bytes = (scan.end - range.start) as u64;
    scan
}

impl Scan {
    fn check(&mut self, record: &Record<'_>, previous: &mut u64) -> Result<(), ProblemKind> {
        match record.payload {
            Payload::Context(context) if context as usize > self.contexts.len() => {
                return Err(ProblemKind::UndefinedContext { context });
            }
            Payload::DefineContext { parent } => {
                if parent as usize > self.contexts.len() {
                    return Err(ProblemKind::UndefinedContext { context: parent });
                }
                self.contexts.push((parent, record.site));
            }
            Payload::Context(_) => {}
            _ => {
                if record.order <= *previous {
                    return Err(ProblemKind::OrderGoesBack {
                        previous: *previous,
                        found: record.order,
                    });
                }
                *previous = record.order;
                if let Payload::Map {
                    file,
                    shared: false,
                    ..
                } = record.payload
                    && !self.private_files.contains(&file)
                {
                    self.private_files.push(file);
                }
            }
        }
        self.statistics.count(&record.payload);
        Ok(())
    }
}

/// Whether a stream is what its name says.
pub(crate) fn fits(header: &Header, pm: bool, process: u32, thread: u32) -> bool {
    let kind = if pm { STREAM_PM } else { STREAM_FLOW };
    (header.kind, header.process, header.thread) == (kind, process, thread)
}
