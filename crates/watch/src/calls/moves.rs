//! Bytes that go from one descriptor to another without passing the program's memory.

use super::output::{Output, OutputSource, read_back};
use super::{Arguments, EntryAction, EntryResult, PendingCall};
use crate::WatchError;
use crate::descriptors::{Description, FdTarget};
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{Effect, InodeId, Remark, Through};
use rustix::fs::FileType;
use std::rc::Rc;

/// Bytes come into a file of the folder.
#[derive(Debug)]
pub struct Move {
    pub description: Rc<Description>,
    inode: InodeId,
    /// If it was given.
    offset: Option<u64>,
    through: Through,
}

/// Which argument is the descriptor that is written to.
pub fn target(arguments: &Arguments) -> usize {
    match arguments.call() {
        libc::SYS_sendfile => 0,
        libc::SYS_tee => 1,
        // splice, copy_file_range
        _ => 2,
    }
}

impl Watcher<'_> {
    pub fn enter_move(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let to = arguments.descriptor(target(arguments));
        let Some(description) = self.description(by.tid, to) else {
            return Ok(EntryAction::Pass);
        };
        let (source, source_offset, offset) = match arguments.call() {
            libc::SYS_sendfile => (1, arguments.values[2], 0),
            libc::SYS_tee => (0, 0, 0),
            _ => (0, arguments.values[1], arguments.values[3]),
        };
        let pointed = |address: u64| match address {
            0 => None,
            address => self.word(by.tid, address),
        };
        match description.target {
            FdTarget::Inode(inode) if description.own.is_some() => {
                let offset = pointed(offset);
                let through = match arguments.call() {
                    libc::SYS_copy_file_range => Through::Copy,
                    _ => Through::Cache,
                };
                self.compare_mapped(by, Some(inode))?;
                Ok(EntryAction::wait_for(PendingCall::Move(Move {
                    description,
                    inode,
                    offset,
                    through,
                })))
            }
            FdTarget::Stream(stream) => {
                let offset = pointed(source_offset);
                let own = self.take(by.tid, arguments.descriptor(source));
                let source = own.and_then(|own| {
                    let stat = rustix::fs::fstat(&own).ok()?;
                    let kind = FileType::from_raw_mode(stat.st_mode);
                    (kind == FileType::RegularFile).then_some(OutputSource::File { own, offset })
                });
                self.compare_mapped(by, None)?;
                Ok(EntryAction::wait_for(PendingCall::Output(Output {
                    stream,
                    source: source.unwrap_or(OutputSource::Pipe),
                    arguments: *arguments,
                })))
            }
            FdTarget::Inode(_) | FdTarget::Other => Ok(EntryAction::Pass),
        }
    }

    pub fn exit_move(
        &mut self,
        by: CallContext<'_>,
        moved: Move,
        taken: u64,
    ) -> Result<(), WatchError> {
        let Move {
            description,
            inode,
            offset,
            through,
        } = moved;
        let Some(own) = description.own.as_ref().filter(|_| taken > 0) else {
            let closed = self.release([description]);
            return self.emit_closed(by, closed);
        };
        let end = || rustix::fs::tell(own).unwrap_or(0).saturating_sub(taken);
        let offset = offset.unwrap_or_else(end);
        let bytes = read_back(own, offset, taken);
        let name = by.name();
        let path = self.inodes.path(inode);
        let text = format!("{name}(\"{path}\", {taken} bytes at {offset})");
        let unseen = ((bytes.len() as u64) < taken).then(|| Remark::Unseen {
            text: text.clone(),
            reason: "the file could not be read back".into(),
        });
        self.content_seen((inode, offset), &bytes, unseen)?;
        let mut effects = vec![Effect::Write {
            inode,
            offset,
            bytes: &bytes,
            through,
        }];
        effects.extend(self.release([description]));
        self.emit(by, &text, effects)
    }
}

/// An `ioctl` that makes a file share blocks with another.
#[derive(Debug)]
pub struct Clone {
    pub description: Rc<Description>,
    inode: InodeId,
    from: u64,
    /// Where, and how much; `None`: all of it.
    range: Option<(u64, u64)>,
}

const FICLONE: u32 = 0x4004_9409;
const FICLONERANGE: u32 = 0x4020_940d;

/// Of the types that stop, those that change nothing: FIDEDUPERANGE, FIEMAP, FS_IOC_GETFLAGS and
/// its kin are questions, or change only where blocks are.
const HARMLESS: [u32; 2] = [0xc018_9436, 0xc020_660b];
/// The direction "to the kernel" in the number of an `ioctl`.
const TO_KERNEL: u32 = 1 << 30;

impl Watcher<'_> {
    pub fn enter_control(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let request = arguments.values[1] as u32;
        let argument = arguments.values[2];
        if HARMLESS.contains(&request) || request & TO_KERNEL == 0 {
            return Ok(EntryAction::Pass);
        }
        let Some(description) = self.description(by.tid, arguments.descriptor(0)) else {
            return Ok(EntryAction::Pass);
        };
        let FdTarget::Inode(inode) = description.target else {
            return Ok(EntryAction::Pass);
        };
        let stat = description
            .own
            .as_ref()
            .and_then(|own| rustix::fs::fstat(own).ok());
        let range = match request {
            FICLONE => Some(None),
            FICLONERANGE => {
                let word = |index: u64| self.word(by.tid, argument + 8 * index);
                word(3).zip(word(2)).map(Some)
            }
            _ => None,
        };
        let (Some(range), Some(stat)) = (range, stat) else {
            let text = format!("ioctl({:#x}) on \"{}\"", request, self.inodes.path(inode));
            let number = by.number;
            self.remark(Remark::UnknownForm { number, text })?;
            return Ok(EntryAction::Pass);
        };
        self.compare_mapped(by, Some(inode))?;
        Ok(EntryAction::wait_for(PendingCall::Clone(Clone {
            description,
            inode,
            from: stat.st_size as u64,
            range,
        })))
    }

    pub fn exit_clone(&mut self, by: CallContext<'_>, clone: Clone) -> Result<(), WatchError> {
        let Clone {
            description,
            inode,
            from,
            range,
        } = clone;
        let Some(own) = &description.own else {
            return Ok(());
        };
        let size = rustix::fs::fstat(own).map_or(0, |stat| stat.st_size as u64);
        let (offset, length) = match range {
            None => (0, size),
            // A length of 0 means: to the end of the source.
            Some((offset, 0)) => (offset, size.saturating_sub(offset)),
            Some((offset, length)) => (offset, length),
        };
        let bytes = read_back(own, offset, length);
        let path = self.inodes.path(inode);
        let text = format!("ioctl(\"{path}\", clone of {length} bytes at {offset})");
        let mut effects = Vec::new();
        if size < from {
            effects.push(Effect::Resize {
                inode,
                from,
                to: size,
            });
        }
        effects.push(Effect::Write {
            inode,
            offset,
            bytes: &bytes,
            through: Through::Copy,
        });
        if let Some(shadow) = &mut self.inodes.get_mut(inode).shadow {
            shadow.refresh();
        }
        effects.extend(self.release([description]));
        self.emit(by, &text, effects)
    }
}
