//! File-system models, as data.
//!
//! A model is a table of knobs: which operations wait for which, what a sync covers, and what a
//! crash may show in place of data. The built-in ones are the files in `models/`; one of a user
//! names the one that it starts from and what is different.

use super::op::{Class, MicroOpKind};
use super::parse::{self, ModelError};
use serde::Deserialize;

/// In which order operations on names, sizes and attributes persist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metadata {
    /// In none, but for what concerns one name or one file's size.
    Free,
    /// In that of execution: a single journal.
    Chain,
    /// In that of execution, but for what a sync writes ahead of the rest.
    PerInodeLog,
}

/// How a rename, or an exchange, may come apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rename {
    /// The two names change independently of each other.
    Split,
    /// The new name changes before the old one does.
    LinkFirst,
    Atomic,
}

/// The smallest part of an overwriting call that persists whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tear {
    Sector,
    Block,
    /// All that a call writes, and the size with it, up to [`super::write::MAX_ATOMIC_BYTES`].
    Call,
}

/// Whether something has its place among the operations on metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizePlacement {
    /// It waits for those before it, and none waits for it.
    Floating,
    Chain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataOrder {
    Free,
    /// Data has its place among the operations on metadata.
    Chain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizeOrder {
    /// A size is not durable unless those before it are.
    Kept,
    Free,
}

/// What `copy_file_range` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copy {
    /// It writes.
    Write,
    /// It shares the blocks: one operation on metadata.
    Share,
}

/// What stands where data was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filler {
    Zeros,
    /// What the disk held before, of whatever file: [`super::STALE_BYTE`] for all of it.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DataRules {
    pub tear: Tear,
    pub order: DataOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SizeRules {
    /// Of a size that new blocks make.
    pub fresh: SizePlacement,
    /// Of a size within the last block.
    pub tail: SizePlacement,
    pub order: SizeOrder,
    /// A size is not durable unless the new blocks below it are.
    pub waits_for_fresh_data: bool,
    /// The same within the last block.
    pub waits_for_tail_data: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FillerRules {
    pub fresh: Vec<Filler>,
    pub tail: Vec<Filler>,
}

/// What `fsync` of a file covers besides what the file has itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fsync {
    Own,
    /// All operations on metadata up to the last one of the file.
    Chain,
    /// The file's names, and those of the new directories that it is in.
    Names,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fdatasync {
    /// Data, and what is needed to read it.
    Data,
    /// What `fsync` covers.
    Fsync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FsyncDirectory {
    /// Its entries.
    Entries,
    /// All operations on metadata up to the last one of the directory.
    Chain,
    /// Its entries and the attributes of what they name. Of a rename from another directory, only
    /// that the new name is there.
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SyncRules {
    pub fsync: Fsync,
    pub fdatasync: Fdatasync,
    pub fsync_directory: FsyncDirectory,
    /// Off: a name is durable only by a sync of its directory, whatever the file system does.
    pub fsync_new_file_name: bool,
    /// Any sync that has something to write makes all that happened before it durable.
    pub commits_everything: bool,
}

/// The rule that lets something get lost, and in plain words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossReason {
    /// As in `docs/file-models.md`, for instance `E4`.
    pub rule: String,
    pub says: String,
}

/// Why each kind of thing may get lost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Reasons {
    pub entry: LossReason,
    pub rename: LossReason,
    pub fresh_data: LossReason,
    pub tail_data: LossReason,
    pub over_data: LossReason,
    pub size: LossReason,
    pub truncate: LossReason,
    pub attributes: LossReason,
}

/// What a file system promises.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Model {
    pub(super) name: String,
    pub(super) summary: String,
    pub metadata: Metadata,
    pub rename: Rename,
    pub exchange: Rename,
    /// A rename over an existing file waits for the size of the file that takes its place.
    pub rename_over_waits_for_size: bool,
    pub copy: Copy,
    pub data: DataRules,
    pub size: SizeRules,
    pub filler: FillerRules,
    pub sync: SyncRules,
    pub(super) why: Reasons,
}

impl Model {
    /// The built-in models; variants of a file system's mount options behind their defaults.
    pub const NAMES: [&str; BUILTIN.len()] = names();

    /// The built-in models that every test of the models speaks of, and that findings are compared
    /// under: variants of mount options are left out.
    pub const MAIN_NAMES: [&str; MAIN] = names();

    /// What is taken if nobody says otherwise.
    pub const DEFAULT: &str = "ext4-ordered";

    pub fn builtin(name: &str) -> Option<Model> {
        let text = builtin_text(name)?;
        Some(Model::parse(text).expect("built-in models are right"))
    }

    /// The file of a built-in model.
    pub fn text(name: &str) -> Option<&'static str> {
        builtin_text(name)
    }

    /// A model from its text. `base = "…"` names the built-in one that it starts from.
    pub fn parse(text: &str) -> Result<Model, ModelError> {
        parse::model(text)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence about the model.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Why the model lets this get lost.
    pub fn explain(&self, lost: &MicroOpKind<'_>) -> &LossReason {
        match lost {
            MicroOpKind::Create { .. } | MicroOpKind::Link { .. } | MicroOpKind::Unlink { .. } => {
                &self.why.entry
            }
            MicroOpKind::Reserved { .. }
            | MicroOpKind::Rename { .. }
            | MicroOpKind::RenameTarget { .. }
            | MicroOpKind::RenameSource { .. }
            | MicroOpKind::Exchange { .. }
            | MicroOpKind::ExchangeHalf { .. } => &self.why.rename,
            MicroOpKind::Write { class, .. } => match class {
                Class::Over => &self.why.over_data,
                Class::Tail => &self.why.tail_data,
                Class::Fresh | Class::Both => &self.why.fresh_data,
            },
            MicroOpKind::Grow { .. } => &self.why.size,
            MicroOpKind::Shrink { .. } | MicroOpKind::Allocate { .. } => &self.why.truncate,
            MicroOpKind::SetXattr { .. } | MicroOpKind::SetMode { .. } => &self.why.attributes,
        }
    }

    pub(super) fn has_chain(&self) -> bool {
        match self.metadata {
            Metadata::Free => false,
            Metadata::Chain | Metadata::PerInodeLog => true,
        }
    }

    /// Whether a sync may make an operation durable without those before it in the chain.
    pub(super) fn syncs_out_of_order(&self) -> bool {
        match self.metadata {
            Metadata::Free => false,
            Metadata::Chain => !self.sync.fsync_new_file_name,
            Metadata::PerInodeLog => true,
        }
    }
}

/// The text of a built-in model, from its file.
macro_rules! builtin {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../models/", $name, ".toml")),
        )
    };
}

/// The built-in models: their names and their texts.
const BUILTIN: [(&str, &str); 9] = [
    builtin!("posix"),
    builtin!("ext4-ordered"),
    builtin!("ext4-writeback"),
    builtin!("ext4-journal"),
    builtin!("xfs"),
    builtin!("btrfs"),
    builtin!("ext4-dioread-lock"),
    builtin!("ext4-nodelalloc"),
    builtin!("ext4-writeback-nodelalloc"),
];

/// Of the built-in models, so many come first that stand for the defaults of a file system or of
/// its journal; the others are further mount options.
const MAIN: usize = 6;

const fn names<const COUNT: usize>() -> [&'static str; COUNT] {
    let mut names = [""; COUNT];
    let mut index = 0;
    while index < COUNT {
        names[index] = BUILTIN[index].0;
        index += 1;
    }
    names
}

pub(super) fn builtin_text(name: &str) -> Option<&'static str> {
    let mut all = BUILTIN.iter();
    all.find(|(own, _)| *own == name).map(|(_, text)| *text)
}
