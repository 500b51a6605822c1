//! An instrumented program under the fork server of the real runtime marks what it reads.

#[path = "../../rt/tests/it/checker.rs"]
#[expect(dead_code, reason = "these tests use a part")]
mod checker;
mod support;

use checker::{Checker, Marks, code, status};
use crashpoint_abi::serve::{flags, notes};
// Makes cargo build the library that the programs are linked to.
use crashpoint_rt as _;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use support::{Shop, program};

const POOL_BYTES: usize = 1 << 16;

/// The runtime that cargo built beside this test.
fn runtime(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    test.with_file_name(name)
}

/// Builds the program, and starts it as a server with marks for its pool.
fn serve(shop: &Shop, options: &[&str], way: &str) -> (Checker, Marks) {
    let pool = shop.path("pool");
    File::create(&pool)
        .and_then(|file| file.set_len(POOL_BYTES as u64))
        .expect("a pool");
    let binary = shop.path("served");
    let source = program("served.c");
    let mut build = shop.hooked(&source);
    build
        .args(options)
        .arg(&source)
        .arg(program("served_other.c"));
    build.arg("-o").arg(&binary);
    if options.contains(&"-static") {
        build.arg("-Wl,-u,__crashpoint_register");
        build.arg(runtime("libcrashpoint_rt.a"));
    } else {
        std::fs::copy(
            runtime("libcrashpoint_rt.so"),
            shop.path("libcrashpoint_rt.so"),
        )
        .expect("a copy of the runtime");
        build.arg("libcrashpoint_rt.so").arg("-Wl,-rpath,$ORIGIN");
    }
    shop.run(&mut build);
    let marks = Marks::make(&pool, POOL_BYTES);
    let mut command = Command::new(&binary);
    command
        .current_dir(shop.folder.path())
        .env_remove("LD_LIBRARY_PATH")
        .env("CRASHPOINT_PM", "pool")
        .env("CRASHPOINT_READS", &marks.path)
        .stdout(Stdio::null())
        .arg(way);
    (Checker::start(shop.folder.path(), &mut command), marks)
}

/// The words that the program reads by itself.
fn expected() -> Vec<usize> {
    let mut words = vec![3, 8];
    words.extend(64..67);
    words.push(128);
    words.extend(256..258);
    words.extend([400, 501]);
    words
}

#[test]
fn exactly_what_a_program_reads_is_marked() {
    for options in [&["-O0"][..], &["-O2"], &["-O1", "-static"]] {
        let shop = Shop::new();
        let (checker, marks) = serve(&shop, options, "quiet");
        assert!(checker.hello.modules > 0, "{options:?}");
        assert_eq!(code(&checker.run(flags::PRIVATE)), 0);
        assert_eq!(marks.words(), [0usize; 0]);
        let reply = checker.run(flags::PRIVATE | flags::READS);
        assert_eq!(
            (code(&reply), reply.notes),
            (0, notes::MAPPED),
            "{options:?}"
        );
        assert_eq!(marks.words(), expected(), "{options:?}");
    }
}

#[test]
fn what_code_without_hooks_may_read_is_noted() {
    let shop = Shop::new();
    let (checker, marks) = serve(&shop, &["-O1"], "escape");
    for _ in 0..2 {
        let reply = checker.run(flags::PRIVATE | flags::READS);
        assert_eq!(code(&reply), 0);
        assert_eq!(reply.notes, notes::MAPPED | notes::UNMARKED_READS);
        assert_eq!(marks.words(), expected());
    }
}

#[test]
fn marks_survive_a_crash() {
    let shop = Shop::new();
    let (checker, marks) = serve(&shop, &["-O1"], "crash-outside");
    let reply = checker.run(flags::PRIVATE | flags::READS);
    assert_eq!(status(&reply).signal(), Some(libc::SIGSEGV));
    let mut words = expected();
    words.insert(0, 1);
    assert_eq!(marks.words(), words);
}
