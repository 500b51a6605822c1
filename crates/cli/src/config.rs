//! Settings: defaults, then `crashpoint.toml`, then `--set`, then options of the command line.
//!
//! A key that does not exist is an error that shows its line and the nearest key that does, so
//! that a typing error never switches anything off in silence.

use std::path::{Path, PathBuf};

use crashpoint_abi::Level;
use crashpoint_rules as rules;
use serde::Deserialize;

use crate::arguments::{self, Configuration, RecordOptions};
use crate::keys;

/// The file's name.
pub const NAME: &str = "crashpoint.toml";

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    record: RecordSection,
    rules: rules::RuleSettings,
    transactions: rules::Transactions,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RecordSection {
    pm: Vec<String>,
    level: Option<String>,
    loads: bool,
    calls: Vec<String>,
    limit: Option<String>,
    timeout: Option<String>,
}

/// What all commands work with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub record: RecordOptions,
    pub rules: rules::Config,
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
    #[error("--set {text}: {reason}")]
    Set { text: String, reason: String },
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
            ConfigError::Content(error.message().to_owned())
        })?;
        let folder = file
            .as_deref()
            .and_then(Path::parent)
            .unwrap_or(Path::new(""));
        Ok(Settings::assemble(document, folder, options))
    }

    fn assemble(mut document: Document, folder: &Path, options: &RecordOptions) -> Settings {
        for script in &mut document.rules.custom {
            *script = folder.join(&script);
        }
        let section = document.record;
        let mut record = options.clone();
        if record.pm.is_empty() {
            record.pm = section.pm;
        }
        record.calls.extend(section.calls);
        record.loads |= section.loads;
        record.level = record
            .level
            .or(section.level.as_deref().and_then(Level::from_name));
        let limit = section
            .limit
            .as_deref()
            .and_then(|text| arguments::size(text).ok());
        record.limit = record.limit.or(limit);
        let timeout = section
            .timeout
            .as_deref()
            .and_then(|text| arguments::duration(text).ok());
        record.timeout = record.timeout.or(timeout);
        Settings {
            record,
            rules: rules::Config {
                rules: document.rules,
                transactions: document.transactions,
            },
        }
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
    check_values(&document.record).map_err(|(value, reason)| {
        let span = text.find(&value).map(|start| start..start + value.len());
        show(keys::Problem {
            message: reason,
            help: None,
            span,
        })
    })?;
    toml::from_str(text).map_err(|error| show(keys::Problem::from(error)))
}

/// Values that TOML has no type for: the offending text and what is wrong with it.
fn check_values(record: &RecordSection) -> Result<(), (String, String)> {
    if let Some(level) = &record.level
        && Level::from_name(level).is_none()
    {
        let names = Level::NAMES.map(|(name, _)| name).join(", ");
        return Err((level.clone(), format!("the levels are {names}")));
    }
    if let Some(limit) = &record.limit {
        arguments::size(limit).map_err(|reason| (limit.clone(), reason))?;
    }
    if let Some(timeout) = &record.timeout {
        arguments::duration(timeout).map_err(|reason| (timeout.clone(), reason))?;
    }
    Ok(())
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
mod tests {
    use super::*;

    fn load(text: &str, set: &[&str], options: &RecordOptions) -> Result<Settings, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, text).unwrap();
        let from = Configuration {
            config: Some(path),
            no_config: false,
            set: set.iter().map(|text| text.to_string()).collect(),
        };
        Settings::load(&from, &[], options, false)
    }

    fn error(text: &str, set: &[&str]) -> String {
        let error = load(text, set, &RecordOptions::default()).unwrap_err();
        error.to_string()
    }

    #[test]
    fn options_win_over_settings_and_settings_over_the_file() {
        let text = "\
[record]
pm = ['/a/*']
level = 'flow'
calls = ['tx_*']
limit = '1M'
[rules]
custom = ['mine.rhai']
[rules.extra-flush]
share = 0.25
";
        let options = RecordOptions {
            level: Some(Level::Value),
            calls: vec!["op_*".into()],
            ..RecordOptions::default()
        };
        let set = [
            "rules.extra-flush.share=0.75",
            "rules.unpersisted.severity=note",
        ];
        let settings = load(text, &set, &options).unwrap();
        assert_eq!(settings.record.pm, ["/a/*"]);
        assert_eq!(settings.record.level, Some(Level::Value));
        assert_eq!(settings.record.calls, ["op_*", "tx_*"]);
        assert_eq!(settings.record.limit, Some(1 << 20));
        let rules = &settings.rules.rules;
        assert_eq!(rules.extra_flush.share, 0.75);
        assert_eq!(rules.unpersisted.severity, Some(rules::Severity::Note));
        let script = &rules.custom[0];
        assert!(
            script.is_absolute() && script.ends_with("mine.rhai"),
            "{script:?}"
        );
    }

    #[test]
    fn a_wrong_key_is_shown_with_the_nearest_right_one() {
        let message = error("[rules.extra-flush]\nenabled = true\nshar = 1.0\n", &[]);
        assert!(message.contains("unknown key `shar`"), "{message}");
        assert!(message.contains("crashpoint.toml:3:1"), "{message}");
        assert!(message.contains("did you mean `share`?"), "{message}");
        let message = error("", &["rules.extra-flsh.share=1.0"]);
        assert!(message.contains("did you mean `extra-flush`?"), "{message}");
    }

    #[test]
    fn a_wrong_type_or_value_is_shown_in_its_line() {
        let message = error("[record]\nloads = 'yes'\n", &[]);
        assert!(message.contains("crashpoint.toml:2:9"), "{message}");
        let message = error("[record]\nlevel = 'all'\n", &[]);
        assert!(
            message.contains("the levels are off, pm, flow, value"),
            "{message}"
        );
        assert!(message.contains("crashpoint.toml:2:10"), "{message}");
        let message = error("[record\n", &[]);
        assert!(message.contains("crashpoint.toml:1"), "{message}");
    }

    #[test]
    fn a_setting_needs_a_value() {
        assert!(error("", &["rules.custom"]).contains("write KEY=VALUE"));
    }
}
