//! Can it happen here? Runs a workload on a real file system and looks for a loss in its crash
//! images.
//!
//! The folder that the workload uses is covered by the real file system, in a namespace of its own,
//! so that neither command nor paths change. The workload runs several times, each time under other
//! [`Timing`]s, since only what was under way when the power goes can be lost. A loss that is seen
//! is proved for this kernel; one that is not seen is not disproved.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::mount::UnmountFlags;

use crate::daemon::Slow;
use crate::disk::Disk;
use crate::errors::{LabError, Says as _};
use crate::file_system::{Access, FileSystem};
use crate::images::{Choice, ImageKind, images};
use crate::lab::Lab;
use crate::recording::Recording;
use crate::rig::{Circumstances, Look, Rig, Run};
use crate::workload::{self, WorkloadEnd};

/// How often something else is synced.
const PACE: Duration = Duration::from_millis(4);
/// How late data arrives: several commits can overtake it.
const DELAY: Duration = Duration::from_millis(120);

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub file_system: FileSystem,
    /// Of the disk, in bytes; at least what the file system needs.
    pub size: u64,
    /// The folder that the workload uses, and that the check looks at.
    pub folder: &'a Path,
    /// How long one run of the workload may take.
    pub limit: Duration,
    pub budget: Budget,
    pub choice: Choice,
}

/// When to stop. What was left out is told by [`Answer::complete`].
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Images mounted over all runs.
    pub images: usize,
    pub time: Duration,
    /// Losses seen: more are no news.
    pub seen: usize,
}

/// What the caller does, called in the thread and namespace of the lab.
pub trait Trial: Send {
    /// Puts into this empty folder what the workload finds in its own; all of it will be durable.
    /// The workload's own is seen as it is, and can be copied ([`copy_folder`]).
    fn fill(&mut self, empty: &Path) -> io::Result<()>;

    /// The workload, for one run of it. Its output is read from here.
    fn workload(&mut self, folder: &Path) -> Command;

    /// Whether a crashed folder shows the loss. It may be changed. No process may stay behind.
    fn check(&mut self, folder: &Path, crash: &Crash<'_>) -> Verdict;
}

/// One crash.
#[derive(Clone, Copy, Debug)]
pub struct Crash<'a> {
    /// What the workload had printed by then, at least.
    pub printed: &'a [u8],
    pub timing: Timing,
    pub kind: ImageKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With what shows it.
    Lost(String),
    Fine,
    /// The check itself could not be made.
    Unclear(String),
}

/// What went on while the workload ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Nothing else; all is written in the end.
    Alone,
    /// Something else is synced over and over, and takes along what the file system likes.
    Syncs,
    /// The same, also the folders of the workload, and the data of files is slow to arrive.
    SlowData,
}

impl Timing {
    pub const ALL: [Timing; 3] = [Timing::Alone, Timing::Syncs, Timing::SlowData];

    pub fn text(self) -> &'static str {
        match self {
            Timing::Alone => "nothing else going on",
            Timing::Syncs => "another file being synced",
            Timing::SlowData => "other files and folders being synced, and data slow to arrive",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub runs: Vec<RunAnswer>,
    /// The first losses seen.
    pub witnesses: Vec<Witness>,
    /// Whether all images were looked at; a budget may have ended it, or enough losses.
    pub complete: bool,
}

impl Answer {
    pub fn seen(&self) -> usize {
        self.runs.iter().map(|run| run.seen).sum()
    }

    pub fn looked_at(&self) -> usize {
        self.runs.iter().map(|run| run.images).sum()
    }
}

#[derive(Clone, Debug)]
pub struct RunAnswer {
    pub timing: Timing,
    pub ended: WorkloadEnd,
    pub writes: usize,
    pub flushes: usize,
    /// Different images that were mounted and checked.
    pub images: usize,
    pub seen: usize,
    /// Images that could not be mounted, or not be checked, with the first reason.
    pub unclear: usize,
    pub reason: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Witness {
    pub timing: Timing,
    pub kind: ImageKind,
    pub printed: usize,
    pub text: String,
}

/// Looks for a loss on a real file system.
pub fn confirm(question: &Question<'_>, trial: &mut dyn Trial) -> Result<Answer, LabError> {
    let lacks = Lab::lacks(&[question.file_system]);
    if !lacks.is_empty() {
        return Err(LabError::Needs(lacks));
    }
    Lab::run(|lab| {
        let rig = Rig::new(lab, question.file_system, question.size)?;
        let search = Search {
            question,
            rig: &rig,
            begin: Instant::now(),
        };
        search.run(trial)
    })
}

struct Search<'a> {
    question: &'a Question<'a>,
    rig: &'a Rig<'a>,
    begin: Instant,
}

impl Search<'_> {
    fn run(&self, trial: &mut dyn Trial) -> Result<Answer, LabError> {
        let folder = self.question.folder;
        let base = self.rig.prepare(|real| {
            let filled = trial.fill(real);
            filled.or_says(|| format!("fill {} on {}", folder.display(), self.name()))
        })?;
        let mut answer = Answer {
            complete: true,
            ..Answer::default()
        };
        let mut data = HashSet::new();
        for (number, timing) in Timing::ALL.into_iter().enumerate() {
            let circumstances = Circumstances {
                slow: (timing == Timing::SlowData).then(|| Slow {
                    delay: DELAY,
                    blocks: data.clone(),
                }),
                quick_commits: false,
            };
            let (recording, ended) = self.rig.record(&base, &circumstances, |run| {
                self.workload(trial, run, timing)
            })?;
            data.extend(self.rig.data_blocks()?);
            let runs = (Timing::ALL.len() - number) as u32;
            let spent = self.begin.elapsed();
            let budget = Budget {
                images: self.left(answer.looked_at()) / runs as usize,
                time: self.question.budget.time.saturating_sub(spent) / runs,
                seen: self.question.budget.seen.saturating_sub(answer.seen()),
            };
            self.search(&recording, timing, ended, budget, trial, &mut answer)?;
        }
        Ok(answer)
    }

    /// Images that may still be looked at.
    fn left(&self, looked_at: usize) -> usize {
        self.question.budget.images.saturating_sub(looked_at)
    }

    /// Looks at the images of one run.
    fn search(
        &self,
        recording: &Recording,
        timing: Timing,
        ended: WorkloadEnd,
        budget: Budget,
        trial: &mut dyn Trial,
        answer: &mut Answer,
    ) -> Result<(), LabError> {
        let mut run = RunAnswer {
            timing,
            ended,
            writes: recording.writes(),
            flushes: recording.flushes(),
            images: 0,
            seen: 0,
            unclear: 0,
            reason: None,
        };
        let end = Instant::now() + budget.time;
        for image in images(recording, self.question.choice) {
            if run.seen >= budget.seen || run.images >= budget.images || Instant::now() >= end {
                answer.complete = false;
                break;
            }
            let printed = run.ended.printed.get(..image.passed as usize);
            let printed = printed.unwrap_or(&run.ended.printed);
            let crash = Crash {
                printed,
                timing,
                kind: image.kind,
            };
            let verdict = self.look(&image.disk, trial, &crash)?;
            run.images += 1;
            match verdict {
                Verdict::Fine => {}
                Verdict::Unclear(reason) => {
                    run.unclear += 1;
                    run.reason.get_or_insert(reason);
                }
                Verdict::Lost(text) => {
                    run.seen += 1;
                    answer.witnesses.push(Witness {
                        timing,
                        kind: image.kind,
                        printed: printed.len(),
                        text,
                    });
                }
            }
        }
        answer.runs.push(run);
        Ok(())
    }

    fn name(&self) -> &'static str {
        self.rig.file_system().name()
    }

    fn workload(
        &self,
        trial: &mut dyn Trial,
        run: &Run<'_>,
        timing: Timing,
    ) -> Result<WorkloadEnd, LabError> {
        let folder = self.question.folder;
        let covered = cover(folder, run.folder)?;
        let command = trial.workload(folder);
        let (done, is_done) = mpsc::channel::<()>();
        let ended = thread::scope(|scope| {
            let syncs = scope.spawn(move || -> io::Result<()> {
                if timing == Timing::Alone {
                    return Ok(());
                }
                let sync = || {
                    run.sync_unrelated()?;
                    match timing {
                        Timing::Alone | Timing::Syncs => Ok(()),
                        Timing::SlowData => run.sync_folders(),
                    }
                };
                while is_done.recv_timeout(PACE) == Err(mpsc::RecvTimeoutError::Timeout) {
                    sync()?;
                }
                sync()
            });
            let ended = workload::run(command, self.question.limit, |bytes| run.mark(bytes));
            drop(done);
            let synced = syncs.join().expect("it only syncs");
            synced.and(ended)
        });
        let ended = ended.or_says(|| "run the workload".to_owned())?;
        covered.uncover()?;
        Ok(ended)
    }

    fn look(
        &self,
        image: &Disk,
        trial: &mut dyn Trial,
        crash: &Crash<'_>,
    ) -> Result<Verdict, LabError> {
        let folder = self.question.folder;
        let looked = self.rig.look(image, Access::Write, |real| {
            let covered = cover(folder, real)?;
            let verdict = trial.check(folder, crash);
            covered.uncover()?;
            Ok(verdict)
        })?;
        match looked {
            Look::Mounted(verdict) => verdict,
            Look::Unmountable(error) => Ok(Verdict::Unclear(format!(
                "the file system could not be mounted: {error}"
            ))),
        }
    }
}

/// Something else seen in place of a folder.
struct Covered<'a>(Option<&'a Path>);

fn cover<'a>(folder: &'a Path, by: &Path) -> Result<Covered<'a>, LabError> {
    let bound = rustix::mount::mount_bind(by, folder);
    bound.or_says(|| format!("cover {}", folder.display()))?;
    Ok(Covered(Some(folder)))
}

impl Covered<'_> {
    fn uncover(mut self) -> Result<(), LabError> {
        let folder = self.0.take().expect("it is covered until here");
        match rustix::mount::unmount(folder, UnmountFlags::empty()) {
            Ok(()) => Ok(()),
            // Lazily: whoever uses it keeps the file system itself busy, which is reported there.
            Err(_) => rustix::mount::unmount(folder, UnmountFlags::DETACH)
                .or_says(|| format!("uncover {}", folder.display())),
        }
    }
}

impl Drop for Covered<'_> {
    fn drop(&mut self) {
        if let Some(folder) = self.0 {
            let _ = rustix::mount::unmount(folder, UnmountFlags::DETACH);
        }
    }
}

/// Copies a folder with all that it holds: links, modes, attributes and holes.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    let output = Command::new("cp")
        .args(["-a", "--sparse=auto", "--"])
        .arg(from.join("."))
        .arg(to)
        .output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ))
    }
}
