//! `crashpoint infer`: the conditions that a recording hints at.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use crashpoint_abi::Level;
use crashpoint_campaign::strategies;
use crashpoint_infer::{Hint, Inferred, Rule, infer};
use crashpoint_trace::program::Program;
use crashpoint_trace::{OpenError, Recording, SiteId};

use crate::config;
use crate::exit::{Ending, Exit};
use crate::options::values::RecordLevel;
use crate::output::Output;
use crate::record::{self, RecordCommandError};
use crate::{arguments, lint};

#[derive(Debug, thiserror::Error)]
pub enum InferError {
    #[error(transparent)]
    Record(#[from] RecordCommandError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(
        "{}: recorded without what conditions are inferred from; record again with --level flow \
         --loads, or give `infer` the command",
        .0.display()
    )]
    Level(PathBuf),
    #[error("the program left no recording; see what `crashpoint record` says about it")]
    Nothing,
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// The command.
pub fn run(arguments: &arguments::Infer, output: &mut Output) -> Result<Ending, InferError> {
    let (recording, out) = match arguments.first.command.split_first() {
        None => {
            let given = arguments.recording.clone();
            let out = given.unwrap_or_else(|| PathBuf::from("crashpoint.out"));
            (Recording::open(&out)?, out)
        }
        Some((program, _)) => {
            let mut options = arguments.first.options.clone();
            options.level = Some(options.level.unwrap_or(RecordLevel(Level::Flow)));
            options.loads = true;
            let beside = record::folders_beside(program);
            let colours = output.colours_on_stderr();
            let settings = config::load(&arguments.first.configuration, &beside, &options, colours)
                .map_err(RecordCommandError::from)?;
            let recorded = crashpoint_campaign::record::record(
                &settings,
                &arguments.first.out,
                &arguments.first.command,
            )
            .map_err(RecordCommandError::from)?;
            record::tell(&settings, &recorded, output);
            let out = recorded.out.clone();
            (recorded.recording.ok_or(InferError::Nothing)?, out)
        }
    };
    let threads = (0..recording.threads().len() as u32).map(crashpoint_trace::ThreadIndex);
    if !threads
        .into_iter()
        .any(|thread| recording.flow(thread).is_some())
    {
        return Err(InferError::Level(out));
    }
    let (program, missing) = Program::load_available(&recording);
    for error in missing {
        output.warn(&format!("what this part does is not followed: {error}"));
    }
    let began = Instant::now();
    let inferred = infer(&recording, &program);
    let seconds = began.elapsed().as_secs_f64();
    output.print(&text(&inferred, &program, arguments.limit))?;
    output.note(&summary(&inferred, seconds));
    Ok(Exit::Clean.into())
}

/// One line for each hint, those with most conditions first.
fn text(inferred: &Inferred, program: &Program, limit: Option<usize>) -> String {
    let mut hints: Vec<&Hint> = inferred.conditions.hints().iter().collect();
    hints.sort_by_key(|hint| (hint.rule, std::cmp::Reverse((hint.conditions, hint.seen))));
    let mut text = String::new();
    let base = lint::current_folder();
    let place = |site: SiteId| {
        let Some(resolved) = program.resolve(site) else {
            return "code without a model".to_owned();
        };
        let place = resolved.place;
        let file = std::path::Path::new(place.file);
        let file = base
            .as_deref()
            .and_then(|base| file.strip_prefix(base).ok());
        let file = file.map_or(place.file.into(), |file| file.to_string_lossy());
        format!(
            "{file}:{}:{} ({})",
            place.line, place.column, place.function
        )
    };
    for hint in hints.into_iter().take(limit.unwrap_or(usize::MAX)) {
        let (first, later) = (place(hint.first), place(hint.later));
        let name = hint.rule.name();
        let counts = format!("{} conditions, seen {} times", hint.conditions, hint.seen);
        text += &match hint.rule {
            Rule::Po1 | Rule::Po2 => format!(
                "{name}  what is read at {first} persists before what is written at {later}: \
                 {counts}\n"
            ),
            Rule::Po3 => format!(
                "{name}  what is read at {first} persists before its guard, read at {later}: \
                 {counts}\n"
            ),
            Rule::Po4 => format!(
                "{name}  what is read at {first} persists before the way to it, read at {later}: \
                 {counts}\n"
            ),
            Rule::Pa1 => format!(
                "{name}  guards read at {first} persist together with other guards: {} words, \
                 seen {} times\n",
                hint.conditions, hint.seen
            ),
            Rule::Given => format!("{name}  {first} persists before {later}\n"),
        };
    }
    text
}

fn summary(inferred: &Inferred, seconds: f64) -> String {
    let followed = &inferred.followed;
    let missed = strategies::unfollowed(&followed.unfollowed);
    let missed: Vec<String> = missed
        .iter()
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    let missed = if missed.is_empty() {
        "everything was followed".to_owned()
    } else {
        format!("not followed: {}", missed.join(", "))
    };
    format!(
        "{} conditions and {} guardian words from {} hints; {} instructions, {} reads and {} \
         writes of persistent memory in {seconds:.2} s\n{missed}; {} values depend on more than is \
         kept",
        inferred.conditions.ordered(),
        inferred.conditions.guardian_words(),
        inferred.conditions.hints().len(),
        followed.instructions,
        inferred.reads,
        inferred.writes,
        inferred.cut,
    )
}
