//! The section `[target]`: what is tested, and how it is built and started.

use std::path::{Path, PathBuf};

use crashpoint_campaign::settings::TargetSettings;
use crashpoint_persist::memory::Model;

use super::values::{DriverCommand, OneOf, PmPattern, RunCommand, beside};
use super::{WrongValue, options};

options! {
    /// What is tested.
    #[command(next_help_heading = "Target")]
    pub struct TargetOptions {
        /// A shell command that builds the target
        #[arg(skip)]
        pub build: Option<String>,
        /// How the target is started
        #[arg(skip)]
        pub run: Option<RunCommand>,
        /// The same for a program whose `main` comes from crashpoint.h
        #[arg(skip)]
        pub driver: Option<DriverCommand>,
        /// Makes the pool before anything is recorded
        #[arg(skip)]
        pub create: Option<RunCommand>,
        /// Globs of the files that are persistent memory, may be repeated [default: {pool}]
        #[arg(long, value_name = "GLOB")]
        pub pm: Vec<PmPattern>,
        /// Functions of which each call is one operation: a glob, may be repeated [default:
        /// crashpoint_apply]
        #[arg(long, value_name = "GLOB")]
        pub operation: Vec<String>,
        /// What a crash can lose [default: x86]
        #[arg(long, value_name = "MODEL")]
        pub model: Option<OneOf<Model>>,
        /// Test what the program does to the files in this folder, by system calls; any program, as it is
        #[arg(long, value_name = "FOLDER")]
        pub dir: Option<PathBuf>,
        /// With --dir, the file system: posix, ext4-ordered, ext4-writeback, ext4-journal, xfs, btrfs, or
        /// a file that describes one [default: ext4-ordered]
        #[arg(long, value_name = "MODEL")]
        pub fs: Option<String>,
    }
}

impl TargetOptions {
    /// What may contradict each other.
    pub fn check(&self) -> Result<(), WrongValue> {
        if self.run.is_some() && self.driver.is_some() {
            let message = "`run` and `driver` exclude each other: `driver` is `run` with \
                           `{pool} {ops}` behind it";
            return Err(WrongValue::new(&["target", "driver"], message));
        }
        Ok(())
    }

    /// Paths and commands are those of somebody in this folder.
    pub fn in_folder(mut self, folder: &Path) -> TargetOptions {
        for command in [&mut self.run, &mut self.create].into_iter().flatten() {
            command.0.start_in(folder);
        }
        if let Some(driver) = &mut self.driver {
            driver.0.start_in(folder);
        }
        self.dir = beside(folder, self.dir);
        // A name stands for itself, a file is found from here.
        if let Some(fs) = &mut self.fs
            && fs.ends_with(".toml")
        {
            *fs = folder.join(&*fs).to_string_lossy().into_owned();
        }
        self
    }

    /// `folder` is where the target is built.
    pub fn resolve(self, folder: &Path) -> TargetSettings {
        let base = TargetSettings::default();
        let run = self.run.map(|run| run.0);
        TargetSettings {
            folder: folder.to_owned(),
            build: self.build,
            run: run.or(self.driver.map(|driver| driver.0)),
            create: self.create.map(|create| create.0),
            pm: if self.pm.is_empty() {
                base.pm
            } else {
                self.pm.into_iter().map(|word| word.0).collect()
            },
            operation: if self.operation.is_empty() {
                base.operation
            } else {
                self.operation
            },
            model: self.model.map_or(base.model, |model| model.0),
            dir: self.dir,
            fs: self.fs.unwrap_or(base.fs),
        }
    }
}
