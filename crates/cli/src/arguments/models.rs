//! The command about file-system models.

use std::time::Duration;

use clap::{Args, Subcommand};
use crashpoint_blockdev::FileSystem;

use super::duration;
use crate::exit;

/// What file systems promise, as Crashpoint models it
#[derive(Debug, Args)]
pub struct Models {
    #[command(subcommand)]
    pub command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// List the built-in models
    List,
    /// Print a model, as a file to start your own from
    Show {
        /// Its name, such as ext4-ordered
        #[arg(value_name = "NAME")]
        name: String,
    },
    Verify(Verify),
}

/// Compare the models with the kernel of this machine
///
/// Runs the litmus tests of the models on real file systems whose disks are ours, builds crash
/// images of the disks, and mounts each. A state that is seen and that the model forbids is a hole
/// in the model, and is reported. A state that the model allows and that is not seen is no proof of
/// anything: only timings that happened are known.
///
/// Needs root, /dev/fuse, loop devices, and the tools that make the file systems. Nothing of this
/// machine is touched, and nothing stays behind.
#[derive(Debug, Args)]
#[command(after_long_help = format!("\
Examples:
  crashpoint models verify                        all tests on ext4, xfs and btrfs
  crashpoint models verify --fs ext4,ext4-journal --time 5m
  crashpoint models verify --fs xfs --only rename-over --unseen

{}", exit::HELP))]
pub struct Verify {
    /// File systems, separated by commas: ext4, xfs, btrfs, or the name of a model that is one of
    /// them with other options
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = file_system)]
    #[arg(default_value = "ext4,xfs,btrfs")]
    pub fs: Vec<FileSystem>,
    /// Only litmus tests with this in their name; may be repeated
    #[arg(long, value_name = "LITMUS")]
    pub only: Vec<String>,
    /// How long it may take in all, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub time: Duration,
    /// Tear blocks at sectors, too, as few disks do
    #[arg(long)]
    pub sectors: bool,
    /// Other random images
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Also print allowed states that were not seen
    #[arg(long)]
    pub unseen: bool,
}

pub fn file_system(name: &str) -> Result<FileSystem, String> {
    FileSystem::from_name(name).ok_or_else(|| {
        let names = FileSystem::ALL.map(FileSystem::name).join(", ");
        format!("the file systems are {names}")
    })
}
