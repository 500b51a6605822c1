//! The target before any crash: built, given a pool, run twice, and recorded.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crashpoint_abi::Level;
use crashpoint_check::process::launch::{self, Launch, Paths};
use crashpoint_check::process::server::ServerError;
use crashpoint_install as install;

use crate::record::RecordError;
use crate::settings::Settings;
use crate::settings::template::{Placeholder, Template, Word};
use crate::strategies;

/// A workload that takes longer than this without any crash hangs.
pub const WORKLOAD: Duration = Duration::from_secs(600);

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("the build failed: `{command}` {end}")]
    Build { command: String, end: String },
    #[error("could not start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("without any crash, `{program}` {end}{said}")]
    Fails {
        program: String,
        end: String,
        /// Lines of its standard error.
        said: String,
    },
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
    Server(ServerError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Locate(#[from] install::LocateError),
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
        "operations of several threads run at once that stand on lines of their own: put those that \
         run at once on one line, with `||` between them, and start no other before all of them have \
         returned"
    )]
    Overlapping,
}

pub fn io_error(path: &Path) -> impl FnOnce(io::Error) -> TargetError + '_ {
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
    if status.success() {
        return Ok(());
    }
    Err(TargetError::Build {
        command: line.clone(),
        end: format!("ended with {status}"),
    })
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
    let values: [(Placeholder, &OsStr); 4] = [
        (Placeholder::Pool, paths.pool.as_os_str()),
        (Placeholder::Dir, paths.pool.as_os_str()),
        (Placeholder::Ops, paths.ops.as_os_str()),
        (Placeholder::Printed, paths.printed.as_os_str()),
    ];
    launch::Command {
        words: template.fill(&values),
        directory: template.folder().to_owned(),
    }
}

/// The settings to record a run on a pool with.
pub fn recording_settings(settings: &Settings, pool: &Path) -> Settings {
    let mut recorded = settings.clone();
    recorded.record.pm = patterns(settings, pool);
    for function in &settings.target.operation {
        recorded.record.calls.extend(linker_globs(function));
    }
    if strategies::needs_flow(settings) {
        recorded.record.level = Some(Level::Flow);
        recorded.record.loads = true;
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
    let fill = |word: &Word| {
        let filled = word.fill(|_| pool.as_os_str().to_owned());
        filled.to_string_lossy().into_owned()
    };
    settings.target.pm.iter().map(fill).collect()
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
}
