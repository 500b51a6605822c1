//! What crashes leave of a small program, step by step, under many timings.
//!
//! A program of a few steps runs once for each [`Circumstance`]: other syncs after it, between its
//! steps, commits that come by themselves, data that is slow to arrive. Anybody may sync at any
//! time, so whatever a crash then leaves, a model must allow. The images of all runs are looked at
//! in turn, the likely ones of each first, until time or number is up.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::Slow;
use crate::disk::Disk;
use crate::errors::{LabError, Says as _};
use crate::file_system::{Access, FileSystem};
use crate::images::{Choice, Image, ImageKind, images};
use crate::recording::Recording;
use crate::rig::{Circumstances, Look, Rig, Run};

/// A small program, of which every step is one call.
pub trait Program {
    /// What is durable before the first step.
    fn prepare(&self, folder: &Path) -> io::Result<()>;

    /// Does all steps, each followed by a call of `done`.
    fn run(&self, folder: &Path, done: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;

    /// A folder in words: equal if and only if nobody could tell the difference.
    fn describe(&self, folder: &Path) -> io::Result<String>;
}

/// What happens besides the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Circumstance {
    /// The file system is unmounted after the last step.
    Unmount,
    /// A file elsewhere is synced after the last step.
    Unrelated,
    /// The same after every step.
    Between,
    /// Folders of the program are synced after the last step.
    Folders,
    /// The file system is synced after every step.
    FileSystem,
    /// The file system commits by itself.
    Commit,
    /// As `Between`, with data that is slow to arrive.
    SlowBetween,
    /// As `Folders`, with slow data.
    SlowFolders,
    /// As `FileSystem`, with slow data.
    SlowFileSystem,
    /// As `Commit`, with slow data.
    SlowCommit,
}

use Circumstance::{
    Between, Commit, Folders, SlowBetween, SlowCommit, SlowFileSystem, SlowFolders, Unmount,
    Unrelated,
};

/// Images looked at, however late it is.
const LEAST: usize = 40;
/// Data arrives when commits have overtaken it.
const DELAY: Duration = Duration::from_millis(80);
/// File systems commit every second if told to: this is enough for one.
const COMMIT: Duration = Duration::from_millis(1300);

impl Circumstance {
    /// The first one tells what data is.
    pub const ALL: [Circumstance; 10] = [
        Unmount,
        Between,
        SlowBetween,
        Unrelated,
        Folders,
        SlowFolders,
        Circumstance::FileSystem,
        SlowFileSystem,
        Commit,
        SlowCommit,
    ];

    pub fn text(self) -> &'static str {
        match self {
            Unmount => "unmounted",
            Unrelated => "another file synced",
            Between => "another file synced after every step",
            Folders => "folders synced",
            Circumstance::FileSystem => "file system synced after every step",
            Commit => "left alone for a commit",
            SlowBetween => "another file synced after every step, slow data",
            SlowFolders => "folders synced, slow data",
            SlowFileSystem => "file system synced after every step, slow data",
            SlowCommit => "left alone for a commit, slow data",
        }
    }

    fn applies_to(self, file_system: FileSystem) -> bool {
        match self {
            Commit | SlowCommit => file_system.quick_commits().is_some(),
            Unmount
            | Unrelated
            | Between
            | Folders
            | Circumstance::FileSystem
            | SlowBetween
            | SlowFolders
            | SlowFileSystem => true,
        }
    }

    fn delay(self) -> Option<Duration> {
        match self {
            SlowBetween | SlowFolders | SlowFileSystem => Some(DELAY),
            SlowCommit => Some(COMMIT),
            Unmount | Unrelated | Between | Folders | Circumstance::FileSystem | Commit => None,
        }
    }

    fn between(self, run: &Run<'_>) -> io::Result<()> {
        match self {
            Between | SlowBetween => run.sync_unrelated(),
            Circumstance::FileSystem | SlowFileSystem => run.sync_file_system(),
            Unmount | Unrelated | Folders | Commit | SlowFolders | SlowCommit => Ok(()),
        }
    }

    fn after(self, run: &Run<'_>) -> io::Result<()> {
        match self {
            Unmount | Between | SlowBetween | Circumstance::FileSystem | SlowFileSystem => Ok(()),
            Unrelated => run.sync_unrelated(),
            Folders | SlowFolders => run.sync_folders(),
            Commit | SlowCommit => {
                thread::sleep(COMMIT);
                Ok(())
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub time: Duration,
    /// Images mounted.
    pub images: usize,
    pub choice: Choice,
}

/// A state that was seen, and the likeliest way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub circumstance: Circumstance,
    pub kind: ImageKind,
    pub images: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// By steps that had returned, and what the folder then was.
    pub states: BTreeMap<(u32, String), Sighting>,
    pub looked_at: LookedAt,
}

/// How much was looked at.
#[derive(Clone, Debug, Default)]
pub struct LookedAt {
    pub recordings: usize,
    /// Images mounted.
    pub images: usize,
    /// Images that could not be mounted or read, with the first reason.
    pub broken: usize,
    pub reason: Option<String>,
    /// Whether all images were looked at.
    pub complete: bool,
}

/// Why a program could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The file system may not know the call.
    #[error("the program itself fails: {0}")]
    Program(io::Error),
    #[error(transparent)]
    Lab(#[from] LabError),
}

pub fn observe(
    rig: &Rig<'_>,
    program: &dyn Program,
    effort: &Effort,
) -> Result<Observed, ObserveError> {
    let begin = Instant::now();
    let base = prepare(rig, program)?;
    let mut recordings = Vec::new();
    let mut data = HashSet::new();
    for circumstance in Circumstance::ALL {
        // Half of the time is for looking; a first recording there always is.
        let late = begin.elapsed() > effort.time / 2 && !recordings.is_empty();
        if late || !circumstance.applies_to(rig.file_system()) {
            continue;
        }
        let recording = record(rig, &base, program, circumstance, &data)?;
        if recordings.is_empty() {
            data = rig.data_blocks()?;
        }
        recordings.push((circumstance, recording));
    }
    let mut observed = Observed::default();
    observed.looked_at.recordings = recordings.len();
    let end = begin + effort.time;
    look_at_all(rig, program, &recordings, effort, end, &mut observed)?;
    Ok(observed)
}

fn prepare(rig: &Rig<'_>, program: &dyn Program) -> Result<Disk, ObserveError> {
    let mut failed = None;
    let base = rig.prepare(|folder| {
        failed = program.prepare(folder).err();
        Ok(())
    })?;
    match failed {
        Some(error) => Err(ObserveError::Program(error)),
        None => Ok(base),
    }
}

fn record(
    rig: &Rig<'_>,
    base: &Disk,
    program: &dyn Program,
    circumstance: Circumstance,
    data: &HashSet<u64>,
) -> Result<Recording, ObserveError> {
    let circumstances = Circumstances {
        slow: circumstance.delay().map(|delay| Slow {
            delay,
            blocks: data.clone(),
        }),
        quick_commits: matches!(circumstance, Commit | SlowCommit),
    };
    let recorded = rig.record(base, &circumstances, |run| {
        let mut steps = 0;
        let ran = program.run(run.folder, &mut || {
            steps += 1;
            run.mark(steps);
            circumstance.between(run)
        });
        if let Err(error) = ran {
            return Ok(Err(error));
        }
        let after = circumstance.after(run);
        after.or_says(|| format!("have it {}", circumstance.text()))?;
        Ok(Ok(()))
    });
    let (recording, ran) = recorded?;
    ran.map_err(ObserveError::Program)?;
    Ok(recording)
}

fn look_at_all(
    rig: &Rig<'_>,
    program: &dyn Program,
    recordings: &[(Circumstance, Recording)],
    effort: &Effort,
    end: Instant,
    observed: &mut Observed,
) -> Result<(), LabError> {
    let mut queues: Vec<(Circumstance, Box<dyn Iterator<Item = Image> + '_>)> = Vec::new();
    for (circumstance, recording) in recordings {
        queues.push((*circumstance, Box::new(images(recording, effort.choice))));
    }
    let mut known: HashMap<u64, Option<String>> = HashMap::new();
    while !queues.is_empty() {
        let mut next = Vec::new();
        for (circumstance, mut queue) in queues {
            let late = Instant::now() >= end && observed.looked_at.images >= LEAST;
            if late || observed.looked_at.images >= effort.images {
                return Ok(());
            }
            let Some(image) = queue.next() else { continue };
            let hash = image.disk.hash();
            if let std::collections::hash_map::Entry::Vacant(vacant) = known.entry(hash) {
                observed.looked_at.images += 1;
                let state = match describe(rig, program, &image.disk)? {
                    Ok(state) => Some(state),
                    Err(reason) => {
                        observed.looked_at.broken += 1;
                        observed.looked_at.reason.get_or_insert(reason);
                        None
                    }
                };
                vacant.insert(state);
            }
            if let Some(Some(state)) = known.get(&hash) {
                observed.note(circumstance, &image, state);
            }
            next.push((circumstance, queue));
        }
        queues = next;
    }
    observed.looked_at.complete = true;
    Ok(())
}

fn describe(
    rig: &Rig<'_>,
    program: &dyn Program,
    image: &Disk,
) -> Result<Result<String, String>, LabError> {
    let look = rig.look(image, Access::Read, |folder| program.describe(folder))?;
    Ok(match look {
        Look::Mounted(Ok(state)) => Ok(state),
        Look::Mounted(Err(error)) => Err(format!("an image cannot be read: {error}")),
        Look::Unmountable(error) => Err(format!("an image cannot be mounted: {error}")),
    })
}

impl Observed {
    fn note(&mut self, circumstance: Circumstance, image: &Image, state: &str) {
        let sighting = Sighting {
            circumstance,
            kind: image.kind,
            images: 0,
        };
        let key = (image.passed, state.to_owned());
        let known = self.states.entry(key).or_insert(sighting);
        known.images += 1;
        if image.kind < known.kind {
            known.kind = image.kind;
            known.circumstance = circumstance;
        }
    }
}
