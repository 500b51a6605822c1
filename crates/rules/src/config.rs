//! Settings: which rules run and how, and which functions make up a transaction library.
//!
//! Everything has a default, and the defaults are what the manual of each rule describes. An
//! unknown key is an error of the reader that carries its line.

use crate::Severity;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The parts of `crashpoint.toml` that concern rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub rules: RuleSettings,
    pub transactions: Transactions,
}

/// `[rules]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RuleSettings {
    pub missing_flush: Basic,
    pub missing_fence: Basic,
    pub extra_flush: ExtraFlush,
    pub extra_fence: ExtraFence,
    pub unpersisted: Basic,
    pub double_log: Basic,
    pub unlogged_update: Basic,
    /// Scripts with rules of the user's own, relative to the configuration file.
    pub custom: Vec<PathBuf>,
}

/// `[rules.ID]` of a rule with nothing to tune.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Basic {
    pub enabled: bool,
    /// Instead of the rule's own.
    pub severity: Option<Severity>,
}

impl Default for Basic {
    fn default() -> Basic {
        Basic {
            enabled: true,
            severity: None,
        }
    }
}

/// `[rules.extra-flush]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtraFlush {
    pub enabled: bool,
    pub severity: Option<Severity>,
    /// A flush is reported if at least this share of its executions had nothing to write back.
    pub share: f64,
    /// Whether a line that was never stored to in the recording counts as clean.
    pub untouched: bool,
}

impl Default for ExtraFlush {
    fn default() -> ExtraFlush {
        ExtraFlush {
            enabled: true,
            severity: None,
            share: 0.5,
            untouched: true,
        }
    }
}

/// `[rules.extra-fence]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtraFence {
    pub enabled: bool,
    pub severity: Option<Severity>,
    /// A fence is reported if at least this share of its executions had nothing to wait for.
    pub share: f64,
    pub mfence: Mfence,
}

impl Default for ExtraFence {
    fn default() -> ExtraFence {
        ExtraFence {
            enabled: true,
            severity: None,
            share: 0.5,
            mfence: Mfence::OneThread,
        }
    }
}

/// When `mfence` may be called extra: it also orders loads, which only other threads can notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mfence {
    /// In processes of which only one thread touched persistent memory.
    #[default]
    OneThread,
    Always,
    Never,
}

/// `[transactions]`: functions of transaction libraries, by symbol name. Arguments are numbered
/// from 0, as the compiler passes them: a struct of two words is two arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transactions {
    /// Know the functions of PMDK's libpmemobj too.
    pub libpmemobj: bool,
    pub begin: Vec<BeginCall>,
    /// Ends a transaction, and with it what is in the log; if `end` is not empty, the transaction
    /// stays on the stack until one of those.
    pub commit: Vec<String>,
    pub abort: Vec<String>,
    /// Functions after commit or abort that leave a (perhaps nested) transaction.
    pub end: Vec<String>,
    pub log: Vec<LogCall>,
    pub alloc: Vec<AllocCall>,
    pub free: Vec<FreeCall>,
    /// Beginnings of names: what such a function does, or anything it calls, is the library's own
    /// business.
    pub library: Vec<String>,
}

impl Default for Transactions {
    fn default() -> Transactions {
        Transactions {
            libpmemobj: true,
            begin: Vec::new(),
            commit: Vec::new(),
            abort: Vec::new(),
            end: Vec::new(),
            log: Vec::new(),
            alloc: Vec::new(),
            free: Vec::new(),
            library: Vec::new(),
        }
    }
}

/// A name, or a name and the argument that points to the beginning of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BeginCall {
    Name(String),
    WithPool(PoolCall),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolCall {
    pub name: String,
    pub pool: usize,
}

/// A call that logs a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogCall {
    pub name: String,
    /// Argument with the address.
    pub address: usize,
    /// Argument with the length in bytes.
    pub length: usize,
    /// Argument to be added to the address.
    #[serde(default)]
    pub plus: Option<usize>,
    /// The address is an offset from the beginning of the pool.
    #[serde(default)]
    pub in_pool: bool,
}

/// A call that allocates an object in the transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocCall {
    pub name: String,
    /// Argument with the length in bytes.
    pub length: usize,
    #[serde(default)]
    pub returns: Returns,
}

/// What the recorded result of an allocation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Returns {
    #[default]
    Address,
    /// From the beginning of the pool.
    Offset,
    /// Something from which the address cannot be told.
    Other,
}

/// A call that frees an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreeCall {
    pub name: String,
    pub address: usize,
    #[serde(default)]
    pub in_pool: bool,
}

/// There is no rule of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rule is called `{0}`")]
pub struct UnknownRule(pub String);

impl RuleSettings {
    /// Whether a built-in rule runs, and the severity it was given.
    pub fn of(&self, id: &str) -> Result<(bool, Option<Severity>), UnknownRule> {
        let basic = match id {
            "missing-flush" => &self.missing_flush,
            "missing-fence" => &self.missing_fence,
            "unpersisted" => &self.unpersisted,
            "double-log" => &self.double_log,
            "unlogged-update" => &self.unlogged_update,
            "extra-flush" => return Ok((self.extra_flush.enabled, self.extra_flush.severity)),
            "extra-fence" => return Ok((self.extra_fence.enabled, self.extra_fence.severity)),
            _ => return Err(UnknownRule(id.to_owned())),
        };
        Ok((basic.enabled, basic.severity))
    }

    /// Switches a built-in rule on or off.
    pub fn set_enabled(&mut self, id: &str, enabled: bool) -> Result<(), UnknownRule> {
        let slot = match id {
            "missing-flush" => &mut self.missing_flush.enabled,
            "missing-fence" => &mut self.missing_fence.enabled,
            "unpersisted" => &mut self.unpersisted.enabled,
            "double-log" => &mut self.double_log.enabled,
            "unlogged-update" => &mut self.unlogged_update.enabled,
            "extra-flush" => &mut self.extra_flush.enabled,
            "extra-fence" => &mut self.extra_fence.enabled,
            _ => return Err(UnknownRule(id.to_owned())),
        };
        *slot = enabled;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RULES;

    #[test]
    fn every_rule_can_be_switched() {
        let mut settings = RuleSettings::default();
        for rule in RULES {
            assert_eq!(settings.of(rule.id), Ok((true, None)));
            settings.set_enabled(rule.id, false).expect("a known rule");
            assert_eq!(settings.of(rule.id), Ok((false, None)));
        }
        assert!(settings.set_enabled("extra-flushes", true).is_err());
        assert!(settings.of("custom").is_err());
    }

    #[test]
    fn a_configuration_is_read_and_unknown_keys_are_refused() {
        let text = r#"
            [rules]
            custom = ["rules/mine.rhai"]
            [rules.extra-flush]
            share = 0.9
            severity = "note"
            [rules.unpersisted]
            enabled = false
            [transactions]
            begin = ["tx_begin", { name = "tx_open", pool = 1 }]
            commit = ["tx_commit"]
            log = [{ name = "tx_add", address = 0, length = 1 }]
            alloc = [{ name = "tx_alloc", length = 0, returns = "offset" }]
        "#;
        let config: Config = toml::from_str(text).expect("a valid configuration");
        assert_eq!(config.rules.extra_flush.share, 0.9);
        assert_eq!(
            config.rules.of("extra-flush"),
            Ok((true, Some(Severity::Note)))
        );
        assert_eq!(config.rules.of("unpersisted"), Ok((false, None)));
        assert_eq!(config.transactions.alloc[0].returns, Returns::Offset);
        assert!(config.transactions.libpmemobj);
        for wrong in [
            "[rules.extra-flush]\nshares = 1",
            "[rules]\nextra = 1",
            "rule = 1",
        ] {
            assert!(toml::from_str::<Config>(wrong).is_err(), "{wrong}");
        }
    }
}
