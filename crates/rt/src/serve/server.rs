//! The conversation with the checker, and the wait for the child.

use super::system::{self, Disposition};
use super::{child, marks, objects, sweep};
use crate::config::Config;
use crate::lock;
use crate::process::fatal;
use crate::run::Lossy;
use crate::sys::{self, Errno};
use core::ffi::CStr;
use crashpoint_abi::env;
use crashpoint_abi::serve::{CANCEL, Hello, RUN, Reply, Request, VERSION, ended, flags};
use libc::c_int;

/// The kernel sends this when the parent of the server ends. Nobody else uses it.
const PARENT_ENDED: c_int = 64;

/// How long the processes of a run may take to die of SIGKILL before the server gives up.
const PATIENCE_NS: u64 = 30_000_000_000;

unsafe extern "C" {
    /// Another name of `fork`.
    fn __fork() -> libc::pid_t;
    static mut environ: *mut *mut libc::c_char;
}

pub struct Server {
    pub process: u32,
    pub socket: c_int,
    /// Readable when a signal is pending.
    pub signals: c_int,
    /// What the target is to find at SIGCHLD, if the server had to change it.
    pub child_signal: Option<Disposition>,
    /// The checker, if it is the parent.
    parent: Option<u32>,
    /// Whether the server has a session of its own, so that its children need none.
    pub has_session: bool,
    /// Where standard input is to be read from, if it can be wound back.
    input: Option<u64>,
}

/// What ends the wait for a child.
enum News {
    /// The child has ended.
    Over {
        has_left: bool,
    },
    Cancel,
    /// Nobody is there any more.
    Gone,
}

/// A run that is under way.
struct Run {
    child: u32,
    /// The child itself has ended.
    is_over: bool,
    reply: Reply,
}

/// Serves. Returns in children.
pub fn run(config: &Config) {
    // Signals wait for whoever asks, and children begin with the mask that the server found.
    let quiet = lock::Quiet::new();
    let server = Server::start(config);
    // Once, for all children: libc takes memory for it, and would do so in each.
    crate::threads::prepare();
    crate::fork::prepare();
    lock::lock().files.see_named(config);
    loop {
        match server.next() {
            None => sys::exit(0),
            Some(request) if request.kind == RUN => {
                if !server.run_once(&request) {
                    drop(quiet);
                    return;
                }
            }
            // The run had ended before this came.
            Some(request) if request.kind == CANCEL => {}
            Some(request) => fatal(format_args!(
                "the checker asked for something unknown ({}); is it of another version?",
                request.kind
            )),
        }
    }
}

impl Server {
    fn start(config: &Config) -> Server {
        let socket = system::connect(config.serve).unwrap_or_else(|error| {
            fatal(format_args!(
                "cannot reach the checker at {} ({}): {}",
                Lossy(config.serve),
                env::SERVE,
                describe(error)
            ))
        });
        // Programs that the target starts are no servers.
        for name in [env::SERVE, env::READS] {
            remove_variable(name);
        }
        marks::open(config);
        let child_signal = match system::disposition(libc::SIGCHLD, None) {
            // The kernel would collect the children, and their statuses.
            Ok(found) if found.handler == libc::SIG_IGN => {
                let _ = system::disposition(libc::SIGCHLD, Some(Disposition::default()));
                Some(found)
            }
            _ => None,
        };
        let watched = [
            libc::SIGCHLD,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            PARENT_ENDED,
        ];
        let set = watched.into_iter().map(system::bit).sum();
        let signals = system::signals(set)
            .unwrap_or_else(|_| fatal(format_args!("no descriptor for the fork server")));
        if system::control(libc::PR_SET_CHILD_SUBREAPER, 1).is_err() {
            fatal(format_args!("the kernel is too old for the fork server"));
        }
        let server = Server {
            process: sys::process_id(),
            socket,
            signals,
            child_signal,
            parent: watch_parent(socket),
            has_session: system::new_session() || system::leads_session(),
            input: sys::seek(0, 0, libc::SEEK_CUR).ok(),
        };
        let hello = Hello {
            version: VERSION,
            process: server.process,
            modules: objects::count(),
            reserved: 0,
        };
        if system::send(socket, &hello).is_err() {
            sys::exit(0);
        }
        server
    }

    /// The next request; `None` when it is time to end.
    fn next(&self) -> Option<Request> {
        loop {
            let [message, signal] = system::wait_readable([self.socket, self.signals], -1);
            if signal && self.is_time_to_end() {
                return None;
            }
            if message {
                return self.receive();
            }
        }
    }

    fn receive(&self) -> Option<Request> {
        match system::receive(self.socket) {
            Ok(request) => request,
            Err(error) => fatal(format_args!(
                "the checker cannot be understood: {}",
                describe(error)
            )),
        }
    }

    /// Looks at the signals that have come.
    fn is_time_to_end(&self) -> bool {
        let taken = system::take_signals(self.signals);
        let orders = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
        // The thread of the parent that started us may end before the parent does.
        let parent_ended = || self.parent.is_some_and(|id| system::parent_id() != id);
        orders
            .iter()
            .any(|&signal| taken & system::bit(signal) != 0)
            || (taken & system::bit(PARENT_ENDED) != 0 && parent_ended())
    }

    /// Runs the target once and answers. False in the child.
    fn run_once(&self, request: &Request) -> bool {
        if request.flags & flags::READS != 0 && !marks::are_open() {
            return self.answer_not_started(Errno(libc::EINVAL));
        }
        if let Some(input) = self.input {
            let _ = sys::seek(0, input, libc::SEEK_SET);
        }
        super::take_notes();
        let began = sys::clock(libc::CLOCK_MONOTONIC);
        // SAFETY: there is one thread; the child goes on from here as the parent would.
        let child = unsafe { __fork() };
        if child == 0 {
            child::begin(self, request);
            return false;
        }
        let Ok(child) = u32::try_from(child) else {
            // SAFETY: the thread's own error number.
            return self.answer_not_started(Errno(unsafe { *libc::__errno_location() }));
        };
        let mut run = Run {
            child,
            is_over: false,
            reply: Reply::default(),
        };
        let has_left = match self.wait(&mut run) {
            News::Over { has_left } => has_left,
            News::Cancel => {
                run.reply.ended |= ended::CANCELLED;
                true
            }
            News::Gone => {
                self.clean(&mut run);
                sys::exit(0);
            }
        };
        if has_left {
            self.clean(&mut run);
        }
        run.reply.wall_ns = sys::clock(libc::CLOCK_MONOTONIC) - began;
        run.reply.notes = super::take_notes();
        self.answer(&run.reply)
    }

    /// Waits until the child has ended, or there is a reason to end it.
    fn wait(&self, run: &mut Run) -> News {
        loop {
            let [message, signal] = system::wait_readable([self.socket, self.signals], -1);
            if signal {
                if self.is_time_to_end() {
                    return News::Gone;
                }
                let has_left = run.reap();
                if run.is_over {
                    return News::Over { has_left };
                }
            }
            if message {
                match self.receive() {
                    None => return News::Gone,
                    Some(request) if request.kind == CANCEL => return News::Cancel,
                    Some(_) => {
                        self.clean(run);
                        fatal(format_args!("the checker asked for two runs at a time"));
                    }
                }
            }
        }
    }

    /// Kills until there are no children.
    fn clean(&self, run: &mut Run) {
        if run.is_over {
            run.reply.ended |= ended::LEFTOVERS;
        }
        let deadline = sys::clock(libc::CLOCK_MONOTONIC) + PATIENCE_NS;
        while run.reap() {
            sweep::kill_all(self.process, run.child);
            // Wakes up when one has died, or to look again.
            const PAUSE_MS: c_int = 20;
            if let [true] = system::wait_readable([self.signals], PAUSE_MS) {
                system::take_signals(self.signals);
            }
            if sys::clock(libc::CLOCK_MONOTONIC) > deadline {
                fatal(format_args!(
                    "a process that the target has left cannot be killed"
                ));
            }
        }
    }

    fn answer_not_started(&self, error: Errno) -> bool {
        self.answer(&Reply {
            status: error.0,
            ended: ended::NOT_STARTED,
            ..Reply::default()
        })
    }

    fn answer(&self, reply: &Reply) -> bool {
        if system::send(self.socket, reply).is_err() {
            sys::exit(0);
        }
        true
    }
}

impl Run {
    /// Collects those who have ended. True if there are others.
    fn reap(&mut self) -> bool {
        loop {
            let ended = match system::reap() {
                Ok(Some(ended)) => ended,
                Ok(None) => return true,
                Err(Errno(libc::EINTR)) => continue,
                Err(_) => return false,
            };
            if ended.process == self.child {
                self.is_over = true;
                self.reply.status = ended.status;
            }
            self.reply.user_us += ended.user_us;
            self.reply.system_us += ended.system_us;
        }
    }
}

/// Asks to be told when the checker ends, if it is the parent. Otherwise the socket tells.
fn watch_parent(socket: c_int) -> Option<u32> {
    let parent = system::parent_id();
    if parent == 0 || system::peer(socket) != parent {
        return None;
    }
    let _ = system::control(libc::PR_SET_PDEATHSIG, PARENT_ENDED as usize);
    if system::parent_id() != parent {
        // It ended before the kernel was asked.
        sys::exit(0);
    }
    Some(parent)
}

/// What went wrong with the socket.
fn describe(error: Errno) -> &'static str {
    match error.0 {
        libc::ENOENT => "there is no such socket",
        libc::ECONNREFUSED => "nobody listens",
        libc::EACCES | libc::EPERM => "permission denied",
        libc::ENAMETOOLONG => "the path is too long for a socket",
        libc::EPROTOTYPE | libc::EPROTONOSUPPORT => "it is not a SOCK_SEQPACKET socket",
        libc::EPROTO => "a message has the wrong length",
        _ => "the connection failed",
    }
}

/// Takes a variable out of the environment that `main` is going to see.
///
/// Not by libc's `unsetenv`: a program may define a function of that name, as bash does, whose own
/// variables are not set up in a constructor; the call would change nothing, and each program that
/// the target starts would take itself for a server.
fn remove_variable(name: &str) {
    // SAFETY: in a constructor no other thread uses the environment, which is a list of terminated
    // strings that ends with a null pointer. Entries only move towards its beginning.
    unsafe {
        let mut from = environ;
        if from.is_null() {
            return;
        }
        let mut to = from;
        while !(*from).is_null() {
            let entry = CStr::from_ptr(*from).to_bytes();
            let value = entry.strip_prefix(name.as_bytes());
            if !value.is_some_and(|value| value.starts_with(b"=")) {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = core::ptr::null_mut();
    }
}
