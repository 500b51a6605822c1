//! Starts the program: seized, filtered, and only then itself.
//!
//! The child waits on a pipe until it is seized, then installs the filter and calls `exec`. Between
//! `fork` and `exec` it makes system calls only, on values that were prepared before: it may have
//! been forked from a process with several threads.

use crate::ptrace::{self, Tid};
use crate::{Options, WatchError, filter};
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What the child does with its three standard descriptors.
pub struct Standard<'a> {
    pub input: Option<BorrowedFd<'a>>,
    pub output: Option<BorrowedFd<'a>>,
    pub error: Option<BorrowedFd<'a>>,
}

/// A failure in the child: which step, and why.
struct Failure {
    step: u8,
    errno: i32,
}

const STEP_FILTER: u8 = 1;
const STEP_DIRECTORY: u8 = 2;
const STEP_EXEC: u8 = 3;

/// The program as the kernel wants it.
struct Image {
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    variables: Vec<CString>,
    directory: CString,
    program: Vec<libc::sock_filter>,
}

/// A child that is seized and waits.
pub struct Started {
    pub tid: Tid,
    go: OwnedFd,
    failure: OwnedFd,
}

impl Started {
    /// Lets it run its way to `exec`.
    pub fn go(&self) -> io::Result<()> {
        rustix::io::write(&self.go, b"!")
            .map(drop)
            .map_err(Into::into)
    }

    /// After the child is gone: why it did not become the program, if so.
    pub fn failed(&self, options: &Options<'_>) -> Option<WatchError> {
        let mut bytes = [0; 5];
        let read = rustix::io::read(&self.failure, &mut bytes).ok()?;
        let [step, e0, e1, e2, e3] = bytes;
        if read < bytes.len() {
            return None;
        }
        let source = io::Error::from_raw_os_error(i32::from_ne_bytes([e0, e1, e2, e3]));
        Some(match step {
            STEP_FILTER => WatchError::Filter { source },
            STEP_DIRECTORY => WatchError::Directory {
                path: options.directory.to_owned(),
                source,
            },
            _ => WatchError::Start {
                program: options.command[0].to_string_lossy().into_owned(),
                source,
            },
        })
    }
}

fn c_string(text: &OsStr) -> Result<CString, WatchError> {
    CString::new(text.as_bytes()).map_err(|_| WatchError::ZeroByte)
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
    pointers.push(std::ptr::null());
    pointers
}

/// The files that a program's name may mean, in order.
fn candidates(program: &OsStr, variables: &[(OsString, OsString)]) -> Vec<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    let path = variables.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"), |(_, value)| {
        value
    });
    std::env::split_paths(path)
        .map(|folder| folder.join(program))
        .collect()
}

/// The file of the program, as far as it can be told before it is started.
pub fn program(options: &Options<'_>) -> Option<PathBuf> {
    let all = candidates(&options.command[0], options.environment);
    let mut all = all.iter().map(|path| options.directory.join(path));
    all.find(|path| path.is_file())
}

/// The program gets this environment instead of the one in `options`. `with_syscallbuf`: writes
/// need not stop.
pub fn start(
    options: &Options<'_>,
    environment: &[(OsString, OsString)],
    with_syscallbuf: bool,
    standard: &Standard<'_>,
) -> Result<Started, WatchError> {
    let mut variables = Vec::new();
    for (name, value) in environment {
        let mut text = name.clone();
        text.push("=");
        text.push(value);
        variables.push(c_string(&text)?);
    }
    let program = &options.command[0];
    let image = Image {
        candidates: candidates(program, options.environment)
            .iter()
            .map(|path| c_string(path.as_os_str()))
            .collect::<Result<_, _>>()?,
        arguments: options
            .command
            .iter()
            .map(|text| c_string(text))
            .collect::<Result<_, _>>()?,
        variables,
        directory: c_string(Path::new(options.directory).as_os_str())?,
        program: filter::program(with_syscallbuf),
    };
    let system = |source| WatchError::System {
        what: "make a pipe",
        source,
    };
    let closing = rustix::pipe::PipeFlags::CLOEXEC;
    let (wait, go) = rustix::pipe::pipe_with(closing).map_err(|e| system(e.into()))?;
    let (failure, report) = rustix::pipe::pipe_with(closing).map_err(|e| system(e.into()))?;
    let arguments = pointers(&image.arguments);
    let variables = pointers(&image.variables);
    let filter = libc::sock_fprog {
        len: image.program.len() as u16,
        filter: image.program.as_ptr().cast_mut(),
    };
    // SAFETY: the child calls only async-signal-safe functions until it ends in `exec` or `_exit`.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        let source = io::Error::last_os_error();
        return Err(WatchError::System {
            what: "fork",
            source,
        });
    }
    if pid == 0 {
        // SAFETY: see above; all pointers are into values that outlive the call, which does not
        // return.
        unsafe {
            let failed = child(&image, &arguments, &variables, &filter, standard, &wait);
            let errno = failed.errno.to_ne_bytes();
            let [e0, e1, e2, e3] = errno;
            let bytes = [failed.step, e0, e1, e2, e3];
            libc::write(report.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
            libc::_exit(127);
        }
    }
    let tid = Tid(pid);
    ptrace::seize(tid).map_err(|source| {
        // SAFETY: our own child, which waits and was not reaped.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        WatchError::NotPermitted { source }
    })?;
    Ok(Started { tid, go, failure })
}

/// Runs in the child; returns only on failure.
///
/// # Safety
///
/// Only between `fork` and `exec`, with pointer arrays that end in null.
unsafe fn child(
    image: &Image,
    arguments: &[*const libc::c_char],
    variables: &[*const libc::c_char],
    filter: &libc::sock_fprog,
    standard: &Standard<'_>,
    wait: &OwnedFd,
) -> Failure {
    let failure = |step| Failure {
        step,
        errno: errno(),
    };
    // SAFETY: system calls on descriptors and memory that the parent prepared.
    unsafe {
        let wanted = [
            (&standard.input, 0),
            (&standard.output, 1),
            (&standard.error, 2),
        ];
        for (from, to) in wanted {
            if let Some(from) = from {
                libc::dup2(from.as_raw_fd(), to);
            }
        }
        // Rust ignores it; programs expect it.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut mask = std::mem::zeroed();
        libc::sigemptyset(&mut mask);
        libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
        let mut byte = 0_u8;
        while libc::read(wait.as_raw_fd(), std::ptr::from_mut(&mut byte).cast(), 1) < 0
            && errno() == libc::EINTR
        {}
        if libc::chdir(image.directory.as_ptr()) != 0 {
            return failure(STEP_DIRECTORY);
        }
        let install = || libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, filter);
        // With privileges the filter alone will do, and programs that change user still work.
        if install() != 0
            && (libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || install() != 0)
        {
            return failure(STEP_FILTER);
        }
        let mut worst = Failure {
            step: STEP_EXEC,
            errno: libc::ENOENT,
        };
        for path in &image.candidates {
            libc::execve(path.as_ptr(), arguments.as_ptr(), variables.as_ptr());
            if errno() != libc::ENOENT && errno() != libc::ENOTDIR {
                worst = failure(STEP_EXEC);
            }
        }
        worst
    }
}

fn errno() -> i32 {
    // SAFETY: always valid for the calling thread.
    unsafe { *libc::__errno_location() }
}
