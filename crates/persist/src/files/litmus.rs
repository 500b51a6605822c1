//! Litmus tests: tiny programs, and exactly the trees that a crash may leave under each model.
//!
//! Every rule of the models is named by at least one of them. The programs are data, in `litmus/`,
//! and a [`LitmusOp`] is what a system call does, so that they can also be run on a real file system:
//! what a kernel leaves must be among what its model allows.
//!
//! # Format
//!
//! ```text
//! litmus two-appends
//! rules E3 K2
//! setup
//!   create f A*100
//! program
//!   append f B*1
//! allow xfs btrfs
//!   f=A*100
//!   f=A*100,B*1
//! end xfs btrfs
//!   ...
//! ```
//!
//! `allow` lists the states of a crash at any time, `end` those of a crash when the program is
//! over, each in the form of [`super::Tree::summary`]. What `setup` makes is durable. Bytes are
//! written as runs: `A*3,0*5` is three `A` and five zeros. Paths are seen from the watched folder,
//! which is `.`; `@h` is a file that was opened as `h`.

mod parse;
mod simulate;
mod states;
mod text;

#[cfg(test)]
mod tests;

pub use parse::LitmusError;
pub use states::{States, states};

use crashpoint_trace::files::{Allocation, Before, Call};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A file, by name or as it was opened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LitmusFile {
    Path(String),
    Handle(String),
}

/// How a write is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFlags {
    Plain,
    /// `O_DIRECT`: offset and length are multiples of 512.
    Direct,
    /// `RWF_DSYNC`
    Dsync,
    /// `RWF_SYNC`
    Sync,
}

/// What a program does, one system call each. A file that is named by its path is opened for the
/// call and closed after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LitmusOp {
    Create {
        path: String,
    },
    Mkdir {
        path: String,
    },
    Symlink {
        target: String,
        path: String,
    },
    /// `link`, or of a file without a name `linkat`.
    Link {
        file: LitmusFile,
        path: String,
    },
    Unlink {
        path: String,
    },
    Rmdir {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// `renameat2(RENAME_EXCHANGE)`
    Exchange {
        first: String,
        second: String,
    },
    /// For reading and writing.
    Open {
        handle: String,
        path: String,
    },
    /// `open(O_TMPFILE)`
    Tmpfile {
        handle: String,
        directory: String,
    },
    Close {
        handle: String,
    },
    Write {
        file: LitmusFile,
        offset: u64,
        bytes: Vec<u8>,
        how: WriteFlags,
    },
    Append {
        file: LitmusFile,
        bytes: Vec<u8>,
        how: WriteFlags,
    },
    Truncate {
        file: LitmusFile,
        size: u64,
    },
    Allocate {
        file: LitmusFile,
        offset: u64,
        length: u64,
        what: Allocation,
    },
    /// `copy_file_range` of all of a file that the program does not change.
    Copy {
        from: String,
        to: LitmusFile,
    },
    /// Stores to a shared mapping.
    Store {
        file: LitmusFile,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// `msync(MS_SYNC)` of a mapped range, or `MS_ASYNC`.
    Msync {
        file: LitmusFile,
        range: Range<u64>,
        waits: bool,
    },
    SetXattr {
        file: LitmusFile,
        name: String,
        value: Vec<u8>,
    },
    Chmod {
        file: LitmusFile,
        mode: u32,
    },
    Fsync {
        file: LitmusFile,
    },
    /// That returned an error; on a real file system, left out.
    FailedFsync {
        file: LitmusFile,
    },
    Fdatasync {
        file: LitmusFile,
    },
    SyncFileRange {
        file: LitmusFile,
        offset: u64,
        length: u64,
    },
    Sync,
    Syncfs,
}

/// What a model must allow, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Of a crash at any time.
    pub any_time: Option<BTreeSet<String>>,
    /// Of a crash when the program is over.
    pub at_end: Option<BTreeSet<String>>,
}

#[derive(Clone, Debug)]
pub struct Litmus {
    pub name: String,
    /// The rules that it is about.
    pub rules: Vec<String>,
    pub setup: Vec<LitmusOp>,
    pub program: Vec<LitmusOp>,
    /// By the name of the model.
    pub expected: BTreeMap<String, Expected>,
    /// The program's lines, for reports.
    texts: Vec<String>,
    start: simulate::Start,
}

/// All litmus tests.
pub fn all() -> Vec<Litmus> {
    let texts = [
        include_str!("../../litmus/common.litmus"),
        include_str!("../../litmus/ext4.litmus"),
        include_str!("../../litmus/xfs.litmus"),
        include_str!("../../litmus/btrfs.litmus"),
        include_str!("../../litmus/atomicity.litmus"),
        include_str!("../../litmus/filler.litmus"),
        include_str!("../../litmus/barriers.litmus"),
        include_str!("../../litmus/tracking.litmus"),
    ];
    let all = texts.iter().flat_map(|text| {
        Litmus::parse(text).unwrap_or_else(|error| panic!("built-in litmus tests: {error}"))
    });
    all.collect()
}

impl Litmus {
    /// Several tests from their text.
    pub fn parse(text: &str) -> Result<Vec<Litmus>, LitmusError> {
        parse::litmus(text)
    }

    /// A test that expects nothing yet, or why its operations cannot be executed.
    pub fn new(name: &str, setup: Vec<LitmusOp>, program: Vec<LitmusOp>) -> Result<Litmus, String> {
        let start = simulate::start(&setup)?;
        simulate::check(&start, &program)?;
        Ok(Litmus {
            name: name.to_owned(),
            rules: Vec::new(),
            texts: program.iter().map(|op| op.to_string()).collect(),
            setup,
            program,
            expected: BTreeMap::new(),
            start,
        })
    }

    /// What a recording of the program would hold.
    pub fn calls(&self) -> (Before<'_>, Vec<Call<'_>>) {
        simulate::calls(&self.start, &self.program, &self.texts)
    }
}
