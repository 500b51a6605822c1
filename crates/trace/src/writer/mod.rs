//! Builds recordings from values: for tests of everything that reads them.
//!
//! The streams are encoded by the same code as the runtime's. A recording is built in memory
//! ([`RecordingBuilder::build`]) or written to a folder ([`RecordingBuilder::write`]).
//!
//! ```
//! use crashpoint_trace::writer::{POOL_ADDRESS, RecordingBuilder};
//! let mut builder = RecordingBuilder::new();
//! let thread = builder.pool("/dev/shm/pool", 1 << 20);
//! builder.store(thread, 1, POOL_ADDRESS + 8, &[1, 2, 3, 4]);
//! builder.flush(thread, 2, POOL_ADDRESS + 8);
//! builder.fence(thread, 3);
//! let recording = builder.build().unwrap();
//! assert_eq!(recording.events().count(), 4);
//! ```

mod thread;

use crate::folder::Folder;
use crate::meta::{EndLine, FileLine, Head, Library, MetaLine, ModuleLine};
use crate::{ExitCall, OpenError, Recording};
use crashpoint_abi::layout::{STREAM_MAGIC, WINDOWS_OFFSET};
use crashpoint_abi::record::{FenceKind, FlushKind, Payload, Record, StoreKind};
use crashpoint_abi::{ABI_VERSION, Level, TRACE_VERSION, flow};
use crashpoint_ir::ModelId;
use std::io;
use std::path::Path;
use thread::ThreadDraft;

/// Where [`RecordingBuilder::pool`] maps its file.
pub const POOL_ADDRESS: u64 = 0x1000_0000_0000;

/// A process of a recording under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessKey(usize);

/// A thread of a recording under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadKey(usize);

/// What a process is; the defaults are those of a first process `p100-0` without a parent.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    pub pid: u32,
    pub run: u32,
    pub parent: Option<String>,
    pub level: Level,
    pub executable: String,
    pub arguments: Vec<String>,
}

impl Default for ProcessSpec {
    fn default() -> ProcessSpec {
        ProcessSpec {
            pid: 100,
            run: 0,
            parent: None,
            level: Level::Pm,
            executable: "/bin/store".to_owned(),
            arguments: vec!["store".to_owned()],
        }
    }
}

/// What a persistent file is. Equal device and inode make it one file for all processes.
#[derive(Clone, Debug)]
pub struct FileSpec {
    pub path: String,
    pub device: u64,
    pub inode: u64,
    pub size_bytes: u64,
    /// Content when it was first mapped; none for zeros.
    pub image: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct ProcessDraft {
    head: Head,
    lines: Vec<MetaLine>,
    images: Vec<(String, Vec<u8>)>,
    next_site: u32,
    next_file: u32,
    threads: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RecordingBuilder {
    processes: Vec<ProcessDraft>,
    threads: Vec<ThreadDraft>,
    last_order: u64,
}

impl RecordingBuilder {
    pub fn new() -> RecordingBuilder {
        RecordingBuilder::default()
    }

    /// The common case: one process with one thread and a file mapped at [`POOL_ADDRESS`], and a
    /// module of one million sites, numbered from 1.
    pub fn pool(&mut self, path: &str, size_bytes: u64) -> ThreadKey {
        let process = self.process(ProcessSpec::default());
        self.module(process, ModelId([1; 16]), 1_000_000, "/bin/store");
        let file = self.file(
            process,
            FileSpec {
                path: path.to_owned(),
                device: 1,
                inode: 1,
                size_bytes,
                image: None,
            },
        );
        let thread = self.thread(process);
        let map = Payload::Map {
            address: POOL_ADDRESS,
            length: size_bytes,
            file,
            file_offset: 0,
            shared: true,
        };
        self.event(thread, 0, map);
        thread
    }

    pub fn process(&mut self, spec: ProcessSpec) -> ProcessKey {
        let index = self.processes.len();
        self.processes.push(ProcessDraft {
            head: Head {
                crashpoint: TRACE_VERSION.into(),
                abi: ABI_VERSION.into(),
                pid: spec.pid,
                run: spec.run,
                parent: spec.parent,
                level: spec.level.name().to_owned(),
                executable: spec.executable,
                arguments: spec.arguments,
                directory: "/".to_owned(),
                started_ns: index as u64,
            },
            lines: Vec::new(),
            images: Vec::new(),
            next_site: 1,
            next_file: 0,
            threads: 0,
        });
        ProcessKey(index)
    }

    /// Adds a module and returns its site base.
    pub fn module(
        &mut self,
        process: ProcessKey,
        model: ModelId,
        site_count: u32,
        binary: &str,
    ) -> u32 {
        let process = &mut self.processes[process.0];
        let site_base = process.next_site;
        process.next_site += site_count;
        process.lines.push(MetaLine::Module(ModuleLine {
            model,
            site_base,
            site_count,
            binary: binary.to_owned(),
            bias: 0,
            globals: Vec::new(),
        }));
        site_base
    }

    pub fn library(&mut self, process: ProcessKey, path: &str, base: u64, end: u64) {
        self.processes[process.0]
            .lines
            .push(MetaLine::Library(Library {
                path: path.to_owned(),
                base,
                end,
                instrumented: false,
            }));
    }

    /// Adds a persistent file and returns its number in the process.
    pub fn file(&mut self, process: ProcessKey, spec: FileSpec) -> u32 {
        let process = &mut self.processes[process.0];
        let number = process.next_file;
        process.next_file += 1;
        let Head { pid, run, .. } = process.head;
        let name = format!("image-p{pid}-{run}-{number}");
        process.lines.push(MetaLine::File(FileLine {
            number,
            path: spec.path,
            device: spec.device,
            inode: spec.inode,
            size: spec.size_bytes,
            image: spec.image.is_some().then(|| name.clone()),
        }));
        process.images.extend(spec.image.map(|bytes| (name, bytes)));
        number
    }

    pub fn end(&mut self, process: ProcessKey, how: ExitCall, code: i64) {
        self.processes[process.0]
            .lines
            .push(MetaLine::End(EndLine { how, code }));
    }

    /// Adds a thread; threads of a process are numbered from 0.
    pub fn thread(&mut self, process: ProcessKey) -> ThreadKey {
        let owner = &mut self.processes[process.0];
        let with_flow = owner.head.level == "flow" || owner.head.level == "value";
        let draft = ThreadDraft::new(process.0, owner.threads, with_flow);
        self.threads.push(draft);
        owner.threads += 1;
        ThreadKey(self.threads.len() - 1)
    }

    /// The process of a thread, to add more to it.
    pub fn process_of(&self, thread: ThreadKey) -> ProcessKey {
        ProcessKey(self.threads[thread.0].process)
    }

    /// Adds an event with the next order number, which it returns.
    pub fn event(&mut self, thread: ThreadKey, site: u32, payload: Payload<'_>) -> u64 {
        self.event_at(thread, self.last_order + 1, site, payload);
        self.last_order
    }

    /// Adds an event with an order number of your choice; the next one goes on from there.
    pub fn event_at(&mut self, thread: ThreadKey, order: u64, site: u32, payload: Payload<'_>) {
        self.last_order = order;
        self.threads[thread.0].put(&Record {
            order,
            site,
            payload,
        });
    }

    pub fn store(&mut self, thread: ThreadKey, site: u32, address: u64, bytes: &[u8]) -> u64 {
        let kind = StoreKind::Plain;
        let store = Payload::Store {
            kind,
            address,
            bytes,
        };
        self.event(thread, site, store)
    }

    pub fn flush(&mut self, thread: ThreadKey, site: u32, address: u64) -> u64 {
        let kind = FlushKind::Clwb;
        self.event(thread, site, Payload::Flush { kind, address })
    }

    pub fn fence(&mut self, thread: ThreadKey, site: u32) -> u64 {
        let kind = FenceKind::Sfence;
        self.event(thread, site, Payload::Fence { kind })
    }

    pub fn call(&mut self, thread: ThreadKey, site: u32, arguments: &[u64]) -> u64 {
        let words: Vec<u8> = arguments
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let arguments = &words;
        self.event(thread, site, Payload::Call { arguments })
    }

    pub fn returned(&mut self, thread: ThreadKey, site: u32, value: u64) -> u64 {
        self.event(thread, site, Payload::Return { value })
    }

    /// What follows on this thread happens below these calls, outermost first.
    pub fn stack(&mut self, thread: ThreadKey, sites: &[u32]) {
        self.threads[thread.0].stack(sites);
    }

    /// Appends to the flow stream of a thread.
    pub fn flow(&mut self, thread: ThreadKey, record: &flow::Flow) {
        self.threads[thread.0].flow(record);
    }

    /// The thread's stream says that the byte limit was reached.
    pub fn limit_reached(&mut self, thread: ThreadKey) {
        self.threads[thread.0].limit_reached = true;
    }

    /// What follows on this thread is still in one of the two windows when the target is killed;
    /// it must fit there.
    pub fn unsettled(&mut self, thread: ThreadKey, window: usize) {
        assert!(window < 2, "there are two windows");
        self.threads[thread.0].unsettled(window);
    }

    /// The files of the folder `trace`, by name.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut order = vec![0; WINDOWS_OFFSET];
        order[..8].copy_from_slice(&STREAM_MAGIC);
        order[8..12].copy_from_slice(&TRACE_VERSION.to_le_bytes());
        order[64..72].copy_from_slice(&(self.last_order + 1).to_le_bytes());
        let mut files = vec![("order".to_owned(), order)];
        for process in &self.processes {
            let json = "a description is plain data";
            let mut meta = serde_json::to_string(&process.head).expect(json);
            for line in &process.lines {
                meta.push('\n');
                meta.push_str(&serde_json::to_string(line).expect(json));
            }
            meta.push('\n');
            files.push((format!("{}.meta", name(&process.head)), meta.into_bytes()));
            files.extend(process.images.iter().cloned());
        }
        for thread in &self.threads {
            let head = &self.processes[thread.process].head;
            let name = format!("{}.t{}", name(head), thread.number);
            files.push((format!("{name}.pm"), thread.pm_file(head.pid)));
            let flow = thread.flow_file(head.pid);
            files.extend(flow.map(|bytes| (format!("{name}.flow"), bytes)));
        }
        files
    }

    /// The recording, held in memory.
    pub fn build(&self) -> Result<Recording, OpenError> {
        from_files(self.files())
    }

    /// Writes the recording into `out`, which is created where it does not exist.
    pub fn write(&self, out: &Path) -> io::Result<()> {
        let trace = out.join("trace");
        std::fs::create_dir_all(&trace)?;
        for (name, bytes) in self.files() {
            std::fs::write(trace.join(name), bytes)?;
        }
        Ok(())
    }
}

/// A recording from the files of its folder `trace`, by name, held in memory.
pub fn from_files(files: Vec<(String, Vec<u8>)>) -> Result<Recording, OpenError> {
    Folder::in_memory(files).assemble()
}

fn name(head: &Head) -> String {
    format!("p{}-{}", head.pid, head.run)
}
