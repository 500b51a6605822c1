//! A worker: one served target with files of its own, which runs one check at a time.

use crate::engine::crash_points::SuffixId;
use crate::engine::medium::CheckError;
use crate::memory::image::{FileShape, Image, Patch};
use crate::memory::pool::Pool;
use crate::memory::reads::Reads;
use crate::process::launch::{Launch, Paths};
use crate::process::output::Ignored;
use crate::process::pin::{self, Pinned};
use crate::process::run::{FinishedRun, Limits};
use crate::process::runner::Runner;
use crate::process::server::{NEEDS_SHARED, ServerError, ServerSetup};
use crashpoint_abi::env;
use crashpoint_abi::serve::flags;
use crashpoint_persist::memory::Node;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How targets are started, the same for all workers.
#[derive(Clone, Debug)]
pub struct Setup {
    pub command: Launch,
    /// It asks for what the program had printed.
    pub wants_printed: bool,
    /// It may be any program (a checker), with no runtime in it.
    pub any_program: bool,
    /// The persistent files, and where the recorded program had its pool.
    pub shapes: Vec<FileShape>,
    pub recorded_pool: PathBuf,
    /// Patterns of persistent files, with `{pool}`.
    pub patterns: Vec<String>,
    /// Where the recorded program had files mapped: path, offset, length, address.
    pub mappings: Vec<RecordedMapping>,
    /// For targets of which only a library is instrumented.
    pub preload: Option<OsString>,
    pub limits: Limits,
    /// Lines of its output that do not count.
    pub ignored: Ignored,
    /// What the files held before the recorded program ran.
    pub before: Image,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecordedMapping {
    pub path: PathBuf,
    pub address: u64,
    pub length: u64,
    pub offset: u64,
}

/// How a target runs best, found out with one worker for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Mappings are private, so that a run leaves the files as they are.
    pub private: bool,
    /// What the target allocates comes in huge pages. Each run has to touch its memory anew: a
    /// library that allocates tens of megabytes at its start spends most of a check in page faults.
    pub huge_pages: bool,
}

/// glibc's malloc, told to ask for huge pages and to take all memory from where they can be.
const HUGE_PAGES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.top_pad=67108864",
);

/// Runs that use less of a processor have nothing to gain from huge pages.
const WORTH_HUGE_PAGES: Duration = Duration::from_millis(3);

pub struct Worker<'s> {
    setup: &'s Setup,
    paths: Paths,
    folder: PathBuf,
    runner: Runner,
    pool: Pool,
    reads: Reads,
    suffix: Option<SuffixId>,
    manner: Manner,
    /// How often the server had to be started again.
    pub restarts: u32,
    /// What bounds a run.
    pub limits: Limits,
    processor: Option<usize>,
}

/// What one check needs to know of its operations.
#[derive(Clone, Copy, Debug)]
pub struct Suffix<'a> {
    /// None for one that is not of the plan.
    pub id: Option<SuffixId>,
    pub text: &'a str,
    /// What the program had printed when power failed.
    pub printed: &'a [u8],
}

impl<'s> Worker<'s> {
    /// Makes a folder of its own in `scratch` and starts the target there. It is the one with this
    /// number of so many.
    pub fn start(
        setup: &'s Setup,
        scratch: &Path,
        (number, workers): (usize, usize),
        manner: Manner,
    ) -> Result<Worker<'s>, CheckError> {
        let processor = pin::processor(number, workers);
        let folder = scratch.join(format!("w{number}"));
        let files = CheckError::in_folder(&folder);
        let paths = Paths::create(&folder, "pool").map_err(&files)?;
        let image = setup.before.clone();
        let pool = Pool::create(&setup.shapes, &setup.recorded_pool, &paths.pool, image);
        let pool = pool.map_err(&files)?;
        let reads = Reads::create(&folder.join("reads"), pool.files()).map_err(files)?;
        let huge_pages = manner.huge_pages;
        let runner = serve(setup, &folder, &paths, &reads, processor, huge_pages)?;
        Ok(Worker {
            setup,
            paths,
            folder,
            runner,
            pool,
            reads,
            suffix: None,
            manner,
            restarts: 0,
            limits: setup.limits,
            processor,
        })
    }

    /// Keeps the calling thread with the target while the value lives.
    pub fn stay(&self) -> Pinned {
        Pinned::to(self.processor)
    }

    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    pub fn image(&self) -> &Image {
        self.pool.image()
    }

    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Objects of the target that were built by `crashpoint-cc`.
    pub fn modules(&self) -> u32 {
        self.runner.modules()
    }

    fn files(&self) -> impl Fn(io::Error) -> CheckError + use<> {
        CheckError::in_folder(&self.folder)
    }

    /// These nodes have persisted.
    pub fn advance<'a>(&mut self, nodes: impl Iterator<Item = &'a Node>) -> Result<(), CheckError> {
        self.pool.advance(nodes).map_err(self.files())
    }

    /// Back to what the files held before the recorded program ran.
    pub fn rewind(&mut self) -> Result<(), CheckError> {
        let image = self.setup.before.clone();
        let (shapes, recorded) = (&self.setup.shapes, &self.setup.recorded_pool);
        self.pool =
            Pool::create(shapes, recorded, &self.paths.pool, image).map_err(self.files())?;
        Ok(())
    }

    /// Runs the target on the files with a patch on top. `mark`: what it reads is marked.
    pub fn run(
        &mut self,
        patch: &Patch,
        suffix: &Suffix<'_>,
        mark: bool,
    ) -> Result<FinishedRun, CheckError> {
        if suffix.id.is_none() || self.suffix != suffix.id {
            std::fs::write(&self.paths.ops, suffix.text).map_err(self.files())?;
            self.suffix = suffix.id;
        }
        if self.setup.wants_printed {
            std::fs::write(&self.paths.printed, suffix.printed).map_err(self.files())?;
        }
        self.pool.put(patch).map_err(self.files())?;
        if mark {
            self.reads.clear().map_err(self.files())?;
        }
        let mut flags = 0;
        if self.manner.private {
            flags |= flags::PRIVATE;
            self.pool.arm().map_err(self.files())?;
        }
        if mark {
            flags |= flags::READS;
        }
        let mut private = self.manner.private;
        let mut ended = self.run_stubbornly(flags);
        if private
            && ended
                .as_ref()
                .is_ok_and(|ended| ended.notes & NEEDS_SHARED != 0)
        {
            // This one does what the run that mappings were tried with did not.
            self.pool.restore().map_err(self.files())?;
            self.pool.put(patch).map_err(self.files())?;
            self.reads.clear().map_err(self.files())?;
            ended = self.run_stubbornly(flags & !flags::PRIVATE);
            private = false;
        }
        if private && !self.pool.was_written().map_err(self.files())? {
            self.pool.take_back(patch).map_err(self.files())?;
        } else {
            self.pool.restore().map_err(self.files())?;
        }
        ended.map(|ended| self.counted(ended))
    }

    /// Runs the target where there is no pool yet.
    pub fn run_without_pool(&mut self, suffix: &Suffix<'_>) -> Result<FinishedRun, CheckError> {
        std::fs::write(&self.paths.ops, suffix.text).map_err(self.files())?;
        self.suffix = suffix.id;
        let aside = self.folder.join("aside");
        self.move_pool_to(&aside).map_err(self.files())?;
        let ended = self.run_stubbornly(0);
        let made = self.folder.join("made");
        self.move_pool_to(&made).map_err(self.files())?;
        std::fs::remove_dir_all(&made).map_err(self.files())?;
        // The same files: what is read is noted by their numbers.
        for entry in std::fs::read_dir(&aside).map_err(self.files())? {
            let entry = entry.map_err(self.files())?;
            let back = self.folder.join(entry.file_name());
            std::fs::rename(entry.path(), back).map_err(self.files())?;
        }
        std::fs::remove_dir(&aside).map_err(self.files())?;
        ended.map(|ended| self.counted(ended))
    }

    /// The pool, and what lies beside it and is called like it with more behind.
    fn move_pool_to(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let pool = self.paths.pool.file_name().unwrap_or_default();
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            if name.as_encoded_bytes().starts_with(pool.as_encoded_bytes()) {
                std::fs::rename(self.folder.join(&name), folder.join(&name))?;
            }
        }
        Ok(())
    }

    /// With the lines of its output that count.
    fn counted(&self, ended: FinishedRun) -> FinishedRun {
        FinishedRun {
            stdout: self.setup.ignored.strip(ended.stdout),
            ..ended
        }
    }

    /// A target may take its server with it. That is no verdict: it gets another chance.
    fn run_stubbornly(&mut self, flags: u32) -> Result<FinishedRun, CheckError> {
        match self.runner.run(flags, &self.limits) {
            Err(ServerError::Lost { .. }) => {
                self.restarts += 1;
                self.serve_again()?;
                self.reads.clear().map_err(self.files())?;
                Ok(self.runner.run(flags, &self.limits)?)
            }
            other => Ok(other?),
        }
    }

    fn serve_again(&mut self) -> Result<(), CheckError> {
        let (setup, processor) = (self.setup, self.processor);
        let huge_pages = self.manner.huge_pages;
        let (folder, paths, reads) = (&self.folder, &self.paths, &self.reads);
        self.runner = serve(setup, folder, paths, reads, processor, huge_pages)?;
        Ok(())
    }

    /// Finds out, by a few runs as it stands, how the target runs best.
    pub fn calibrate(&mut self, suffix: &Suffix<'_>) -> Result<Manner, CheckError> {
        self.manner = Manner::default();
        let shared = self.run(&Patch::new(), suffix, false)?;
        if !matches!(self.runner, Runner::Served(_)) {
            return Ok(self.manner);
        }
        let same = |ended: &FinishedRun| ended.end == shared.end && ended.stdout == shared.stdout;
        self.manner.private = true;
        let private = self.run(&Patch::new(), suffix, false)?;
        self.manner.private = same(&private) && private.notes & NEEDS_SHARED == 0;
        let small = private.time.processor.min(shared.time.processor);
        if small >= WORTH_HUGE_PAGES && std::env::var_os(HUGE_PAGES.0).is_none() {
            self.manner.huge_pages = true;
            self.serve_again()?;
            let first = self.run(&Patch::new(), suffix, false)?;
            let second = self.run(&Patch::new(), suffix, false)?;
            let huge = first.time.processor.min(second.time.processor);
            if !same(&first) || !same(&second) || huge > small * 3 / 4 {
                self.manner.huge_pages = false;
                self.serve_again()?;
            }
        }
        Ok(self.manner)
    }
}

fn serve(
    setup: &Setup,
    folder: &Path,
    paths: &Paths,
    reads: &Reads,
    processor: Option<usize>,
    huge_pages: bool,
) -> Result<Runner, CheckError> {
    let wanted = placement(&setup.mappings, &setup.recorded_pool, &paths.pool);
    let placement = folder.join("placement");
    std::fs::write(&placement, wanted).map_err(CheckError::in_folder(folder))?;
    let pool = paths.pool.to_string_lossy();
    let patterns: Vec<String> = setup
        .patterns
        .iter()
        .map(|pattern| pattern.replace("{pool}", &pool))
        .collect();
    let mut environment = vec![
        (env::PM, patterns.join(":").into()),
        (env::PLACEMENT, placement.into_os_string()),
        (env::READS, reads.path.clone().into_os_string()),
        // Bound once, before the first fork, instead of in each child.
        ("LD_BIND_NOW", "1".into()),
    ];
    if huge_pages {
        environment.push((HUGE_PAGES.0, HUGE_PAGES.1.into()));
    }
    if let Some(preload) = &setup.preload {
        environment.push(("LD_PRELOAD", preload.clone()));
    }
    let place = ServerSetup {
        socket: folder.join("socket"),
        environment,
    };
    let command = setup.command.fill(paths);
    Ok(Runner::start(
        &command,
        &place,
        setup.any_program,
        processor,
    )?)
}

/// Where files have to be mapped, as the runtime reads it: programs that keep raw pointers need
/// their pool where it was.
pub fn placement(mappings: &[RecordedMapping], recorded_pool: &Path, pool: &Path) -> String {
    let mut lines = String::new();
    for mapping in mappings {
        if let Some(path) = crate::memory::pool::moved(recorded_pool, &mapping.path, pool) {
            let (address, length, offset) = (mapping.address, mapping.length, mapping.offset);
            lines += &format!("{address:#x} {length} {offset} {}\n", path.display());
        }
    }
    lines
}
