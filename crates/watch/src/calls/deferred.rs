//! Writes whose end is not waited for: half the stops of a program that mostly writes.
//!
//! While the program has one thread, its next stop, whatever it is, comes after the write has
//! returned. How much was written is then how far the position of the file has moved: we have a
//! descriptor to the same description. If it moved otherwise (the program seeks or reads by the same
//! description), the file itself is compared with what was to be written, and from then on the ends
//! of writes to this description are waited for.

use super::data::write_effects;
use super::output::read_back;
use super::{Arguments, Entry};
use crate::WatchError;
use crate::descriptors::Description;
use crate::ptrace::Tid;
use crate::watcher::{By, Watcher};
use crashpoint_trace::files::{InodeId, Remark, StackId, SystemCall};
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
    /// All that was to be written.
    bytes: Vec<u8>,
    wanted: u64,
}

impl Watcher<'_> {
    pub fn can_defer(&self, description: &Description, arguments: &Arguments) -> bool {
        let by_position = matches!(arguments.call(), libc::SYS_write | libc::SYS_writev);
        by_position && self.tasks.all.len() == 1 && !description.moves.get()
    }

    pub fn defer(
        &mut self,
        by: By<'_>,
        arguments: &Arguments,
        description: Rc<Description>,
        inode: InodeId,
    ) -> Result<Entry, WatchError> {
        let Some(own) = &description.own else {
            return Ok(Entry::Pass);
        };
        let offset = match description.flags.get().contains(OFlags::APPEND) {
            true => rustix::fs::fstat(own).map_or(0, |stat| stat.st_size as u64),
            // If the last stop was a write too, its end is the beginning of this one.
            false => match self.settled.take() {
                Some((settled, position)) if settled == Rc::as_ptr(&description) => position,
                _ => rustix::fs::tell(own).unwrap_or(0),
            },
        };
        let wanted = match arguments.call() {
            libc::SYS_write => arguments.values[2],
            _ => self.vector_length(by, arguments.values[1], arguments.values[2]),
        };
        let bytes = match arguments.call() {
            libc::SYS_write if self.options.stacks => {
                let mut bytes = vec![0; wanted as usize];
                let stack = by.registers.rsp;
                let read = self
                    .stacks
                    .read_with(by.tid, stack, arguments.values[1], &mut bytes);
                bytes.truncate(read);
                bytes
            }
            _ => self.given(by, arguments, wanted),
        };
        let stack = self.stack(by)?;
        Ok(Entry::Defer(Box::new(Deferred {
            tid: by.tid,
            number: by.number,
            stack,
            description,
            inode,
            offset,
            bytes,
            wanted,
        })))
    }

    /// How much a vector asks for.
    fn vector_length(&self, by: By<'_>, vector: u64, count: u64) -> u64 {
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
            bytes,
            wanted,
        } = *deferred;
        let Some(own) = &description.own else {
            return Ok(());
        };
        let position = rustix::fs::tell(own).unwrap_or(0);
        let moved = position.checked_sub(offset);
        let written = match moved {
            Some(moved) if moved == wanted => moved,
            // Nothing moved: it failed. Less: it was short, as on a full disk.
            Some(moved) if moved < wanted && self.shows(&description, offset, &bytes, moved) => {
                moved
            }
            _ => {
                description.moves.set(true);
                match read_back(own, offset, wanted) == bytes {
                    true => wanted,
                    false => {
                        let text = format!("write(\"{}\")", self.inodes.path(inode));
                        self.remark(Remark::Unseen {
                            text,
                            reason: "the position of the file was moved before it was looked at"
                                .into(),
                        })?;
                        0
                    }
                }
            }
        };
        let bytes = &bytes[..bytes.len().min(written as usize)];
        let mut effects = Vec::new();
        if !bytes.is_empty() {
            if let Some(shadow) = &mut self.inodes.get_mut(inode).shadow {
                shadow.wrote(offset, bytes);
            }
            let flags = description.flags.get();
            effects.extend(write_effects(inode, offset, bytes, flags, 0));
        }
        let name = crate::table::name(number);
        let path = self.inodes.path(inode);
        let text = format!("{name}(\"{path}\", {written} bytes at {offset})");
        self.settled = Some((Rc::as_ptr(&description), position));
        effects.extend(self.release([description]));
        if effects.is_empty() {
            return Ok(());
        }
        self.emit_at(tid, number, stack, &text, effects)
    }

    /// Whether a write that seems to have failed or to have been short really was: what follows is
    /// not there.
    fn shows(&self, description: &Description, offset: u64, bytes: &[u8], moved: u64) -> bool {
        let Some(own) = &description.own else {
            return false;
        };
        read_back(own, offset, bytes.len() as u64) != bytes || moved == bytes.len() as u64
    }
}
