//! Small programs leave on real file systems what is known of these.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crashpoint_blockdev::{Choice, Effort, FileSystem, Lab, Program, Rig, observe};

/// Replaces a file by another, without any sync.
struct RenameOver;

impl Program for RenameOver {
    fn prepare(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("file"), [b'o'; 8192])
    }

    fn run(&self, folder: &Path, done: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        fs::write(folder.join("new"), [b'n'; 8192])?;
        done()?;
        fs::rename(folder.join("new"), folder.join("file"))?;
        done()
    }

    fn describe(&self, folder: &Path) -> io::Result<String> {
        let bytes = fs::read(folder.join("file"))?;
        let all = |wanted: u8| bytes.len() == 8192 && bytes.iter().all(|byte| *byte == wanted);
        Ok(match bytes.len() {
            0 => "empty".to_owned(),
            8192 if all(b'o') => "old".to_owned(),
            8192 if all(b'n') => "new".to_owned(),
            8192 if all(0) => "zeros".to_owned(),
            length => format!("{length} bytes"),
        })
    }
}

fn states(file_system: FileSystem) -> BTreeSet<String> {
    let observed = Lab::run(|lab| {
        let rig = Rig::new(lab, file_system, 0)?;
        let effort = Effort {
            time: Duration::from_secs(20),
            images: 70,
            choice: Choice::default(),
        };
        Ok(observe(&rig, &RenameOver, &effort))
    });
    let observed = observed.expect("it can be done here");
    let observed = observed.expect("the program works");
    let looked_at = &observed.looked_at;
    assert_eq!(looked_at.broken, 0, "{:?}", looked_at.reason);
    observed
        .states
        .into_keys()
        .map(|(_, state)| state)
        .collect()
}

#[test]
fn a_rename_without_a_sync_leaves_what_each_file_system_is_known_for() {
    let known = [
        (FileSystem::Ext4, "zeros"),
        (FileSystem::Xfs, "empty"),
        (FileSystem::Btrfs, "empty"),
    ];
    let lacks = Lab::lacks(&known.map(|(file_system, _)| file_system));
    if !lacks.is_empty() {
        eprintln!("not run here: {lacks:?}");
        return;
    }
    for (file_system, loss) in known {
        let states = states(file_system);
        let expected = ["old", "new", loss].map(str::to_owned);
        assert_eq!(states, expected.into(), "{}", file_system.name());
    }
}
