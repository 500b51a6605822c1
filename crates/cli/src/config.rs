//! Settings: defaults, then `crashpoint.toml`, then `--set`, then options of the command line.
//!
//! A key that does not exist is an error that shows its line and the nearest key that does, so
//! that a typing error never switches anything off in silence.

pub mod conditions;
mod operations;
mod record;
mod target;
pub mod template;
mod test;
mod wrong;

use std::path::{Path, PathBuf};

use crashpoint_rules as rules;
use crashpoint_search::workload::OperationKind;
use serde::Deserialize;

use crate::arguments::{self, Configuration, RecordOptions};
use crate::keys;

pub use target::{Model, TargetSettings};
use template::Placeholder;
pub use test::{Oracle, Recovery, Strategy, TestSettings};
use wrong::{Reason, Wrong};

/// The file's name.
pub const NAME: &str = "crashpoint.toml";

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    record: record::RecordSection,
    rules: rules::RuleSettings,
    transactions: rules::Transactions,
    target: target::TargetSection,
    ops: operations::OperationsSection,
    test: test::TestSection,
    conditions: conditions::ConditionsSection,
}

/// What all commands work with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub record: RecordOptions,
    pub rules: rules::Config,
    pub target: TargetSettings,
    /// In the order of their names.
    pub operations: Vec<OperationKind>,
    pub test: TestSettings,
    pub conditions: conditions::ConditionSettings,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// Already rendered, with an excerpt.
    #[error("{0}")]
    Content(String),
    /// The file and `--set` are right by themselves, but not together.
    #[error("the settings contradict each other: {0}")]
    Contradiction(String),
    #[error("--set {text}: {reason}")]
    Set { text: String, reason: String },
    #[error(
        "nothing says how the target is started: set `run` or `driver` in the section [target] of \
         {NAME}, or write `-- ./program {{pool}} {{ops}}`"
    )]
    NoTarget,
    #[error(
        "there are no operations: describe some in the section [ops] of {NAME}, or name a list \
         with --ops-file"
    )]
    NoOperations,
}

impl Settings {
    /// Reads the configuration. `beside` are folders to look for the file in, after the current
    /// one; the options of the command line come on top.
    pub fn load(
        from: &Configuration,
        beside: &[PathBuf],
        options: &RecordOptions,
        colours: bool,
    ) -> Result<Settings, ConfigError> {
        let mut table = toml::Table::new();
        let file = find(from, beside);
        if let Some(path) = &file {
            let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
                path: path.clone(),
                source,
            })?;
            let shown = path.display().to_string();
            merge(&mut table, parse(&text, &shown, colours)?);
        }
        for text in &from.set {
            merge(&mut table, parse_setting(text, colours)?);
        }
        let document: Document = table.try_into().map_err(|error: toml::de::Error| {
            // Each part was deserialised alone before; only together can they contradict.
            ConfigError::Contradiction(error.message().to_owned())
        })?;
        let folder = file
            .as_deref()
            .and_then(Path::parent)
            .unwrap_or(Path::new(""));
        let assembled = Settings::assemble(document, folder, options);
        assembled.map_err(|wrong| ConfigError::Contradiction(wrong.reason.to_string()))
    }

    /// What `crashpoint test` works with: the file, then its options. Something to run, and
    /// something to run it with, is there.
    pub fn for_test(options: &arguments::Test, colours: bool) -> Result<Settings, ConfigError> {
        let from = options.configuration();
        let mut settings = Settings::load(&from, &[], &RecordOptions::default(), colours)?;
        settings.target.merge(options);
        settings.test.merge(options);
        let Some(run) = &settings.target.run else {
            return Err(ConfigError::NoTarget);
        };
        let generated = settings.operations.iter().any(|kind| kind.weight > 0);
        if run.uses(Placeholder::Ops) && settings.test.ops_file.is_none() && !generated {
            return Err(ConfigError::NoOperations);
        }
        Ok(settings)
    }

    fn assemble(
        mut document: Document,
        folder: &Path,
        options: &RecordOptions,
    ) -> Result<Settings, Wrong> {
        for script in &mut document.rules.custom {
            *script = folder.join(&script);
        }
        Ok(Settings {
            record: document.record.resolve(options)?,
            rules: rules::Config {
                rules: document.rules,
                transactions: document.transactions,
            },
            target: document.target.resolve(folder)?,
            operations: operations::resolve(document.ops)?,
            test: document.test.resolve(folder)?,
            conditions: document.conditions.resolve()?,
        })
    }
}

fn find(from: &Configuration, beside: &[PathBuf]) -> Option<PathBuf> {
    if from.no_config {
        return None;
    }
    if from.config.is_some() {
        return from.config.clone();
    }
    let here = std::iter::once(PathBuf::new());
    let mut candidates = here
        .chain(beside.iter().cloned())
        .map(|folder| folder.join(NAME));
    candidates.find(|path| path.is_file())
}

/// Reads a file's text to the end: syntax, keys, types, values. `file` names it in errors.
fn parse(text: &str, file: &str, colours: bool) -> Result<toml::Table, ConfigError> {
    let show =
        |problem: keys::Problem| ConfigError::Content(keys::excerpt(text, file, &problem, colours));
    keys::check(text).map_err(show)?;
    let typed = toml::from_str::<Document>(text);
    let document = typed.map_err(|error| show(keys::Problem::from(error)))?;
    let resolved = Settings::assemble(document, Path::new(""), &RecordOptions::default());
    resolved.map_err(|Wrong { path, reason }| {
        let Reason { message, help } = reason;
        let span = keys::locate(text, &path);
        show(keys::Problem {
            message,
            help,
            span,
        })
    })?;
    toml::from_str(text).map_err(|error| show(keys::Problem::from(error)))
}

/// `key.key=value`, where a value that is no TOML is a string.
fn parse_setting(text: &str, colours: bool) -> Result<toml::Table, ConfigError> {
    let bad = |reason: &str| ConfigError::Set {
        text: text.to_owned(),
        reason: reason.to_owned(),
    };
    let (key, value) = text.split_once('=').ok_or_else(|| bad("write KEY=VALUE"))?;
    let plain = format!("{key} = {value}");
    let line = match toml::from_str::<toml::Table>(&plain) {
        Ok(_) => plain,
        Err(_) => format!("{key} = {}", toml::Value::String(value.to_owned())),
    };
    parse(&line, "--set", colours)
}

/// Puts `from` on top of `into`; tables are merged, everything else is replaced.
fn merge(into: &mut toml::Table, from: toml::Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(toml::Value::Table(known)), toml::Value::Table(more)) => merge(known, more),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
