//! Where clang, the plugin, the runtime and our headers are.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::analysis::Runtime;

/// File name of the plugin.
pub const PLUGIN: &str = "libcrashpoint_instrument.so";
/// File name of the runtime as a shared library.
pub const RUNTIME_SHARED: &str = "libcrashpoint_rt.so";
/// File name of what is preloaded into watched programs.
pub const SYSCALLBUF: &str = "libcrashpoint_syscallbuf.so";
/// File name of the runtime as an archive.
pub const RUNTIME_STATIC: &str = "libcrashpoint_rt.a";

/// What the folder of headers holds, below the folder of the libraries.
const HEADER: &str = "include/crashpoint.h";

/// Which driver this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    C,
    Cxx,
}

impl Mode {
    /// By the name the program was called, as clang does: `crashpoint-c++`, `crashpoint-cxx`.
    pub fn of_program(name: Option<&OsStr>) -> Mode {
        let name = name.map(Path::new).and_then(Path::file_stem);
        match name.map(OsStr::to_string_lossy) {
            Some(name) if name.ends_with("++") || name.ends_with("xx") => Mode::Cxx,
            _ => Mode::C,
        }
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Mode::C => "crashpoint-cc",
            Mode::Cxx => "crashpoint-c++",
        }
    }
}

/// What the driver needs beside clang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libraries {
    pub plugin: PathBuf,
    /// As the command line wants it; none where nothing is linked to it.
    pub runtime: Option<PathBuf>,
    /// The folder of `crashpoint.h`. A program that does not include it needs none.
    pub headers: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    #[error(
        "{name} is not in PATH; install it (Debian, Ubuntu: `apt install clang-19 llvm-19`) \
         or set {variable} to its path"
    )]
    NoClang {
        name: &'static str,
        variable: &'static str,
    },
    #[error("{variable} is set to `{}`, which {problem}", path.display())]
    BadOverride {
        variable: &'static str,
        path: PathBuf,
        problem: &'static str,
    },
    #[error(
        "{file} is missing; looked in {}. Build it (`cargo build --workspace`) or set {} to the \
         folder that holds it",
        folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", "),
        crate::LIB_DIR
    )]
    NoLibrary {
        file: &'static str,
        folders: Vec<PathBuf>,
    },
}

/// Finds clang. `nested`: a driver has already been here, so the override is what called us.
pub fn clang(mode: Mode, nested: bool) -> Result<PathBuf, LocateError> {
    let ourselves = env::current_exe().ok();
    let is_us = |path: &Path| ourselves.is_some() && path.canonicalize().ok() == ourselves;
    let candidates: &[(&str, &str)] = match mode {
        Mode::C => &[(crate::CLANG, "clang-19")],
        Mode::Cxx => &[(crate::CLANGXX, "clang++-19"), (crate::CLANG, "clang-19")],
    };
    for &(variable, name) in candidates {
        let chosen = env::var_os(variable).filter(|path| !path.is_empty() && !nested);
        if let Some(chosen) = chosen {
            return resolve_override(variable, &chosen, is_us);
        }
        if let Some(found) = in_path(OsStr::new(name), is_us) {
            return Ok(found);
        }
    }
    let (variable, name) = candidates[0];
    Err(LocateError::NoClang { name, variable })
}

fn resolve_override(
    variable: &'static str,
    chosen: &OsStr,
    is_us: impl Fn(&Path) -> bool,
) -> Result<PathBuf, LocateError> {
    let bad = |problem| LocateError::BadOverride {
        variable,
        path: chosen.into(),
        problem,
    };
    let path = if chosen.as_encoded_bytes().contains(&b'/') {
        PathBuf::from(chosen)
    } else {
        in_path(chosen, |_| false).ok_or_else(|| bad("is not in PATH"))?
    };
    if !path.is_file() {
        return Err(bad("is not a file"));
    }
    if is_us(&path) {
        return Err(bad("is this driver itself; name the clang it should run"));
    }
    Ok(path)
}

/// The first executable of that name in `PATH`, apart from those to skip.
fn in_path(name: &OsStr, skip: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| {
            let metadata = file.metadata();
            metadata.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
                && !skip(file)
        })
}

/// Finds the plugin, and the runtime where it is wanted.
pub fn libraries(runtime: Runtime) -> Result<Libraries, LocateError> {
    libraries_in(&own_folders(), runtime)
}

/// Finds one of our libraries by its file name.
pub fn library(file: &'static str) -> Result<PathBuf, LocateError> {
    library_in(&own_folders(), file)
}

/// Finds the folder of `crashpoint.h`.
pub fn headers() -> Option<PathBuf> {
    headers_in(&own_folders())
}

fn headers_in(folders: &[PathBuf]) -> Option<PathBuf> {
    let mut candidates = folders.iter().map(|folder| folder.join(HEADER));
    let header = candidates.find(|path| path.is_file())?;
    header.parent().map(Path::to_owned)
}

fn own_folders() -> Vec<PathBuf> {
    let program = env::current_exe().ok();
    folders(program.as_deref(), env::var_os(crate::LIB_DIR))
}

/// Where libraries may lie: beside the program (also as cargo lays them out), or installed.
pub fn folders(program: Option<&Path>, chosen: Option<OsString>) -> Vec<PathBuf> {
    if let Some(chosen) = chosen.filter(|folder| !folder.is_empty()) {
        let chosen = PathBuf::from(chosen);
        // It becomes an rpath, which must not depend on where the target is started.
        return vec![std::path::absolute(&chosen).unwrap_or(chosen)];
    }
    let Some(beside) = program.and_then(Path::parent) else {
        return Vec::new();
    };
    let mut folders = vec![beside.to_owned(), beside.join("deps")];
    if let Some(above) = beside.parent() {
        if beside.ends_with("deps") {
            folders.push(above.to_owned());
        }
        folders.push(above.join("lib/crashpoint"));
    }
    folders
}

fn library_in(folders: &[PathBuf], file: &'static str) -> Result<PathBuf, LocateError> {
    let mut candidates = folders.iter().map(|folder| folder.join(file));
    let found = candidates.find(|path| path.is_file());
    found.ok_or_else(|| LocateError::NoLibrary {
        file,
        folders: folders.to_owned(),
    })
}

fn libraries_in(folders: &[PathBuf], runtime: Runtime) -> Result<Libraries, LocateError> {
    Ok(Libraries {
        plugin: library_in(folders, PLUGIN)?,
        runtime: match runtime {
            Runtime::None => None,
            Runtime::Shared => Some(library_in(folders, RUNTIME_SHARED)?),
            Runtime::Static => Some(library_in(folders, RUNTIME_STATIC)?),
        },
        headers: headers_in(folders),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_chooses_the_language() {
        for (name, mode) in [
            ("crashpoint-cc", Mode::C),
            ("/usr/bin/crashpoint-c++", Mode::Cxx),
            ("crashpoint-cxx", Mode::Cxx),
        ] {
            assert_eq!(Mode::of_program(Some(OsStr::new(name))), mode, "{name}");
        }
        assert_eq!(Mode::of_program(None), Mode::C);
    }

    #[test]
    fn a_chosen_folder_is_the_only_one() {
        assert_eq!(
            folders(Some(Path::new("/x/bin/cc")), Some("/libs".into())),
            [Path::new("/libs")]
        );
        assert_eq!(
            folders(Some(Path::new("/x/bin/cc")), None),
            ["/x/bin", "/x/bin/deps", "/x/lib/crashpoint"].map(Path::new)
        );
    }

    #[test]
    fn a_missing_library_is_named_with_where_it_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let folders = vec![folder.path().to_owned()];
        let error = libraries_in(&folders, Runtime::None).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("libcrashpoint_instrument.so is missing")
        );
        assert!(
            error
                .to_string()
                .contains(&folder.path().display().to_string())
        );

        std::fs::write(folder.path().join(PLUGIN), "").unwrap();
        assert!(libraries_in(&folders, Runtime::None).is_ok());
        let error = libraries_in(&folders, Runtime::Static).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("libcrashpoint_rt.a is missing")
        );
    }
}
