//! What bounds a run of a target, and what came of it.

use std::io;
use std::time::Duration;

/// What bounds one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a processor. Also when it sleeps at the end of it, whatever it has used.
    pub time: Duration,
    pub memory_bytes: u64,
    pub file_bytes: u64,
    pub processes: u32,
    /// Of each of the two outputs.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            time: Duration::from_secs(5),
            memory_bytes: 0,
            file_bytes: 0,
            processes: 0,
            output_bytes: 16 << 20,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum RunEnd {
    Exited(i32),
    Killed {
        signal: i32,
    },
    /// It ran for longer than it may.
    TimedOut,
    /// It printed more than it may.
    TooMuchOutput,
}

/// How long a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    pub wall: Duration,
    /// Of all its processes.
    pub processor: Duration,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRun {
    pub end: RunEnd,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Bits of [`serve::notes`].
    pub notes: u32,
    pub left_processes: bool,
    pub time: RunTime,
}

impl FinishedRun {
    /// A run of which no more is known than how it ended and what it printed.
    pub fn new(end: RunEnd, stdout: Vec<u8>, stderr: Vec<u8>) -> FinishedRun {
        FinishedRun {
            end,
            stdout,
            stderr,
            notes: 0,
            left_processes: false,
            time: RunTime::default(),
        }
    }
}

impl std::fmt::Display for RunEnd {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunEnd::Exited(0) => write!(to, "ended well"),
            RunEnd::Exited(code) => write!(to, "ended with exit status {code}"),
            RunEnd::Killed { signal } => write!(to, "was killed by {}", signal_name(*signal)),
            RunEnd::TimedOut => write!(to, "did not end in time"),
            RunEnd::TooMuchOutput => write!(to, "printed without end"),
        }
    }
}

/// For people.
pub fn signal_name(signal: i32) -> String {
    let known = [
        (4, "SIGILL"),
        (6, "SIGABRT (abort)"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (25, "SIGXFSZ (a file grew too large)"),
        (31, "SIGSYS"),
    ];
    let name = known.iter().find(|(number, _)| *number == signal);
    name.map_or_else(
        || format!("signal {signal}"),
        |(_, name)| (*name).to_owned(),
    )
}

/// Reads until there is no more for now; true if that was more than the limit. What is beyond it
/// is thrown away.
pub(super) fn drain(from: &mut impl io::Read, to: &mut Vec<u8>, limit: usize) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    let mut total = to.len();
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(total > limit),
            Ok(count) => {
                total += count;
                let room = limit.saturating_sub(to.len());
                to.extend(&buffer[..count.min(room)]);
                // An endless writer must not keep us here.
                if total > limit.saturating_mul(2) {
                    return Ok(true);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(total > limit),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
