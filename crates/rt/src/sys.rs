//! System calls, made directly.
//!
//! The runtime must not change `errno`, must not be a cancellation point, and must not come back
//! into the functions that it interposes, so it does not go through libc here.

use crashpoint_abi::system_call::system_call;
use libc::{c_int, c_long};

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

pub type Result<T> = core::result::Result<T, Errno>;

pub const PAGE_BYTES: usize = 4096;

/// # Safety
/// As the system call demands.
#[inline(always)]
pub unsafe fn syscall(number: c_long, arguments: [usize; 6]) -> Result<usize> {
    // SAFETY: the caller vouches for what this call does with these arguments.
    let result = unsafe { system_call(number, arguments) };
    if (-4095..0).contains(&result) {
        Err(Errno(-result as i32))
    } else {
        Ok(result as usize)
    }
}

/// # Safety
/// As the system call demands.
unsafe fn call3(number: c_long, a: usize, b: usize, c: usize) -> Result<usize> {
    // SAFETY: passed on.
    unsafe { syscall(number, [a, b, c, 0, 0, 0]) }
}

/// A path that ends with a zero byte.
#[derive(Clone, Copy)]
pub struct Path<'a>(&'a [u8]);

impl<'a> Path<'a> {
    /// `None` if the last byte is not the only zero.
    pub fn new(bytes: &'a [u8]) -> Option<Path<'a>> {
        let end = bytes.iter().position(|byte| *byte == 0)?;
        (end + 1 == bytes.len()).then_some(Path(bytes))
    }

    fn address(self) -> usize {
        self.0.as_ptr() as usize
    }
}

/// A file descriptor that is closed in the end.
pub struct File(c_int);

impl File {
    pub fn open(path: Path<'_>, flags: c_int) -> Result<File> {
        let flags = (flags | libc::O_CLOEXEC) as usize;
        // SAFETY: the path is terminated.
        unsafe { call3(libc::SYS_open, path.address(), flags, 0o644) }
            .map(|number| File(number as c_int))
    }

    /// A descriptor of somebody else's; not to be dropped.
    pub fn borrow(number: c_int) -> File {
        File(number)
    }

    pub fn number(&self) -> c_int {
        self.0
    }

    pub fn status(&self) -> Result<libc::stat> {
        status(self.0)
    }

    /// Writes all bytes at the end of a file opened for appending.
    pub fn append(&self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            // SAFETY: the slice is readable.
            let written = unsafe {
                call3(
                    libc::SYS_write,
                    self.0 as usize,
                    bytes.as_ptr() as usize,
                    bytes.len(),
                )
            };
            match written {
                Ok(0) => return Err(Errno(libc::ENOSPC)),
                Ok(count) => bytes = &bytes[count..],
                Err(Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all bytes at a position.
    pub fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        while !bytes.is_empty() {
            let (from, length) = (bytes.as_ptr() as usize, bytes.len());
            let arguments = [self.0 as usize, from, length, offset as usize, 0, 0];
            // SAFETY: the slice is readable.
            match unsafe { syscall(libc::SYS_pwrite64, arguments) } {
                Ok(0) => return Err(Errno(libc::ENOSPC)),
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset += count as u64;
                }
                Err(Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        read_at(self.0, buffer, offset)
    }

    pub fn truncate(&self, length: u64) -> Result<()> {
        // SAFETY: no memory is involved.
        unsafe { call3(libc::SYS_ftruncate, self.0 as usize, length as usize, 0) }.map(drop)
    }

    /// Makes sure that the first bytes exist on the disk, so that writing to a mapping of them
    /// cannot fail. Where the file system cannot promise that, they merely exist.
    pub fn allocate(&self, length: u64) -> Result<()> {
        let arguments = [self.0 as usize, 0, 0, length as usize, 0, 0];
        // SAFETY: no memory is involved.
        match unsafe { syscall(libc::SYS_fallocate, arguments) } {
            Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)) => self.truncate(length),
            other => other.map(drop),
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        let _ = unsafe { call3(libc::SYS_close, self.0 as usize, 0, 0) };
    }
}

pub fn status(descriptor: c_int) -> Result<libc::stat> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    let to = (&raw mut status) as usize;
    // SAFETY: the kernel's structure is libc's on x86-64.
    unsafe { call3(libc::SYS_fstat, descriptor as usize, to, 0) }.map(|_| status)
}

pub fn read_at(descriptor: c_int, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let (to, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    let arguments = [descriptor as usize, to, length, offset as usize, 0, 0];
    // SAFETY: the buffer is writable.
    unsafe { syscall(libc::SYS_pread64, arguments) }
}

/// The next data (`SEEK_DATA`) or hole (`SEEK_HOLE`) from an offset on.
pub fn seek(descriptor: c_int, offset: u64, whence: c_int) -> Result<u64> {
    let (descriptor, offset) = (descriptor as usize, offset as usize);
    // SAFETY: no memory is involved.
    unsafe { call3(libc::SYS_lseek, descriptor, offset, whence as usize) }.map(|at| at as u64)
}

pub fn read_link(path: Path<'_>, buffer: &mut [u8]) -> Result<usize> {
    let (to, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the path is terminated, the buffer writable.
    unsafe { call3(libc::SYS_readlink, path.address(), to, length) }
}

pub fn current_directory(buffer: &mut [u8]) -> Result<usize> {
    let (to, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the buffer is writable. The length includes the zero byte.
    unsafe { call3(libc::SYS_getcwd, to, length, 0) }.map(|length| length.saturating_sub(1))
}

pub fn make_directory(path: Path<'_>) -> Result<()> {
    // SAFETY: the path is terminated.
    unsafe { call3(libc::SYS_mkdir, path.address(), 0o755, 0) }.map(drop)
}

pub fn link(from: Path<'_>, to: Path<'_>) -> Result<()> {
    // SAFETY: the paths are terminated.
    unsafe { call3(libc::SYS_link, from.address(), to.address(), 0) }.map(drop)
}

pub fn unlink(path: Path<'_>) -> Result<()> {
    // SAFETY: the path is terminated.
    unsafe { call3(libc::SYS_unlink, path.address(), 0, 0) }.map(drop)
}

pub fn process_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call3(libc::SYS_getpid, 0, 0, 0) }.unwrap_or(0) as u32
}

pub fn thread_id() -> u32 {
    // SAFETY: no memory is involved.
    unsafe { call3(libc::SYS_gettid, 0, 0, 0) }.unwrap_or(0) as u32
}

pub fn process_exists(process: u32) -> bool {
    // SAFETY: signal 0 is no signal.
    let result = unsafe { call3(libc::SYS_kill, process as usize, 0, 0) };
    result != Err(Errno(libc::ESRCH))
}

pub fn yield_now() {
    // SAFETY: no memory is involved.
    let _ = unsafe { call3(libc::SYS_sched_yield, 0, 0, 0) };
}

pub fn exit(code: c_int) -> ! {
    loop {
        // SAFETY: ends the process.
        let _ = unsafe { call3(libc::SYS_exit_group, code as usize, 0, 0) };
    }
}

/// Nanoseconds of a clock.
pub fn clock(clock: c_int) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let to = (&raw mut time) as usize;
    // SAFETY: `time` is writable.
    let _ = unsafe { call3(libc::SYS_clock_gettime, clock as usize, to, 0) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The soft limit on the size of files that this process writes. Passing it means a signal.
pub fn file_size_limit() -> u64 {
    let mut limit = [0u64; 2];
    let to = (&raw mut limit) as usize;
    let arguments = [0, libc::RLIMIT_FSIZE as usize, 0, to, 0, 0];
    // SAFETY: `limit` has the size of the kernel's structure.
    match unsafe { syscall(libc::SYS_prlimit64, arguments) } {
        Ok(_) => limit[0],
        Err(_) => u64::MAX,
    }
}

/// Says something to the user. There is nothing to be done if nobody listens.
pub fn complain(bytes: &[u8]) {
    // SAFETY: the slice is readable.
    let _ = unsafe { call3(libc::SYS_write, 2, bytes.as_ptr() as usize, bytes.len()) };
}

/// Reads memory of this process without the risk of a fault; says how much could be read.
pub fn read_own_memory(address: u64, buffer: &mut [u8]) -> Result<usize> {
    let to = [buffer.as_mut_ptr() as usize, buffer.len()];
    let from = [address as usize, buffer.len()];
    let (to, from) = ((&raw const to) as usize, (&raw const from) as usize);
    let arguments = [process_id() as usize, to, 1, from, 1, 0];
    // SAFETY: the kernel writes to the buffer alone, and checks what it reads.
    unsafe { syscall(libc::SYS_process_vm_readv, arguments) }
}

/// What tells a file from all others, and its size.
#[derive(Clone, Copy, Default)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    /// In nanoseconds, as inode numbers are given anew; 0 where the file system does not say.
    pub birth: u64,
    pub size: u64,
    pub is_regular: bool,
}

impl Identity {
    pub fn is_same_file(&self, other: &Identity) -> bool {
        (self.device, self.inode, self.birth) == (other.device, other.inode, other.birth)
    }
}

pub fn identity(descriptor: c_int) -> Result<Identity> {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut status: libc::statx = unsafe { core::mem::zeroed() };
    let to = (&raw mut status) as usize;
    let empty = c"".as_ptr() as usize;
    let flags = libc::AT_EMPTY_PATH as usize;
    let mask = (libc::STATX_BASIC_STATS | libc::STATX_BTIME) as usize;
    let arguments = [descriptor as usize, empty, flags, mask, to, 0];
    // SAFETY: the path is terminated, the structure is the kernel's.
    unsafe { syscall(libc::SYS_statx, arguments) }?;
    let birth = match status.stx_mask & libc::STATX_BTIME {
        0 => 0,
        _ => {
            let time = status.stx_btime;
            (time.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(time.tv_nsec)
        }
    };
    Ok(Identity {
        device: libc::makedev(status.stx_dev_major, status.stx_dev_minor),
        inode: status.stx_ino,
        birth,
        size: status.stx_size,
        is_regular: u32::from(status.stx_mode) & libc::S_IFMT == libc::S_IFREG,
    })
}

/// The next entries of a folder, as the kernel packs them; 0 at the end.
pub fn read_folder(descriptor: c_int, buffer: &mut [u8]) -> Result<usize> {
    let (to, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the buffer is writable.
    unsafe { call3(libc::SYS_getdents64, descriptor as usize, to, length) }
}
