//! Building programs with and without the plugin, running them under the stub runtime, and reading
//! what they reported.
#![expect(dead_code, reason = "each test file uses a part")]

pub mod log;
pub mod replay;

use crashpoint_ir::{ModelId, Module};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub const OPTIMIZATIONS: [&str; 4] = ["-O0", "-O1", "-O2", "-O3"];

/// The plugin that cargo built beside this test.
pub fn plugin() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test.parent().expect("it lies in a folder");
    let name = "libcrashpoint_instrument.so";
    [folder.join(name), folder.join("..").join(name)]
        .into_iter()
        .find(|path| path.exists())
        .expect("cargo builds the plugin before its tests")
}

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

pub fn program(name: &str) -> PathBuf {
    tests_folder().join("programs").join(name)
}

/// A folder to build in, with the stub runtime compiled.
pub struct Shop {
    pub folder: TempDir,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub stdout: String,
    pub code: Option<i32>,
}

impl Shop {
    pub fn new() -> Shop {
        let shop = Shop {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let stub = tests_folder().join("stub_rt.c");
        shop.run(
            Command::new("clang-19")
                .args(["-g", "-O1", "-fPIC", "-shared", "-pthread", "-o"])
                .arg(shop.path("libstub.so"))
                .arg(stub),
        );
        shop
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command that must succeed.
    pub fn run(&self, command: &mut Command) -> Output {
        let output = command
            .current_dir(self.folder.path())
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(
            output.status.success(),
            "{command:?}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    /// clang for a source, C or C++ by its name.
    pub fn native(&self, source: &Path) -> Command {
        let cpp = source.extension().is_some_and(|e| e == "cpp");
        let mut command = Command::new(if cpp { "clang++-19" } else { "clang-19" });
        command.arg("-g").current_dir(self.folder.path());
        command
    }

    /// The same with the plugin; LLVM's verifier checks the result.
    pub fn hooked(&self, source: &Path) -> Command {
        let mut command = self.native(source);
        let mut option = std::ffi::OsString::from("-fpass-plugin=");
        option.push(plugin());
        command.arg(option).env("CRASHPOINT_VERIFY", "1");
        command
    }

    /// Options that link the stub runtime.
    pub fn link(&self, command: &mut Command) {
        let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
        rpath.push(self.folder.path());
        command
            .arg(self.path("libstub.so"))
            .arg(rpath)
            .args(["-pthread", "-lm"]);
    }

    /// Compiles and links one source file.
    pub fn build(&self, source: &Path, name: &str, hooked: bool, options: &[&str]) -> PathBuf {
        let mut command = if hooked {
            self.hooked(source)
        } else {
            self.native(source)
        };
        let binary = self.path(name);
        command.args(options).arg(source).arg("-o").arg(&binary);
        self.link(&mut command);
        self.run(&mut command);
        binary
    }

    pub fn execute(&self, binary: &Path, level: u32, extra: &[(&str, &str)]) -> Ran {
        let log = self.path("log");
        for entry in std::fs::read_dir(self.folder.path()).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            if path
                .file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("log"))
            {
                std::fs::remove_file(path).expect("a log can be removed");
            }
        }
        let output = Command::new(binary)
            .env("STUB_LEVEL", level.to_string())
            .env("STUB_LOG", &log)
            .envs(extra.iter().copied())
            .current_dir(self.folder.path())
            .output()
            .expect("the program starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !stderr.contains("stub:"),
            "{} at level {level}: {stderr}",
            binary.display()
        );
        Ran {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            code: output.status.code(),
        }
    }

    pub fn models(&self, binaries: &[&Path]) -> HashMap<ModelId, Module> {
        binaries
            .iter()
            .flat_map(|path| crashpoint_ir::elf::models(path).expect("models can be read"))
            .map(|embedded| embedded.decode().expect("a model can be decoded"))
            .collect()
    }

    pub fn read_log<'a>(&self, models: &'a HashMap<ModelId, Module>) -> log::Log<'a> {
        log::Log::read(&self.path("log"), models)
    }
}

/// Builds a program natively and hooked at every optimisation level, runs it at every recording
/// level, and checks that it behaves the same, that every recording has the same events, and that
/// the flow stream can be walked over the model. Returns the events.
pub fn check(name: &str, options: &[&str]) -> Vec<String> {
    check_with(name, options, &[])
}

pub fn check_with(name: &str, options: &[&str], extra: &[(&str, &str)]) -> Vec<String> {
    let shop = Shop::new();
    let source = program(name);
    let mut events: Option<Vec<String>> = None;
    for optimization in OPTIMIZATIONS {
        let options: Vec<&str> = [optimization].iter().chain(options).copied().collect();
        let native = shop.build(&source, "native", false, &options);
        let expected = shop.execute(&native, 0, extra);
        let binary = shop.build(&source, "hooked", true, &options);
        let models = shop.models(&[&binary]);
        for level in 0..=3 {
            let ran = shop.execute(&binary, level, extra);
            assert_eq!(ran, expected, "{name} {optimization} at level {level}");
            if level == 0 {
                continue;
            }
            let log = shop.read_log(&models);
            let here = log.describe();
            match &events {
                None => events = Some(here),
                Some(events) => assert_eq!(&here, events, "{name} {optimization} level {level}"),
            }
            if level >= 2 {
                replay::walk(&log, &shop.path("log"), &models, level);
            }
        }
    }
    events.expect("there are recording levels")
}

/// Compares events with the file of expected ones; `CRASHPOINT_BLESS=1` writes the file anew.
pub fn expect(name: &str, events: &[String]) {
    let path = tests_folder().join("expected").join(name);
    let found: String = events.iter().map(|event| format!("{event}\n")).collect();
    if std::env::var_os("CRASHPOINT_BLESS").is_some() {
        std::fs::write(&path, &found).expect("the expected events can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} differs; CRASHPOINT_BLESS=1 accepts it. Found:\n{found}",
        path.display()
    );
}
