//! Whether a finding is seen on a real file system, on this kernel.
//!
//! The workload runs on the real file system, and the oracle judges crash images of its disk. An
//! image that fails shows a finding if it fails in the same words, numbers aside; without a checker,
//! if the same files are damaged in whatever way; and where there is only one finding, that one.
//! Images that show none of several are counted and told, since they may be what a model does not
//! know.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crashpoint_blockdev::{self as blockdev, FileSystem, Lab, LabError, Question, Trial, Verdict};
use crashpoint_check::files::oracle::is_acknowledged;
use crashpoint_check::files::{CheckSetup, FileMedium, FileOracle};
use crashpoint_check::process::launch::Paths;
use crashpoint_check::process::run::{FinishedRun, RunEnd};
use crashpoint_check::process::spawned::Spawned;
use crashpoint_explain::files::findings;
use crashpoint_report::{Confirmed, Finding};

use super::FilesError;
use super::workspace::Workspace;
use crate::target::WORKLOAD;

/// Images looked at in all, and for how long.
const IMAGES: usize = 1000;
const TIME: Duration = Duration::from_secs(120);
/// What a file system needs beside the files, several times over.
const ROOM: u64 = 4;

/// Before anything is run: can it be done here?
pub fn is_possible(file_system: FileSystem) -> Result<(), FilesError> {
    let lacks = Lab::lacks(&[file_system]);
    if lacks.is_empty() {
        Ok(())
    } else {
        Err(LabError::Needs(lacks).into())
    }
}

pub struct Confirmation<'c, 'a> {
    pub files: &'c FileMedium<'a>,
    pub workspace: &'c Workspace<'c>,
    pub setup: &'c CheckSetup,
    pub scratch: &'c Path,
}

/// What is known of one finding.
struct Sought {
    words: String,
    seen: u64,
    how: String,
}

struct Run<'c, 'a> {
    confirmation: &'c Confirmation<'c, 'a>,
    printed: PathBuf,
    sought: Vec<Sought>,
    /// Images that failed in words of no finding, with the first.
    others: u64,
    other: Option<String>,
}

impl Confirmation<'_, '_> {
    /// Says of each finding whether it was seen; returns what limits the trust in that.
    pub fn run(
        &self,
        file_system: FileSystem,
        findings: &mut [Finding],
    ) -> Result<Vec<String>, FilesError> {
        self.workspace.fresh()?;
        let sought = findings.iter().map(|finding| Sought {
            words: self.words(finding.crash.as_ref().map_or("", |crash| &crash.found)),
            seen: 0,
            how: String::new(),
        });
        let mut run = Run {
            confirmation: self,
            printed: self.scratch.join("confirm-printed"),
            sought: sought.collect(),
            others: 0,
            other: None,
        };
        let question = Question {
            file_system,
            size: self.bytes() * ROOM,
            folder: self.workspace.folder(),
            limit: WORKLOAD,
            budget: blockdev::Budget {
                images: IMAGES,
                time: TIME,
                seen: findings.len(),
            },
            choice: blockdev::Choice::default(),
        };
        let answer = blockdev::confirm(&question, &mut run)?;
        let kernel = blockdev::kernel_release();
        for (finding, sought) in findings.iter_mut().zip(&run.sought) {
            if let Some(crash) = &mut finding.crash {
                crash.confirmed = Some(Confirmed {
                    file_system: file_system.name().to_owned(),
                    kernel: kernel.clone(),
                    seen: sought.seen,
                    images: answer.looked_at() as u64,
                    how: sought.how.clone(),
                });
            }
        }
        let mut problems = Vec::new();
        let name = file_system.name();
        if let Some(other) = run.other {
            problems.push(format!(
                "on {name}, {} of {} crash images failed in words of no finding, first: {other}",
                run.others,
                answer.looked_at()
            ));
        }
        for one in &answer.runs {
            if let Some(reason) = &one.reason {
                problems.push(format!(
                    "on {name}, {} crash images could not be judged: {reason}",
                    one.unclear
                ));
            }
            if !one.ended.status.is_some_and(|status| status.success()) {
                problems.push(format!("on {name}, the workload did not end well"));
            }
        }
        problems.dedup();
        Ok(problems)
    }

    /// What a verdict is known by.
    fn words(&self, said: &str) -> String {
        match self.files.oracle {
            FileOracle::WholeFiles => damaged(said),
            FileOracle::Checker | FileOracle::Acknowledged => without_numbers(said),
        }
    }

    /// What is in the folder, and comes into it.
    fn bytes(&self) -> u64 {
        let before = self.files.before.inodes.iter();
        let before: u64 = before.map(|inode| inode.bytes.len() as u64).sum();
        let effects = self.files.calls.iter().flat_map(|call| &call.effects);
        let written = effects.map(|effect| effect.bytes_added());
        before + written.sum::<u64>()
    }
}

/// The files in `a is empty; b is absent`.
fn damaged(text: &str) -> String {
    let one = |part: &str| part.split_once(" is ").map(|(path, _)| path.to_owned());
    let paths: Vec<String> = text.split("; ").filter_map(one).collect();
    paths.join("; ")
}

/// Numbers differ from crash to crash.
fn without_numbers(text: &str) -> String {
    let mut words = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '#' } else { c };
        if c != '#' || !words.ends_with('#') {
            words.push(c);
        }
    }
    words
}

impl Run<'_, '_> {
    /// What the oracle says: in words, if it is not content.
    fn judge(&self, folder: &Path, printed: &[u8]) -> Result<Option<String>, String> {
        let files = self.confirmation.files;
        let Some(command) = &self.confirmation.setup.command else {
            let wrong = files
                .versions
                .judge_read(|path| std::fs::read(folder.join(path)).ok());
            return Ok((!wrong.is_empty()).then(|| wrong.join("; ")));
        };
        std::fs::write(&self.printed, printed).map_err(|error| error.to_string())?;
        let paths = Paths {
            pool: folder.to_owned(),
            ops: PathBuf::new(),
            printed: self.printed.clone(),
        };
        let limits = &self.confirmation.setup.limits;
        let ended = Spawned::new(command.fill(&paths), Vec::new()).run(limits);
        let ended: FinishedRun = ended.map_err(|error| error.to_string())?;
        let fine = ended.end == RunEnd::Exited(0)
            && match files.oracle {
                FileOracle::Checker | FileOracle::WholeFiles => true,
                FileOracle::Acknowledged => is_acknowledged(&files.printed, printed, &ended.stdout),
            };
        Ok((!fine).then(|| findings::verdict_of(files, printed, &ended)))
    }
}

impl Trial for Run<'_, '_> {
    fn fill(&mut self, empty: &Path) -> io::Result<()> {
        self.confirmation.workspace.copy_into(empty)
    }

    fn workload(&mut self, _: &Path) -> Command {
        let mut command = self.confirmation.workspace.to_std();
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn check(&mut self, folder: &Path, crash: &blockdev::Crash<'_>) -> Verdict {
        let said = match self.judge(folder, crash.printed) {
            Ok(None) => return Verdict::Fine,
            Ok(Some(said)) => said,
            Err(reason) => return Verdict::Unclear(reason),
        };
        let like = self.confirmation.words(&said);
        let only = self.sought.len() == 1;
        let mut sought = self.sought.iter_mut();
        let Some(sought) = sought.find(|sought| only || sought.words == like) else {
            self.others += 1;
            self.other.get_or_insert(said);
            return Verdict::Fine;
        };
        sought.seen += 1;
        if sought.seen > 1 {
            // No news; the others are still looked for.
            return Verdict::Fine;
        }
        let (timing, kind) = (crash.timing.text(), crash.kind.text());
        sought.how = format!("{said} (with {timing}; {kind})");
        Verdict::Lost(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_the_same_whatever_their_numbers() {
        let (one, other) = ("line 17 of 3 is gone", "line 4 of 120 is gone");
        assert_eq!(without_numbers(one), without_numbers(other));
        assert_eq!(damaged("a is empty; b is absent"), "a; b");
        assert_eq!(damaged("a is full of zeros"), damaged("a is empty"));
        assert_ne!(damaged("a is empty"), damaged("b is empty"));
    }
}
