//! Bytes that go from one descriptor to another without passing the program's memory.

use super::output::{Output, Source, read_back};
use super::{Arguments, Entry, What};
use crate::WatchError;
use crate::descriptors::{Description, Subject};
use crate::watcher::{By, Watcher};
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
    pub fn look_at_move(&mut self, by: By<'_>, arguments: &Arguments) -> Result<Entry, WatchError> {
        let to = arguments.descriptor(target(arguments));
        let Some(description) = self.description(by.tid, to) else {
            return Ok(Entry::Pass);
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
        match description.subject {
            Subject::Inode(inode) if description.own.is_some() => {
                let offset = pointed(offset);
                let through = match arguments.call() {
                    libc::SYS_copy_file_range => Through::Copy,
                    _ => Through::Cache,
                };
                self.compare_mapped(by, Some(inode))?;
                Ok(Entry::wait_for(What::Move(Move {
                    description,
                    inode,
                    offset,
                    through,
                })))
            }
            Subject::Stream(stream) => {
                let offset = pointed(source_offset);
                let own = self.take(by.tid, arguments.descriptor(source));
                let source = own.and_then(|own| {
                    let stat = rustix::fs::fstat(&own).ok()?;
                    let kind = FileType::from_raw_mode(stat.st_mode);
                    (kind == FileType::RegularFile).then_some(Source::File { own, offset })
                });
                self.compare_mapped(by, None)?;
                Ok(Entry::wait_for(What::Output(Output {
                    stream,
                    source: source.unwrap_or(Source::Pipe),
                    arguments: *arguments,
                })))
            }
            Subject::Inode(_) | Subject::Other => Ok(Entry::Pass),
        }
    }

    pub fn moved(&mut self, by: By<'_>, moved: Move, taken: u64) -> Result<(), WatchError> {
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
        let name = crate::table::name(by.number);
        let path = self.inodes.path(inode);
        let text = format!("{name}(\"{path}\", {taken} bytes at {offset})");
        if (bytes.len() as u64) < taken {
            self.remark(Remark::Unseen {
                text: text.clone(),
                reason: "the file could not be read back".into(),
            })?;
        }
        if let Some(shadow) = &mut self.inodes.get_mut(inode).shadow {
            shadow.wrote(offset, &bytes);
        }
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
    pub fn look_at_control(
        &mut self,
        by: By<'_>,
        arguments: &Arguments,
    ) -> Result<Entry, WatchError> {
        let request = arguments.values[1] as u32;
        let argument = arguments.values[2];
        if HARMLESS.contains(&request) || request & TO_KERNEL == 0 {
            return Ok(Entry::Pass);
        }
        let Some(description) = self.description(by.tid, arguments.descriptor(0)) else {
            return Ok(Entry::Pass);
        };
        let Subject::Inode(inode) = description.subject else {
            return Ok(Entry::Pass);
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
            return Ok(Entry::Pass);
        };
        self.compare_mapped(by, Some(inode))?;
        Ok(Entry::wait_for(What::Clone(Clone {
            description,
            inode,
            from: stat.st_size as u64,
            range,
        })))
    }

    pub fn cloned(&mut self, by: By<'_>, clone: Clone) -> Result<(), WatchError> {
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
