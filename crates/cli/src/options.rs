//! Every setting that is both a key of `crashpoint.toml` and an option of the command line, declared
//! once: the name of a field is the key and the option, its documentation is the help text, and its
//! type reads both.
//!
//! Fields that are `skip`ped for the command line are keys only. Fields that are hidden belong to the
//! inner knobs of heuristics, which `--help-all` shows.

mod conditions;
mod operations;
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

/// What is wrong with the value of a key.
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

/// A value that may be said in two places, of which the first wins.
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
            $($(#[$of_field:meta])* pub $field:ident: $type:ty,)+
        }
    ) => {
        #[derive(Clone, Debug, Default, clap::Args, serde::Deserialize)]
        $(#[$attribute])*
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $($(#[$of_field])* pub $field: $type,)+
        }

        impl $name {
            /// The names of the fields; keys have `-` where these have `_`.
            pub const FIELDS: &'static [&'static str] = &[$(stringify!($field)),+];

            /// What is said here, and for the rest what is said there.
            pub fn or(self, other: $name) -> $name {
                $name {
                    $($field: $crate::options::Merge::or(self.$field, other.$field),)+
                }
            }
        }
    };
}
pub(crate) use options;
