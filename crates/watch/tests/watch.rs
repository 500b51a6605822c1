//! Programs of every kind, watched.

#[path = "support/replay.rs"]
mod replay;
mod support;

use crashpoint_watch::Ended;
use support::run_after;

#[test]
fn a_file_that_is_replaced_is_recorded_step_by_step() {
    let run = run_after("save", |data| {
        std::fs::write(data.join("note"), "old").unwrap()
    });
    assert_eq!(run.recorded.ended, Ended::Exited(7));
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
