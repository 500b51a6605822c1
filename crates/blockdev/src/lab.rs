//! A place of its own for mounts and devices, which leaves nothing behind.
//!
//! Everything is mounted in a namespace that belongs to one thread, and to the threads and
//! processes it starts. However they end, also by a kill, the kernel takes the mounts down, which
//! frees the loop devices, which frees the disks. What may stay is one empty folder; the next lab
//! removes it, and also loop devices that an unlucky kernel kept.

use std::fs::{self, File};
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::device::Device;
use crate::disk::Disk;
use crate::errors::{LabError, Need, Says as _};
use crate::file_system::FileSystem;
use crate::kernel;

/// How the folders and devices of a lab are named, before the number of the process.
const NAME: &str = "crashpoint-lab-";

#[derive(Debug)]
pub struct Lab {
    folder: PathBuf,
    devices: AtomicU32,
}

impl Lab {
    /// Does `work` in a lab, in a thread of its own. The folders of file systems that are mounted
    /// there are seen by `work`, and by the threads and processes that it starts, by nobody else.
    pub fn run<T: Send>(
        work: impl FnOnce(&Lab) -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| work(&Lab::enter()?));
            thread
                .join()
                .unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    }

    /// What this machine lacks for these file systems.
    pub fn lacks(file_systems: &[FileSystem]) -> Vec<Need> {
        let mut needs = Vec::new();
        if !rustix::process::geteuid().is_root() {
            needs.push(Need::Root);
        }
        for device in ["/dev/fuse", "/dev/loop-control"] {
            if !Path::new(device).exists() {
                needs.push(Need::Device(device));
            }
        }
        for file_system in file_systems {
            let need = Need::Maker(*file_system);
            let known = needs.iter().any(|known| match known {
                Need::Maker(other) => other.maker() == file_system.maker(),
                Need::Root | Need::Device(_) => false,
            });
            if !known && file_system.find_maker().is_none() {
                needs.push(need);
            }
        }
        needs
    }

    fn enter() -> Result<Lab, LabError> {
        let lacks = Lab::lacks(&[]);
        if !lacks.is_empty() {
            return Err(LabError::Needs(lacks));
        }
        sweep();
        kernel::own_mounts().or_says(|| "separate the mounts of a thread".to_owned())?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        let private = rustix::mount::mount_change("/", private);
        private.or_says(|| "keep mounts to ourselves".to_owned())?;
        static LABS: AtomicU32 = AtomicU32::new(0);
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{NAME}{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).or_says(|| format!("create {}", folder.display()))?;
        let flags = MountFlags::NOSUID;
        let mounted = rustix::mount::mount("crashpoint", &folder, "tmpfs", flags, None);
        mounted.or_says(|| format!("mount a scratch folder at {}", folder.display()))?;
        Ok(Lab {
            folder,
            devices: AtomicU32::new(0),
        })
    }

    pub fn device(&self, disk: Disk) -> Result<Device, LabError> {
        let number = self.devices.fetch_add(1, Ordering::Relaxed);
        let name = format!("{NAME}{}.{number}", std::process::id());
        Device::new(&self.folder, &name, disk)
    }

    /// A new folder in the lab.
    pub(crate) fn mount_point(&self, name: &str) -> Result<PathBuf, LabError> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder).or_says(|| format!("create {}", folder.display()))?;
        Ok(folder)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.folder, UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Removes what labs of processes that are no more have left; what cannot be removed harms nobody.
fn sweep() {
    let folders = fs::read_dir(std::env::temp_dir());
    for entry in folders.into_iter().flatten().flatten() {
        if is_stale(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let blocks = fs::read_dir("/sys/block");
    for entry in blocks.into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        let Ok(backing) = backing else { continue };
        let file = backing.trim_end().rsplit('/').next().unwrap_or_default();
        if is_stale(file) {
            let device = File::open(Path::new("/dev").join(entry.file_name()));
            let _ = device.map(|device| kernel::clear_loop(&device));
        }
    }
}

/// Whether a name is of a lab whose process has ended.
fn is_stale(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(NAME) else {
        return false;
    };
    let digits = rest.split(['-', '.']).next().unwrap_or_default();
    let process: Option<u32> = digits.parse().ok();
    process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_processes_that_ended_are_stale() {
        assert!(!is_stale("crashpoint-lab-x"));
        assert!(!is_stale("somebody-elses"));
        assert!(!is_stale(&format!("{NAME}{}-0", std::process::id())));
        // Linux has no process of this number: it is above the greatest.
        assert!(is_stale(&format!("{NAME}4194305-0")));
        assert!(is_stale(&format!("{NAME}4194305.7")));
    }
}
