//! The persistent files that this process has mapped.
//!
//! A file is persistent if its path matches a pattern of the user or if it is mapped with
//! `MAP_SYNC`. It is known by device, inode and time of birth (inode numbers are given anew), and
//! has one number, one image and one shadow, however often it is mapped. Device files (`/dev/dax`)
//! have no image and no shadow: they cannot be read but through a mapping.

use crate::config::Config;
use crate::glob;
use crate::image;
use crate::lock;
use crate::memory;
use crate::proc;
use crate::process;
use crate::regions::REGIONS;
use crate::run;
use crate::sys::{self, Errno, File, Identity, PAGE_BYTES};
use crate::text::Text;
use core::fmt::Write;
use libc::c_int;

#[derive(Clone, Copy)]
pub struct FileEntry {
    pub identity: Identity,
    pub path: &'static [u8],
    /// Address of the shadow of the file's first byte; 0: none.
    pub shadow: u64,
    shadow_length: u64,
    /// Name of the image in the recording; empty if all was zero.
    image: &'static [u8],
    /// Where it was mapped last, and with which offset: the place to come back to; 0: nowhere yet.
    pub home: u64,
    pub home_offset: u64,
    /// A private mapping was stored to and is gone: what is mapped next does not show it.
    pub is_stale: bool,
}

/// Most files that one process maps. Further ones are not seen as persistent.
const CAPACITY: usize = 1 << 16;

pub struct Files {
    entries: *mut FileEntry,
    count: usize,
}

/// A file, by its place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index(usize);

impl Index {
    /// The number under which the recording knows the file.
    pub fn number(self) -> u32 {
        self.0 as u32 + 1
    }

    pub fn of_number(number: u64) -> Index {
        Index(number as usize - 1)
    }
}

/// Whether a file that is mapped with these flags is persistent memory.
pub fn is_persistent(config: &Config, descriptor: c_int, flags: c_int) -> bool {
    if flags & libc::MAP_TYPE == libc::MAP_SHARED_VALIDATE && flags & libc::MAP_SYNC != 0 {
        return true;
    }
    // A server has looked its pools up; paths cost more than all else in mapping a file.
    if process::is_serving() && lock::lock().files.known(descriptor).is_some() {
        return true;
    }
    !config.pm.is_empty()
        && proc::with_descriptor_path(descriptor, |path| path_is_persistent(config, path))
}

pub fn path_is_persistent(config: &Config, path: &[u8]) -> bool {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    !path.is_empty() && glob::list(config.pm).any(|pattern| fits(config, pattern, path))
}

/// Relative patterns start where the program was started. The folder in front of the first
/// wildcard may be reached by symbolic links, which the kernel has resolved in `path`.
fn fits(config: &Config, pattern: &[u8], path: &[u8]) -> bool {
    let Ok(mut whole) = Text::new() else {
        return false;
    };
    if !pattern.starts_with(b"/") {
        whole.push(config.directory);
        whole.push(b"/");
    }
    whole.push(pattern.strip_prefix(b"./").unwrap_or(pattern));
    if glob::matches(whole.bytes(), path) {
        return true;
    }
    let (folder, rest) = glob::folder(whole.bytes());
    let Ok(mut resolved) = Text::new() else {
        return false;
    };
    resolved.push(folder);
    let opened = resolved
        .path()
        .and_then(|folder| File::open(folder, libc::O_PATH | libc::O_DIRECTORY).ok());
    let Some(opened) = opened else { return false };
    proc::with_descriptor_path(opened.number(), |folder| {
        resolved.clear();
        resolved.push(folder);
        resolved.push(if folder == b"/" { b"" } else { b"/" });
        resolved.push(rest);
        glob::matches(resolved.bytes(), path)
    })
}

impl Files {
    pub const fn new() -> Files {
        Files {
            entries: core::ptr::null_mut(),
            count: 0,
        }
    }

    pub fn get(&mut self, index: Index) -> &mut FileEntry {
        assert!(index.0 < self.count);
        // SAFETY: below the count, so it has been written.
        unsafe { &mut *self.entries.add(index.0) }
    }

    fn find(&mut self, wanted: &Identity) -> Option<Index> {
        (0..self.count)
            .map(Index)
            .find(|&index| self.get(index).identity.is_same_file(wanted))
    }

    /// The file behind a descriptor, if it has been seen.
    pub fn known(&mut self, descriptor: c_int) -> Option<Index> {
        let identity = sys::identity(descriptor).ok()?;
        self.find(&identity)
    }

    /// In a fork server: sees the files that patterns name as they are, so that each child knows
    /// them.
    pub fn see_named(&mut self, config: &Config) {
        for pattern in glob::list(config.pm).filter(|pattern| glob::is_literal(pattern)) {
            let Ok(mut path) = Text::new() else { return };
            path.push(pattern);
            let opened = path.path().map(|path| File::open(path, libc::O_PATH));
            if let Some(Ok(file)) = opened {
                let _ = self.see(config, file.number());
            }
        }
    }

    /// The file behind a descriptor; when it is seen for the first time its content is captured, if
    /// this process records.
    /// Also says whether it was known.
    pub fn see(&mut self, config: &Config, descriptor: c_int) -> Result<(Index, bool), Errno> {
        let identity = sys::identity(descriptor)?;
        if let Some(index) = self.find(&identity) {
            return Ok((index, true));
        }
        if self.entries.is_null() {
            self.entries = memory::anonymous(CAPACITY * size_of::<FileEntry>())? as *mut FileEntry;
        }
        if self.count == CAPACITY {
            return Err(Errno(libc::ENFILE));
        }
        let entry = FileEntry {
            identity,
            path: image::path_of(descriptor),
            shadow: 0,
            shadow_length: 0,
            image: b"",
            home: 0,
            home_offset: 0,
            is_stale: false,
        };
        let index = Index(self.count);
        // SAFETY: below the capacity.
        unsafe { self.entries.add(self.count).write(entry) };
        self.count += 1;
        if process::is_serving() {
            return Ok((index, false));
        }
        if identity.is_regular {
            self.capture(config, index, descriptor)?;
        }
        self.get(index).tell(index);
        Ok((index, false))
    }

    fn capture(&mut self, config: &Config, index: Index, descriptor: c_int) -> Result<(), Errno> {
        if config.shadow {
            let size = self.get(index).identity.size;
            self.cover(index, size);
        }
        let file = image::Reader::new(descriptor);
        let mut name = Text::new()?;
        let run = run::Lossy(run::name());
        let _ = write!(name, "image-{run}-{}", index.number());
        let entry = self.get(index);
        let create = || {
            let mut path = Text::new()?;
            path.push(config.out);
            path.push(b"/trace/");
            path.push(name.bytes());
            let path = path.path().ok_or(Errno(libc::EINVAL))?;
            File::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC)
        };
        let has_image = image::capture(&file, entry.identity.size, entry.shadow, create)?;
        if has_image {
            entry.image = name.leak();
        }
        Ok(())
    }

    /// Makes sure that the shadow reaches to `end` in the file. Without memory there is none.
    pub fn cover(&mut self, index: Index, end: u64) {
        let entry = *self.get(index);
        // Room to grow costs addresses only.
        let wanted = (end + PAGE_BYTES as u64).next_power_of_two().max(1 << 28);
        if end + PAGE_BYTES as u64 <= entry.shadow_length {
            return;
        }
        let Ok(shadow) = memory::shared(wanted as usize) else {
            return self.move_shadow(index, 0, 0);
        };
        if entry.shadow != 0 {
            crate::pagemap::each_present(
                entry.shadow,
                entry.shadow + entry.shadow_length,
                |a, b| {
                    let to = shadow as u64 + (a - entry.shadow);
                    // SAFETY: both shadows are mapped, the new one is longer.
                    unsafe { crate::shadow::copy(a, to, b - a) };
                },
            );
        }
        self.move_shadow(index, shadow as u64, wanted);
    }

    /// Threads that have just looked a region up may still write to the old shadow, so it stays
    /// mapped. It is outgrown at most a few times.
    fn move_shadow(&mut self, index: Index, shadow: u64, length: u64) {
        let entry = self.get(index);
        (entry.shadow, entry.shadow_length) = (shadow, length);
        if REGIONS.count() == 0 {
            return;
        }
        // SAFETY: the lock is held by whoever has the files.
        unsafe {
            REGIONS.edit(|region| {
                if region.file == u64::from(index.number()) {
                    region.shadow = if shadow == 0 {
                        0
                    } else {
                        shadow + region.offset
                    };
                }
            });
        }
    }

    /// In a forked child: tells the new meta file of all files.
    pub fn tell_all(&mut self) {
        for index in (0..self.count).map(Index) {
            self.get(index).tell(index);
        }
    }
}

impl FileEntry {
    fn tell(&self, index: Index) {
        let Ok(mut line) = Text::new() else { return };
        let _ = write!(line, "{{\"file\":{{\"number\":{},\"path\":", index.number());
        line.json(self.path);
        let _ = write!(
            line,
            ",\"device\":{},\"inode\":{},\"size\":{},\"image\":",
            self.identity.device, self.identity.inode, self.identity.size
        );
        match self.image {
            b"" => line.push(b"null"),
            name => line.json(name),
        }
        line.push(b"}}");
        run::tell(&mut line);
    }
}
