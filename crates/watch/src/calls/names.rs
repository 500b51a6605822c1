//! Calls that change directories.

use super::resolve::{Incoming, Named};
use super::{Arguments, EntryAction, EntryResult, PendingCall};
use crate::WatchError;
use crate::before::{self, Found};
use crate::inodes::Number;
use crate::paths;
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{Effect, InodeId, Remark, Slot};
use rustix::fs::AtFlags;

#[derive(Debug)]
pub struct Rename {
    from: Named,
    to: Named,
    flags: u32,
}

#[derive(Debug)]
pub struct Link {
    /// If it is of the folder.
    inode: Option<InodeId>,
    shown: String,
    to: Named,
}

#[derive(Debug)]
pub struct Create {
    name: Named,
}

#[derive(Debug)]
pub struct Unlink {
    name: Named,
}

/// Two paths, of any form of a call.
struct Pair {
    from: (i32, u64),
    to: (i32, u64),
    flags: u64,
}

fn pair(arguments: &Arguments) -> Pair {
    let values = &arguments.values;
    match arguments.call() {
        libc::SYS_rename | libc::SYS_link => Pair {
            from: (libc::AT_FDCWD, values[0]),
            to: (libc::AT_FDCWD, values[1]),
            flags: 0,
        },
        _ => Pair {
            from: (arguments.descriptor(0), values[1]),
            to: (arguments.descriptor(2), values[3]),
            flags: match arguments.call() {
                libc::SYS_renameat => 0,
                _ => values[4],
            },
        },
    }
}

impl Watcher<'_> {
    pub fn enter_rename(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let asked = pair(arguments);
        let Some(from) = self.named(by, asked.from.0, asked.from.1, false)? else {
            return Ok(EntryAction::Pass);
        };
        let Some(to) = self.named(by, asked.to.0, asked.to.1, false)? else {
            return Ok(EntryAction::Pass);
        };
        if from.at.stat.is_none() || from.directory.is_none() && to.directory.is_none() {
            return Ok(EntryAction::Pass);
        }
        self.compare_mapped(by, from.inode)?;
        let flags = asked.flags as u32;
        Ok(EntryAction::wait_for(PendingCall::Rename(Box::new(
            Rename { from, to, flags },
        ))))
    }

    pub fn exit_rename(&mut self, by: CallContext<'_>, rename: Rename) -> Result<(), WatchError> {
        let Rename { from, to, flags } = rename;
        let name = by.name();
        let exchange = flags & libc::RENAME_EXCHANGE != 0;
        let form = match flags {
            0 => "",
            libc::RENAME_NOREPLACE => ", RENAME_NOREPLACE",
            _ if exchange => ", RENAME_EXCHANGE",
            _ => ", RENAME_WHITEOUT",
        };
        let text = format!("{name}(\"{}\", \"{}\"{form})", from.shown, to.shown);
        let number = |named: &Named| named.at.stat.as_ref().map(Number::from);
        if number(&from) == number(&to) {
            // Two names of one file: by POSIX, nothing happens.
            return Ok(());
        }
        let mut effects = Vec::new();
        let mut incoming = Vec::new();
        let mut whiteout = Vec::new();
        match (from.slot(), to.slot(), from.inode, to.inode) {
            (Some(first), Some(second), Some(first_inode), Some(second_inode)) if exchange => {
                effects.push(Effect::Exchange {
                    first,
                    first_inode,
                    second,
                    second_inode,
                });
                self.inodes
                    .named(first_inode, second.directory, second.name);
                self.inodes.named(second_inode, first.directory, first.name);
            }
            (Some(from_slot), Some(to_slot), Some(inode), victim) => {
                effects.push(Effect::Rename {
                    from: from_slot,
                    to: to_slot,
                    inode,
                    victim,
                });
                self.inodes.named(inode, to_slot.directory, to_slot.name);
                if let Some(victim) = victim.filter(|_| to.is_last()) {
                    self.inodes.unlinked(victim);
                }
                if flags & libc::RENAME_WHITEOUT != 0 {
                    whiteout = self.came_in(&from);
                }
            }
            (first, second, _, _) => {
                // One side lies outside: what leaves and what comes in, each on its own.
                if let (Some(slot), Some(inode)) = (first, from.inode) {
                    effects.push(Effect::Unlink { slot, inode });
                    self.left(inode);
                }
                if second.is_some() {
                    let victim = to.inode;
                    incoming = self.came_in(&to);
                    if let (Some(slot), Some(inode)) = (second, victim) {
                        effects.push(Effect::Unlink { slot, inode });
                        if exchange {
                            self.left(inode);
                        } else if to.is_last() {
                            self.inodes.unlinked(inode);
                        }
                    }
                }
                if first.is_some() && exchange {
                    whiteout = self.came_in(&from);
                }
            }
        }
        effects.extend(incoming.iter().flat_map(Incoming::effects));
        effects.extend(whiteout.iter().flat_map(Incoming::effects));
        self.emit(by, &text, effects)
    }

    /// What is at a name of the folder now came from outside.
    fn came_in(&mut self, named: &Named) -> Vec<Incoming> {
        match (named.directory, Found::at(named.path())) {
            (Some(directory), Ok(found)) => self.incoming(directory, &named.at.name, found),
            _ => Vec::new(),
        }
    }

    /// Left the folder, with everything below.
    fn left(&mut self, inode: InodeId) {
        for id in self.inodes.below(inode) {
            self.inodes.leave(id);
        }
    }

    pub fn enter_link(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let asked = pair(arguments);
        let flags = asked.flags as i32;
        let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
        let Some(to) = self.named(by, asked.to.0, asked.to.1, false)? else {
            return Ok(EntryAction::Pass);
        };
        if to.directory.is_none() || to.at.stat.is_some() {
            return Ok(EntryAction::Pass);
        }
        let Some(path) = self.text(by.tid, asked.from.1) else {
            return Ok(EntryAction::Pass);
        };
        let given = String::from_utf8_lossy(&path).into_owned();
        let Ok(at) = self.at(by.tid, asked.from.0, path) else {
            return Ok(EntryAction::Pass);
        };
        let Ok(stat) = paths::stat(&at, &at.path, follow || at.path.is_empty()) else {
            return Ok(EntryAction::Pass);
        };
        let inode = self.inodes.find(Number::from(&stat));
        let shown = inode.map_or(given, |inode| self.inodes.path(inode).to_string());
        self.compare_mapped(by, inode)?;
        Ok(EntryAction::wait_for(PendingCall::Link(Box::new(Link {
            inode,
            shown,
            to,
        }))))
    }

    pub fn exit_link(&mut self, by: CallContext<'_>, link: Link) -> Result<(), WatchError> {
        let Link { inode, shown, to } = link;
        let name = by.name();
        let text = format!("{name}(\"{shown}\", \"{}\")", to.shown);
        match (inode, to.slot()) {
            (Some(inode), Some(slot)) => {
                if self.inodes.get(inode).unlinked {
                    self.inodes.named(inode, slot.directory, slot.name);
                }
                self.emit(by, &text, vec![Effect::Link { slot, inode }])
            }
            _ => {
                let incoming = self.came_in(&to);
                let effects = incoming.iter().flat_map(Incoming::effects).collect();
                self.emit(by, &text, effects)
            }
        }
    }

    pub fn enter_create(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let values = &arguments.values;
        let (directory, path) = match arguments.call() {
            libc::SYS_mkdir | libc::SYS_mknod => (libc::AT_FDCWD, values[0]),
            libc::SYS_symlink => (libc::AT_FDCWD, values[1]),
            libc::SYS_symlinkat => (arguments.descriptor(1), values[2]),
            // mkdirat, mknodat
            _ => (arguments.descriptor(0), values[1]),
        };
        let is_new = |name: &Named| name.directory.is_some() && name.at.stat.is_none();
        self.await_on_name(by, (directory, path), is_new, |name| {
            PendingCall::Create(Box::new(Create { name }))
        })
    }

    /// A call on one name, whose end matters if the name is such a one.
    fn await_on_name(
        &mut self,
        by: CallContext<'_>,
        (directory, path): (i32, u64),
        matters: impl FnOnce(&Named) -> bool,
        pending: impl FnOnce(Named) -> PendingCall,
    ) -> EntryResult {
        let name = self.named(by, directory, path, false)?;
        let Some(name) = name.filter(matters) else {
            return Ok(EntryAction::Pass);
        };
        self.compare_mapped(by, name.inode)?;
        Ok(EntryAction::wait_for(pending(name)))
    }

    pub fn exit_create(&mut self, by: CallContext<'_>, create: Create) -> Result<(), WatchError> {
        let Create { name } = create;
        let text = by.text_on(&name.shown);
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(&name.at.folder, &name.at.name[..], flags);
        let (Ok(stat), Some(directory)) = (stat, name.directory) else {
            let reason = "it was gone when it had returned".into();
            return self.remark(Remark::Unseen { text, reason });
        };
        let target = rustix::fs::readlinkat(&name.at.folder, &name.at.name[..], Vec::new());
        let target = target.map(|target| target.into_bytes()).unwrap_or_default();
        let inode = self
            .inodes
            .add(Number::from(&stat), directory, &name.at.name);
        let slot = Slot {
            directory,
            name: &name.at.name,
        };
        let effects = vec![
            Effect::New {
                inode,
                kind: before::kind(&stat, &target),
                mode: before::mode(&stat),
            },
            Effect::Link { slot, inode },
        ];
        self.emit(by, &text, effects)
    }

    pub fn enter_unlink(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let values = &arguments.values;
        let (directory, path) = match arguments.call() {
            libc::SYS_unlinkat => (arguments.descriptor(0), values[1]),
            _ => (libc::AT_FDCWD, values[0]),
        };
        let is_known = |name: &Named| name.directory.is_some() && name.inode.is_some();
        self.await_on_name(by, (directory, path), is_known, |name| {
            PendingCall::Unlink(Box::new(Unlink { name }))
        })
    }

    pub fn exit_unlink(&mut self, by: CallContext<'_>, unlink: Unlink) -> Result<(), WatchError> {
        let Unlink { name } = unlink;
        let text = by.text_on(&name.shown);
        let (Some(slot), Some(inode)) = (name.slot(), name.inode) else {
            return Ok(());
        };
        if name.is_last() {
            self.inodes.unlinked(inode);
        }
        self.emit(by, &text, vec![Effect::Unlink { slot, inode }])
    }
}
