//! Settings: defaults, then `crashpoint.toml`, then `--set`, then options of the command line.
//!
//! A key that does not exist is an error that shows its line and the nearest key that does, so
//! that a typing error never switches anything off in silence.

use std::path::{Path, PathBuf};

use crashpoint_campaign::Settings;
use crashpoint_campaign::settings::template::{Placeholder, Template};
use crashpoint_rules as rules;
use serde::Deserialize;

use crate::arguments::{self, Configuration};
use crate::keys;
use crate::options::{
    self, ConditionOptions, OperationsSection, RecordOptions, TargetOptions, TestOptions,
    WrongValue,
};

/// The file's name.
pub const NAME: &str = "crashpoint.toml";

/// The file that `--write-baseline` makes if no other is named.
const BASELINE: &str = "crashpoint.baseline";

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    record: RecordOptions,
    rules: rules::RuleSettings,
    transactions: rules::Transactions,
    target: TargetOptions,
    ops: OperationsSection,
    test: TestOptions,
    conditions: ConditionOptions,
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

/// Reads the configuration. `beside` are folders to look for the file in, after the current one; the
/// options of the command line come on top.
pub fn load(
    from: &Configuration,
    beside: &[PathBuf],
    options: &RecordOptions,
    colours: bool,
) -> Result<Settings, ConfigError> {
    let (mut document, folder) = read(from, beside, colours)?;
    document.record = options.clone().on_top_of(document.record);
    assemble(document, &folder)
}

/// What `crashpoint test` works with: the file, then its options; and the baseline. A target and
/// operations are present, or an error names what is missing.
pub fn for_test(
    options: &arguments::Test,
    colours: bool,
) -> Result<(Settings, Option<PathBuf>), ConfigError> {
    let (mut document, folder) = read(&options.configuration(), &[], colours)?;
    document.target = options.target.clone().or(document.target);
    document.test = options.test.clone().on_top_of(document.test);
    let baseline = document.test.baseline.take();
    let by_default = || options.write_baseline.then(|| BASELINE.into());
    let mut settings = assemble(document, &folder)?;
    let words: Vec<_> = options.command.iter().map(|word| word.0.clone()).collect();
    if let Some(run) = Template::from_words(&words) {
        settings.target.run = Some(run);
    }
    let Some(run) = &settings.target.run else {
        return Err(ConfigError::NoTarget);
    };
    let generated = settings.operations.iter().any(|kind| kind.weight > 0);
    if run.uses(Placeholder::Ops) && settings.test.workload.ops_file.is_none() && !generated {
        return Err(ConfigError::NoOperations);
    }
    Ok((settings, baseline.or_else(by_default)))
}

/// The file with `--set` on top, and its folder; paths and commands in it are those of the folder.
fn read(
    from: &Configuration,
    beside: &[PathBuf],
    colours: bool,
) -> Result<(Document, PathBuf), ConfigError> {
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
    // Each part was deserialised alone before; only together can they contradict.
    let together = |error: String| ConfigError::Contradiction(error);
    let mut document: Document = table
        .try_into()
        .map_err(|error: toml::de::Error| together(error.message().to_owned()))?;
    let wrong = document.target.check();
    wrong.map_err(|wrong| together(wrong.error.to_string()))?;
    let folder = file.as_deref().and_then(Path::parent);
    let folder = folder.unwrap_or(Path::new("")).to_owned();
    for script in &mut document.rules.custom {
        *script = folder.join(&script);
    }
    document.target = document.target.in_folder(&folder);
    document.test = document.test.in_folder(&folder);
    Ok((document, folder))
}

fn assemble(document: Document, folder: &Path) -> Result<Settings, ConfigError> {
    let operations = options::resolve_operations(document.ops);
    Ok(Settings {
        record: document.record.resolve(),
        rules: rules::Config {
            rules: document.rules,
            transactions: document.transactions,
        },
        target: document.target.resolve(folder),
        operations: operations
            .map_err(|wrong| ConfigError::Contradiction(wrong.error.to_string()))?,
        test: document.test.resolve(),
        conditions: document.conditions.resolve(),
    })
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
    let checked = document.target.check();
    let resolved = checked.and_then(|()| options::resolve_operations(document.ops));
    resolved.map_err(|WrongValue { path, error }| {
        show(keys::Problem {
            message: error.message,
            help: error.help,
            span: keys::locate(text, &path),
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
