//! `crashpoint doctor`: is everything here that Crashpoint needs, and if not, what to do.

use std::path::{Path, PathBuf};
use std::process::Command;

use crashpoint_install::{self as install, Mode};

use crate::exit::{Ending, Exit};
use crate::output::Output;
use crate::summary::bytes_text;

/// Pools of tests and examples are this large.
const ENOUGH_BYTES: u64 = 1 << 30;

/// What one look has shown.
enum Found {
    Fine(String),
    /// It works, but.
    Remark(String),
    Missing(String),
}

use Found::{Fine, Missing, Remark};

/// The command.
pub fn run(output: &mut Output) -> std::io::Result<Ending> {
    let mut complete = true;
    for (name, found) in looks() {
        let line = match found {
            Fine(text) => format!("  ok       {name}: {text}\n"),
            Remark(text) => format!("  note     {name}: {text}\n"),
            Missing(text) => {
                complete = false;
                format!("  missing  {name}: {text}\n")
            }
        };
        output.print(&line)?;
    }
    Ok(if complete {
        Exit::Clean.into()
    } else {
        Exit::Usage.into()
    })
}

fn looks() -> Vec<(&'static str, Found)> {
    vec![
        ("machine", machine()),
        ("processor", processor()),
        ("clang", clang(Mode::C)),
        ("clang++", clang(Mode::Cxx)),
        ("plugin", library(install::PLUGIN)),
        ("runtime", library(install::RUNTIME_SHARED)),
        ("library for watching", library(install::SYSCALLBUF)),
        ("static runtime", library(install::RUNTIME_STATIC)),
        ("compiler drivers", drivers()),
        ("memory file system", shared_memory()),
    ]
}

fn machine() -> Found {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Fine("Linux on x86-64".into()),
        (system, machine) => Missing(format!("{system} on {machine}; Linux on x86-64 is needed")),
    }
}

fn processor() -> Found {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap_or_default();
    let lacks: Vec<&str> = ["clflush", "clflushopt", "clwb"]
        .into_iter()
        .filter(|wanted| !flags.split_whitespace().any(|flag| flag == *wanted))
        .collect();
    match lacks.as_slice() {
        [] => Fine("has clflush, clflushopt and clwb".into()),
        lacks => Remark(format!(
            "has no {}; programs that use it cannot run",
            lacks.join(", ")
        )),
    }
}

fn clang(mode: Mode) -> Found {
    let path = match install::clang(mode, false) {
        Ok(path) => path,
        Err(error) => return Missing(error.to_string()),
    };
    let output = match Command::new(&path).arg("--version").output() {
        Ok(output) => output,
        Err(error) => return Missing(format!("cannot run {}: {error}", path.display())),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default();
    if first.contains("version 19.") {
        return Fine(format!("{} ({first})", path.display()));
    }
    Missing(format!(
        "{} is `{first}`; the plugin is for version 19 (`apt install clang-19`)",
        path.display()
    ))
}

fn library(file: &'static str) -> Found {
    match install::library(file) {
        Ok(path) => Fine(path.display().to_string()),
        Err(error) => Missing(error.to_string()),
    }
}

/// Our compiler driver, which lies beside this program.
pub fn driver(mode: Mode) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?;
    let driver = beside.with_file_name(mode.name());
    driver.is_file().then_some(driver)
}

/// Builds and runs the smallest program, at level off.
fn drivers() -> Found {
    for mode in [Mode::C, Mode::Cxx] {
        let Some(driver) = driver(mode) else {
            return Missing(format!("{} is not beside this program", mode.name()));
        };
        if let Err(reason) = try_driver(&driver, mode) {
            return Missing(reason);
        }
    }
    Fine("build a program that runs".into())
}

fn try_driver(driver: &Path, mode: Mode) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let source = folder.path().join(match mode {
        Mode::C => "probe.c",
        Mode::Cxx => "probe.cc",
    });
    let program = folder.path().join("probe");
    std::fs::write(&source, "int main() { return 0; }\n").map_err(|error| error.to_string())?;
    let built = Command::new(driver)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output();
    let built = built.map_err(|error| format!("cannot run {}: {error}", driver.display()))?;
    if !built.status.success() {
        let message = String::from_utf8_lossy(&built.stderr);
        return Err(format!("{} fails: {}", driver.display(), message.trim()));
    }
    match Command::new(&program).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!(
            "a program built by {} ends with {status}",
            driver.display()
        )),
        Err(error) => Err(format!("a program built by {}: {error}", driver.display())),
    }
}

fn shared_memory() -> Found {
    let folder = Path::new("/dev/shm");
    if tempfile::tempfile_in(folder).is_err() {
        return Remark("/dev/shm cannot be written; keep pools elsewhere, which is slower".into());
    }
    match rustix::fs::statvfs(folder) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let text = format!("/dev/shm has {} free", bytes_text(free));
            if free >= ENOUGH_BYTES {
                Fine(text)
            } else {
                Remark(format!(
                    "{text}; the demo and the corpus want 1 GiB of addresses"
                ))
            }
        }
        Err(error) => Remark(format!("/dev/shm: {error}")),
    }
}
