//! The section `[ops]`: which operations there are, and how random ones are made.

use std::collections::BTreeMap;

use crashpoint_search::workload::{ArgumentError, ArgumentKind, OperationKind, is_name};
use serde::Deserialize;

use super::wrong::{Reason, Wrong};

/// By name, hence in the order of names: what is generated does not depend on the order in the
/// file.
pub type OperationsSection = BTreeMap<String, OperationSection>;

/// One operation, as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OperationSection {
    args: Vec<String>,
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

pub fn resolve(section: OperationsSection) -> Result<Vec<OperationKind>, Wrong> {
    section.into_iter().map(kind).collect()
}

fn kind((name, section): (String, OperationSection)) -> Result<OperationKind, Wrong> {
    if !is_name(&name) {
        let message = "the name of an operation is one word, and does not begin with `#`";
        return Err(Reason::new(message).at(&["ops", &name]));
    }
    let mut args = Vec::new();
    for (index, text) in section.args.iter().enumerate() {
        let argument = argument(text);
        let path = ["ops", &name, "args", &index.to_string()];
        args.push(argument.map_err(|reason| reason.at(&path))?);
    }
    if section.removes && section.read_only {
        let message = "an operation that removes its key is not read-only";
        return Err(Reason::new(message).at(&["ops", &name, "removes"]));
    }
    if section.removes && !args.iter().any(ArgumentKind::is_key) {
        let message = "an operation without a key has none to remove";
        return Err(Reason::new(message).at(&["ops", &name, "removes"]));
    }
    Ok(OperationKind {
        name,
        args,
        weight: section.weight,
        read_only: section.read_only,
        removes: section.removes,
    })
}

fn argument(text: &str) -> Result<ArgumentKind, Reason> {
    text.parse().map_err(|error: ArgumentError| match error {
        ArgumentError::Unknown(_) => {
            let (what, names) = ("kind of argument", "kinds of arguments");
            Reason::unknown(what, text, names, &ArgumentKind::NAMES)
        }
        ArgumentError::EmptyRange(_) | ArgumentError::NotOneWord(_) => {
            Reason::new(error.to_string())
        }
    })
}
