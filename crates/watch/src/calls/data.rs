//! Bytes written from memory, and sizes.

use super::resolve::PathAt;
use super::{Arguments, EntryAction, EntryResult, PendingCall, output};
use crate::WatchError;
use crate::descriptors::{Description, FdTarget};
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{Allocation, Effect, InodeId, Remark, SyncKind, Through};
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use std::rc::Rc;

/// A write to a file of the folder.
#[derive(Debug)]
pub struct Write {
    pub description: Rc<Description>,
    pub inode: InodeId,
    /// Whether the next ones need not stop.
    pub then_mark: bool,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// The description's own.
    Current,
    Explicit(u64),
}

impl Watcher<'_> {
    pub fn enter_write(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let Some(description) = self.description(by.tid, arguments.descriptor(0)) else {
            return Ok(EntryAction::Pass);
        };
        match description.target {
            FdTarget::Inode(inode) if description.own.is_some() => {
                self.compare_mapped(by, Some(inode))?;
                let then_mark = self.can_mark(by, arguments, &description);
                if !then_mark && self.can_defer(&description, arguments) {
                    // Its end is found by the position, which must not move on unseen.
                    self.unmark();
                    return self.defer(by, arguments, description, inode);
                }
                Ok(EntryAction::wait_for(PendingCall::Write(Write {
                    description,
                    inode,
                    then_mark,
                })))
            }
            FdTarget::Stream(stream) => {
                self.compare_mapped(by, None)?;
                let source = output::OutputSource::Memory;
                Ok(EntryAction::wait_for(PendingCall::Output(output::Output {
                    stream,
                    source,
                    arguments: *arguments,
                })))
            }
            FdTarget::Inode(_) | FdTarget::Other => Ok(EntryAction::Pass),
        }
    }

    /// What a write call was given, up to what it took.
    pub fn given(&self, by: CallContext<'_>, arguments: &Arguments, taken: u64) -> Vec<u8> {
        let [_, address, count, ..] = arguments.values;
        match arguments.call() {
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_sendto => {
                self.memory(by.tid, address, taken as usize)
            }
            _ => self.gather(by, address, count, taken),
        }
    }

    /// The bytes that a vector describes, up to `taken`.
    pub fn gather(&self, by: CallContext<'_>, vector: u64, count: u64, taken: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(taken as usize);
        let parts = self.memory(by.tid, vector, (count.min(1024) * 16) as usize);
        for part in parts.chunks_exact(16) {
            let word = |from: usize| {
                u64::from_ne_bytes(part[from..from + 8].try_into().expect("eight bytes"))
            };
            let left = taken as usize - bytes.len();
            if left == 0 {
                break;
            }
            bytes.extend(self.memory(by.tid, word(0), left.min(word(8) as usize)));
        }
        bytes
    }

    /// What came into a file at an offset, as far as it was seen.
    pub(super) fn content_seen(
        &mut self,
        (inode, offset): (InodeId, u64),
        bytes: &[u8],
        unseen: Option<Remark>,
    ) -> Result<(), WatchError> {
        if let Some(remark) = unseen {
            self.remark(remark)?;
        }
        if let Some(shadow) = &mut self.inodes.get_mut(inode).shadow {
            shadow.wrote(offset, bytes);
        }
        Ok(())
    }

    pub fn exit_write(
        &mut self,
        by: CallContext<'_>,
        arguments: &Arguments,
        write: Write,
        taken: u64,
    ) -> Result<(), WatchError> {
        let Write {
            description,
            inode,
            then_mark,
        } = write;
        let bytes;
        let mut effects = Vec::new();
        let mut text = String::new();
        if let (Some(own), 1..) = (&description.own, taken) {
            let flags = description.flags.get();
            let extra = match arguments.call() {
                libc::SYS_pwritev2 => arguments.flags(5),
                _ => 0,
            };
            let offset = written_at(own, arguments, flags, extra, taken);
            bytes = self.given(by, arguments, taken);
            text = format!(
                "{}(\"{}\", {taken} bytes at {offset})",
                by.name(),
                self.inodes.path(inode)
            );
            let unseen = ((bytes.len() as u64) < taken).then(|| Remark::Unseen {
                text: text.clone(),
                reason: "the memory was gone when it had returned".into(),
            });
            self.content_seen((inode, offset), &bytes, unseen)?;
            effects.extend(write_effects(inode, offset, &bytes, flags, extra));
            if then_mark {
                self.mark(by, arguments, offset + taken);
            }
        }
        effects.extend(self.release([description]));
        self.emit(by, &text, effects)
    }
}

/// A write, and that it is durable if it was asked to be.
pub fn write_effects(
    inode: InodeId,
    offset: u64,
    bytes: &[u8],
    flags: OFlags,
    extra: i32,
) -> impl Iterator<Item = Effect<'_>> {
    let through = if flags.contains(OFlags::DIRECT) {
        Through::Direct
    } else {
        Through::Cache
    };
    let length = bytes.len() as u64;
    let synced = synced_by(flags, extra).map(move |full| {
        Effect::Sync(if full {
            SyncKind::FullRange {
                inode,
                offset,
                length,
            }
        } else {
            SyncKind::DataRange {
                inode,
                offset,
                length,
            }
        })
    });
    let write = Effect::Write {
        inode,
        offset,
        bytes,
        through,
    };
    [Some(write), synced].into_iter().flatten()
}

fn written_at(own: &OwnedFd, arguments: &Arguments, flags: OFlags, extra: i32, taken: u64) -> u64 {
    let position = match arguments.call() {
        libc::SYS_pwrite64 => Position::Explicit(arguments.values[3]),
        libc::SYS_pwritev => Position::Explicit(arguments.values[3]),
        libc::SYS_pwritev2 if arguments.values[3] != u64::MAX => {
            Position::Explicit(arguments.values[3])
        }
        _ => Position::Current,
    };
    let appends = extra & libc::RWF_APPEND != 0
        || flags.contains(OFlags::APPEND) && extra & libc::RWF_NOAPPEND == 0;
    match position {
        // On Linux, a file that is opened for appending appends wherever one points.
        Position::Explicit(_) if appends => {
            rustix::fs::fstat(own).map_or(0, |stat| (stat.st_size as u64).saturating_sub(taken))
        }
        Position::Explicit(offset) => offset,
        Position::Current => rustix::fs::tell(own).unwrap_or(0).saturating_sub(taken),
    }
}

/// Whether a write is durable when it returns: with all metadata, or with what reading needs.
pub fn synced_by(flags: OFlags, extra: i32) -> Option<bool> {
    let raw = flags.bits() as i32;
    if raw & libc::O_SYNC == libc::O_SYNC || extra & libc::RWF_SYNC != 0 {
        Some(true)
    } else if raw & libc::O_DSYNC != 0 || extra & libc::RWF_DSYNC != 0 {
        Some(false)
    } else {
        None
    }
}

/// A call that changes the size or the blocks of a file.
#[derive(Debug)]
pub struct Resize {
    inode: InodeId,
    from: u64,
    change: Change,
}

#[derive(Debug)]
enum Change {
    To(u64),
    Blocks {
        what: Allocation,
        offset: u64,
        length: u64,
    },
}

impl Watcher<'_> {
    pub fn enter_resize(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let values = &arguments.values;
        let (inode, from) = if arguments.call() == libc::SYS_truncate {
            match self.inode_by_path(by, libc::AT_FDCWD, values[0], true) {
                Some((inode, stat, PathAt { .. })) => (inode, stat.st_size as u64),
                None => return Ok(EntryAction::Pass),
            }
        } else {
            match self.own_inode(by, arguments.descriptor(0)) {
                Some((inode, size)) => (inode, size),
                None => return Ok(EntryAction::Pass),
            }
        };
        let change = match arguments.call() {
            libc::SYS_fallocate => {
                let Some(what) = allocation(arguments.flags(1)) else {
                    let text = format!("fallocate with mode {:#x}", values[1]);
                    let number = by.number;
                    self.remark(Remark::UnknownForm { number, text })?;
                    return Ok(EntryAction::Pass);
                };
                Change::Blocks {
                    what,
                    offset: values[2],
                    length: values[3],
                }
            }
            _ => Change::To(values[1]),
        };
        self.compare_mapped(by, Some(inode))?;
        Ok(EntryAction::wait_for(PendingCall::Resize(Resize {
            inode,
            from,
            change,
        })))
    }

    pub fn exit_resize(&mut self, by: CallContext<'_>, resize: Resize) -> Result<(), WatchError> {
        let Resize { inode, from, .. } = resize;
        let name = by.name();
        let path = self.inodes.path(inode);
        let shadow = self.inodes.get_mut(inode).shadow.as_mut();
        let (text, effect) = match resize.change {
            Change::To(to) => {
                if let Some(shadow) = shadow {
                    shadow.resized(to);
                }
                if from == to {
                    return Ok(());
                }
                let text = format!("{name}(\"{path}\", {to})");
                (text, Effect::Resize { inode, from, to })
            }
            Change::Blocks {
                what,
                offset,
                length,
            } => {
                if let Some(shadow) = shadow {
                    shadow.refresh();
                }
                let text = format!("{name}(\"{path}\", {what:?}, {length} bytes at {offset})");
                let effect = Effect::Allocate {
                    inode,
                    offset,
                    length,
                    what,
                };
                (text, effect)
            }
        };
        self.emit(by, &text, vec![effect])
    }

    /// The file behind a descriptor that can write, with its size.
    pub fn own_inode(&mut self, by: CallContext<'_>, descriptor: i32) -> Option<(InodeId, u64)> {
        let description = self.description(by.tid, descriptor)?;
        let FdTarget::Inode(inode) = description.target else {
            return None;
        };
        let stat = rustix::fs::fstat(description.own.as_ref()?).ok()?;
        Some((inode, stat.st_size as u64))
    }
}

fn allocation(mode: i32) -> Option<Allocation> {
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    Some(match mode {
        0 => Allocation::Reserve,
        libc::FALLOC_FL_UNSHARE_RANGE | libc::FALLOC_FL_KEEP_SIZE => Allocation::ReserveKeepSize,
        libc::FALLOC_FL_ZERO_RANGE => Allocation::Zero,
        libc::FALLOC_FL_COLLAPSE_RANGE => Allocation::Collapse,
        libc::FALLOC_FL_INSERT_RANGE => Allocation::Insert,
        other if other == keep | libc::FALLOC_FL_PUNCH_HOLE => Allocation::PunchHole,
        other if other == keep | libc::FALLOC_FL_ZERO_RANGE => Allocation::ZeroKeepSize,
        other if other == keep | libc::FALLOC_FL_UNSHARE_RANGE => Allocation::ReserveKeepSize,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_synced_by_flags_of_the_file_or_of_the_call() {
        let flags = |raw: i32| OFlags::from_bits_retain(raw as u32);
        assert_eq!(synced_by(flags(libc::O_SYNC), 0), Some(true));
        assert_eq!(synced_by(flags(libc::O_DSYNC), 0), Some(false));
        assert_eq!(synced_by(flags(0), libc::RWF_SYNC), Some(true));
        assert_eq!(synced_by(flags(0), libc::RWF_DSYNC), Some(false));
        assert_eq!(synced_by(flags(libc::O_APPEND), 0), None);
    }

    #[test]
    fn modes_of_fallocate_that_nobody_knows_are_none() {
        assert_eq!(allocation(0), Some(Allocation::Reserve));
        assert_eq!(allocation(3), Some(Allocation::PunchHole));
        assert_eq!(allocation(0x11), Some(Allocation::ZeroKeepSize));
        assert_eq!(allocation(0x8000), None);
    }
}
