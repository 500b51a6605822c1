//! A recording through the rules.

use std::time::{Duration, Instant};

use crashpoint_report::resolve::Resolver;
use crashpoint_report::{Figures, LeftOut, LeftOutReason, Report, Rule};
use crashpoint_rules::{self as rules, Linter, RULES, Script};
use crashpoint_trace::Recording;
use crashpoint_trace::program::Program;

use crashpoint_rules::RecordedProgram;

use crate::left_out;

/// What a recording is asked.
#[derive(Default)]
pub struct Checks {
    pub config: rules::Config,
    /// Rules of the user's own, with what is told about them.
    pub scripts: Vec<(Script, Rule)>,
}

/// What came of it.
pub struct Linted {
    pub report: Report,
    /// What scripts printed, with the names of their rules.
    pub printed: Vec<(String, String)>,
}

/// Events between two calls of `progress`.
const PROGRESS_EVENTS: u64 = 1 << 18;

/// All findings of a recording, for people. `progress` is told now and then how many events were seen.
pub fn lint(recording: &Recording, checks: Checks, progress: &dyn Fn(u64)) -> Linted {
    let began = Instant::now();
    let (program, missing) = Program::load_available(recording);
    let names = RecordedProgram {
        recording,
        program: &program,
    };
    let mut asked = enabled(&checks.config);
    let mut linter = Linter::new(checks.config, &names);
    for (script, rule) in checks.scripts {
        linter.add_script(script);
        asked.push(rule);
    }
    let mut events = recording.events();
    let mut seen = 0u64;
    for event in events.by_ref() {
        linter.feed(&event);
        seen += 1;
        if seen.is_multiple_of(PROGRESS_EVENTS) {
            progress(seen);
        }
    }
    let found = linter.conclude();
    let findings = Resolver::new(recording, &program).findings(&found.findings);
    let damage = recording.problems().iter().chain(events.problems());
    let gaps = damage.clone().filter(|problem| problem.kind.is_gap());
    let mut left_out = left_out::of_recording(gaps.map(ToString::to_string));
    let harmless = damage.filter(|problem| !problem.kind.is_gap());
    let mut problems: Vec<String> = harmless.map(ToString::to_string).collect();
    let missing = missing.iter();
    problems.extend(missing.map(|error| format!("places have no source line: {error}")));
    let failed = found.failures.iter();
    left_out.extend(failed.map(|error| {
        let text = format!("a custom rule was stopped: {error}");
        LeftOut::new(LeftOutReason::NotJudged, text)
    }));
    Linted {
        report: Report {
            recording: recording.path().to_owned(),
            command: command(recording),
            figures: figures(recording, began.elapsed()),
            rules: asked,
            findings,
            problems,
            left_out,
            test: None,
        },
        printed: found.printed,
    }
}

/// The command line of the first recorded process.
pub fn command(recording: &Recording) -> Vec<String> {
    let first = recording.processes().first();
    first
        .map(|process| process.arguments.clone())
        .unwrap_or_default()
}

pub fn figures(recording: &Recording, took: Duration) -> Figures {
    let statistics = recording.statistics();
    Figures {
        events: statistics.events(),
        stores: statistics.stores + statistics.fills,
        flushes: statistics.flushes,
        fences: statistics.fences,
        processes: recording.processes().len() as u64,
        threads: recording.threads().len() as u64,
        seconds: took.as_secs_f64(),
    }
}

fn enabled(config: &rules::Config) -> Vec<Rule> {
    let mut chosen = Vec::new();
    for rule in RULES {
        if let Ok((true, severity)) = config.rules.of(rule.id) {
            chosen.push(Rule {
                id: rule.id.to_owned(),
                severity: severity.unwrap_or(rule.severity),
                summary: rule.title.to_owned(),
                manual: rule.manual.to_owned(),
            });
        }
    }
    chosen
}
