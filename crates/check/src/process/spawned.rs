//! A target that cannot be served (a checker that is linked statically): started anew for each run.
//!
//! It runs in a process group of its own, which is killed when the run is over. What leaves the
//! group on purpose is not found: the fork server is the one that leaves nothing behind.

use crate::process::addresses::Fixed;
use crate::process::launch::Command;
use crate::process::run::{FinishedRun, Limits, RunEnd, drain};
use crate::process::server::ServerError;
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Spawned {
    command: Command,
    environment: Vec<(&'static str, OsString)>,
}

/// How often somebody looks whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

impl Spawned {
    pub fn new(command: Command, environment: Vec<(&'static str, OsString)>) -> Spawned {
        Spawned {
            command,
            environment,
        }
    }

    pub fn run(&mut self, limits: &Limits) -> Result<FinishedRun, ServerError> {
        let mut command = self.command.to_std();
        let fixed = Fixed::here();
        let began = Instant::now();
        let started = command
            .envs(self.environment.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        drop(fixed);
        let mut child = started.map_err(|source| ServerError::Start {
            program: self.command.program(),
            source,
        })?;
        let group = Pid::from_child(&child);
        let ended = wait(&mut child, limits, began);
        // Whoever is left of the group; mostly nobody.
        let left = rustix::process::kill_process_group(group, Signal::KILL).is_ok();
        let _ = child.wait();
        ended.map(|ended| FinishedRun {
            left_processes: left && matches!(ended.end, RunEnd::Exited(_)),
            ..ended
        })
    }
}

fn wait(child: &mut Child, limits: &Limits, began: Instant) -> Result<FinishedRun, ServerError> {
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    rustix::io::ioctl_fionbio(&stdout, true)?;
    rustix::io::ioctl_fionbio(&stderr, true)?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let end = loop {
        let status = child.try_wait()?;
        let overflow = drain(&mut stdout, &mut out, limits.output_bytes)?
            | drain(&mut stderr, &mut err, limits.output_bytes)?;
        match status {
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => break RunEnd::Exited(code),
                (None, signal) => {
                    let signal = signal.unwrap_or(0);
                    break RunEnd::Killed { signal };
                }
            },
            None if overflow => break RunEnd::TooMuchOutput,
            None if began.elapsed() > limits.time => break RunEnd::TimedOut,
            None => std::thread::sleep(POLL_INTERVAL),
        }
    };
    let mut ended = FinishedRun::new(end, out, err);
    // The processor is not asked for: whoever is started anew each time is bound by the clock.
    ended.time.wall = began.elapsed();
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limits: &Limits) -> FinishedRun {
        let command = Command {
            words: vec!["sh".into(), "-c".into(), script.into()],
            directory: "".into(),
        };
        let mut spawned = Spawned::new(command, vec![("GREETING", "hello".into())]);
        spawned.run(limits).unwrap()
    }

    #[test]
    fn a_run_is_told_by_its_status_and_its_output() {
        let ended = run("echo $GREETING; echo oops >&2; exit 3", &Limits::default());
        assert_eq!(ended.end, RunEnd::Exited(3));
        assert_eq!(ended.stdout, b"hello\n");
        assert_eq!(ended.stderr, b"oops\n");
        let ended = run("kill -SEGV $$", &Limits::default());
        assert_eq!(ended.end, RunEnd::Killed { signal: 11 });
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let limits = Limits {
            time: Duration::from_millis(50),
            output_bytes: 1000,
            ..Limits::default()
        };
        assert_eq!(run("while :; do :; done", &limits).end, RunEnd::TimedOut);
        let patient = Limits {
            time: Duration::from_secs(20),
            ..limits
        };
        let ended = run("while :; do echo again; done", &patient);
        assert_eq!(ended.end, RunEnd::TooMuchOutput);
    }
}
