//! The drivers as programs, with a script in the place of clang that prints what it is given.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{DRIVER, Folder};

/// A folder with stand-ins for clang, the plugin and the runtime.
struct Stage {
    folder: Folder,
}

impl Stage {
    fn new() -> Stage {
        let libraries = [
            "libcrashpoint_instrument.so",
            "libcrashpoint_rt.so",
            "libcrashpoint_rt.a",
        ];
        let stage = Stage {
            folder: Folder::with(&libraries.map(|library| (library, ""))),
        };
        stage.script("clang-19", "printf '%s\\n' \"$@\"");
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Another process writes the script: were it open for writing here while a test on another
    /// thread forks, starting it could fail with "text file busy".
    fn script(&self, name: &str, body: &str) {
        let source = self.path("script.sh");
        fs::write(&source, format!("#!/bin/sh\n{body}\n")).unwrap();
        let mut install = Command::new("install");
        install.args(["-m", "755"]).arg(source).arg(self.path(name));
        assert!(install.status().unwrap().success());
    }

    fn driver(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(DRIVER);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.folder.path().display()),
            )
            .env("CRASHPOINT_LIB_DIR", self.folder.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.driver(arguments).output().unwrap()
    }
}

fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_plugin_is_added_and_the_line_kept() {
    let stage = Stage::new();
    let plugin = stage.path("libcrashpoint_instrument.so");
    assert_eq!(
        lines(&stage.run(&["-c", "a b.c", "-DX=\"y\""])),
        [
            "--start-no-unused-arguments",
            "-g",
            &format!("-fpass-plugin={}", plugin.display()),
            "--end-no-unused-arguments",
            "-c",
            "a b.c",
            "-DX=\"y\"",
        ]
    );
}

#[test]
fn the_headers_are_found_beside_the_libraries() {
    let stage = Stage::new();
    fs::create_dir(stage.path("include")).unwrap();
    fs::write(stage.path("include/crashpoint.h"), "").unwrap();
    let folder = stage.path("include").display().to_string();
    for line in [["-c", "a.c"], ["-E", "a.c"]] {
        let given = lines(&stage.run(&line));
        let at = given.iter().position(|argument| argument == "-idirafter");
        assert_eq!(given[at.unwrap() + 1], folder);
        assert!(given.ends_with(&line.map(str::to_owned)), "{given:?}");
    }
    assert_eq!(lines(&stage.run(&["-dumpmachine"])), ["-dumpmachine"]);
}

#[test]
fn response_files_are_understood_and_passed_on() {
    let stage = Stage::new();
    fs::write(stage.path("outer"), "@inner 'a b.c'").unwrap();
    fs::write(stage.path("inner"), "-g1 -c").unwrap();
    let given = lines(&stage.run(&["@outer"]));
    assert_eq!(given.last().map(String::as_str), Some("@outer"));
    assert!(!given.contains(&"-g".to_owned()));
    assert!(!given.iter().any(|argument| argument.contains("_rt")));
}

#[test]
fn plain_requests_pass_untouched() {
    let stage = Stage::new();
    for line in [
        &["-E", "a.c"][..],
        &["-dumpmachine"],
        &["-v"],
        &["-Wl,--version"],
    ] {
        assert_eq!(lines(&stage.run(line)), line);
    }
    let mut disabled = stage.driver(&["a.c"]);
    disabled.env("CRASHPOINT_CC_DISABLE", "1");
    assert_eq!(lines(&disabled.output().unwrap()), ["a.c"]);
}

#[test]
fn plain_requests_need_no_libraries() {
    let stage = Stage::new();
    fs::remove_file(stage.path("libcrashpoint_instrument.so")).unwrap();
    assert_eq!(lines(&stage.run(&["-E", "a.c"])), ["-E", "a.c"]);
    let message = error(&stage.run(&["-c", "a.c"]));
    let expected = "crashpoint-cc: error: libcrashpoint_instrument.so is missing";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn exit_status_and_signal_are_clangs() {
    let stage = Stage::new();
    stage.script("clang-19", "exit 42");
    assert_eq!(stage.run(&["a.c"]).status.code(), Some(42));
    stage.script("clang-19", "kill -SEGV $$");
    assert_eq!(stage.run(&["a.c"]).status.signal(), Some(11));
}

#[test]
fn the_name_chooses_the_language() {
    let stage = Stage::new();
    stage.script("clang++-19", "echo cxx \"$@\"");
    let mut command = stage.driver(&["-E", "a.cc"]);
    command.arg0("/usr/bin/crashpoint-c++");
    assert_eq!(lines(&command.output().unwrap()), ["cxx -E a.cc"]);
}

#[test]
fn the_version_is_clangs_with_a_line_of_ours() {
    let stage = Stage::new();
    stage.script("clang-19", "echo clang version 19.1.7");
    let ours = format!("crashpoint-cc {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        lines(&stage.run(&["--version"])),
        ["clang version 19.1.7", &ours]
    );
}

#[test]
fn a_wrapper_that_calls_the_driver_again_ends_in_plain_clang() {
    let stage = Stage::new();
    stage.script("wrapper", &format!("exec {DRIVER} \"$@\""));
    let mut command = stage.driver(&["-c", "a.c"]);
    command.env("CRASHPOINT_CLANG", stage.path("wrapper"));
    let given = lines(&command.output().unwrap());
    let plugins = given
        .iter()
        .filter(|a| a.starts_with("-fpass-plugin="))
        .count();
    assert_eq!(plugins, 1, "{given:?}");
}

#[test]
fn a_driver_in_the_place_of_clang_is_skipped_or_refused() {
    let stage = Stage::new();
    let masked = Folder::with(&[]);
    let link = masked.path().join("clang-19");
    std::os::unix::fs::symlink(DRIVER, &link).unwrap();

    let mut command = stage.driver(&["-E", "a.c"]);
    command.env("PATH", path_list(&[masked.path(), stage.folder.path()]));
    assert_eq!(lines(&command.output().unwrap()), ["-E", "a.c"]);

    let mut command = stage.driver(&["-E", "a.c"]);
    command.env("CRASHPOINT_CLANG", &link);
    let message = error(&command.output().unwrap());
    assert!(message.contains("is this driver itself"), "{message}");
}

#[test]
fn a_missing_clang_comes_with_what_to_install() {
    let stage = Stage::new();
    let empty = Folder::with(&[]);
    let mut command = stage.driver(&["a.c"]);
    command.env("PATH", empty.path());
    let message = error(&command.output().unwrap());
    assert!(message.contains("apt install clang-19"), "{message}");

    let mut command = stage.driver(&["a.c"]);
    command.env("CRASHPOINT_CLANG", "/nowhere/clang");
    let message = error(&command.output().unwrap());
    assert!(message.contains("is not a file"), "{message}");
}

fn path_list(folders: &[&Path]) -> std::ffi::OsString {
    std::env::join_paths(
        folders
            .iter()
            .chain([&Path::new("/usr/bin"), &Path::new("/bin")]),
    )
    .unwrap()
}
