//! `crashpoint lint`: a recording through the rules, and the findings to whoever wants them.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crashpoint_report::resolve::Resolver;
use crashpoint_report::source::Sources;
use crashpoint_report::terminal::{self, Style};
use crashpoint_report::{Figures, Report, Rule, json, sarif};
use crashpoint_rules::{self as rules, Linter, RULES};
use crashpoint_trace::program::Program;
use crashpoint_trace::{OpenError, Recording};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::{self, Format};
use crate::config::{ConfigError, Settings};
use crate::exit::{Ending, Exit};
use crate::folder::{FINDINGS_JSON, FINDINGS_SARIF};
use crate::keys::nearest;
use crate::names::Known;
use crate::output::Output;
use crate::record::{self, RecordError};

#[derive(Debug, thiserror::Error)]
pub enum LintError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("there is no rule `{name}`; {hint}")]
    UnknownRule { name: String, hint: String },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// The command.
pub fn run(arguments: &arguments::Lint, output: &mut Output) -> Result<Ending, LintError> {
    if let Some(rule) = &arguments.explain {
        explain(rule, output)?;
        return Ok(Exit::Clean.into());
    }
    let (recording, settings, fails) = match arguments.command.first() {
        Some(program) => {
            let settings = load_settings(arguments, &record::folders_beside(program), output)?;
            let recorded = record::record(&settings, &arguments.out, &arguments.command)?;
            let complete = record::tell(&settings, &recorded, output);
            let fails = !recorded.ended.end.is_success();
            match recorded.recording {
                Some(recording) if complete => (recording, settings, fails),
                _ => return Ok(Exit::Usage.into()),
            }
        }
        None => {
            let folder = arguments.recording.as_deref();
            let recording = Recording::open(folder.unwrap_or(Path::new("crashpoint.out")))?;
            let settings = load_settings(arguments, &folders_of(&recording), output)?;
            (recording, settings, false)
        }
    };
    let report = lint(&recording, &settings.rules);
    write_files(&recording, &report)?;
    print(&report, arguments.format, output)?;
    Ok(match (report.findings.is_empty(), fails) {
        (false, _) => Exit::Findings.into(),
        (true, true) => Exit::Workload.into(),
        (true, false) => Exit::Clean.into(),
    })
}

fn load_settings(
    arguments: &arguments::Lint,
    beside: &[PathBuf],
    output: &Output,
) -> Result<Settings, LintError> {
    let colours = output.colours_on_stderr();
    let mut settings = Settings::load(
        &arguments.configuration,
        beside,
        &arguments.options,
        colours,
    )?;
    let rules = &mut settings.rules.rules;
    rules.custom.extend(arguments.custom.iter().cloned());
    if !arguments.rules.is_empty() {
        for rule in RULES {
            let _ = rules.set_enabled(rule.id, false);
        }
    }
    let named = arguments.rules.iter().map(|name| (name, true));
    for (name, enabled) in named.chain(arguments.allow.iter().map(|name| (name, false))) {
        rules
            .set_enabled(name, enabled)
            .map_err(|_| unknown_rule(name))?;
    }
    Ok(settings)
}

/// Beside the programs that were recorded.
fn folders_of(recording: &Recording) -> Vec<PathBuf> {
    let first = recording.processes().first();
    let folder = first.and_then(|process| process.executable.parent());
    folder.map(Path::to_owned).into_iter().collect()
}

fn unknown_rule(name: &str) -> LintError {
    let ids = || RULES.iter().map(|rule| rule.id);
    let hint = match nearest(name, ids()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the rules are {}", ids().collect::<Vec<_>>().join(", ")),
    };
    LintError::UnknownRule {
        name: name.to_owned(),
        hint,
    }
}

fn explain(name: &str, output: &mut Output) -> Result<(), LintError> {
    let chosen: Vec<_> = RULES
        .iter()
        .filter(|rule| name == "all" || rule.id == name)
        .collect();
    if chosen.is_empty() {
        return Err(unknown_rule(name));
    }
    for rule in chosen {
        let text = format!("# {}: {}\n\n{}\n", rule.id, rule.title, rule.manual.trim());
        output.print(&text)?;
    }
    Ok(())
}

/// All findings of a recording, for people.
pub fn lint(recording: &Recording, config: &rules::Config) -> Report {
    let began = Instant::now();
    let (program, missing) = Program::load_available(recording);
    let names = Known {
        recording,
        program: &program,
    };
    let mut linter = Linter::new(config.clone(), &names);
    let progress = progress(recording);
    let mut events = recording.events();
    let mut seen = 0u64;
    for event in events.by_ref() {
        linter.feed(&event);
        seen += 1;
        if seen.is_multiple_of(1 << 18) {
            progress.set_position(seen);
        }
    }
    let found = linter.finish();
    progress.finish_and_clear();
    let findings = Resolver::new(recording, &program).findings(&found);
    let mut problems: Vec<String> = recording
        .problems()
        .iter()
        .map(ToString::to_string)
        .collect();
    problems.extend(events.problems().iter().map(ToString::to_string));
    problems.extend(
        missing
            .iter()
            .map(|error| format!("places have no source line: {error}")),
    );
    Report {
        recording: recording.path().to_owned(),
        command: command(recording),
        figures: figures(recording, began.elapsed()),
        rules: enabled(config),
        findings,
        problems,
    }
}

/// On a terminal, and only where it takes long enough to wonder.
fn progress(recording: &Recording) -> ProgressBar {
    const NOTICEABLE: u64 = 5_000_000;
    let events = recording.statistics().events();
    if events < NOTICEABLE || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(events), ProgressDrawTarget::stderr_with_hz(5));
    let template = "{bar:30} {human_pos} of {human_len} events, {per_sec}, {eta} left";
    bar.with_style(ProgressStyle::with_template(template).expect("a valid template"))
}

fn command(recording: &Recording) -> Vec<String> {
    let first = recording.processes().first();
    first
        .map(|process| process.arguments.clone())
        .unwrap_or_default()
}

fn figures(recording: &Recording, took: Duration) -> Figures {
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
                severity: severity.unwrap_or(rule.severity).into(),
                summary: rule.title.to_owned(),
                manual: rule.manual.to_owned(),
            });
        }
    }
    chosen
}

fn current_folder() -> Option<String> {
    let folder = std::env::current_dir().ok()?;
    folder.to_str().map(str::to_owned)
}

fn write_files(recording: &Recording, report: &Report) -> Result<(), LintError> {
    let base = current_folder();
    for (name, text) in [
        (FINDINGS_JSON, json::render(report)),
        (FINDINGS_SARIF, sarif::render(report, base.as_deref())),
    ] {
        let path = recording.path().join(name);
        std::fs::write(&path, text).map_err(|source| LintError::Write { path, source })?;
    }
    Ok(())
}

/// Prints a report in the chosen form.
pub fn print(report: &Report, format: Format, output: &mut Output) -> io::Result<()> {
    let base = current_folder();
    let text = match format {
        Format::Terminal => {
            let style = Style {
                colours: output.colours(),
                base,
            };
            terminal::render(report, &style, &mut Sources::from_disk())
        }
        Format::Json => json::render(report),
        Format::Sarif => sarif::render(report, base.as_deref()),
    };
    output.print(&text)
}
