//! Opening, second half: the threads' streams, scanned and put into the recording.
//!
//! Streams are scanned in parallel, since that is where the time goes; everything after that is
//! done in a fixed order, so that numbers do not depend on timing.

use crate::contexts::Contexts;
use crate::mapped::Bytes;
use crate::process::Process;
use crate::sites::{ProcessSites, SiteCache};
use crate::stream::{self, Cut, Header, Scan, Stream};
use crate::{
    ContextId, FileIndex, Problem, ProblemKind, ProcessIndex, Recording, SiteId, ThreadInfo,
};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// A stream on its way into the recording.
pub(crate) struct Draft {
    pub(crate) path: PathBuf,
    pub(crate) process: ProcessIndex,
    pub(crate) thread: u32,
    pub(crate) header: Header,
    pub(crate) stream: Stream,
    pub(crate) positions: Option<Cut>,
}

impl Recording {
    pub(crate) fn problem(&mut self, path: &Path, cut: Cut) -> &Problem {
        let index = self.problems.len();
        self.problems.push(Problem {
            file: path.to_owned(),
            offset: cut.offset as u64,
            count: 1,
            kind: cut.kind,
        });
        &self.problems[index]
    }

    /// Adds a thread with its streams; `None` if there are too many files.
    pub(crate) fn add(
        &mut self,
        draft: Draft,
        scan: Scan,
        flow: Option<(PathBuf, Bytes)>,
    ) -> Option<()> {
        let process = &self.processes[draft.process.index()];
        for mapped in &scan.mapped {
            let file = find_file(&self.processes, draft.process, mapped.number);
            let Some(file) = file else { continue };
            self.files.mapped(process, file, mapped.order);
            if !mapped.shared {
                self.files.private(file)?;
            }
        }
        let sites = &self.process_sites[draft.process.index()];
        let contexts = intern(&mut self.contexts, sites, &scan.contexts);
        self.stream_contexts.push(contexts);
        self.statistics.add(&scan.statistics);
        if let Some(positions) = draft.positions {
            self.problem(&draft.path, positions);
        }
        let cut = scan.cut.map(|cut| self.problem(&draft.path, cut).clone());
        if draft.header.limit_reached {
            let kind = ProblemKind::LimitReached;
            let offset = draft.stream.segments[0].end;
            self.problem(&draft.path, Cut { offset, kind });
        }
        let (flow_file, flow) = flow.unzip();
        let flow = flow_file.as_deref().zip(flow).map(|(path, bytes)| {
            let (stream, positions) = Stream::new(bytes, draft.header.flow);
            if let Some(positions) = positions {
                self.problem(path, positions);
            }
            self.statistics.flow_bytes += stream.record_bytes() as u64;
            stream
        });
        self.flows.push(flow);
        self.threads.push(ThreadInfo {
            process: draft.process,
            number: draft.thread,
            system_thread: draft.header.system_thread,
            file: draft.path,
            flow_file,
            bytes: scan.statistics.pm_bytes,
            cut,
            limit_reached: draft.header.limit_reached,
        });
        self.streams.push(draft.stream);
        Some(())
    }
}

/// The file that a process, or one that it was forked from, knows under a number.
pub(crate) fn find_file(
    processes: &[Process],
    process: ProcessIndex,
    number: u32,
) -> Option<FileIndex> {
    let mut next = Some(process);
    while let Some(process) = next.map(|index| &processes[index.index()]) {
        if let Some(file) = process.file(number) {
            return Some(file);
        }
        next = process.forked_from(processes);
    }
    None
}

fn intern(
    contexts: &mut Contexts,
    sites: &ProcessSites,
    definitions: &[(u32, u32)],
) -> Vec<ContextId> {
    let mut sites = SiteCache::new(sites);
    let mut numbers = vec![ContextId::BOTTOM];
    for (parent, site) in definitions {
        let site = sites.translate(*site).unwrap_or(SiteId::NONE);
        numbers.push(contexts.intern(numbers[*parent as usize], site));
    }
    numbers
}

/// Below this, waking threads takes longer than scanning.
const SMALL_BYTES: usize = 1 << 20;

/// Scans all streams, several at a time.
pub(crate) fn scan_all(drafts: &mut [Draft]) -> Vec<Scan> {
    let bytes: usize = drafts.iter().map(|draft| draft.stream.record_bytes()).sum();
    let scan = |draft: &mut Draft| stream::scan(&mut draft.stream);
    if bytes < SMALL_BYTES {
        drafts.iter_mut().map(scan).collect()
    } else {
        drafts.par_iter_mut().map(scan).collect()
    }
}
