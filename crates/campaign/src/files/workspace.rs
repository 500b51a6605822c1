//! Where the workload runs before any crash: a copy of the folder, so that the user's own is never
//! touched.
//!
//! Where the command names the folder, as `{dir}` or by its path, the copy's path is put there.
//! Otherwise the program has its own idea of where the folder is: then the original is moved aside
//! while the workload runs, and moved back afterwards. A run that was killed leaves it aside; the
//! next one puts it back.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crashpoint_check::process::launch;
use crashpoint_install as install;
use crashpoint_trace::files::{FileRecording, ProgramEnd};
use crashpoint_watch as watch;

use super::{FilesError, io_error};
use crate::observer::Observer;
use crate::settings::template::{Placeholder, Template};
use crate::target::WORKLOAD;
use crate::test::Run;

/// What is put behind the name of a folder that was moved aside.
const ASIDE: &str = ".crashpoint-aside";

pub struct Workspace<'s> {
    run: &'s Template,
    /// Absolute.
    original: PathBuf,
    /// Where the workload finds its folder.
    folder: PathBuf,
    /// What it is copied from.
    source: PathBuf,
    /// Whether the folder existed before the run.
    existed: bool,
    in_place: bool,
}

fn aside(original: &Path) -> PathBuf {
    let mut name = original.as_os_str().to_owned();
    name.push(ASIDE);
    name.into()
}

impl<'s> Workspace<'s> {
    pub fn new(
        run: &Run<'_>,
        command: &'s Template,
        dir: &Path,
    ) -> Result<Workspace<'s>, FilesError> {
        let original = std::path::absolute(dir).map_err(io_error(dir))?;
        put_back(&original, run.observer)?;
        let existed = original.is_dir();
        if original.exists() && !existed {
            return Err(FilesError::NotAFolder { path: original });
        }
        let copy = run.scratch.join("workspace").join("dir");
        let base = run.settings.target.folder.as_path();
        let mut words = command.fill(&[]).into_iter().skip(1);
        let named = command.uses(Placeholder::Dir)
            || words.any(|word| below(&original, &word, command.folder(), base).is_some());
        let source = match (named, existed) {
            (false, true) => {
                let source = aside(&original);
                std::fs::rename(&original, &source).map_err(io_error(&original))?;
                source
            }
            (false, false) | (true, _) => original.clone(),
        };
        Ok(Workspace {
            run: command,
            folder: if named { copy } else { original.clone() },
            original,
            source,
            existed,
            in_place: !named,
        })
    }

    /// The command, told where its folder is now.
    fn command(&self) -> Vec<OsString> {
        let folder = self.folder.as_os_str();
        let words = self.run.fill(&[(Placeholder::Dir, folder)]);
        let first = words.first().cloned();
        let rest = words.iter().skip(1).map(|word| {
            let moved = if self.in_place {
                None
            } else {
                below(&self.original, word, self.run.folder(), Path::new(""))
            };
            match moved {
                Some(rest) if rest.as_os_str().is_empty() => folder.to_owned(),
                Some(rest) => self.folder.join(rest).into_os_string(),
                None => word.clone(),
            }
        });
        first.into_iter().chain(rest).collect()
    }

    /// The command, to be started by anybody.
    pub fn to_std(&self) -> Command {
        launch::Command {
            words: self.command(),
            directory: self.run.folder().to_owned(),
        }
        .to_std()
    }

    /// Puts what the workload begins with into an empty folder.
    pub fn copy_into(&self, empty: &Path) -> io::Result<()> {
        if self.existed {
            crashpoint_blockdev::copy_folder(&self.source, empty)
        } else {
            Ok(())
        }
    }

    /// The folder as it was before.
    pub fn fresh(&self) -> Result<(), FilesError> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error(&self.folder)(error));
            }
            _ => {}
        }
        if let Some(parent) = self.folder.parent() {
            std::fs::create_dir_all(parent).map_err(io_error(parent))?;
        }
        if !self.existed {
            return std::fs::create_dir(&self.folder).map_err(io_error(&self.folder));
        }
        // It keeps everything: links, holes, times, attributes.
        let copied = Command::new("cp")
            .arg("-a")
            .arg("--")
            .arg(&self.source)
            .arg(&self.folder)
            .output();
        let copied = copied.map_err(io_error(Path::new("cp")))?;
        if copied.status.success() {
            return Ok(());
        }
        Err(FilesError::Copy {
            path: self.source.clone(),
            said: String::from_utf8_lossy(&copied.stderr).trim().to_owned(),
        })
    }

    /// Runs the workload from the beginning and records it.
    pub fn record(&self, out: &Path, stacks: bool) -> Result<FileRecording, FilesError> {
        self.fresh()?;
        let mut command = self.command();
        let directory = if self.run.folder().as_os_str().is_empty() {
            std::env::current_dir().map_err(io_error(Path::new(".")))?
        } else {
            std::path::absolute(self.run.folder()).map_err(io_error(self.run.folder()))?
        };
        // A program with a relative path is found from where it runs.
        let program = Path::new(&command[0]);
        if program.is_relative() && program.components().count() > 1 {
            command[0] = directory.join(program).into_os_string();
        }
        let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let syscallbuf = install::library(install::SYSCALLBUF).ok();
        let options = watch::Options {
            folder: &self.folder,
            command: &command,
            directory: &directory,
            environment: &environment,
            stdin: watch::Stdin::Null,
            stacks,
            pass_output: false,
            timeout: Some(WORKLOAD),
            syscallbuf: syscallbuf.as_deref(),
        };
        let recorded = watch::record(&options, out)?;
        let recording = FileRecording::open(out)?;
        match recorded.ended {
            ProgramEnd::Exited(0) => Ok(recording),
            ended => Err(FilesError::Fails {
                program: command[0].to_string_lossy().into_owned(),
                end: end(ended),
                said: said(&recording),
            }),
        }
    }

    /// Where the workload left its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        if self.in_place {
            let _ = std::fs::remove_dir_all(&self.original);
            if self.existed {
                let _ = std::fs::rename(&self.source, &self.original);
            }
        }
    }
}

/// What a killed run left aside is moved back.
fn put_back(original: &Path, observer: &dyn Observer) -> Result<(), FilesError> {
    let aside = aside(original);
    if !aside.is_dir() {
        return Ok(());
    }
    match std::fs::remove_dir_all(original) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io_error(original)(error));
        }
        _ => {}
    }
    std::fs::rename(&aside, original).map_err(io_error(&aside))?;
    observer.note(format!(
        "{} is put back as a run that was killed had found it",
        original.display()
    ));
    Ok(())
}

/// The rest of a word that is the folder, or something in it.
fn below(folder: &Path, word: &OsStr, run_in: &Path, base: &Path) -> Option<PathBuf> {
    let path = base.join(run_in).join(word);
    let path = std::path::absolute(path).ok()?;
    let rest = path.strip_prefix(folder).ok()?;
    Some(rest.to_owned())
}

pub fn end(ended: ProgramEnd) -> String {
    match ended {
        ProgramEnd::Exited(code) => format!("exited with status {code}"),
        ProgramEnd::Killed { signal } => format!("was killed by signal {signal}"),
        ProgramEnd::TimedOut { after_ms } => format!("did not end in {} s", after_ms / 1000),
    }
}

/// Lines that a failing program is told by.
const TOLD_LINES: usize = 10;

fn said(recording: &FileRecording) -> String {
    use crashpoint_trace::files::{Effect, Stream};
    let mut text = Vec::new();
    for call in recording.calls() {
        for effect in &call.effects {
            if let Effect::Output {
                stream: Stream::Stderr | Stream::Stdout,
                bytes,
            } = effect
            {
                text.extend(*bytes);
            }
        }
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TOLD_LINES)..];
    last.iter().map(|line| format!("\n  {line}")).collect()
}
