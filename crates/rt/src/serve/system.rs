//! System calls that only the server and its children make.

use crate::sys::{self, Errno, Result};
use libc::{c_int, c_long};

/// # Safety
/// As the system call demands.
unsafe fn call(number: c_long, arguments: &[usize]) -> Result<usize> {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    // SAFETY: passed on.
    unsafe { sys::syscall(number, all) }
}

/// Plain data that crosses as it lies in memory.
///
/// # Safety
/// Any bytes are a valid value, and there is no padding.
pub unsafe trait Message: Default {}

// SAFETY: numbers, without gaps between them.
unsafe impl Message for crashpoint_abi::serve::Hello {}
// SAFETY: as above.
unsafe impl Message for crashpoint_abi::serve::Request {}
// SAFETY: as above.
unsafe impl Message for crashpoint_abi::serve::Reply {}

/// Connects to a Unix socket that keeps messages apart.
pub fn connect(path: &[u8]) -> Result<c_int> {
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    // One byte stays zero.
    if path.len() >= address.sun_path.len() {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as i8;
    }
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;
    // SAFETY: no memory is involved.
    let socket = unsafe { call(libc::SYS_socket, &[libc::AF_UNIX as usize, kind, 0]) }?;
    let (at, length) = (
        (&raw const address) as usize,
        size_of::<libc::sockaddr_un>(),
    );
    loop {
        // SAFETY: the address is readable.
        match unsafe { call(libc::SYS_connect, &[socket, at, length]) } {
            Ok(_) => return Ok(socket as c_int),
            Err(Errno(libc::EINTR)) => {}
            Err(error) => {
                close(socket as c_int);
                return Err(error);
            }
        }
    }
}

/// The process at the other end; 0 if it cannot be told.
pub fn peer(socket: c_int) -> u32 {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as u32;
    let arguments = [
        socket as usize,
        libc::SOL_SOCKET as usize,
        libc::SO_PEERCRED as usize,
        (&raw mut credentials) as usize,
        (&raw mut length) as usize,
    ];
    // SAFETY: both are writable, and the length is that of the structure.
    match unsafe { call(libc::SYS_getsockopt, &arguments) } {
        Ok(_) => credentials.pid as u32,
        Err(_) => 0,
    }
}

pub fn send<M: Message>(socket: c_int, message: &M) -> Result<()> {
    let arguments = [
        socket as usize,
        core::ptr::from_ref(message) as usize,
        size_of::<M>(),
        libc::MSG_NOSIGNAL as usize,
        0,
        0,
    ];
    loop {
        // SAFETY: the message is readable.
        match unsafe { call(libc::SYS_sendto, &arguments) } {
            Err(Errno(libc::EINTR)) => {}
            other => return other.map(drop),
        }
    }
}

/// The next message; `None` when the other end is closed.
pub fn receive<M: Message>(socket: c_int) -> Result<Option<M>> {
    let mut message = M::default();
    let to = (&raw mut message) as usize;
    let arguments = [
        socket as usize,
        to,
        size_of::<M>(),
        libc::MSG_TRUNC as usize,
        0,
        0,
    ];
    loop {
        // SAFETY: the message is writable, and any bytes are valid for it.
        match unsafe { call(libc::SYS_recvfrom, &arguments) } {
            Ok(0) | Err(Errno(libc::ECONNRESET)) => return Ok(None),
            Ok(length) if length == size_of::<M>() => return Ok(Some(message)),
            Ok(_) => return Err(Errno(libc::EPROTO)),
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
}

pub fn close(descriptor: c_int) {
    // SAFETY: the caller's descriptor.
    let _ = unsafe { call(libc::SYS_close, &[descriptor as usize]) };
}

/// Waits until one of the descriptors can be read, for at most so many milliseconds; for ever with
/// a negative number. Which ones can be read.
pub fn wait_readable<const N: usize>(descriptors: [c_int; N], milliseconds: c_int) -> [bool; N] {
    let mut polled = descriptors.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let arguments = [(&raw mut polled) as usize, N, milliseconds as usize];
    // SAFETY: so many entries are writable. An error leaves them unreadable.
    let _ = unsafe { call(libc::SYS_poll, &arguments) };
    polled.map(|entry| entry.revents != 0)
}

pub fn control(option: c_int, argument: usize) -> Result<usize> {
    // SAFETY: the options that are used here take numbers.
    unsafe { call(libc::SYS_prctl, &[option as usize, argument]) }
}

pub fn parent_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_getppid, &[]) }.unwrap_or(0) as u32
}

/// Leaves terminal and group behind. False if this process leads a group.
pub fn new_session() -> bool {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_setsid, &[]) }.is_ok()
}

pub fn leads_session() -> bool {
    // SAFETY: no memory is involved.
    let session = unsafe { call(libc::SYS_getsid, &[0]) };
    session == Ok(sys::process_id() as usize)
}

pub fn new_group() {
    // SAFETY: no memory is involved.
    let _ = unsafe { call(libc::SYS_setpgid, &[0, 0]) };
}

pub fn kill(process: i32, signal: c_int) -> Result<()> {
    // SAFETY: no memory is involved.
    unsafe { call(libc::SYS_kill, &[process as usize, signal as usize]) }.map(drop)
}

/// A child that has ended.
pub struct ReapedChild {
    pub process: u32,
    pub status: c_int,
    pub user_us: u64,
    pub system_us: u64,
}

/// A child that has ended, if there is one. An error: there are no children.
pub fn reap() -> Result<Option<ReapedChild>> {
    let mut status: c_int = 0;
    // SAFETY: zeros are valid.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    let anyone = -1isize as usize;
    // Children that were made in unusual ways count too.
    let options = (libc::WNOHANG | libc::__WALL) as usize;
    let (status_at, usage_at) = ((&raw mut status) as usize, (&raw mut usage) as usize);
    // SAFETY: both are writable.
    let process = unsafe { call(libc::SYS_wait4, &[anyone, status_at, options, usage_at]) }?;
    let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Ok((process != 0).then(|| ReapedChild {
        process: process as u32,
        status,
        user_us: microseconds(usage.ru_utime),
        system_us: microseconds(usage.ru_stime),
    }))
}

/// Lowers a limit; it is never raised.
pub fn limit(resource: u32, soft: u64, hard: u64) {
    let mut old = [0u64; 2];
    let resource = resource as usize;
    // SAFETY: the kernel's structure is two words.
    let known = unsafe {
        call(
            libc::SYS_prlimit64,
            &[0, resource, 0, (&raw mut old) as usize],
        )
    };
    if known.is_err() {
        return;
    }
    let new = [soft.min(old[1]), hard.min(old[1])];
    // SAFETY: as above.
    let _ = unsafe {
        call(
            libc::SYS_prlimit64,
            &[0, resource, (&raw const new) as usize, 0],
        )
    };
}

/// The kernel's form of what happens at a signal.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Disposition {
    pub handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// What happens at a signal; sets something else if asked to.
pub fn disposition(signal: c_int, new: Option<Disposition>) -> Result<Disposition> {
    let mut old = Disposition::default();
    let new_at = new
        .as_ref()
        .map_or(0, |new| core::ptr::from_ref(new) as usize);
    let arguments = [signal as usize, new_at, (&raw mut old) as usize, 8];
    // SAFETY: both structures are the kernel's; 8 is its size of a set of signals.
    unsafe { call(libc::SYS_rt_sigaction, &arguments) }.map(|_| old)
}

/// The bit of a signal in a set.
pub fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// A descriptor that can be read when one of the signals is pending.
pub fn signals(set: u64) -> Result<c_int> {
    let none = -1isize as usize;
    let flags = (libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) as usize;
    let arguments = [none, (&raw const set) as usize, 8, flags];
    // SAFETY: a set has 8 bytes.
    unsafe { call(libc::SYS_signalfd4, &arguments) }.map(|number| number as c_int)
}

/// The signals that were pending, as a set.
pub fn take_signals(descriptor: c_int) -> u64 {
    const AT_ONCE: usize = 4;
    let mut taken = 0;
    // SAFETY: zeros are valid.
    let mut list: [libc::signalfd_siginfo; AT_ONCE] = unsafe { core::mem::zeroed() };
    loop {
        let arguments = [
            descriptor as usize,
            (&raw mut list) as usize,
            size_of_val(&list),
        ];
        // SAFETY: the list is writable.
        let length = unsafe { call(libc::SYS_read, &arguments) }.unwrap_or(0);
        let count = length / size_of::<libc::signalfd_siginfo>();
        for signal in &list[..count] {
            taken |= bit(signal.ssi_signo as c_int);
        }
        if count < AT_ONCE {
            return taken;
        }
    }
}
