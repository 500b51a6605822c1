//! Exit codes. They are API: scripts rely on them, so a number never changes its meaning.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// What was asked is done, and nothing was found.
    Clean = 0,
    /// Wrong use or environment: a bad option, a missing file, a damaged recording.
    Usage = 1,
    /// Findings.
    Findings = 2,
    /// Nothing was found, and not all that was to be looked at was.
    Incomplete = 3,
    /// The workload fails without any crash.
    Workload = 4,
    /// A bug in Crashpoint.
    Internal = 70,
}

/// What `main` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Ours(Exit),
    /// `record --exit-status`: as the target ended, by the shell's conventions.
    Targets(u8),
}

impl From<Exit> for Ending {
    fn from(exit: Exit) -> Ending {
        Ending::Ours(exit)
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        match ending {
            Ending::Ours(exit) => ExitCode::from(exit as u8),
            Ending::Targets(code) => ExitCode::from(code),
        }
    }
}

/// The list of exit codes for `--help`.
pub const HELP: &str = "\
Exit codes:
   0  nothing found, or what was asked is done
   1  wrong use or environment
   2  findings
   3  nothing found, but the test is incomplete: the last line says what was not looked at
   4  the recorded program itself fails, without any crash
  70  internal error of Crashpoint";
