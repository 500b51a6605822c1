//! Writes a recording of files, so that nothing is lost when the writer is killed.

use super::format::{self, CALLS, FOLDER, Record, SYMBOLS, Symbol};
use super::{
    Call, Effect, InodeId, InodeKind, ProgramEnd, RawFrame, Remark, StackFrame, StackId, Start,
};
use crate::mapped::Appender;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// A stream of records that grows.
#[derive(Debug)]
pub(super) struct Stream {
    to: Appender,
}

impl Stream {
    pub(super) fn create(path: &Path, chunk_bytes: usize) -> io::Result<Stream> {
        let mut to = Appender::create(path, chunk_bytes)?;
        to.append(&format::header())?;
        Ok(Stream { to })
    }

    /// Adds a record of about `estimate` bytes.
    pub(super) fn push(&mut self, record: &impl Serialize, mut estimate: usize) -> io::Result<()> {
        loop {
            let room = self.to.room(estimate + format::PREFIX_BYTES)?;
            let (prefix, content) = room.split_at_mut(format::PREFIX_BYTES);
            match postcard::to_slice(record, content) {
                Ok(written) => {
                    let length = written.len();
                    let checksum = crc32fast::hash(written);
                    let short = u32::try_from(length).map_err(io::Error::other)?;
                    // The length comes last: a record without one is not there yet.
                    prefix[4..].copy_from_slice(&checksum.to_le_bytes());
                    prefix[..4].copy_from_slice(&short.to_le_bytes());
                    self.to.advance(format::PREFIX_BYTES + length);
                    return Ok(());
                }
                Err(postcard::Error::SerializeBufferFull) => {
                    content.fill(0);
                    estimate *= 2;
                }
                Err(other) => return Err(io::Error::other(other)),
            }
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.to.finish()
    }
}

/// Writes `crashpoint.out/files/`.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    calls: Stream,
    modules: u32,
    stacks: u32,
    count: u64,
}

impl Writer {
    /// Makes the folder `files` in `out`, with the beginning of a recording.
    pub fn create(out: &Path, start: &Start) -> io::Result<Writer> {
        let folder = out.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        let mut calls = Stream::create(&folder.join(CALLS), 4 << 20)?;
        calls.push(&Record::Start(start.clone()), 4096)?;
        Ok(Writer {
            folder,
            calls,
            modules: 0,
            stacks: 0,
            count: 0,
        })
    }

    /// A binary or library that code addresses lie in; returns its number.
    pub fn module(&mut self, path: &str) -> io::Result<u32> {
        let record = Record::Module {
            path: path.to_owned(),
        };
        self.calls.push(&record, path.len() + 16)?;
        self.modules += 1;
        Ok(self.modules - 1)
    }

    /// A call stack, innermost first.
    pub fn stack(&mut self, frames: &[RawFrame]) -> io::Result<StackId> {
        let record = Record::Stack {
            frames: frames.to_vec(),
        };
        self.calls.push(&record, frames.len() * 16 + 16)?;
        self.stacks += 1;
        Ok(StackId(self.stacks - 1))
    }

    pub fn call(&mut self, call: Call<'_>) -> io::Result<()> {
        let effects: usize = call.effects.iter().map(estimate).sum();
        let estimate = 64 + call.text.len() + effects;
        self.calls.push(&Record::Call(call), estimate)?;
        self.count += 1;
        Ok(())
    }

    pub fn remark(&mut self, remark: &Remark) -> io::Result<()> {
        self.calls.push(&Record::Remark(remark.clone()), 1024)
    }

    /// A thread begins, which the system knows by this number.
    pub fn thread(&mut self, process: u32, thread: u32, system_thread: u32) -> io::Result<()> {
        let record = Record::Thread {
            process,
            thread,
            system_thread,
        };
        self.calls.push(&record, 32)
    }

    /// A file of the folder is mapped, which the system knows by these numbers.
    pub fn shown(
        &mut self,
        inode: InodeId,
        path: &str,
        device: u64,
        number: u64,
    ) -> io::Result<()> {
        let record = Record::Shown {
            inode,
            path: path.to_owned(),
            device,
            number,
        };
        self.calls.push(&record, path.len() + 48)
    }

    /// Stores that the program itself records, with smaller numbers, happened before what follows.
    pub fn stores(&mut self, before: u64) -> io::Result<()> {
        self.calls.push(&Record::Stores { before }, 16)
    }

    /// How many calls were written.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Ends the recording; `symbols` says what stands at each code address.
    pub fn finish(
        mut self,
        ended: ProgramEnd,
        symbols: impl IntoIterator<Item = (RawFrame, Vec<StackFrame>)>,
    ) -> io::Result<()> {
        let mut to = Stream::create(&self.folder.join(SYMBOLS), 64 << 10)?;
        for (at, frames) in symbols {
            to.push(&Symbol { at, frames }, 512)?;
        }
        to.finish()?;
        self.calls.push(&Record::End(ended), 32)?;
        self.calls.finish()
    }
}

/// At least what an effect takes.
fn estimate(effect: &Effect<'_>) -> usize {
    64 + match effect {
        Effect::New { kind, .. } => match kind {
            InodeKind::Symlink { target } => target.len(),
            InodeKind::File | InodeKind::Directory | InodeKind::Other => 0,
        },
        Effect::Link { slot, .. } | Effect::Unlink { slot, .. } => slot.name.len(),
        Effect::Rename { from, to, .. } => from.name.len() + to.name.len(),
        Effect::Exchange { first, second, .. } => first.name.len() + second.name.len(),
        Effect::Write { bytes, .. } | Effect::Output { bytes, .. } => bytes.len(),
        Effect::SetXattr { name, value, .. } => name.len() + value.map_or(0, <[u8]>::len),
        Effect::Resize { .. }
        | Effect::Allocate { .. }
        | Effect::SetMode { .. }
        | Effect::Sync(_)
        | Effect::LastClose { .. } => 0,
    }
}
