//! `crashpoint models verify`: the litmus tests on real file systems.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crashpoint_blockdev::{
    Choice, Comparison, FileSystem, Hole, LitmusOutcome, Verified, VerifyPlan, verify,
};
use crashpoint_persist::files::litmus::{self, Litmus};

use super::ModelsError;
use crate::arguments::Verify;
use crate::exit::{Ending, Exit};
use crate::output::Output;

/// Images for each test on each file system; time ends most tests earlier.
const MOST_IMAGES: usize = 600;
/// States printed of each kind for each test.
const MOST_STATES: usize = 12;

pub fn run(arguments: &Verify, output: &mut Output) -> Result<Ending, ModelsError> {
    let tests = chosen(&arguments.only)?;
    let file_systems: Vec<FileSystem> = arguments.fs.iter().map(|one| one.0).collect();
    let plan = VerifyPlan {
        file_systems: &file_systems,
        litmus: &tests,
        time: arguments.time.0,
        images: MOST_IMAGES,
        choice: Choice {
            seed: arguments.seed,
            sectors: arguments.sectors,
            ..Choice::default()
        },
    };
    let begin = Instant::now();
    let done = AtomicUsize::new(0);
    let all = tests.len() * file_systems.len();
    let progress = Mutex::new(&mut *output);
    let verified = verify(&plan, &|verified| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let line = format!("[{done}/{all}] {}", line(verified));
        if let Ok(mut output) = progress.lock() {
            output.note(&line);
        }
    })?;
    for file_system in &file_systems {
        tell(*file_system, &verified, arguments.unseen, output)?;
    }
    let seconds = begin.elapsed().as_secs();
    output.note(&format!(
        "{all} tests in {seconds} s on Linux {}",
        crashpoint_blockdev::kernel_release()
    ));
    let holes = verified.iter().any(|verified| match &verified.outcome {
        LitmusOutcome::Compared(comparison) => !comparison.holes.is_empty(),
        LitmusOutcome::Failed(_) => false,
    });
    Ok(if holes {
        Exit::Findings.into()
    } else {
        Exit::Clean.into()
    })
}

fn chosen(only: &[String]) -> Result<Vec<Litmus>, ModelsError> {
    let all = litmus::all();
    for part in only {
        if !all.iter().any(|litmus| litmus.name.contains(part)) {
            return Err(ModelsError::NoLitmus(part.clone()));
        }
    }
    let wanted = |litmus: &Litmus| {
        only.is_empty() || only.iter().any(|part| litmus.name.contains(part.as_str()))
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// Renders one test as one line.
fn line(verified: &Verified) -> String {
    let what = match &verified.outcome {
        LitmusOutcome::Failed(reason) => format!("not run: {reason}"),
        LitmusOutcome::Compared(comparison) => {
            let holes = match comparison.holes.len() {
                0 => String::new(),
                holes => format!(", {holes} forbidden"),
            };
            format!(
                "{} of {} states seen{holes}, {} images",
                comparison.seen, comparison.allowed, comparison.looked_at.images
            )
        }
    };
    format!(
        "{} {}: {what}",
        verified.file_system.name(),
        verified.litmus
    )
}

/// Renders the results of one file system.
fn tell(
    file_system: FileSystem,
    verified: &[Verified],
    unseen: bool,
    output: &mut Output,
) -> Result<(), ModelsError> {
    let mut totals = Totals::default();
    let mut text = String::new();
    for verified in verified {
        if verified.file_system != file_system {
            continue;
        }
        match &verified.outcome {
            LitmusOutcome::Failed(reason) => {
                totals.failed += 1;
                text += &format!("  {}: not run: {reason}\n", verified.litmus);
            }
            LitmusOutcome::Compared(comparison) => {
                totals.add(comparison);
                text += &details(verified, comparison, unseen);
            }
        }
    }
    let model = file_system.model();
    output.print(&format!(
        "{} against model {model}: {} tests, {} recordings, {} images; {} of {} allowed states \
         seen, {} forbidden ones seen\n{text}",
        file_system.name(),
        totals.tests + totals.failed,
        totals.recordings,
        totals.images,
        totals.seen,
        totals.allowed,
        totals.holes,
    ))?;
    Ok(())
}

#[derive(Default)]
struct Totals {
    tests: usize,
    failed: usize,
    recordings: usize,
    images: usize,
    seen: usize,
    allowed: usize,
    holes: usize,
}

impl Totals {
    fn add(&mut self, comparison: &Comparison) {
        self.tests += 1;
        self.recordings += comparison.looked_at.recordings;
        self.images += comparison.looked_at.images;
        self.seen += comparison.seen;
        self.allowed += comparison.allowed;
        self.holes += comparison.holes.len();
    }
}

fn details(verified: &Verified, comparison: &Comparison, unseen: bool) -> String {
    let mut text = String::new();
    let name = format!("{} ({})", verified.litmus, verified.rules.join(", "));
    for hole in comparison.holes.iter().take(MOST_STATES) {
        text += &format!("  {name}: {}\n", hole_text(hole));
    }
    if comparison.holes.len() > MOST_STATES {
        let more = comparison.holes.len() - MOST_STATES;
        text += &format!("  {name}: and {more} more that are forbidden\n");
    }
    if let Some(reason) = &comparison.looked_at.reason {
        text += &format!(
            "  {name}: {} images broken: {reason}\n",
            comparison.looked_at.broken
        );
    }
    if unseen {
        for state in comparison.unseen.iter().take(MOST_STATES) {
            text += &format!("  {name}: not seen: {state}\n");
        }
        if comparison.unseen.len() > MOST_STATES {
            let more = comparison.unseen.len() - MOST_STATES;
            text += &format!("  {name}: and {more} more that were not seen\n");
        }
    }
    text
}

fn hole_text(hole: &Hole) -> String {
    let after = match &hole.after {
        Some(call) => format!("after `{call}`"),
        None => "before the first call".to_owned(),
    };
    let before = match &hole.before {
        Some(call) => format!(" and before the return of `{call}`"),
        None => String::new(),
    };
    let lost = if hole.allowed_earlier {
        " (allowed only earlier: something durable was lost)"
    } else {
        ""
    };
    format!(
        "forbidden but seen{lost}: {}\n    {after}{before}; {} images, {}, {}",
        hole.state,
        hole.sighting.images,
        hole.sighting.circumstance.text(),
        hole.sighting.kind.text(),
    )
}
