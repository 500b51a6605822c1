//! A target that is served runs again and again, and leaves nothing behind.

use crate::checker::{Checker, Marks, code, processes_of, status, wait_until};
use crate::support::{Bench, Link, expect_success, runtime};
use crashpoint_abi::serve::{Request, ended, flags, notes};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

const POOL_BYTES: usize = 1 << 20;

fn pool(bench: &Bench) -> PathBuf {
    let path = bench.path("pool");
    File::create(&path)
        .and_then(|file| file.set_len(POOL_BYTES as u64))
        .unwrap();
    path
}

/// Starts the program of these tests as a server.
fn served(bench: &Bench, arguments: &[&str]) -> Checker {
    let program = bench.compile("serve.c", Link::Shared, &[]);
    Checker::start(bench.folder.path(), bench.command(&program).args(arguments))
}

/// A target that counts its runs in a pool; the folder stays as long as the first is kept.
fn counting() -> (Bench, PathBuf, Checker) {
    let bench = Bench::new();
    let pool = pool(&bench);
    let checker = served(&bench, &["count", "pool"]);
    (bench, pool, checker)
}

#[test]
fn one_server_runs_the_target_twice() {
    let bench = Bench::new();
    let checker = served(&bench, &["exit", "42"]);
    for _ in 0..2 {
        let reply = checker.run(flags::PRIVATE);
        assert_eq!(code(&reply), 42);
        assert_eq!((reply.ended, reply.notes), (0, 0));
        assert!(reply.wall_ns > 0);
    }
    assert!(!bench.path("out").exists());
}

#[test]
fn a_static_target_is_served() {
    let bench = Bench::new();
    pool(&bench);
    let program = bench.compile("serve.c", Link::Static, &[]);
    let checker = Checker::start(
        bench.folder.path(),
        bench.command(&program).args(["count", "pool"]),
    );
    for expected in [1, 1] {
        assert_eq!(code(&checker.run(flags::PRIVATE)), expected);
    }
    for expected in [1, 2] {
        assert_eq!(code(&checker.run(0)), expected);
    }
}

#[test]
fn a_signal_that_ends_the_target_is_reported() {
    for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGKILL] {
        let bench = Bench::new();
        let checker = served(&bench, &["raise", &signal.to_string()]);
        let status = status(&checker.run(0));
        assert_eq!(status.signal(), Some(signal));
        assert!(!status.core_dumped());
    }
}

#[test]
fn the_target_finds_what_it_would_have_found() {
    let bench = Bench::new();
    let checker = served(&bench, &["session"]);
    assert_eq!(code(&checker.run(0)), 0);
    let checker = served(&bench, &["environment"]);
    assert_eq!(code(&checker.run(0)), 0);
}

#[test]
fn standard_input_is_wound_back() {
    let bench = Bench::new();
    fs::write(bench.path("input"), "17\n").unwrap();
    let program = bench.compile("serve.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    let input = File::open(bench.path("input")).unwrap();
    let checker = Checker::start(
        bench.folder.path(),
        command.arg("input").stdin(Stdio::from(input)),
    );
    for _ in 0..3 {
        assert_eq!(code(&checker.run(0)), 17);
    }
}

#[test]
fn private_stores_reach_neither_the_file_nor_the_next_run() {
    let (_bench, pool, checker) = counting();
    for _ in 0..3 {
        let reply = checker.run(flags::PRIVATE);
        assert_eq!((code(&reply), reply.notes), (1, notes::MAPPED));
    }
    assert!(fs::read(&pool).unwrap().iter().all(|byte| *byte == 0));
    // What the checker writes between runs is what the next one finds.
    let mut image = vec![0; POOL_BYTES];
    image[0] = 10;
    fs::write(&pool, &image).unwrap();
    assert_eq!(code(&checker.run(flags::PRIVATE)), 11);
    assert_eq!(fs::read(&pool).unwrap(), image);
}

#[test]
fn other_stores_reach_the_file() {
    let (_bench, pool, checker) = counting();
    for expected in 1..4 {
        assert_eq!(code(&checker.run(0)), expected);
    }
    assert_eq!(fs::read(&pool).unwrap()[0], 3);
}

#[test]
fn a_private_mapping_is_refused_where_a_shared_one_is() {
    let bench = Bench::new();
    pool(&bench);
    let checker = served(&bench, &["read-only", "pool"]);
    assert_eq!(code(&checker.run(flags::PRIVATE)), 0);
}

#[test]
fn a_pool_comes_back_to_its_recorded_address() {
    let bench = Bench::new();
    pool(&bench);
    let program = bench.compile("serve.c", Link::Shared, &[]);
    let recorded = bench.command(&program).args(["count", "pool"]).output();
    assert_eq!(recorded.unwrap().status.code(), Some(1));
    let base = bench.recording().run().base();
    let elsewhere = 0x2345_0000_0000u64;
    let path = fs::canonicalize(bench.path("pool")).unwrap();
    let line = format!("{elsewhere:#x} {POOL_BYTES} 0 {}\n", path.display());
    fs::write(bench.path("placement"), line).unwrap();
    for (placement, expected) in [("", base), ("placement", elsewhere)] {
        let expected = expected.to_string();
        let mut command = bench.command(&program);
        command.env("CRASHPOINT_PLACEMENT", placement);
        command.args(["address", "pool", &expected]);
        let checker = Checker::start(bench.folder.path(), &mut command);
        for flags in [0, flags::PRIVATE] {
            assert_eq!(code(&checker.run(flags)), 0, "{placement}");
        }
    }
}

#[test]
fn what_bears_on_private_mappings_is_noted_for_each_run() {
    let cases = [
        ("again", notes::MAPPED),
        ("again-after-stores", notes::MAPPED | notes::MAPPED_AGAIN),
        ("twice", notes::MAPPED | notes::MAPPED_AGAIN),
        ("fork", notes::MAPPED | notes::MAPPED_AGAIN | notes::FORKED),
        ("execute", notes::EXECUTED),
        ("execute-nothing", 0),
    ];
    for (way, expected) in cases {
        let bench = Bench::new();
        pool(&bench);
        let checker = served(&bench, &[way, "pool"]);
        for _ in 0..2 {
            let reply = checker.run(flags::PRIVATE);
            assert_eq!((code(&reply), reply.notes), (0, expected), "{way}");
        }
    }
}

#[test]
fn a_child_that_hangs_is_cancelled() {
    let bench = Bench::new();
    let checker = served(&bench, &["hang"]);
    for _ in 0..2 {
        let _ = fs::remove_file(bench.path("ready"));
        checker.begin(0);
        wait_until("the child runs", || bench.path("ready").exists());
        checker.cancel();
        let reply = checker.reply();
        assert_eq!(status(&reply).signal(), Some(libc::SIGKILL));
        assert_eq!(reply.ended, ended::CANCELLED);
        assert_eq!(checker.others(), [0u32; 0]);
    }
}

#[test]
fn a_cancel_that_comes_too_late_is_forgotten() {
    let bench = Bench::new();
    let checker = served(&bench, &["exit", "3"]);
    assert_eq!(code(&checker.run(0)), 3);
    checker.cancel();
    let reply = checker.run(0);
    assert_eq!((code(&reply), reply.ended), (3, 0));
}

#[test]
fn daemons_and_fork_bombs_do_not_outlive_their_run() {
    for (program, status) in [("daemon", 5), ("bomb", 6)] {
        let bench = Bench::new();
        let checker = served(&bench, &[program]);
        for _ in 0..2 {
            let reply = checker.run(0);
            assert_eq!(
                (code(&reply), reply.ended),
                (status, ended::LEFTOVERS),
                "{program}"
            );
            assert_eq!(checker.others(), [0u32; 0], "{program}");
        }
    }
}

#[test]
fn limits_hold() {
    let bench = Bench::new();
    let checker = served(&bench, &["large-file"]);
    assert_eq!(code(&checker.run(0)), 0);
    let reply = checker.run_with(Request {
        file_bytes: 1 << 20,
        ..Request::default()
    });
    assert_eq!(status(&reply).signal(), Some(libc::SIGXFSZ));
    assert_eq!(fs::metadata(bench.path("large")).unwrap().len(), 1 << 20);

    let checker = served(&bench, &["memory"]);
    assert_eq!(code(&checker.run(0)), 0);
    let memory_bytes = 256 << 20;
    let reply = checker.run_with(Request {
        memory_bytes,
        ..Request::default()
    });
    assert_eq!(code(&reply), 3);

    let checker = served(&bench, &["spin"]);
    let reply = checker.run_with(Request {
        cpu_seconds: 1,
        ..Request::default()
    });
    assert_eq!(status(&reply).signal(), Some(libc::SIGXCPU));
    assert!(reply.user_us + reply.system_us > 500_000, "{reply:?}");
}

#[test]
fn nothing_outlives_the_checker() {
    let bench = Bench::new();
    let checker = served(&bench, &["daemon-and-hang"]);
    checker.begin(0);
    wait_until("the child runs", || bench.path("ready").exists());
    assert!(checker.others().len() >= 2);
    let (mut server, program) = checker.leave();
    assert!(server.wait().unwrap().success());
    assert_eq!(processes_of(&program), [0u32; 0]);
}

#[test]
fn a_server_that_is_told_to_end_takes_all_along() {
    let bench = Bench::new();
    let mut checker = served(&bench, &["daemon-and-hang"]);
    checker.begin(0);
    wait_until("the child runs", || bench.path("ready").exists());
    // SAFETY: our own child.
    unsafe { libc::kill(checker.server.id() as i32, libc::SIGTERM) };
    assert!(checker.server.wait().unwrap().success());
    assert_eq!(checker.others(), [0u32; 0]);
}

#[test]
fn the_child_of_a_killed_server_dies() {
    let bench = Bench::new();
    let mut checker = served(&bench, &["hang"]);
    checker.begin(0);
    wait_until("the child runs", || bench.path("ready").exists());
    checker.server.kill().unwrap();
    checker.server.wait().unwrap();
    wait_until("the child is gone", || checker.others().is_empty());
}

#[test]
fn a_socket_that_is_not_there_is_an_error_of_one_line() {
    let bench = Bench::new();
    let program = bench.compile("serve.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command.env_remove("CRASHPOINT_OUT").args(["exit", "0"]);
    let output = command.env("CRASHPOINT_SERVE", "nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = "crashpoint: cannot reach the checker at nowhere (CRASHPOINT_SERVE): \
                   there is no such socket\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), message);
}

#[test]
fn a_recording_goes_before_serving() {
    let bench = Bench::new();
    let program = bench.compile("serve.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command.env("CRASHPOINT_SERVE", "nowhere");
    expect_success(&command.args(["exit", "0"]).output().unwrap());
    assert_eq!(bench.recording().runs.len(), 1);
}

#[test]
fn exactly_the_words_that_were_loaded_as_they_were_found_are_marked() {
    for link in [Link::Shared, Link::Static] {
        let bench = Bench::new();
        pool(&bench);
        let marks = Marks::make(&bench.path("pool"), POOL_BYTES);
        let program = bench.compile("serve.c", link, &[]);
        let mut command = bench.command(&program);
        command.env("CRASHPOINT_READS", &marks.path);
        let checker = Checker::start(bench.folder.path(), command.args(["reads", "pool"]));
        assert_eq!(code(&checker.run(flags::PRIVATE)), 1, "gates stay closed");
        assert_eq!(marks.words(), [0usize; 0]);
        let reply = checker.run(flags::PRIVATE | flags::READS);
        assert_eq!((code(&reply), reply.notes), (0, notes::MAPPED), "{link:?}");
        // Not word 100, which the program has stored.
        let mut expected = vec![0, 1, 7, 8, 9, 101];
        expected.extend(512..537);
        expected.push(POOL_BYTES / 8 - 1);
        assert_eq!(marks.words(), expected);
    }
}

#[test]
fn loads_that_have_no_marks_are_noted() {
    let bench = Bench::new();
    pool(&bench);
    let marks = Marks::make(&bench.path("pool"), 4096);
    let program = bench.compile("serve.c", Link::Shared, &[]);
    let mut command = bench.command(&program);
    command.env("CRASHPOINT_READS", &marks.path);
    let checker = Checker::start(bench.folder.path(), command.args(["reads", "pool"]));
    let reply = checker.run(flags::PRIVATE | flags::READS);
    assert_eq!(code(&reply), 0);
    assert_eq!(reply.notes, notes::MAPPED | notes::UNMARKED_READS);
    assert_eq!(marks.words(), [0, 1, 7, 8, 9, 101]);
}

#[test]
fn pools_that_code_without_hooks_maps_are_noted() {
    let shared = notes::MAPPED | notes::UNMARKED_READS;
    for (kind, expected) in [("shared", shared), ("private", notes::UNMARKED_READS)] {
        let bench = Bench::new();
        let marks = Marks::make(&pool(&bench), POOL_BYTES);
        let program = bench.compile("bare.c", Link::Plain, &[]);
        let mut command = bench.command(&program);
        command.env("LD_PRELOAD", runtime("libcrashpoint_rt.so"));
        command.env("CRASHPOINT_READS", &marks.path).arg(kind);
        let checker = Checker::start(bench.folder.path(), &mut command);
        assert_eq!(checker.hello.modules, 0);
        let reply = checker.run(flags::PRIVATE | flags::READS);
        assert_eq!((code(&reply), reply.notes), (0, expected), "{kind}");
    }
}

#[test]
fn marking_without_a_file_of_marks_is_refused() {
    let bench = Bench::new();
    let checker = served(&bench, &["exit", "0"]);
    let reply = checker.run(flags::READS);
    assert_eq!(
        (reply.ended, reply.status),
        (ended::NOT_STARTED, libc::EINVAL)
    );
    assert_eq!(code(&checker.run(0)), 0);
}
