//! Answers for the rules, out of the recording and the program model.

use crashpoint_rules::ProgramInfo;
use crashpoint_trace::program::Program;
use crashpoint_trace::{
    ContextId, FileIndex, ProcessEnd, ProcessIndex, Recording, SiteId, ThreadIndex,
};

pub struct Known<'a> {
    pub recording: &'a Recording,
    pub program: &'a Program,
}

impl ProgramInfo for Known<'_> {
    fn callee(&self, site: SiteId) -> Option<&str> {
        self.program.callee_name(site)
    }

    fn caller(&self, context: ContextId) -> Option<(ContextId, SiteId)> {
        self.recording.caller(context)
    }

    fn process(&self, thread: ThreadIndex) -> ProcessIndex {
        self.recording.thread(thread).process
    }

    /// Whether the process itself decided to end here.
    fn ended_in_order(&self, process: ProcessIndex) -> bool {
        match &self.recording.process(process).end {
            ProcessEnd::Seen { how, .. } => matches!(how.as_str(), "exit" | "_exit" | "exec"),
            ProcessEnd::Unseen => false,
        }
    }

    fn private(&self, file: FileIndex) -> bool {
        self.recording.file(file).private
    }
}
