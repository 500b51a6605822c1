//! A small checker: the other end of the fork server. The tests of the instrumenter use it too.

use crashpoint_abi::serve::{
    CANCEL, Hello, READS_FILES, READS_HEADER_BYTES, READS_MAGIC, RUN, ReadsFile, ReadsHeader,
    Reply, Request, VERSION,
};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Everything here ends long before this, unless it never ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

pub struct Checker {
    pub server: Child,
    pub hello: Hello,
    socket: OwnedFd,
    program: PathBuf,
}

fn listen(path: &Path) -> OwnedFd {
    // SAFETY: zeros are valid; the address is as long as it says.
    unsafe {
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as u16;
        for (to, from) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = *from as i8;
        }
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        let socket = OwnedFd::from_raw_fd(libc::socket(libc::AF_UNIX, kind, 0));
        let length = size_of::<libc::sockaddr_un>() as u32;
        let number = socket.as_raw_fd();
        assert_eq!(libc::bind(number, (&raw const address).cast(), length), 0);
        assert_eq!(libc::listen(number, 1), 0);
        bound(&socket);
        socket
    }
}

/// No wait of ours is for ever.
fn bound(socket: &OwnedFd) {
    let time = libc::timeval {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_usec: 0,
    };
    // SAFETY: the option's value is a `timeval`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            (&raw const time).cast(),
            size_of::<libc::timeval>() as u32,
        )
    };
    assert_eq!(result, 0);
}

impl Checker {
    /// Starts a target as a server, with a socket in a folder. The command names the program, its
    /// arguments and streams.
    pub fn start(folder: &Path, command: &mut Command) -> Checker {
        let path = folder.join("socket");
        let _ = fs::remove_file(&path);
        let listener = listen(&path);
        command.env_remove("CRASHPOINT_OUT");
        command.env("CRASHPOINT_SERVE", &path);
        let program = PathBuf::from(command.get_program());
        let server = command.spawn().expect("it starts");
        // SAFETY: no address is wanted.
        let accepted = unsafe {
            libc::accept4(
                listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            )
        };
        assert!(accepted >= 0, "{}", io::Error::last_os_error());
        // SAFETY: ours since just now.
        let socket = unsafe { OwnedFd::from_raw_fd(accepted) };
        bound(&socket);
        let mut checker = Checker {
            server,
            hello: Hello::default(),
            socket,
            program,
        };
        checker.hello = checker.receive();
        assert_eq!(checker.hello.version, VERSION);
        assert_eq!(checker.hello.process, checker.server.id());
        checker
    }

    fn receive<M: Copy>(&self) -> M {
        let mut message = MaybeUninit::<M>::uninit();
        loop {
            // SAFETY: the messages are plain numbers, and the length is checked.
            unsafe {
                let (to, length) = (message.as_mut_ptr().cast(), size_of::<M>());
                let received = libc::recv(self.socket.as_raw_fd(), to, length, 0);
                let error = io::Error::last_os_error();
                // A wait with a time limit may be interrupted though there was no signal for us.
                if received < 0 && error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                assert_eq!(
                    received, length as isize,
                    "a message of the server: {error}"
                );
                return message.assume_init();
            }
        }
    }

    pub fn send(&self, request: &Request) {
        // SAFETY: the request is readable.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                std::ptr::from_ref(request).cast(),
                size_of::<Request>(),
                libc::MSG_NOSIGNAL,
            )
        };
        assert_eq!(sent, size_of::<Request>() as isize);
    }

    pub fn begin(&self, flags: u32) {
        self.send(&Request {
            kind: RUN,
            flags,
            ..Request::default()
        });
    }

    pub fn cancel(&self) {
        self.send(&Request {
            kind: CANCEL,
            ..Request::default()
        });
    }

    pub fn reply(&self) -> Reply {
        self.receive()
    }

    pub fn run(&self, flags: u32) -> Reply {
        self.begin(flags);
        self.reply()
    }

    pub fn run_with(&self, request: Request) -> Reply {
        self.send(&Request {
            kind: RUN,
            ..request
        });
        self.reply()
    }

    /// Processes that run the program, besides the server.
    pub fn others(&self) -> Vec<u32> {
        processes_of(&self.program)
            .into_iter()
            .filter(|process| *process != self.server.id())
            .collect()
    }

    /// Closes the socket; returns the server for its end.
    pub fn leave(self) -> (Child, PathBuf) {
        (self.server, self.program)
    }
}

/// Processes whose program is this one. The dead have none.
pub fn processes_of(program: &Path) -> Vec<u32> {
    let program = program.canonicalize().expect("it is there");
    fs::read_dir("/proc")
        .expect("the list of processes")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process: &u32| {
            fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|path| path == program)
        })
        .collect()
}

pub fn status(reply: &Reply) -> ExitStatus {
    ExitStatus::from_raw(reply.status)
}

pub fn code(reply: &Reply) -> i32 {
    let status = status(reply);
    status
        .code()
        .unwrap_or_else(|| panic!("{status}, {reply:?}"))
}

/// A file of marks for one pool.
pub struct Marks {
    pub path: PathBuf,
}

impl Marks {
    /// Makes the file beside the pool, of which so many bytes can be marked.
    pub fn make(pool: &Path, length: usize) -> Marks {
        let status = fs::metadata(pool).expect("the pool is there");
        let stored = READS_HEADER_BYTES + length.div_ceil(64);
        let mut bytes = vec![0; stored + length.div_ceil(64)];
        bytes[..8].copy_from_slice(&READS_MAGIC);
        let mut half =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        half(offset_of!(ReadsHeader, version), VERSION);
        half(offset_of!(ReadsHeader, file_count), READS_FILES as u32);
        // Any entry of the list will do.
        let entry = offset_of!(ReadsHeader, files) + 5 * size_of::<ReadsFile>();
        let fields = [
            (offset_of!(ReadsFile, device), status.dev()),
            (offset_of!(ReadsFile, inode), status.ino()),
            (offset_of!(ReadsFile, offset), READS_HEADER_BYTES as u64),
            (offset_of!(ReadsFile, stored), stored as u64),
            (offset_of!(ReadsFile, length), length as u64),
        ];
        for (at, value) in fields {
            bytes[entry + at..entry + at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let path = pool.with_file_name("marks");
        fs::write(&path, bytes).expect("the marks can be written");
        Marks { path }
    }

    /// The words that are marked.
    pub fn words(&self) -> Vec<usize> {
        let bytes = fs::read(&self.path).expect("the marks can be read");
        // As many more say what was stored.
        let marks = &bytes[READS_HEADER_BYTES..];
        let marks = &marks[..marks.len() / 2];
        (0..marks.len() * 8)
            .filter(|word| marks[word / 8] >> (word % 8) & 1 == 1)
            .collect()
    }
}
