//! The files of this process in the folder of the recording.
//!
//! They are opened by their absolute path each time they are written, and closed again: a target
//! may close all descriptors that it does not know, and would be surprised by one of ours.

use crate::process::fatal;
use crate::sys::{self, Errno, File};
use crate::text::Text;
use core::cell::UnsafeCell;
use core::fmt::{self, Arguments, Write};
use core::sync::atomic::{AtomicU32, Ordering};

/// The folder of the recording, while it is set up.
pub struct Folder {
    pub out: &'static [u8],
}

impl Folder {
    /// Path of a file in the folder of traces.
    pub fn path(&self, name: Arguments<'_>) -> Option<Text> {
        let mut text = Text::new().ok()?;
        text.push(self.out);
        text.push(b"/trace/");
        text.write_fmt(name).ok()?;
        (!text.is_cut()).then_some(text)
    }

    /// Makes the folder with the folder of traces in it.
    pub fn make(&self) {
        let mut text = match Text::new() {
            Ok(text) => text,
            Err(error) => self.refuse(error),
        };
        text.push(self.out);
        for part in [&b""[..], b"/trace"] {
            text.push(part);
            let Some(path) = text.path() else {
                self.refuse(Errno(libc::EINVAL));
            };
            match sys::make_directory(path) {
                Ok(()) | Err(Errno(libc::EEXIST)) => {}
                Err(error) => self.refuse(error),
            }
        }
    }

    /// Ends the process: a recording was asked for and is not possible.
    pub fn refuse(&self, error: Errno) -> ! {
        fatal(format_args!(
            "cannot record to {}: {} (set CRASHPOINT_OUT to a folder that can be written)",
            Lossy(self.out),
            describe(error)
        ))
    }

    pub fn refuse_with(&self, reason: &str) -> ! {
        fatal(format_args!(
            "cannot record to {}: {reason}",
            Lossy(self.out)
        ))
    }
}

/// Bytes shown as text.
pub struct Lossy<'a>(pub &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            to.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                to.write_char('\u{fffd}')?;
            }
        }
        Ok(())
    }
}

/// What went wrong, for people; only what happens to those who record.
pub fn describe(error: Errno) -> &'static str {
    match error.0 {
        libc::EACCES | libc::EPERM => "permission denied",
        libc::ENOENT => "no such folder",
        libc::ENOTDIR => "not a folder",
        libc::ENOSPC | libc::EDQUOT => "the disk is full",
        libc::EROFS => "the file system is read-only",
        libc::ENAMETOOLONG => "the path is too long",
        libc::EMFILE | libc::ENFILE => "too many open files",
        libc::EFBIG => "the file would be too large",
        libc::ENOMEM => "no memory",
        libc::ELOOP => "too many symbolic links",
        _ => "it cannot be written",
    }
}

/// Longest path of a file of a run.
pub const PATH_BYTES: usize = crate::config::OUT_BYTES + 64;

/// `<out>/trace/p<pid>-<k>`, without an end.
struct Prefix {
    bytes: UnsafeCell<[u8; PATH_BYTES]>,
    length: AtomicU32,
}

// SAFETY: written by `begin` alone, which runs before there are readers, or in a forked child,
// which has one thread.
unsafe impl Sync for Prefix {}

/// The process that the files belong to. A child of vfork runs in its parent's memory but has
/// another number.
static OWNER: AtomicU32 = AtomicU32::new(0);

pub fn is_owner() -> bool {
    OWNER.load(Ordering::Relaxed) == sys::process_id()
}

static PREFIX: Prefix = Prefix {
    bytes: UnsafeCell::new([0; PATH_BYTES]),
    length: AtomicU32::new(0),
};

fn prefix() -> &'static [u8] {
    let length = PREFIX.length.load(Ordering::Acquire) as usize;
    // SAFETY: see `Prefix`.
    unsafe { &(&*PREFIX.bytes.get())[..length] }
}

/// `p<pid>-<k>`.
pub fn name() -> &'static [u8] {
    let prefix = prefix();
    let start = prefix
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    &prefix[start..]
}

/// Writes into a given slice; what does not fit makes an error.
pub struct Slot<'a> {
    pub bytes: &'a mut [u8],
    pub length: usize,
}

impl Write for Slot<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Writes the path of a file of this run and a zero byte into `slot`.
pub fn write_path(slot: &mut [u8], suffix: Arguments<'_>) -> Option<()> {
    let prefix = prefix();
    slot.get_mut(..prefix.len())?.copy_from_slice(prefix);
    let mut slot = Slot {
        bytes: slot,
        length: prefix.len(),
    };
    slot.write_fmt(suffix).ok()?;
    slot.write_str("\0").ok()
}

/// Path of a file of this run.
pub fn path(suffix: Arguments<'_>) -> Option<Text> {
    let mut text = Text::new().ok()?;
    text.push(prefix());
    text.write_fmt(suffix).ok()?;
    Some(text)
}

/// Takes a name for this process that no other has or had, by making its meta file. Returns the
/// number that distinguishes it from others with the same process id.
pub fn begin(out: &[u8], process: u32) -> Result<u32, Errno> {
    let mut text = Text::new()?;
    for run in 0..1_000_000 {
        text.clear();
        text.push(out);
        let _ = write!(text, "/trace/p{process}-{run}");
        let length = text.bytes().len();
        if length + 40 > PATH_BYTES {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        text.push(b".meta");
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        match File::open(text.path().ok_or(Errno(libc::EINVAL))?, flags) {
            Ok(_) => {
                // SAFETY: see `Prefix`.
                let bytes = unsafe { &mut *PREFIX.bytes.get() };
                bytes[..length].copy_from_slice(&text.bytes()[..length]);
                PREFIX.length.store(length as u32, Ordering::Release);
                OWNER.store(process, Ordering::Relaxed);
                return Ok(run);
            }
            Err(Errno(libc::EEXIST)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno(libc::EEXIST))
}

/// Appends a line to the meta file. A line that cannot be written is missed by the reader, which
/// says so; the target goes on.
pub fn tell(line: &mut Text) {
    line.push(b"\n");
    let Some(mut path) = path(format_args!(".meta")) else {
        return;
    };
    if let Some(path) = path.path()
        && let Ok(file) = File::open(path, libc::O_WRONLY | libc::O_APPEND)
    {
        let _ = file.append(line.bytes());
    }
}
