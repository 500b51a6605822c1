//! The file systems of the kernel: how each is made, mounted and let go.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::device::Device;
use crate::disk::Disk;
use crate::errors::{LabError, Need, Says as _};
use crate::lab::Lab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileSystem {
    /// As it comes.
    Ext4,
    Ext4Writeback,
    Ext4Journal,
    Ext4DioreadLock,
    Ext4Nodelalloc,
    Ext4WritebackNodelalloc,
    Xfs,
    Btrfs,
}

/// File systems of one kind differ in how they are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ext4,
    Xfs,
    Btrfs,
}

/// How a file system is mounted. Also one that is only to be read recovers first, and costs less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

const MB: u64 = 1 << 20;
/// How long a file system may take to be let go; a program that ended may need a moment.
const PATIENCE: Duration = Duration::from_secs(3);

impl FileSystem {
    pub const ALL: [FileSystem; 8] = [
        FileSystem::Ext4,
        FileSystem::Ext4Writeback,
        FileSystem::Ext4Journal,
        FileSystem::Ext4DioreadLock,
        FileSystem::Ext4Nodelalloc,
        FileSystem::Ext4WritebackNodelalloc,
        FileSystem::Xfs,
        FileSystem::Btrfs,
    ];

    /// As users write it: `ext4`, or the name of a model.
    pub fn from_name(name: &str) -> Option<FileSystem> {
        let named =
            |file_system: &FileSystem| file_system.name() == name || file_system.model() == name;
        FileSystem::ALL.into_iter().find(named)
    }

    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Ext4Writeback => "ext4-writeback",
            FileSystem::Ext4Journal => "ext4-journal",
            FileSystem::Ext4DioreadLock => "ext4-dioread-lock",
            FileSystem::Ext4Nodelalloc => "ext4-nodelalloc",
            FileSystem::Ext4WritebackNodelalloc => "ext4-writeback-nodelalloc",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// The model that is meant to describe it.
    pub fn model(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4-ordered",
            FileSystem::Ext4Writeback
            | FileSystem::Ext4Journal
            | FileSystem::Ext4DioreadLock
            | FileSystem::Ext4Nodelalloc
            | FileSystem::Ext4WritebackNodelalloc
            | FileSystem::Xfs
            | FileSystem::Btrfs => self.name(),
        }
    }

    fn kind(self) -> Kind {
        match self {
            FileSystem::Ext4
            | FileSystem::Ext4Writeback
            | FileSystem::Ext4Journal
            | FileSystem::Ext4DioreadLock
            | FileSystem::Ext4Nodelalloc
            | FileSystem::Ext4WritebackNodelalloc => Kind::Ext4,
            FileSystem::Xfs => Kind::Xfs,
            FileSystem::Btrfs => Kind::Btrfs,
        }
    }

    pub fn maker(self) -> &'static str {
        match self.kind() {
            Kind::Ext4 => "mkfs.ext4",
            Kind::Xfs => "mkfs.xfs",
            Kind::Btrfs => "mkfs.btrfs",
        }
    }

    /// The package of Debian that has the maker.
    pub fn package(self) -> &'static str {
        match self.kind() {
            Kind::Ext4 => "e2fsprogs",
            Kind::Xfs => "xfsprogs",
            Kind::Btrfs => "btrfs-progs",
        }
    }

    /// Disks are small: what is not written takes no memory, but making takes time.
    pub fn least_size(self) -> u64 {
        match self.kind() {
            Kind::Ext4 => 64 * MB,
            Kind::Xfs => 320 * MB,
            Kind::Btrfs => 160 * MB,
        }
    }

    /// Where the maker lies; it is often not on the path of ordinary users.
    pub(crate) fn find_maker(self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path);
        let folders = folders.chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
        let mut files = folders.map(|folder| folder.join(self.maker()));
        files.find(|file| file.is_file())
    }

    /// Nothing is discarded, so that what lay on the disk before stays to be seen, and nothing is
    /// left for the kernel to do later in the background.
    fn maker_arguments(self) -> &'static [&'static str] {
        const EXT4: &str = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        match self.kind() {
            Kind::Ext4 => &["-q", "-F", "-b", "4096", "-E", EXT4],
            Kind::Xfs | Kind::Btrfs => &["-q", "-f", "-K"],
        }
    }

    /// Beyond the defaults of the kernel.
    fn options(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "",
            FileSystem::Ext4Writeback => "data=writeback",
            FileSystem::Ext4Journal => "data=journal",
            FileSystem::Ext4DioreadLock => "dioread_lock",
            FileSystem::Ext4Nodelalloc => "nodelalloc",
            FileSystem::Ext4WritebackNodelalloc => "data=writeback,nodelalloc",
            // Images of one file system carry one identity.
            FileSystem::Xfs => "nouuid",
            FileSystem::Btrfs => "nodiscard",
        }
    }

    /// An option for a commit every second, where there is one.
    pub(crate) fn quick_commits(self) -> Option<&'static str> {
        match self.kind() {
            Kind::Ext4 | Kind::Btrfs => Some("commit=1"),
            Kind::Xfs => None,
        }
    }

    fn kernel_name(self) -> &'static str {
        match self.kind() {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
        }
    }

    /// Makes an empty file system on a device.
    pub fn make(self, device: &Device) -> Result<(), LabError> {
        let Some(maker) = self.find_maker() else {
            return Err(LabError::Needs(vec![Need::Maker(self)]));
        };
        let mut command = Command::new(&maker);
        command.args(self.maker_arguments()).arg(device.path());
        command.stdin(Stdio::null());
        let output = command.output();
        let output = output.or_says(|| format!("run {}", maker.display()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(LabError::Tool {
                command: self.maker().to_owned(),
                output: text.trim().to_owned(),
            });
        }
        Ok(())
    }

    /// A disk with an empty file system, and the device that it was made on.
    pub fn new_device(self, lab: &Lab, size: u64) -> Result<Device, LabError> {
        let size = size.max(self.least_size()).next_multiple_of(MB);
        let device = lab.device(Disk::new(size))?;
        self.make(&device)?;
        Ok(device)
    }

    /// Mounts a device; recovery from a crash happens here.
    pub fn mount(
        self,
        lab: &Lab,
        device: &Device,
        access: Access,
        options: &str,
    ) -> Result<Mounted, LabError> {
        let name = device.path().file_name().unwrap_or_default();
        let folder = lab.mount_point(&format!("on-{}", name.to_string_lossy()))?;
        let parts = [self.options(), options];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let options = CString::new(parts.join(",")).expect("options have no zero");
        let flags = match access {
            Access::Write => MountFlags::empty(),
            Access::Read => MountFlags::RDONLY,
        };
        let mounted = rustix::mount::mount(
            device.path(),
            &folder,
            self.kernel_name(),
            flags,
            Some(&*options),
        );
        mounted.or_says(|| format!("mount {}", self.name()))?;
        Ok(Mounted {
            folder,
            is_mounted: true,
        })
    }
}

/// A file system in use; it is let go when this is dropped.
#[derive(Debug)]
pub struct Mounted {
    folder: PathBuf,
    is_mounted: bool,
}

impl Mounted {
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets go of the file system; all that it has not written yet it writes now.
    pub fn unmount(mut self) -> Result<(), LabError> {
        self.is_mounted = false;
        let begin = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            match rustix::mount::unmount(&self.folder, UnmountFlags::empty()) {
                Ok(()) => return Ok(()),
                Err(Errno::BUSY) if begin.elapsed() < PATIENCE => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(100));
                }
                Err(Errno::BUSY) => {
                    let _ = rustix::mount::unmount(&self.folder, UnmountFlags::DETACH);
                    let what = self.folder.display().to_string();
                    return Err(LabError::Busy { what });
                }
                Err(error) => {
                    return Err(error).or_says(|| format!("unmount {}", self.folder.display()));
                }
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = rustix::mount::unmount(&self.folder, UnmountFlags::DETACH);
        }
    }
}
