//! The loop: a thread stops, it is looked at, it goes on.

use crate::affinity::SharedCpu;
use crate::calls::{Arguments, CallInProgress, Deferred, EntryAction, PendingCall};
use crate::descriptors::{Description, Streams, release};
use crate::inodes::Inodes;
use crate::ptrace::{self, Registers, Stop, Tid};
use crate::stacks::Stacks;
use crate::stores::Stores;
use crate::syscallbuf::SyscallBuffer;
use crate::table::{self, CallKind, Class};
use crate::tasks::{TaskState, Tasks, TracedProcess};
use crate::timer::Timer;
use crate::{Options, WatchError};
use crashpoint_trace::files::{Call, Effect, ProgramEnd, Remark, StackId, SystemCall, Writer};
use rustc_hash::FxHashSet;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::rc::Rc;

pub struct Watcher<'o> {
    pub options: &'o Options<'o>,
    pub tasks: Tasks,
    pub inodes: Inodes,
    pub streams: Streams,
    pub writer: Writer,
    pub stacks: Stacks,
    /// New threads that stopped before we heard who made them.
    pub early: FxHashSet<Tid>,
    /// The thread whose call on the folder is in the kernel, and those that wait for their turn.
    pub turn: Option<Tid>,
    pub queue: VecDeque<Tid>,
    pub order: u64,
    /// Each once, in order.
    pub remarks: Vec<Remark>,
    pub timer: Timer,
    pub ended: Option<ProgramEnd>,
    /// Ends the recording, once everything is killed.
    pub fatal: Option<WatchError>,
    /// Writes that do not stop.
    pub syscallbuf: Option<SyscallBuffer>,
    pub stores: Stores,
    pub shared_cpu: SharedCpu,
    /// A write whose end was not waited for.
    pub deferred: Option<Box<Deferred>>,
    /// The description that was settled at this very stop (compared, never followed), and the
    /// position that was found.
    pub settled: Option<(*const Description, u64)>,
    /// Kept to be used again.
    pub buffer: Vec<u8>,
}

/// Whose doing something is.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    pub tid: Tid,
    pub number: SystemCall,
    pub registers: &'a Registers,
}

impl<'a> CallContext<'a> {
    pub fn new(tid: Tid, number: SystemCall, registers: &'a Registers) -> CallContext<'a> {
        CallContext {
            tid,
            number,
            registers,
        }
    }

    /// The name of the call.
    pub fn name(self) -> &'static str {
        table::name(self.number)
    }

    /// The call as text, for one that is given a file and nothing else worth telling.
    pub fn text_on(self, path: impl Display) -> String {
        format!("{}(\"{path}\")", self.name())
    }
}

impl Watcher<'_> {
    pub fn pidfd(&self, tid: Tid) -> Result<OwnedFd, WatchError> {
        let pid = Pid::from_raw(tid.0).expect("a process has a number above 0");
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|error| WatchError::System {
            what: "take hold of a process (pidfd_open, Linux 5.3)",
            source: error.into(),
        })
    }

    /// To the end of everything; `running` is called once the program is the one that was asked for.
    pub fn run(&mut self, root: Tid, running: impl FnOnce(i32)) -> Result<(), WatchError> {
        let mut running = Some(running);
        let failed = |source| WatchError::System {
            what: "wait for the program",
            source,
        };
        while let Some((tid, stop)) = ptrace::wait().map_err(failed)? {
            if let Stop::Exec(_) = stop
                && let Some(running) = running.take()
            {
                running(root.0);
            }
            match self.stopped(root, tid, stop) {
                Ok(()) => {}
                Err(error) => {
                    // Everything is killed; their ends are still to be waited for.
                    self.fatal.get_or_insert(error);
                    self.timer.kill_all();
                    self.let_go(tid);
                }
            }
        }
        Ok(())
    }

    /// After an error: whatever it was about to do, it is killed.
    fn let_go(&mut self, tid: Tid) {
        let _ = ptrace::go_on(tid, libc::SIGKILL);
    }

    fn stopped(&mut self, root: Tid, tid: Tid, stop: Stop) -> Result<(), WatchError> {
        if self.fatal.is_some() && !matches!(stop, Stop::Exited(_) | Stop::Killed(_)) {
            self.let_go(tid);
            return Ok(());
        }
        // Whoever it is, the writes are over: there was no other thread.
        self.settle()?;
        self.read_records(stop)?;
        match stop {
            Stop::Seccomp | Stop::CallEnd => {}
            Stop::Signal(_)
            | Stop::ByJobControl
            | Stop::Started
            | Stop::Child(_)
            | Stop::Exec(_)
            | Stop::Exiting
            | Stop::Exited(_)
            | Stop::Killed(_) => self.unmark(),
        }
        let ended = self.stopped_now(root, tid, stop);
        self.settled = None;
        ended
    }

    fn stopped_now(&mut self, root: Tid, tid: Tid, stop: Stop) -> Result<(), WatchError> {
        if self.tasks.get(tid).is_none() {
            if matches!(stop, Stop::Exited(_) | Stop::Killed(_)) {
                self.early.remove(&tid);
            } else {
                self.early.insert(tid);
            }
            return Ok(());
        }
        match stop {
            Stop::Seccomp => {
                let registers = match ptrace::registers(tid) {
                    Ok(registers) => registers,
                    Err(error) => return gone(error),
                };
                self.enter(tid, &registers)
            }
            Stop::CallEnd => self.leave(tid),
            Stop::Signal(libc::SIGSYS) if ptrace::is_foreign_call(tid) => Err(foreign(tid)),
            Stop::Signal(signal) => ptrace::go_on(tid, signal).or_else(gone),
            Stop::ByJobControl => ptrace::listen(tid).or_else(gone),
            Stop::Started => ptrace::go_on(tid, 0).or_else(gone),
            Stop::Child(child) => self.child(tid, child),
            Stop::Exec(former) => self.exec(tid, former),
            Stop::Exiting => {
                self.exiting(tid)?;
                ptrace::go_on(tid, 0).or_else(gone)
            }
            Stop::Exited(code) => {
                if tid == root {
                    self.ended = Some(ProgramEnd::Exited(code as u8));
                }
                self.ended(tid)
            }
            Stop::Killed(signal) => {
                if tid == root {
                    self.ended = Some(ProgramEnd::Killed { signal });
                }
                self.ended(tid)
            }
        }
    }

    /// Before a call.
    fn enter(&mut self, tid: Tid, registers: &Registers) -> Result<(), WatchError> {
        let arguments = Arguments::of(registers);
        // The mark of the x32 interface.
        if registers.orig_rax & 0x4000_0000 != 0 {
            return Err(foreign(tid));
        }
        let number = arguments.number;
        let Some((_, name, class)) = table::find(registers.orig_rax) else {
            self.remark(Remark::UnknownCall {
                number,
                name: format!("call {}", registers.orig_rax),
            })?;
            return ptrace::go_on(tid, 0).or_else(gone);
        };
        let kind = match class {
            Class::Watched(kind) => *kind,
            Class::Harmless => return ptrace::go_on(tid, 0).or_else(gone),
            Class::Reported => {
                let name = (*name).to_owned();
                self.remark(Remark::UnknownCall { number, name })?;
                return ptrace::go_on(tid, 0).or_else(gone);
            }
            Class::Refused => {
                let name = (*name).to_owned();
                self.remark(Remark::Refused { number, name })?;
                return refuse(tid, registers);
            }
        };
        if kind != CallKind::Write {
            self.unmark();
        }
        if self.needs_turn(tid, kind, &arguments) {
            if self.turn.is_some() {
                self.set_state(tid, TaskState::Queued(Box::new(*registers)));
                self.queue.push_back(tid);
                return Ok(());
            }
            self.turn = Some(tid);
        }
        let by = CallContext::new(tid, number, registers);
        let entry = self.enter_call(by, kind, &arguments)?;
        match entry {
            EntryAction::Pass => {
                self.end_turn(tid)?;
                ptrace::go_on(tid, 0).or_else(gone)
            }
            EntryAction::Defer(deferred) => {
                self.deferred = Some(deferred);
                self.end_turn(tid)?;
                ptrace::go_on(tid, 0).or_else(gone)
            }
            EntryAction::Await(what) => self.await_end(tid, registers, arguments, what),
        }
    }

    fn await_end(
        &mut self,
        tid: Tid,
        registers: &Registers,
        arguments: Arguments,
        what: Box<PendingCall>,
    ) -> Result<(), WatchError> {
        let pending = CallInProgress {
            registers: *registers,
            arguments,
            what,
        };
        self.set_state(tid, TaskState::InCall(Box::new(pending)));
        ptrace::to_call_end(tid).or_else(gone)
    }

    pub fn set_state(&mut self, tid: Tid, state: TaskState) -> TaskState {
        match self.tasks.all.get_mut(&tid) {
            Some(task) => std::mem::replace(&mut task.state, state),
            None => TaskState::Running,
        }
    }

    /// After a call.
    fn leave(&mut self, tid: Tid) -> Result<(), WatchError> {
        if let TaskState::InCall(pending) = self.set_state(tid, TaskState::Running) {
            match ptrace::returned(tid) {
                Ok(returned) => self.exit_call(tid, *pending, returned)?,
                Err(error) => gone(error)?,
            }
        }
        self.end_turn(tid)?;
        ptrace::go_on(tid, 0).or_else(gone)
    }

    /// If the turn is this thread's, the next one has it.
    pub fn end_turn(&mut self, tid: Tid) -> Result<(), WatchError> {
        if self.turn != Some(tid) {
            return Ok(());
        }
        self.turn = None;
        while self.turn.is_none()
            && let Some(next) = self.queue.pop_front()
        {
            if let TaskState::Queued(registers) = self.set_state(next, TaskState::Running) {
                self.enter(next, &registers)?;
            }
        }
        Ok(())
    }

    /// The descriptor of ours to what a descriptor of the program refers to.
    pub fn take(&self, tid: Tid, descriptor: i32) -> Option<OwnedFd> {
        let task = self.tasks.get(tid)?;
        let flags = PidfdGetfdFlags::empty();
        rustix::process::pidfd_getfd(&task.process.pidfd, descriptor, flags).ok()
    }

    /// What a descriptor refers to.
    pub fn description(&mut self, tid: Tid, descriptor: i32) -> Option<Rc<Description>> {
        let files = Rc::clone(&self.tasks.get(tid)?.process.files);
        if let Some(known) = files.borrow().get(descriptor) {
            return Some(Rc::clone(known));
        }
        let own = self.take(tid, descriptor)?;
        let description = Rc::new(Description::of(own, &mut self.inodes, &self.streams));
        files
            .borrow_mut()
            .insert(descriptor, Rc::clone(&description));
        Some(description)
    }

    /// Gives up references; tells which inodes nobody can write to any more.
    pub fn release(
        &mut self,
        descriptions: impl IntoIterator<Item = Rc<Description>>,
    ) -> Vec<Effect<'static>> {
        let mut closed = Vec::new();
        for description in descriptions {
            if let Some(inode) = release(description, &mut self.inodes) {
                closed.push(Effect::LastClose { inode });
            }
        }
        closed
    }

    /// Writes down a call, if it did anything.
    pub fn emit(
        &mut self,
        by: CallContext<'_>,
        text: &str,
        effects: Vec<Effect<'_>>,
    ) -> Result<(), WatchError> {
        if effects.is_empty() {
            return Ok(());
        }
        let stack = self.stack(by)?;
        self.emit_at(by.tid, by.number, stack, text, effects)
    }

    /// The call stack of a stopped thread.
    pub fn stack(&mut self, by: CallContext<'_>) -> Result<StackId, WatchError> {
        let Some(task) = self.tasks.get(by.tid) else {
            return Ok(StackId::NONE);
        };
        let failed = |source| WatchError::Write { source };
        Ok(if self.options.stacks {
            self.stacks
                .unwind(by.tid, task.process.leader, by.registers, &mut self.writer)
                .map_err(failed)?
        } else {
            StackId::NONE
        })
    }

    /// Writes down a call whose stack was looked at before.
    pub fn emit_at(
        &mut self,
        tid: Tid,
        number: SystemCall,
        stack: StackId,
        text: &str,
        effects: Vec<Effect<'_>>,
    ) -> Result<(), WatchError> {
        let Some(task) = self.tasks.get(tid) else {
            return Ok(());
        };
        let call = Call {
            order: self.order,
            process: task.process.number,
            thread: task.number,
            number,
            stack,
            text,
            effects,
        };
        self.order += 1;
        self.writer
            .call(call)
            .map_err(|source| WatchError::Write { source })
    }

    /// Code may have been unmapped.
    pub fn stacks_unmapped(&mut self, tid: Tid, range: &std::ops::Range<u64>) {
        if let Some(task) = self.tasks.get(tid) {
            self.stacks.unmapped(task.process.leader, range);
        }
    }

    /// The addresses of code may mean something else from here on.
    pub fn code_changed(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get(tid) {
            self.stacks.forget(task.process.leader);
        }
    }

    /// A thread begins.
    pub fn add_task(&mut self, tid: Tid, process: TracedProcess) -> Result<(), WatchError> {
        let of = process.number;
        let number = self.tasks.add(tid, process);
        self.writer
            .thread(of, number, tid.0.cast_unsigned())
            .map_err(|source| WatchError::Write { source })
    }

    /// Says something once.
    pub fn remark(&mut self, remark: Remark) -> Result<(), WatchError> {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark.clone());
            return self
                .writer
                .remark(&remark)
                .map_err(|source| WatchError::Write { source });
        }
        Ok(())
    }
}

/// A thread may be killed at any moment: its end comes by itself.
pub fn gone(error: io::Error) -> Result<(), WatchError> {
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(()),
        _ => Err(WatchError::System {
            what: "go on with the program",
            source: error,
        }),
    }
}

fn foreign(tid: Tid) -> WatchError {
    let program = std::fs::read_link(format!("/proc/{}/exe", tid.0));
    WatchError::ThirtyTwoBit {
        program: program.map_or("?".into(), |path| path.display().to_string()),
    }
}

/// The call does not happen, and returns `ENOSYS`.
fn refuse(tid: Tid, registers: &Registers) -> Result<(), WatchError> {
    let mut registers = *registers;
    registers.orig_rax = u64::MAX;
    registers.rax = (-i64::from(libc::ENOSYS)) as u64;
    ptrace::set_registers(tid, &registers)
        .and_then(|()| ptrace::go_on(tid, 0))
        .or_else(gone)
}
