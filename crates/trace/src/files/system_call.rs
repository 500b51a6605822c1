//! The names of system calls that stand in recordings, and where a [`Call`] came from.

use super::{Call, Effect, Through};
use serde::{Deserialize, Serialize};

/// The number of a system call on x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SystemCall(pub u16);

impl SystemCall {
    /// None: a store into a mapping, as the program itself recorded it.
    pub const STORE: SystemCall = SystemCall(u16::MAX);

    /// The name, of calls that a watcher records; `store` for [`SystemCall::STORE`].
    pub fn name(self) -> Option<&'static str> {
        if self == SystemCall::STORE {
            return Some("store");
        }
        let row = NAMES.binary_search_by_key(&self.0, |row| row.0).ok()?;
        Some(NAMES[row].1)
    }
}

/// Where a [`Call`] came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallOrigin {
    /// The program called the system.
    System(SystemCall),
    /// The program stored into a mapping, and recorded that itself.
    Store,
    /// Stores into a mapping, found by comparing pages when the program called the system next.
    Comparison,
}

impl Call<'_> {
    pub fn origin(&self) -> CallOrigin {
        let by_mapping = |effect: &Effect<'_>| {
            let mapping = Through::Mapping;
            matches!(effect, Effect::Write { through, .. } if *through == mapping)
        };
        if self.number == SystemCall::STORE {
            CallOrigin::Store
        } else if !self.effects.is_empty() && self.effects.iter().all(by_mapping) {
            CallOrigin::Comparison
        } else {
            CallOrigin::System(self.number)
        }
    }

    /// What the call is called: the name of the system call, or what stands for it where there was
    /// none. What somebody else changed in the folder stands under the call that noticed it.
    pub fn name(&self) -> &'static str {
        match self.origin() {
            CallOrigin::System(number) => number.name().unwrap_or("unknown"),
            CallOrigin::Store => "store",
            CallOrigin::Comparison => "stores into a mapping",
        }
    }
}

/// Sorted by number. The calls that end a program stand for what they close.
#[rustfmt::skip]
const NAMES: &[(u16, &str)] = &[
    (1, "write"),
    (2, "open"),
    (3, "close"),
    (9, "mmap"),
    (10, "mprotect"),
    (11, "munmap"),
    (16, "ioctl"),
    (18, "pwrite64"),
    (20, "writev"),
    (25, "mremap"),
    (26, "msync"),
    (28, "madvise"),
    (32, "dup"),
    (33, "dup2"),
    (40, "sendfile"),
    (44, "sendto"),
    (46, "sendmsg"),
    (59, "execve"),
    (60, "exit"),
    (72, "fcntl"),
    (74, "fsync"),
    (75, "fdatasync"),
    (76, "truncate"),
    (77, "ftruncate"),
    (80, "chdir"),
    (81, "fchdir"),
    (82, "rename"),
    (83, "mkdir"),
    (84, "rmdir"),
    (85, "creat"),
    (86, "link"),
    (87, "unlink"),
    (88, "symlink"),
    (90, "chmod"),
    (91, "fchmod"),
    (92, "chown"),
    (93, "fchown"),
    (94, "lchown"),
    (133, "mknod"),
    (155, "pivot_root"),
    (161, "chroot"),
    (162, "sync"),
    (188, "setxattr"),
    (189, "lsetxattr"),
    (190, "fsetxattr"),
    (197, "removexattr"),
    (198, "lremovexattr"),
    (199, "fremovexattr"),
    (203, "sched_setaffinity"),
    (204, "sched_getaffinity"),
    (231, "exit_group"),
    (257, "openat"),
    (258, "mkdirat"),
    (259, "mknodat"),
    (260, "fchownat"),
    (263, "unlinkat"),
    (264, "renameat"),
    (265, "linkat"),
    (266, "symlinkat"),
    (268, "fchmodat"),
    (272, "unshare"),
    (275, "splice"),
    (276, "tee"),
    (277, "sync_file_range"),
    (278, "vmsplice"),
    (285, "fallocate"),
    (292, "dup3"),
    (296, "pwritev"),
    (306, "syncfs"),
    (307, "sendmmsg"),
    (308, "setns"),
    (316, "renameat2"),
    (326, "copy_file_range"),
    (328, "pwritev2"),
    (329, "pkey_mprotect"),
    (436, "close_range"),
    (437, "openat2"),
    (452, "fchmodat2"),
    (463, "setxattrat"),
    (466, "removexattrat"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{InodeId, StackId};

    fn call(number: SystemCall, through: Through) -> Call<'static> {
        Call {
            order: 0,
            process: 0,
            thread: 0,
            number,
            stack: StackId::NONE,
            text: "",
            effects: vec![Effect::Write {
                inode: InodeId(1),
                offset: 0,
                bytes: b"x",
                through,
            }],
        }
    }

    #[test]
    fn numbers_are_sorted_and_have_their_names() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(SystemCall(74).name(), Some("fsync"));
        assert_eq!(SystemCall(0).name(), None);
    }

    #[test]
    fn stores_are_told_from_system_calls() {
        let write = SystemCall(1);
        assert_eq!(call(write, Through::Cache).name(), "write");
        assert_eq!(
            call(write, Through::Mapping).origin(),
            CallOrigin::Comparison
        );
        assert_eq!(
            call(SystemCall::STORE, Through::Mapping).origin(),
            CallOrigin::Store
        );
    }
}
