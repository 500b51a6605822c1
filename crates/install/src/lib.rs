//! Where clang, the plugin, the runtime and our headers are.
//!
//! The compiler drivers put them on a command line, the tool itself preloads the runtime and says in
//! `crashpoint doctor` what is missing. Both look in the same folders: the one that [`LIB_DIR`]
//! names, or those around the running program.
//!
//! **Architecture invariant:** depends on nothing of ours; reads the environment and asks whether
//! files exist, no more.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The C compiler to run, instead of `clang-19` in `PATH`.
pub const CLANG: &str = "CRASHPOINT_CLANG";
/// The C++ compiler to run, instead of `clang++-19` in `PATH`.
pub const CLANGXX: &str = "CRASHPOINT_CLANGXX";
/// Where the plugin and the runtime are, instead of beside the program.
pub const LIB_DIR: &str = "CRASHPOINT_LIB_DIR";

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
        LIB_DIR
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
        Mode::C => &[(CLANG, "clang-19")],
        Mode::Cxx => &[(CLANGXX, "clang++-19"), (CLANG, "clang-19")],
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

/// Finds one of our libraries by its file name.
pub fn library(file: &'static str) -> Result<PathBuf, LocateError> {
    library_in(&own_folders(), file)
}

/// Finds the folder of `crashpoint.h`.
pub fn headers() -> Option<PathBuf> {
    headers_in(&own_folders())
}

/// Finds the folder of `crashpoint.h` below one of these.
pub fn headers_in(folders: &[PathBuf]) -> Option<PathBuf> {
    let mut candidates = folders.iter().map(|folder| folder.join(HEADER));
    let header = candidates.find(|path| path.is_file())?;
    header.parent().map(Path::to_owned)
}

/// Where libraries are looked for.
pub fn own_folders() -> Vec<PathBuf> {
    let program = env::current_exe().ok();
    folders(program.as_deref(), env::var_os(LIB_DIR))
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
        // Tests and examples lie in folders of their own, below what is built.
        if beside.ends_with("deps") || beside.ends_with("examples") {
            folders.push(above.to_owned());
        }
        folders.push(above.join("lib/crashpoint"));
    }
    folders
}

/// Finds one of our libraries in one of these folders.
pub fn library_in(folders: &[PathBuf], file: &'static str) -> Result<PathBuf, LocateError> {
    let mut candidates = folders.iter().map(|folder| folder.join(file));
    let found = candidates.find(|path| path.is_file());
    found.ok_or_else(|| LocateError::NoLibrary {
        file,
        folders: folders.to_owned(),
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
        for below in ["deps", "examples"] {
            let program = Path::new("/x/release").join(below).join("test");
            assert!(folders(Some(&program), None).contains(&"/x/release".into()));
        }
    }

    #[test]
    fn a_missing_library_is_named_with_where_it_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let folders = vec![folder.path().to_owned()];
        let text = library_in(&folders, PLUGIN).unwrap_err().to_string();
        assert!(
            text.starts_with("libcrashpoint_instrument.so is missing"),
            "{text}"
        );
        assert!(
            text.contains(&folder.path().display().to_string()),
            "{text}"
        );

        let plugin = folder.path().join(PLUGIN);
        std::fs::write(&plugin, "").unwrap();
        assert_eq!(library_in(&folders, PLUGIN).unwrap(), plugin);
    }
}
