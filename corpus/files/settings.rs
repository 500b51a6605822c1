//! Settings that are saved as the standard library makes it easy, and as it takes.
//!
//! Correct: a new file, synced, renamed over the old one, and the folder synced.

mod driver;

use std::fs::{self, File};
use std::io::{Result, Write};

fn text(version: u32) -> String {
    let lines = (0..version * 3 + 10).map(|line| format!("key{line} = {}\n", version * 100 + line));
    format!("version = {version}\n{}", lines.collect::<String>())
}

fn save(version: u32) -> Result<()> {
    if cfg!(BUG_IN_PLACE) {
        fs::write("settings", text(version))?;
        //~ BUG_IN_PLACE atomicity ahead on all
        //~ BUG_IN_PLACE atomicity needed on all
        //~ BUG_IN_PLACE ordering ahead on all
        //~ BUG_IN_PLACE ordering needed on all
        return File::open("settings")?.sync_all();
    }
    let mut file = File::create("settings.new")?;
    file.write_all(text(version).as_bytes())?;
    //~ BUG_SYNCED_LATE ordering needed on all but ext4-journal
    if !cfg!(BUG_SYNCED_LATE) {
        file.sync_all()?;
    }
    fs::rename("settings.new", "settings")?;
    //~ BUG_SYNCED_LATE ordering ahead on all but ext4-journal
    //~ BUG_RENAME_NOT_SYNCED durability needed on all
    if cfg!(BUG_RENAME_NOT_SYNCED) {
        return Ok(());
    }
    if cfg!(BUG_SYNCED_LATE) {
        file.sync_all()?;
    }
    File::open(".")?.sync_all()
}

fn init() -> Result<()> {
    save(0)
}

fn recover() -> std::result::Result<u32, String> {
    let found = fs::read("settings").map_err(|error| format!("settings: {error}"))?;
    let version = (0..=OPERATIONS).find(|version| text(*version).as_bytes() == found);
    version.ok_or_else(|| {
        let begin = String::from_utf8_lossy(&found[..found.len().min(20)]).into_owned();
        format!(
            "settings of {} bytes that begin with {begin:?}",
            found.len()
        )
    })
}

const OPERATIONS: u32 = 3;

fn main() {
    let program = driver::Program {
        operations: OPERATIONS,
        init,
        apply: save,
        recover,
    };
    program.main();
}
