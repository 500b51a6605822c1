//! Paths of the program, resolved by the kernel from where the program stands.
//!
//! A path is split into its folder, which is opened, and its last component, which is not followed:
//! that is what calls that change names work on. Symbolic links, `..` and mount points on the way
//! are the kernel's business.

use crate::inodes::Number;
use crate::ptrace::Tid;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

/// How many symbolic links the kernel follows.
const MAX_LINKS: usize = 40;

/// A name in an opened folder.
#[derive(Debug)]
pub struct Name {
    pub folder: OwnedFd,
    pub folder_number: Number,
    pub name: Vec<u8>,
    /// What it is now, links not followed.
    pub stat: Option<Stat>,
}

/// A path that means something else to us than to the program.
pub fn translate(path: &[u8], leader: Tid, thread: Tid) -> Vec<u8> {
    let own = |rest: &[u8], middle: String| [middle.as_bytes(), rest].concat();
    let process = format!("/proc/{}", leader.0);
    let table: [(&[u8], String); 6] = [
        (b"/proc/self", process.clone()),
        (b"/proc/thread-self", format!("{process}/task/{}", thread.0)),
        (b"/dev/fd", format!("{process}/fd")),
        (b"/dev/stdin", format!("{process}/fd/0")),
        (b"/dev/stdout", format!("{process}/fd/1")),
        (b"/dev/stderr", format!("{process}/fd/2")),
    ];
    for (prefix, replacement) in table {
        if let Some(rest) = path.strip_prefix(prefix)
            && (rest.is_empty() || rest[0] == b'/')
        {
            return own(rest, replacement);
        }
    }
    path.to_owned()
}

/// Folder and last component; a path that ends in slashes means what stands before them.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |last| last + 1);
    let path = &path[..end];
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..=slash], &path[slash + 1..]),
        None => (b".", path),
    }
}

/// The name that a path ends in, from a folder.
pub fn name(base: impl AsFd, path: &[u8]) -> Result<Name, Errno> {
    let (folder, name) = split(path);
    if name.is_empty() {
        return Err(Errno::NOENT);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(base, folder, flags, Mode::empty())?;
    let folder_number = Number::from(&rustix::fs::fstat(&folder)?);
    let stat = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error),
    };
    Ok(Name {
        folder,
        folder_number,
        name: name.to_owned(),
        stat,
    })
}

/// The same, where links that are the last component are followed to where they lead, there or
/// not.
pub fn followed(base: impl AsFd, path: &[u8]) -> Result<Name, Errno> {
    let mut found = name(base, path)?;
    for _ in 0..MAX_LINKS {
        let is_link = found.stat.as_ref().is_some_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink
        });
        if !is_link {
            return Ok(found);
        }
        let target = rustix::fs::readlinkat(&found.folder, &found.name[..], Vec::new())?;
        found = name(&found.folder, target.as_bytes())?;
    }
    Err(Errno::LOOP)
}

/// What a path leads to.
pub fn stat(base: impl AsFd, path: &[u8], follow: bool) -> Result<Stat, Errno> {
    let flags = if follow {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    };
    rustix::fs::statat(base, path, flags | AtFlags::EMPTY_PATH)
}

/// Where the current folder of a thread is, opened.
pub fn current_folder(tid: Tid) -> Result<OwnedFd, Errno> {
    open_magic(&format!("/proc/{}/cwd", tid.0))
}

pub fn root_folder(tid: Tid) -> Result<OwnedFd, Errno> {
    open_magic(&format!("/proc/{}/root", tid.0))
}

fn open_magic(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_folder_and_its_last_component() {
        assert_eq!(split(b"a"), (&b"."[..], &b"a"[..]));
        assert_eq!(split(b"/a"), (&b"/"[..], &b"a"[..]));
        assert_eq!(split(b"x/y//"), (&b"x/"[..], &b"y"[..]));
        assert_eq!(split(b"/"), (&b"."[..], &b""[..]));
    }

    #[test]
    fn self_is_the_program_and_not_us() {
        let translated = |path: &[u8]| translate(path, Tid(7), Tid(8));
        assert_eq!(translated(b"/proc/self/fd/3"), b"/proc/7/fd/3");
        assert_eq!(translated(b"/dev/fd/3"), b"/proc/7/fd/3");
        assert_eq!(translated(b"/proc/selfish"), b"/proc/selfish");
        assert_eq!(translated(b"data/x"), b"data/x");
    }
}
