//! Makes `crashpoint-c++` a link to `crashpoint-cc` in the folder of built programs, and puts the
//! headers there, where the drivers look for them.
//!
//! Cargo refuses a program name with `+` in it. Both drivers are one program that looks at the name
//! it was called by, as clang itself does; an installer makes the same link.

use std::io;
use std::path::{Path, PathBuf};

/// For programs under test.
const HEADER: &str = "include/crashpoint.h";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={HEADER}");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        return;
    };
    // <target>/<profile>/build/<package>/out
    let Some(profile) = out.ancestors().nth(3) else {
        return;
    };
    link(profile);
    if let Err(error) = install(profile) {
        println!("cargo::warning=could not install {HEADER}: {error}");
    }
}

/// Whoever compiles meanwhile finds the old header or the new one, never a part.
fn install(folder: &Path) -> io::Result<()> {
    let wanted = std::fs::read(HEADER)?;
    let installed = folder.join(HEADER);
    if std::fs::read(&installed).is_ok_and(|present| present == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(folder.join("include"))?;
    let part = installed.with_extension("h.part");
    std::fs::write(&part, wanted)?;
    std::fs::rename(part, installed)
}

#[cfg(unix)]
fn link(folder: &Path) {
    let link = folder.join("crashpoint-c++");
    if link.symlink_metadata().is_err()
        && let Err(error) = std::os::unix::fs::symlink("crashpoint-cc", &link)
    {
        println!("cargo::warning=could not link {}: {error}", link.display());
    }
}

#[cfg(not(unix))]
fn link(_folder: &Path) {}
