//! Small C programs that call the hooks by hand, and what they leave behind.

use crashpoint_abi::StreamHeader;
use crashpoint_abi::layout::{self, STREAM_HEADER_BYTES, STREAM_MAGIC, THREAD_OFFSET, offsets};
use crashpoint_abi::record::{self, Memory, Payload, Record};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder for one test: programs, pools, recordings.
pub struct Bench {
    pub folder: TempDir,
}

/// How a program gets the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Shared,
    Static,
    /// Not at all.
    Plain,
}

/// The library of this build.
pub fn runtime(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let library = test.with_file_name(name);
    assert!(library.exists(), "cargo builds the library with the tests");
    library
}

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

impl Bench {
    pub fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Bench { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a program; returns its path.
    pub fn compile(&self, name: &str, link: Link, options: &[&str]) -> PathBuf {
        let program = self.path(name.trim_end_matches(".c"));
        let mut command = Command::new("clang-19");
        command.args(["-O1", "-g", "-Wall", "-Werror", "-Wno-unused-function"]);
        command
            .arg(source(name))
            .arg("-o")
            .arg(&program)
            .args(options);
        match link {
            Link::Shared => {
                // The library is named by its soname, and found by the environment.
                let library = self.path("libcrashpoint_rt.so");
                if !library.exists() {
                    fs::copy(runtime("libcrashpoint_rt.so"), &library).expect("a copy");
                }
                command
                    .arg(library)
                    .arg(format!("-Wl,-rpath,{}", self.folder.path().display()));
            }
            Link::Static => {
                command.args(["-static", "-Wl,-u,__crashpoint_register"]);
                command.arg(runtime("libcrashpoint_rt.a"));
            }
            Link::Plain => {}
        }
        let output = command.output().expect("clang-19");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        program
    }

    /// A command that records into `out`, with pools under `pool*` in the folder.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path());
        // Where cargo would have the program find older libraries.
        command.env_remove("LD_LIBRARY_PATH");
        command.env("CRASHPOINT_OUT", self.path("out"));
        command.env("CRASHPOINT_PM", self.path("pool*"));
        command
    }

    /// Compiles with the shared runtime, runs, and reads what was recorded.
    pub fn record(&self, name: &str, arguments: &[&str]) -> Recording {
        let program = self.compile(name, Link::Shared, &[]);
        let output = self
            .command(&program)
            .args(arguments)
            .output()
            .expect("it runs");
        expect_success(&output);
        self.recording()
    }

    pub fn recording(&self) -> Recording {
        Recording::read(&self.path("out"))
    }
}

pub fn expect_success(output: &Output) {
    assert!(
        output.status.success(),
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// One process of a recording.
#[derive(Debug)]
pub struct Run {
    pub name: String,
    pub meta: Vec<Value>,
    /// By number of the thread.
    pub streams: BTreeMap<u32, Stream>,
}

#[derive(Debug)]
pub struct Stream {
    pub process: u32,
    pub system_thread: u32,
    pub limit_reached: bool,
    pub events: Vec<Event>,
    /// Bytes of all records.
    pub length: usize,
    /// Bytes that were still in a window.
    pub in_window: usize,
    pub flow: Option<Vec<u8>>,
}

/// A record that owns its bytes, with its call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub order: u64,
    /// Relative to the module: what the program calls its site.
    pub site: u32,
    /// Sites of the calls that the callers are in, outermost first.
    pub stack: Vec<u32>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Store(record::StoreKind, u64, Vec<u8>),
    Fill(record::StoreKind, u64, u64, u8),
    Load(u64, u32),
    Flush(record::FlushKind, u64),
    Fence(record::FenceKind),
    Opaque,
    Call(Vec<u64>),
    Return(u64),
    Sync(record::ThreadSync, u64),
    Map {
        address: u64,
        length: u64,
        file: u32,
        offset: u64,
    },
    Unmap(u64, u64),
    Msync(u64, u64),
}

impl What {
    fn of(payload: Payload<'_>) -> What {
        match payload {
            Payload::Store {
                kind,
                address,
                bytes,
            } => What::Store(kind, address, bytes.to_vec()),
            Payload::Fill {
                kind,
                address,
                length,
                byte,
            } => What::Fill(kind, address, length, byte),
            Payload::Load { address, size } => What::Load(address, size),
            Payload::Flush { kind, address } => What::Flush(kind, address),
            Payload::Fence { kind } => What::Fence(kind),
            Payload::Opaque => What::Opaque,
            Payload::Call { arguments } => {
                let words = arguments.as_chunks::<8>().0;
                What::Call(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
            }
            Payload::Return { value } => What::Return(value),
            Payload::Sync { kind, object } => What::Sync(kind, object),
            Payload::Map {
                address,
                length,
                file,
                file_offset,
                shared,
            } => {
                assert!(shared);
                What::Map {
                    address,
                    length,
                    file,
                    offset: file_offset,
                }
            }
            Payload::Unmap { address, length } => What::Unmap(address, length),
            Payload::Msync { address, length } => What::Msync(address, length),
            Payload::Context(_) | Payload::DefineContext { .. } => unreachable!("handled before"),
        }
    }
}

pub struct Recording {
    pub folder: PathBuf,
    pub runs: Vec<Run>,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The records of a stream: those in the file, then those in a window.
fn content(file: &[u8], position: layout::Position) -> (Vec<u8>, usize) {
    let mut all = file[STREAM_HEADER_BYTES..position.file_end as usize].to_vec();
    let start = position.window_start;
    all.extend_from_slice(&file[start..start + position.window_length]);
    (all, position.window_length)
}

/// `None`: the process ended before the stream had begun.
fn read_stream(path: &Path) -> Option<Stream> {
    let file = fs::read(path).unwrap();
    if file.iter().take(8).all(|byte| *byte == 0) {
        return None;
    }
    assert_eq!(file[..8], STREAM_MAGIC, "{}", path.display());
    assert_eq!(
        half(&file, offset_of!(StreamHeader, version)),
        crashpoint_abi::TRACE_VERSION
    );
    assert_eq!(
        half(&file, offset_of!(StreamHeader, kind)),
        layout::STREAM_PM
    );
    let position = layout::position(
        word(&file, offset_of!(StreamHeader, window_address)),
        word(&file, offset_of!(StreamHeader, window_offset)),
        word(&file, offset_of!(StreamHeader, second_window_offset)),
        word(&file, offset_of!(StreamHeader, cursor)),
    )
    .expect("positions that fit");
    let (records, in_window) = content(&file, position);
    let flow_path = path.with_extension("flow");
    let flow = flow_path.exists().then(|| {
        let flow = fs::read(&flow_path).unwrap();
        assert_eq!(
            half(&flow, offset_of!(StreamHeader, kind)),
            layout::STREAM_FLOW
        );
        let position = layout::position(
            word(&file, offset_of!(StreamHeader, flow_window_address)),
            word(&file, offset_of!(StreamHeader, flow_window_offset)),
            word(&file, offset_of!(StreamHeader, flow_second_window_offset)),
            word(&file, THREAD_OFFSET + offsets::THREAD_FLOW_CURSOR),
        )
        .expect("positions that fit");
        content(&flow, position).0
    });
    Some(Stream {
        process: half(&file, offset_of!(StreamHeader, process)),
        system_thread: half(&file, offset_of!(StreamHeader, system_thread)),
        limit_reached: half(&file, offset_of!(StreamHeader, limit_reached)) != 0,
        events: decode(&records),
        length: records.len(),
        in_window,
        flow,
    })
}

fn decode(records: &[u8]) -> Vec<Event> {
    let mut memory = Memory::default();
    let (mut at, mut last) = (0, 0);
    let mut contexts: Vec<Vec<u32>> = vec![Vec::new()];
    let mut current = 0;
    let mut events = Vec::new();
    while at < records.len() {
        let (
            Record {
                order,
                site,
                payload,
            },
            size,
        ) = record::decode(&records[at..], &mut memory).unwrap_or_else(|e| panic!("{at}: {e:?}"));
        at += size;
        match payload {
            Payload::Context(context) => {
                current = context as usize;
                assert!(
                    current < contexts.len(),
                    "a context is defined before it is used"
                );
            }
            Payload::DefineContext { parent } => {
                let mut stack = contexts[parent as usize].clone();
                stack.push(site.wrapping_sub(1));
                contexts.push(stack);
            }
            payload => {
                assert!(order > last, "order goes up: {order} after {last}");
                last = order;
                events.push(Event {
                    order,
                    site: site.wrapping_sub(1),
                    stack: contexts[current].clone(),
                    what: What::of(payload),
                });
            }
        }
    }
    events
}

impl Recording {
    fn read(out: &Path) -> Recording {
        let folder = out.join("trace");
        let mut names: Vec<String> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let order = fs::read(folder.join("order")).unwrap();
        assert_eq!(order[..8], STREAM_MAGIC);
        let mut runs = Vec::new();
        for name in names.iter().filter_map(|name| name.strip_suffix(".meta")) {
            let text = fs::read_to_string(folder.join(format!("{name}.meta"))).unwrap();
            let meta = text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let mut streams = BTreeMap::new();
            for file in &names {
                if let Some(thread) = file
                    .strip_prefix(&format!("{name}.t"))
                    .and_then(|rest| rest.strip_suffix(".pm"))
                {
                    let Some(stream) = read_stream(&folder.join(file)) else {
                        continue;
                    };
                    assert!(name.starts_with(&format!("p{}-", stream.process)));
                    streams.insert(thread.parse().unwrap(), stream);
                }
            }
            runs.push(Run {
                name: name.to_owned(),
                meta,
                streams,
            });
        }
        runs.sort_by_key(|run| run.meta[0]["started_ns"].as_u64());
        Recording { folder, runs }
    }

    /// The only process.
    pub fn run(&self) -> &Run {
        assert_eq!(self.runs.len(), 1, "{:?}", self.runs);
        &self.runs[0]
    }

    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap()
    }
}

impl Run {
    /// All events of the process in their order.
    pub fn events(&self) -> Vec<Event> {
        let mut all: Vec<Event> = self
            .streams
            .values()
            .flat_map(|stream| stream.events.clone())
            .collect();
        all.sort_by_key(|event| event.order);
        all
    }

    pub fn lines(&self, kind: &str) -> Vec<&Value> {
        self.meta.iter().filter_map(|line| line.get(kind)).collect()
    }

    pub fn end(&self) -> Option<(&str, i64)> {
        let end = *self.lines("end").last()?;
        Some((end["how"].as_str().unwrap(), end["code"].as_i64().unwrap()))
    }

    /// Where the first mapping is.
    pub fn base(&self) -> u64 {
        let base = self.events().iter().find_map(|event| match event.what {
            What::Map { address, .. } => Some(address),
            _ => None,
        });
        base.expect("a mapping")
    }

    /// Sites of the stores of a kind, in order.
    pub fn sites(&self, kind: record::StoreKind) -> Vec<u32> {
        self.stores(kind)
            .into_iter()
            .map(|(site, ..)| site)
            .collect()
    }

    /// Values of eight bytes that a site stored, in order.
    pub fn values(&self, site: u32) -> Vec<u64> {
        let stores = self.stores(record::StoreKind::Plain).into_iter();
        stores
            .filter(|store| store.0 == site)
            .map(|(_, _, bytes)| u64::from_le_bytes(bytes.try_into().unwrap()))
            .collect()
    }

    /// Stores of a kind: site, offset from the first mapping, bytes.
    pub fn stores(&self, kind: record::StoreKind) -> Vec<(u32, u64, Vec<u8>)> {
        let base = self.base();
        self.events()
            .into_iter()
            .filter_map(|event| match event.what {
                What::Store(found, address, bytes) if found == kind => {
                    Some((event.site, address.wrapping_sub(base), bytes))
                }
                What::Fill(found, address, length, byte) if found == kind => {
                    let bytes = vec![byte; length as usize];
                    Some((event.site, address.wrapping_sub(base), bytes))
                }
                _ => None,
            })
            .collect()
    }

    pub fn syncs(&self, kind: record::ThreadSync) -> Vec<u64> {
        self.events()
            .into_iter()
            .filter_map(|event| match event.what {
                What::Sync(found, object) if found == kind => Some(object),
                _ => None,
            })
            .collect()
    }
}
