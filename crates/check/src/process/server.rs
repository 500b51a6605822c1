//! A target that waits at the door of `main` and runs as often as it is asked to: the checker's
//! side of [`crashpoint_abi::serve`].
//!
//! Whatever the target does is an [`FinishedRun`]; errors are for targets that cannot be served at all.

use super::patience::Patience;
use super::run::{FinishedRun, Limits, RunEnd, RunTime, drain};
use crate::process::launch::Command;
use crate::process::wire;
use crashpoint_abi::serve::{CANCEL, RUN, Reply, Request, VERSION, ended};
use crashpoint_abi::{env, serve};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("could not start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error(
        "`{program}` has no Crashpoint runtime in it: build it with crashpoint-cc or \
         crashpoint-c++ ({what}){stderr}"
    )]
    NotServed {
        program: String,
        what: &'static str,
        stderr: String,
    },
    #[error(
        "the runtime in `{program}` is another version of Crashpoint's (it speaks version {found}, \
         this is {VERSION}): if crashpoint-cc built the program, build it again; if not, the \
         libcrashpoint_rt.so beside `crashpoint` is the old one"
    )]
    Version { program: String, found: u32 },
    #[error("lost the connection to `{program}`, which should run checks")]
    Lost { program: String },
    #[error("`{program}` could not be forked: {source}")]
    Fork { program: String, source: io::Error },
    #[error("running checks: {0}")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for ServerError {
    fn from(error: rustix::io::Errno) -> ServerError {
        ServerError::Io(error.into())
    }
}

/// A served target. It ends with this value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    socket: OwnedFd,
    stdout: ChildStdout,
    stderr: ChildStderr,
    program: String,
    /// Objects in it that were built by `crashpoint-cc`.
    pub modules: u32,
}

/// Where a server's files are.
#[derive(Clone, Debug)]
pub struct ServerSetup {
    pub socket: PathBuf,
    /// Environment for the runtime: patterns of persistent files and the like.
    pub environment: Vec<(&'static str, OsString)>,
}

/// The longest that a target may take to reach the runtime's constructor.
const MAX_START_TIME: Duration = Duration::from_secs(20);

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs() as i64,
        tv_nsec: duration.subsec_nanos().into(),
    }
}

impl Server {
    pub fn start(command: &Command, place: &ServerSetup) -> Result<Server, ServerError> {
        let listener = listen(&place.socket)?;
        let program = command.program();
        let mut std_command = command.to_std();
        std_command
            .env_remove(env::OUT)
            .env(env::SERVE, &place.socket)
            .envs(place.environment.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = std_command.spawn().map_err(|source| ServerError::Start {
            program: program.clone(),
            source,
        })?;
        let stdout = child.stdout.take().expect("piped");
        let stderr = child.stderr.take().expect("piped");
        let accepted = accept(&listener, &mut child, &program);
        let _ = std::fs::remove_file(&place.socket);
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) => return Err(give_up(error, child, stderr)),
        };
        for pipe in [stdout.as_fd(), stderr.as_fd()] {
            rustix::io::ioctl_fionbio(pipe, true)?;
            // Where the system grants less, what a run prints is fetched more often.
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
        }
        let mut server = Server {
            child,
            socket,
            stdout,
            stderr,
            program,
            modules: 0,
        };
        server.greet()?;
        Ok(server)
    }

    fn greet(&mut self) -> Result<(), ServerError> {
        let mut bytes = [0; wire::LARGEST];
        let length = self.receive(&mut bytes)?;
        let hello = wire::hello(&bytes[..length]).ok_or_else(|| self.lost())?;
        if hello.version != VERSION {
            return Err(ServerError::Version {
                program: self.program.clone(),
                found: hello.version,
            });
        }
        self.modules = hello.modules;
        Ok(())
    }

    fn lost(&self) -> ServerError {
        ServerError::Lost {
            program: self.program.clone(),
        }
    }

    fn receive(&self, bytes: &mut [u8]) -> Result<usize, ServerError> {
        loop {
            match rustix::net::recv(&self.socket, &mut *bytes, RecvFlags::empty()) {
                Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => return Err(self.lost()),
                Ok((length, _)) => return Ok(length),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn send(&self, request: &Request) -> Result<(), ServerError> {
        let bytes = wire::request(request);
        match rustix::net::send(&self.socket, &bytes, SendFlags::NOSIGNAL) {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => Err(self.lost()),
            Err(error) => Err(error.into()),
        }
    }

    /// One run, from the start of the target to the end of all it started.
    pub fn run(&mut self, flags: u32, limits: &Limits) -> Result<FinishedRun, ServerError> {
        let processor = limits.time.as_secs().saturating_mul(2).max(2);
        self.send(&Request {
            kind: RUN,
            flags,
            memory_bytes: limits.memory_bytes,
            file_bytes: limits.file_bytes,
            cpu_seconds: processor.try_into().unwrap_or(u32::MAX),
            processes: limits.processes,
        })?;
        let mut patience = Patience::new(limits.time);
        let mut outputs = Outputs::default();
        let mut cut = None;
        let reply = loop {
            let replied = self.wait(POLL_INTERVAL.min(limits.time))?;
            if replied {
                let mut bytes = [0; wire::LARGEST];
                let length = self.receive(&mut bytes)?;
                break wire::reply(&bytes[..length]).ok_or_else(|| self.lost())?;
            }
            outputs.take(&mut self.stdout, &mut self.stderr, limits.output_bytes)?;
            if cut.is_some() {
                if patience.began.elapsed() < MAX_START_TIME {
                    continue;
                } else {
                    return Err(self.lost());
                }
            }
            cut = if outputs.overflow {
                Some(RunEnd::TooMuchOutput)
            } else {
                patience
                    .is_over(self.child.id())
                    .then_some(RunEnd::TimedOut)
            };
            if cut.is_some() {
                patience = Patience::new(MAX_START_TIME);
                self.send(&Request {
                    kind: CANCEL,
                    ..Request::default()
                })?;
            }
        };
        outputs.take(&mut self.stdout, &mut self.stderr, limits.output_bytes)?;
        self.conclude(reply, cut, outputs)
    }

    fn conclude(
        &self,
        reply: Reply,
        cut: Option<RunEnd>,
        outputs: Outputs,
    ) -> Result<FinishedRun, ServerError> {
        if reply.ended & ended::NOT_STARTED != 0 {
            return Err(ServerError::Fork {
                program: self.program.clone(),
                source: io::Error::from_raw_os_error(reply.status),
            });
        }
        let signal = reply.status & 0x7f;
        let end = match (cut, signal) {
            (Some(reason), _) if reply.ended & ended::CANCELLED != 0 => reason,
            (_, 0) => RunEnd::Exited(reply.status >> 8 & 0xff),
            // The processor time is a second net for the same limit.
            (_, SIGXCPU) => RunEnd::TimedOut,
            (_, signal) => RunEnd::Killed { signal },
        };
        Ok(FinishedRun {
            end,
            stdout: outputs.stdout,
            stderr: outputs.stderr,
            notes: reply.notes,
            left_processes: reply.ended & ended::LEFTOVERS != 0,
            time: RunTime {
                wall: Duration::from_nanos(reply.wall_ns),
                processor: Duration::from_micros(reply.user_us + reply.system_us),
            },
        })
    }

    /// Waits for a message; false if none came in time. Not for output: a target that prints by the
    /// line would wake us for each.
    fn wait(&self, time: Duration) -> Result<bool, ServerError> {
        let mut all = [PollFd::new(&self.socket, PollFlags::IN)];
        match rustix::event::poll(&mut all, Some(&timespec(time))) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// How much a target can print before somebody has to look.
const PIPE_BYTES: usize = 1 << 20;
/// How often somebody looks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

const SIGXCPU: i32 = 24;

#[derive(Default)]
struct Outputs {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    overflow: bool,
}

impl Outputs {
    /// Takes what is there.
    fn take(
        &mut self,
        stdout: &mut ChildStdout,
        stderr: &mut ChildStderr,
        limit: usize,
    ) -> io::Result<()> {
        let first = drain(stdout, &mut self.stdout, limit)?;
        let second = drain(stderr, &mut self.stderr, limit)?;
        self.overflow |= first || second;
        Ok(())
    }
}

fn listen(path: &Path) -> Result<OwnedFd, ServerError> {
    let kind = SocketType::SEQPACKET;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 1)?;
    Ok(socket)
}

/// Waits for the target to connect, or to end without.
fn accept(listener: &OwnedFd, child: &mut Child, program: &str) -> Result<OwnedFd, ServerError> {
    const POLL_INTERVAL: Duration = Duration::from_millis(20);
    let not_served = |what| ServerError::NotServed {
        program: program.to_owned(),
        what,
        stderr: String::new(),
    };
    let deadline = Instant::now() + MAX_START_TIME;
    loop {
        let mut all = [PollFd::new(listener, PollFlags::IN)];
        if rustix::event::poll(&mut all, Some(&timespec(POLL_INTERVAL)))? > 0 {
            let socket = rustix::net::accept_with(listener.as_fd(), SocketFlags::CLOEXEC)?;
            let is_ours = sockopt::socket_peercred(&socket)
                .is_ok_and(|peer| peer.pid.as_raw_nonzero().get() == child.id() as i32);
            if is_ours {
                return Ok(socket);
            }
            return Err(not_served("another process answered in its place"));
        }
        if child.try_wait()?.is_some() {
            return Err(not_served(
                "it ran to its end instead of waiting for checks",
            ));
        }
        if Instant::now() > deadline {
            return Err(not_served("it does not answer"));
        }
    }
}

/// Ends a target that cannot be served and keeps what it said.
fn give_up(error: ServerError, mut child: Child, mut stderr: ChildStderr) -> ServerError {
    let _ = child.kill();
    let _ = child.wait();
    match error {
        ServerError::NotServed { program, what, .. } => {
            let mut said = String::new();
            let _ = rustix::io::ioctl_fionbio(&stderr, true);
            let _ = stderr.by_ref().take(4096).read_to_string(&mut said);
            let said = said.trim_end();
            ServerError::NotServed {
                program,
                what,
                stderr: if said.is_empty() {
                    String::new()
                } else {
                    format!(". It said:\n{said}")
                },
            }
        }
        other => other,
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server ends when its socket closes; should it not, it is killed.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_micros(200)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bits of a run that say that private mappings would not do.
pub const NEEDS_SHARED: u32 = serve::notes::MAPPED_AGAIN | serve::notes::FORKED;
