//! A recording that has been opened: what is in the folder, put together.

use crate::contexts::Contexts;
use crate::events::Events;
use crate::folder::Folder;
use crate::process::FileTable;
use crate::sites::{ProcessSites, SiteTable};
use crate::stream::Stream;
use crate::{
    ContextId, FileIndex, ModelSites, OpenError, PmFile, Problem, Process, ProcessIndex, SiteId,
    Statistics, ThreadIndex,
};
use std::path::{Path, PathBuf};

/// An opened recording. It does not change any more, and may be read by several threads.
#[derive(Debug)]
pub struct Recording {
    pub(crate) out: PathBuf,
    pub(crate) processes: Vec<Process>,
    pub(crate) process_sites: Vec<ProcessSites>,
    pub(crate) files: FileTable,
    pub(crate) threads: Vec<ThreadInfo>,
    /// PM streams, by thread.
    pub(crate) streams: Vec<Stream>,
    /// The stream's numbers of contexts, by thread.
    pub(crate) stream_contexts: Vec<Vec<ContextId>>,
    pub(crate) flows: Vec<Option<Stream>>,
    pub(crate) contexts: Contexts,
    pub(crate) sites: SiteTable,
    pub(crate) statistics: Statistics,
    pub(crate) problems: Vec<Problem>,
}

/// A thread of a process, or a signal handler, which has a stream of its own.
#[derive(Clone, Debug)]
pub struct ThreadInfo {
    pub process: ProcessIndex,
    /// Within the process, from 0.
    pub number: u32,
    pub system_thread: u32,
    /// The PM stream.
    pub file: PathBuf,
    /// The flow stream, at levels that have one.
    pub flow_file: Option<PathBuf>,
    /// Bytes of records in the PM stream.
    pub bytes: u64,
    /// What ended the stream before its end; it is also among [`Recording::problems`].
    pub cut: Option<Problem>,
    /// Recording stopped at the byte limit.
    pub limit_reached: bool,
}

impl Recording {
    /// Opens the folder that `crashpoint record` wrote and scans all of its streams once.
    pub fn open(out: &Path) -> Result<Recording, OpenError> {
        Folder::list(out)?.assemble()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.out
    }

    /// In order of their start.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    pub fn process(&self, index: ProcessIndex) -> &Process {
        &self.processes[index.index()]
    }

    pub fn files(&self) -> &[PmFile] {
        &self.files.files
    }

    pub fn file(&self, index: FileIndex) -> &PmFile {
        &self.files.files[index.index()]
    }

    /// By process, then by number.
    pub fn threads(&self) -> &[ThreadInfo] {
        &self.threads
    }

    pub fn thread(&self, index: ThreadIndex) -> &ThreadInfo {
        &self.threads[index.index()]
    }

    /// All ordered events of all streams, merged. Each call starts from the beginning.
    pub fn events(&self) -> Events<'_> {
        Events::new(self)
    }

    /// The call sites that led to a context, outermost first.
    pub fn stack(&self, context: ContextId) -> Vec<SiteId> {
        let mut stack = Vec::new();
        let mut next = context;
        while let Some((caller, site)) = self.contexts.caller(next) {
            stack.push(site);
            next = caller;
        }
        stack.reverse();
        stack
    }

    /// The innermost call of a context: the context that it was made in, and its site.
    pub fn caller(&self, context: ContextId) -> Option<(ContextId, SiteId)> {
        self.contexts.caller(context)
    }

    /// How many contexts there are; their numbers are below that.
    pub fn context_count(&self) -> usize {
        self.contexts.len()
    }

    /// All models, by their first site.
    pub fn models(&self) -> &[ModelSites] {
        &self.sites.models
    }

    /// How many sites there are, with [`SiteId::NONE`]; their numbers are below that.
    pub fn site_count(&self) -> usize {
        let last = self.sites.models.last();
        last.map_or(1, |model| model.first.index() + model.count as usize)
    }

    /// The model that a site belongs to, as index into [`Recording::models`], and its number there.
    pub fn locate(&self, site: SiteId) -> Option<(usize, crashpoint_ir::SiteId)> {
        let (model, local) = self.sites.locate(site)?;
        Some((model, crashpoint_ir::SiteId(local)))
    }

    /// The number of a model's site in this recording.
    pub fn site(
        &self,
        model: crashpoint_ir::ModelId,
        local: crashpoint_ir::SiteId,
    ) -> Option<SiteId> {
        let model = self.sites.find(model)?;
        (local.0 < model.count).then(|| SiteId(model.first.0 + local.0))
    }

    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What was found wrong when the recording was opened. Problems that only show in the merged
    /// order are in [`Events::problems`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}
