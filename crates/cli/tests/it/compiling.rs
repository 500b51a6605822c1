//! The compiler drivers with the real clang and plugin: what builds ask of a compiler, they get.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::{ACCOUNT, Run, Stage, run, succeed, tool};

/// A driver in the test's folder.
fn driver(stage: &Stage, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tool(name));
    command.args(arguments).current_dir(stage.folder.path());
    command
}

fn cc(stage: &Stage, arguments: &[&str]) -> Run {
    run(&mut driver(stage, "crashpoint-cc", arguments))
}

/// The same line by plain clang.
fn clang(stage: &Stage, arguments: &[&str]) -> Run {
    run(driver(stage, "crashpoint-cc", arguments).env("CRASHPOINT_CC_DISABLE", "1"))
}

fn stage() -> Stage {
    let stage = Stage::new();
    stage.write("account.c", ACCOUNT);
    stage.write("two.c", "int two(void) { return 2; }\n");
    stage.write(
        "main.c",
        "int two(void);\nint main(void) { return two() - 2; }\n",
    );
    stage
}

/// Silence and success: no warning that plain clang does not give.
fn builds(stage: &Stage, line: &str) {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let built = cc(stage, &arguments).ended(0);
    assert_eq!(without_static_warnings(&built.err), [""; 0], "{line}");
}

/// Of a static link: the linker says that two functions of libc, which the runtime's panic handler
/// brings along and never calls, need shared libraries. Nothing short of silencing the user's own
/// warnings keeps it from that.
fn without_static_warnings(err: &str) -> Vec<&str> {
    let known = |line: &&str| line.contains("libcrashpoint_rt.a") || line.contains("/library/std/");
    err.lines().filter(|line| !known(line)).collect()
}

fn runs(stage: &Stage, program: &str) {
    succeed(&mut Command::new(stage.path(program)));
}

#[test]
fn one_command_compiles_and_links_many_inputs() {
    let stage = stage();
    builds(&stage, "-Wall -Wextra -Werror main.c two.c -o both");
    runs(&stage, "both");
    builds(&stage, "-c main.c two.c");
    builds(&stage, "main.o two.o -o linked");
    runs(&stage, "linked");
    succeed(
        driver(&stage, "crashpoint-cc", &[])
            .arg("two.o")
            .args(["-r", "-o", "three.o"]),
    );
    builds(&stage, "main.c three.o -o mixed");
    runs(&stage, "mixed");
}

#[test]
fn every_optimisation_and_kind_of_executable_builds_and_runs() {
    let stage = stage();
    for options in [
        "-O0",
        "-O1",
        "-O2",
        "-O3",
        "-Os",
        "-Og",
        "-pie -fPIE",
        "-no-pie",
        "-static",
        "-static-pie",
        "-flto -fuse-ld=lld",
        "-fuse-ld=gold",
        "-g0",
        "-gz",
        "-Wl,--as-needed",
        "-Wl,-z,defs",
        "-fsanitize=undefined",
    ] {
        if options.contains("lld") && Command::new("ld.lld").arg("-v").output().is_err() {
            continue;
        }
        builds(
            &stage,
            &format!("-Werror {options} main.c two.c -o program"),
        );
        runs(&stage, "program");
    }
}

#[test]
fn libraries_are_built_and_used() {
    let stage = stage();
    builds(
        &stage,
        "-shared -fPIC two.c -o libtwo.so -Wl,--no-undefined",
    );
    builds(&stage, "main.c -L. -ltwo -Wl,-rpath,$ORIGIN -o shared");
    runs(&stage, "shared");
    builds(&stage, "-c two.c -o two.o");
    succeed(
        Command::new("ar")
            .args(["rcs", "libtwo.a", "two.o"])
            .current_dir(stage.folder.path()),
    );
    builds(&stage, "main.c libtwo.a -o archive");
    runs(&stage, "archive");
    stage
        .run(&["show", "--ir", "libtwo.a", "two"])
        .ended(0)
        .prints("@two");
    stage
        .run(&["show", "--ir", "libtwo.so", "two"])
        .ended(0)
        .prints("@two");
}

#[test]
fn the_model_survives_linking_and_stripping() {
    let stage = stage();
    builds(&stage, "account.c main.c two.c -Dmain=other_main -c");
    builds(&stage, "main.c two.c -o program");
    for arguments in [&["--strip-debug"][..], &["--strip-unneeded"]] {
        let mut strip = Command::new("strip");
        succeed(
            strip
                .args(arguments)
                .arg("program")
                .current_dir(stage.folder.path()),
        );
        stage
            .run(&["show", "--ir", "program", "two"])
            .ended(0)
            .prints("@two");
    }
}

#[test]
fn output_without_code_is_plain_clangs() {
    let stage = stage();
    for line in [
        "-E account.c",
        "-M account.c",
        "-MM account.c",
        "-dM -E account.c",
        "-dumpmachine",
        "-print-search-dirs",
        "-print-libgcc-file-name",
        "-fsyntax-only account.c",
    ] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let (ours, plain) = (cc(&stage, &arguments).ended(0), clang(&stage, &arguments));
        assert_eq!(ours.out, plain.out, "{line}");
        assert_eq!(ours.err, plain.err, "{line}");
    }
    for line in [
        "-MD -MF one.d -c account.c -o a.o",
        "-MMD -MF one.d -MT x -c account.c -o a.o",
    ] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        cc(&stage, &arguments).ended(0);
        let ours = fs::read_to_string(stage.path("one.d")).unwrap();
        clang(&stage, &arguments).ended(0);
        assert_eq!(ours, fs::read_to_string(stage.path("one.d")).unwrap());
    }
}

#[test]
fn errors_and_warnings_are_clangs_own() {
    let stage = stage();
    stage.write(
        "wrong.c",
        "int f(void) { return undeclared; }\nint g(void) { }\n",
    );
    stage.write("warned.c", "static int unused(void) { return 1; }\n");
    for line in [
        "-c wrong.c",
        "-c -Wall warned.c",
        "-Weverything -c warned.c",
        "-c missing.c",
        "-c -no-such-option wrong.c",
        "two.c -o no-main",
        "",
    ] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let (ours, plain) = (cc(&stage, &arguments), clang(&stage, &arguments));
        assert_eq!(ours.code, plain.code, "{line}");
        let same = |text: &str| {
            // Names of temporary objects differ from run to run.
            let lines = text
                .lines()
                .filter(|line| !line.contains("/tmp/"))
                .map(str::to_owned);
            lines.collect::<Vec<_>>()
        };
        assert_eq!(same(&ours.err), same(&plain.err), "{line}");
    }
}

#[test]
fn versions_and_probes_are_answered() {
    let stage = stage();
    let version = cc(&stage, &["--version"])
        .ended(0)
        .prints("clang version 19.");
    let last = version.out.lines().last().unwrap();
    assert_eq!(last, format!("crashpoint-cc {}", env!("CARGO_PKG_VERSION")));
    let mut cxx = driver(&stage, "crashpoint-c++", &["--version"]);
    assert!(
        run(&mut cxx)
            .out
            .ends_with(&format!("crashpoint-c++ {}\n", env!("CARGO_PKG_VERSION")))
    );
    cc(&stage, &["-v"]).ended(0).says("clang version 19.");
    cc(&stage, &["-###", "main.c"]).ended(0);
    // What configure scripts do to learn about a compiler.
    stage.write("conftest.c", "int main(void) { return 0; }\n");
    builds(&stage, "conftest.c");
    runs(&stage, "a.out");
}

#[test]
fn standard_input_and_response_files_are_understood() {
    let stage = stage();
    let mut command = driver(&stage, "crashpoint-cc", &["-x", "c", "-", "-o", "stdin"]);
    command
        .stdin(fs::File::open(stage.path("two.c")).unwrap())
        .stdout(Stdio::null());
    run(command.arg("main.c").arg("-xnone")).ended(0);
    runs(&stage, "stdin");
    stage.write("inner", "two.c\n-o 'by response'");
    stage.write("outer", "-O1 main.c @inner");
    builds(&stage, "@outer");
    runs(&stage, "by response");
}

#[test]
fn c_plus_plus_has_its_library_and_its_exceptions() {
    let stage = stage();
    let source = "\
#include <stdexcept>
#include <string>
static int f(int n) { if (n > 2) throw std::runtime_error(std::to_string(n)); return n; }
int main() {
    try { return f(3); } catch (const std::runtime_error &e) { return e.what()[0] - '3'; }
}
";
    stage.write("throws.cc", source);
    for options in [&["-O0"][..], &["-O2"], &["-O2", "-static"]] {
        let mut command = driver(&stage, "crashpoint-c++", options);
        let built = run(command.args(["-Wall", "-Werror", "throws.cc", "-o", "throws"])).ended(0);
        assert_eq!(without_static_warnings(&built.err), [""; 0]);
        runs(&stage, "throws");
    }
}

#[test]
fn a_static_program_has_every_hook() {
    let stage = stage();
    cc(&stage, &["-static", "account.c", "-o", "account"]).ended(0);
    let symbols = run(Command::new("nm")
        .arg("account")
        .current_dir(stage.folder.path()));
    let missing: Vec<&str> = symbols
        .out
        .lines()
        .filter(|line| line.contains(" w __crashpoint_"))
        .collect();
    assert_eq!(missing, [""; 0]);
    assert!(symbols.out.contains(" T __crashpoint_store"));
}

#[test]
fn headers_are_precompiled() {
    let stage = stage();
    stage.write("all.h", "int two(void);\n");
    builds(&stage, "-x c-header all.h -o all.h.pch");
    builds(&stage, "-include all.h main.c two.c -o with-pch");
    runs(&stage, "with-pch");
}

#[test]
fn other_targets_and_freestanding_code_still_build() {
    let stage = stage();
    stage.write("tiny.c", "int f(int x) { return x + 1; }\n");
    builds(&stage, "-m32 -c tiny.c -o tiny32.o");
    builds(&stage, "--target=bpf -c tiny.c -o tiny-bpf.o");
    builds(
        &stage,
        "-ffreestanding -nostdlib -shared -fPIC tiny.c -o tiny.so",
    );
    let needed = run(Command::new("readelf")
        .args(["-d", "tiny.so"])
        .current_dir(stage.folder.path()));
    assert!(!needed.out.contains("libcrashpoint_rt"), "{}", needed.out);
}

#[test]
fn a_target_gets_its_main_from_our_header() {
    const TARGET: &str = "\
#define CRASHPOINT_MAIN
#include <crashpoint.h>
void crashpoint_open(const char *pool) { printf(\"open %s\\n\", pool); }
void crashpoint_apply(const char *operation) { puts(operation); }
void crashpoint_close(void) { puts(\"close\"); }
";
    let stage = Stage::new();
    stage.write("target.c", TARGET);
    stage.write("target.cc", TARGET);
    stage.write("ops", "# none\nput 1 2\n\nget 1\n");
    for (name, line) in [
        (
            "crashpoint-cc",
            "-std=c11 -O1 -g -Wall -Wextra -Werror target.c",
        ),
        (
            "crashpoint-c++",
            "-std=c++17 -O1 -g -Wall -Wextra -Werror target.cc",
        ),
    ] {
        let mut arguments: Vec<&str> = line.split_whitespace().collect();
        arguments.extend(["-o", "target"]);
        succeed(&mut driver(&stage, name, &arguments));
        let mut target = Command::new(stage.path("target"));
        target.arg("pool").arg(stage.path("ops"));
        let ran = run(&mut target).ended(0);
        assert_eq!(ran.out, "open pool\nput 1 2\nget 1\nclose\n");
    }
}
