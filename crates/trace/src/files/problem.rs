//! What can be wrong with a recording of files, and what the watcher has to remark about it.

use super::{FORMAT_VERSION, SystemCall};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a recording of files cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct OpenError {
    pub path: PathBuf,
    pub kind: OpenErrorKind,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenErrorKind {
    #[error(
        "there is no such folder: make a recording with `crashpoint record --dir FOLDER -- COMMAND`"
    )]
    Missing,
    #[error(
        "this is not a recording of files (it has no folder `files`): name the folder that \
         `crashpoint record --dir` wrote, `crashpoint.out` unless told otherwise"
    )]
    NotARecording,
    #[error("the recording is empty: the program was never started; record again")]
    Empty,
    #[error("not a file of a recording: move it away, or record again")]
    Foreign,
    #[error(
        "written in version {found} of the format, this crashpoint reads version \
         {FORMAT_VERSION}: read it with the crashpoint that recorded it, or record again"
    )]
    Version { found: u32 },
    #[error("what the folder held before the program ran is damaged ({reason}): record again")]
    Before { reason: &'static str },
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl OpenErrorKind {
    pub(super) fn at(self, path: impl Into<PathBuf>) -> OpenError {
        OpenError {
            path: path.into(),
            kind: self,
        }
    }
}

/// What the watcher could not do, or did differently: part of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Remark {
    /// The program asked for something that cannot be watched, and was told that there is none.
    Refused { number: SystemCall, name: String },
    /// A call that may have changed files in the folder, and that the watcher does not know.
    UnknownCall { number: SystemCall, name: String },
    /// A call that is known, in a form that is not.
    UnknownForm { number: SystemCall, text: String },
    /// Something in the folder was not as the calls so far made it.
    ChangedByOthers { path: String },
    /// Memory or files of the program could not be read: what this call did is not known.
    Unseen { text: String, reason: String },
    /// The program records its own stores into mappings, and they cannot be read.
    NoStores { reason: String },
}

impl fmt::Display for Remark {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::Refused { name, .. } => write!(
                to,
                "the program asked for {name}; it was told there is none, so that it does its \
                 writes by calls that can be watched"
            ),
            Remark::UnknownCall { number, name } => write!(
                to,
                "the program called {name} (number {}), which may change files and is not \
                 understood: crash states may miss what it did",
                number.0
            ),
            Remark::UnknownForm { text, .. } => write!(
                to,
                "the program called {text}, a form that is not understood: crash states may miss \
                 what it did"
            ),
            Remark::ChangedByOthers { path } => write!(
                to,
                "`{path}` was changed by a process that is not watched; it is taken as it was found"
            ),
            Remark::Unseen { text, reason } => {
                write!(to, "what {text} did could not be seen: {reason}")
            }
            Remark::NoStores { reason } => write!(
                to,
                "the stores that the program recorded cannot be read ({reason}): what was stored \
                 into mapped files is known by comparison alone"
            ),
        }
    }
}

/// Something to know before trusting a result. [`fmt::Display`] says it in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file it is about, or was found in, and where.
    pub file: PathBuf,
    pub offset: u64,
    pub kind: ProblemKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    Remark(Remark),
    /// The stream ends within a record. What follows is not read.
    Truncated,
    /// The content does not fit its checksum. What follows is not read.
    BadChecksum,
    /// These bytes are no record. What follows is not read.
    BadRecord,
    /// The watcher did not come to its end: it was killed, or the machine was.
    NoEnd,
    /// Code addresses without names, for the watcher did not come to its end.
    NoSymbols,
    /// A call names a stack that is not there.
    UndefinedStack {
        stack: u32,
    },
    /// Order numbers grow. What follows is not read.
    OrderGoesBack {
        previous: u64,
        found: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, offset) = (self.file.display(), self.offset);
        match &self.kind {
            ProblemKind::Remark(remark) => write!(to, "{remark}"),
            ProblemKind::Truncated => write!(
                to,
                "{file} at offset {offset}: the file ends within a record; it is read up to here"
            ),
            ProblemKind::BadChecksum => write!(
                to,
                "{file} at offset {offset}: the content does not fit its checksum; it is read up \
                 to here, record again for the rest"
            ),
            ProblemKind::BadRecord => write!(
                to,
                "{file} at offset {offset}: this is no record; it is read up to here, record again \
                 for the rest"
            ),
            ProblemKind::NoEnd => write!(
                to,
                "{file} at offset {offset}: the recording has no end, for the watcher was killed; \
                 what the program did until then is complete"
            ),
            ProblemKind::NoSymbols => write!(
                to,
                "{file}: call stacks have no names, for the watcher was killed; record again to \
                 see them"
            ),
            ProblemKind::UndefinedStack { stack } => write!(
                to,
                "{file} at offset {offset}: the call stack {stack} is not there; it is shown empty"
            ),
            ProblemKind::OrderGoesBack { previous, found } => write!(
                to,
                "{file} at offset {offset}: call {found} follows call {previous}; it is read up to \
                 here, the file is damaged"
            ),
        }
    }
}
