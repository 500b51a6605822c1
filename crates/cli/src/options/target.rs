//! The section `[target]`: what is tested, and how it is built and started.

use std::path::{Path, PathBuf};

use crashpoint_campaign::settings::TargetSettings;
use crashpoint_persist::memory::Model;

use super::values::{DriverCommand, OneOf, PmPattern, RunCommand, beside};
use super::{WrongValue, options};

options! {
    /// What is tested.
    pub struct TargetOptions {
        /// Test what the program does to the files in this folder
        ///
        /// Any program, as it is: the program is watched by its system calls. A `run` without `{dir}`
        /// works in the folder itself, which is put back afterwards as it was before.
        #[arg(long, value_name = "FOLDER", help_heading = "Files")]
        pub dir: Option<PathBuf>,
        /// The file system: posix, ext4-ordered, ext4-writeback, ext4-journal, xfs, btrfs, or a file that
        /// describes one [default: ext4-ordered]
        ///
        /// `crashpoint models list` prints all names. A file has the suffix `.toml`; its format is in
        /// docs/file-models.md.
        #[arg(long, value_name = "MODEL", help_heading = "Files")]
        pub fs: Option<String>,
        /// Files whose mappings are persistent memory: a glob, may be repeated [default: {pool}]
        ///
        /// The placeholder `{pool}` can stand in a glob.
        #[arg(long, value_name = "GLOB", help_heading = "Memory")]
        pub pm: Vec<PmPattern>,
        /// Functions of which each call is one operation: a glob, may be repeated [default:
        /// crashpoint_apply]
        #[arg(long, value_name = "GLOB", help_heading = "Memory")]
        pub operation: Vec<String>,
        /// What a crash can lose: x86, eadr or msync [default: x86]
        ///
        /// `x86`: everything that was not flushed and fenced. `eadr`: nothing that was stored; the caches
        /// survive. `msync`: what was not synchronised, as in a mapped file on a disk.
        #[arg(long, value_name = "MODEL", help_heading = "Memory", hide_possible_values = true)]
        pub model: Option<OneOf<Model>>,
        /// A shell command that builds the target
        ///
        /// It runs first, in the folder of this file.
        #[arg(skip)]
        pub build: Option<String>,
        /// The command that starts the target
        ///
        /// With a pool, the target opens or recovers the pool and runs the operations. On the command
        /// line, the command stands behind `--`.
        #[arg(skip)]
        pub run: Option<RunCommand>,
        /// The command that starts a program whose `main` comes from `crashpoint.h`
        ///
        /// `"./store"` is `run = "./store {pool} {ops}"`.
        #[arg(skip)]
        pub driver: Option<DriverCommand>,
        /// A command that makes the pool before anything is recorded
        ///
        /// `{ops}` is an empty list then. Without this key the program makes the pool itself, and may be
        /// crashed while it does.
        #[arg(skip)]
        pub create: Option<RunCommand>,
    }
}

impl TargetOptions {
    /// Refuses keys that contradict each other.
    pub fn check(&self) -> Result<(), WrongValue> {
        if self.run.is_some() && self.driver.is_some() {
            let message = "`run` and `driver` exclude each other: `driver` is `run` with \
                           `{pool} {ops}` behind it";
            return Err(WrongValue::new(&["target", "driver"], message));
        }
        Ok(())
    }

    /// Makes paths and commands start in this folder.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_that_the_documentation_names_are_true() {
        let base = TargetSettings::default();
        let pool = base.pm[0].fill(|placeholder| placeholder.name().into());
        for (field, default) in [
            ("fs", base.fs.clone()),
            ("pm", pool.to_string_lossy().into_owned()),
            ("operation", base.operation[0].clone()),
            ("model", base.model.name().to_owned()),
        ] {
            let fields = TargetOptions::FIELDS
                .iter()
                .zip(TargetOptions::DOCUMENTATION);
            let mut documented = fields.filter(|(name, _)| **name == field);
            let (_, lines) = documented.next().expect("a field");
            let named = format!("[default: {default}]");
            assert!(lines.concat().contains(&named), "{field}: {named}");
        }
    }
}
