//! The target before any crash: built, given a pool, run twice, and recorded.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crashpoint_cc::locate;
use crashpoint_check::judge::first_difference;
use crashpoint_check::launch::{self, Launch, Paths};
use crashpoint_trace::Recording;

use crate::config::Settings;
use crate::config::template::{Placeholder, Template};
use crate::record::{self, RecordError};
use crate::target::End;

/// A workload that takes longer than this without any crash hangs.
const WORKLOAD: Duration = Duration::from_secs(600);

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("the build failed: `{command}` {end}")]
    Build { command: String, end: String },
    #[error("could not start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("without any crash, `{program}` {end}")]
    Fails { program: String, end: String },
    #[error(
        "two runs of the same operations on a new pool print different things, line {line}: \
         `{first}` and `{second}`. Crashpoint cannot judge a program that is not deterministic: \
         fix its seed, or give a checker (test.check)"
    )]
    Nondeterministic {
        line: usize,
        first: String,
        second: String,
    },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Locate(#[from] locate::Error),
    #[error(
        "`{program}` runs no code that was built to be recorded: build it with crashpoint-cc or \
         crashpoint-c++, or link it to a library that was"
    )]
    NotInstrumented { program: String },
    #[error(
        "`{program}` never mapped persistent memory that matches {patterns}: does it map {{pool}}, \
         or what do the patterns in target.pm have to be?"
    )]
    NoPersistentMemory { program: String, patterns: String },
    #[error(
        "no call of {functions} was recorded, so that there are no operations: name the function \
         of which each call is one in target.operation"
    )]
    NoOperations { functions: String },
    #[error(
        "{calls} calls of {functions} were recorded for {operations} operations: each operation \
         must be one call (target.operation)"
    )]
    OtherOperations {
        calls: usize,
        operations: usize,
        functions: String,
    },
    #[error(
        "operations of several threads run at the same time, which cannot be judged by the output \
         of one after the other"
    )]
    Overlapping,
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> TargetError + '_ {
    move |source| TargetError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Runs the build command, if there is one.
pub fn build(settings: &Settings) -> Result<(), TargetError> {
    let Some(line) = &settings.target.build else {
        return Ok(());
    };
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    if !settings.target.folder.as_os_str().is_empty() {
        command.current_dir(&settings.target.folder);
    }
    // The compiler drivers lie beside this program, whether or not they are in the path.
    if let Some(path) = path_with_ourselves() {
        command.env("PATH", path);
    }
    let status = command.status().map_err(|source| TargetError::Start {
        program: "sh".to_owned(),
        source,
    })?;
    match status.success() {
        true => Ok(()),
        false => Err(TargetError::Build {
            command: line.clone(),
            end: format!("ended with {status}"),
        }),
    }
}

fn path_with_ourselves() -> Option<OsString> {
    let beside = std::env::current_exe().ok()?.parent()?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).chain([beside]);
    std::env::join_paths(all).ok()
}

/// A template as a command that workers can start.
pub fn launch(template: &Template) -> Launch {
    let template = template.clone();
    Launch::new(move |paths| command(&template, paths))
}

pub fn command(template: &Template, paths: &Paths) -> launch::Command {
    let values: [(Placeholder, &OsStr); 3] = [
        (Placeholder::Pool, paths.pool.as_os_str()),
        (Placeholder::Ops, paths.ops.as_os_str()),
        (Placeholder::Printed, paths.printed.as_os_str()),
    ];
    launch::Command {
        words: template.fill(&values),
        directory: template.folder().to_owned(),
    }
}

/// The scratch folder of runs without a crash.
pub struct Ground {
    folder: PathBuf,
}

impl Ground {
    pub fn new(scratch: &Path, ops: &str) -> Result<Ground, TargetError> {
        let folder = scratch.join("ground");
        std::fs::create_dir_all(&folder).map_err(io_error(&folder))?;
        let ground = Ground { folder };
        let paths = ground.paths();
        std::fs::write(&paths.ops, ops).map_err(io_error(&paths.ops))?;
        let none = ground.folder.join("none");
        std::fs::write(&none, "").map_err(io_error(&none))?;
        Ok(ground)
    }

    pub fn paths(&self) -> Paths {
        Paths {
            pool: self.folder.join("pool"),
            ops: self.folder.join("ops"),
            printed: self.folder.join("printed"),
        }
    }

    /// No pool, or the one that `create` makes.
    pub fn fresh_pool(&self, settings: &Settings) -> Result<(), TargetError> {
        let paths = self.paths();
        remove(&paths.pool).map_err(io_error(&paths.pool))?;
        let made = self.folder.join("made");
        let Some(create) = &settings.target.create else {
            return Ok(());
        };
        if !made.exists() {
            let empty = Paths {
                ops: self.folder.join("none"),
                ..paths.clone()
            };
            self.run(create, &empty)?;
            std::fs::create_dir_all(&made).map_err(io_error(&made))?;
            copy(&paths.pool, &made.join("pool")).map_err(io_error(&made))?;
            return Ok(());
        }
        copy(&made.join("pool"), &paths.pool).map_err(io_error(&paths.pool))
    }

    /// Runs a command to its end; what it printed.
    fn run(&self, template: &Template, paths: &Paths) -> Result<Vec<u8>, TargetError> {
        let command = command(template, paths);
        let printed = self.folder.join("output");
        let file = std::fs::File::create(&printed).map_err(io_error(&printed))?;
        let mut started = command.to_std();
        started.stdin(Stdio::null()).stdout(file);
        let ended = crate::target::run(started, Some(WORKLOAD), || ());
        let ended = ended.map_err(|source| TargetError::Start {
            program: command.program(),
            source,
        })?;
        match ended.end {
            End::Exited(0) => std::fs::read(&printed).map_err(io_error(&printed)),
            end => Err(TargetError::Fails {
                program: command.program(),
                end: end.to_string(),
            }),
        }
    }

    /// Runs the workload twice on a new pool; what it printed.
    pub fn plain(&self, settings: &Settings, run: &Template) -> Result<Vec<u8>, TargetError> {
        let mut outputs = Vec::new();
        for _ in 0..2 {
            self.fresh_pool(settings)?;
            outputs.push(self.run(run, &self.paths())?);
        }
        let second = outputs.pop().expect("two runs");
        let first = outputs.pop().expect("two runs");
        let compared = settings.test.check.is_none();
        match first_difference(&first, &second) {
            Some((line, a, b)) if compared => {
                let text = |side: Option<&[u8]>| {
                    let side = side.map(String::from_utf8_lossy);
                    side.map_or("nothing".to_owned(), |side| side.into_owned())
                };
                Err(TargetError::Nondeterministic {
                    line: line + 1,
                    first: text(a),
                    second: text(b),
                })
            }
            _ => Ok(first),
        }
    }

    /// Records the workload on a new pool.
    pub fn record(
        &self,
        settings: &Settings,
        run: &Template,
        out: &Path,
    ) -> Result<Recording, TargetError> {
        self.fresh_pool(settings)?;
        let paths = self.paths();
        let command = command(run, &paths);
        let recorded = recording_settings(settings, &paths.pool);
        let printed = self.folder.join("output");
        let file = std::fs::File::create(&printed).map_err(io_error(&printed))?;
        let recorded = record::record_into(&recorded, out, command.to_std(), |target| {
            target.stdin(Stdio::null()).stdout(file);
        })?;
        if recorded.ended.end != End::Exited(0) {
            return Err(TargetError::Fails {
                program: command.program(),
                end: format!("{} while it was recorded", recorded.ended.end),
            });
        }
        let recording = recorded
            .recording
            .ok_or_else(|| TargetError::NotInstrumented {
                program: command.program(),
            })?;
        // The runtime comes along by itself, and sees files mapped whoever maps them. Number 0 is
        // no place.
        if recording.site_count() <= 1 {
            return Err(TargetError::NotInstrumented {
                program: command.program(),
            });
        }
        if recording.files().iter().all(|file| file.private) {
            return Err(TargetError::NoPersistentMemory {
                program: command.program(),
                patterns: patterns(settings, &paths.pool).join(", "),
            });
        }
        Ok(recording)
    }
}

/// The settings to record a run on a pool with.
pub fn recording_settings(settings: &Settings, pool: &Path) -> Settings {
    let mut recorded = settings.clone();
    recorded.record.pm = patterns(settings, pool);
    for function in &settings.target.operation {
        recorded.record.calls.extend(linker_globs(function));
    }
    recorded.record.timeout = recorded.record.timeout.or(Some(WORKLOAD));
    recorded
}

/// A function as the linker may know it: C++ names are mangled, which spells each part of a name
/// behind its length.
fn linker_globs(function: &str) -> Vec<String> {
    let mut globs = vec![function.to_owned()];
    if !function.contains(['*', '?']) && !function.starts_with("_Z") {
        let parts = function.split("::");
        let mangled: String = parts.map(|part| format!("{}{part}", part.len())).collect();
        globs.push(format!("_Z*{mangled}*"));
    }
    globs.retain(|glob| !glob.contains(':'));
    globs
}

/// The patterns of persistent files, for a pool.
pub fn patterns(settings: &Settings, pool: &Path) -> Vec<String> {
    let fill = |word: &crate::config::template::Word| {
        let filled = word.fill(|_| pool.as_os_str().to_owned());
        filled.to_string_lossy().into_owned()
    };
    settings.target.pm.iter().map(fill).collect()
}

fn remove(path: &Path) -> io::Result<()> {
    let gone = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Copies a file, holes as holes, or a folder of files.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    copy_sparse(from, to)
}

fn copy_sparse(from: &Path, to: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    const CHUNK: u64 = 1 << 20;
    let source = std::fs::File::open(from)?;
    let target = std::fs::File::create(to)?;
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    let mut buffer = vec![0; CHUNK as usize];
    while at < length {
        at = match rustix::fs::seek(&source, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(&source, rustix::fs::SeekFrom::Hole(at))?;
        while at < hole {
            let count = (hole - at).min(CHUNK) as usize;
            source.read_exact_at(&mut buffer[..count], at)?;
            target.write_all_at(&buffer[..count], at)?;
            at += count as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_their_mangled_names_too() {
        assert_eq!(linker_globs("apply"), ["apply", "_Z*5apply*"]);
        assert_eq!(linker_globs("store::apply"), ["_Z*5store5apply*"]);
        assert_eq!(linker_globs("op_*"), ["op_*"]);
        assert_eq!(linker_globs("_ZN1a1bEv"), ["_ZN1a1bEv"]);
    }

    #[test]
    fn a_sparse_file_stays_sparse() {
        use std::os::unix::fs::{FileExt as _, MetadataExt as _};
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        let file = std::fs::File::create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(b"here", 33 << 20).unwrap();
        copy(&from, &to).unwrap();
        let copied = std::fs::File::open(&to).unwrap();
        let mut bytes = [0; 4];
        copied.read_exact_at(&mut bytes, 33 << 20).unwrap();
        assert_eq!(&bytes, b"here");
        let status = copied.metadata().unwrap();
        assert_eq!(status.len(), 64 << 20);
        assert!(status.blocks() * 512 < 1 << 20);
    }
}
