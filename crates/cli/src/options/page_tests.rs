//! `docs/configuration.md` says what the declarations of options say: the tables of the sections that
//! are options too are generated. `CRASHPOINT_BLESS=1` rewrites them.

use std::path::Path;

use super::{RecordOptions, TargetOptions, TestOptions};
use crate::keys::key_of;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

/// One section: its name, its fields with their documentation, and its options.
struct Section {
    name: &'static str,
    fields: &'static [&'static str],
    documentation: &'static [&'static [&'static str]],
    options: clap::Command,
}

fn section<T: clap::Args>(
    name: &'static str,
    fields: &'static [&'static str],
    documentation: &'static [&'static [&'static str]],
) -> Section {
    Section {
        name,
        fields,
        documentation,
        options: T::augment_args(clap::Command::new(name)),
    }
}

fn sections() -> [Section; 3] {
    let (record, target, test) = (
        RecordOptions::DOCUMENTATION,
        TargetOptions::DOCUMENTATION,
        TestOptions::DOCUMENTATION,
    );
    [
        section::<RecordOptions>("record", RecordOptions::FIELDS, record),
        section::<TargetOptions>("target", TargetOptions::FIELDS, target),
        section::<TestOptions>("test", TestOptions::FIELDS, test),
    ]
}

/// One row: key, meaning, default, option.
fn row(section: &Section, field: &str, documentation: &[&str]) -> String {
    let lines: Vec<&str> = documentation.iter().map(|line| line.trim()).collect();
    let (mut meaning, mut default) = (String::new(), String::new());
    for paragraph in lines.split(|line| line.is_empty()) {
        let mut text = paragraph.join(" ");
        if let Some((before, rest)) = text.clone().split_once(" [default: ") {
            let (named, after) = rest.split_once(']').expect("the end of a default");
            default = format!("`{named}`");
            text = format!("{before}{after}");
        }
        let stop = if text.ends_with('.') { "" } else { "." };
        meaning.push_str(&format!("{text}{stop} "));
    }
    let mut arguments = section.options.get_arguments();
    let argument = arguments.find(|argument| argument.get_id() == field);
    let long = argument.and_then(clap::Arg::get_long);
    let key = format!("{}.{}", section.name, key_of(field));
    if long.is_some_and(|long| long.starts_with("no-")) {
        meaning = format!("With `false`: {meaning}");
        default = "`true`".to_owned();
    }
    let option = long.map_or(String::new(), |long| format!("`--{long}`"));
    let meaning = meaning.trim_end().replace('|', "\\|");
    format!("| `{key}` | {meaning} | {default} | {option} |\n")
}

fn table(section: &Section) -> String {
    let fields = section.fields.iter().zip(section.documentation);
    let rows = fields.map(|(field, documentation)| row(section, field, documentation));
    let head = "| key | meaning | default | option |\n|---|---|---|---|\n".to_owned();
    rows.fold(head, |table, row| format!("{table}{row}"))
}

#[test]
fn the_page_of_settings_is_what_the_options_declare() {
    let path = Path::new(PAGE);
    let page = std::fs::read_to_string(path).expect("docs/configuration.md");
    let mut expected = page.clone();
    for section in sections() {
        let begin = format!("<!-- generated: {} -->\n", section.name);
        let (before, rest) = expected.split_once(&begin).expect("the mark of a table");
        let (_, after) = rest.split_once("<!-- end -->\n").expect("its end");
        expected = format!("{before}{begin}{}<!-- end -->\n{after}", table(&section));
    }
    if std::env::var_os("CRASHPOINT_BLESS").is_some() {
        std::fs::write(path, &expected).expect("docs/configuration.md");
    } else {
        let differs = page
            .lines()
            .zip(expected.lines())
            .find(|(is, should)| is != should);
        assert!(
            page == expected,
            "run this test with CRASHPOINT_BLESS=1: {differs:#?}"
        );
    }
}
