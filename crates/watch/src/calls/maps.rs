//! Shared mappings: made, changed, synced, compared.

use super::sync::PendingSync;
use super::{Arguments, EntryAction, EntryResult, PendingCall};
use crate::WatchError;
use crate::descriptors::FdTarget;
use crate::inodes::Number;
use crate::mappings::{Change, FileMapping, Shadow, shadow_bytes};
use crate::ptrace::Tid;
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{Allocation, Effect, InodeId, SyncKind, Through};
use rustix::fd::OwnedFd;
use std::ops::Range;
use std::rc::Rc;

const PAGE_BYTES: u64 = 4096;
/// Mappings up to this many bytes in all are compared at every call: stores are then found where
/// they happened. Larger ones are compared where it is promised.
const COMPARED_ALWAYS: usize = 256 << 10;

/// A mapping of a file of the folder that is being made.
#[derive(Debug)]
pub struct Map {
    inode: InodeId,
    own: OwnedFd,
    length: u64,
    offset: u64,
    writable: bool,
}

/// One that moves or changes its length.
#[derive(Debug)]
pub struct Remap {
    from: Range<u64>,
    length: u64,
}

/// `madvise(MADV_REMOVE)`: a hole.
#[derive(Debug)]
pub struct Remove {
    parts: Vec<(InodeId, u64, u64)>,
}

fn pages(address: u64, length: u64) -> Range<u64> {
    address..address.saturating_add(length.next_multiple_of(PAGE_BYTES))
}

impl Watcher<'_> {
    pub fn map_needs_turn(&mut self, tid: Tid, arguments: &Arguments) -> bool {
        match arguments.call() {
            libc::SYS_msync | libc::SYS_madvise => !self
                .parts(tid, &pages(arguments.values[0], arguments.values[1]))
                .is_empty(),
            _ => false,
        }
    }

    /// The parts of files that a range of addresses shows: inode, offset, length.
    fn parts(&self, tid: Tid, addresses: &Range<u64>) -> Vec<(InodeId, u64, u64)> {
        let Some(task) = self.tasks.get(tid) else {
            return Vec::new();
        };
        let space = task.process.space.borrow();
        let part = |mapping: &FileMapping| {
            let start = mapping.addresses.start.max(addresses.start);
            let end = mapping.addresses.end.min(addresses.end);
            let offset = mapping.offset + (start - mapping.addresses.start);
            (mapping.inode, offset, end - start)
        };
        space.touching(addresses).map(part).collect()
    }

    pub fn enter_map(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let [address, length, third, ..] = arguments.values;
        let range = pages(address, length);
        match arguments.call() {
            libc::SYS_mmap => return Ok(self.enter_mmap(by, arguments)),
            libc::SYS_munmap => {
                self.unmapped(by, &range)?;
                return Ok(EntryAction::Pass);
            }
            _ => {}
        }
        let parts = self.parts(by.tid, &range);
        if parts.is_empty() {
            return Ok(EntryAction::Pass);
        }
        match arguments.call() {
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                self.make_writable(by.tid, &range);
                Ok(EntryAction::Pass)
            }
            libc::SYS_mremap => {
                let remap = Remap {
                    from: range,
                    length: third,
                };
                Ok(EntryAction::wait_for(PendingCall::Remap(remap)))
            }
            libc::SYS_madvise => {
                for (inode, ..) in &parts {
                    self.compare_mapped(by, Some(*inode))?;
                }
                Ok(EntryAction::wait_for(PendingCall::Remove(Remove { parts })))
            }
            // msync
            _ => {
                for (inode, ..) in &parts {
                    self.compare_mapped(by, Some(*inode))?;
                }
                if third as i32 & libc::MS_SYNC == 0 {
                    return Ok(EntryAction::Pass);
                }
                let named: Vec<String> = parts
                    .iter()
                    .map(|part| format!("\"{}\"", self.inodes.path(part.0)))
                    .collect();
                let text = format!("msync({}, {length} bytes, MS_SYNC)", named.join(", "));
                let range = |(inode, offset, length)| SyncKind::DataRange {
                    inode,
                    offset,
                    length,
                };
                let kinds = parts.into_iter().map(range).collect();
                Ok(EntryAction::wait_for(PendingCall::Sync(PendingSync {
                    kinds,
                    text,
                })))
            }
        }
    }

    fn enter_mmap(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryAction {
        let Some(description) = self.description(by.tid, arguments.descriptor(4)) else {
            return EntryAction::Pass;
        };
        let FdTarget::Inode(inode) = description.target else {
            return EntryAction::Pass;
        };
        let own = description
            .own
            .as_ref()
            .and_then(|own| own.try_clone().ok());
        let Some(own) = own else {
            return EntryAction::Pass;
        };
        EntryAction::wait_for(PendingCall::Map(Map {
            inode,
            own,
            length: arguments.values[1],
            offset: arguments.values[5],
            writable: arguments.flags(2) & libc::PROT_WRITE != 0,
        }))
    }

    pub fn exit_map(&mut self, tid: Tid, map: Map, address: u64) -> Result<(), WatchError> {
        let Some(task) = self.tasks.get(tid) else {
            return Ok(());
        };
        let addresses = pages(address, map.length);
        let mut space = task.process.space.borrow_mut();
        space.unmap(&addresses);
        let own = Rc::new(map.own);
        space.mappings.push(FileMapping {
            addresses,
            inode: map.inode,
            offset: map.offset,
            writable: map.writable,
            own: Rc::clone(&own),
        });
        drop(space);
        if map.writable && self.inodes.get(map.inode).shadow.is_none() {
            self.inodes.shade(map.inode, Shadow::new(own));
        }
        let path = self.inodes.path(map.inode);
        let Number { device, inode } = self.inodes.get(map.inode).number;
        self.writer
            .shown(map.inode, &path, device, inode)
            .map_err(|source| WatchError::Write { source })
    }

    /// Mappings that were for reading can be written from here on.
    fn make_writable(&mut self, tid: Tid, range: &Range<u64>) {
        let Some(task) = self.tasks.get(tid) else {
            return;
        };
        let mut space = task.process.space.borrow_mut();
        let mut shaded = Vec::new();
        for mapping in &mut space.mappings {
            let apart =
                mapping.addresses.end <= range.start || range.end <= mapping.addresses.start;
            if !apart && !mapping.writable {
                mapping.writable = true;
                shaded.push((mapping.inode, Rc::clone(&mapping.own)));
            }
        }
        drop(space);
        for (inode, own) in shaded {
            if self.inodes.get(inode).shadow.is_none() {
                self.inodes.shade(inode, Shadow::new(own));
            }
        }
    }

    pub fn exit_remap(&mut self, tid: Tid, remap: &Remap, address: u64) {
        let Some(task) = self.tasks.get(tid) else {
            return;
        };
        let mut space = task.process.space.borrow_mut();
        let old = space.touching(&remap.from).next().cloned();
        space.unmap(&remap.from);
        if let Some(old) = old {
            let addresses = pages(address, remap.length);
            space.unmap(&addresses);
            let offset = old.offset + remap.from.start.saturating_sub(old.addresses.start);
            space.mappings.push(FileMapping {
                addresses,
                offset,
                ..old
            });
        }
    }

    fn unmapped(&mut self, by: CallContext<'_>, range: &Range<u64>) -> Result<(), WatchError> {
        self.stacks_unmapped(by.tid, range);
        let parts = self.parts(by.tid, range);
        if parts.is_empty() {
            return Ok(());
        }
        for (inode, ..) in &parts {
            self.compare_mapped(by, Some(*inode))?;
        }
        if let Some(task) = self.tasks.get(by.tid) {
            task.process.space.borrow_mut().unmap(range);
        }
        self.forget_unmapped(parts.into_iter().map(|part| part.0));
        Ok(())
    }

    /// Shadows of inodes that nobody maps for writing any more go.
    pub fn forget_unmapped(&mut self, inodes: impl IntoIterator<Item = InodeId>) {
        for inode in inodes {
            let still = self.tasks.all.values().any(|task| {
                let space = task.process.space.borrow();
                space
                    .mappings
                    .iter()
                    .any(|mapping| mapping.inode == inode && mapping.writable)
            });
            if !still && self.inodes.get(inode).shadow.is_some() {
                self.inodes.unshade(inode);
            }
        }
    }

    pub fn exit_remove(&mut self, by: CallContext<'_>, remove: Remove) -> Result<(), WatchError> {
        let mut effects = Vec::new();
        for (inode, offset, length) in remove.parts {
            effects.push(Effect::Allocate {
                inode,
                offset,
                length,
                what: Allocation::PunchHole,
            });
            if let Some(shadow) = &mut self.inodes.get_mut(inode).shadow {
                shadow.refresh();
            }
        }
        self.emit(by, "madvise(MADV_REMOVE)", effects)
    }

    /// Before a call on an inode: what was stored through its mappings so far. Small mappings of
    /// others are looked at too, so that the order between files is known.
    pub fn compare_mapped(
        &mut self,
        by: CallContext<'_>,
        inode: Option<InodeId>,
    ) -> Result<(), WatchError> {
        if self.inodes.mapped().is_empty() {
            return Ok(());
        }
        if shadow_bytes(&self.inodes) <= COMPARED_ALWAYS {
            return self.compare_all(by);
        }
        match inode {
            Some(inode) => self.compare(by, &[inode]),
            None => self.note_stores(),
        }
    }

    pub fn compare_all(&mut self, by: CallContext<'_>) -> Result<(), WatchError> {
        let all = self.inodes.mapped().to_vec();
        self.compare(by, &all)
    }

    fn compare(&mut self, by: CallContext<'_>, inodes: &[InodeId]) -> Result<(), WatchError> {
        for &inode in inodes {
            let Some(shadow) = &mut self.inodes.get_mut(inode).shadow else {
                continue;
            };
            let changes = shadow.compare();
            // What was found happened before this.
            self.note_stores()?;
            let effects = changes
                .iter()
                .map(|Change { offset, bytes }| Effect::Write {
                    inode,
                    offset: *offset,
                    bytes,
                    through: Through::Mapping,
                });
            let effects: Vec<_> = effects.collect();
            let path = self.inodes.path(inode);
            let text = format!(
                "stores into a mapping of \"{path}\", {} pages",
                effects.len()
            );
            self.emit(by, &text, effects)?;
        }
        Ok(())
    }
}
