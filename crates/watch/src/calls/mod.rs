//! What each watched call does: looked at before it starts, and when it has returned.
//!
//! Every handler has two halves. The first, on entry, finds out whether the call concerns the
//! folder and what is there now; the second, at the end, turns what was asked and what was returned
//! into effects. Between the two, nobody else's call on the folder is in the kernel.

mod attributes;
mod data;
mod deferred;
mod descriptors;
mod ends;
mod maps;
mod moves;
mod names;
mod open;
mod output;
mod resolve;
mod sync;

pub use deferred::{Deferred, read_at};

use crate::WatchError;
use crate::descriptors::{Description, FdTarget};
use crate::ptrace::{self, Registers, Tid};
use crate::table::CallKind;
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::SystemCall;
use std::rc::Rc;

/// What a call was given.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    pub number: SystemCall,
    pub values: [u64; 6],
}

impl Arguments {
    pub fn of(registers: &Registers) -> Arguments {
        Arguments {
            number: SystemCall(registers.orig_rax as u16),
            values: [
                registers.rdi,
                registers.rsi,
                registers.rdx,
                registers.r10,
                registers.r8,
                registers.r9,
            ],
        }
    }

    pub fn call(&self) -> i64 {
        self.number.0.into()
    }

    pub fn descriptor(&self, which: usize) -> i32 {
        self.values[which] as i32
    }

    pub fn flags(&self, which: usize) -> i32 {
        self.values[which] as i32
    }
}

/// What is done about a call once it was looked at.
pub enum EntryAction {
    /// It does not matter how it ends.
    Pass,
    /// Its end matters.
    Await(Box<PendingCall>),
    /// How it ended can be seen at the next stop.
    Defer(Box<Deferred>),
}

/// What the first half of a handler returns.
pub type EntryResult = Result<EntryAction, WatchError>;

impl EntryAction {
    fn wait_for(what: PendingCall) -> EntryAction {
        EntryAction::Await(Box::new(what))
    }
}

/// What has to be known at the end of a call.
#[derive(Debug)]
pub enum PendingCall {
    Write(data::Write),
    Move(moves::Move),
    Output(output::Output),
    Open(open::Open),
    Duplicate(Rc<Description>),
    /// `fcntl(F_SETFL)`.
    SetFlags(Rc<Description>),
    Rename(Box<names::Rename>),
    Link(Box<names::Link>),
    Create(Box<names::Create>),
    Unlink(Box<names::Unlink>),
    Resize(data::Resize),
    Attribute(attributes::Attribute),
    Xattr(attributes::Xattr),
    Sync(sync::PendingSync),
    Map(maps::Map),
    Remap(maps::Remap),
    Remove(maps::Remove),
    PathBase,
    Clone(moves::Clone),
}

impl PendingCall {
    /// The description that is held until the call has returned.
    fn into_description(self) -> Option<Rc<Description>> {
        match self {
            PendingCall::Write(write) => Some(write.description),
            PendingCall::Duplicate(description) | PendingCall::SetFlags(description) => {
                Some(description)
            }
            PendingCall::Move(moved) => Some(moved.description),
            PendingCall::Clone(clone) => Some(clone.description),
            PendingCall::Output(_)
            | PendingCall::Open(_)
            | PendingCall::Rename(_)
            | PendingCall::Link(_)
            | PendingCall::Create(_)
            | PendingCall::Unlink(_)
            | PendingCall::Resize(_)
            | PendingCall::Attribute(_)
            | PendingCall::Xattr(_)
            | PendingCall::Sync(_)
            | PendingCall::Map(_)
            | PendingCall::Remap(_)
            | PendingCall::Remove(_)
            | PendingCall::PathBase => None,
        }
    }

    /// Whether a call that is cut off may have changed something that is not looked at afterwards.
    fn may_have_changed(&self) -> bool {
        match self {
            // Names, contents, attributes.
            PendingCall::Open(_)
            | PendingCall::Create(_)
            | PendingCall::Link(_)
            | PendingCall::Unlink(_)
            | PendingCall::Rename(_)
            | PendingCall::Write(_)
            | PendingCall::Move(_)
            | PendingCall::Clone(_)
            | PendingCall::Resize(_)
            | PendingCall::Remap(_)
            | PendingCall::Remove(_)
            | PendingCall::Attribute(_)
            | PendingCall::Xattr(_) => true,
            PendingCall::Output(_)
            | PendingCall::Duplicate(_)
            | PendingCall::SetFlags(_)
            | PendingCall::PathBase
            | PendingCall::Sync(_)
            | PendingCall::Map(_) => false,
        }
    }
}

/// A call in the kernel.
#[derive(Debug)]
pub struct CallInProgress {
    pub registers: Registers,
    pub arguments: Arguments,
    pub what: Box<PendingCall>,
}

impl Watcher<'_> {
    /// Whether a call may touch the folder, so that it has to be alone.
    pub fn needs_turn(&mut self, tid: Tid, kind: CallKind, arguments: &Arguments) -> bool {
        let by_descriptor = match kind {
            CallKind::Send
            | CallKind::Close
            | CallKind::Duplicate
            | CallKind::PathBase
            | CallKind::Processors => {
                return false;
            }
            CallKind::Open
            | CallKind::Rename
            | CallKind::Link
            | CallKind::Create
            | CallKind::Unlink => return true,
            CallKind::Map => return self.map_needs_turn(tid, arguments),
            CallKind::Write | CallKind::Control => 0,
            CallKind::Move => moves::target(arguments),
            CallKind::Resize | CallKind::Attribute | CallKind::Xattr => {
                if attributes::by_descriptor(arguments) {
                    0
                } else {
                    return true;
                }
            }
            CallKind::Sync => match arguments.call() {
                libc::SYS_sync | libc::SYS_syncfs => return true,
                _ => 0,
            },
        };
        let descriptor = arguments.descriptor(by_descriptor);
        self.description(tid, descriptor)
            .is_some_and(|description| matches!(description.target, FdTarget::Inode(_)))
    }

    /// Before a call.
    pub fn enter_call(
        &mut self,
        by: CallContext<'_>,
        kind: CallKind,
        arguments: &Arguments,
    ) -> EntryResult {
        match kind {
            CallKind::Write => self.enter_write(by, arguments),
            CallKind::Send => self.enter_send(by, arguments),
            CallKind::Move => self.enter_move(by, arguments),
            CallKind::Open => self.enter_open(by, arguments),
            CallKind::Close => self.enter_close(by, arguments),
            CallKind::Duplicate => self.enter_duplicate(by, arguments),
            CallKind::Rename => self.enter_rename(by, arguments),
            CallKind::Link => self.enter_link(by, arguments),
            CallKind::Create => self.enter_create(by, arguments),
            CallKind::Unlink => self.enter_unlink(by, arguments),
            CallKind::Resize => self.enter_resize(by, arguments),
            CallKind::Attribute => self.enter_attribute(by, arguments),
            CallKind::Xattr => self.enter_xattr(by, arguments),
            CallKind::Sync => self.enter_sync(by, arguments),
            CallKind::Map => self.enter_map(by, arguments),
            CallKind::PathBase => Ok(EntryAction::wait_for(PendingCall::PathBase)),
            CallKind::Control => self.enter_control(by, arguments),
            CallKind::Processors => {
                self.shared_cpu.end();
                Ok(EntryAction::Pass)
            }
        }
    }

    /// After a call. One that failed did nothing; one that is to be restarted comes again.
    pub fn exit_call(
        &mut self,
        tid: Tid,
        pending: CallInProgress,
        returned: i64,
    ) -> Result<(), WatchError> {
        let by = CallContext::new(tid, pending.arguments.number, &pending.registers);
        let arguments = &pending.arguments;
        if returned < 0 && returned > -4096 {
            let left = self.release(pending.what.into_description());
            return self.emit_closed(by, left);
        }
        match *pending.what {
            PendingCall::Write(write) => self.exit_write(by, arguments, write, returned as u64),
            PendingCall::Move(moved) => self.exit_move(by, moved, returned as u64),
            PendingCall::Output(output) => self.exit_output(by, &output, returned as u64),
            PendingCall::Open(open) => self.exit_open(by, open, returned as i32),
            PendingCall::Duplicate(description) => {
                self.exit_duplicate(by, arguments, description, returned as i32)
            }
            PendingCall::SetFlags(description) => {
                if let Some(own) = &description.own
                    && let Ok(flags) = rustix::fs::fcntl_getfl(own)
                {
                    description.flags.set(flags);
                }
                let closed = self.release([description]);
                self.emit_closed(by, closed)
            }
            PendingCall::Rename(rename) => self.exit_rename(by, *rename),
            PendingCall::Link(link) => self.exit_link(by, *link),
            PendingCall::Create(create) => self.exit_create(by, *create),
            PendingCall::Unlink(unlink) => self.exit_unlink(by, *unlink),
            PendingCall::Resize(resize) => self.exit_resize(by, resize),
            PendingCall::Attribute(attribute) => self.exit_attribute(by, attribute),
            PendingCall::Xattr(xattr) => self.exit_xattr(by, xattr),
            PendingCall::Sync(sync) => self.exit_sync(by, sync),
            PendingCall::Map(map) => self.exit_map(by.tid, map, returned as u64),
            PendingCall::Remap(remap) => {
                self.exit_remap(by.tid, &remap, returned as u64);
                Ok(())
            }
            PendingCall::Remove(remove) => self.exit_remove(by, remove),
            PendingCall::PathBase => {
                self.exit_path_base(by.tid, arguments);
                Ok(())
            }
            PendingCall::Clone(clone) => self.exit_clone(by, clone),
        }
    }

    /// Bytes of the program's memory, as many as there are.
    pub fn memory(&self, tid: Tid, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = ptrace::read_memory(tid, address, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    pub fn word(&self, tid: Tid, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (ptrace::read_memory(tid, address, &mut bytes) == 8).then(|| u64::from_ne_bytes(bytes))
    }

    /// Text that ends in a zero byte.
    pub fn text(&self, tid: Tid, address: u64) -> Option<Vec<u8>> {
        const PAGE: u64 = 4096;
        let mut text = Vec::new();
        let mut at = address;
        // No path is longer than this.
        while text.len() <= PAGE as usize {
            let chunk = self.memory(tid, at, (PAGE - at % PAGE) as usize);
            if chunk.is_empty() {
                return None;
            }
            match chunk.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&chunk[..end]);
                    return Some(text);
                }
                None => text.extend_from_slice(&chunk),
            }
            at += chunk.len() as u64;
        }
        None
    }
}
