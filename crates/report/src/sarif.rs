//! SARIF 2.1.0, for code-scanning services and editors.
//!
//! Each finding is a result with its call stack (`stacks`) and the history of its cache line, both
//! as `relatedLocations`, which most viewers show, and as a `codeFlow` with one thread flow per
//! thread. Problems of the recording and what was left out are notifications of the invocation, which
//! was not successful if nothing was found and something was left out. Columns are those of
//! clang, which count bytes; SARIF has no word for that, and in ASCII text there is no difference.

use serde::Serialize;
use serde_json::{Value, json};

use crate::finding::{Finding, Frame, Location, Report, Step};
use crate::verdict::Verdict;
use crashpoint_rules::Severity;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Name of the folder that relative addresses start from.
const BASE: &str = "SRCROOT";

/// The report as SARIF text, with a newline at the end. Files within `base`, an absolute folder,
/// are named relative to it, as services that know the repository want it.
pub fn render(report: &Report, base: Option<&str>) -> String {
    let log = Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: [run(report, base)],
    };
    let mut text = serde_json::to_string_pretty(&log).expect("every key is a string");
    text.push('\n');
    text
}

#[derive(Serialize)]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    tool: Value,
    invocations: [Value; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    original_uri_base_ids: Option<Value>,
    column_kind: &'static str,
    results: Vec<Result>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Result {
    rule_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_index: Option<usize>,
    level: &'static str,
    message: Message,
    locations: Vec<FileRange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<FileRange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stacks: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    code_flows: Vec<Value>,
    partial_fingerprints: Value,
    occurrence_count: u64,
    properties: Value,
}

#[derive(Serialize)]
struct Message {
    text: String,
}

/// SARIF's `location`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileRange {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_location: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logical_locations: Vec<Value>,
}

fn message(text: impl Into<String>) -> Message {
    Message { text: text.into() }
}

fn run(report: &Report, base: Option<&str>) -> Run {
    let rules: Vec<Value> = report
        .rules
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "shortDescription": message(&rule.summary),
                "help": {"text": rule.manual, "markdown": rule.manual},
                "defaultConfiguration": {"level": level(rule.severity)},
            })
        })
        .collect();
    let notifications: Vec<Value> = report
        .problems
        .iter()
        .map(|problem| json!({"level": "warning", "message": message(problem)}))
        .chain(report.left_out.iter().map(|left_out| {
            json!({
                "level": "error",
                "descriptor": {"id": left_out.reason.name()},
                "message": message(format!("not looked at: {left_out}")),
            })
        }))
        .collect();
    Run {
        tool: json!({"driver": {
            "name": "Crashpoint",
            "version": env!("CARGO_PKG_VERSION"),
            "informationUri": env!("CARGO_PKG_REPOSITORY"),
            "rules": rules,
        }}),
        invocations: [json!({
            "executionSuccessful": report.verdict() != Verdict::Incomplete,
            "toolExecutionNotifications": notifications,
            "properties": {"recordedCommand": report.command},
        })],
        original_uri_base_ids: base
            .map(|base| json!({BASE: {"uri": format!("file://{}/", encode(base))}})),
        column_kind: "unicodeCodePoints",
        results: report
            .findings
            .iter()
            .map(|finding| result(report, finding, base))
            .collect(),
    }
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn result(report: &Report, finding: &Finding, base: Option<&str>) -> Result {
    let text = match finding.help.as_str() {
        "" => finding.message.clone(),
        help => format!("{}. To fix: {help}.", finding.message),
    };
    let place = finding
        .place
        .as_ref()
        .map(|place| json!({"file": place.file, "offset": place.offset, "length": place.length}));
    Result {
        rule_id: finding.rule.clone(),
        rule_index: report.rules.iter().position(|rule| rule.id == finding.rule),
        level: level(finding.severity),
        message: message(text),
        locations: finding
            .location
            .iter()
            .map(|location| at(location, base))
            .collect(),
        related_locations: related(finding, base),
        stacks: stack(finding, base).into_iter().collect(),
        code_flows: code_flow(finding, base).into_iter().collect(),
        partial_fingerprints: json!({"crashpoint/v1": finding.fingerprint()}),
        occurrence_count: finding.count.max(1),
        properties: json!({
            "total": finding.total,
            "firstOrder": finding.first_order,
            "persistencyModel": finding.model,
            "persistentMemory": place,
        }),
    }
}

fn at(location: &Location, base: Option<&str>) -> FileRange {
    FileRange {
        id: None,
        message: None,
        physical_location: Some(physical(location, base)),
        logical_locations: logical(&location.function),
    }
}

fn physical(location: &Location, base: Option<&str>) -> Value {
    let inside = base.and_then(|base| location.file.strip_prefix(base)?.strip_prefix('/'));
    let artifact = match inside {
        Some(relative) => json!({"uri": encode(relative), "uriBaseId": BASE}),
        None if location.file.starts_with('/') => {
            json!({"uri": format!("file://{}", encode(&location.file))})
        }
        None => json!({"uri": encode(&location.file)}),
    };
    match (location.line, location.column) {
        (0, _) => json!({"artifactLocation": artifact}),
        (line, 0) => json!({"artifactLocation": artifact, "region": {"startLine": line}}),
        (line, column) => json!({
            "artifactLocation": artifact,
            "region": {"startLine": line, "startColumn": column},
        }),
    }
}

fn logical(function: &str) -> Vec<Value> {
    match function {
        "" => Vec::new(),
        name => vec![json!({"name": name, "kind": "function"})],
    }
}

fn related(finding: &Finding, base: Option<&str>) -> Vec<FileRange> {
    let with_place = finding
        .history
        .iter()
        .filter_map(|step| Some((step, step.location.as_ref()?)));
    with_place
        .enumerate()
        .map(|(index, (step, location))| FileRange {
            id: Some(index + 1),
            message: Some(message(&step.what)),
            ..at(location, base)
        })
        .collect()
}

/// A text at a place of a function; both may be unknown.
fn said_at(
    text: &str,
    location: Option<&Location>,
    function: &str,
    base: Option<&str>,
) -> FileRange {
    FileRange {
        id: None,
        message: Some(message(text)),
        physical_location: location.map(|location| physical(location, base)),
        logical_locations: logical(function),
    }
}

fn stack(finding: &Finding, base: Option<&str>) -> Option<Value> {
    if finding.stack.is_empty() {
        return None;
    }
    let frame = |frame: &Frame| {
        let place = said_at(
            &frame.function,
            frame.location.as_ref(),
            &frame.function,
            base,
        );
        json!({"location": place})
    };
    let frames: Vec<Value> = finding.stack.iter().map(frame).collect();
    Some(json!({"message": message("call stack, innermost first"), "frames": frames}))
}

/// The history and the finding at its end, by thread.
fn code_flow(finding: &Finding, base: Option<&str>) -> Option<Value> {
    let last = finding.history.last()?;
    let own = Step {
        what: finding.message.clone(),
        location: finding.location.clone(),
        order: finding.first_order,
        thread: last.thread,
    };
    let own = Some(&own).filter(|_| finding.own_step().is_none());
    let steps: Vec<&Step> = finding.history.iter().chain(own).collect();
    let mut threads: Vec<Option<u32>> = steps.iter().map(|step| step.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let flow = |thread: &Option<u32>| {
        let locations: Vec<Value> = steps
            .iter()
            .filter(|step| step.thread == *thread)
            .map(|step| thread_step(step, base))
            .collect();
        match thread {
            Some(number) => json!({"id": format!("thread {number}"), "locations": locations}),
            None => json!({"locations": locations}),
        }
    };
    let flows: Vec<Value> = threads.iter().map(flow).collect();
    Some(json!({"message": message("history of the cache line"), "threadFlows": flows}))
}

fn thread_step(step: &Step, base: Option<&str>) -> Value {
    let place = said_at(&step.what, step.location.as_ref(), "", base);
    match i64::try_from(step.order) {
        Ok(order) => json!({"location": place, "executionOrder": order}),
        Err(_) => json!({"location": place}),
    }
}

/// A path as part of a URI.
fn encode(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'+' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
#[path = "sarif_tests.rs"]
mod tests;
