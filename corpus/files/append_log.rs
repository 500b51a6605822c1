//! A log that is appended to.
//!
//! Correct: the name of the log is durable before anything in it is acknowledged, each record
//! before its own acknowledgement, and a checksum tells a record from what a crash left of it.

mod driver;

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result, Write};

const RECORD: usize = 64;

fn record(number: u32) -> [u8; RECORD] {
    let mut bytes = [b'.'; RECORD];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    let text = format!("the operation with number {number}");
    bytes[8..8 + text.len()].copy_from_slice(text.as_bytes());
    let sum = checksum(&bytes);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Of all but the checksum itself.
fn checksum(record: &[u8]) -> u32 {
    let covered = record[..4].iter().chain(&record[8..]);
    covered.fold(2166136261, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(16777619)
    })
}

fn init() -> Result<()> {
    Ok(())
}

fn apply(number: u32) -> Result<()> {
    let is_new = !std::fs::exists("log")?;
    let mut log = OpenOptions::new().create(true).append(true).open("log")?;
    //~ BUG_NAME_NOT_SYNCED durability needed on posix
    if is_new && !cfg!(BUG_NAME_NOT_SYNCED) {
        File::open(".")?.sync_all()?;
    }
    log.write_all(&record(number))?;
    //~ BUG_NO_SYNC durability needed on all
    //~ BUG_NO_CHECKSUM ordering needed on posix ext4-ordered ext4-writeback
    //~ BUG_NO_CHECKSUM ordering ahead on posix ext4-ordered ext4-writeback
    //~ BUG_NO_CHECKSUM atomicity needed on posix ext4-ordered ext4-writeback
    //~ BUG_NO_CHECKSUM atomicity ahead on posix ext4-ordered ext4-writeback
    if cfg!(BUG_NO_SYNC) {
        return Ok(());
    }
    log.sync_all()
}

fn recover() -> std::result::Result<u32, String> {
    let log = match std::fs::read("log") {
        Ok(log) => log,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error.to_string()),
    };
    let mut found = 0;
    // What is shorter than a record was never finished.
    for bytes in log.chunks_exact(RECORD) {
        let sum = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        if !cfg!(BUG_NO_CHECKSUM) && sum != checksum(bytes) {
            break;
        }
        found += 1;
        if bytes != record(found) {
            return Err(format!(
                "record {found} reads {:?}",
                String::from_utf8_lossy(bytes)
            ));
        }
    }
    Ok(found)
}

fn main() {
    let program = driver::Program {
        operations: 3,
        init,
        apply,
        recover,
    };
    program.main();
}
