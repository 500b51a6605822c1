//! Operations as they are written in the files.

use super::{File, How, Op};
use crashpoint_trace::files::Allocation;
use std::fmt::{Display, Formatter, Result};

impl Display for File {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        match self {
            File::Path(path) => write!(to, "{path}"),
            File::Handle(handle) => write!(to, "@{handle}"),
        }
    }
}

/// Runs of equal bytes: `A*3,0*5`.
fn runs(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|one, other| one == other);
    let texts = runs.map(|run| match run[0] {
        0 => format!("0*{}", run.len()),
        byte => format!("{}*{}", char::from(byte), run.len()),
    });
    texts.collect::<Vec<_>>().join(",")
}

fn how(how: How) -> &'static str {
    match how {
        How::Plain => "",
        How::Direct => " direct",
        How::Dsync => " dsync",
        How::Sync => " sync",
    }
}

fn allocation(what: Allocation) -> &'static str {
    match what {
        Allocation::Reserve => "reserve",
        Allocation::ReserveKeepSize => "reserve-keep-size",
        Allocation::PunchHole => "punch",
        Allocation::Zero => "zero",
        Allocation::ZeroKeepSize => "zero-keep-size",
        Allocation::Collapse => "collapse",
        Allocation::Insert => "insert",
    }
}

impl Display for Op {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        match self {
            Op::Create { path } => write!(to, "create {path}"),
            Op::Mkdir { path } => write!(to, "mkdir {path}"),
            Op::Symlink { target, path } => write!(to, "symlink {target} {path}"),
            Op::Link { file, path } => write!(to, "link {file} {path}"),
            Op::Unlink { path } => write!(to, "unlink {path}"),
            Op::Rmdir { path } => write!(to, "rmdir {path}"),
            Op::Rename { from, to: new } => write!(to, "rename {from} {new}"),
            Op::Exchange { first, second } => write!(to, "exchange {first} {second}"),
            Op::Open { handle, path } => write!(to, "open @{handle} {path}"),
            Op::Tmpfile { handle, directory } => write!(to, "tmpfile @{handle} {directory}"),
            Op::Close { handle } => write!(to, "close @{handle}"),
            Op::Write {
                file,
                offset,
                bytes,
                how: way,
            } => write!(to, "write {file} {offset} {}{}", runs(bytes), how(*way)),
            Op::Append {
                file,
                bytes,
                how: way,
            } => write!(to, "append {file} {}{}", runs(bytes), how(*way)),
            Op::Truncate { file, size } => write!(to, "truncate {file} {size}"),
            Op::Allocate {
                file,
                offset,
                length,
                what,
            } => {
                let what = allocation(*what);
                write!(to, "fallocate {file} {what} {offset} {length}")
            }
            Op::Copy { from, to: into } => write!(to, "copy {from} {into}"),
            Op::Store {
                file,
                offset,
                bytes,
            } => write!(to, "store {file} {offset} {}", runs(bytes)),
            Op::Msync {
                file,
                offset,
                length,
                waits,
            } => {
                let way = match waits {
                    true => "",
                    false => " async",
                };
                write!(to, "msync {file} {offset} {length}{way}")
            }
            Op::SetXattr { file, name, value } => {
                let value = String::from_utf8_lossy(value);
                write!(to, "xattr {file} {name} {value}")
            }
            Op::Chmod { file, mode } => write!(to, "chmod {file} {mode:o}"),
            Op::Fsync { file } => write!(to, "fsync {file}"),
            Op::FailedFsync { file } => write!(to, "failed-fsync {file}"),
            Op::Fdatasync { file } => write!(to, "fdatasync {file}"),
            Op::SyncFileRange {
                file,
                offset,
                length,
            } => write!(to, "sync-file-range {file} {offset} {length}"),
            Op::Sync => write!(to, "sync"),
            Op::Syncfs => write!(to, "syncfs"),
        }
    }
}
