//! What can be wrong with a recording.
//!
//! An [`OpenError`] means that there is no recording to speak of. A [`Problem`] is damage that
//! leaves the rest readable: whoever reports on a recording shows its problems too.

use crashpoint_abi::record::DecodeError;
use crashpoint_abi::{ABI_VERSION, TRACE_VERSION};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a recording cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct OpenError {
    pub path: PathBuf,
    pub kind: OpenErrorKind,
}

impl OpenError {
    pub(crate) fn new(path: impl Into<PathBuf>, kind: OpenErrorKind) -> OpenError {
        OpenError {
            path: path.into(),
            kind,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenErrorKind {
    #[error("there is no such folder: make a recording with `crashpoint record -- COMMAND`")]
    Missing,
    #[error(
        "this is not a recording (it has no folder `trace`): name the folder that \
         `crashpoint record` wrote, `crashpoint.out` unless told otherwise"
    )]
    NotARecording,
    #[error(
        "the recording is empty: no instrumented program ran; build it with crashpoint-cc or \
         crashpoint-c++ and start it by `crashpoint record -- COMMAND`"
    )]
    Empty,
    #[error(
        "not a file of a recording: it starts with {found:02x?} at offset 0; move it away, or \
         record again"
    )]
    Foreign { found: Vec<u8> },
    #[error(
        "written in trace version {found} (at offset {offset}), this crashpoint reads version \
         {TRACE_VERSION}: read it with the crashpoint that recorded it, or record again"
    )]
    Version { found: u64, offset: u64 },
    #[error(
        "recorded by a runtime of ABI version {found}, this crashpoint knows {ABI_VERSION}: read \
         it with the crashpoint that recorded it, or build and record again"
    )]
    Abi { found: u64 },
    #[error("streams of process {process} are here, but not this description of it: record again")]
    MissingMeta { process: String },
    #[error("the description of the process does not begin as it must: {reason}; record again")]
    BadMeta { reason: String },
    #[error("more than {limit} {what} in one recording cannot be told apart")]
    TooMany { what: &'static str, limit: u64 },
    #[error("cannot be read: {0}")]
    Io(io::Error),
}

/// Damage, or something to know before trusting a result. [`fmt::Display`] says it in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file it is about.
    pub file: PathBuf,
    /// Where in the file it was seen first.
    pub offset: u64,
    /// How often it was seen.
    pub count: u64,
    pub kind: ProblemKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The stream ends within a record.
    Truncated,
    /// These bytes are no record. What follows them is not read.
    BadRecord { error: DecodeError },
    /// Order numbers grow within a stream. What follows is not read.
    OrderGoesBack { previous: u64, found: u64 },
    /// A context is used before it is defined. What follows is not read.
    UndefinedContext { context: u32 },
    /// The same place in the order is claimed twice: two processes raced for it.
    DuplicateOrder { order: u64 },
    /// The file is too short for its header, or the header was never written.
    NoHeader,
    /// The header's positions do not fit the file; records are read as far as they go.
    BadPositions { end: u64, file_bytes: u64 },
    /// The header and the file's name disagree about whose stream it is.
    Mislabelled,
    /// The byte limit was reached: the rest of the run is not recorded.
    LimitReached,
    /// A line of a process's description that cannot be understood.
    BadMetaLine { line: usize, reason: String },
    /// A flow stream whose PM stream, which knows how long it is, does not exist.
    FlowWithoutPm,
    /// A site outside of every module that the process registered.
    UnknownSite { site: u32 },
    /// Two descriptions of one model differ in the number of its sites.
    SiteCounts { model: String },
    /// Two modules of a process claim the same sites; the first one has them.
    SitesOverlap { site_base: u32 },
    /// An access outside of every known mapping of the process.
    Unmapped { address: u64, length: u64 },
    /// A mapping of a file that the process did not describe, or beyond what we can address.
    UnknownFile { number: u32 },
    /// A file in the folder that is no part of a recording.
    Unexpected,
    /// A system error on a file that the recording can do without.
    Unreadable { reason: String },
}

impl ProblemKind {
    /// Whether something that the program did is missing from what is read, or stands at a place of
    /// its own making.
    pub fn is_gap(&self) -> bool {
        match self {
            Self::Truncated
            | Self::BadRecord { .. }
            | Self::OrderGoesBack { .. }
            | Self::UndefinedContext { .. }
            | Self::DuplicateOrder { .. }
            | Self::NoHeader
            | Self::BadPositions { .. }
            | Self::Mislabelled
            | Self::LimitReached
            | Self::BadMetaLine { .. }
            | Self::FlowWithoutPm
            | Self::Unmapped { .. }
            | Self::UnknownFile { .. } => true,
            Self::UnknownSite { .. }
            | Self::SiteCounts { .. }
            | Self::SitesOverlap { .. }
            | Self::Unexpected
            | Self::Unreadable { .. } => false,
        }
    }

    /// What it means for who reads the recording, and what can be done.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Truncated | Self::BadRecord { .. } | Self::NoHeader => {
                "the stream is read up to here; record again if the disk was full or the file was \
                 copied incompletely"
            }
            Self::OrderGoesBack { .. } | Self::UndefinedContext { .. } => {
                "the stream is read up to here; the file is damaged, record again"
            }
            Self::DuplicateOrder { .. } => "which of the two came first is not known",
            Self::BadPositions { .. } => {
                "it is read as far as it goes; record again if the disk was full or the file was \
                 copied incompletely"
            }
            Self::Mislabelled => "files of the recording were renamed; record again",
            Self::LimitReached => "record again with a higher --limit to see the rest",
            Self::BadMetaLine { .. } => {
                "the line is skipped; what it described has no name or source"
            }
            Self::FlowWithoutPm => "the flow stream is not read; record again",
            Self::UnknownSite { .. } => "the event has no place in the program; record again",
            Self::SiteCounts { .. } => "build all of the program with one crashpoint-cc",
            Self::SitesOverlap { .. } => "events may be shown at wrong places; record again",
            Self::Unmapped { .. } => "the access is left out; the mapping was not seen",
            Self::UnknownFile { .. } => "accesses to the mapping are left out; record again",
            Self::Unexpected => "it is not read",
            Self::Unreadable { .. } => "it is not read; check its permissions",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(to, "the stream ends within a record"),
            Self::BadRecord {
                error: DecodeError::Truncated,
            } => write!(to, "a record is cut off"),
            Self::BadRecord {
                error: DecodeError::UnknownKind(kind),
            } => {
                write!(to, "there is no record of kind {kind}")
            }
            Self::BadRecord {
                error: DecodeError::BadField(field),
            } => {
                write!(to, "a record has an impossible {field}")
            }
            Self::OrderGoesBack { previous, found } => {
                write!(to, "order {found} comes after order {previous}")
            }
            Self::UndefinedContext { context } => {
                write!(to, "call stack {context} is not defined before it is used")
            }
            Self::DuplicateOrder { order } => write!(to, "order {order} occurs twice"),
            Self::NoHeader => write!(to, "the stream has no header"),
            Self::BadPositions { end, file_bytes } => {
                write!(
                    to,
                    "the stream should end at {end}, the file has {file_bytes} bytes"
                )
            }
            Self::Mislabelled => write!(to, "the header belongs to another file name"),
            Self::LimitReached => write!(to, "recording stopped at the byte limit"),
            Self::BadMetaLine { line, reason } => write!(to, "line {line}: {reason}"),
            Self::FlowWithoutPm => write!(to, "the thread's PM stream is missing"),
            Self::UnknownSite { site } => write!(to, "site {site} belongs to no module"),
            Self::SiteCounts { model } => {
                write!(
                    to,
                    "model {model} is described with different numbers of sites"
                )
            }
            Self::SitesOverlap { site_base } => {
                write!(to, "modules overlap at site {site_base}")
            }
            Self::Unmapped { address, length } => {
                write!(to, "{length} bytes at {address:#x} are in no known mapping")
            }
            Self::UnknownFile { number } => write!(to, "file {number} is mapped but not described"),
            Self::Unexpected => write!(to, "not a file of a recording"),
            Self::Unreadable { reason } => write!(to, "{reason}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "{} at offset {}: {}",
            self.file.display(),
            self.offset,
            self.kind
        )?;
        if self.count > 1 {
            write!(to, " ({} times)", self.count)?;
        }
        write!(to, "; {}", self.kind.advice())
    }
}
