//! What a run is asked to do, as plain values: no command line, no configuration file.
//!
//! A program that calls this library fills in [`Settings`]; the command line fills it in from
//! `crashpoint.toml` and its options. Names that users choose from are [`NamedChoice`]s, so that both
//! know the same names.

pub mod choice;
mod conditions;
mod record;
mod target;
pub mod template;
mod test;

use crashpoint_rules as rules;
use crashpoint_search::workload::OperationKind;

pub use choice::{NamedChoice, SettingError, nearest};
pub use conditions::{AddedCondition, ConditionSettings, SourceLine, SuppressedCondition};
pub use record::RecordSettings;
pub use target::TargetSettings;
pub use test::{
    AfterCrash, BudgetSettings, CheckLimits, JudgingSettings, Oracle, Recovery, Representatives,
    Strategy, StrategySettings, TestSettings, WorkloadSettings,
};

/// Everything that a run depends on.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub record: RecordSettings,
    pub rules: rules::Config,
    pub target: TargetSettings,
    /// The operations of the target, in the order of their names.
    pub operations: Vec<OperationKind>,
    pub test: TestSettings,
    pub conditions: ConditionSettings,
}
