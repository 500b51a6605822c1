//! All keys of `crashpoint.toml`, and excerpts of it for errors.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use crashpoint_campaign::settings::SettingError;
use toml::de::{DeTable, DeValue};

use crate::options::{ConditionOptions, RecordOptions, TargetOptions, TestOptions};

/// What may stand under a key.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Value,
    Table(Keys),
    /// A table whose keys are the fields of a struct of options, with `-` for `_`.
    Fields(&'static [&'static str]),
    /// A list; of its items, those that are tables have these keys.
    List(Keys),
    /// A table with names of the user's own choice, each a table with these keys.
    Named(Keys),
}

pub type Keys = &'static [(&'static str, Shape)];

use Shape::{Fields, List, Named, Table, Value};

const BASIC: Keys = &[("enabled", Value), ("severity", Value)];

/// The file.
pub const KEYS: Keys = &[
    ("record", Fields(RecordOptions::FIELDS)),
    (
        "rules",
        Table(&[
            ("missing-flush", Table(BASIC)),
            ("missing-fence", Table(BASIC)),
            (
                "extra-flush",
                Table(&[
                    ("enabled", Value),
                    ("severity", Value),
                    ("share", Value),
                    ("untouched", Value),
                ]),
            ),
            (
                "extra-fence",
                Table(&[
                    ("enabled", Value),
                    ("severity", Value),
                    ("share", Value),
                    ("mfence", Value),
                ]),
            ),
            ("unpersisted", Table(BASIC)),
            ("double-log", Table(BASIC)),
            ("unlogged-update", Table(BASIC)),
            ("custom", Value),
        ]),
    ),
    (
        "transactions",
        Table(&[
            ("libpmemobj", Value),
            ("begin", List(&[("name", Value), ("pool", Value)])),
            ("commit", Value),
            ("abort", Value),
            ("end", Value),
            (
                "log",
                List(&[
                    ("name", Value),
                    ("address", Value),
                    ("length", Value),
                    ("plus", Value),
                    ("in_pool", Value),
                ]),
            ),
            (
                "alloc",
                List(&[("name", Value), ("length", Value), ("returns", Value)]),
            ),
            (
                "free",
                List(&[("name", Value), ("address", Value), ("in_pool", Value)]),
            ),
            ("library", Value),
        ]),
    ),
    ("target", Fields(TargetOptions::FIELDS)),
    (
        "ops",
        Named(&[
            ("args", Value),
            ("weight", Value),
            ("read-only", Value),
            ("removes", Value),
        ]),
    ),
    ("test", Fields(TestOptions::FIELDS)),
    ("conditions", Fields(ConditionOptions::FIELDS)),
];

/// Something wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub help: Option<String>,
    pub span: Option<Range<usize>>,
}

impl From<toml::de::Error> for Problem {
    fn from(error: toml::de::Error) -> Problem {
        Problem {
            message: error.message().to_owned(),
            help: None,
            span: error.span(),
        }
    }
}

/// Finds the first key that does not exist.
pub fn check(text: &str) -> Result<(), Problem> {
    let table = DeTable::parse(text)?;
    check_table(table.get_ref(), KEYS)
}

fn check_table(table: &DeTable<'_>, keys: Keys) -> Result<(), Problem> {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let Some((_, shape)) = keys.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = keys.iter().map(|(known, _)| *known).collect();
            return Err(unknown(name, &known, key.span()));
        };
        match (shape, value.get_ref()) {
            (Fields(fields), DeValue::Table(inner)) => {
                let known: Vec<String> = fields.iter().map(|field| key_of(field)).collect();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let mut keys = inner.keys();
                if let Some(key) = keys.find(|key| !known.contains(&key.get_ref().as_ref())) {
                    return Err(unknown(key.get_ref(), &known, key.span()));
                }
            }
            (Table(keys), DeValue::Table(inner)) => check_table(inner, keys)?,
            (List(keys), DeValue::Array(items)) => {
                for item in items.iter() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        check_table(inner, keys)?;
                    }
                }
            }
            (Named(keys), DeValue::Table(names)) => {
                for value in names.values() {
                    if let DeValue::Table(inner) = value.get_ref() {
                        check_table(inner, keys)?;
                    }
                }
            }
            // The types are the deserialiser's business.
            (Value | Table(_) | Fields(_) | List(_) | Named(_), _) => {}
        }
    }
    Ok(())
}

/// Where the value stands that a path of keys, and of places in lists, leads to; or as much of the
/// path as there is.
pub fn locate(text: &str, path: &[String]) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let (first, rest) = path.split_first()?;
    let mut value = document.get_ref().get(first.as_str())?;
    for step in rest {
        let inner = match value.get_ref() {
            DeValue::Table(table) => table.get(step.as_str()),
            DeValue::Array(items) => step.parse().ok().and_then(|at: usize| items.get(at)),
            _ => None,
        };
        value = inner.unwrap_or(value);
    }
    Some(value.span())
}

/// The key of a field.
pub fn key_of(field: &str) -> String {
    field.replace('_', "-")
}

fn unknown(name: &str, known: &[&str], span: Range<usize>) -> Problem {
    let error = SettingError::unknown("key", name, "keys here", known);
    Problem {
        message: format!("unknown key `{name}`"),
        help: error.help,
        span: Some(span),
    }
}

/// The problem with its line, for people.
pub fn excerpt(text: &str, file: &str, problem: &Problem, colours: bool) -> String {
    let end = text.len();
    let span = problem.span.clone().unwrap_or(0..end);
    let span = span.start.min(end)..span.end.min(end);
    let snippet = Snippet::source(text)
        .path(file)
        .annotation(AnnotationKind::Primary.span(span));
    let mut group = Level::ERROR
        .primary_title(problem.message.as_str())
        .element(snippet);
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    let renderer = if colours {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    renderer.render(&[group])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crashpoint_rules as rules;

    /// Every key of a serialised default is known here; a key that was forgotten would be refused.
    fn assert_known(table: &toml::Table, keys: Keys) {
        for (name, value) in table {
            let known = keys.iter().find(|(known, _)| known == name);
            match (known, value) {
                (Some((_, Table(keys))), toml::Value::Table(inner)) => assert_known(inner, keys),
                (Some(_), _) => {}
                (None, _) => panic!("{name} is missing"),
            }
        }
    }

    #[test]
    fn the_keys_of_the_rules_are_known() {
        let defaults = toml::Table::try_from(rules::Config::default()).unwrap();
        assert_known(&defaults, KEYS);
        for rule in rules::RULES {
            let text = format!("[rules.{}]\nenabled = false\nseverity = 'note'\n", rule.id);
            assert_eq!(check(&text), Ok(()), "{}", rule.id);
        }
    }

    fn assert_documented(page: &str, path: &str, keys: Keys) {
        for (name, shape) in keys {
            let path = format!("{path}{name}");
            match shape {
                Table(inner) => assert_documented(page, &format!("{path}."), inner),
                Fields(fields) => {
                    for field in *fields {
                        let key = format!("`{path}.{}`", key_of(field));
                        assert!(page.contains(&key), "docs/configuration.md: {key}");
                    }
                }
                Named(inner) => assert_documented(page, &format!("{path}.NAME."), inner),
                Value | List(_) => {
                    let any_rule = rules::RULES.iter().fold(path.clone(), |path, rule| {
                        path.replace(&format!("rules.{}.", rule.id), "rules.RULE.")
                    });
                    let known = [path, any_rule]
                        .iter()
                        .any(|key| page.contains(&format!("`{key}`")));
                    assert!(known, "docs/configuration.md does not speak of {name}");
                }
            }
            if let List(inner) = shape {
                for (field, _) in *inner {
                    assert!(
                        page.contains(field),
                        "docs/configuration.md: {name}: {field}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_key_is_documented() {
        let page = include_str!("../../../docs/configuration.md");
        assert_documented(page, "", KEYS);
    }

    /// Rows of the tables that are written by hand name the defaults of the library.
    #[test]
    fn the_defaults_of_rules_that_the_page_names_are_true() {
        let page = include_str!("../../../docs/configuration.md");
        let table = toml::Table::try_from(rules::Config::default()).unwrap();
        for (rule, key) in [
            ("extra-flush", "share"),
            ("extra-flush", "untouched"),
            ("extra-fence", "share"),
            ("extra-fence", "mfence"),
        ] {
            let value = table["rules"][rule][key].to_string().replace('"', "`");
            let begin = format!("| `rules.{rule}.{key}` |");
            let row = page.lines().find(|line| line.starts_with(&begin));
            assert!(
                row.unwrap().contains(&format!("| {value} |")),
                "{key}: {value}"
            );
        }
    }

    #[test]
    fn keys_in_lists_are_checked_too() {
        let text = "[transactions]\nlog = [{ name = 'a', adress = 0, length = 1 }]\n";
        let problem = check(text).unwrap_err();
        assert_eq!(problem.message, "unknown key `adress`");
        assert_eq!(problem.help.as_deref(), Some("did you mean `address`?"));
        assert_eq!(&text[problem.span.unwrap()], "adress");
        assert_eq!(
            check("[transactions]\nbegin = ['tx', { name = 'b', pool = 0 }]"),
            Ok(())
        );
    }

    #[test]
    fn keys_under_names_of_the_users_choice_are_checked_too() {
        let text = "[ops]\nput = { args = [], wieght = 2 }\n[ops.get]\nread-only = true\n";
        let problem = check(text).unwrap_err();
        assert_eq!(problem.help.as_deref(), Some("did you mean `weight`?"));
        assert_eq!(&text[problem.span.unwrap()], "wieght");
    }

    #[test]
    fn a_value_is_found_by_its_path() {
        let text = "[a.b]\nc = [1, { d = 'x' }]\n";
        let found = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|step| step.to_string()).collect();
            locate(text, &path).map(|span| &text[span])
        };
        assert_eq!(found(&["a", "b", "c", "1", "d"]), Some("'x'"));
        assert_eq!(found(&["a", "b", "c", "0"]), Some("1"));
        assert_eq!(found(&["a", "b", "c", "9"]), Some("[1, { d = 'x' }]"));
        assert_eq!(found(&["z"]), None);
    }

    #[test]
    fn far_off_keys_get_the_whole_list() {
        let problem = check("colour = 1").unwrap_err();
        let expected = "the keys here are record, rules, transactions, target, ops, test, \
                        conditions";
        assert_eq!(problem.help.as_deref(), Some(expected));
    }
}
