//! Models from text: what a user's file changes, laid over the model that it starts from.

use super::model::{Model, builtin_text};
use std::ops::Range;
use thiserror::Error;
use toml::de::{DeTable, DeValue};

/// What is wrong with the text of a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {kind}")]
pub struct ModelError {
    /// From 1.
    pub line: usize,
    /// Where in the text, if it can be told.
    pub span: Option<Range<usize>>,
    pub kind: ModelErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelErrorKind {
    #[error("{0}")]
    Syntax(String),
    #[error("unknown key `{key}`{}", suggestion(.nearest))]
    UnknownKey {
        key: String,
        nearest: Option<String>,
    },
    #[error("there is no model `{name}`{}", suggestion(.nearest))]
    UnknownBase {
        name: String,
        nearest: Option<String>,
    },
    #[error("`{key}`: {message}")]
    Value { key: String, message: String },
}

fn suggestion(nearest: &Option<String>) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    }
}

fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let nearest = names.min_by_key(|known| distance(known))?;
    (distance(nearest) <= name.len().max(3) / 2).then(|| nearest.to_owned())
}

struct Text<'a>(&'a str);

impl Text<'_> {
    fn error(&self, span: Option<Range<usize>>, kind: ModelErrorKind) -> ModelError {
        let start = span.as_ref().map_or(0, |span| span.start.min(self.0.len()));
        let line = 1 + self.0.as_bytes()[..start]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        ModelError { line, span, kind }
    }

    /// Every key must be one of a whole model, and a table where that has one.
    fn check(&self, table: &DeTable<'_>, whole: &toml::Table) -> Result<(), ModelError> {
        for (key, value) in table {
            let name: &str = key.get_ref();
            let Some(known) = whole.get(name) else {
                let kind = ModelErrorKind::UnknownKey {
                    key: name.to_owned(),
                    nearest: nearest(name, whole.keys().map(String::as_str)),
                };
                return Err(self.error(Some(key.span()), kind));
            };
            match (value.get_ref(), known) {
                (DeValue::Table(inner), toml::Value::Table(known)) => self.check(inner, known)?,
                (_, toml::Value::Table(_)) => {
                    let kind = ModelErrorKind::Value {
                        key: name.to_owned(),
                        message: "must be a table".to_owned(),
                    };
                    return Err(self.error(Some(value.span()), kind));
                }
                (_, _) => {}
            }
        }
        Ok(())
    }

    /// Values are checked one by one, so that the wrong one can be named.
    fn lay(
        &self,
        table: &DeTable<'_>,
        path: &mut Vec<String>,
        whole: &mut toml::Table,
    ) -> Result<(), ModelError> {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            match value.get_ref() {
                DeValue::Table(inner) => self.lay(inner, path, whole)?,
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => {
                    let written = self.0[value.span()].parse::<toml::Value>();
                    let written = written.map_err(|error| self.syntax(&error))?;
                    replace(whole, path, written);
                    if let Err(error) = whole.clone().try_into::<Model>() {
                        let kind = ModelErrorKind::Value {
                            key: path.join("."),
                            message: error.message().to_owned(),
                        };
                        return Err(self.error(Some(value.span()), kind));
                    }
                }
            }
            path.pop();
        }
        Ok(())
    }

    fn syntax(&self, error: &toml::de::Error) -> ModelError {
        let kind = ModelErrorKind::Syntax(error.message().to_owned());
        self.error(error.span(), kind)
    }
}

fn replace(table: &mut toml::Table, path: &[String], value: toml::Value) {
    match path {
        [last] => {
            table.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            if let Some(toml::Value::Table(inner)) = table.get_mut(first) {
                replace(inner, rest, value);
            }
        }
        [] => {}
    }
}

/// A built-in model with all keys.
fn whole(name: &str) -> toml::Table {
    let text = builtin_text(name).expect("a built-in model");
    let mut table: toml::Table = text.parse().expect("built-in models are right");
    let base = table.remove("base");
    let Some(toml::Value::String(base)) = base else {
        return table;
    };
    let mut over = whole(&base);
    merge(&mut over, table);
    over
}

fn merge(whole: &mut toml::Table, table: toml::Table) {
    for (key, value) in table {
        match (whole.get_mut(&key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(over)) => merge(inner, over),
            (_, value) => {
                whole.insert(key, value);
            }
        }
    }
}

pub(super) fn model(text: &str) -> Result<Model, ModelError> {
    let source = Text(text);
    let table = DeTable::parse(text).map_err(|error| source.syntax(&error))?;
    let mut table = table.into_inner();
    let base = match table.remove("base") {
        None => None,
        Some(value) => match value.get_ref() {
            DeValue::String(base) if builtin_text(base).is_some() => Some(base.to_string()),
            DeValue::String(base) => {
                let kind = ModelErrorKind::UnknownBase {
                    name: base.to_string(),
                    nearest: nearest(base, Model::NAMES.into_iter()),
                };
                return Err(source.error(Some(value.span()), kind));
            }
            _ => {
                let kind = ModelErrorKind::Value {
                    key: "base".to_owned(),
                    message: "must be the name of a model".to_owned(),
                };
                return Err(source.error(Some(value.span()), kind));
            }
        },
    };
    let mut all = whole(base.as_deref().unwrap_or(Model::DEFAULT));
    source.check(&table, &all)?;
    if base.is_none() {
        // A model that starts from nothing has to say everything.
        let table: toml::Table = text.parse().map_err(|error| source.syntax(&error))?;
        return table.try_into().map_err(|error| source.syntax(&error));
    }
    if let Some(base) = base.filter(|_| !table.contains_key("name")) {
        let name = toml::Value::String(format!("{base}, changed"));
        all.insert("name".to_owned(), name);
    }
    source.lay(&table, &mut Vec::new(), &mut all)?;
    all.try_into().map_err(|error| source.syntax(&error))
}
