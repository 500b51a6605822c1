//! Running a workload whose output is noted in the recording of the disk as it comes.
//!
//! What the workload had printed when the power went is evidence of what it had promised. A mark is
//! set when a line has been read, a moment after it was written: so an image is never said to
//! follow a line that was printed later, while it may be said to precede one printed just before.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// How a workload ended.
#[derive(Clone, Debug)]
pub struct WorkloadEnd {
    /// `None`: it was stopped because its time was up.
    pub status: Option<ExitStatus>,
    pub printed: Vec<u8>,
}

/// Runs a command in a process group of its own; `mark` hears how many bytes it has printed.
pub(crate) fn run(
    mut command: Command,
    limit: Duration,
    mark: impl Fn(u32) + Sync,
) -> io::Result<WorkloadEnd> {
    command.stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let mut stdout = child.stdout.take().expect("it was asked for");
    let group = Group::of(&child);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut printed = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(count) = stdout.read(&mut buffer) {
                if count == 0 {
                    break;
                }
                printed.extend_from_slice(&buffer[..count]);
                mark(u32::try_from(printed.len()).unwrap_or(u32::MAX));
            }
            printed
        });
        let (done, is_done) = mpsc::channel::<()>();
        let guard = scope.spawn(move || {
            let timed_out = is_done.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if timed_out {
                group.kill();
            }
            timed_out
        });
        let status = child.wait();
        drop(done);
        let timed_out = guard.join().expect("it only waits");
        // Whatever it left running would keep the file system in use.
        group.kill();
        let printed = reader.join().expect("it only reads");
        let status = status?;
        Ok(WorkloadEnd {
            status: (!timed_out).then_some(status),
            printed,
        })
    })
}

/// The processes of a workload.
#[derive(Clone, Copy)]
struct Group(Pid);

impl Group {
    fn of(child: &Child) -> Group {
        let number = child.id().cast_signed();
        Group(Pid::from_raw(number).expect("a process has a number"))
    }

    fn kill(self) {
        // There may be nobody left, which is as well.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_is_printed_is_marked_and_kept() {
        let marks = Mutex::new(Vec::new());
        let mark = |bytes| marks.lock().unwrap().push(bytes);
        let ended = run(shell("echo one; echo two"), Duration::from_secs(60), mark).unwrap();
        assert!(ended.status.is_some_and(|status| status.success()));
        assert_eq!(ended.printed, b"one\ntwo\n");
        assert_eq!(marks.lock().unwrap().last(), Some(&8));
    }

    #[test]
    fn a_workload_that_hangs_is_stopped_with_its_children() {
        let script = "echo begun; sleep 1000 & sleep 1000";
        let ended = run(shell(script), Duration::from_millis(200), |_| {}).unwrap();
        assert_eq!(ended.status, None);
        assert_eq!(ended.printed, b"begun\n");
    }
}
