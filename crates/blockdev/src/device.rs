//! A block device that records: a disk in memory, shown by FUSE, under a loop device.
//!
//! The loop device has a write cache and cannot force a single write through it, so every promise
//! that a file system makes its users shows up as a flush. It reads and writes the disk without a
//! cache in between. The content can be exchanged while nothing uses the device.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::daemon::{self, Shared, Slow};
use crate::disk::Disk;
use crate::errors::{LabError, Says as _};
use crate::kernel;
use crate::recording::{DiskRecord, Recording};

/// Somebody else may take the free loop device that we were told of; more often than this is odd.
const ATTEMPTS: usize = 32;
const LOOP_MAJOR: u32 = 7;

#[derive(Debug)]
pub struct Device {
    shared: Shared,
    /// Where the disk is mounted as a file.
    file: PathBuf,
    /// The loop device; it lets go of the file when this is closed and nothing has it mounted.
    loop_device: File,
    path: PathBuf,
}

impl Device {
    /// A device with this content; `folder` is ours and gets the files it needs.
    pub(crate) fn new(folder: &Path, name: &str, disk: Disk) -> Result<Device, LabError> {
        let file = folder.join(name);
        File::create(&file).or_says(|| format!("create {}", file.display()))?;
        let shared = Shared::new(disk);
        daemon::serve(shared.clone(), &file)?;
        match bind(folder, &file, name) {
            Ok((loop_device, path)) => Ok(Device {
                shared,
                file,
                loop_device,
                path,
            }),
            Err(error) => {
                let _ = rustix::mount::unmount(&file, UnmountFlags::DETACH);
                Err(error)
            }
        }
    }

    /// The block device, to be made a file system on and mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content as it is now.
    pub fn disk(&self) -> Disk {
        self.shared.lock().disk.clone()
    }

    /// Exchanges the content. Nothing may have the device mounted.
    pub fn load(&self, disk: Disk) -> Result<(), LabError> {
        assert_eq!(
            disk.size(),
            self.disk().size(),
            "a disk of another size would not fit"
        );
        self.shared.lock().disk = disk;
        let dropped = kernel::drop_cached(&self.loop_device);
        dropped.or_says(|| format!("drop what is cached of {}", self.path.display()))?;
        // There is no such file without btrfs in the kernel, and nothing to forget without a mount.
        if let Ok(control) = File::options().write(true).open("/dev/btrfs-control") {
            let _ = kernel::forget_btrfs(&control, &self.path);
        }
        Ok(())
    }

    /// Begins a recording; what the disk holds now counts as durable.
    pub fn record(&self) {
        let mut state = self.shared.lock();
        state.recording = Some(Recording::new(state.disk.clone()));
    }

    /// Notes that the workload has got this far.
    pub fn mark(&self, mark: u32) {
        self.shared.lock().record(DiskRecord::Mark(mark));
    }

    /// Ends the recording.
    ///
    /// # Panics
    /// If there is none.
    pub fn stop(&self) -> Recording {
        let recording = self.shared.lock().recording.take();
        recording.expect("a recording was begun")
    }

    /// Which writes take their time from now on.
    pub fn slow(&self, slow: Option<Slow>) {
        self.shared.lock().slow = slow;
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The device lets go of the file when it is closed; until then the kernel keeps the disk.
        let _ = kernel::clear_loop(&self.loop_device);
        let _ = rustix::mount::unmount(&self.file, UnmountFlags::DETACH);
    }
}

fn bind(folder: &Path, file: &Path, name: &str) -> Result<(File, PathBuf), LabError> {
    let read_write = || File::options().read(true).write(true).clone();
    let control = read_write().open("/dev/loop-control");
    let control = control.or_says(|| "open /dev/loop-control".to_owned())?;
    let backing = read_write().open(file);
    let backing = backing.or_says(|| format!("open {}", file.display()))?;
    let mut last = io::Error::other("none is free");
    for _ in 0..ATTEMPTS {
        let number = kernel::free_loop(&control);
        let number = number.or_says(|| "find a free loop device".to_owned())?;
        let path = node(folder, number)?;
        let device = read_write().open(&path);
        let device = device.or_says(|| format!("open {}", path.display()))?;
        match kernel::bind_loop(&device, &backing, name) {
            Ok(()) => {
                let direct = fs::read_to_string(format!("/sys/block/loop{number}/loop/dio"));
                if direct.is_ok_and(|direct| direct.trim() == "0") {
                    return Err(LabError::Cached);
                }
                return Ok((device, path));
            }
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => last = error,
            Err(error) => return Err(error).or_says(|| format!("use {}", path.display())),
        }
    }
    Err(last).or_says(|| "take a loop device".to_owned())
}

/// The file of a loop device. Where nobody made it (in a container, say), we make one.
fn node(folder: &Path, number: u32) -> Result<PathBuf, LabError> {
    let usual = PathBuf::from(format!("/dev/loop{number}"));
    if usual.exists() {
        return Ok(usual);
    }
    let own = folder.join(format!("loop{number}"));
    let device = rustix::fs::makedev(LOOP_MAJOR, number);
    let made = rustix::fs::mknodat(
        CWD,
        &own,
        FileType::BlockDevice,
        Mode::RUSR | Mode::WUSR,
        device,
    );
    match made {
        Ok(()) | Err(Errno::EXIST) => Ok(own),
        Err(error) => Err(error).or_says(|| format!("make {}", own.display())),
    }
}
