//! What the processes of a run are doing, as the kernel tells.
//!
//! A run that has used its processor time, or that sleeps when its time is over, hangs. One that
//! wants to run and does not get to, on a machine with more to do than processors, does not. Counted
//! is processor time and not instructions: the counters of the processor are out of reach in many
//! machines that are virtual, and what takes twenty times as long as it should takes that by either
//! measure.

use std::fs;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Of all processes, with those that have ended and were waited for.
    pub processor: Duration,
    /// No thread has anything to do.
    pub asleep: bool,
}

/// Of all that a process has started, and what that has started. `None`: it cannot be told.
pub fn below(process: u32) -> Option<Activity> {
    let mut all = Activity {
        processor: Duration::ZERO,
        asleep: true,
    };
    let mut waiting = children(process)?;
    while let Some(process) = waiting.pop() {
        // Whoever ends while we look has done something.
        let Some(used) = processor(process) else {
            all.asleep = false;
            continue;
        };
        all.processor += used;
        all.asleep &= is_asleep(process);
        waiting.extend(children(process).unwrap_or_default());
    }
    Some(all)
}

fn threads(process: u32) -> Option<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let number =
        |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Some(entries.filter_map(number).collect())
}

fn children(process: u32) -> Option<Vec<u32>> {
    let mut all = None;
    for thread in threads(process)? {
        let path = format!("/proc/{process}/task/{thread}/children");
        // A thread may end while we look; where none can be asked, the kernel does not tell.
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let numbers = text
            .split_whitespace()
            .filter_map(|one| one.parse::<u32>().ok());
        all.get_or_insert_with(Vec::new).extend(numbers);
    }
    all
}

/// The fields of a line of `stat` behind the name, which may hold anything: the first is the state.
fn fields(text: &str) -> Option<Vec<&str>> {
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().collect())
}

fn processor(process: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let ticks = ticks(&fields(&text)?)?;
    Some(TICK * u32::try_from(ticks).ok()?)
}

/// In which the kernel tells times to programs, whatever it counts in itself.
const TICK: Duration = Duration::from_millis(10);

/// User and system time, of the process and of its children.
fn ticks(fields: &[&str]) -> Option<u64> {
    const TIMES: std::ops::Range<usize> = 11..15;
    let times = fields.get(TIMES)?.iter();
    times.map(|field| field.parse::<u64>().ok()).sum()
}

fn is_asleep(process: u32) -> bool {
    let sleeps = |thread: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat"));
        let state = text
            .ok()
            .and_then(|text| Some(fields(&text)?.first()?.to_string()));
        // Interruptibly, stopped, or dead. One that waits for a disk will go on.
        state.is_some_and(|state| matches!(state.as_str(), "S" | "T" | "t" | "Z" | "X"))
    };
    threads(process).is_some_and(|threads| threads.iter().all(sleeps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_anything_in_it_does_not_shift_the_fields() {
        let line = "7 (a) S 1 2) R 1 2 3 4 5 6 7 8 9 10 100 20 3 4 15 16";
        let fields = fields(line).unwrap();
        assert_eq!(fields[0], "R");
        assert_eq!(ticks(&fields), Some(127));
        assert_eq!(ticks(&fields[..12]), None);
    }

    #[test]
    fn who_waits_is_asleep_and_who_computes_is_not() {
        use std::process::{Command, Stdio};
        for (script, asleep) in [("read line", true), ("while :; do :; done", false)] {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).stdin(Stdio::piped());
            let mut child = shell.spawn().expect("a shell");
            let id = child.id();
            let settled = std::iter::from_fn(|| Some(is_asleep(id))).take(1_000_000);
            let found = settled.into_iter().any(|found| found == asleep);
            let spent = processor(id);
            child.kill().expect("a child");
            child.wait().expect("a child");
            assert!(found, "{script}");
            assert!(spent.is_some());
        }
    }

    #[test]
    fn those_below_are_counted() {
        assert_eq!(below(u32::MAX), None);
        assert!(below(std::process::id()).is_some());
    }
}
