//! What a finding about memory is replayed from: the crashed pool, the operations that follow, and
//! how the target is started.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crashpoint_abi::env;
use crashpoint_check::engine::crash_points::Phase;
use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::engine::minimise::{Cause, CrashState};
use crashpoint_check::memory::image::{FileShape, Image, Patch};
use crashpoint_check::memory::judge::{Oracle, References};
use crashpoint_check::memory::plan::{Recovery, TestPlan};
use crashpoint_check::memory::pool::{Pool, moved};
use crashpoint_check::memory::worker::{self, Manner, RecordedMapping, Setup, Suffix, Worker};
use crashpoint_check::process::launch::{Launch, Paths};
use crashpoint_check::process::output::Ignored;
use crashpoint_check::process::output::first_difference;
use crashpoint_check::process::run::{FinishedRun, Limits};
use crashpoint_trace::FileIndex;
use serde::{Deserialize, Serialize};

use super::{
    CrashDescription, ReplayError, StoredCommand, placeholders, read_file, write_description,
};

/// The file that says where the pool has to be mapped, for the runtime.
const PLACEMENT: &str = "placement";

/// A crash that can be had again.
pub struct MemoryReplay {
    description: MemoryDescription,
    image: Image,
    operations: String,
    printed: Vec<u8>,
    /// What the target printed when the finding was made.
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryDescription {
    pub command: StoredCommand,
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

impl MemoryReplay {
    pub fn new(
        plan: &TestPlan<'_>,
        cause: &Cause,
        image: Image,
        references: Option<&References>,
        ended: &FinishedRun,
    ) -> MemoryReplay {
        let setup = &plan.setup;
        let command = setup.command.fill(&placeholders("{pool}"));
        let acknowledged = matches!(cause.state.phase, Phase::Returned(_));
        let id = cause.state.phase.suffix();
        let text = plan.suffixes.get(id);
        let list = text.suffix(id, acknowledged);
        MemoryReplay {
            description: MemoryDescription {
                command: StoredCommand::of(&command),
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

    /// Writes the folder of a finding anew.
    pub fn write(self, folder: &Path) -> io::Result<()> {
        let shapes = self.description.files.clone();
        let recorded_pool = self.description.recorded_pool.clone();
        write_description(folder, CrashDescription::Memory(Box::new(self.description)))?;
        fs::write(folder.join("ops"), &self.operations)?;
        fs::write(folder.join("printed"), &self.printed)?;
        fs::write(folder.join("stdout"), &self.stdout)?;
        fs::write(folder.join("stderr"), &self.stderr)?;
        Pool::create(&shapes, &recorded_pool, &folder.join("pool"), self.image)?;
        Ok(())
    }
}

/// A finding that was read back.
pub struct StoredMemory {
    pub description: MemoryDescription,
    pub image: Image,
    pub operations: String,
    pub printed: Vec<u8>,
}

impl StoredMemory {
    pub(super) fn read(
        folder: &Path,
        mut description: MemoryDescription,
    ) -> Result<StoredMemory, ReplayError> {
        let mut image = Image::default();
        let pool = folder.join("pool");
        for (index, shape) in (0..).map(FileIndex).zip(&mut description.files) {
            shape.index = index;
            let file = moved(&description.recorded_pool, &shape.path, &pool);
            let path = file.unwrap_or(pool.clone());
            let read = image.read(index, &path);
            read.map_err(|source| ReplayError::Io { path, source })?;
        }
        Ok(StoredMemory {
            operations: String::from_utf8_lossy(&read_file(folder, "ops")?).into_owned(),
            printed: read_file(folder, "printed")?,
            description,
            image,
        })
    }

    fn setup(&self, preload: Option<OsString>) -> Setup {
        let description = &self.description;
        let command = description.command.clone();
        Setup {
            command: Launch::new(move |paths| command.fill(paths)),
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

    /// The crashed pool with all that the command needs.
    pub(super) fn lay_out(&self, folder: &Path) -> io::Result<Paths> {
        let description = &self.description;
        let paths = Paths {
            pool: folder.join("pool"),
            ops: folder.join("ops"),
            printed: folder.join("printed"),
        };
        let (shapes, recorded_pool) = (&description.files, &description.recorded_pool);
        Pool::create(shapes, recorded_pool, &paths.pool, self.image.clone())?;
        fs::write(&paths.ops, &self.operations)?;
        fs::write(&paths.printed, &self.printed)?;
        let placement = worker::placement(&description.mappings, recorded_pool, &paths.pool);
        fs::write(folder.join(PLACEMENT), placement)?;
        Ok(paths)
    }

    /// Recording, to nowhere that matters, is what places the pool where it was.
    pub(super) fn environment(
        &self,
        folder: &Path,
        paths: &Paths,
    ) -> Vec<(&'static str, OsString)> {
        let pool = paths.pool.to_string_lossy();
        let patterns = self.description.patterns.iter();
        let patterns: Vec<String> = patterns.map(|word| word.replace("{pool}", &pool)).collect();
        vec![
            (env::OUT, folder.join("recorded").into()),
            (env::PM, patterns.join(":").into()),
            (env::PLACEMENT, folder.join(PLACEMENT).into()),
        ]
    }

    pub(super) fn run(
        &self,
        scratch: &Path,
        preload: Option<OsString>,
    ) -> Result<FinishedRun, CheckError> {
        let setup = self.setup(preload);
        let mut worker = Worker::start(&setup, scratch, (0, 1), Manner::default())?;
        let list = Suffix {
            id: None,
            text: &self.operations,
            printed: &self.printed,
        };
        worker.run(&Patch::new(), &list, false)
    }

    pub(super) fn fails(&self, ended: &FinishedRun) -> bool {
        let description = &self.description;
        let references = description.references.as_ref();
        let observed = description.oracle.observe(ended, references);
        let observed = match description.recovery {
            Some(recovery) => recovery.observe(observed),
            None => observed,
        };
        observed.fails(description.phase)
    }

    pub(super) fn differences(&self, ended: &FinishedRun) -> Vec<String> {
        let Some(references) = &self.description.references else {
            return Vec::new();
        };
        let (done, skipped) = match references.operations {
            1 => ("if the operation happened", "if it did not happen"),
            _ => ("if all of them happened", "if none of them happened"),
        };
        let sides = [
            (done, &references.committed),
            (skipped, &references.rolled_back),
        ];
        let lines = sides.into_iter().filter_map(|(name, reference)| {
            let difference = first_difference(&reference.stdout, &ended.stdout);
            let (line, expected, found) = difference?;
            let operation = self.operations.lines().nth(line).unwrap_or("");
            let side = |side: Option<&[u8]>| {
                let side = side.map(|text| String::from_utf8_lossy(text).into_owned());
                side.unwrap_or("nothing".to_owned())
            };
            Some(format!(
                "line {} ({operation}): {} {name}, {} here",
                line + 1,
                side(expected),
                side(found)
            ))
        });
        lines.collect()
    }
}
