//! Losses that are known to happen on real file systems are seen, and those that a sync prevents
//! are not.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crashpoint_blockdev::{
    Answer, Budget, Choice, Crash, FileSystem, Lab, Question, Trial, Verdict, confirm,
};

/// Saves a file by writing another and renaming it over the first.
struct Save {
    script: &'static str,
}

impl Trial for Save {
    fn fill(&mut self, empty: &Path) -> io::Result<()> {
        fs::write(empty.join("saved"), vec![b'o'; 8192])
    }

    fn workload(&mut self, folder: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", self.script]).current_dir(folder);
        command
    }

    fn check(&mut self, folder: &Path, crash: &Crash<'_>) -> Verdict {
        let saved = match fs::read(folder.join("saved")) {
            Ok(saved) => saved,
            Err(error) => return Verdict::Lost(error.to_string()),
        };
        let whole = |letter: u8| saved.len() == 8192 && saved.iter().all(|byte| *byte == letter);
        if crash.printed == b"saved\n" && !whole(b'n') {
            return Verdict::Lost("what was promised is not there".to_owned());
        }
        if whole(b'o') || whole(b'n') {
            Verdict::Fine
        } else {
            Verdict::Lost(format!("{} bytes", saved.len()))
        }
    }
}

fn ask(file_system: FileSystem, script: &'static str) -> Option<Answer> {
    let lacks = Lab::lacks(&[file_system]);
    if !lacks.is_empty() {
        eprintln!("not run here: {lacks:?}");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let question = Question {
        file_system,
        size: 0,
        folder: folder.path(),
        limit: Duration::from_secs(20),
        budget: Budget {
            images: 60,
            time: Duration::from_secs(20),
            seen: 1,
        },
        choice: Choice::default(),
    };
    let answer = confirm(&question, &mut Save { script }).expect("it can be done here");
    let rest: Vec<_> = fs::read_dir(folder.path()).expect("it is there").collect();
    assert!(rest.is_empty(), "the folder itself is left alone: {rest:?}");
    for run in &answer.runs {
        assert!(
            run.ended.status.is_some_and(|status| status.success()),
            "{run:?}"
        );
        assert_eq!(run.reason, None);
    }
    Some(answer)
}

const CARELESS: &str = "head -c 8192 /dev/zero | tr '\\0' n > new; mv new saved";
const CAREFUL: &str = "head -c 8192 /dev/zero | tr '\\0' n > new; sync new; mv new saved; sync .; \
                       echo saved";

#[test]
fn a_file_saved_by_rename_without_a_sync_is_lost_on_real_file_systems() {
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let Some(answer) = ask(file_system, CARELESS) else {
            return;
        };
        assert!(answer.seen() > 0, "{}: {answer:?}", file_system.name());
    }
}

#[test]
fn a_file_saved_with_syncs_is_never_lost() {
    for file_system in [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let Some(answer) = ask(file_system, CAREFUL) else {
            return;
        };
        assert_eq!(answer.seen(), 0, "{}: {answer:?}", file_system.name());
        assert!(
            answer.looked_at() > 10,
            "{}: {answer:?}",
            file_system.name()
        );
    }
}
