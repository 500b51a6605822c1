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
use crate::descriptors::{Description, Subject};
use crate::ptrace::{self, Registers, Tid};
use crate::table::Kind;
use crate::watcher::{By, Watcher};
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
pub enum Entry {
    /// It does not matter how it ends.
    Pass,
    /// Its end matters.
    Await(Box<What>),
    /// How it ended can be seen at the next stop.
    Defer(Box<Deferred>),
}

impl Entry {
    fn wait_for(what: What) -> Entry {
        Entry::Await(Box::new(what))
    }
}

/// What has to be known at the end of a call.
#[derive(Debug)]
pub enum What {
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
    Sync(sync::Sync),
    Map(maps::Map),
    Remap(maps::Remap),
    Remove(maps::Remove),
    Place,
    Clone(moves::Clone),
}

/// A call in the kernel.
#[derive(Debug)]
pub struct Pending {
    pub registers: Registers,
    pub arguments: Arguments,
    pub what: Box<What>,
}

impl Watcher<'_> {
    /// Whether a call may touch the folder, so that it has to be alone.
    pub fn needs_turn(&mut self, tid: Tid, kind: Kind, arguments: &Arguments) -> bool {
        let by_descriptor = match kind {
            Kind::Send | Kind::Close | Kind::Duplicate | Kind::Place | Kind::Processors => {
                return false;
            }
            Kind::Open | Kind::Rename | Kind::Link | Kind::Create | Kind::Unlink => return true,
            Kind::Map => return self.map_needs_turn(tid, arguments),
            Kind::Write | Kind::Control => 0,
            Kind::Move => moves::target(arguments),
            Kind::Resize | Kind::Attribute | Kind::Xattr => {
                match attributes::by_descriptor(arguments) {
                    true => 0,
                    false => return true,
                }
            }
            Kind::Sync => match arguments.call() {
                libc::SYS_sync | libc::SYS_syncfs => return true,
                _ => 0,
            },
        };
        let descriptor = arguments.descriptor(by_descriptor);
        self.description(tid, descriptor)
            .is_some_and(|description| matches!(description.subject, Subject::Inode(_)))
    }

    /// Before a call.
    pub fn look(
        &mut self,
        by: By<'_>,
        kind: Kind,
        arguments: &Arguments,
    ) -> Result<Entry, WatchError> {
        match kind {
            Kind::Write => self.look_at_write(by, arguments),
            Kind::Send => self.look_at_send(by, arguments),
            Kind::Move => self.look_at_move(by, arguments),
            Kind::Open => self.look_at_open(by, arguments),
            Kind::Close => self.look_at_close(by, arguments),
            Kind::Duplicate => self.look_at_duplicate(by, arguments),
            Kind::Rename => self.look_at_rename(by, arguments),
            Kind::Link => self.look_at_link(by, arguments),
            Kind::Create => self.look_at_create(by, arguments),
            Kind::Unlink => self.look_at_unlink(by, arguments),
            Kind::Resize => self.look_at_resize(by, arguments),
            Kind::Attribute => self.look_at_attribute(by, arguments),
            Kind::Xattr => self.look_at_xattr(by, arguments),
            Kind::Sync => self.look_at_sync(by, arguments),
            Kind::Map => self.look_at_map(by, arguments),
            Kind::Place => Ok(Entry::wait_for(What::Place)),
            Kind::Control => self.look_at_control(by, arguments),
            Kind::Processors => {
                self.together.end();
                Ok(Entry::Pass)
            }
        }
    }

    /// After a call. One that failed did nothing; one that is to be restarted comes again.
    pub fn done(&mut self, tid: Tid, pending: Pending, returned: i64) -> Result<(), WatchError> {
        let by = By {
            tid,
            number: pending.arguments.number,
            registers: &pending.registers,
        };
        let arguments = &pending.arguments;
        if returned < 0 && returned > -4096 {
            let left = match *pending.what {
                What::Write(write) => self.release([write.description]),
                What::Duplicate(description) | What::SetFlags(description) => {
                    self.release([description])
                }
                What::Move(moved) => self.release([moved.description]),
                What::Clone(clone) => self.release([clone.description]),
                What::Output(_)
                | What::Open(_)
                | What::Rename(_)
                | What::Link(_)
                | What::Create(_)
                | What::Unlink(_)
                | What::Resize(_)
                | What::Attribute(_)
                | What::Xattr(_)
                | What::Sync(_)
                | What::Map(_)
                | What::Remap(_)
                | What::Remove(_)
                | What::Place => Vec::new(),
            };
            return self.emit_closed(by, left);
        }
        match *pending.what {
            What::Write(write) => self.wrote(by, arguments, write, returned as u64),
            What::Move(moved) => self.moved(by, moved, returned as u64),
            What::Output(output) => self.put_out(by, &output, returned as u64),
            What::Open(open) => self.opened(by, open, returned as i32),
            What::Duplicate(description) => {
                self.duplicated(by, arguments, description, returned as i32)
            }
            What::SetFlags(description) => {
                if let Some(own) = &description.own
                    && let Ok(flags) = rustix::fs::fcntl_getfl(own)
                {
                    description.flags.set(flags);
                }
                let closed = self.release([description]);
                self.emit_closed(by, closed)
            }
            What::Rename(rename) => self.renamed(by, *rename),
            What::Link(link) => self.linked(by, *link),
            What::Create(create) => self.created(by, *create),
            What::Unlink(unlink) => self.unlinked(by, *unlink),
            What::Resize(resize) => self.resized(by, resize),
            What::Attribute(attribute) => self.attributed(by, attribute),
            What::Xattr(xattr) => self.xattr_set(by, xattr),
            What::Sync(sync) => self.synced(by, sync),
            What::Map(map) => self.mapped(by.tid, map, returned as u64),
            What::Remap(remap) => {
                self.remapped(by.tid, &remap, returned as u64);
                Ok(())
            }
            What::Remove(remove) => self.removed(by, remove),
            What::Place => {
                self.place_changed(by.tid, arguments);
                Ok(())
            }
            What::Clone(clone) => self.cloned(by, clone),
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
