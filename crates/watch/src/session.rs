//! One recording, from the command to the finished folder.

use crate::affinity::{NoStopSignals, SharedCpu};
use crate::descriptors::{Description, DescriptorTable, Streams};
use crate::inodes::Number;
use crate::launch::{self, Standard};
use crate::ptrace::Tid;
use crate::stacks::Stacks;
use crate::stores::Stores;
use crate::syscallbuf::SyscallBuffer;
use crate::tasks::{PathBase, Tasks, TracedProcess};
use crate::timer::Timer;
use crate::watcher::Watcher;
use crate::{Options, Recorded, Stdin, WatchError, before};
use crashpoint_trace::files::{ProgramEnd, Remark, Start, Stream, Writer};
use rustc_hash::FxHashSet;
use rustix::fd::{AsFd as _, OwnedFd};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::rc::Rc;

pub fn record(
    options: &Options<'_>,
    out: &Path,
    started: impl FnOnce(i32) + Send,
) -> Result<Recorded, WatchError> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(WatchError::Machine);
    }
    let failed = |source| WatchError::Folder {
        path: options.folder.to_owned(),
        source,
    };
    let folder = options.folder.canonicalize().map_err(failed)?;
    if !folder.is_dir() {
        return Err(WatchError::NotAFolder { path: folder });
    }
    if options.command.is_empty() {
        return Err(WatchError::NoCommand);
    }
    std::fs::create_dir_all(out).map_err(|source| WatchError::Write { source })?;
    if out.canonicalize().is_ok_and(|out| out.starts_with(&folder)) {
        return Err(WatchError::OutInside {
            out: out.to_owned(),
        });
    }
    let options = Options {
        folder: &folder,
        ..*options
    };
    // A thread of its own: it waits for all its children, and nobody else's.
    let watched = std::thread::scope(|scope| {
        let watching = || watch(&options, out, started);
        scope.spawn(watching).join()
    });
    watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn watch(
    options: &Options<'_>,
    out: &Path,
    running: impl FnOnce(i32),
) -> Result<Recorded, WatchError> {
    let inodes = before::keep(options, out)?;
    let start = Start {
        command: options.command.to_vec(),
        folder: options.folder.into(),
        directory: options.directory.into(),
        stacks: options.stacks,
    };
    let writer = Writer::create(out, &start).map_err(|source| WatchError::Write { source })?;
    let files = StandardFiles::open(options)?;
    let syscallbuf = launch::program(options).and_then(|program| {
        options
            .syscallbuf
            .and_then(|library| SyscallBuffer::new(library, &program))
    });
    let stores = Stores::new(options, out);
    let mut environment = stores.environment(options.environment);
    if let Some(syscallbuf) = &syscallbuf {
        environment = syscallbuf.environment(&environment);
    }
    let started = launch::start(
        options,
        &environment,
        syscallbuf.is_some(),
        &files.standard(),
    )?;
    let mut watcher = Watcher {
        options,
        tasks: Tasks::default(),
        inodes,
        streams: Streams::default(),
        writer,
        stacks: Stacks::new(options.stacks),
        early: FxHashSet::default(),
        turn: None,
        queue: VecDeque::new(),
        order: 0,
        remarks: Vec::new(),
        timer: Timer::start(options.timeout),
        ended: None,
        fatal: None,
        syscallbuf,
        stores,
        shared_cpu: SharedCpu::new(),
        deferred: None,
        settled: None,
        buffer: Vec::new(),
    };
    let _quiet = NoStopSignals::new();
    watcher.first(started.tid, &files)?;
    started.go().map_err(|source| WatchError::System {
        what: "start the program",
        source,
    })?;
    watcher.shared_cpu.hold(started.tid);
    watcher.run(started.tid, running)?;
    if let Some(error) = started.failed(options) {
        return Err(error);
    }
    watcher.finish()
}

/// What the program's standard descriptors are, kept open until it has them.
struct StandardFiles {
    input: Option<OwnedFd>,
    output: Option<OwnedFd>,
    error: Option<OwnedFd>,
}

impl StandardFiles {
    fn open(options: &Options<'_>) -> Result<StandardFiles, WatchError> {
        let open = |path: &Path| {
            let file = std::fs::File::open(path).map_err(|source| WatchError::Stdin {
                path: path.to_owned(),
                source,
            })?;
            Ok::<_, WatchError>(Some(OwnedFd::from(file)))
        };
        let input = match options.stdin {
            Stdin::Inherit => None,
            Stdin::Null => open(Path::new("/dev/null"))?,
            Stdin::File(path) => open(path)?,
        };
        // A file in memory takes everything and never blocks; what goes there is recorded.
        let sink = |name: &str| {
            let flags = rustix::fs::MemfdFlags::CLOEXEC;
            let file = rustix::fs::memfd_create(name, flags);
            file.map(Some).map_err(|error| WatchError::System {
                what: "make a file for the program's output",
                source: error.into(),
            })
        };
        let (output, error) = if options.pass_output {
            (None, None)
        } else {
            (sink("stdout")?, sink("stderr")?)
        };
        Ok(StandardFiles {
            input,
            output,
            error,
        })
    }

    fn standard(&self) -> Standard<'_> {
        Standard {
            input: self.input.as_ref().map(|file| file.as_fd()),
            output: self.output.as_ref().map(|file| file.as_fd()),
            error: self.error.as_ref().map(|file| file.as_fd()),
        }
    }
}

impl Watcher<'_> {
    /// Knows the first process, with what its standard descriptors are.
    fn first(&mut self, tid: Tid, files: &StandardFiles) -> Result<(), WatchError> {
        let table = RefCell::new(DescriptorTable::default());
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let ends = [
            (
                1,
                Stream::Stdout,
                files.output.as_ref().map_or(stdout.as_fd(), |f| f.as_fd()),
            ),
            (
                2,
                Stream::Stderr,
                files.error.as_ref().map_or(stderr.as_fd(), |f| f.as_fd()),
            ),
        ];
        for (descriptor, stream, file) in ends {
            let Ok(stat) = rustix::fs::fstat(file) else {
                continue;
            };
            let number = Number::from(&stat);
            if self.inodes.find(number).is_some() {
                // It is a file of the folder, and looked up when it is used.
                continue;
            }
            let description = Description::stream(stream);
            table.borrow_mut().insert(descriptor, Rc::new(description));
            // Everybody opens /dev/null: having it says nothing about whose output it is.
            let null = rustix::fs::makedev(1, 3);
            if stat.st_rdev != null {
                self.streams.0.push((number, stream));
            }
        }
        let number = self.tasks.next_process();
        let process = TracedProcess {
            number,
            leader: tid,
            pidfd: Rc::new(self.pidfd(tid)?),
            files: Rc::new(table),
            place: Rc::new(RefCell::new(PathBase::default())),
            space: Rc::default(),
        };
        self.timer.add(tid);
        self.add_task(tid, process)
    }

    fn finish(self) -> Result<Recorded, WatchError> {
        if let Some(error) = self.fatal {
            return Err(error);
        }
        let ended = match (self.timer.fired(), self.ended) {
            (Some(after), _) => ProgramEnd::TimedOut {
                after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            },
            (None, Some(ended)) => ended,
            (None, None) => ProgramEnd::Killed {
                signal: libc::SIGKILL,
            },
        };
        let mut calls = self.writer.count();
        let symbols = self.stacks.symbols();
        let written = self.writer.finish(ended, symbols);
        written.map_err(|source| WatchError::Write { source })?;
        let mut remarks = self.remarks;
        match self.stores.merge_stores() {
            Ok(Some(merged)) => calls = merged,
            Ok(None) => {}
            Err(error) => remarks.push(Remark::NoStores {
                reason: error.to_string(),
            }),
        }
        Ok(Recorded {
            ended,
            calls,
            remarks,
        })
    }
}
