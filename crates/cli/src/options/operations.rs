//! The section `[ops]`: which operations there are, and how random ones are made.

use std::collections::BTreeMap;
use std::str::FromStr;

use crashpoint_campaign::settings::SettingError;
use crashpoint_search::workload::{ArgumentError, ArgumentKind, OperationKind, is_name};
use serde::Deserialize;

use super::WrongValue;
use super::values::written_as_text;

/// Operations by name, hence in the order of names: what is generated does not depend on the order in the
/// file.
pub type OperationsSection = BTreeMap<String, OperationSection>;

/// One operation, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OperationSection {
    args: Vec<Argument>,
    weight: u32,
    read_only: bool,
    removes: bool,
}

impl Default for OperationSection {
    fn default() -> OperationSection {
        OperationSection {
            args: Vec::new(),
            weight: 1,
            read_only: false,
            removes: false,
        }
    }
}

#[derive(Clone, Debug)]
struct Argument(ArgumentKind);
written_as_text!(Argument);

impl FromStr for Argument {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Argument, SettingError> {
        let parsed = text.parse().map_err(|error: ArgumentError| match error {
            ArgumentError::Unknown(_) => {
                let (noun, nouns) = ("kind of argument", "kinds of arguments");
                SettingError::unknown(noun, text, nouns, &ArgumentKind::NAMES)
            }
            ArgumentError::EmptyRange(_) | ArgumentError::NotOneWord(_) => {
                SettingError::new(error.to_string())
            }
        });
        parsed.map(Argument)
    }
}

pub fn resolve(section: OperationsSection) -> Result<Vec<OperationKind>, WrongValue> {
    section.into_iter().map(kind).collect()
}

fn kind((name, section): (String, OperationSection)) -> Result<OperationKind, WrongValue> {
    if !is_name(&name) {
        let message = "the name of an operation is one word, and does not begin with `#`";
        return Err(WrongValue::new(&["ops", &name], message));
    }
    let args = section.args.into_iter().map(|argument| argument.0);
    let args: Vec<ArgumentKind> = args.collect();
    let removes = ["ops", &name, "removes"];
    if section.removes && section.read_only {
        let message = "an operation that removes its key is not read-only";
        return Err(WrongValue::new(&removes, message));
    }
    if section.removes && !args.iter().any(ArgumentKind::is_key) {
        let message = "an operation without a key has none to remove";
        return Err(WrongValue::new(&removes, message));
    }
    Ok(OperationKind {
        name,
        args,
        weight: section.weight,
        read_only: section.read_only,
        removes: section.removes,
    })
}
