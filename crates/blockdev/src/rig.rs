//! A file system to record workloads on and to look at their crash images, one after the other.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::daemon::Slow;
use crate::device::Device;
use crate::disk::{BLOCK, Disk, DiskBlock};
use crate::errors::{LabError, Says as _};
use crate::file_system::{Access, FileSystem};
use crate::lab::Lab;
use crate::recording::Recording;

/// Where on the file system a workload runs; beside it lies what is none of its business.
const FOLDER: &str = "folder";
const ASIDE: &str = "aside";

#[derive(Debug)]
pub struct Rig<'a> {
    lab: &'a Lab,
    file_system: FileSystem,
    device: Device,
    /// The file system, just made.
    empty: Disk,
}

/// What is particular about one run of a workload.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    pub slow: Option<Slow>,
    /// Whether the file system commits every second, where it can.
    pub quick_commits: bool,
}

/// A run of a workload as it happens.
#[derive(Debug)]
pub struct Run<'a> {
    /// Where the workload runs.
    pub folder: &'a Path,
    root: &'a Path,
    device: &'a Device,
}

impl Run<'_> {
    pub fn mark(&self, mark: u32) {
        self.device.mark(mark);
    }

    /// Writes another file, elsewhere, and syncs it: the file system may take more along.
    pub fn sync_unrelated(&self) -> io::Result<()> {
        let file = File::options()
            .write(true)
            .open(self.root.join(ASIDE).join("file"))?;
        let length = file.metadata()?.len();
        file.write_all_at(b"unrelated", length)?;
        file.sync_all()
    }

    /// Syncs this file system, and no other.
    pub fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(self.root)?)?)
    }

    /// Syncs the folder and those in it, as anybody may: names become durable, data need not.
    pub fn sync_folders(&self) -> io::Result<()> {
        sync_folders(self.folder)
    }
}

fn sync_folders(folder: &Path) -> io::Result<()> {
    match File::open(folder) {
        Ok(open) => open.sync_all()?,
        // The workload goes on meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync_folders(&entry.path())?;
        }
    }
    Ok(())
}

fn collect_blocks(folder: &Path, blocks: &mut HashSet<u64>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect_blocks(&entry.path(), blocks)?;
        } else if kind.is_file() {
            for block in fs::read(entry.path())?.chunks(BLOCK) {
                blocks.insert(DiskBlock::new(block).hash);
            }
        }
    }
    Ok(())
}

/// What a crash image turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look<T> {
    Mounted(T),
    /// The file system could not recover; that is worth a report of its own.
    Unmountable(String),
}

impl<'a> Rig<'a> {
    pub fn new(lab: &'a Lab, file_system: FileSystem, size: u64) -> Result<Rig<'a>, LabError> {
        let device = file_system.new_device(lab, size)?;
        let empty = device.disk();
        Ok(Rig {
            lab,
            file_system,
            device,
            empty,
        })
    }

    pub fn file_system(&self) -> FileSystem {
        self.file_system
    }

    /// A disk on which the folder is as `fill` leaves it, with every bit durable.
    pub fn prepare(
        &self,
        fill: impl FnOnce(&Path) -> Result<(), LabError>,
    ) -> Result<Disk, LabError> {
        self.device.load(self.empty.clone())?;
        let mounted = self
            .file_system
            .mount(self.lab, &self.device, Access::Write, "")?;
        let root = mounted.folder();
        for folder in [FOLDER, ASIDE] {
            fs::create_dir(root.join(folder)).or_says(|| format!("create the folder {folder}"))?;
        }
        let unrelated = fs::write(root.join(ASIDE).join("file"), "unrelated");
        unrelated.or_says(|| "write an unrelated file".to_owned())?;
        fill(&root.join(FOLDER))?;
        mounted.unmount()?;
        Ok(self.device.disk())
    }

    /// Records a workload, and what the file system does afterwards as it is unmounted.
    pub fn record<T>(
        &self,
        base: &Disk,
        circumstances: &Circumstances,
        work: impl FnOnce(&Run<'_>) -> Result<T, LabError>,
    ) -> Result<(Recording, T), LabError> {
        let options = if circumstances.quick_commits {
            self.file_system.quick_commits().unwrap_or_default()
        } else {
            ""
        };
        self.device.load(base.clone())?;
        let mounted = self
            .file_system
            .mount(self.lab, &self.device, Access::Write, options)?;
        let run = Run {
            folder: &mounted.folder().join(FOLDER),
            root: mounted.folder(),
            device: &self.device,
        };
        let synced = run.sync_file_system();
        synced.or_says(|| "sync the file system".to_owned())?;
        self.device.record();
        self.device.slow(circumstances.slow.clone());
        let worked = work(&run);
        let unmounted = mounted.unmount();
        self.device.slow(None);
        let recording = self.device.stop();
        unmounted?;
        Ok((recording, worked?))
    }

    /// What files hold after the last recording, block by block, as [`Slow`] wants it.
    pub fn data_blocks(&self) -> Result<HashSet<u64>, LabError> {
        let collected = self.look(&self.device.disk(), Access::Read, |folder| {
            let mut blocks = HashSet::new();
            collect_blocks(folder, &mut blocks).map(|()| blocks)
        })?;
        match collected {
            Look::Mounted(blocks) => blocks,
            Look::Unmountable(error) => Err(io::Error::other(error)),
        }
        .or_says(|| "read what was written".to_owned())
    }

    /// Mounts an image and looks at the folder. What is written there is thrown away.
    pub fn look<T>(
        &self,
        image: &Disk,
        access: Access,
        look: impl FnOnce(&Path) -> T,
    ) -> Result<Look<T>, LabError> {
        self.device.load(image.clone())?;
        match self.file_system.mount(self.lab, &self.device, access, "") {
            Ok(mounted) => {
                let seen = look(&mounted.folder().join(FOLDER));
                mounted.unmount()?;
                Ok(Look::Mounted(seen))
            }
            Err(LabError::System { source, .. }) => Ok(Look::Unmountable(source.to_string())),
            Err(error) => Err(error),
        }
    }
}
