//! Programs of every kind, watched.

use crate::support::{self, Run, compile, run, run_after, scratch, watch_for};
use crashpoint_trace::files::Remark;
use crashpoint_watch::ProgramEnd;
use std::collections::BTreeSet;
use std::time::Duration;

/// A run that ends like this, and whose recording replays to what is in the folder.
fn run_to(program: &str, end: ProgramEnd) -> Run {
    let run = run(program);
    assert_eq!(run.recorded.ended, end);
    run.replays();
    run
}

#[test]
fn a_file_that_is_replaced_is_recorded_step_by_step() {
    let run = run_after("save", |data| {
        std::fs::write(data.join("note"), "old").unwrap()
    });
    assert_eq!(run.recorded.ended, ProgramEnd::Exited(7));
    assert_eq!(
        run.texts(),
        [
            "openat(\"note.tmp\", O_WRONLY|O_CREAT|O_TRUNC, 0640)",
            "write(\"note.tmp\", 12 bytes at 0)",
            "fsync(\"note.tmp\")",
            "close(\"note.tmp\")",
            "rename(\"note.tmp\", \"note\")",
            "fsync(\".\")",
            "write(stdout, 6 bytes)",
        ]
    );
    assert_eq!(
        run.effects()[..6],
        [
            "new 2 File 640",
            "link 0/note.tmp 2",
            "write 2 0 Cache new content\n",
            "Sync(Full(InodeId(2)))",
            "LastClose { inode: InodeId(2) }",
            "rename 0/note.tmp 0/note 2 Some(1)",
        ]
    );
    assert_eq!(run.printed(), "saved\n");
    let stack = run.recording.frames(run.call("rename").stack);
    let save = stack.iter().position(|frame| frame.function == "save");
    let save = save.unwrap_or_else(|| panic!("save is in {stack:#?}"));
    assert_eq!(stack[save + 1].function, "main");
    let source = stack[save].source.as_ref().expect("compiled with -g");
    assert!(source.file.ends_with("save.c"), "{source:?}");
    assert_eq!(source.line, 9);
    run.replays();
}

#[test]
fn threads_are_recorded_in_the_order_in_which_they_wrote() {
    let run = run_to("threads", ProgramEnd::Exited(0));
    let threads: BTreeSet<u32> = run.recording.calls().map(|call| call.thread).collect();
    assert_eq!(threads.len(), 5);
    let lines = std::fs::read_to_string(run.data.join("log")).unwrap();
    assert_eq!(lines.lines().count(), 100);
}

#[test]
fn processes_share_a_position_or_append() {
    let run = run_to("processes", ProgramEnd::Exited(0));
    let processes: BTreeSet<u32> = run.recording.calls().map(|call| call.process).collect();
    assert_eq!(processes.len(), 2);
    let effects = run.effects();
    let closed = |effect: &&String| effect.starts_with("LastClose");
    let of_shared = effects.iter().filter(closed).filter(|effect| {
        let shared = "InodeId(1)";
        effect.contains(shared)
    });
    assert_eq!(of_shared.count(), 1, "both had it until the parent's end");
    // The log is closed for good twice if one process is done before the other opens it.
    let count = effects.iter().filter(closed).count();
    assert!((2..=3).contains(&count), "{effects:#?}");
    assert!(closed(&effects.last().expect("there are effects")));
}

#[test]
fn a_new_program_has_the_descriptors_it_was_left() {
    let run = run_to("spawn", ProgramEnd::Exited(0));
    let call = run.call("write(\"kept\"");
    assert_eq!(call.process, 1);
}

#[test]
fn signals_arrive_and_calls_are_restarted() {
    let run = run("signals");
    let signal = 10;
    assert_eq!(run.recorded.ended, ProgramEnd::Killed { signal });
    run.replays();
}

#[test]
fn names_come_and_go() {
    let run = run_after("names", |data| {
        std::fs::write(data.join("a"), "old").unwrap()
    });
    assert_eq!(run.recorded.ended, ProgramEnd::Exited(0));
    assert_eq!(run.remarks(), []);
    run.replays();
    assert_eq!(run.call("RENAME_EXCHANGE").effects.len(), 1);
    let texts = run.texts();
    assert!(texts.contains(&"mkdirat(\"d/e\")".to_owned()), "{texts:#?}");
    assert!(
        texts.contains(&"rename(\"d\", \"moved\")".to_owned()),
        "{texts:#?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("\"moved/e/later\"")),
        "{texts:#?}"
    );
}

#[test]
fn content_changes_in_every_way() {
    let run = run("content");
    assert_eq!(run.recorded.ended, ProgramEnd::Exited(0));
    assert_eq!(run.remarks(), []);
    run.replays();
    let effects = run.effects();
    let has = |text: &str| {
        assert!(
            effects.iter().any(|e| e.contains(text)),
            "{text}: {effects:#?}"
        )
    };
    has("0 Cache 0123456789");
    has("17 Cache one two");
    has("30 Cache one two");
    has("DataRange { inode: InodeId(1), offset: 17, length: 7 }");
    has("3 Cache dup");
    has("6 Cache !");
    has("WriteOut");
    has("6 Cache appended all the same");
    has("0 Cache S");
    has("FullRange { inode: InodeId(3), offset: 0, length: 6 }");
    has("DataRange { inode: InodeId(4), offset: 0, length: 4 }");
    has("PunchHole");
    has("ReserveKeepSize");
    has("10 Copy ");
    has("20 Cache spliced");
    has("14 Cache , then with one");
    has("Everything");
}

#[test]
fn stores_through_mappings_are_found_where_they_matter() {
    let run = run_to("mapped", ProgramEnd::Exited(0));
    let effects = run.effects();
    let at = |text: &str| {
        let found = effects.iter().position(|effect| effect.contains(text));
        found.unwrap_or_else(|| panic!("{text} in {effects:#?}"))
    };
    assert!(at("100 Mapping first") < at("DataRange"));
    assert!(at("4096 Mapping second") < at("DataRange"));
    assert!(at("DataRange") < at("8192 Mapping after close"));
    assert!(
        at("8192 Mapping after close") < at("Output"),
        "small mappings are always compared"
    );
    assert!(at("0 Mapping never synced") < at("5000 Cache W"));
    assert!(at("0 Mapping late") > at("5000 Cache W"));
    at("8192 Mapping by a child");
    at("Mapping at the very end");
}

#[test]
fn output_is_what_the_descriptors_were_at_the_start() {
    let run = run("daemon");
    assert_eq!(run.recorded.ended, ProgramEnd::Exited(0));
    assert_eq!(run.printed(), "this is printed\n");
    run.replays();
    let effects = run.effects();
    for stream in ["Stderr", "Socket"] {
        assert!(
            effects.iter().any(|effect| effect.contains(stream)),
            "{effects:#?}"
        );
    }
    // Its parents may end after it: nothing waits for anything here.
    let mut calls = run.recording.calls();
    let synced = calls.find(|call| call.text.starts_with("fsync"));
    let by = synced.map(|call| call.process);
    assert_eq!(by, Some(2), "the daemon is watched to its end");
}

#[test]
fn rings_are_refused_and_remarked() {
    let run = run_to("refused", ProgramEnd::Exited(0));
    let remarks = run.remarks();
    let refused: Vec<&str> = remarks
        .iter()
        .filter_map(|remark| match remark {
            Remark::Refused { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(refused, ["io_uring_setup", "io_setup"]);
    let unknown =
        |remark: &Remark| matches!(remark, Remark::UnknownCall { number, .. } if number.0 == 999);
    assert!(remarks.iter().any(unknown), "{remarks:#?}");
}

#[test]
fn what_comes_from_outside_is_new_and_what_leaves_is_unlinked() {
    let run = run("outside");
    assert_eq!(run.recorded.ended, ProgramEnd::Exited(0));
    assert_eq!(run.remarks(), []);
    run.replays();
    let effects = run.effects();
    assert!(
        effects.contains(&"write 1 0 Copy from outside".to_owned()),
        "{effects:#?}"
    );
    assert!(
        !effects.iter().any(|effect| effect.contains("nobody cares")),
        "{effects:#?}"
    );
}

#[test]
fn a_program_that_is_killed_leaves_what_it_did() {
    run_to("killed", ProgramEnd::Killed { signal: 9 });
}

#[test]
fn a_thread_may_start_another_program() {
    let run = run_to("exec_thread", ProgramEnd::Exited(0));
    let written = std::fs::read_to_string(run.data.join("f")).unwrap();
    assert_eq!(written, "by the first program\nby the second program\n");
}

#[test]
fn what_was_there_before_is_kept_with_all_its_attributes() {
    let run = run_after("save", |data| {
        std::fs::write(data.join("a"), "content").unwrap();
        std::fs::hard_link(data.join("a"), data.join("b")).unwrap();
        std::os::unix::fs::symlink("nowhere", data.join("l")).unwrap();
        std::fs::create_dir(data.join("d")).unwrap();
        std::fs::write(data.join("d/empty"), "").unwrap();
    });
    let before = run.recording.before();
    let names: Vec<_> = before.entries.iter().map(|(slot, _)| slot.name).collect();
    assert_eq!(names, [&b"a"[..], b"b", b"d", b"l", b"empty"]);
    assert_eq!(
        before.entries[0].1, before.entries[1].1,
        "one file with two names"
    );
    assert_eq!(before.inodes.len(), 5);
    run.replays();
}

#[test]
fn a_program_that_never_ends_is_killed_with_its_children() {
    let scratch = scratch();
    let binary = compile(scratch.path(), "forever");
    let after = Duration::from_millis(300);
    let watched = watch_for(scratch.path(), &[binary.into()], after);
    let (recorded, recording) = watched.unwrap();
    assert_eq!(recorded.ended, ProgramEnd::TimedOut { after_ms: 300 });
    let texts: Vec<_> = recording.calls().map(|call| call.text).collect();
    assert_eq!(
        texts.len(),
        3,
        "opened, written, and closed as it was killed: {texts:?}"
    );
}

#[test]
fn errors_say_what_is_wrong() {
    let scratch = scratch();
    let error = |command: &str| {
        let watched = support::watch(scratch.path(), &[command.into()]);
        watched.expect_err("an error").to_string()
    };
    assert!(
        error("no-such-program-anywhere").contains("could not start `no-such-program-anywhere`")
    );
    assert!(error("/dev/null").contains("Permission denied"));
}

#[test]
fn a_stripped_program_has_functions_by_where_they_begin() {
    let scratch = scratch();
    let binary = compile(scratch.path(), "save");
    let stripped = std::process::Command::new("strip").arg(&binary).status();
    assert!(stripped.expect("strip").success());
    let (_, recording) = support::watch(scratch.path(), &[binary.into()]).unwrap();
    let rename = recording
        .calls()
        .find(|call| call.text.starts_with("rename"))
        .unwrap();
    let frames = recording.frames(rename.stack);
    let ours: Vec<_> = frames
        .iter()
        .filter(|frame| frame.module.ends_with("/save"))
        .collect();
    assert!(ours.len() >= 2, "{frames:#?}");
    assert!(
        ours.iter().all(|frame| frame.function.starts_with("fn@0x")),
        "{frames:#?}"
    );
}

#[test]
fn a_32_bit_call_is_an_error_and_not_misread() {
    let scratch = scratch();
    let binary = compile(scratch.path(), "foreign");
    let error = support::watch(scratch.path(), &[binary.into()]).expect_err("an error");
    assert!(error.to_string().contains("32-bit system call"), "{error}");
}
