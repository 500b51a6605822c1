//! `crashpoint.h`: as C and as C++, by every compiler that a target may be built with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{DRIVER, Folder};

/// Both C and C++; the list of operations lies in memory, the pool is a name.
const PROGRAM: &str = r#"
#define CRASHPOINT_MAIN
#include <crashpoint.h>

void crashpoint_open(const char *pool) {
    printf("open %s\n", pool);
}

void crashpoint_apply(const char *operation) {
    unsigned number;
    if (sscanf(operation, " twice %u", &number) != 1) {
        crashpoint_reject("not an operation");
    }
    printf("%u\n", 2 * number);
    if (number == 99) {
        abort();
    }
}

void crashpoint_close(void) {
    puts("close");
}
"#;

/// Another file of the same program: nothing but declarations.
const OTHER: &str = "#include <crashpoint.h>\nvoid other(void);\nvoid other(void) {}\n";

struct Stage {
    folder: Folder,
}

impl Stage {
    fn new() -> Stage {
        let files = [
            ("a.c", PROGRAM),
            ("a.cc", PROGRAM),
            ("b.c", OTHER),
            ("b.cc", OTHER),
        ];
        Stage {
            folder: Folder::with(&files),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    fn run(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        let command = command.args(arguments).current_dir(self.folder.path());
        command.output().unwrap()
    }

    fn build(&self, compiler: &str, options: &[&str]) -> PathBuf {
        let program = self.path("program");
        let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        let mut line = vec!["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"];
        // Not as headers of the system, in which compilers overlook much.
        line.extend(["-I", headers.to_str().unwrap(), "-o", "program"]);
        line.extend(options);
        let built = self.run(compiler, &line);
        assert!(built.status.success(), "{compiler} {options:?}: {built:?}");
        program
    }

    fn operations(&self, program: &Path, operations: &[u8]) -> (String, String, Option<i32>) {
        fs::write(self.path("ops"), operations).unwrap();
        let ran = self.run(program, &["pool", "ops"]);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(ran.stdout), text(ran.stderr), ran.status.code())
    }
}

#[test]
fn every_compiler_takes_it_without_a_warning() {
    for (compiler, options) in [
        ("gcc", ["-std=c11", "a.c", "b.c"]),
        ("clang-19", ["-std=c11", "a.c", "b.c"]),
        ("gcc", ["-std=gnu17", "a.c", "b.c"]),
        ("g++", ["-std=c++17", "a.cc", "b.cc"]),
        ("clang++-19", ["-std=c++17", "a.cc", "b.cc"]),
    ] {
        let stage = Stage::new();
        let program = stage.build(compiler, &options);
        let list = b"# a list\n\ntwice 4\n  # indented\n \t\n twice 5 \r\ntwice 6";
        let (stdout, stderr, code) = stage.operations(&program, list);
        assert_eq!(stdout, "open pool\n8\n10\n12\nclose\n", "{compiler}");
        assert_eq!((stderr.as_str(), code), ("", Some(0)), "{compiler}");
    }
}

#[test]
fn what_was_applied_has_been_printed() {
    let stage = Stage::new();
    let program = stage.build("clang-19", &["a.c"]);
    let (stdout, _, code) = stage.operations(&program, b"twice 1\ntwice 99\ntwice 2\n");
    // What the operation that ended badly has printed may be lost with it.
    assert_eq!((stdout.as_str(), code), ("open pool\n2\n", None));
}

#[test]
fn what_cannot_be_read_is_named_with_its_line() {
    let stage = Stage::new();
    let program = stage.build("clang-19", &["a.c"]);
    for (list, said) in [
        (
            &b"# x\ntwice 1\nthrice 2\n"[..],
            "ops:3: not an operation\n",
        ),
        (b"twice 1\0\n", "ops:1: the line holds a zero byte\n"),
        (b"\ntwice\0 1\r\n", "ops:2: the line holds a zero byte\n"),
    ] {
        let (_, stderr, code) = stage.operations(&program, list);
        assert_eq!((stderr.as_str(), code), (said, Some(1)));
    }
    let stderr = |arguments: &[&str]| {
        let ran = stage.run(&program, arguments);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0));
        String::from_utf8(ran.stderr).unwrap()
    };
    assert_eq!(
        stderr(&["pool", "none"]),
        "none: No such file or directory\n"
    );
    assert_eq!(stderr(&["pool", "."]), ".: Is a directory\n");
    assert!(stderr(&["pool"]).starts_with("usage: "));
}

#[test]
fn a_long_list_is_read_to_its_end() {
    let stage = Stage::new();
    let program = stage.build("clang-19", &["a.c"]);
    let list = "twice 3                                        \n".repeat(5000);
    let (stdout, _, code) = stage.operations(&program, list.as_bytes());
    assert_eq!((stdout.lines().count(), code), (5002, Some(0)));
}

#[test]
fn the_driver_finds_it_even_where_no_code_is_made() {
    let stage = Stage::new();
    for line in [["-fsyntax-only", "a.c"], ["-E", "a.c"], ["-MM", "a.c"]] {
        let mut command = Command::new(DRIVER);
        command.args(line).current_dir(stage.folder.path());
        let output = command.env_remove("CRASHPOINT_LIB_DIR").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}
