//! Calls that make something durable, or seem to.

use super::{Arguments, EntryAction, EntryResult, PendingCall};
use crate::WatchError;
use crate::descriptors::FdTarget;
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{Effect, InodeId, SyncKind};

#[derive(Debug)]
pub struct PendingSync {
    /// Several where `msync` covers several mappings.
    pub kinds: Vec<SyncKind>,
    pub text: String,
}

impl Watcher<'_> {
    pub fn enter_sync(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let name = by.name();
        let descriptor = arguments.descriptor(0);
        let everything = match arguments.call() {
            libc::SYS_sync => true,
            libc::SYS_syncfs => {
                let own = self.take(by.tid, descriptor);
                let device = own
                    .and_then(|own| rustix::fs::fstat(own).ok())
                    .map(|s| s.st_dev);
                if device != Some(self.inodes.get(InodeId::ROOT).number.device) {
                    return Ok(EntryAction::Pass);
                }
                true
            }
            _ => false,
        };
        if everything {
            self.compare_all(by)?;
            return Ok(EntryAction::wait_for(PendingCall::Sync(PendingSync {
                kinds: vec![SyncKind::Everything],
                text: format!("{name}()"),
            })));
        }
        let Some(description) = self.description(by.tid, descriptor) else {
            return Ok(EntryAction::Pass);
        };
        let FdTarget::Inode(inode) = description.target else {
            return Ok(EntryAction::Pass);
        };
        let path = self.inodes.path(inode);
        let mut text = format!("{name}(\"{path}\")");
        let kind = match arguments.call() {
            libc::SYS_fsync => SyncKind::Full(inode),
            libc::SYS_fdatasync => SyncKind::Data(inode),
            _ => {
                let [_, offset, length, ..] = arguments.values;
                text = format!("{name}(\"{path}\", {length} bytes at {offset})");
                // No length means: to the end of the file.
                let length = match length {
                    0 => u64::MAX - offset,
                    length => length,
                };
                SyncKind::WriteOut {
                    inode,
                    offset,
                    length,
                }
            }
        };
        self.compare_mapped(by, Some(inode))?;
        Ok(EntryAction::wait_for(PendingCall::Sync(PendingSync {
            kinds: vec![kind],
            text,
        })))
    }

    pub fn exit_sync(&mut self, by: CallContext<'_>, sync: PendingSync) -> Result<(), WatchError> {
        let effects = sync.kinds.into_iter().map(Effect::Sync).collect();
        self.emit(by, &sync.text, effects)
    }
}
