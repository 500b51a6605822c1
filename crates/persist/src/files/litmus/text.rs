//! Operations as they are written in the files.

use super::{LitmusFile, LitmusOp, WriteFlags};
use crashpoint_trace::files::Allocation;
use std::fmt::{Display, Formatter, Result};

impl Display for LitmusFile {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        match self {
            LitmusFile::Path(path) => write!(to, "{path}"),
            LitmusFile::Handle(handle) => write!(to, "@{handle}"),
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

fn how(how: WriteFlags) -> &'static str {
    match how {
        WriteFlags::Plain => "",
        WriteFlags::Direct => " direct",
        WriteFlags::Dsync => " dsync",
        WriteFlags::Sync => " sync",
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

impl Display for LitmusOp {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        match self {
            LitmusOp::Create { path } => write!(to, "create {path}"),
            LitmusOp::Mkdir { path } => write!(to, "mkdir {path}"),
            LitmusOp::Symlink { target, path } => write!(to, "symlink {target} {path}"),
            LitmusOp::Link { file, path } => write!(to, "link {file} {path}"),
            LitmusOp::Unlink { path } => write!(to, "unlink {path}"),
            LitmusOp::Rmdir { path } => write!(to, "rmdir {path}"),
            LitmusOp::Rename { from, to: new } => write!(to, "rename {from} {new}"),
            LitmusOp::Exchange { first, second } => write!(to, "exchange {first} {second}"),
            LitmusOp::Open { handle, path } => write!(to, "open @{handle} {path}"),
            LitmusOp::Tmpfile { handle, directory } => write!(to, "tmpfile @{handle} {directory}"),
            LitmusOp::Close { handle } => write!(to, "close @{handle}"),
            LitmusOp::Write {
                file,
                offset,
                bytes,
                how: way,
            } => write!(to, "write {file} {offset} {}{}", runs(bytes), how(*way)),
            LitmusOp::Append {
                file,
                bytes,
                how: way,
            } => write!(to, "append {file} {}{}", runs(bytes), how(*way)),
            LitmusOp::Truncate { file, size } => write!(to, "truncate {file} {size}"),
            LitmusOp::Allocate {
                file,
                offset,
                length,
                what,
            } => {
                let what = allocation(*what);
                write!(to, "fallocate {file} {what} {offset} {length}")
            }
            LitmusOp::Copy { from, to: into } => write!(to, "copy {from} {into}"),
            LitmusOp::Store {
                file,
                offset,
                bytes,
            } => write!(to, "store {file} {offset} {}", runs(bytes)),
            LitmusOp::Msync { file, range, waits } => {
                let way = if *waits { "" } else { " async" };
                let (offset, length) = (range.start, range.end - range.start);
                write!(to, "msync {file} {offset} {length}{way}")
            }
            LitmusOp::SetXattr { file, name, value } => {
                let value = String::from_utf8_lossy(value);
                write!(to, "xattr {file} {name} {value}")
            }
            LitmusOp::Chmod { file, mode } => write!(to, "chmod {file} {mode:o}"),
            LitmusOp::Fsync { file } => write!(to, "fsync {file}"),
            LitmusOp::FailedFsync { file } => write!(to, "failed-fsync {file}"),
            LitmusOp::Fdatasync { file } => write!(to, "fdatasync {file}"),
            LitmusOp::SyncFileRange {
                file,
                offset,
                length,
            } => write!(to, "sync-file-range {file} {offset} {length}"),
            LitmusOp::Sync => write!(to, "sync"),
            LitmusOp::Syncfs => write!(to, "syncfs"),
        }
    }
}
