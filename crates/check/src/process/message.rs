//! What a failed run says of itself: the line of its output that tells why it failed, and whether two
//! such lines say the same thing.
//!
//! Runtimes print the message of a failure and then more: where, a stack, a hint. The line with the
//! message is looked for by the form that each runtime gives it; of other programs it is the last
//! line. Two lines say the same thing if they are equal but for words with digits in them, and for
//! what stands in quotation marks: keys, numbers, addresses and offsets differ from crash to crash.

use super::run::{FinishedRun, RunEnd};
use serde::{Deserialize, Serialize};
use std::hash::{Hash as _, Hasher as _};

/// What a run says of its failure, as far as that is the same for failures of one kind: a hash of
/// the message without keys, numbers and addresses. Zero where nothing is said.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MessageKind(pub u64);

impl MessageKind {
    pub fn is_silent(&self) -> bool {
        self.0 == 0
    }

    /// Of a message.
    pub fn of(message: &str) -> MessageKind {
        let mut hasher = rustc_hash::FxHasher::default();
        for word in words(message) {
            word.hash(&mut hasher);
        }
        MessageKind(hasher.finish().max(1))
    }

    /// Of a program that failed. What it prints when it is killed or stopped is as much left to
    /// chance as where that happened, unless it ended itself with a message.
    pub fn of_program(ended: &FinishedRun) -> MessageKind {
        let said = match ended.end {
            RunEnd::Exited(_) => message(ended),
            RunEnd::Killed { .. } => failure_line(&String::from_utf8_lossy(&ended.stderr)),
            RunEnd::TimedOut | RunEnd::TooMuchOutput => None,
        };
        said.map_or(MessageKind::default(), |said| MessageKind::of(&said))
    }

    /// Of a checker that failed, which may have its say on either output.
    pub fn of_checker(ended: &FinishedRun) -> MessageKind {
        match (ended.end, checker_message(ended)) {
            (RunEnd::Exited(_), Some(said)) => MessageKind::of(&said),
            _ => MessageKind::of_program(ended),
        }
    }
}

/// The words of a message that stay the same from crash to crash.
fn words(message: &str) -> impl Iterator<Item = &str> {
    let quotes = ['"', '\'', '`'];
    let outside = message.split(quotes).step_by(2);
    let words = outside.flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| !word.is_empty() && !word.contains(|c: char| c.is_ascii_digit()))
}

/// The line that tells why a program failed: what its runtime says of the failure, else the last line
/// of its standard error.
pub fn message(ended: &FinishedRun) -> Option<String> {
    let stderr = String::from_utf8_lossy(&ended.stderr);
    failure_line(&stderr).or_else(|| last_line(&stderr))
}

/// The same of a checker, whose last line of standard output counts where it says nothing else.
pub fn checker_message(ended: &FinishedRun) -> Option<String> {
    let last_printed = || last_line(&String::from_utf8_lossy(&ended.stdout));
    message(ended).or_else(last_printed)
}

fn last_line(text: &str) -> Option<String> {
    let is_hint = |line: &str| line.starts_with("note: ") || line.starts_with("Node.js v");
    let mut lines = text.lines().rev().map(str::trim);
    lines
        .find(|line| !line.is_empty() && !is_hint(line))
        .map(str::to_owned)
}

/// The message of a failure as runtimes print it: a panic of Rust or Go, an exception of Python,
/// Node, Java or C++, an assertion of C.
fn failure_line(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let told = |line: &str| line.trim().to_owned();
    lines.iter().enumerate().find_map(|(index, line)| {
        let next = lines.get(index + 1);
        if line.starts_with("thread '") && line.contains("panicked at") {
            // Since Rust 1.73 the message stands on a line of its own.
            let has_line = line.ends_with(':');
            return Some(
                next.filter(|_| has_line)
                    .map_or(told(line), |next| told(next)),
            );
        }
        if line.starts_with("Traceback (most recent call last):") {
            let mut rest = lines[index + 1..].iter();
            return rest
                .find(|line| !line.is_empty() && !line.starts_with([' ', '\t']))
                .map(|line| told(line));
        }
        let is_exception = line.starts_with("Exception in thread ")
            || line.starts_with("panic: ")
            || line.starts_with("fatal error: ")
            || line.starts_with("terminate called after throwing")
            || (line.contains(": Assertion `") && line.contains("' failed"))
            || is_error_of_node(line, &lines[index + 1..]);
        is_exception.then(|| told(line))
    })
}

/// `Error: message`, `TypeError: message` or `AssertionError [CODE]: message`, with frames behind it.
fn is_error_of_node(line: &str, rest: &[&str]) -> bool {
    let Some((name, _)) = line.split_once(':') else {
        return false;
    };
    let name = name.strip_prefix("Uncaught ").unwrap_or(name);
    let name = name.split(' ').next().unwrap_or(name);
    let is_name = name.ends_with("Error") && name.chars().all(|c| c.is_ascii_alphanumeric());
    let has_frames = rest.iter().take(40).any(|line| line.starts_with("    at "));
    is_name && has_frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(stderr: &str, stdout: &str) -> FinishedRun {
        FinishedRun::new(RunEnd::Exited(1), stdout.into(), stderr.into())
    }

    #[test]
    fn the_message_of_a_failure_is_found_among_what_runtimes_print_around_it() {
        for (stderr, expected) in [
            (
                "thread 'main' panicked at src/main.rs:9:5:\nlost key 3\nnote: run with \
                 `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
                "lost key 3",
            ),
            (
                "thread 'main' panicked at 'lost key 3', src/main.rs:9:5\nnote: run with …\n",
                "thread 'main' panicked at 'lost key 3', src/main.rs:9:5",
            ),
            (
                "Traceback (most recent call last):\n  File \"check.py\", line 3, in <module>\n    \
                 assert ok, why\nAssertionError: lost key 3\n",
                "AssertionError: lost key 3",
            ),
            (
                "/app/check.js:3\n  throw new Error('lost key 3');\n  ^\n\nError: lost key 3\n    at \
                 Object.<anonymous> (/app/check.js:3:9)\n\nNode.js v20.20.2\n",
                "Error: lost key 3",
            ),
            (
                "panic: lost key 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/check.go:9\nexit \
                 status 2\n",
                "panic: lost key 3",
            ),
            (
                "Exception in thread \"main\" java.lang.IllegalStateException: lost key 3\n\tat \
                 Check.main(Check.java:5)\n",
                "Exception in thread \"main\" java.lang.IllegalStateException: lost key 3",
            ),
            (
                "check: check.c:9: main: Assertion `found == 3' failed.\nAborted\n",
                "check: check.c:9: main: Assertion `found == 3' failed.",
            ),
            ("reading\nlost key 3\n\n", "lost key 3"),
        ] {
            assert_eq!(message(&ended(stderr, "")).as_deref(), Some(expected));
        }
        let printed = ended("\n", "fine\nlost key 3\n");
        assert_eq!(message(&printed), None);
        assert_eq!(checker_message(&printed).as_deref(), Some("lost key 3"));
    }

    #[test]
    fn messages_are_alike_that_differ_in_keys_and_numbers_alone() {
        let alike = |one: &str, other: &str| MessageKind::of(one) == MessageKind::of(other);
        assert!(alike("lost k1", "lost k27"));
        assert!(alike(
            "damaged at 0x7f3a, 3 of 9",
            "damaged at 0x11, 27 of 88"
        ));
        assert!(alike("`alice` is gone", "`bob` is gone"));
        assert!(!alike("lost k1", "server died"));
        assert!(!alike("one link", "two names"));
        assert!(!MessageKind::of("").is_silent());
    }
}
