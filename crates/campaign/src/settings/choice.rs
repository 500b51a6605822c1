//! Names that users choose from, and what is wrong with a value that a user wrote.

/// A closed set of values, each with the name that users write and a line of help.
pub trait NamedChoice: Copy + PartialEq + Sized + 'static {
    /// What one of them is called in messages, and what all of them are called.
    const NOUN: (&'static str, &'static str);
    const ALL: &'static [Self];

    fn name(self) -> &'static str;

    fn help(self) -> &'static str;

    fn from_name(name: &str) -> Result<Self, SettingError> {
        let found = Self::ALL.iter().find(|one| one.name() == name);
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|one| one.name()).collect();
            SettingError::unknown(Self::NOUN.0, name, Self::NOUN.1, &known)
        })
    }
}

/// Declares an enum whose values have names and help texts.
macro_rules! choices {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident($noun:literal, $nouns:literal) {
            $($(#[$of_variant:meta])* $variant:ident = $name:literal: $help:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $type {
            $($(#[$of_variant])* #[doc = $help] $variant,)+
        }

        impl $crate::settings::NamedChoice for $type {
            const NOUN: (&'static str, &'static str) = ($noun, $nouns);
            const ALL: &'static [$type] = &[$($type::$variant),+];

            fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }

            fn help(self) -> &'static str {
                match self {
                    $($type::$variant => $help,)+
                }
            }
        }
    };
}
pub(crate) use choices;

/// What is wrong with a value, wherever it was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", help.as_ref().map_or(String::new(), |help| format!("; {help}")))]
pub struct SettingError {
    pub message: String,
    pub help: Option<String>,
}

impl SettingError {
    pub fn new(message: impl Into<String>) -> SettingError {
        SettingError {
            message: message.into(),
            help: None,
        }
    }

    /// A name that does not exist among those that do. `noun` is one of the things, such as
    /// `strategy`; `nouns` calls all of them.
    pub fn unknown(noun: &str, name: &str, nouns: &str, known: &[&str]) -> SettingError {
        let help = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the {nouns} are {}", known.join(", ")),
        };
        SettingError {
            message: format!("there is no {noun} `{name}`"),
            help: Some(help),
        }
    }
}

/// The nearest of several names, if one is near enough to be meant.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let nearest = names.min_by_key(|known| distance(known))?;
    (distance(nearest) <= name.len().max(3) / 2).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Strategy;

    #[test]
    fn every_value_is_found_by_its_name() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::from_name(strategy.name()).as_ref(), Ok(strategy));
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_or_with_all() {
        let error = |name| Strategy::from_name(name).unwrap_err().to_string();
        assert_eq!(
            error("exhaustiv"),
            "there is no strategy `exhaustiv`; did you mean `exhaustive`?"
        );
        assert!(error("zzzzzzzzzzzz").contains("the strategies are conditions, auto,"));
    }
}
