//! A table of blocks that are overwritten in place.
//!
//! Correct: versions go to two places in turn, so that one of them is always whole, and are synced
//! before the acknowledgement.

mod driver;

use std::fs::{File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::FileExt;

const BLOCK: usize = 4096;
const OPERATIONS: u32 = 3;

/// The ends of each block name the version, so that a mixture of two shows.
fn table(version: u32, blocks: usize) -> Vec<u8> {
    let same = format!("{:063}\n", 0).repeat(BLOCK / 64 - 2);
    let block = format!("{version:063}\n{same}{version:063}\n");
    block.repeat(blocks).into_bytes()
}

/// How many blocks the table has.
fn blocks() -> usize {
    if cfg!(BUG_TORN_BLOCK) { 1 } else { 2 }
}

/// Where a version goes.
fn place(version: u32) -> u64 {
    let in_place = cfg!(BUG_TORN_BLOCK) || cfg!(BUG_TORN_TABLE);
    if in_place || version % 2 == 0 {
        0
    } else {
        (blocks() * BLOCK) as u64
    }
}

fn write(version: u32) -> Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open("table")?;
    file.write_all_at(&table(version, blocks()), place(version))?;
    //~ BUG_TORN_TABLE ordering needed on all but ext4-journal
    //~ BUG_TORN_TABLE ordering ahead on all but ext4-journal
    //~ BUG_TORN_TABLE atomicity needed on all but ext4-journal
    //~ BUG_TORN_TABLE atomicity ahead on all but ext4-journal
    //~ BUG_TORN_BLOCK ordering needed on posix ext4-ordered ext4-writeback xfs
    //~ BUG_TORN_BLOCK ordering ahead on posix ext4-ordered ext4-writeback xfs
    //~ BUG_TORN_BLOCK atomicity needed on posix ext4-ordered ext4-writeback xfs
    //~ BUG_TORN_BLOCK atomicity ahead on posix ext4-ordered ext4-writeback xfs
    file.sync_data()
}

fn init() -> Result<()> {
    std::fs::write("table", vec![0; 2 * blocks() * BLOCK])?;
    write(0)?;
    File::open(".")?.sync_all()
}

fn recover() -> std::result::Result<u32, String> {
    let bytes = std::fs::read("table").map_err(|error| format!("table: {error}"))?;
    let is_whole = |slot: &[u8], version: u32| slot == table(version, blocks());
    let slots = bytes.chunks_exact(blocks() * BLOCK);
    let versions =
        slots.filter_map(|slot| (0..=OPERATIONS).find(|version| is_whole(slot, *version)));
    versions.max().ok_or_else(|| "no table is whole".to_owned())
}

fn main() {
    let program = driver::Program {
        operations: OPERATIONS,
        init,
        apply: write,
        recover,
    };
    program.main();
}
