//! Runs a program to its end: passes signals on, keeps time, and knows how it ended.
//!
//! The program stays in our process group, so that a terminal treats both as one: it may read the
//! terminal, and an interrupt from the keyboard reaches it without us. Everything that it starts
//! stays below us in the tree of processes, even when its parent is gone (we are a *subreaper*), so
//! that a timeout finds all of it.

use std::collections::{HashMap, HashSet};
use std::io::{self, IsTerminal as _};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(u8),
    Killed {
        signal: i32,
    },
    /// We killed it.
    TimedOut(Duration),
}

/// What is known when the program is gone.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub end: End,
    /// Processes that it started and that still run.
    pub still_running: usize,
}

impl End {
    pub fn is_success(self) -> bool {
        self == End::Exited(0)
    }

    /// By the conventions of the shell and of timeout(1).
    pub fn code(self) -> u8 {
        match self {
            End::Exited(code) => code,
            End::Killed { signal } => 128u8.wrapping_add(signal as u8),
            End::TimedOut(_) => 124,
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Exited(0) => write!(to, "ended well"),
            End::Exited(code) => write!(to, "ended with exit status {code}"),
            End::Killed { signal } => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(to, "was killed by {name}"),
                None => write!(to, "was killed by signal {signal}"),
            },
            End::TimedOut(after) => {
                write!(to, "was killed after its time of {} s", after.as_secs_f64())
            }
        }
    }
}

/// Runs the command. `started` is called once it runs.
pub fn run(
    mut command: Command,
    timeout: Option<Duration>,
    started: impl FnOnce(),
) -> io::Result<Ended> {
    let signals = watch_signals()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let child = command.spawn()?;
    started();
    let main = Pid::from_child(&child);
    let deadline = timeout.map(|timeout| (timeout, Instant::now() + timeout));
    loop {
        if let Some(status) = reap(main)? {
            let end = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => End::Exited(code as u8),
                (None, Some(signal)) => End::Killed { signal },
                (None, None) => continue,
            };
            let still_running = descendants().len();
            return Ok(Ended { end, still_running });
        }
        match next_signal(&signals, deadline.map(|(_, at)| at)) {
            Some(SIGCHLD) => {}
            Some(signal) => forward(main, signal),
            None => {
                kill_all(&signals)?;
                let timeout = deadline.map_or(Duration::ZERO, |(timeout, _)| timeout);
                return Ok(Ended {
                    end: End::TimedOut(timeout),
                    still_running: 0,
                });
            }
        }
    }
}

/// Passes signals on to a program that somebody else waits for, until the receiver's sender is
/// replaced by the next program's. What is sent to us by the keyboard reaches it without us.
pub fn pass_signals_to(main: impl FnOnce() -> Option<i32> + Send + 'static) -> io::Result<()> {
    let signals = watch_signals()?;
    std::thread::spawn(move || {
        let Some(main) = main().and_then(Pid::from_raw) else {
            return;
        };
        while let Ok(signal) = signals.recv() {
            if signal != SIGCHLD {
                forward(main, signal);
            }
        }
    });
    Ok(())
}

/// No program runs any more: signals do what they would do without us.
pub fn stop_passing_signals() {
    *LISTENER.lock().expect("no panic while it is held") = None;
}

/// Where signals go while a program runs. Without one they do what they would do without us.
static LISTENER: Mutex<Option<Sender<i32>>> = Mutex::new(None);

/// Signals from here on, until the receiver is gone. The handlers stay: a process cannot have its
/// old ones back.
fn watch_signals() -> io::Result<Receiver<i32>> {
    static WATCHED: OnceLock<()> = OnceLock::new();
    let (to, from) = mpsc::channel();
    *LISTENER.lock().expect("no panic while it is held") = Some(to);
    if WATCHED.set(()).is_err() {
        return Ok(from);
    }
    let known = [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    let mut signals = Signals::new(known)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let mut listener = LISTENER.lock().expect("no panic while it is held");
            let heard = listener.as_ref().is_some_and(|to| to.send(signal).is_ok());
            if !heard {
                *listener = None;
                drop(listener);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
    Ok(from)
}

/// The next signal; `None` when the time is up.
fn next_signal(signals: &Receiver<i32>, deadline: Option<Instant>) -> Option<i32> {
    let lost = "the thread that waits for signals never ends";
    let Some(deadline) = deadline else {
        return Some(signals.recv().expect(lost));
    };
    match signals.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(signal) => Some(signal),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => panic!("{lost}"),
    }
}

/// Collects everything that has ended; returns how `main` did, if it is among it.
fn reap(main: Pid) -> io::Result<Option<WaitStatus>> {
    let mut ended = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main => ended = Some(status),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(ended),
            Err(rustix::io::Errno::CHILD) => return Ok(ended),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A terminal sends its own interrupts to the whole process group; others reach only us.
fn forward(main: Pid, signal: i32) {
    let from_keyboard = matches!(signal, SIGINT | SIGQUIT) && io::stdin().is_terminal();
    if !from_keyboard && let Some(signal) = Signal::from_named_raw(signal) {
        // It may be gone already, which the next wait tells.
        let _ = rustix::process::kill_process(main, signal);
    }
}

/// Kills everything below us, until nothing is left.
fn kill_all(signals: &Receiver<i32>) -> io::Result<()> {
    /// What is killed ends soon; this is how often we look for more.
    const AGAIN: Duration = Duration::from_millis(50);
    loop {
        let below = descendants();
        if below.is_empty() {
            return Ok(());
        }
        for pid in below {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let _ = signals.recv_timeout(AGAIN);
        reap(rustix::process::getpid())?;
    }
}

/// All living processes below this one.
fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        if let Some(parent) = living_parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = HashSet::new();
    let mut work = vec![std::process::id() as i32];
    while let Some(pid) = work.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            if found.insert(*child) {
                work.push(*child);
            }
        }
    }
    found.into_iter().filter_map(Pid::from_raw).collect()
}

/// The parent in a line of `/proc/<pid>/stat`, unless the process has ended. The name in it may
/// hold anything, parentheses too.
fn living_parent(stat: &str) -> Option<i32> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read_past_strange_names() {
        assert_eq!(living_parent("12 (a b) c) S 7 12 12 0"), Some(7));
        assert_eq!(living_parent("12 (x) Z 7 12"), None);
        assert_eq!(living_parent("garbage"), None);
    }

    #[test]
    fn endings_have_the_shells_codes() {
        assert_eq!(End::Exited(3).code(), 3);
        assert_eq!(End::Killed { signal: 9 }.code(), 137);
        assert_eq!(End::TimedOut(Duration::from_secs(1)).code(), 124);
        assert_eq!(
            End::Killed { signal: 11 }.to_string(),
            "was killed by SIGSEGV"
        );
    }
}
