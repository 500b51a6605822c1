//! Reads a recording of files.
//!
//! Opening checks every record once, so that what is wrong is known before anybody draws
//! conclusions; [`FileRecording::calls`] then decodes again, borrowing what was written from the
//! mapping.

use super::before::BeforeFiles;
use super::format::{self, BadHeader, CALLS, FOLDER, Next, Record, SYMBOLS, Symbol};
use super::{
    Before, Call, OpenError, OpenErrorKind, Problem, ProblemKind, ProgramEnd, RawFrame, StackFrame,
    StackId, Start,
};
use crate::mapped::Bytes;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What a program did to the files of a folder, opened.
#[derive(Debug)]
pub struct FileRecording {
    calls: Bytes,
    /// Of records that hold together.
    readable: Range<usize>,
    count: u64,
    before: BeforeFiles,
    pub(super) start: Start,
    ended: Option<ProgramEnd>,
    pub(super) modules: Vec<String>,
    pub(super) stacks: Vec<Vec<RawFrame>>,
    pub(super) symbols: FxHashMap<RawFrame, Vec<StackFrame>>,
    frames: Vec<OnceCell<Vec<StackFrame>>>,
    problems: Vec<Problem>,
}

impl FileRecording {
    /// Opens the folder that `crashpoint record --dir` wrote, such as `crashpoint.out`.
    pub fn open(out: &Path) -> Result<FileRecording, OpenError> {
        let files = out.join(FOLDER);
        let path = files.join(CALLS);
        let calls = Bytes::map(&path).map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound if !out.exists() => OpenErrorKind::Missing,
                io::ErrorKind::NotFound if !files.exists() => OpenErrorKind::NotARecording,
                io::ErrorKind::NotFound => OpenErrorKind::Empty,
                io::ErrorKind::NotADirectory => OpenErrorKind::NotARecording,
                _ => OpenErrorKind::Io(error),
            };
            kind.at(out)
        })?;
        let before = BeforeFiles::open(&files)?;
        let symbols_path = files.join(SYMBOLS);
        let symbols = match Bytes::map(&symbols_path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(OpenErrorKind::Io(error).at(symbols_path)),
        };
        FileRecording::assemble(path, calls, before, symbols.map(|s| (symbols_path, s)))
    }

    /// From the bytes of `calls` and `symbols`, for tests and fuzzers; `before` is empty.
    pub fn from_bytes(calls: Vec<u8>, symbols: Vec<u8>) -> Result<FileRecording, OpenError> {
        let symbols = (PathBuf::from(SYMBOLS), Bytes::Owned(symbols));
        let calls = Bytes::Owned(calls);
        FileRecording::assemble(CALLS.into(), calls, BeforeFiles::empty(), Some(symbols))
    }

    fn assemble(
        path: PathBuf,
        calls: Bytes,
        before: BeforeFiles,
        symbols: Option<(PathBuf, Bytes)>,
    ) -> Result<FileRecording, OpenError> {
        let scan = Scan::new(&path, &calls)?;
        let Some(start) = scan.start else {
            return Err(OpenErrorKind::Empty.at(path));
        };
        let mut problems = scan.problems;
        let symbols = match symbols {
            Some((path, bytes)) => read_symbols(&path, &bytes, &mut problems)?,
            None => {
                if !scan.stacks.is_empty() {
                    let file = path.with_file_name(SYMBOLS);
                    problems.push(problem(&file, 0, ProblemKind::NoSymbols));
                }
                FxHashMap::default()
            }
        };
        let frames = vec![OnceCell::new(); scan.stacks.len()];
        Ok(FileRecording {
            readable: scan.first..scan.end,
            calls,
            count: scan.count,
            before,
            start,
            ended: scan.ended,
            modules: scan.modules,
            stacks: scan.stacks,
            symbols,
            frames,
            problems,
        })
    }

    /// What the folder held before the program ran.
    pub fn before(&self) -> Before<'_> {
        self.before.before()
    }

    /// All calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        // Stacks and modules are known since the recording was opened.
        self.records().filter_map(|record| match record {
            Record::Call(call) => Some(call),
            Record::Start(_)
            | Record::Module { .. }
            | Record::Stack { .. }
            | Record::Remark(_)
            | Record::Thread { .. }
            | Record::Shown { .. }
            | Record::Stores { .. }
            | Record::End(_) => None,
        })
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut offset = self.readable.start;
        std::iter::from_fn(move || {
            if offset >= self.readable.end {
                return None;
            }
            let Next::Content { bytes, end } = format::next(&self.calls, offset) else {
                return None;
            };
            offset = end;
            postcard::from_bytes(bytes).ok()
        })
    }

    /// How many calls there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A call stack, innermost function first; empty if it could not be seen.
    pub fn frames(&self, stack: StackId) -> &[StackFrame] {
        let Some(cell) = self.frames.get(stack.0 as usize) else {
            return &[];
        };
        cell.get_or_init(|| {
            let raw = &self.stacks[stack.0 as usize];
            raw.iter().flat_map(|at| self.resolve(*at)).collect()
        })
    }

    fn resolve(&self, at: RawFrame) -> Vec<StackFrame> {
        if let Some(frames) = self.symbols.get(&at) {
            return frames.clone();
        }
        let module = self.modules.get(at.module as usize);
        vec![StackFrame {
            module: module.cloned().unwrap_or_default(),
            offset: at.offset,
            function: String::from("?"),
            source: None,
        }]
    }

    /// What to know before trusting a result: damage, refused calls, unknown calls.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The program and its arguments.
    pub fn command(&self) -> &[OsString] {
        &self.start.command
    }

    /// The watched folder, absolute.
    pub fn folder(&self) -> &Path {
        Path::new(&self.start.folder)
    }

    /// Where the program was started.
    pub fn directory(&self) -> &Path {
        Path::new(&self.start.directory)
    }

    /// How the program ended; `None` if the watcher was killed before it.
    pub fn ended(&self) -> Option<ProgramEnd> {
        self.ended
    }
}

fn problem(file: &Path, offset: usize, kind: ProblemKind) -> Problem {
    Problem {
        file: file.to_owned(),
        offset: offset as u64,
        kind,
    }
}

fn bad_header(path: &Path, bad: BadHeader) -> OpenError {
    match bad {
        BadHeader::Foreign => OpenErrorKind::Foreign.at(path),
        BadHeader::Version(found) => OpenErrorKind::Version { found }.at(path),
    }
}

/// One pass over `calls`.
#[derive(Debug, Default)]
struct Scan {
    first: usize,
    end: usize,
    count: u64,
    last_order: Option<u64>,
    start: Option<Start>,
    ended: Option<ProgramEnd>,
    modules: Vec<String>,
    stacks: Vec<Vec<RawFrame>>,
    problems: Vec<Problem>,
}

impl Scan {
    fn new(path: &Path, calls: &[u8]) -> Result<Scan, OpenError> {
        let first = format::check_header(calls).map_err(|bad| bad_header(path, bad))?;
        let mut scan = Scan {
            first,
            end: first,
            ..Scan::default()
        };
        loop {
            let at = scan.end;
            let trouble = match format::next(calls, at) {
                Next::Content { bytes, end } => match postcard::from_bytes(bytes) {
                    Ok(record) => scan.take(path, at, record).map(|()| scan.end = end).err(),
                    Err(_) => Some(ProblemKind::BadRecord),
                },
                Next::End if scan.ended.is_none() => Some(ProblemKind::NoEnd),
                Next::End => break,
                Next::Truncated => Some(ProblemKind::Truncated),
                Next::BadChecksum => Some(ProblemKind::BadChecksum),
            };
            if let Some(kind) = trouble {
                scan.problems.push(problem(path, at, kind));
                break;
            }
        }
        Ok(scan)
    }

    fn take(&mut self, path: &Path, at: usize, record: Record<'_>) -> Result<(), ProblemKind> {
        match record {
            Record::Start(start) => self.start = Some(start),
            Record::Module { path } => self.modules.push(path),
            Record::Stack { frames } => self.stacks.push(frames),
            Record::Call(call) => {
                if let Some(previous) = self.last_order.filter(|last| *last >= call.order) {
                    return Err(ProblemKind::OrderGoesBack {
                        previous,
                        found: call.order,
                    });
                }
                self.last_order = Some(call.order);
                self.count += 1;
                let stack = call.stack.0;
                if stack as usize >= self.stacks.len() && call.stack != StackId::NONE {
                    let kind = ProblemKind::UndefinedStack { stack };
                    self.problems.push(problem(path, at, kind));
                }
            }
            Record::Remark(remark) => {
                let kind = ProblemKind::Remark(remark);
                self.problems.push(problem(path, at, kind));
            }
            Record::End(ended) => self.ended = Some(ended),
            Record::Thread { .. } | Record::Shown { .. } | Record::Stores { .. } => {}
        }
        Ok(())
    }
}

fn read_symbols(
    path: &Path,
    bytes: &[u8],
    problems: &mut Vec<Problem>,
) -> Result<FxHashMap<RawFrame, Vec<StackFrame>>, OpenError> {
    let mut symbols = FxHashMap::default();
    let mut offset = format::check_header(bytes).map_err(|bad| bad_header(path, bad))?;
    loop {
        let kind = match format::next(bytes, offset) {
            Next::Content { bytes, end } => match postcard::from_bytes::<Symbol>(bytes) {
                Ok(symbol) => {
                    symbols.insert(symbol.at, symbol.frames);
                    offset = end;
                    continue;
                }
                Err(_) => ProblemKind::BadRecord,
            },
            Next::End => return Ok(symbols),
            Next::Truncated => ProblemKind::Truncated,
            Next::BadChecksum => ProblemKind::BadChecksum,
        };
        problems.push(problem(path, offset, kind));
        return Ok(symbols);
    }
}
