//! Devices record what file systems write, images are what a crash leaves, and nothing stays
//! behind.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crashpoint_blockdev::{
    Access, Choice, Circumstances, FileSystem, Lab, LabError, Look, Rig, Slow, images,
};

const REAL: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

/// Whether real file systems can be had here; if not, says why.
fn can_run() -> bool {
    let lacks = Lab::lacks(&REAL);
    if !lacks.is_empty() {
        eprintln!("not run here: {lacks:?}");
    }
    lacks.is_empty()
}

/// All contents that `file` was seen with in crash images of `work`, by the mark passed.
fn seen(
    file_system: FileSystem,
    circumstances: &Circumstances,
    work: impl Fn(&Path) + Sync,
) -> BTreeSet<(u32, String)> {
    let seen = Lab::run(|lab| {
        let rig = Rig::new(lab, file_system, 0)?;
        let base = rig.prepare(|_| Ok(()))?;
        let (recording, ()) = rig.record(&base, circumstances, |run| {
            work(run.folder);
            run.mark(1);
            Ok(())
        })?;
        let mut seen = BTreeSet::new();
        for image in images(&recording, Choice::default()).take(60) {
            let look = rig.look(
                &image.disk,
                Access::Read,
                |folder| match fs::read_to_string(folder.join("file")) {
                    Ok(text) => text,
                    Err(error) => error.kind().to_string(),
                },
            )?;
            match look {
                Look::Mounted(text) => seen.insert((image.passed, text)),
                Look::Unmountable(error) => panic!("{}: {error}", file_system.name()),
            };
        }
        Ok(seen)
    });
    seen.expect("it can be done here")
}

fn write_and_sync(folder: &Path) {
    let mut file = File::create(folder.join("file")).expect("there is space");
    file.write_all(b"content").expect("there is space");
    file.sync_all().expect("nothing is broken");
}

#[test]
fn what_was_synced_is_in_every_image_after_it() {
    if !can_run() {
        return;
    }
    for file_system in FileSystem::ALL {
        let seen = seen(file_system, &Circumstances::default(), write_and_sync);
        let after: Vec<_> = seen.iter().filter(|(passed, _)| *passed == 1).collect();
        assert_eq!(
            after,
            [&(1, "content".to_owned())],
            "{}",
            file_system.name()
        );
        let absent = (0, std::io::ErrorKind::NotFound.to_string());
        assert!(seen.contains(&absent), "{}: {seen:?}", file_system.name());
    }
}

#[test]
fn what_was_not_synced_may_be_lost() {
    if !can_run() {
        return;
    }
    for file_system in REAL {
        let work = |folder: &Path| {
            fs::write(folder.join("file"), "content").expect("there is space");
        };
        let seen = seen(file_system, &Circumstances::default(), work);
        let texts: BTreeSet<&str> = seen.iter().map(|(_, text)| text.as_str()).collect();
        let absent = std::io::ErrorKind::NotFound.to_string();
        assert!(
            texts.contains("content") && texts.contains(absent.as_str()),
            "{texts:?}"
        );
    }
}

#[test]
fn without_root_the_needs_are_named() {
    let needs = vec![
        crashpoint_blockdev::Need::Root,
        crashpoint_blockdev::Need::Maker(FileSystem::Xfs),
    ];
    assert_eq!(
        LabError::Needs(needs).to_string(),
        "real file systems need to be run by root, `mkfs.xfs` (`apt-get install xfsprogs`)"
    );
}

/// Set in the process that is to be killed.
const VICTIM: &str = "CRASHPOINT_TEST_VICTIM";

#[test]
fn a_kill_leaves_nothing_even_when_the_disk_never_answers() {
    if !can_run() {
        return;
    }
    if std::env::var_os(VICTIM).is_some() {
        hang();
    }
    let test = "a_kill_leaves_nothing_even_when_the_disk_never_answers";
    let mut victim = Command::new(std::env::current_exe().expect("it runs"))
        .args(["--exact", test, "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can run again");
    let mut said = String::new();
    let mut stdout = victim.stdout.take().expect("it was asked for");
    while !said.contains("hanging") {
        let mut byte = [0];
        assert_eq!(
            stdout.read(&mut byte).expect("a pipe"),
            1,
            "it ended: {said}"
        );
        said.push(char::from(byte[0]));
    }
    let begin = Instant::now();
    while !waits_in_the_kernel(victim.id()) && begin.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    assert!(waits_in_the_kernel(victim.id()), "the disk answered");
    victim.kill().expect("it is ours");
    let mark = format!("crashpoint-lab-{}", victim.id());
    let begin = Instant::now();
    let gone = || victim_is_gone(&mark);
    while !gone() && begin.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    assert!(gone(), "loop devices: {:?}", loop_files());
    victim.wait().expect("it is ours");
}

/// Whether a thread of a process waits for something that no signal ends.
fn waits_in_the_kernel(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let state = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat")).ok();
    let mut states = tasks.into_iter().flatten().flatten().filter_map(state);
    states.any(|state| state.contains(") D "))
}

fn victim_is_gone(mark: &str) -> bool {
    !loop_files().iter().any(|file| file.contains(mark))
}

/// What loop devices show.
fn loop_files() -> Vec<String> {
    let devices = fs::read_dir("/sys/block").expect("it is mounted");
    let file = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("loop/backing_file"));
    devices.flatten().flat_map(file).collect()
}

/// Waits for a disk that takes hours, in the kernel.
fn hang() {
    let hung = Lab::run(|lab| {
        let rig = Rig::new(lab, FileSystem::Ext4, 0)?;
        let base = rig.prepare(|_| Ok(()))?;
        let data = rig.record(&base, &Circumstances::default(), |run| {
            write_and_sync(run.folder);
            Ok(())
        });
        data?;
        let blocks: HashSet<u64> = rig.data_blocks()?;
        let slow = Slow {
            delay: Duration::from_secs(3600 * 5),
            blocks,
        };
        let circumstances = Circumstances {
            slow: Some(slow),
            quick_commits: false,
        };
        rig.record(&base, &circumstances, |run| {
            println!("hanging");
            write_and_sync(run.folder);
            Ok(())
        })?;
        Ok(())
    });
    panic!("it went on: {hung:?}");
}
