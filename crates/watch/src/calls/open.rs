//! `open` and its kin: a name may appear, a file may lose its content.

use super::resolve::{Named, PathAt};
use super::{Arguments, EntryAction, EntryResult, PendingCall};
use crate::descriptors::Description;
use crate::inodes::Number;
use crate::watcher::{CallContext, Watcher};
use crate::{WatchError, before};
use crashpoint_trace::files::{Effect, InodeId, InodeKind, Remark};
use rustix::fs::{FileType, Stat};
use std::rc::Rc;

/// An `open` that may change the folder, or opens something of it for writing.
#[derive(Debug)]
pub struct Open {
    target: Target,
    flags: i32,
    text: String,
}

#[derive(Debug)]
enum Target {
    Name(Box<Named>),
    /// `O_TMPFILE` in this directory: a file without a name.
    Nameless(InodeId),
}

/// Where the path is and how it is opened, of any form.
struct Asked {
    directory: i32,
    path: u64,
    flags: i32,
    mode: u32,
}

impl Watcher<'_> {
    fn asked(&self, by: CallContext<'_>, arguments: &Arguments) -> Option<Asked> {
        let values = &arguments.values;
        let asked = |directory, path, flags, mode| Asked {
            directory,
            path,
            flags,
            mode,
        };
        Some(match arguments.call() {
            libc::SYS_open => asked(
                libc::AT_FDCWD,
                values[0],
                arguments.flags(1),
                values[2] as u32,
            ),
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                asked(libc::AT_FDCWD, values[0], flags, values[1] as u32)
            }
            libc::SYS_openat2 => {
                let flags = self.word(by.tid, values[2])?;
                let mode = self.word(by.tid, values[2] + 8)?;
                asked(
                    arguments.descriptor(0),
                    values[1],
                    flags as i32,
                    mode as u32,
                )
            }
            _ => asked(
                arguments.descriptor(0),
                values[1],
                arguments.flags(2),
                values[3] as u32,
            ),
        })
    }

    pub fn enter_open(&mut self, by: CallContext<'_>, arguments: &Arguments) -> EntryResult {
        let Some(asked) = self.asked(by, arguments) else {
            return Ok(EntryAction::Pass);
        };
        let flags = asked.flags;
        let changing = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
        if flags & changing == 0 || flags & libc::O_PATH != 0 {
            return Ok(EntryAction::Pass);
        }
        let shown = |path: &str| open_text(by.number, path, flags, asked.mode);
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            let Some(path) = self.text(by.tid, asked.path) else {
                return Ok(EntryAction::Pass);
            };
            let Ok(at) = self.at(by.tid, asked.directory, path) else {
                return Ok(EntryAction::Pass);
            };
            let Some((directory, _)) = self.inode_at(&at, true) else {
                return Ok(EntryAction::Pass);
            };
            return Ok(EntryAction::wait_for(PendingCall::Open(Open {
                target: Target::Nameless(directory),
                flags,
                text: shown(&self.inodes.path(directory)),
            })));
        }
        let exclusive = libc::O_CREAT | libc::O_EXCL;
        let follow = flags & libc::O_NOFOLLOW == 0 && flags & exclusive != exclusive;
        let Some(named) = self.named(by, asked.directory, asked.path, follow)? else {
            return Ok(EntryAction::Pass);
        };
        if named.directory.is_none() && named.inode.is_none() {
            return Ok(EntryAction::Pass);
        }
        let stat = named.at.stat.as_ref();
        let plain =
            stat.is_none_or(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        // Opening a pipe waits for its other end.
        if !plain {
            return Ok(EntryAction::Pass);
        }
        self.compare_mapped(by, named.inode)?;
        let text = shown(&named.shown);
        let target = Target::Name(Box::new(named));
        Ok(EntryAction::wait_for(PendingCall::Open(Open {
            target,
            flags,
            text,
        })))
    }

    pub fn exit_open(
        &mut self,
        by: CallContext<'_>,
        open: Open,
        returned: i32,
    ) -> Result<(), WatchError> {
        let Some(own) = self.take(by.tid, returned) else {
            return self.remark(Remark::Unseen {
                text: open.text,
                reason: "its descriptor could not be taken".into(),
            });
        };
        let stat = rustix::fs::fstat(&own).map_err(|error| WatchError::System {
            what: "look at an opened file",
            source: error.into(),
        })?;
        let number = Number::from(&stat);
        let mut effects = Vec::new();
        let new = |inode| Effect::New {
            inode,
            kind: InodeKind::File,
            mode: before::mode(&stat),
        };
        match &open.target {
            Target::Nameless(directory) => {
                let inode = self.inodes.add(number, *directory, b"(no name)");
                self.inodes.get_mut(inode).unlinked = true;
                effects.push(new(inode));
            }
            Target::Name(named) => match (named.inode, named.slot()) {
                (Some(inode), _) => {
                    let from = named.at.stat.as_ref().map_or(0, |stat| stat.st_size as u64);
                    if open.flags & libc::O_TRUNC != 0 && from > 0 {
                        effects.push(Effect::Resize { inode, from, to: 0 });
                        if let Some(shadow) = &mut self.inodes.get_mut(inode).shadow {
                            shadow.resized(0);
                        }
                    }
                }
                (None, Some(slot)) => {
                    let inode = self.inodes.add(number, slot.directory, slot.name);
                    effects.push(new(inode));
                    effects.push(Effect::Link { slot, inode });
                }
                (None, None) => {}
            },
        }
        let description = Rc::new(Description::of(own, &mut self.inodes, &self.streams));
        let Some(task) = self.tasks.get(by.tid) else {
            return Ok(());
        };
        let files = Rc::clone(&task.process.files);
        let stale = files.borrow_mut().insert(returned, description);
        effects.extend(self.release(stale));
        self.emit(by, &open.text, effects)
    }

    /// `chdir` and its kin.
    pub fn exit_path_base(&mut self, tid: crate::ptrace::Tid, arguments: &Arguments) {
        let Some(task) = self.tasks.all.get_mut(&tid) else {
            return;
        };
        let process = &mut task.process;
        let flags = arguments.flags(0);
        match arguments.call() {
            libc::SYS_unshare => {
                if flags & libc::CLONE_FILES != 0 {
                    let copy = process.files.borrow().clone();
                    process.files = Rc::new(copy.into());
                }
                if flags & (libc::CLONE_FS | libc::CLONE_NEWNS) != 0 {
                    let place = crate::tasks::PathBase {
                        directory: None,
                        other_root: process.place.borrow().other_root
                            || flags & libc::CLONE_NEWNS != 0,
                    };
                    process.place = Rc::new(place.into());
                }
            }
            libc::SYS_chdir | libc::SYS_fchdir => process.place.borrow_mut().directory = None,
            _ => {
                let mut place = process.place.borrow_mut();
                place.directory = None;
                place.other_root = true;
            }
        }
    }

    /// An inode by a path that is followed or not, for calls that do not change names.
    pub fn inode_by_path(
        &mut self,
        by: CallContext<'_>,
        directory: i32,
        path: u64,
        follow: bool,
    ) -> Option<(InodeId, Stat, PathAt)> {
        let path = self.text(by.tid, path)?;
        let at = self.at(by.tid, directory, path).ok()?;
        let (inode, stat) = self.inode_at(&at, follow)?;
        Some((inode, stat, at))
    }
}

fn open_text(
    number: crashpoint_trace::files::SystemCall,
    path: &str,
    flags: i32,
    mode: u32,
) -> String {
    const NAMES: [(i32, &str); 9] = [
        (libc::O_CREAT, "O_CREAT"),
        (libc::O_EXCL, "O_EXCL"),
        (libc::O_TRUNC, "O_TRUNC"),
        (libc::O_APPEND, "O_APPEND"),
        (libc::O_TMPFILE, "O_TMPFILE"),
        (libc::O_SYNC, "O_SYNC"),
        (libc::O_DSYNC, "O_DSYNC"),
        (libc::O_DIRECT, "O_DIRECT"),
        (libc::O_NOFOLLOW, "O_NOFOLLOW"),
    ];
    let mut text = match flags & libc::O_ACCMODE {
        libc::O_WRONLY => "O_WRONLY".to_owned(),
        libc::O_RDWR => "O_RDWR".to_owned(),
        _ => "O_RDONLY".to_owned(),
    };
    for (flag, name) in NAMES {
        // O_SYNC has the bit of O_DSYNC in it.
        let covered = flag == libc::O_DSYNC && flags & libc::O_SYNC == libc::O_SYNC;
        if flags & flag == flag && !covered {
            text.push('|');
            text.push_str(name);
        }
    }
    let name = crate::table::name(number);
    match flags & (libc::O_CREAT | libc::O_TMPFILE) {
        0 => format!("{name}(\"{path}\", {text})"),
        _ => format!("{name}(\"{path}\", {text}, 0{mode:o})"),
    }
}
