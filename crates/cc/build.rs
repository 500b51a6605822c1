//! Makes `crashpoint-c++` a link to `crashpoint-cc` in the folder of built programs.
//!
//! Cargo refuses a program name with `+` in it. Both drivers are one program that looks at the name
//! it was called by, as clang itself does; an installer makes the same link.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        return;
    };
    // <target>/<profile>/build/<package>/out
    let Some(profile) = out.ancestors().nth(3) else {
        return;
    };
    link(profile);
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
