//! Runs a program and records it: persistent memory by the runtime in it, files by watching it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use crashpoint_abi::{Level, env};
use crashpoint_install as install;
use crashpoint_rules as rules;
use crashpoint_trace::{OpenErrorKind, Recording, program};
use crashpoint_watch as watch;

use crate::recording_dir::{FolderError, Prepared};
use crate::settings::Settings;
use crate::supervise::{self, Ended};

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Locate(#[from] install::LocateError),
    #[error("could not start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("the pattern `{0}` has a colon in it, which separates patterns; use `?` in its place")]
    Colon(String),
    #[error("cannot read what was recorded: {0}")]
    Open(#[from] crashpoint_trace::OpenError),
    #[error(transparent)]
    Watch(#[from] watch::WatchError),
    #[error("cannot listen to signals: {0}")]
    Signals(io::Error),
}

/// A finished run.
pub struct Recorded {
    /// The recording; `None` if the program left nothing.
    pub recording: Option<Recording>,
    pub out: PathBuf,
    pub ended: Ended,
}

/// Runs the program and opens what it left.
pub fn record(
    settings: &Settings,
    out: &Path,
    command: &[OsString],
) -> Result<Recorded, RecordError> {
    let mut target = Command::new(&command[0]);
    target.args(&command[1..]);
    record_into(settings, out, target, |_| ())
}

/// The same with a command that is not as simple; `adapt` has the last word about it.
pub fn record_into(
    settings: &Settings,
    out: &Path,
    mut target: Command,
    adapt: impl FnOnce(&mut Command),
) -> Result<Recorded, RecordError> {
    let runtime = install::library(install::RUNTIME_SHARED)?;
    let environment = environment(settings, &runtime)?;
    let mut folder = Prepared::new(out)?;
    target.envs(environment).env(env::OUT, &folder.path);
    adapt(&mut target);
    let program = target.get_program().to_string_lossy().into_owned();
    let started = supervise::run(target, settings.record.timeout, || folder.commit());
    let ended = match started {
        Ok(ended) => ended,
        Err(source) => {
            folder.restore();
            return Err(RecordError::Start { program, source });
        }
    };
    let recording = match Recording::open(&folder.path) {
        Ok(recording) => Some(recording),
        Err(error) => match error.kind {
            OpenErrorKind::Empty | OpenErrorKind::NotARecording => None,
            _ => return Err(error.into()),
        },
    };
    if let Some(recording) = &recording {
        // What is missing is told by whoever needs the models.
        let _ = program::save_models(recording);
    }
    Ok(Recorded {
        recording,
        out: out.to_owned(),
        ended,
    })
}

/// What the runtime in the program is told, apart from the folder.
fn environment(
    settings: &Settings,
    runtime: &Path,
) -> Result<Vec<(&'static str, OsString)>, RecordError> {
    let options = &settings.record;
    let mut calls = options.calls.clone();
    calls.extend(rules::watched_calls(&settings.rules.transactions));
    let level = options.level.unwrap_or(Level::Pm);
    let mut variables = vec![
        (env::LEVEL, level.name().into()),
        (env::PM, joined(&options.pm)?),
        (env::CALLS, joined(&calls)?),
    ];
    if options.loads {
        variables.push((env::LOADS, "1".into()));
    }
    if let Some(limit) = options.limit {
        variables.push((env::LIMIT, limit.to_string().into()));
    }
    if let Some(preload) = preload(runtime, std::env::var_os("LD_PRELOAD")) {
        variables.push(("LD_PRELOAD", preload));
    }
    Ok(variables)
}

fn joined(patterns: &[String]) -> Result<OsString, RecordError> {
    match patterns.iter().find(|pattern| pattern.contains(':')) {
        Some(pattern) => Err(RecordError::Colon(pattern.clone())),
        None => Ok(patterns.join(":").into()),
    }
}

/// So that a program of which only a library is instrumented is recorded too. The loader splits
/// the list at colons and blanks: a path with one of them cannot be in it, and programs linked by
/// crashpoint-cc do without.
pub fn preload(runtime: &Path, present: Option<OsString>) -> Option<OsString> {
    let path = runtime.as_os_str();
    if path
        .as_bytes()
        .iter()
        .any(|byte| matches!(byte, b':' | b' '))
    {
        return None;
    }
    let mut list = path.to_owned();
    if let Some(present) = present.filter(|present| !present.is_empty()) {
        list.push(":");
        list.push(present);
    }
    Some(list)
}

/// Runs a program and watches what it does to a folder; an older recording in `out` is gone once it does.
pub fn record_files(
    options: &watch::Options<'_>,
    out: &Path,
) -> Result<watch::Recorded, RecordError> {
    let mut prepared = Prepared::new(out)?;
    let (started, main) = mpsc::channel();
    supervise::pass_signals_to(move || main.recv().ok()).map_err(RecordError::Signals)?;
    let path = prepared.path.clone();
    let recorded = watch::record_with(options, &path, |pid| {
        prepared.commit();
        // Without it, signals are not passed on; nothing else is lost.
        let _ = started.send(pid);
    });
    supervise::stop_passing_signals();
    match recorded {
        Ok(recorded) => Ok(recorded),
        Err(error) => {
            prepared.restore();
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_comes_first_in_the_preload_list() {
        let runtime = Path::new("/lib/rt.so");
        assert_eq!(preload(runtime, None), Some("/lib/rt.so".into()));
        assert_eq!(
            preload(runtime, Some("a.so b.so".into())),
            Some("/lib/rt.so:a.so b.so".into())
        );
        assert_eq!(preload(Path::new("/my lib/rt.so"), None), None);
    }

    #[test]
    fn patterns_are_joined_unless_they_contain_the_separator() {
        assert_eq!(joined(&["a*".into(), "b".into()]).unwrap(), "a*:b");
        assert!(joined(&["a:b".into()]).is_err());
    }
}
