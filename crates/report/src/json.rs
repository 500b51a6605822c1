//! `findings.json`: the versioned wire form of a report.
//!
//! `docs/findings-schema.md` describes it for people, `docs/findings.schema.json` for machines; a
//! test holds this module to the latter. A reader must ignore fields that it does not know;
//! [`VERSION`] grows when a field goes away or changes its meaning.

mod crash;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::finding::{self, Report};

/// Version of the format.
pub const VERSION: u32 = 1;

/// The report as JSON text, with a newline at the end.
pub fn render(report: &Report) -> String {
    let wire = Document::from(report);
    let mut text = serde_json::to_string_pretty(&wire).expect("every key is a string");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Document<'a> {
    crashpoint_findings: u32,
    tool: Tool,
    recording: Recording<'a>,
    #[serde(with = "Figures")]
    figures: finding::Figures,
    rules: Vec<Rule<'a>>,
    findings: Vec<Finding<'a>>,
    problems: &'a [String],
    verdict: &'static str,
    left_out: Vec<LeftOut<'a>>,
    counts: Counts<'a>,
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "crash::test"
    )]
    test: Option<&'a finding::TestFigures>,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Recording<'a> {
    folder: String,
    command: &'a [String],
}

/// The wire form of [`finding::Figures`]; a field that is missing here does not compile.
#[derive(Serialize)]
#[serde(remote = "finding::Figures")]
struct Figures {
    events: u64,
    stores: u64,
    flushes: u64,
    fences: u64,
    processes: u64,
    threads: u64,
    seconds: f64,
}

#[derive(Serialize)]
struct Rule<'a> {
    id: &'a str,
    severity: &'static str,
    summary: &'a str,
}

#[derive(Serialize)]
struct Finding<'a> {
    rule: &'a str,
    severity: &'static str,
    message: &'a str,
    help: &'a str,
    count: u64,
    total: u64,
    first_order: u64,
    location: Option<Location<'a>>,
    place: Option<FileRange<'a>>,
    stack: Vec<Frame<'a>>,
    history: Vec<Step<'a>>,
    model: &'a str,
    fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crash: Option<crash::Crash<'a>>,
}

#[derive(Serialize)]
struct LeftOut<'a> {
    reason: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct Location<'a> {
    file: &'a str,
    line: u32,
    column: u32,
    function: &'a str,
}

#[derive(Serialize)]
struct FileRange<'a> {
    file: &'a str,
    offset: u64,
    length: u64,
}

#[derive(Serialize)]
struct Frame<'a> {
    function: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    column: Option<u32>,
    helper: bool,
}

#[derive(Serialize)]
struct Step<'a> {
    order: u64,
    thread: Option<u32>,
    what: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    column: Option<u32>,
    function: Option<&'a str>,
}

#[derive(Serialize)]
struct Counts<'a> {
    findings: u64,
    occurrences: u64,
    by_rule: BTreeMap<&'a str, u64>,
}

impl<'a> From<&'a Report> for Document<'a> {
    fn from(report: &'a Report) -> Self {
        let mut by_rule = BTreeMap::new();
        for finding in &report.findings {
            *by_rule.entry(finding.rule.as_str()).or_default() += 1;
        }
        Document {
            crashpoint_findings: VERSION,
            tool: Tool {
                name: "crashpoint",
                version: env!("CARGO_PKG_VERSION"),
            },
            recording: Recording {
                folder: report.recording.display().to_string(),
                command: &report.command,
            },
            figures: report.figures,
            rules: report.rules.iter().map(Rule::from).collect(),
            findings: report.findings.iter().map(Finding::from).collect(),
            problems: &report.problems,
            verdict: report.verdict().name(),
            left_out: report
                .left_out
                .iter()
                .map(|one| LeftOut {
                    reason: one.reason.name(),
                    text: &one.text,
                })
                .collect(),
            counts: Counts {
                findings: report.findings.len() as u64,
                occurrences: report.findings.iter().map(|finding| finding.count).sum(),
                by_rule,
            },
            test: report.test.as_ref(),
        }
    }
}

impl<'a> From<&'a finding::Rule> for Rule<'a> {
    fn from(rule: &'a finding::Rule) -> Self {
        Rule {
            id: &rule.id,
            severity: rule.severity.name(),
            summary: &rule.summary,
        }
    }
}

impl<'a> From<&'a finding::Finding> for Finding<'a> {
    fn from(finding: &'a finding::Finding) -> Self {
        Finding {
            rule: &finding.rule,
            severity: finding.severity.name(),
            message: &finding.message,
            help: &finding.help,
            count: finding.count,
            total: finding.total,
            first_order: finding.first_order,
            location: finding.location.as_ref().map(Location::from),
            place: finding.place.as_ref().map(|place| FileRange {
                file: &place.file,
                offset: place.offset,
                length: place.length,
            }),
            stack: finding.stack.iter().map(Frame::from).collect(),
            history: finding.history.iter().map(Step::from).collect(),
            model: &finding.model,
            fingerprint: finding.fingerprint(),
            crash: finding.crash.as_ref().map(crash::Crash::from),
        }
    }
}

impl<'a> From<&'a finding::Location> for Location<'a> {
    fn from(location: &'a finding::Location) -> Self {
        Location {
            file: &location.file,
            line: location.line,
            column: location.column,
            function: &location.function,
        }
    }
}

impl<'a> From<&'a finding::Frame> for Frame<'a> {
    fn from(frame: &'a finding::Frame) -> Self {
        let location = frame.location.as_ref();
        Frame {
            function: &frame.function,
            file: location.map(|location| location.file.as_str()),
            line: location.map(|location| location.line),
            column: location.map(|location| location.column),
            helper: frame.helper,
        }
    }
}

impl<'a> From<&'a finding::Step> for Step<'a> {
    fn from(step: &'a finding::Step) -> Self {
        let location = step.location.as_ref();
        Step {
            order: step.order,
            thread: step.thread,
            what: &step.what,
            file: location.map(|location| location.file.as_str()),
            line: location.map(|location| location.line),
            column: location.map(|location| location.column),
            function: location.map(|location| location.function.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;
    use serde_json::Value;

    fn validator() -> jsonschema::Validator {
        let schema = include_str!("../../../docs/findings.schema.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    }

    fn problems(document: &Value) -> Vec<String> {
        validator()
            .iter_errors(document)
            .map(|error| error.to_string())
            .collect()
    }

    fn rendered(report: &Report) -> Value {
        serde_json::from_str(&render(report)).unwrap()
    }

    #[test]
    fn reports_fit_the_schema() {
        assert_eq!(problems(&rendered(&examples::report())), [""; 0]);
        assert_eq!(problems(&rendered(&Report::default())), [""; 0]);

        let mut bare = examples::report();
        for finding in &mut bare.findings {
            finding.location = None;
            finding.place = None;
            finding.stack[0].location = None;
            finding.history[0].location = None;
            finding.history[0].thread = None;
        }
        assert_eq!(problems(&rendered(&bare)), [""; 0]);
    }

    #[test]
    fn the_schema_refuses_what_is_not_documented() {
        let mut document = rendered(&examples::report());
        document["findings"][0]["surprise"] = Value::Null;
        assert_eq!(problems(&document).len(), 1);

        let mut document = rendered(&examples::report());
        document["crashpoint_findings"] = 2.into();
        assert_eq!(problems(&document).len(), 1);
    }

    #[test]
    fn counts_sum_up_the_findings() {
        let document = rendered(&examples::report());
        assert_eq!(document["counts"]["findings"], 2);
        assert_eq!(document["counts"]["occurrences"], 3);
        assert_eq!(document["counts"]["by_rule"]["extra-flush"], 1);
        assert_eq!(document["findings"][0]["location"]["line"], 8);
    }
}
