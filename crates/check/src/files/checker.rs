//! Runs checks on folders: each worker has one of its own, which shows one crash state after the
//! other.

use super::folder::Folder;
use super::layout::{Layout, SHAPE, place_of};
use super::medium::{DurableFiles, FileMedium};
use super::oracle::FileOracle;
use crate::engine::crash_points::{Phase, SuffixId};
use crate::engine::medium::{
    CheckError, Checker, DurableState, Medium as _, ReadLocation, StateHash,
};
use crate::process::launch::{Launch, Paths};
use crate::process::pin::{self, Pinned};
use crate::process::run::{FinishedRun, Limits};
use crate::process::runner::Runner;
use crate::process::server::{ServerError, ServerSetup};
use crashpoint_persist::graph::NodeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How checks are started, the same for all workers.
#[derive(Clone, Debug)]
pub struct CheckSetup {
    /// None where nothing has to run ([`FileOracle::WholeFiles`]).
    pub command: Option<Launch>,
    /// The runtime, which makes any program wait at the door of `main`.
    pub preload: Option<OsString>,
    pub limits: Limits,
}

/// A folder and what checks it.
pub struct FileChecker<'f, 'a> {
    files: &'f FileMedium<'a>,
    setup: &'f CheckSetup,
    content: DurableFiles<'a>,
    folder: Folder<'a>,
    scratch: PathBuf,
    paths: Paths,
    runner: Option<Runner>,
    suffix: Option<SuffixId>,
    limits: Limits,
    processor: Option<usize>,
    restarts: u32,
    /// What the last marked run read.
    read: Option<Vec<ReadLocation>>,
}

impl<'f, 'a> FileChecker<'f, 'a> {
    /// Makes a folder of its own in `scratch` and starts the check there. It is the one with this
    /// number of so many.
    pub fn start(
        files: &'f FileMedium<'a>,
        setup: &'f CheckSetup,
        scratch: &Path,
        number: usize,
        workers: usize,
    ) -> Result<FileChecker<'f, 'a>, CheckError> {
        let scratch = scratch.join(format!("w{number}"));
        let error = CheckError::in_folder(&scratch);
        let paths = Paths::create(&scratch, "dir").map_err(&error)?;
        let folder = Folder::create(&paths.pool).map_err(error)?;
        let mut checker = FileChecker {
            files,
            setup,
            content: files.before(),
            folder,
            paths,
            runner: None,
            suffix: None,
            limits: setup.limits,
            processor: pin::processor(number, workers),
            restarts: 0,
            read: None,
            scratch,
        };
        checker.serve()?;
        Ok(checker)
    }

    fn serve(&mut self) -> Result<(), CheckError> {
        let Some(command) = &self.setup.command else {
            return Ok(());
        };
        let mut environment = vec![("LD_BIND_NOW", OsString::from("1"))];
        if let Some(preload) = &self.setup.preload {
            environment.push(("LD_PRELOAD", preload.clone()));
        }
        let place = ServerSetup {
            socket: self.scratch.join("socket"),
            environment,
        };
        let command = command.fill(&self.paths);
        self.runner = Some(Runner::start(&command, &place, true, self.processor)?);
        Ok(())
    }

    /// The folder with a state in it, for as long as nothing else is checked.
    pub fn lay(&mut self, layout: &Layout<'a>) -> Result<&Path, CheckError> {
        self.folder
            .lay(layout)
            .map_err(CheckError::in_folder(&self.scratch))?;
        Ok(self.folder.path())
    }

    fn say_printed(&mut self, suffix: SuffixId) -> Result<(), CheckError> {
        if self.suffix != Some(suffix) {
            let printed = self.files.printed(suffix);
            std::fs::write(&self.paths.printed, printed)
                .map_err(CheckError::in_folder(&self.scratch))?;
            self.suffix = Some(suffix);
        }
        Ok(())
    }

    /// A check may take its server with it. That is no verdict: it gets another chance.
    fn run_stubbornly(&mut self) -> Result<FinishedRun, CheckError> {
        let limits = self.limits;
        let runner = self.runner.as_mut().expect("there is a command");
        match runner.run(0, &limits) {
            Err(ServerError::Lost { .. }) => {
                self.restarts += 1;
                self.serve()?;
                let runner = self.runner.as_mut().expect("there is a command");
                Ok(runner.run(0, &limits)?)
            }
            other => Ok(other?),
        }
    }

    /// Files that were read, and all that is not in files: who looks at one of these things in a
    /// folder looks at it by names, sizes and modes.
    fn note_reads(&mut self, layout: &Layout<'a>) -> Result<(), CheckError> {
        let read = self
            .folder
            .read_since()
            .map_err(CheckError::in_folder(&self.scratch))?;
        let mut places: Vec<ReadLocation> = vec![SHAPE];
        for path in read {
            // By whichever name it was read, it is one file.
            let first = layout.get(path).and_then(|item| item.link_to.clone());
            places.push(place_of(first.as_deref().unwrap_or(path)));
        }
        places.sort_unstable();
        places.dedup();
        self.read = Some(places);
        Ok(())
    }
}

impl<'a> DurableState for FileChecker<'_, 'a> {
    type Patch = Layout<'a>;

    fn advance(&mut self, nodes: &[NodeId], order: u64) -> Result<(), CheckError> {
        self.content.advance(nodes, order)
    }

    fn variants(&mut self, kept: &[NodeId]) -> u8 {
        self.content.variants(kept)
    }

    fn patch(&mut self, kept: &[NodeId], variant: u8) -> Layout<'a> {
        self.content.patch(kept, variant)
    }

    fn hash_with(&self, patch: &Layout<'a>) -> StateHash {
        self.content.hash_with(patch)
    }

    fn value(&self, patch: &Layout<'a>, place: ReadLocation) -> u64 {
        self.content.value(patch, place)
    }
}

impl Checker for FileChecker<'_, '_> {
    fn rewind(&mut self) -> Result<(), CheckError> {
        self.content = self.files.before();
        Ok(())
    }

    fn run(
        &mut self,
        patch: &Self::Patch,
        phase: Phase,
        mark: bool,
    ) -> Result<FinishedRun, CheckError> {
        self.read = None;
        if self.files.oracle == FileOracle::WholeFiles {
            return Ok(self.files.versions.check(patch));
        }
        self.say_printed(self.files.suffix(phase))?;
        self.folder
            .lay(patch)
            .map_err(CheckError::in_folder(&self.scratch))?;
        let ended = self.run_stubbornly()?;
        if mark && self.folder.shows_reading() {
            self.note_reads(patch)?;
        }
        Ok(ended)
    }

    fn reads(&self, _: &[ReadLocation]) -> Result<Option<Vec<ReadLocation>>, CheckError> {
        Ok(self.read.clone())
    }

    fn limits(&mut self) -> &mut Limits {
        &mut self.limits
    }

    fn stay(&self) -> Pinned {
        Pinned::to(self.processor)
    }

    fn restarts(&self) -> u32 {
        self.restarts
    }
}
