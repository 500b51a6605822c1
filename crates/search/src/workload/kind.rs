//! Kinds of operations and of their arguments, as a user writes them down.

use std::fmt;
use std::str::FromStr;

/// One kind of operation: what the section `[ops]` says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationKind {
    /// The first word of the line.
    pub name: String,
    pub args: Vec<ArgumentKind>,
    /// How often it comes, compared with the others; 0 is never.
    pub weight: u32,
    /// It changes nothing: it may be asked at any time without disturbing what follows.
    pub read_only: bool,
    /// Its (first) key is gone afterwards.
    pub removes: bool,
}

impl OperationKind {
    /// A kind that changes something, with the weight 1.
    pub fn new(name: impl Into<String>, args: Vec<ArgumentKind>) -> OperationKind {
        OperationKind {
            name: name.into(),
            args,
            weight: 1,
            read_only: false,
            removes: false,
        }
    }
}

/// Whether a line can begin with this word and still be read as an operation.
pub fn is_name(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('#') && !word.contains(char::is_whitespace)
}

/// What stands in the place of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A key that no operation has named so far.
    NewKey,
    /// Mostly a key that is there, now and then one that is not.
    UsedKey,
    /// A key that is there or not.
    AnyKey,
    /// A value that no operation has been given so far.
    Value,
    /// Always this word.
    Word(String),
    /// A number, both ends included.
    Number { min: u64, max: u64 },
}

impl ArgumentKind {
    /// The names that a user chooses from, with the two forms that are no names.
    pub const NAMES: [&str; 6] = ["new-key", "used-key", "any-key", "value", "1..4", "=text"];

    pub fn is_key(&self) -> bool {
        match self {
            ArgumentKind::NewKey | ArgumentKind::UsedKey | ArgumentKind::AnyKey => true,
            ArgumentKind::Value | ArgumentKind::Word(_) | ArgumentKind::Number { .. } => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error("there is no kind of argument `{0}`")]
    Unknown(String),
    #[error("the range `{0}` is empty")]
    EmptyRange(String),
    #[error("`{0}` must be one word: operations are read word by word")]
    NotOneWord(String),
}

impl FromStr for ArgumentKind {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<ArgumentKind, ArgumentError> {
        match text {
            "new-key" => return Ok(ArgumentKind::NewKey),
            "used-key" => return Ok(ArgumentKind::UsedKey),
            "any-key" => return Ok(ArgumentKind::AnyKey),
            "value" => return Ok(ArgumentKind::Value),
            _ => {}
        }
        if let Some(word) = text.strip_prefix('=') {
            if word.is_empty() || word.contains(char::is_whitespace) {
                return Err(ArgumentError::NotOneWord(text.to_owned()));
            }
            return Ok(ArgumentKind::Word(word.to_owned()));
        }
        let unknown = || ArgumentError::Unknown(text.to_owned());
        let (min, max) = text.split_once("..").ok_or_else(unknown)?;
        // Whoever writes Rust may think of the other notation; it means the same here.
        let max = max.strip_prefix('=').unwrap_or(max);
        let number = |digits: &str| digits.trim().parse::<u64>().map_err(|_| unknown());
        let (min, max) = (number(min)?, number(max)?);
        if min > max {
            return Err(ArgumentError::EmptyRange(text.to_owned()));
        }
        Ok(ArgumentKind::Number { min, max })
    }
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentKind::NewKey => write!(to, "new-key"),
            ArgumentKind::UsedKey => write!(to, "used-key"),
            ArgumentKind::AnyKey => write!(to, "any-key"),
            ArgumentKind::Value => write!(to, "value"),
            ArgumentKind::Word(word) => write!(to, "={word}"),
            ArgumentKind::Number { min, max } => write!(to, "{min}..{max}"),
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.name)?;
        for argument in &self.args {
            write!(to, " {argument}")?;
        }
        write!(to, " (weight {}", self.weight)?;
        if self.read_only {
            write!(to, ", read-only")?;
        }
        if self.removes {
            write!(to, ", removes")?;
        }
        write!(to, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_argument_reads_as_it_prints() {
        for text in ArgumentKind::NAMES {
            let kind: ArgumentKind = text.parse().unwrap();
            assert_eq!(kind.to_string(), text);
        }
        let range = "0..=7".parse();
        assert_eq!(range, Ok(ArgumentKind::Number { min: 0, max: 7 }));
    }

    #[test]
    fn what_is_no_argument_is_refused_with_its_reason() {
        let error = |text: &str| text.parse::<ArgumentKind>().unwrap_err();
        for text in ["", "key", "1..", "..2", "-1..2", "a..b", "new_key"] {
            assert_eq!(error(text), ArgumentError::Unknown(text.into()), "{text}");
        }
        assert_eq!(error("4..1"), ArgumentError::EmptyRange("4..1".into()));
        for text in ["=", "=two words"] {
            assert_eq!(error(text), ArgumentError::NotOneWord(text.into()));
        }
    }

    #[test]
    fn a_name_is_one_word_that_is_no_comment() {
        assert!(is_name("insert") && is_name("put-all"));
        assert!(!is_name("") && !is_name("#x") && !is_name("two words"));
    }
}
