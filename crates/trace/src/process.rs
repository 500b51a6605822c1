//! The processes of a recording and the persistent files they share.

use crate::meta::{Head, Meta, MetaLine};
use crate::{FileIndex, OpenError, OpenErrorKind, PmAddress, ProcessIndex};
use crashpoint_abi::Level;
use crashpoint_ir::ModelId;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// One run of one program: from its start, fork or exec to its end or next exec.
#[derive(Clone, Debug)]
pub struct Process {
    /// Such as `p12-0`: the system's process id and a number that tells runs with one id apart.
    pub name: String,
    pub pid: u32,
    /// The process that forked this one, or that it was before `exec`.
    pub parent: Option<ProcessIndex>,
    pub level: Level,
    pub executable: PathBuf,
    pub arguments: Vec<String>,
    pub directory: PathBuf,
    pub started_ns: u64,
    pub modules: Vec<LoadedModule>,
    pub libraries: Vec<Library>,
    pub end: ProcessEnd,
    /// Its numbers of persistent files.
    pub(crate) files: FxHashMap<u32, FileIndex>,
    /// What each file was when this process first mapped it: path and image.
    pub(crate) views: FxHashMap<FileIndex, (PathBuf, Option<PathBuf>)>,
}

impl Process {
    /// The persistent file that it knows under this number.
    pub fn file(&self, number: u32) -> Option<FileIndex> {
        self.files.get(&number).copied()
    }

    /// Whether it came about by fork from its parent and so has the parent's memory.
    pub(crate) fn forked_from(&self, processes: &[Process]) -> Option<ProcessIndex> {
        self.parent
            .filter(|parent| processes[parent.index()].pid != self.pid)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By a call that the runtime saw.
    Seen { how: ExitCall, code: i64 },
    /// The runtime did not see it: the process was killed, aborted, or is still running.
    Unseen,
}

impl ProcessEnd {
    /// Whether the process itself decided to end where it did. One that was killed or that crashed
    /// may have been in the middle of anything.
    pub fn is_in_order(self) -> bool {
        match self {
            ProcessEnd::Seen { how, .. } => match how {
                ExitCall::Exit | ExitCall::ImmediateExit | ExitCall::QuickExit | ExitCall::Exec => {
                    true
                }
            },
            ProcessEnd::Unseen => false,
        }
    }
}

/// The calls by which a process ends itself, as the runtime names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitCall {
    #[serde(rename = "exit")]
    Exit,
    /// `_exit` and `_Exit`.
    #[serde(rename = "_exit")]
    ImmediateExit,
    #[serde(rename = "quick_exit")]
    QuickExit,
    /// Another program goes on under the number of the process.
    #[serde(rename = "exec")]
    Exec,
}

impl ExitCall {
    pub fn name(self) -> &'static str {
        match self {
            ExitCall::Exit => "exit",
            ExitCall::ImmediateExit => "_exit",
            ExitCall::QuickExit => "quick_exit",
            ExitCall::Exec => "exec",
        }
    }
}

impl fmt::Display for ExitCall {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// An instrumented object in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedModule {
    pub model: ModelId,
    pub site_base: u32,
    pub site_count: u32,
    pub binary: PathBuf,
    /// Difference between addresses in the process and in the binary.
    pub bias: u64,
    /// Addresses of the model's globals, in its order; 0 for those without a fixed one.
    pub globals: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    pub path: PathBuf,
    pub base: u64,
    pub end: u64,
    pub instrumented: bool,
}

/// A file that was mapped as persistent memory. One entry stands for the file in all processes,
/// told apart by device and inode; an inode that the file system gave to a second file after the
/// first was deleted is not noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmFile {
    /// As the process that mapped it first, in the order of events, named it.
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
    /// The largest that was seen.
    pub size_bytes: u64,
    /// Copy of its content when it was first mapped; none if it was all zeros.
    pub image: Option<PathBuf>,
    /// What is stored through private mappings never reaches the file: it has an entry of its own.
    pub private: bool,
}

/// Unifies the processes' files while they are added.
#[derive(Debug, Default)]
pub(crate) struct FileTable {
    pub(crate) files: Vec<PmFile>,
    index: FxHashMap<(u64, u64, bool), FileIndex>,
    /// Order of the first mapping that is known of each file.
    first: FxHashMap<FileIndex, u64>,
}

impl FileTable {
    fn add(&mut self, file: PmFile) -> Option<FileIndex> {
        let next = self.files.len();
        let at = *self
            .index
            .entry((file.device, file.inode, file.private))
            .or_insert(FileIndex(next as u32));
        if at.index() == next {
            if next == PmAddress::MAX_FILES {
                return None;
            }
            self.files.push(file);
        } else {
            let known = &mut self.files[at.index()];
            known.size_bytes = known.size_bytes.max(file.size_bytes);
        }
        Some(at)
    }

    /// A process maps a file. The first one to do so tells what the file was.
    pub(crate) fn mapped(&mut self, process: &Process, file: FileIndex, order: u64) {
        let first = self.first.entry(file).or_insert(u64::MAX);
        if order < *first
            && let Some((path, image)) = process.views.get(&file)
        {
            *first = order;
            let entry = &mut self.files[file.index()];
            entry.path.clone_from(path);
            entry.image.clone_from(image);
        }
    }

    /// The entry for private mappings of a file.
    pub(crate) fn private(&mut self, file: FileIndex) -> Option<FileIndex> {
        let private = PmFile {
            private: true,
            ..self.files[file.index()].clone()
        };
        self.add(private)
    }

    pub(crate) fn find_private(&self, file: FileIndex) -> Option<FileIndex> {
        let file = &self.files[file.index()];
        self.index.get(&(file.device, file.inode, true)).copied()
    }
}

/// Makes processes of their descriptions, in order of their start, and unifies their files.
pub(crate) fn assemble(
    folder: &Path,
    mut metas: Vec<Meta>,
) -> Result<(Vec<Process>, FileTable), OpenError> {
    metas.sort_by_key(|meta| (meta.head.started_ns, meta.head.pid, meta.head.run));
    let name = |head: &Head| format!("p{}-{}", head.pid, head.run);
    let index: FxHashMap<String, ProcessIndex> = metas
        .iter()
        .map(|meta| name(&meta.head))
        .zip((0..).map(ProcessIndex))
        .collect();
    let mut table = FileTable::default();
    let mut processes = Vec::new();
    for Meta { head, lines, .. } in metas {
        let name = name(&head);
        // A process is never its own parent, and a later one is nobody's.
        let parent = head
            .parent
            .as_ref()
            .and_then(|parent| index.get(parent))
            .copied();
        let parent = parent.filter(|parent| parent.index() < processes.len());
        let Some(level) = Level::from_name(&head.level) else {
            let reason = format!("there is no level `{}`", head.level);
            let path = folder.join(format!("{name}.meta"));
            return Err(OpenError::new(path, OpenErrorKind::BadMeta { reason }));
        };
        let mut process = Process {
            name,
            pid: head.pid,
            parent,
            level,
            executable: head.executable.into(),
            arguments: head.arguments,
            directory: head.directory.into(),
            started_ns: head.started_ns,
            modules: Vec::new(),
            libraries: Vec::new(),
            end: ProcessEnd::Unseen,
            files: FxHashMap::default(),
            views: FxHashMap::default(),
        };
        for line in lines {
            add_line(folder, &mut process, &mut table, line)?;
        }
        processes.push(process);
    }
    Ok((processes, table))
}

fn add_line(
    folder: &Path,
    process: &mut Process,
    table: &mut FileTable,
    line: MetaLine,
) -> Result<(), OpenError> {
    match line {
        MetaLine::Module(module) => process.modules.push(LoadedModule {
            model: module.model,
            site_base: module.site_base,
            site_count: module.site_count,
            binary: module.binary.into(),
            bias: module.bias,
            globals: module.globals,
        }),
        MetaLine::Library(library) => process.libraries.push(Library {
            path: library.path.into(),
            base: library.base,
            end: library.end,
            instrumented: library.instrumented,
        }),
        MetaLine::End(end) => {
            process.end = ProcessEnd::Seen {
                how: end.how,
                code: end.code,
            };
        }
        MetaLine::File(file) => {
            let entry = PmFile {
                path: file.path.into(),
                device: file.device,
                inode: file.inode,
                size_bytes: file.size,
                image: file.image.map(|image| folder.join(image)),
                private: false,
            };
            let view = (entry.path.clone(), entry.image.clone());
            let index = table.add(entry).ok_or_else(|| too_many_files(folder))?;
            process.files.insert(file.number, index);
            process.views.entry(index).or_insert(view);
        }
    }
    Ok(())
}

pub(crate) fn too_many_files(folder: &Path) -> OpenError {
    let kind = OpenErrorKind::TooMany {
        what: "persistent files",
        limit: PmAddress::MAX_FILES as u64,
    };
    OpenError::new(folder, kind)
}
