//! Every setting that is both a key of `crashpoint.toml` and an option of the command line, declared
//! once: the name of a field is the key and the option, its documentation is the help text, and its
//! type reads both.
//!
//! The first paragraph of a field's documentation is the short help text; `[default: …]` in it is the
//! default. The paragraphs after it stand in `--help-all`. `docs/configuration.md` is generated from
//! the same declaration (`page_tests.rs`). Fields that are `skip`ped for the command line are keys
//! only; fields with `hide_short_help` are inner knobs, which only `--help-all` shows.

mod conditions;
mod operations;
#[cfg(test)]
mod page_tests;
mod record;
mod target;
mod test;
pub mod values;

pub use conditions::ConditionOptions;
pub use operations::{OperationsSection, resolve as resolve_operations};
pub use record::RecordOptions;
pub use target::TargetOptions;
pub use test::TestOptions;

use crashpoint_campaign::settings::SettingError;

/// A wrong value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    /// Keys from the outermost table inwards.
    pub path: Vec<String>,
    pub error: SettingError,
}

impl WrongValue {
    pub fn new(path: &[&str], message: impl Into<String>) -> WrongValue {
        WrongValue {
            path: path.iter().map(|key| key.to_string()).collect(),
            error: SettingError::new(message),
        }
    }
}

/// A value that can be given in two places, of which the first wins.
pub trait Merge {
    fn or(self, other: Self) -> Self;
}

impl<T> Merge for Option<T> {
    fn or(self, other: Option<T>) -> Option<T> {
        self.or(other)
    }
}

impl<T> Merge for Vec<T> {
    fn or(self, other: Vec<T>) -> Vec<T> {
        if self.is_empty() { other } else { self }
    }
}

impl Merge for bool {
    fn or(self, other: bool) -> bool {
        self || other
    }
}

/// Declares a section of `crashpoint.toml` whose keys are options of the command line.
macro_rules! options {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[arg $arg:tt])*
                pub $field:ident: $type:ty,
            )+
        }
    ) => {
        #[derive(Clone, Debug, Default, clap::Args, serde::Deserialize)]
        $(#[$attribute])*
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $(
                $(#[doc = $doc])+
                $(#[arg $arg])*
                pub $field: $type,
            )+
        }

        impl $name {
            /// The names of the fields; keys have `-` where these have `_`.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field)),+];

            /// The documentation of each field, line by line.
            #[cfg(test)]
            pub const DOCUMENTATION: &'static [&'static [&'static str]] = &[$(&[$($doc),+]),+];

            /// The values that are given here, and for the rest the values of `other`.
            pub fn or(self, other: $name) -> $name {
                $name {
                    $($field: $crate::options::Merge::or(self.$field, other.$field),)+
                }
            }
        }
    };
}
pub(crate) use options;
