//! The section `[target]`: what is tested, and how it is built and started.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Deserialize;

use super::template::{PM, RUN, Template, Word};
use super::wrong::{Reason, Wrong, choose};
use crate::arguments;

/// As it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TargetSection {
    build: Option<String>,
    run: Option<String>,
    driver: Option<String>,
    create: Option<String>,
    pm: Option<Vec<String>>,
    operation: Option<Vec<String>>,
    model: Option<String>,
    dir: Option<PathBuf>,
    fs: Option<String>,
}

/// What a crash can lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Model {
    /// Caches are lost: a store is durable once its line was flushed and a fence followed
    #[default]
    X86,
    /// Caches survive: a store is durable once it left the store buffer
    Eadr,
    /// A file on a disk: a store is durable once its page was synchronised by msync
    Msync,
}

/// What is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSettings {
    /// Where `build` is run: the folder of the file; empty for the current one.
    pub folder: PathBuf,
    /// For `sh -c`.
    pub build: Option<String>,
    /// Runs operations on a pool that may exist already; [`RUN`] can be filled in.
    pub run: Option<Template>,
    /// Makes the pool before anything is recorded.
    pub create: Option<Template>,
    /// Globs of the files that are persistent memory; [`PM`] can be filled in.
    pub pm: Vec<Word>,
    /// Globs of functions of which each call is one operation.
    pub operation: Vec<String>,
    pub model: Model,
    /// The folder that the program keeps its files in: it is tested by what it does to them.
    pub dir: Option<PathBuf>,
    /// A file-system model: one that is built in, or a file that describes one.
    pub fs: String,
}

/// The file system that most programs meet.
pub const FILE_SYSTEM: &str = "ext4-ordered";

/// The function that crashpoint.h calls for each operation.
const APPLY: &str = "crashpoint_apply";

impl Default for TargetSettings {
    fn default() -> TargetSettings {
        TargetSettings {
            folder: PathBuf::new(),
            build: None,
            run: None,
            create: None,
            pm: vec![Word::parse("{pool}", PM).expect("a placeholder that exists")],
            operation: vec![APPLY.to_owned()],
            model: Model::default(),
            dir: None,
            fs: FILE_SYSTEM.to_owned(),
        }
    }
}

impl TargetSection {
    pub fn resolve(self, folder: &Path) -> Result<TargetSettings, Wrong> {
        let mut settings = TargetSettings {
            folder: folder.to_owned(),
            build: self.build,
            ..TargetSettings::default()
        };
        let command = |key: &str, line: &str| {
            Template::parse(line, RUN, folder).map_err(|reason| reason.at(&["target", key]))
        };
        settings.run = match (self.run, self.driver) {
            (Some(_), Some(_)) => {
                let reason = Reason {
                    message: "`run` and `driver` exclude each other".into(),
                    help: Some("`driver` is `run` with `{pool} {ops}` behind it".into()),
                };
                return Err(reason.at(&["target", "driver"]));
            }
            (Some(run), None) => Some(command("run", &run)?),
            (None, Some(driver)) => {
                // By itself first, so that an unclosed quote does not swallow what follows.
                command("driver", &driver)?;
                Some(command("driver", &format!("{driver} {{pool}} {{ops}}"))?)
            }
            (None, None) => None,
        };
        if let Some(create) = self.create {
            settings.create = Some(command("create", &create)?);
        }
        if let Some(globs) = self.pm {
            let words = globs.iter().enumerate().map(|(index, glob)| {
                let path = ["target", "pm", &index.to_string()];
                Word::parse(glob, PM).map_err(|reason| reason.at(&path))
            });
            settings.pm = words.collect::<Result<_, _>>()?;
        }
        if let Some(functions) = self.operation {
            settings.operation = functions;
        }
        if let Some(model) = self.model {
            let model = choose("model", "models", &model);
            settings.model = model.map_err(|reason| reason.at(&["target", "model"]))?;
        }
        settings.dir = self.dir.map(|dir| folder.join(dir));
        if let Some(fs) = self.fs {
            settings.fs = file_system(&fs, folder);
        }
        Ok(settings)
    }
}

/// A name stands for itself, a file is found from the folder of whoever named it.
fn file_system(name: &str, folder: &Path) -> String {
    match name.ends_with(".toml") {
        true => folder.join(name).to_string_lossy().into_owned(),
        false => name.to_owned(),
    }
}

impl TargetSettings {
    /// Puts options of the command line on top.
    pub fn merge(&mut self, options: &arguments::Test) {
        if let Some(run) = Template::from_words(&options.command) {
            self.run = Some(run);
        }
        if !options.pm.is_empty() {
            self.pm.clone_from(&options.pm);
        }
        if let Some(dir) = &options.dir {
            self.dir = Some(dir.clone());
        }
        if let Some(fs) = &options.fs {
            self.fs = fs.clone();
        }
        if !options.operation.is_empty() {
            self.operation.clone_from(&options.operation);
        }
        self.model = options.model.unwrap_or(self.model);
    }
}
