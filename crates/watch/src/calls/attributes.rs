//! Modes, owners and extended attributes.
//!
//! No model knows owners: a change of owner is recorded as the mode that it left, which is what
//! makes it an operation on the inode.

use super::resolve::PathAt;
use super::{Arguments, EntryAction, EntryResult, PendingCall};
use crate::WatchError;
use crate::descriptors::FdTarget;
use crate::watcher::{CallContext, Watcher};
use crate::{before, paths};
use crashpoint_trace::files::{Effect, InodeId};
use rustix::fd::OwnedFd;

/// Whether a call that takes a path or a descriptor takes a descriptor.
pub fn by_descriptor(arguments: &Arguments) -> bool {
    matches!(
        arguments.call(),
        libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_fchmod
            | libc::SYS_fchown
            | libc::SYS_fsetxattr
            | libc::SYS_fremovexattr
    )
}

#[derive(Debug)]
pub struct Attribute {
    inode: InodeId,
    subject: Looked,
}

/// How to look at it again.
#[derive(Debug)]
enum Looked {
    At { at: PathAt, follow: bool },
    Own(OwnedFd),
}

#[derive(Debug)]
pub struct Xattr {
    inode: InodeId,
    name: Vec<u8>,
    /// None removes it.
    value: Option<Vec<u8>>,
}

/// Numbers that libc does not know yet.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;

impl Watcher<'_> {
    pub fn enter_attribute(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let values = &arguments.values;
        let nofollow = |flags: i32| flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        let (directory, path, follow) = match arguments.call() {
            libc::SYS_fchmod | libc::SYS_fchown => {
                let Some(inode) = self.inode_of(by, arguments.descriptor(0)) else {
                    return Ok(EntryAction::Pass);
                };
                let Some(own) = self.take(by.tid, arguments.descriptor(0)) else {
                    return Ok(EntryAction::Pass);
                };
                let subject = Looked::Own(own);
                return Ok(EntryAction::wait_for(PendingCall::Attribute(Attribute {
                    inode,
                    subject,
                })));
            }
            libc::SYS_lchown => (libc::AT_FDCWD, values[0], false),
            libc::SYS_fchmodat => (arguments.descriptor(0), values[1], true),
            libc::SYS_fchmodat2 => (
                arguments.descriptor(0),
                values[1],
                nofollow(arguments.flags(3)),
            ),
            libc::SYS_fchownat => (
                arguments.descriptor(0),
                values[1],
                nofollow(arguments.flags(4)),
            ),
            // chmod, chown
            _ => (libc::AT_FDCWD, values[0], true),
        };
        let Some((inode, _, at)) = self.inode_by_path(by, directory, path, follow) else {
            return Ok(EntryAction::Pass);
        };
        let subject = Looked::At { at, follow };
        Ok(EntryAction::wait_for(PendingCall::Attribute(Attribute {
            inode,
            subject,
        })))
    }

    pub fn inode_of(&mut self, by: CallContext<'_>, descriptor: i32) -> Option<InodeId> {
        match self.description(by.tid, descriptor)?.target {
            FdTarget::Inode(inode) => Some(inode),
            FdTarget::Stream(_) | FdTarget::Other => None,
        }
    }

    pub fn exit_attribute(
        &mut self,
        by: CallContext<'_>,
        attribute: Attribute,
    ) -> Result<(), WatchError> {
        let Attribute { inode, subject } = attribute;
        let stat = match subject {
            Looked::At { at, follow } => paths::stat(&at, &at.path, follow),
            Looked::Own(own) => rustix::fs::fstat(own),
        };
        let Ok(stat) = stat else {
            return Ok(());
        };
        let mode = before::mode(&stat);
        let name = by.name();
        let text = format!("{name}(\"{}\", 0{mode:o})", self.inodes.path(inode));
        self.emit(by, &text, vec![Effect::SetMode { inode, mode }])
    }

    pub fn enter_xattr(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let values = &arguments.values;
        let inode = match arguments.call() {
            libc::SYS_fsetxattr | libc::SYS_fremovexattr => {
                self.inode_of(by, arguments.descriptor(0))
            }
            SETXATTRAT | REMOVEXATTRAT => {
                let follow = arguments.flags(2) & libc::AT_SYMLINK_NOFOLLOW == 0;
                let directory = arguments.descriptor(0);
                self.inode_by_path(by, directory, values[1], follow)
                    .map(|(inode, ..)| inode)
            }
            call => {
                let follow = !matches!(call, libc::SYS_lsetxattr | libc::SYS_lremovexattr);
                let directory = libc::AT_FDCWD;
                self.inode_by_path(by, directory, values[0], follow)
                    .map(|(inode, ..)| inode)
            }
        };
        let name = match arguments.call() {
            SETXATTRAT | REMOVEXATTRAT => values[3],
            _ => values[1],
        };
        let (Some(inode), Some(name)) = (inode, self.text(by.tid, name)) else {
            return Ok(EntryAction::Pass);
        };
        let value = match arguments.call() {
            libc::SYS_setxattr | libc::SYS_lsetxattr | libc::SYS_fsetxattr => {
                Some((values[2], values[3]))
            }
            SETXATTRAT => {
                // Address, then 32 bits of length.
                let address = self.word(by.tid, values[4]).unwrap_or(0);
                let length = self.word(by.tid, values[4] + 8).unwrap_or(0) as u32;
                Some((address, length.into()))
            }
            _ => None,
        };
        let value = value.map(|(address, length)| self.memory(by.tid, address, length as usize));
        Ok(EntryAction::wait_for(PendingCall::Xattr(Xattr {
            inode,
            name,
            value,
        })))
    }

    pub fn exit_xattr(&mut self, by: CallContext<'_>, xattr: Xattr) -> Result<(), WatchError> {
        let Xattr { inode, name, value } = xattr;
        let call = by.name();
        let path = self.inodes.path(inode);
        let text = format!("{call}(\"{path}\", \"{}\")", String::from_utf8_lossy(&name));
        let (name, value) = (&name[..], value.as_deref());
        self.emit(by, &text, vec![Effect::SetXattr { inode, name, value }])
    }
}
