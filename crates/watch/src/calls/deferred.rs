//! Writes whose end is not waited for: half the stops of a program that mostly writes.
//!
//! While the program has one thread, its next stop, whatever it is, comes after the write has
//! returned. How much was written is then how far the position of the file has moved, for we have a
//! descriptor to the same description; and what was written is what the file holds there, for
//! nobody else has written since.
//!
//! If the position moved otherwise (the program also seeks or reads by this description, or the
//! write failed or was short), what the file holds where it was to be written is recorded: that is
//! what a crash can lose, and never more than the file has. From then on the ends of writes to this
//! description are waited for.

use super::data::write_effects;
use super::{Arguments, EntryAction, EntryResult, PendingCall, data};
use crate::WatchError;
use crate::descriptors::Description;
use crate::ptrace::Tid;
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{InodeId, StackId, SystemCall};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use std::rc::Rc;

#[derive(Debug)]
pub struct Deferred {
    tid: Tid,
    number: SystemCall,
    stack: StackId,
    description: Rc<Description>,
    inode: InodeId,
    /// Where the write begins.
    offset: u64,
    wanted: u64,
}

impl Watcher<'_> {
    pub fn can_defer(&self, description: &Description, arguments: &Arguments) -> bool {
        let by_position = matches!(arguments.call(), libc::SYS_write | libc::SYS_writev);
        by_position
            && self.tasks.all.len() == 1
            && !description.moves.get()
            && description.reader().is_some()
    }

    pub fn defer(
        &mut self,
        by: CallContext<'_>,
        arguments: &Arguments,
        description: Rc<Description>,
        inode: InodeId,
    ) -> EntryResult {
        let position = match &description.own {
            Some(own) if description.flags.get().contains(OFlags::APPEND) => {
                rustix::fs::fstat(own).map(|stat| stat.st_size as u64)
            }
            // If the last stop was a write too, its end is the beginning of this one.
            Some(own) => match self.settled.take() {
                Some((settled, end)) if settled == Rc::as_ptr(&description) => Ok(end),
                _ => rustix::fs::tell(own),
            },
            None => Err(rustix::io::Errno::BADF),
        };
        let Ok(offset) = position else {
            let write = data::Write {
                description,
                inode,
                then_mark: false,
            };
            return Ok(EntryAction::wait_for(PendingCall::Write(write)));
        };
        let wanted = match arguments.call() {
            libc::SYS_write => arguments.values[2],
            _ => self.vector_length(by, arguments.values[1], arguments.values[2]),
        };
        let stack = self.stack(by)?;
        Ok(EntryAction::Defer(Box::new(Deferred {
            tid: by.tid,
            number: by.number,
            stack,
            description,
            inode,
            offset,
            wanted,
        })))
    }

    /// How much a vector asks for.
    fn vector_length(&self, by: CallContext<'_>, vector: u64, count: u64) -> u64 {
        let parts = self.memory(by.tid, vector, (count.min(1024) * 16) as usize);
        let length =
            |part: &[u8]| u64::from_ne_bytes(part[8..].try_into().expect("half of sixteen bytes"));
        parts
            .chunks_exact(16)
            .map(length)
            .fold(0, u64::saturating_add)
    }

    /// The program stopped again: what did the write do?
    pub fn settle(&mut self) -> Result<(), WatchError> {
        let Some(deferred) = self.deferred.take() else {
            return Ok(());
        };
        let Deferred {
            tid,
            number,
            stack,
            description,
            inode,
            offset,
            wanted,
        } = *deferred;
        let position = match &description.own {
            Some(own) => rustix::fs::tell(own).unwrap_or(0),
            None => 0,
        };
        if position.checked_sub(offset) != Some(wanted) {
            description.moves.set(true);
        }
        self.settled = Some((Rc::as_ptr(&description), position));
        let mut bytes = std::mem::take(&mut self.buffer);
        if let Some(reader) = description.reader() {
            read_at(reader, offset, wanted, &mut bytes);
        }
        let flags = description.flags.get();
        let by = (tid, number, stack);
        if !bytes.is_empty() {
            self.wrote_at(by, inode, offset, &bytes, flags)?;
        }
        self.buffer = bytes;
        let closed = self.release([description]);
        if !closed.is_empty() {
            let text = format!(
                "{}(\"{}\")",
                crate::table::name(number),
                self.inodes.path(inode)
            );
            self.emit_at(tid, number, stack, &text, closed)?;
        }
        Ok(())
    }

    /// Writes down a write whose end was not waited for.
    pub fn wrote_at(
        &mut self,
        (tid, number, stack): (Tid, SystemCall, StackId),
        inode: InodeId,
        offset: u64,
        bytes: &[u8],
        flags: OFlags,
    ) -> Result<(), WatchError> {
        if let Some(shadow) = &mut self.inodes.get_mut(inode).shadow {
            shadow.wrote(offset, bytes);
        }
        let effects = write_effects(inode, offset, bytes, flags, 0).collect();
        let name = crate::table::name(number);
        let path = self.inodes.path(inode);
        let text = format!("{name}(\"{path}\", {} bytes at {offset})", bytes.len());
        self.emit_at(tid, number, stack, &text, effects)
    }
}

/// What a file holds, up to its end.
pub fn read_at(reader: &OwnedFd, offset: u64, length: u64, to: &mut Vec<u8>) {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    to.clear();
    to.resize(length.min(MAX_WRITE_BYTES), 0);
    let mut done = 0;
    while done < to.len() {
        match rustix::io::pread(reader, &mut to[done..], offset + done as u64) {
            Ok(0) | Err(_) => break,
            Ok(read) => done += read,
        }
    }
    to.truncate(done);
}

/// No call writes more (`MAX_RW_COUNT` of the kernel).
const MAX_WRITE_BYTES: usize = 0x7fff_f000;
