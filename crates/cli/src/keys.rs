//! All keys of `crashpoint.toml`, and excerpts of it for errors.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use toml::de::{DeTable, DeValue};

/// What may stand under a key.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Value,
    Table(Keys),
    /// A list; of its items, those that are tables have these keys.
    List(Keys),
    /// A table with names of the user's own choice, each a table with these keys.
    Named(Keys),
}

pub type Keys = &'static [(&'static str, Shape)];

use Shape::{List, Named, Table, Value};

const BASIC: Keys = &[("enabled", Value), ("severity", Value)];

/// The file.
pub const KEYS: Keys = &[
    (
        "record",
        Table(&[
            ("pm", Value),
            ("level", Value),
            ("loads", Value),
            ("calls", Value),
            ("limit", Value),
            ("timeout", Value),
        ]),
    ),
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
    (
        "target",
        Table(&[
            ("build", Value),
            ("run", Value),
            ("driver", Value),
            ("create", Value),
            ("pm", Value),
            ("operation", Value),
            ("model", Value),
            ("dir", Value),
            ("fs", Value),
        ]),
    ),
    (
        "ops",
        Named(&[
            ("args", Value),
            ("weight", Value),
            ("read-only", Value),
            ("removes", Value),
        ]),
    ),
    (
        "test",
        Table(&[
            ("operations", Value),
            ("seed", Value),
            ("ops-file", Value),
            ("keys", Value),
            ("threads", Value),
            ("distinct-keys", Value),
            ("values", Value),
            ("strategy", Value),
            ("bound", Value),
            ("random-states", Value),
            ("per-kind", Value),
            ("sets", Value),
            ("gap", Value),
            ("neighbours", Value),
            ("round", Value),
            ("oracle", Value),
            ("check", Value),
            ("ignore", Value),
            ("suffix", Value),
            ("probe", Value),
            ("recovery", Value),
            ("prune", Value),
            ("timeout", Value),
            ("memory", Value),
            ("states", Value),
            ("states-per-point", Value),
            ("time", Value),
            ("jobs", Value),
            ("baseline", Value),
            ("confirm", Value),
            ("remarks", Value),
        ]),
    ),
    ("conditions", Table(&[("add", Value), ("suppress", Value)])),
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
            return Err(Problem {
                message: format!("unknown key `{name}`"),
                help: Some(suggestion(name, keys)),
                span: Some(key.span()),
            });
        };
        match (shape, value.get_ref()) {
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
            (Value | Table(_) | List(_) | Named(_), _) => {}
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

fn suggestion(name: &str, keys: Keys) -> String {
    let known = || keys.iter().map(|(known, _)| *known);
    match nearest(name, known()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!(
            "the keys here are {}",
            known().collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The nearest of several names, if one is near enough to be meant.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    let nearest = names.min_by_key(|known| distance(known))?;
    (distance(nearest) <= name.len().max(3) / 2).then_some(nearest)
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
