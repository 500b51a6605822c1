//! Why a program could not be watched.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("the folder {} cannot be watched: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("{} is not a folder: --dir names the folder that the program changes", path.display())]
    NotAFolder { path: PathBuf },
    #[error(
        "the recording would go to {}, which lies in the watched folder: choose another place \
         with --out", out.display()
    )]
    OutInside { out: PathBuf },
    #[error("name a program to run")]
    NoCommand,
    #[error("a program, its arguments and its environment cannot have zero bytes in them")]
    ZeroByte,
    #[error("could not start `{program}`: {source}")]
    Start { program: String, source: io::Error },
    #[error("could not start in {}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    Stdin { path: PathBuf, source: io::Error },
    #[error(
        "the program may not be watched ({source}): ptrace is forbidden here; in a container, \
         allow it with --cap-add=SYS_PTRACE, and see /proc/sys/kernel/yama/ptrace_scope"
    )]
    NotPermitted { source: io::Error },
    #[error(
        "the kernel refuses the filter of system calls ({source}): it needs CONFIG_SECCOMP_FILTER"
    )]
    Filter { source: io::Error },
    #[error(
        "`{program}` made a 32-bit system call: only 64-bit programs for x86-64 can be watched"
    )]
    ThirtyTwoBit { program: String },
    #[error("cannot copy {} as it was before: {source}", path.display())]
    Copy { path: PathBuf, source: io::Error },
    #[error("cannot write the recording: {source}")]
    Write { source: io::Error },
    #[error("could not {what}: {source}")]
    System {
        what: &'static str,
        source: io::Error,
    },
    #[error("programs can be watched on x86-64 Linux only")]
    Machine,
}
