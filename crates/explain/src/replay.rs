//! What a finding is replayed from: its folder holds the crashed files, the operations that follow,
//! and how the target is started. Nothing else is needed, neither the recording nor the settings.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashpoint_check::engine::crash_points::{Phase, SuffixId};
use crashpoint_check::engine::minimise::{Cause, CrashState};
use crashpoint_check::memory::image::{FileShape, Image};
use crashpoint_check::memory::judge::{Oracle, References};
use crashpoint_check::memory::plan::{Recovery, TestPlan};
use crashpoint_check::memory::pool::{Pool, moved};
use crashpoint_check::memory::worker::{self, RecordedMapping, Setup};
use crashpoint_check::process::launch::{Command, Launch, Paths};
use crashpoint_check::process::output::Ignored;
use crashpoint_check::process::run::{FinishedRun, Limits};
use crashpoint_trace::FileIndex;
use serde::{Deserialize, Serialize};

/// Version of `replay.json`.
const VERSION: u32 = 2;

const DESCRIPTION: &str = "replay.json";

/// A crash that can be had again.
pub struct Replay {
    pub description: Description,
    pub image: Image,
    pub operations: String,
    pub printed: Vec<u8>,
    /// What the target printed when the finding was made.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    crashpoint_replay: u32,
    /// With `{pool}`, `{ops}` and `{printed}` where the paths go.
    pub command: Vec<String>,
    pub directory: PathBuf,
    wants_printed: bool,
    files: Vec<FileShape>,
    recorded_pool: PathBuf,
    pub patterns: Vec<String>,
    mappings: Vec<RecordedMapping>,
    seconds: f64,
    memory_bytes: u64,
    file_bytes: u64,
    output_bytes: usize,
    #[serde(default)]
    ignored: Ignored,
    pub oracle: Oracle,
    pub phase: Phase,
    pub state: CrashState,
    pub references: Option<References>,
    /// Power had failed before: what was possible then.
    #[serde(default)]
    pub recovery: Option<Recovery>,
}

fn placeholders() -> Paths {
    Paths {
        pool: "{pool}".into(),
        ops: "{ops}".into(),
        printed: "{printed}".into(),
    }
}

impl Replay {
    pub fn new(
        plan: &TestPlan<'_>,
        cause: &Cause,
        image: Image,
        list: SuffixId,
        references: Option<&References>,
        ended: &FinishedRun,
    ) -> Replay {
        let setup = &plan.setup;
        let command = setup.command.fill(&placeholders());
        let words = command
            .words
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        let directory = std::path::absolute(&command.directory);
        let here = || std::env::current_dir().unwrap_or_default();
        let acknowledged = matches!(cause.state.phase, Phase::Returned(_));
        let text = plan.suffixes.get(list);
        let list = text.suffix(list, acknowledged);
        Replay {
            description: Description {
                crashpoint_replay: VERSION,
                command: words.collect(),
                directory: directory.unwrap_or_else(|_| here()),
                wants_printed: setup.wants_printed,
                files: setup.shapes.clone(),
                recorded_pool: setup.recorded_pool.clone(),
                patterns: setup.patterns.clone(),
                mappings: setup.mappings.clone(),
                seconds: setup.limits.time.as_secs_f64(),
                memory_bytes: setup.limits.memory_bytes,
                file_bytes: setup.limits.file_bytes,
                output_bytes: setup.limits.output_bytes,
                ignored: setup.ignored.clone(),
                oracle: plan.oracle,
                phase: cause.state.phase,
                state: cause.state.clone(),
                references: references.cloned(),
                recovery: plan.recovery,
            },
            image,
            operations: list.text.to_owned(),
            printed: list.printed.to_vec(),
            stdout: ended.stdout.clone(),
            stderr: ended.stderr.clone(),
        }
    }
}

/// Writes the folder anew.
pub fn write(folder: &Path, replay: &Replay) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(folder)?,
    }
    let description = &replay.description;
    let json = serde_json::to_string_pretty(description)?;
    fs::write(folder.join(DESCRIPTION), json + "\n")?;
    fs::write(folder.join("ops"), &replay.operations)?;
    fs::write(folder.join("printed"), &replay.printed)?;
    fs::write(folder.join("stdout"), &replay.stdout)?;
    fs::write(folder.join("stderr"), &replay.stderr)?;
    let pool = folder.join("pool");
    let image = replay.image.clone();
    Pool::create(&description.files, &description.recorded_pool, &pool, image)?;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(
        "{} is not the folder of a finding: name one such as crashpoint.out/findings/1",
        folder.display()
    )]
    NotAFinding { folder: PathBuf },
    #[error("{}: {reason}; test again", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// A finding that was read back.
pub struct Stored {
    pub description: Description,
    pub image: Image,
    pub operations: String,
    pub printed: Vec<u8>,
}

pub fn read(folder: &Path) -> Result<Stored, ReplayError> {
    let path = folder.join(DESCRIPTION);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ReplayError::NotAFinding {
                folder: folder.to_owned(),
            });
        }
        Err(source) => return Err(ReplayError::Io { path, source }),
    };
    let mut description: Description = serde_json::from_str(&text).map_err(|cause| {
        let reason = cause.to_string();
        ReplayError::Damaged {
            path: path.clone(),
            reason,
        }
    })?;
    if description.crashpoint_replay != VERSION {
        let found = description.crashpoint_replay;
        let reason = format!("written as version {found}, this is {VERSION}");
        return Err(ReplayError::Damaged { path, reason });
    }
    let io_error = |path: PathBuf| |source| ReplayError::Io { path, source };
    let mut image = Image::default();
    let pool = folder.join("pool");
    for (index, shape) in (0..).map(FileIndex).zip(&mut description.files) {
        shape.index = index;
        let file = moved(&description.recorded_pool, &shape.path, &pool).unwrap_or(pool.clone());
        image.read(index, &file).map_err(io_error(file))?;
    }
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map_err(io_error(path))
    };
    Ok(Stored {
        operations: String::from_utf8_lossy(&read("ops")?).into_owned(),
        printed: read("printed")?,
        description,
        image,
    })
}

impl Stored {
    pub fn setup(&self, preload: Option<std::ffi::OsString>) -> Setup {
        let description = &self.description;
        let (words, directory) = (description.command.clone(), description.directory.clone());
        Setup {
            command: Launch::new(move |paths| command(&words, &directory, paths)),
            wants_printed: description.wants_printed,
            any_program: description.oracle == Oracle::Checker,
            shapes: description.files.clone(),
            recorded_pool: description.recorded_pool.clone(),
            patterns: description.patterns.clone(),
            mappings: description.mappings.clone(),
            preload,
            limits: Limits {
                time: Duration::from_secs_f64(description.seconds),
                memory_bytes: description.memory_bytes,
                file_bytes: description.file_bytes,
                processes: 0,
                output_bytes: description.output_bytes,
            },
            ignored: description.ignored.clone(),
            before: self.image.clone(),
        }
    }

    /// Puts the crashed files at a pool.
    pub fn materialise(&self, pool: &Path) -> io::Result<()> {
        let description = &self.description;
        let image = self.image.clone();
        Pool::create(&description.files, &description.recorded_pool, pool, image)?;
        Ok(())
    }

    /// Where the files have to be mapped, for the runtime.
    pub fn placement(&self, pool: &Path) -> String {
        let description = &self.description;
        worker::placement(&description.mappings, &description.recorded_pool, pool)
    }
}

pub fn command(words: &[String], directory: &Path, paths: &Paths) -> Command {
    let fill = |word: &String| {
        let holes = [
            ("{pool}", &paths.pool),
            ("{dir}", &paths.pool),
            ("{ops}", &paths.ops),
            ("{printed}", &paths.printed),
        ];
        let mut filled = word.clone();
        for (hole, path) in holes {
            filled = filled.replace(hole, &path.to_string_lossy());
        }
        filled.into()
    };
    Command {
        words: words.iter().map(fill).collect(),
        directory: directory.to_owned(),
    }
}
