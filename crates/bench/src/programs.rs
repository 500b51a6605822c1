//! The corpus's stores as benchmark programs, and how each compiler builds them.

use crate::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    Clang,
    Crashpoint,
}

impl Compiler {
    /// The command for a source file, by its language.
    pub fn command(self, source: &Path) -> Result<Command, Error> {
        let cxx = source
            .extension()
            .is_some_and(|extension| extension == "cpp");
        Ok(match (self, cxx) {
            (Compiler::Clang, false) => Command::new("clang-19"),
            (Compiler::Clang, true) => Command::new("clang++-19"),
            (Compiler::Crashpoint, false) => Command::new(tool("crashpoint-cc")?),
            (Compiler::Crashpoint, true) => Command::new(tool("crashpoint-c++")?),
        })
    }
}

/// A program of ours that was built beside this one.
pub fn tool(name: &str) -> Result<PathBuf, Error> {
    let path = std::env::current_exe()?.with_file_name(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} is not built", path.display()).into())
    }
}

/// The corpus's stores, sorted by name.
pub fn stores() -> Result<Vec<PathBuf>, Error> {
    let folder = Path::new("corpus/stores");
    let mut sources: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|error| {
            format!(
                "{}: {error}; run this from the repository",
                folder.display()
            )
        })?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    sources.retain(|path| path.extension().is_some_and(|e| e == "c" || e == "cpp"));
    sources.sort();
    Ok(sources)
}

pub fn name_of(source: &Path) -> String {
    source
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The variants that a source declares by `#ifdef BUG_…`, sorted.
pub fn variants(source: &Path) -> Result<Vec<String>, Error> {
    let text = std::fs::read_to_string(source)?;
    let mut names: Vec<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("BUG_"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// One of the stores, built in a folder, and its settings.
pub fn two_level_hash(folder: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let stores = Path::new("corpus/stores").canonicalize()?;
    let store = folder.join("store");
    let flags = [format!("-I{}", stores.display())];
    let source = stores.join("two_level_hash.c");
    build(Compiler::Crashpoint, &source, &flags, &store)?;
    Ok((store, stores.join("two_level_hash.toml")))
}

/// Compiles and links one source at the optimisation that the bars are stated for.
pub fn build(compiler: Compiler, source: &Path, flags: &[String], to: &Path) -> Result<(), Error> {
    let status = compiler
        .command(source)?
        .args(["-O2", "-g", "-pthread"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(to)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} does not build by {compiler:?}", source.display()).into())
    }
}
