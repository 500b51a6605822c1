//! Compiles a program of ours, watches it in a folder of its own, and opens what was recorded.

use crashpoint_trace::files::{Call, Effect, FileRecording, InodeId, Remark};
use crashpoint_watch::{Options, Recorded, Stdin, WatchError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub struct Run {
    /// Removed at the end.
    _scratch: tempfile::TempDir,
    pub data: PathBuf,
    pub recorded: Recorded,
    pub recording: FileRecording,
}

/// Builds a C program of this folder.
pub fn compile(scratch: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(format!("{name}.c"));
    let binary = scratch.join(name);
    let status = Command::new("cc")
        .args(["-g", "-O1", "-pthread", "-Wall", "-o"])
        .args([&binary, &source])
        .status()
        .expect("a C compiler");
    assert!(status.success(), "{name} compiles");
    binary
}

pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a scratch folder")
}

/// A command in an empty folder `data`, which is its last argument.
pub fn watch(
    scratch: &Path,
    command: &[OsString],
) -> Result<(Recorded, FileRecording), WatchError> {
    watch_for(scratch, command, Duration::from_secs(60))
}

/// The same, for this long.
pub fn watch_for(
    scratch: &Path,
    command: &[OsString],
    timeout: Duration,
) -> Result<(Recorded, FileRecording), WatchError> {
    watch_with(scratch, command, timeout, Some(&syscallbuf()))
}

/// The library that is preloaded, where cargo puts it.
pub fn syscallbuf() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let mut folders = test.ancestors().skip(1);
    let candidates = folders.by_ref().take(2);
    candidates
        .map(|folder| folder.join("libcrashpoint_syscallbuf.so"))
        .find(|path| path.is_file())
        .expect("libcrashpoint_syscallbuf.so beside the tests")
}

/// The same, with or without the library with which writes need not stop.
pub fn watch_with(
    scratch: &Path,
    command: &[OsString],
    timeout: Duration,
    syscallbuf: Option<&Path>,
) -> Result<(Recorded, FileRecording), WatchError> {
    let data = scratch.join("data");
    std::fs::create_dir_all(&data).expect("a folder");
    let mut command = command.to_vec();
    command.push(data.clone().into());
    let environment: Vec<_> = std::env::vars_os().collect();
    let options = Options {
        folder: &data,
        command: &command,
        directory: scratch,
        environment: &environment,
        stdin: Stdin::Null,
        stacks: true,
        pass_output: false,
        timeout: Some(timeout),
        syscallbuf,
    };
    let out = scratch.join("out");
    let recorded = crashpoint_watch::record(&options, &out)?;
    let recording = FileRecording::open(&out).expect("a recording that can be read");
    Ok((recorded, recording))
}

/// Compiles and watches a C program.
pub fn run(name: &str) -> Run {
    run_after(name, |_| ())
}

/// The same, in a folder that was prepared.
pub fn run_after(name: &str, prepare: impl FnOnce(&Path)) -> Run {
    let scratch = scratch();
    let binary = compile(scratch.path(), name);
    let data = scratch.path().join("data");
    std::fs::create_dir_all(&data).expect("a folder");
    prepare(&data);
    let watched = watch(scratch.path(), &[binary.into()]);
    let (recorded, recording) = watched.unwrap_or_else(|error| panic!("{error}"));
    Run {
        _scratch: scratch,
        data,
        recorded,
        recording,
    }
}

impl Run {
    /// One line for each effect, inodes by number.
    pub fn effects(&self) -> Vec<String> {
        let calls = self.recording.calls();
        calls
            .flat_map(|call| call.effects.iter().map(effect).collect::<Vec<_>>())
            .collect()
    }

    pub fn texts(&self) -> Vec<String> {
        self.recording
            .calls()
            .map(|call| call.text.to_owned())
            .collect()
    }

    pub fn remarks(&self) -> Vec<Remark> {
        let problems = self.recording.problems().iter();
        problems
            .map(|problem| match &problem.kind {
                crashpoint_trace::files::ProblemKind::Remark(remark) => remark.clone(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// What was put out on standard output.
    pub fn printed(&self) -> String {
        let mut printed = Vec::new();
        for call in self.recording.calls() {
            for effect in &call.effects {
                if let Effect::Output {
                    stream: crashpoint_trace::files::Stream::Stdout,
                    bytes,
                } = effect
                {
                    printed.extend_from_slice(bytes);
                }
            }
        }
        String::from_utf8(printed).expect("text")
    }

    pub fn call(&self, text: &str) -> Call<'_> {
        let mut calls = self.recording.calls();
        let found = calls.find(|call| call.text.contains(text));
        found.unwrap_or_else(|| panic!("no call `{text}` in {:#?}", self.texts()))
    }

    /// Replays what was recorded over what was there before, and compares with what is there now.
    pub fn replays(&self) {
        crate::replay::check(&self.recording, &self.data);
    }
}

pub fn effect(effect: &Effect<'_>) -> String {
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let id = |inode: &InodeId| inode.0;
    match effect {
        Effect::New { inode, kind, mode } => format!("new {} {kind:?} {mode:o}", id(inode)),
        Effect::Link { slot, inode } => {
            format!(
                "link {}/{} {}",
                id(&slot.directory),
                name(slot.name),
                id(inode)
            )
        }
        Effect::Unlink { slot, inode } => {
            format!(
                "unlink {}/{} {}",
                id(&slot.directory),
                name(slot.name),
                id(inode)
            )
        }
        Effect::Rename {
            from,
            to,
            inode,
            victim,
        } => format!(
            "rename {}/{} {}/{} {} {:?}",
            id(&from.directory),
            name(from.name),
            id(&to.directory),
            name(to.name),
            id(inode),
            victim.map(|victim| victim.0)
        ),
        Effect::Write {
            inode,
            offset,
            bytes,
            through,
        } => {
            let shown = if bytes.len() <= 40 {
                name(bytes)
            } else {
                format!("{} bytes", bytes.len())
            };
            format!("write {} {offset} {through:?} {shown}", id(inode))
        }
        Effect::Exchange { .. }
        | Effect::Resize { .. }
        | Effect::Allocate { .. }
        | Effect::SetXattr { .. }
        | Effect::SetMode { .. }
        | Effect::Sync(_)
        | Effect::LastClose { .. }
        | Effect::Output { .. } => format!("{effect:?}"),
    }
}
