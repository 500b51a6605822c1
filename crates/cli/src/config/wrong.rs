//! What is wrong with a value, and names that users choose from.

use clap::ValueEnum;

use crate::keys::nearest;

/// What is wrong, wherever it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub message: String,
    pub help: Option<String>,
}

/// What is wrong with the value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Keys from the outermost table inwards; places in lists as numbers.
    pub path: Vec<String>,
    pub reason: Reason,
}

impl Reason {
    pub fn new(message: impl Into<String>) -> Reason {
        Reason {
            message: message.into(),
            help: None,
        }
    }

    /// A name that does not exist among those that do. `what` is one of the things, such as
    /// `strategy`; `names` calls all of them.
    pub fn unknown(what: &str, name: &str, names: &str, known: &[&str]) -> Reason {
        let help = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the {names} are {}", known.join(", ")),
        };
        Reason {
            message: format!("there is no {what} `{name}`"),
            help: Some(help),
        }
    }

    pub fn at(self, path: &[&str]) -> Wrong {
        Wrong {
            path: path.iter().map(|key| key.to_string()).collect(),
            reason: self,
        }
    }
}

/// In one line, where no excerpt can be shown.
impl std::fmt::Display for Reason {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.help {
            Some(help) => write!(to, "{}; {help}", self.message),
            None => write!(to, "{}", self.message),
        }
    }
}

/// One of the names that the option of the command line takes too.
pub fn choose<T: ValueEnum>(what: &str, names: &str, text: &str) -> Result<T, Reason> {
    T::from_str(text, false).map_err(|_| {
        let values = T::value_variants().iter();
        let known: Vec<String> = values
            .filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()))
            .collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        Reason::unknown(what, text, names, &known)
    })
}
