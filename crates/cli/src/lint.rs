//! `crashpoint lint`: a recording through the rules, and the findings to whoever wants them.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use crashpoint_campaign::Settings;
use crashpoint_campaign::lint::{self, Checks, Linted};
use crashpoint_campaign::record::RecordError;
use crashpoint_campaign::recording_dir::{FINDINGS_JSON, FINDINGS_JUNIT, FINDINGS_SARIF};
use crashpoint_campaign::settings::nearest;
use crashpoint_report::source::Sources;
use crashpoint_report::terminal::{self, Style};
use crashpoint_report::{Report, Verdict, json, junit, sarif};
use crashpoint_rules::RULES;
use crashpoint_trace::{OpenError, Recording};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::{self, Format};
use crate::config::{self, ConfigError};
use crate::exit::{Ending, Exit};
use crate::explain::{self, ExplainError};
use crate::output::Output;
use crate::record;
use crashpoint_report::scripts::{self, LoadError};
use crashpoint_rules::ScriptSource;

#[derive(Debug, thiserror::Error)]
pub enum LintError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Script(#[from] LoadError),
    #[error("{} holds no events, so that there is nothing to judge{problems}", path.display())]
    Nothing { path: PathBuf, problems: String },
    #[error("there is no rule `{name}`; {hint}")]
    UnknownRule { name: String, hint: String },
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// The command.
pub fn run(arguments: &arguments::Lint, output: &mut Output) -> Result<Ending, LintError> {
    if let Some(rule) = &arguments.explain {
        explain::explain(rule, output)?;
        return Ok(Exit::Clean.into());
    }
    let (recording, checks, fails) = match arguments.first.command.first() {
        Some(program) => {
            let (settings, checks) = load(arguments, &record::folders_beside(program), output)?;
            let recorded = crashpoint_campaign::record::record(
                &settings,
                &arguments.first.out,
                &arguments.first.command,
            )?;
            let complete = record::tell(&settings, &recorded, output);
            let fails = !recorded.ended.end.is_success();
            match recorded.recording {
                Some(recording) if complete => (recording, checks, fails),
                _ => return Ok(Exit::Usage.into()),
            }
        }
        None => {
            let folder = arguments.recording.as_deref();
            let recording = Recording::open(folder.unwrap_or(Path::new("crashpoint.out")))?;
            let (_, checks) = load(arguments, &folders_of(&recording), output)?;
            (recording, checks, false)
        }
    };
    something_recorded(&recording)?;
    let progress = progress(&recording);
    let linted = lint::lint(&recording, checks, &|seen| progress.set_position(seen));
    progress.finish_and_clear();
    let Linted { report, printed } = linted;
    write_files(&recording, &report)?;
    print(&report, arguments.format, current_folder(), output)?;
    for (rule, line) in printed {
        output.note(&format!("{rule}: {line}"));
    }
    let exit = match (report.findings.is_empty(), report.verdict()) {
        (false, _) => Exit::Findings,
        (true, _) if fails => Exit::Workload,
        (true, Verdict::Incomplete) => Exit::Incomplete,
        (true, Verdict::Clean | Verdict::Findings) => Exit::Clean,
    };
    Ok(exit.into())
}

/// Silence about an empty recording would look like a verdict.
fn something_recorded(recording: &Recording) -> Result<(), LintError> {
    if recording.statistics().events() > 0 {
        return Ok(());
    }
    let problems = recording.problems().iter();
    Err(LintError::Nothing {
        path: recording.path().to_owned(),
        problems: problems.map(|problem| format!("\n{problem}")).collect(),
    })
}

fn load(
    arguments: &arguments::Lint,
    beside: &[PathBuf],
    output: &Output,
) -> Result<(Settings, Checks), LintError> {
    let colours = output.colours_on_stderr();
    let settings = config::load(
        &arguments.first.configuration,
        beside,
        &arguments.first.options,
        colours,
    )?;
    let mut config = settings.rules.clone();
    let read = |paths: &[PathBuf]| -> Result<Vec<ScriptSource>, LoadError> {
        paths.iter().map(|path| scripts::read(path)).collect()
    };
    let mut scripts = read(&config.rules.custom)?;
    let named = read(&arguments.custom)?;
    let known: Vec<String> = scripts.iter().chain(&named).map(ScriptSource::id).collect();
    for name in arguments.rules.iter().chain(&arguments.allow) {
        let built_in = RULES.iter().any(|rule| rule.id == name);
        if !built_in && !known.contains(name) {
            return Err(unknown_rule(name, &known));
        }
    }
    let wanted = |id: &str| {
        (arguments.rules.is_empty() || arguments.rules.iter().any(|name| name == id))
            && !arguments.allow.iter().any(|name| name == id)
    };
    for rule in RULES {
        let chosen = config.rules.of(rule.id).is_ok_and(|(enabled, _)| enabled);
        let asked = arguments.rules.iter().any(|name| name == rule.id);
        let enabled = (chosen || asked) && wanted(rule.id);
        let _ = config.rules.set_enabled(rule.id, enabled);
    }
    scripts.retain(|script| wanted(&script.id()));
    scripts.extend(named);
    let compile = |script: &ScriptSource| {
        Ok((
            scripts::compile(script, colours)?,
            scripts::describe(script),
        ))
    };
    let scripts = scripts
        .iter()
        .map(compile)
        .collect::<Result<_, LoadError>>()?;
    Ok((settings, Checks { config, scripts }))
}

/// Beside the programs that were recorded.
fn folders_of(recording: &Recording) -> Vec<PathBuf> {
    let first = recording.processes().first();
    let folder = first.and_then(|process| process.executable.parent());
    folder.map(Path::to_owned).into_iter().collect()
}

fn unknown_rule(name: &str, scripts: &[String]) -> LintError {
    let ids = || {
        RULES
            .iter()
            .map(|rule| rule.id)
            .chain(scripts.iter().map(String::as_str))
    };
    let hint = match nearest(name, ids()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the rules are {}", ids().collect::<Vec<_>>().join(", ")),
    };
    LintError::UnknownRule {
        name: name.to_owned(),
        hint,
    }
}

/// A progress bar: on a terminal only, and only for long recordings.
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

pub fn current_folder() -> Option<String> {
    let folder = std::env::current_dir().ok()?;
    folder.to_str().map(str::to_owned)
}

fn write_files(recording: &Recording, report: &Report) -> Result<(), LintError> {
    let base = current_folder();
    for (name, text) in [
        (FINDINGS_JSON, json::render(report)),
        (FINDINGS_SARIF, sarif::render(report, base.as_deref())),
        (FINDINGS_JUNIT, junit::render(report, &[], base.as_deref())),
    ] {
        let path = recording.path().join(name);
        std::fs::write(&path, text).map_err(|source| LintError::Write { path, source })?;
    }
    Ok(())
}

/// Prints a report in the chosen form; files in `base` are named relative to it.
pub fn print(
    report: &Report,
    format: Format,
    base: Option<String>,
    output: &mut Output,
) -> io::Result<()> {
    let text = match format {
        Format::Terminal => {
            let style = Style {
                colours: output.colours(),
                base,
            };
            let text = terminal::render(report, &style, &mut Sources::from_disk());
            return output.print(&text);
        }
        Format::Json => json::render(report),
        Format::Sarif => sarif::render(report, base.as_deref()),
        Format::Junit => junit::render(report, &[], base.as_deref()),
    };
    output.print_document(&text)
}
