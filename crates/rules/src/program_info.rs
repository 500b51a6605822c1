//! What rules ask about the program and its processes.

use crashpoint_trace::program::Program;
use crashpoint_trace::{ContextId, FileIndex, ProcessIndex, Recording, SiteId, ThreadIndex};

/// Answers that need more than the events themselves: the program model and the recording's
/// tables. Every answer may be "unknown"; rules then stay silent rather than guess. Rules ask
/// once for each site or context, so answers may be slow.
pub trait ProgramInfo {
    /// The function that the call at this site calls, as its symbol name.
    fn callee(&self, site: SiteId) -> Option<&str>;

    /// The caller's context and the site of the call; none for the bottom of the stack.
    fn caller(&self, _: ContextId) -> Option<(ContextId, SiteId)> {
        None
    }

    fn process(&self, _: ThreadIndex) -> ProcessIndex {
        ProcessIndex(0)
    }

    /// Whether the process ended on its own terms. One that was killed or that crashed may have
    /// been in the middle of anything.
    fn ended_in_order(&self, _: ProcessIndex) -> bool {
        true
    }

    /// Whether this is a private mapping, whose stores never reach a file.
    fn private(&self, _: FileIndex) -> bool {
        false
    }
}

/// Answers out of a recording and the models of its program.
pub struct RecordedProgram<'a> {
    pub recording: &'a Recording,
    pub program: &'a Program,
}

impl ProgramInfo for RecordedProgram<'_> {
    fn callee(&self, site: SiteId) -> Option<&str> {
        self.program.callee_name(site)
    }

    fn caller(&self, context: ContextId) -> Option<(ContextId, SiteId)> {
        self.recording.caller(context)
    }

    fn process(&self, thread: ThreadIndex) -> ProcessIndex {
        self.recording.thread(thread).process
    }

    fn ended_in_order(&self, process: ProcessIndex) -> bool {
        self.recording.process(process).end.is_in_order()
    }

    fn private(&self, file: FileIndex) -> bool {
        self.recording.file(file).private
    }
}
