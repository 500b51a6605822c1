//! Opening: from the files of a folder to a [`Recording`].

use crate::contexts::Contexts;
use crate::mapped::Bytes;
use crate::meta::{self, Meta};
use crate::process::{self, FileTable, Process, too_many_files};
use crate::sites::{ProcessSites, SiteTable};
use crate::stream::{self, Cut, Header, Stream};
use crate::threads::{Draft, scan_all};
use crate::{OpenError, OpenErrorKind, Problem, ProblemKind, ProcessIndex, Recording, Statistics};
use crashpoint_abi::{ABI_VERSION, TRACE_VERSION};
use rustc_hash::FxHashMap;
use std::io;
use std::path::{Path, PathBuf};

/// What a file in the folder is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Order,
    Meta { process: String },
    Pm { process: String, thread: u32 },
    Flow { process: String, thread: u32 },
    Image,
    Unknown,
}

fn role(name: &str) -> Role {
    fn process(text: &str) -> Option<String> {
        let (pid, run) = text.strip_prefix('p')?.split_once('-')?;
        let plain = |number: &str| number.parse::<u32>().is_ok_and(|n| n.to_string() == number);
        (plain(pid) && plain(run)).then(|| text.to_owned())
    }
    fn stream(stem: &str) -> Option<(String, u32)> {
        let (name, thread) = stem.rsplit_once(".t")?;
        Some((process(name)?, thread.parse().ok()?))
    }
    let known = || match name.rsplit_once('.') {
        Some((stem, "meta")) => process(stem).map(|process| Role::Meta { process }),
        Some((stem, "pm")) => stream(stem).map(|(process, thread)| Role::Pm { process, thread }),
        Some((stem, "flow")) => {
            stream(stem).map(|(process, thread)| Role::Flow { process, thread })
        }
        _ => None,
    };
    match name {
        "order" => Role::Order,
        _ if name.starts_with("image-") => Role::Image,
        _ => known().unwrap_or(Role::Unknown),
    }
}

/// The files of a recording, opened but not understood.
pub(crate) struct Folder {
    out: PathBuf,
    /// Where the files are, or would be.
    trace: PathBuf,
    files: Vec<(String, Bytes)>,
    problems: Vec<Problem>,
}

/// Flow streams by process and thread, with their file names.
type FlowFiles = FxHashMap<(ProcessIndex, u32), (String, Bytes)>;

impl Folder {
    /// Files that are held in memory, by name.
    pub(crate) fn in_memory(files: Vec<(String, Vec<u8>)>) -> Folder {
        let out = PathBuf::from("memory");
        let files = files
            .into_iter()
            .map(|(name, bytes)| (name, Bytes::Owned(bytes)));
        Folder {
            trace: out.join("trace"),
            out,
            files: files.collect(),
            problems: Vec::new(),
        }
    }

    pub(crate) fn list(out: &Path) -> Result<Folder, OpenError> {
        let trace = out.join("trace");
        let entries = std::fs::read_dir(&trace).map_err(|cause| {
            let kind = match cause.kind() {
                io::ErrorKind::NotFound if !out.exists() => OpenErrorKind::Missing,
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    OpenErrorKind::NotARecording
                }
                _ => OpenErrorKind::Io(cause),
            };
            OpenError::new(out, kind)
        })?;
        let mut folder = Folder {
            out: out.to_owned(),
            trace,
            files: Vec::new(),
            problems: Vec::new(),
        };
        for entry in entries {
            let entry =
                entry.map_err(|cause| OpenError::new(&folder.trace, OpenErrorKind::Io(cause)))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            match role(&name) {
                // Images may be large, and are read by who needs them.
                Role::Image => {}
                Role::Unknown => folder.problem(&name, 0, ProblemKind::Unexpected),
                Role::Order | Role::Meta { .. } | Role::Pm { .. } | Role::Flow { .. } => {
                    let path = entry.path();
                    let bytes = Bytes::map(&path)
                        .map_err(|cause| OpenError::new(path, OpenErrorKind::Io(cause)))?;
                    folder.files.push((name, bytes));
                }
            }
        }
        Ok(folder)
    }

    fn problem(&mut self, name: &str, offset: usize, kind: ProblemKind) {
        self.problems.push(Problem {
            file: self.trace.join(name),
            offset: offset as u64,
            count: 1,
            kind,
        });
    }

    pub(crate) fn assemble(mut self) -> Result<Recording, OpenError> {
        self.files.sort_by(|a, b| a.0.cmp(&b.0));
        let files = std::mem::take(&mut self.files);
        let (mut metas, mut streams) = (Vec::new(), Vec::new());
        for (name, bytes) in files {
            match role(&name) {
                Role::Order => {
                    stream::header(&bytes).map_err(|kind| self.error(&name, kind))?;
                }
                Role::Meta { .. } => metas.extend(self.meta(&name, &bytes)?),
                role @ (Role::Pm { .. } | Role::Flow { .. }) => streams.push((name, role, bytes)),
                Role::Image => {}
                Role::Unknown => self.problem(&name, 0, ProblemKind::Unexpected),
            }
        }
        if metas.is_empty() && streams.is_empty() {
            return Err(OpenError::new(&self.out, OpenErrorKind::Empty));
        }
        let (processes, files) = process::assemble(&self.trace, metas)?;
        let (drafts, flows) = self.streams(&processes, streams)?;
        self.finish(processes, files, drafts, flows)
    }

    fn error(&self, name: &str, kind: OpenErrorKind) -> OpenError {
        OpenError::new(self.trace.join(name), kind)
    }

    fn meta(&mut self, name: &str, bytes: &[u8]) -> Result<Option<Meta>, OpenError> {
        // Killed between creating the file and its first line: there is nothing to know, and no
        // stream yet.
        if bytes.is_empty() {
            self.problem(name, 0, ProblemKind::NoHeader);
            return Ok(None);
        }
        if let Some(versions) = meta::versions(bytes) {
            if versions.crashpoint != u64::from(TRACE_VERSION) {
                let kind = OpenErrorKind::Version {
                    found: versions.crashpoint,
                    offset: 0,
                };
                return Err(self.error(name, kind));
            }
            if versions.abi != u64::from(ABI_VERSION) {
                let found = versions.abi;
                return Err(self.error(name, OpenErrorKind::Abi { found }));
            }
        }
        let meta = meta::parse(bytes)
            .map_err(|reason| self.error(name, OpenErrorKind::BadMeta { reason }))?;
        for bad in &meta.bad {
            let kind = ProblemKind::BadMetaLine {
                line: bad.line,
                reason: bad.reason.clone(),
            };
            self.problem(name, bad.offset, kind);
        }
        if name != format!("p{}-{}.meta", meta.head.pid, meta.head.run) {
            self.problem(name, 0, ProblemKind::Mislabelled);
        }
        Ok(Some(meta))
    }

    /// Reads the headers of all streams: PM streams in order, and flow streams by name.
    fn streams(
        &mut self,
        processes: &[Process],
        streams: Vec<(String, Role, Bytes)>,
    ) -> Result<(Vec<Draft>, FlowFiles), OpenError> {
        let index: FxHashMap<&str, ProcessIndex> = processes
            .iter()
            .map(|process| process.name.as_str())
            .zip((0..).map(ProcessIndex))
            .collect();
        let (mut drafts, mut flows) = (Vec::new(), FxHashMap::default());
        for (name, role, bytes) in streams {
            let (process, thread, pm) = match role {
                Role::Pm { process, thread } => (process, thread, true),
                Role::Flow { process, thread } => (process, thread, false),
                Role::Order | Role::Meta { .. } | Role::Image | Role::Unknown => continue,
            };
            let header = stream::header(&bytes).map_err(|kind| self.error(&name, kind))?;
            let Some(&process) = index.get(process.as_str()) else {
                let kind = OpenErrorKind::MissingMeta {
                    process: process.clone(),
                };
                return Err(self.error(&format!("{process}.meta"), kind));
            };
            let header = header.unwrap_or_else(|| {
                self.problem(&name, 0, ProblemKind::NoHeader);
                Header::default()
            });
            if header.kind != 0
                && !stream::fits(&header, pm, processes[process.index()].pid, thread)
            {
                self.problem(&name, 0, ProblemKind::Mislabelled);
            }
            if pm {
                let (stream, positions) = Stream::new(bytes, header.pm);
                drafts.push(Draft {
                    path: self.trace.join(&name),
                    process,
                    thread,
                    header,
                    stream,
                    positions,
                });
            } else {
                flows.insert((process, thread), (name, bytes));
            }
        }
        drafts.sort_by_key(|draft| (draft.process, draft.thread));
        Ok((drafts, flows))
    }

    fn finish(
        mut self,
        processes: Vec<Process>,
        files: FileTable,
        mut drafts: Vec<Draft>,
        mut flow_files: FlowFiles,
    ) -> Result<Recording, OpenError> {
        let scans = scan_all(&mut drafts);
        let (sites, process_sites) = self.sites(&processes)?;
        let mut recording = Recording {
            out: self.out,
            processes,
            process_sites,
            files,
            threads: Vec::new(),
            streams: Vec::new(),
            stream_contexts: Vec::new(),
            flows: Vec::new(),
            contexts: Contexts::new(),
            sites,
            statistics: Statistics::default(),
            problems: self.problems,
        };
        for (draft, scan) in drafts.into_iter().zip(scans) {
            let flow = flow_files.remove(&(draft.process, draft.thread));
            let flow = flow.map(|(name, bytes)| (self.trace.join(name), bytes));
            recording
                .add(draft, scan, flow)
                .ok_or_else(|| too_many_files(&self.trace))?;
        }
        for (name, _) in flow_files.into_values() {
            let kind = ProblemKind::FlowWithoutPm;
            recording.problem(&self.trace.join(name), Cut { offset: 0, kind });
        }
        Ok(recording)
    }

    fn sites(
        &mut self,
        processes: &[Process],
    ) -> Result<(SiteTable, Vec<ProcessSites>), OpenError> {
        let modules = || processes.iter().flat_map(|process| &process.modules);
        let Some((table, differing)) = SiteTable::new(modules()) else {
            let kind = OpenErrorKind::TooMany {
                what: "sites",
                limit: u32::MAX.into(),
            };
            return Err(OpenError::new(&self.trace, kind));
        };
        for model in differing {
            let kind = ProblemKind::SiteCounts {
                model: model.to_string(),
            };
            self.problem("", 0, kind);
        }
        let mut all: Vec<ProcessSites> = Vec::new();
        for process in processes {
            let inherited = process.forked_from(processes);
            let inherited = inherited.map(|parent| &all[parent.index()]);
            let (sites, overlapping) = ProcessSites::new(&table, &process.modules, inherited);
            if let Some(site_base) = overlapping {
                let kind = ProblemKind::SitesOverlap { site_base };
                self.problem(&format!("{}.meta", process.name), 0, kind);
            }
            all.push(sites);
        }
        Ok((table, all))
    }
}
