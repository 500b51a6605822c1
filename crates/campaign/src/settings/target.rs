//! What is tested, and how it is built and started.

use std::path::PathBuf;

use crashpoint_persist::files;
use crashpoint_persist::graph::Model;

use super::choice::NamedChoice;
use super::template::{PM, Template, Word};

/// What is tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSettings {
    /// Where `build` is run: the folder of the configuration; empty for the current one.
    pub folder: PathBuf,
    /// The text of a shell command, for `sh -c`.
    pub build: Option<String>,
    /// Runs operations on a pool that may exist already; [`super::template::RUN`] can be filled in.
    pub run: Option<Template>,
    /// Makes the pool before anything is recorded.
    pub create: Option<Template>,
    /// Globs of the files that are persistent memory; [`PM`] can be filled in.
    pub pm: Vec<Word>,
    /// Globs of functions of which each call is one operation.
    pub operation: Vec<String>,
    /// What a crash can lose of persistent memory.
    pub model: Model,
    /// The folder that the program keeps its files in: it is tested by what it does to them.
    pub dir: Option<PathBuf>,
    /// A file-system model: one that is built in, or a file that describes one.
    pub fs: String,
}

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
            model: Model::X86,
            dir: None,
            fs: files::Model::DEFAULT.to_owned(),
        }
    }
}

impl NamedChoice for Model {
    const NOUN: (&'static str, &'static str) = ("model", "models");
    const ALL: &'static [Model] = &[Model::X86, Model::Eadr, Model::Msync];

    fn name(self) -> &'static str {
        match self {
            Model::X86 => "x86",
            Model::Eadr => "eadr",
            Model::Msync => "msync",
        }
    }

    fn help(self) -> &'static str {
        match self {
            Model::X86 => {
                "Caches are lost: a store is durable once its line was flushed and a fence followed"
            }
            Model::Eadr => "Caches survive: a store is durable once it left the store buffer",
            Model::Msync => {
                "A file on a disk: a store is durable once its page was synchronised by msync"
            }
        }
    }
}
