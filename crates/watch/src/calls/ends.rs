//! What ends with a process or with its program: mappings, descriptors, calls in flight.

use super::{CallInProgress, PendingCall};
use crate::WatchError;
use crate::descriptors::DescriptorTable;
use crate::ptrace::{self, Tid};
use crate::watcher::{CallContext, Watcher};
use crashpoint_trace::files::{Effect, Remark, SystemCall};
use rustix::fs::{AtFlags, CWD};
use std::rc::Rc;

impl Watcher<'_> {
    /// What was closed, if that matters.
    pub fn emit_closed(
        &mut self,
        by: CallContext<'_>,
        closed: Vec<Effect<'static>>,
    ) -> Result<(), WatchError> {
        let Some(Effect::LastClose { inode }) = closed.first() else {
            return Ok(());
        };
        let text = by.text_on(self.inodes.path(*inode));
        self.emit(by, &text, closed)
    }

    /// A thread dies within a call. What the call did is not known unless it shows.
    pub fn interrupted(&mut self, tid: Tid, pending: CallInProgress) -> Result<(), WatchError> {
        let by = CallContext::new(tid, pending.arguments.number, &pending.registers);
        if !pending.what.may_have_changed() {
            return Ok(());
        }
        // Dies by `exit`: other threads are killed wherever they are.
        let text = if let PendingCall::Write(write) = *pending.what {
            let text = by.text_on(self.inodes.path(write.inode));
            let closed = self.release([write.description]);
            self.emit_closed(by, closed)?;
            text
        } else {
            format!("{}(…)", by.name())
        };
        let reason = "the program was killed within it".to_owned();
        self.remark(Remark::Unseen { text, reason })
    }

    /// A thread ends: what nobody else shares with it is given up.
    pub fn give_up(&mut self, tid: Tid) -> Result<(), WatchError> {
        let Some(task) = self.tasks.get(tid) else {
            return Ok(());
        };
        let number = SystemCall(libc::SYS_exit_group as u16);
        let registers = ptrace::registers(tid).unwrap_or(NO_REGISTERS);
        let by = CallContext::new(tid, number, &registers);
        if Rc::strong_count(&task.process.space) == 1 {
            let space = Rc::clone(&task.process.space);
            let mapped: Vec<_> = space.borrow().mappings.iter().map(|m| m.inode).collect();
            if !mapped.is_empty() {
                self.compare_all(by)?;
                space.borrow_mut().mappings.clear();
                self.forget_unmapped(mapped);
            }
        }
        let Some(task) = self.tasks.all.get_mut(&tid) else {
            return Ok(());
        };
        if Rc::strong_count(&task.process.files) == 1 {
            let table = std::mem::take(&mut *task.process.files.borrow_mut());
            let closed = self.release(all(table));
            self.emit_closed(by, closed)?;
        }
        Ok(())
    }

    /// A new program runs in the process: mappings are gone, and some descriptors.
    pub fn exec_done(&mut self, tid: Tid) -> Result<(), WatchError> {
        let number = SystemCall(libc::SYS_execve as u16);
        let registers = ptrace::registers(tid).unwrap_or(NO_REGISTERS);
        let by = CallContext::new(tid, number, &registers);
        self.code_changed(tid);
        let Some(task) = self.tasks.all.get_mut(&tid) else {
            return Ok(());
        };
        let mapped: Vec<_> = task
            .process
            .space
            .borrow()
            .mappings
            .iter()
            .map(|mapping| mapping.inode)
            .collect();
        task.process.space = Rc::default();
        let mut table = task.process.files.borrow().clone();
        let mut gone = Vec::new();
        for number in table.numbers() {
            let path = format!("/proc/{}/fd/{number}", tid.0);
            if rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                gone.extend(table.remove(number));
            }
        }
        // Not shared with anybody from here on.
        let old = std::mem::replace(&mut task.process.files, Rc::new(table.into()));
        let old = Rc::try_unwrap(old)
            .map(|table| all(table.into_inner()))
            .unwrap_or_default();
        if !mapped.is_empty() {
            self.compare_all(by)?;
            self.forget_unmapped(mapped);
        }
        let mut closed = self.release(old);
        closed.extend(self.release(gone));
        self.emit_closed(by, closed)
    }
}

fn all(mut table: DescriptorTable) -> Vec<Rc<crate::descriptors::Description>> {
    let numbers = table.numbers();
    numbers
        .into_iter()
        .filter_map(|number| table.remove(number))
        .collect()
}

/// Of a thread that is gone already.
const NO_REGISTERS: ptrace::Registers = ptrace::Registers {
    r15: 0,
    r14: 0,
    r13: 0,
    r12: 0,
    rbp: 0,
    rbx: 0,
    r11: 0,
    r10: 0,
    r9: 0,
    r8: 0,
    rax: 0,
    rcx: 0,
    rdx: 0,
    rsi: 0,
    rdi: 0,
    orig_rax: 0,
    rip: 0,
    cs: 0,
    eflags: 0,
    rsp: 0,
    ss: 0,
    fs_base: 0,
    gs_base: 0,
    ds: 0,
    es: 0,
    fs: 0,
    gs: 0,
};
