//! What does a real file system do?
//!
//! A file-system model says what a crash may leave; this crate asks the kernel. A workload runs on
//! a real ext4, xfs or btrfs whose disk is ours: it lives in memory and writes down what reaches it
//! and in which order ([`Device`], [`Recording`]). A crash image is what a disk may hold when the
//! power goes out: all that was flushed, and of the rest any part ([`images()`]). Each image is
//! mounted, so that the file system recovers, and what it shows is looked at.
//!
//! What is seen is possible on this kernel, without doubt. What is not seen is not impossible: only
//! the timings that happened are known, and of many unflushed writes only some subsets are tried.
//! Timings are varied (a sync of something else, a wait, data that is slow to arrive), and the
//! images are counted in every result.
//!
//! Needs root, FUSE and loop devices. Everything lives in mounts that only one thread and its
//! children see ([`Lab`]), and is gone when they are.
#![deny(unsafe_code)]

mod allowed;
mod confirm;
mod daemon;
mod device;
mod disk;
mod errors;
mod execute;
mod file_system;
mod images;
mod kernel;
mod lab;
mod observe;
mod recording;
mod rig;
mod summary;
mod tree;
mod verify;
mod workload;

pub use allowed::{Allowed, allowed};
pub use confirm::{
    Answer, Budget, Crash, Question, RunAnswer, Timing, Trial, Verdict, Witness, confirm,
    copy_folder,
};
pub use daemon::Slow;
pub use device::Device;
pub use disk::{BLOCK, Disk, FILL};
pub use errors::{LabError, Need};
pub use file_system::{Access, FileSystem, Mounted};
pub use images::{Choice, FEW, Image, ImageKind, images};
pub use lab::Lab;
pub use observe::{
    Circumstance, Effort, LookedAt, ObserveError, Observed, Program, Sighting, observe,
};
pub use recording::{DiskRecord, Recording, SECTOR};
pub use rig::{Circumstances, Look, Rig, Run};
pub use tree::FolderTree;
pub use verify::{Comparison, Hole, LitmusOutcome, Verified, VerifyPlan, verify};
pub use workload::WorkloadEnd;

/// The release of the Linux that runs here.
pub fn kernel_release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or_else(|_| "?".to_owned(), |release| release.trim().to_owned())
}
