//! Threads and processes come and go.

use crate::WatchError;
use crate::ptrace::{self, Registers, Tid};
use crate::tasks::{PathBase, TaskState, TracedProcess};
use crate::watcher::{Watcher, gone};
use std::cell::RefCell;
use std::rc::Rc;

impl Watcher<'_> {
    pub fn child(&mut self, tid: Tid, child: Tid) -> Result<(), WatchError> {
        let flags = match ptrace::registers(tid) {
            Ok(registers) => clone_flags(tid, &registers),
            Err(_) => 0,
        };
        let parent = self.tasks.all[&tid].process.clone();
        let has = |flag: i32| flags & flag as u64 != 0;
        let process = if has(libc::CLONE_THREAD) {
            parent
        } else {
            let pidfd = match self.pidfd(child) {
                Ok(pidfd) => Rc::new(pidfd),
                // Killed already: whatever it is asked will fail.
                Err(_) => Rc::clone(&parent.pidfd),
            };
            self.timer.add(child);
            let number = self.tasks.next_process();
            TracedProcess {
                number,
                leader: child,
                pidfd,
                files: if has(libc::CLONE_FILES) {
                    parent.files
                } else {
                    Rc::new(RefCell::new(parent.files.borrow().clone()))
                },
                place: if has(libc::CLONE_FS) {
                    parent.place
                } else {
                    Rc::new(RefCell::new(PathBase {
                        directory: parent.place.borrow().directory.clone(),
                        other_root: parent.place.borrow().other_root,
                    }))
                },
                space: if has(libc::CLONE_VM) {
                    parent.space
                } else {
                    Rc::new(RefCell::new(parent.space.borrow().clone()))
                },
            }
        };
        self.add_task(child, process)?;
        self.shared_cpu.release();
        if self.early.remove(&child) {
            ptrace::go_on(child, 0).or_else(gone)?;
        }
        ptrace::go_on(tid, 0).or_else(gone)
    }

    pub fn exec(&mut self, tid: Tid, former: Tid) -> Result<(), WatchError> {
        self.end_syscallbuf();
        // Only the thread that called is left, and it has the leader's number from here on.
        if former != tid
            && let Some(caller) = self.tasks.all.remove(&former)
        {
            self.tasks.all.insert(tid, caller);
        }
        for other in self.tasks.of(tid) {
            if other != tid {
                self.forget(other)?;
            }
        }
        self.set_state(tid, TaskState::Running);
        if self.turn == Some(former) {
            self.turn = Some(tid);
        }
        self.end_turn(tid)?;
        self.exec_done(tid)?;
        ptrace::go_on(tid, 0).or_else(gone)
    }

    /// It dies, in the middle of a call or not.
    pub fn exiting(&mut self, tid: Tid) -> Result<(), WatchError> {
        if let TaskState::InCall(pending) = self.set_state(tid, TaskState::Running) {
            self.interrupted(tid, *pending)?;
        }
        self.queue.retain(|queued| *queued != tid);
        self.give_up(tid)?;
        self.end_turn(tid)
    }

    pub fn ended(&mut self, tid: Tid) -> Result<(), WatchError> {
        self.timer.remove(tid);
        self.forget(tid)
    }

    pub fn forget(&mut self, tid: Tid) -> Result<(), WatchError> {
        self.exiting(tid)?;
        self.tasks.all.remove(&tid);
        self.stacks.forget(tid);
        let mut left = self.tasks.all.keys();
        if let (Some(last), None) = (left.next(), left.next()) {
            self.shared_cpu.hold(*last);
        }
        Ok(())
    }
}

/// What the maker of a thread or process asked for.
fn clone_flags(tid: Tid, registers: &Registers) -> u64 {
    match registers.orig_rax as i64 {
        libc::SYS_clone => registers.rdi,
        libc::SYS_clone3 => {
            let mut flags = [0; 8];
            ptrace::read_memory(tid, registers.rdi, &mut flags);
            u64::from_ne_bytes(flags)
        }
        libc::SYS_vfork => (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
        _ => 0,
    }
}
