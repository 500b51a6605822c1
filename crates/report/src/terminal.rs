//! Findings for people: source excerpts with the effect and its causes, the call stack, what to do.
//!
//! The marks of an excerpt are numbered in the order in which things happened; the finding itself
//! is the last one. What lies in another file than the finding gets an excerpt of its own.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::finding::{Confirmed, Crash, Finding, Frame, Location, Report, Step};
use crate::source::{Sources, line_starts, span};
use crate::verdict::Verdict;
use crashpoint_rules::Severity;

/// Steps of a history that are shown; the ones before them are counted.
const MAX_STEPS: usize = 8;

/// Frames of a deep call stack that are shown at its inner and at its outer end.
const INNER_FRAMES: usize = 16;
const OUTER_FRAMES: usize = 4;

/// How to render.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// Whether the text has ANSI colours.
    pub colours: bool,
    /// Names of files in this folder are shown relative to it.
    pub base: Option<String>,
}

/// Renders all findings, problems and a closing line.
pub fn render(report: &Report, style: &Style, sources: &mut Sources) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        out.push_str(&render_finding(finding, style, sources));
        out.push_str("\n\n");
    }
    for problem in &report.problems {
        let group = Group::with_title(Level::WARNING.primary_title(problem.as_str()));
        out.push_str(&renderer(style).render(&[group]));
        out.push('\n');
    }
    out.push_str(&closing(report));
    out.push('\n');
    if let Some(finding) = report.findings.first() {
        let model = &finding.model;
        let own = report.test.as_ref().map(|test| &test.model_shown_by[..]);
        let command = own
            .filter(|command| !command.is_empty())
            .unwrap_or("crashpoint lint --explain model");
        let _ = writeln!(
            out,
            "judged under {model}; `{command}` says what that means"
        );
    }
    out
}

/// Renders one finding, without a newline at the end.
pub fn render_finding(finding: &Finding, style: &Style, sources: &mut Sources) -> String {
    let marks = marks(finding);
    for mark in &marks {
        sources.load(&mark.location.file);
    }
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let title = level
        .primary_title(finding.message.as_str())
        .id(finding.rule.as_str());
    let mut group = Group::with_title(title);
    for file in files(&marks) {
        let in_file: Vec<&Mark> = marks
            .iter()
            .filter(|mark| mark.location.file == file)
            .collect();
        group = match excerpt(&in_file, sources) {
            Some(snippet) => group.element(snippet.path(style.path(file))),
            None => group.elements(in_file.iter().flat_map(|mark| without_text(mark, style))),
        };
    }
    for note in notes(finding, style) {
        group = group.element(Level::NOTE.message(note));
    }
    if !finding.help.is_empty() {
        group = group.element(Level::HELP.message(finding.help.as_str()));
    }
    renderer(style).render(&[group])
}

fn renderer(style: &Style) -> Renderer {
    if style.colours {
        Renderer::styled()
    } else {
        Renderer::plain()
    }
}

impl Style {
    pub fn path<'a>(&self, file: &'a str) -> &'a str {
        let base = self.base.as_deref().filter(|base| !base.is_empty());
        base.and_then(|base| file.strip_prefix(base)?.strip_prefix('/'))
            .unwrap_or(file)
    }
}

/// Something to point at in an excerpt.
struct Mark {
    primary: bool,
    location: Location,
    label: String,
}

/// The finding's own place first, then the steps that have one, each place once.
fn marks(finding: &Finding) -> Vec<Mark> {
    let steps = shown_steps(finding);
    let hidden = finding.history.len() - steps.len();
    let own_step = finding
        .own_step()
        .and_then(|index| index.checked_sub(hidden));
    let numbered = steps.len() > usize::from(own_step.is_some());
    let several_threads = steps.iter().any(|step| step.thread != steps[0].thread);
    let label = |number: usize, text: &str| {
        let thread = steps.get(number - 1).and_then(|step| step.thread);
        match (numbered, thread) {
            (true, Some(thread)) if several_threads => {
                format!("({number}) thread {thread}: {text}")
            }
            (true, _) => format!("({number}) {text}"),
            (false, _) => text.to_owned(),
        }
    };
    let mut marks: Vec<Mark> = Vec::new();
    if let Some(location) = &finding.location {
        marks.push(Mark {
            primary: true,
            location: location.clone(),
            label: String::new(),
        });
    }
    for (index, step) in steps.iter().enumerate() {
        match (&step.location, &finding.location) {
            (_, Some(own)) if own_step == Some(index) => {
                let text = own_text(&step.what, finding);
                add_mark(&mut marks, own, &label(index + 1, &text));
            }
            (Some(location), _) => add_mark(&mut marks, location, &label(index + 1, &step.what)),
            (None, _) => {}
        }
    }
    if let (Some(location), None) = (&finding.location, own_step) {
        add_mark(
            &mut marks,
            location,
            &label(steps.len() + 1, &place_text(finding)),
        );
    }
    marks
}

/// What happens at a place that is marked already joins its label.
fn add_mark(marks: &mut Vec<Mark>, location: &Location, text: &str) {
    let same = |mark: &&mut Mark| {
        mark.location.file == location.file
            && mark.location.line == location.line
            && mark.location.column == location.column
    };
    match marks.iter_mut().find(same) {
        Some(mark) if mark.label.is_empty() => mark.label = text.to_owned(),
        Some(mark) => {
            mark.label.push_str(", ");
            mark.label.push_str(text);
        }
        None => marks.push(Mark {
            primary: false,
            location: location.clone(),
            label: text.to_owned(),
        }),
    }
}

fn own_text(what: &str, finding: &Finding) -> String {
    match &finding.place {
        Some(_) => format!("{what}: {}", place_text(finding)),
        None => what.to_owned(),
    }
}

fn shown_steps(finding: &Finding) -> &[Step] {
    let hidden = finding.history.len().saturating_sub(MAX_STEPS);
    &finding.history[hidden..]
}

fn place_text(finding: &Finding) -> String {
    match &finding.place {
        Some(place) if place.length == 1 => format!("1 byte at {place}"),
        Some(place) if place.length > 1 => format!("{} bytes at {place}", place.length),
        Some(place) => format!("at {place}"),
        None => "here".to_owned(),
    }
}

/// Files in order of first mention.
fn files(marks: &[Mark]) -> Vec<&str> {
    let mut files: Vec<&str> = Vec::new();
    for mark in marks {
        if !files.contains(&mark.location.file.as_str()) {
            files.push(&mark.location.file);
        }
    }
    files
}

/// The marked lines of one file; `None` if the text is missing or not the one that was compiled.
fn excerpt<'a>(
    marks: &[&'a Mark],
    sources: &'a Sources,
) -> Option<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    let text = sources.text(&marks.first()?.location.file)?;
    let starts = line_starts(text);
    let bounds = |line: u32| {
        let index = (line as usize).checked_sub(1)?;
        Some((*starts.get(index)?, *starts.get(index + 1)?))
    };
    let lines = marks.iter().map(|mark| mark.location.line);
    let (first, last) = (lines.clone().min()?, lines.max()?);
    let (window_start, window_end) = (bounds(first)?.0, bounds(last)?.1);
    let mut snippet = Snippet::source(text[window_start..window_end].trim_end())
        .line_start(first as usize)
        .fold(true);
    for mark in marks {
        let (start, end) = bounds(mark.location.line)?;
        let within = span(&text[start..end], mark.location.column)?;
        let offset = start - window_start;
        let kind = if mark.primary {
            AnnotationKind::Primary
        } else {
            AnnotationKind::Context
        };
        let annotation = kind.span(offset + within.start..offset + within.end);
        snippet = snippet.annotation(annotation.label(mark.label.as_str()));
    }
    Some(snippet)
}

/// A mark whose source cannot be shown.
fn without_text<'a>(mark: &'a Mark, style: &Style) -> Vec<annotate_snippets::Element<'a>> {
    let Location {
        file, line, column, ..
    } = &mark.location;
    let origin = Origin::path(style.path(file)).line(*line as usize);
    let origin = match column {
        0 => origin,
        column => origin.char_column(*column as usize),
    };
    vec![
        origin.into(),
        Level::NOTE.message(mark.label.as_str()).into(),
    ]
}

fn notes(finding: &Finding, style: &Style) -> Vec<String> {
    let mut notes = Vec::new();
    let steps = shown_steps(finding);
    let earlier = finding.history.len() - steps.len();
    if earlier > 0 {
        notes.push(format!(
            "{} before (1) are not shown",
            count(earlier as u64, "event")
        ));
    }
    for (index, step) in steps.iter().enumerate() {
        if step.location.is_none() {
            // A call is told by itself.
            let place = if step.what.starts_with('`') {
                ""
            } else {
                ", at an unknown place"
            };
            notes.push(format!("({}) {}{place}", index + 1, step.what));
        }
    }
    if let Some(stack) = stack_note(finding, style) {
        notes.push(stack);
    }
    if let Some(crash) = &finding.crash {
        notes.extend(crash_notes(crash));
        return notes;
    }
    if finding.count > 1 || finding.total > finding.count {
        let mut text = format!("happened {}", count(finding.count, "time"));
        if finding.total > finding.count {
            let _ = write!(text, " of {}", group_digits(finding.total));
        }
        let _ = write!(
            text,
            ", first as event {}",
            group_digits(finding.first_order)
        );
        notes.push(text);
    }
    notes
}

/// When power failed, what came of it, how often, and how to see it.
fn crash_notes(crash: &Crash) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((number, line)) = &crash.operation {
        let when = if crash.acknowledged {
            "after operation"
        } else {
            "in operation"
        };
        notes.push(format!("power fails {when} {number}: {line}"));
    }
    let mut text = String::new();
    for (index, expected) in crash.expected.iter().enumerate() {
        let word = if index == 0 { "expected" } else { "or" };
        let _ = writeln!(text, "{word:>8}: {expected}");
    }
    let _ = write!(text, "{:>8}: {}", "found", crash.found);
    notes.push(format!(
        "after recovery ({}):\n{text}",
        crash.category.name()
    ));
    if !crash.because.is_empty() {
        notes.push(crash.because.clone());
    }
    if !crash.possible_on.is_empty() {
        let mut text = format!("possible on: {}", crash.possible_on.join(", "));
        if !crash.impossible_on.is_empty() {
            let _ = write!(text, "; not on: {}", crash.impossible_on.join(", "));
        }
        notes.push(text);
    }
    if let Some(confirmed) = &crash.confirmed {
        notes.push(confirmed_note(confirmed));
    }
    notes.push(match crash.replay.is_empty() {
        // Nothing was lost: it takes no crash to see it.
        true => format!(
            "shown by {}: the program stopped after that operation and started again",
            count(crash.states, "restart")
        ),
        false => format!(
            "shown by {}; to see it: {}",
            count(crash.states, "crash state"),
            crash.replay
        ),
    });
    notes
}

/// What a real file system did.
fn confirmed_note(confirmed: &Confirmed) -> String {
    let images = count(confirmed.images, "crash image");
    let on = format!("on {}, Linux {}", confirmed.file_system, confirmed.kernel);
    match confirmed.seen {
        0 => format!("not seen {on}, in {images} (which does not say that it cannot happen)"),
        seen => format!("seen {on}, in {seen} of {images}: {}", confirmed.how),
    }
}

/// The call stack, unless there is nothing in it that the excerpt does not show.
fn stack_note(finding: &Finding, style: &Style) -> Option<String> {
    if finding.stack.is_empty() || (finding.stack.len() == 1 && finding.location.is_some()) {
        return None;
    }
    let mut note = String::from("call stack, innermost first:");
    let frames: Vec<&[Frame]> = finding.stack.chunk_by(|a, b| a == b).collect();
    let hidden = INNER_FRAMES..frames.len().saturating_sub(OUTER_FRAMES);
    for (index, same) in frames.iter().enumerate() {
        if hidden.len() > 1 && hidden.contains(&index) {
            if index == hidden.start {
                let _ = write!(note, "\n  … {}", count(hidden.len() as u64, "more frame"));
            }
            continue;
        }
        let frame = &same[0];
        let _ = write!(note, "\n  {}", frame.function);
        if let Some(at) = &frame.location {
            let _ = write!(note, " at {}:{}", style.path(&at.file), at.line);
        }
        if same.len() > 1 {
            let _ = write!(note, ", {} deep", same.len());
        }
    }
    Some(note)
}

fn closing(report: &Report) -> String {
    let events = count(report.figures.events, "event");
    let of = |severity| {
        report
            .findings
            .iter()
            .filter(|f| f.severity == severity)
            .count() as u64
    };
    let kinds = [Severity::Error, Severity::Warning, Severity::Note]
        .map(|severity| (of(severity), severity.name()))
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| count(number, name));
    if let Some(test) = &report.test {
        let found = match report.findings.len() as u64 {
            0 => "nothing found".to_owned(),
            findings => count(findings, "finding"),
        };
        let resumed = match test.resumed_states {
            0 => String::new(),
            known => format!(" and {} of the resumed run", group_digits(known)),
        };
        let closing = format!(
            "{found} in {}{resumed} at {} ({}, {})",
            count(test.tried_states, "crash state"),
            count(test.crash_points, "crash point"),
            test.model,
            test.strategy,
        );
        return with_left_out(report, closing);
    }
    let found = match report.findings.len() as u64 {
        0 => format!(
            "nothing found in {events} by {}",
            count(report.rules.len() as u64, "rule")
        ),
        findings => format!(
            "{} in {events}: {}",
            count(findings, "finding"),
            kinds.collect::<Vec<_>>().join(", "),
        ),
    };
    with_left_out(report, found)
}

/// What was found, and what was not looked at.
fn with_left_out(report: &Report, found: String) -> String {
    let closing = if report.left_out.is_empty() {
        found
    } else {
        format!("{found}; not looked at: {}", report.left_out_text())
    };
    match report.verdict() {
        Verdict::Incomplete => format!("incomplete: {closing}"),
        Verdict::Clean | Verdict::Findings => closing,
    }
}

/// `1 event`, `1,234 events`, `2 flushes`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = match noun {
        _ if number == 1 => "",
        _ if noun.ends_with(['s', 'h']) => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", group_digits(number))
}

fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
