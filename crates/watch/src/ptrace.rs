//! The part of ptrace(2) that is used here, with stops decoded once.
//!
//! The program is *seized*: it is never sent a signal by us, a stop by job control stays a stop, and
//! it is killed when we are.

use std::io;

/// A thread of the watched program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

/// Why a thread stopped, or that it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before a call that the filter wants to be seen.
    Seccomp,
    /// After a call.
    CallEnd,
    /// A signal is about to be delivered.
    Signal(i32),
    /// Stopped by job control, until it is continued.
    ByJobControl,
    /// A new thread that starts, or one that goes on.
    Started,
    /// A thread or process was made: its number.
    Child(Tid),
    /// A new program runs; the number of the thread that called `exec`.
    Exec(Tid),
    /// About to end: memory and descriptors are still there.
    Exiting,
    Exited(i32),
    Killed(i32),
}

const OPTIONS: libc::c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_EXITKILL;

fn request(what: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<libc::c_long> {
    // SAFETY: none of the requests in this file but GETREGS, GETEVENTMSG and GETSIGINFO writes to our memory,
    // and those are given the address of a value of the right type by their only callers.
    let result = unsafe { libc::ptrace(what, tid.0, address, data) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        other => Ok(other),
    }
}

pub fn seize(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize).map(drop)
}

/// Lets a thread run to its next stop.
pub fn go_on(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize).map(drop)
}

/// Lets a thread run to the end of the call it is in.
pub fn to_call_end(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, 0).map(drop)
}

/// Leaves a thread in its group stop.
pub fn listen(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, tid, 0, 0).map(drop)
}

pub type Registers = libc::user_regs_struct;

pub fn registers(tid: Tid) -> io::Result<Registers> {
    let mut registers = std::mem::MaybeUninit::<Registers>::uninit();
    request(
        libc::PTRACE_GETREGS,
        tid,
        0,
        registers.as_mut_ptr() as usize,
    )?;
    // SAFETY: the kernel filled it.
    Ok(unsafe { registers.assume_init() })
}

pub fn set_registers(tid: Tid, registers: &Registers) -> io::Result<()> {
    let address = std::ptr::from_ref(registers) as usize;
    request(libc::PTRACE_SETREGS, tid, 0, address).map(drop)
}

/// What a call returned, at its end.
pub fn returned(tid: Tid) -> io::Result<i64> {
    let offset = std::mem::offset_of!(Registers, rax);
    // glibc's wrapper passes the word through its result, where -1 may be a value.
    // SAFETY: __errno_location is always valid for the calling thread.
    unsafe { *libc::__errno_location() = 0 };
    match request(libc::PTRACE_PEEKUSER, tid, offset, 0) {
        Ok(value) => Ok(value),
        Err(error) if error.raw_os_error() == Some(0) => Ok(-1),
        Err(error) => Err(error),
    }
}

fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    let address = std::ptr::from_mut(&mut message) as usize;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, address)?;
    Ok(message)
}

/// Whether the signal that is about to be delivered is the filter's, about a call by the numbers of
/// another machine.
pub fn is_foreign_call(tid: Tid) -> bool {
    // The fields of a SIGSYS: `si_code`, and `si_arch` behind an address and a number.
    const CODE: usize = 8;
    const ARCHITECTURE: usize = 28;
    const SYS_SECCOMP: u32 = 1;
    let mut information = [0_u32; 32];
    let address = information.as_mut_ptr() as usize;
    if request(libc::PTRACE_GETSIGINFO, tid, 0, address).is_err() {
        return false;
    }
    information[CODE / 4] == SYS_SECCOMP
        && information[ARCHITECTURE / 4] != crate::filter::AUDIT_ARCH_X86_64
}

/// Waits for any thread to stop; `None` when none is left.
pub fn wait() -> io::Result<Option<(Tid, Stop)>> {
    loop {
        let mut status = 0;
        // SAFETY: the status is a valid place for the kernel to write.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::__WNOTHREAD) };
        if pid < 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::ECHILD) => return Ok(None),
                _ => return Err(error),
            }
        }
        let tid = Tid(pid);
        match decode(tid, status) {
            Ok(stop) => return Ok(Some((tid, stop))),
            // Killed between the stop and the question: its end comes next.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
            Err(error) => return Err(error),
        }
    }
}

fn decode(tid: Tid, status: i32) -> io::Result<Stop> {
    if libc::WIFEXITED(status) {
        return Ok(Stop::Exited(libc::WEXITSTATUS(status)));
    }
    if libc::WIFSIGNALED(status) {
        return Ok(Stop::Killed(libc::WTERMSIG(status)));
    }
    let signal = libc::WSTOPSIG(status);
    Ok(match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::CallEnd,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_SECCOMP => Stop::Seccomp,
        libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => {
            Stop::Child(Tid(event_message(tid)? as i32))
        }
        libc::PTRACE_EVENT_EXEC => Stop::Exec(Tid(event_message(tid)? as i32)),
        libc::PTRACE_EVENT_EXIT => Stop::Exiting,
        libc::PTRACE_EVENT_STOP => match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Stop::ByJobControl,
            _ => Stop::Started,
        },
        // No other event is asked for; if there is one, the thread just goes on.
        _ => Stop::Started,
    })
}

/// Reads memory of the program into `to`; returns how much there was.
pub fn read_memory(tid: Tid, address: u64, to: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: to.len(),
    };
    // SAFETY: the local vector describes `to`; the remote address is checked by the kernel.
    let read = unsafe { libc::process_vm_readv(tid.0, &local, 1, &remote, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}
