//! Where the target runs before any crash: a pool of its own, made once, and every run on it placed
//! alike.
//!
//! The program that makes the pool is recorded, for the addresses at which it has it mapped: later
//! runs get them, as programs that keep raw pointers need them. The runs without a crash go through
//! the runtime like checks do, with nothing recorded.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crashpoint_abi::env;
use crashpoint_check::memory::worker;
use crashpoint_check::process::launch::Paths;
use crashpoint_check::process::output::first_difference;
use crashpoint_check::process::run::{Limits, RunEnd};
use crashpoint_check::process::server::{Server, ServerError, ServerSetup};
use crashpoint_install as install;
use crashpoint_trace::Recording;

use super::plan;
use crate::record::{self, Recorded};
use crate::settings::Settings;
use crate::settings::template::Template;
use crate::supervise::End;
use crate::target::{TargetError, WORKLOAD, command, io_error, patterns, recording_settings};

/// What it may print.
const OUTPUT_BYTES: usize = 256 << 20;

/// Lines of what a failing program said that are told.
const TOLD_LINES: usize = 10;

/// The scratch folder of runs without a crash.
pub struct Workspace<'s> {
    settings: &'s Settings,
    folder: PathBuf,
}

impl<'s> Workspace<'s> {
    pub fn new(settings: &'s Settings, scratch: &Path) -> Result<Workspace<'s>, TargetError> {
        let folder = scratch.join("workspace");
        std::fs::create_dir_all(&folder).map_err(io_error(&folder))?;
        let workspace = Workspace { settings, folder };
        for path in [workspace.folder.join("none"), workspace.placement()] {
            std::fs::write(&path, "").map_err(io_error(&path))?;
        }
        Ok(workspace)
    }

    fn write_operations(&self, text: &str) -> Result<(), TargetError> {
        let path = self.paths().ops;
        std::fs::write(&path, text).map_err(io_error(&path))
    }

    fn paths(&self) -> Paths {
        Paths {
            pool: self.folder.join("pool"),
            ops: self.folder.join("ops"),
            printed: self.folder.join("printed"),
        }
    }

    /// Where the runtime looks up at which address a file has to be.
    fn placement(&self) -> PathBuf {
        self.folder.join("placement")
    }

    /// No pool, or the one that `create` makes.
    fn fresh_pool(&self) -> Result<(), TargetError> {
        let paths = self.paths();
        remove(&paths.pool).map_err(io_error(&paths.pool))?;
        let made = self.folder.join("made");
        let Some(create) = &self.settings.target.create else {
            return Ok(());
        };
        if !made.exists() {
            self.create(create)?;
            std::fs::create_dir_all(&made).map_err(io_error(&made))?;
            return copy(&paths.pool, &made.join("pool")).map_err(io_error(&made));
        }
        copy(&made.join("pool"), &paths.pool).map_err(io_error(&paths.pool))
    }

    /// Makes the pool, and remembers where it was mapped.
    fn create(&self, create: &Template) -> Result<(), TargetError> {
        let paths = Paths {
            ops: self.folder.join("none"),
            ..self.paths()
        };
        let out = self.folder.join("created");
        let recorded = self.run_recorded(create, &paths, &out)?;
        if let Some(recording) = recorded.recording {
            let mappings = plan::mappings(&recording);
            let lines = worker::placement(&mappings, &paths.pool, &paths.pool);
            let placement = self.placement();
            std::fs::write(&placement, lines).map_err(io_error(&placement))?;
        }
        let _ = std::fs::remove_dir_all(&out);
        Ok(())
    }

    /// Runs a command to its end; what it printed.
    fn run(&self, template: &Template) -> Result<Vec<u8>, TargetError> {
        let paths = self.paths();
        let command = command(template, &paths);
        let runtime = install::library(install::RUNTIME_SHARED)?;
        let mut environment = vec![
            (
                env::PM,
                patterns(self.settings, &paths.pool).join(":").into(),
            ),
            (env::PLACEMENT, self.placement().into_os_string()),
        ];
        let preload = record::preload(&runtime, std::env::var_os("LD_PRELOAD"));
        environment.extend(preload.map(|preload| ("LD_PRELOAD", preload)));
        let place = ServerSetup {
            socket: self.folder.join("socket"),
            environment,
        };
        let limits = Limits {
            time: WORKLOAD,
            output_bytes: OUTPUT_BYTES,
            ..Limits::default()
        };
        let _ = std::fs::remove_file(&place.socket);
        let ended = Server::start(&command, &place)
            .and_then(|mut server| server.run(0, &limits))
            .map_err(|error| match error {
                ServerError::NotServed { program, .. } => TargetError::NotInstrumented { program },
                ServerError::Start { program, source } => TargetError::Start { program, source },
                other => TargetError::Server(other),
            })?;
        match ended.end {
            RunEnd::Exited(0) => Ok(self.settings.test.judging.ignored.strip(ended.stdout)),
            end => Err(TargetError::Fails {
                program: command.program(),
                end: end.to_string(),
                said: last_lines(&ended.stderr),
            }),
        }
    }

    /// Runs operations twice on a new pool; what they printed.
    pub fn plain(&self, run: &Template, operations: &str) -> Result<Vec<u8>, TargetError> {
        self.write_operations(operations)?;
        let mut outputs = Vec::new();
        for _ in 0..2 {
            self.fresh_pool()?;
            outputs.push(self.run(run)?);
        }
        let second = outputs.pop().expect("two runs");
        let first = outputs.pop().expect("two runs");
        let compared = self.settings.test.judging.check.is_none();
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

    fn run_recorded(
        &self,
        template: &Template,
        paths: &Paths,
        out: &Path,
    ) -> Result<Recorded, TargetError> {
        let command = command(template, paths);
        let recorded = recording_settings(self.settings, &paths.pool);
        let printed = self.folder.join("output");
        let file = std::fs::File::create(&printed).map_err(io_error(&printed))?;
        let placement = self.placement();
        let recorded = record::record_into(&recorded, out, command.to_std(), |target| {
            target.stdin(Stdio::null()).stdout(file);
            target.env(env::PLACEMENT, placement);
        })?;
        match recorded.ended.end {
            End::Exited(0) => Ok(recorded),
            end => Err(TargetError::Fails {
                program: command.program(),
                end: format!("{end} while it was recorded"),
                said: String::new(),
            }),
        }
    }

    /// Records operations on a new pool.
    pub fn record(
        &self,
        run: &Template,
        operations: &str,
        out: &Path,
    ) -> Result<Recording, TargetError> {
        self.write_operations(operations)?;
        self.fresh_pool()?;
        let paths = self.paths();
        let recorded = self.run_recorded(run, &paths, out)?;
        let program = command(run, &paths).program();
        let Some(recording) = recorded.recording else {
            return Err(TargetError::NotInstrumented { program });
        };
        // The runtime comes along by itself, and sees files mapped whoever maps them. Number 0 is
        // no place.
        if recording.site_count() <= 1 {
            return Err(TargetError::NotInstrumented { program });
        }
        if recording.files().iter().all(|file| file.private) {
            return Err(TargetError::NoPersistentMemory {
                program,
                patterns: patterns(self.settings, &paths.pool).join(", "),
            });
        }
        Ok(recording)
    }
}

/// The end of what a program said, to be put behind the message of its failure.
fn last_lines(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().collect();
    let from = lines.len().saturating_sub(TOLD_LINES);
    lines[from..]
        .iter()
        .map(|line| format!("\n  | {line}"))
        .collect()
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
