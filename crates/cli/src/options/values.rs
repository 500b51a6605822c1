//! Types of values that users write, read alike from a file and from the command line.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParserFactory};
use crashpoint_abi::Level;
use crashpoint_blockdev::FileSystem;
use crashpoint_campaign::settings::template::{CHECK, PM, RUN, Template, Word};
use crashpoint_campaign::settings::{NamedChoice, SettingError};
use crashpoint_check::engine::outcome::MAX_OVERLAPPING;
use crashpoint_search::workload::ArgumentKind;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};

/// Types that are written as text in a file, too.
macro_rules! written_as_text {
    ($($type:ty),+) => {
        $(impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                from.deserialize_str($crate::options::values::TextVisitor::default())
            }
        })+
    };
}
pub(crate) use written_as_text;
written_as_text!(
    Size,
    Time,
    Timeout,
    NumberRange,
    RunCommand,
    DriverCommand,
    CheckCommand,
    PmPattern,
    RunWord,
    RecordLevel,
    RealFileSystem
);

/// Reads a value from its text.
pub struct TextVisitor<T>(PhantomData<T>);

impl<T> Default for TextVisitor<T> {
    fn default() -> TextVisitor<T> {
        TextVisitor(PhantomData)
    }
}

impl<T: FromStr<Err = SettingError>> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// One of a closed set of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneOf<T>(pub T);

impl<'de, T: NamedChoice> Deserialize<'de> for OneOf<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<OneOf<T>, D::Error> {
        let name = String::deserialize(from)?;
        T::from_name(&name).map(OneOf).map_err(D::Error::custom)
    }
}

/// Reads a name, and knows all of them for help texts.
#[derive(Clone)]
pub struct OneOfParser<T>(PossibleValuesParser, PhantomData<T>);

impl<T: NamedChoice + Send + Sync> ValueParserFactory for OneOf<T> {
    type Parser = OneOfParser<T>;

    fn value_parser() -> OneOfParser<T> {
        let values = T::ALL.iter();
        let values = values.map(|one| PossibleValue::new(one.name()).help(one.help()));
        OneOfParser(PossibleValuesParser::new(values), PhantomData)
    }
}

impl<T: NamedChoice + Send + Sync> TypedValueParser for OneOfParser<T> {
    type Value = OneOf<T>;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<OneOf<T>, clap::Error> {
        let name = self.0.parse_ref(command, argument, value)?;
        Ok(OneOf(T::from_name(&name).expect("a possible value")))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// A number of bytes: `500M`, `4G`, or plain bytes; powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Size, SettingError> {
        let bytes = || {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let unit = text[digits.len()..].to_ascii_uppercase();
            let unit: u64 = match unit.trim_end_matches("IB") {
                "" | "B" => 1,
                "K" | "KB" => 1 << 10,
                "M" | "MB" => 1 << 20,
                "G" | "GB" => 1 << 30,
                "T" | "TB" => 1 << 40,
                _ => return None,
            };
            digits.parse::<u64>().ok()?.checked_mul(unit)
        };
        let wrong = || SettingError::new("write a number of bytes, such as 500M or 4G");
        bytes().map(Size).ok_or_else(wrong)
    }
}

/// `30s`, `5m`, `1h`, `200ms`, or plain seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Time, SettingError> {
        let parsed = || {
            let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let number: u64 = digits.parse().ok()?;
            let seconds = match &text[digits.len()..] {
                "ms" => return Some(Duration::from_millis(number)),
                "" | "s" => 1,
                "m" | "min" => 60,
                "h" => 3600,
                _ => return None,
            };
            Some(Duration::from_secs(number.checked_mul(seconds)?))
        };
        let wrong = || SettingError::new("write a time, such as 30s, 5m or 1h");
        parsed().map(Time).ok_or_else(wrong)
    }
}

/// The time of one check: without a limit a check could wait for ever for a target that hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(pub Duration);

impl FromStr for Timeout {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Timeout, SettingError> {
        match text.parse()? {
            Time(Duration::ZERO) => Err(SettingError::new("a check needs some time")),
            Time(time) => Ok(Timeout(time)),
        }
    }
}

/// `1..1000`, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberRange(pub RangeInclusive<u64>);

impl FromStr for NumberRange {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<NumberRange, SettingError> {
        match text.parse() {
            Ok(ArgumentKind::Number { min, max }) => Ok(NumberRange(min..=max)),
            _ => Err(SettingError::new("write a range, such as 1..1000")),
        }
    }
}

/// How many operations run at once: each order of them is run, so that there cannot be many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads(pub usize);

impl TryFrom<usize> for Threads {
    type Error = SettingError;

    fn try_from(count: usize) -> Result<Threads, SettingError> {
        let wrong = || SettingError::new(format!("write a number from 1 to {MAX_OVERLAPPING}"));
        let fits = (1..=MAX_OVERLAPPING).contains(&count);
        fits.then_some(Threads(count)).ok_or_else(wrong)
    }
}

impl FromStr for Threads {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Threads, SettingError> {
        Threads::try_from(text.parse().unwrap_or(0))
    }
}

impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Threads, D::Error> {
        let count = usize::deserialize(from)?;
        Threads::try_from(count).map_err(D::Error::custom)
    }
}

/// A command that starts the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCommand(pub Template);

impl FromStr for RunCommand {
    type Err = SettingError;

    fn from_str(line: &str) -> Result<RunCommand, SettingError> {
        Template::parse(line, RUN, Path::new("")).map(RunCommand)
    }
}

/// A program whose `main` comes from crashpoint.h: the pool and the operations are its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverCommand(pub Template);

impl FromStr for DriverCommand {
    type Err = SettingError;

    fn from_str(line: &str) -> Result<DriverCommand, SettingError> {
        // By itself first, so that an unclosed quote does not swallow what follows.
        Template::parse(line, RUN, Path::new(""))?;
        let line = format!("{line} {{pool}} {{ops}}");
        Template::parse(&line, RUN, Path::new("")).map(DriverCommand)
    }
}

/// A command that judges a crashed state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckCommand(pub Template);

impl FromStr for CheckCommand {
    type Err = SettingError;

    fn from_str(line: &str) -> Result<CheckCommand, SettingError> {
        Template::parse(line, CHECK, Path::new("")).map(CheckCommand)
    }
}

/// A glob of files that are persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmPattern(pub Word);

impl FromStr for PmPattern {
    type Err = SettingError;

    fn from_str(glob: &str) -> Result<PmPattern, SettingError> {
        Word::parse(glob, PM).map(PmPattern)
    }
}

/// One word of the command that starts the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunWord(pub Word);

impl FromStr for RunWord {
    type Err = SettingError;

    fn from_str(word: &str) -> Result<RunWord, SettingError> {
        Word::parse(word, RUN).map(RunWord)
    }
}

/// How much is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLevel(pub Level);

impl FromStr for RecordLevel {
    type Err = SettingError;

    fn from_str(name: &str) -> Result<RecordLevel, SettingError> {
        let names = || Level::NAMES.map(|(name, _)| name).join(", ");
        let wrong = || SettingError::new(format!("the levels are {}", names()));
        Level::from_name(name).map(RecordLevel).ok_or_else(wrong)
    }
}

/// A file system of the kernel, with its mount options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealFileSystem(pub FileSystem);

impl FromStr for RealFileSystem {
    type Err = SettingError;

    fn from_str(name: &str) -> Result<RealFileSystem, SettingError> {
        let names = || FileSystem::ALL.map(FileSystem::name).join(", ");
        let wrong = || SettingError::new(format!("the file systems are {}", names()));
        let found = FileSystem::from_name(name);
        found.map(RealFileSystem).ok_or_else(wrong)
    }
}

/// A path in a file is found from the folder of the file.
pub fn beside(folder: &Path, path: Option<PathBuf>) -> Option<PathBuf> {
    path.map(|path| folder.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        for (text, bytes) in [("7", 7), ("2K", 2048), ("3MiB", 3 << 20), ("1gb", 1 << 30)] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for (text, millis) in [
            ("90", 90_000),
            ("5m", 300_000),
            ("200ms", 200),
            ("1h", 3_600_000),
        ] {
            let time = Time(Duration::from_millis(millis));
            assert_eq!(text.parse(), Ok(time), "{text}");
        }
        for text in ["", "M", "1x", "-1", "99999999999G"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        for text in ["", "s", "1d", "-1s"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_so_many_operations_run_at_once() {
        assert!("0".parse::<Threads>().is_err());
        assert_eq!("2".parse(), Ok(Threads(2)));
        assert!("99".parse::<Threads>().is_err());
    }
}
