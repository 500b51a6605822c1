//! What a consistent program prints after each operation: the references that checks are compared
//! with.
//!
//! For every operation two runs of what follows it: on the pool as it was when the operation began,
//! and as it was when it ended, in both cases with every store in place. All come from one process,
//! which forks for each. Each is made twice, of very many a part; a program that does not print the
//! same both times cannot be judged by its output, which is said before any verdict. Operations that
//! ran at once have more of them: see [`several`].
//!
//! Where the program prints one line for each operation, the lines after recovery are also compared
//! with those of the run that never crashed: a recovery that forgets something even when nothing
//! was lost would otherwise be its own reference.

mod several;

use crate::engine::crash_points::SuffixId;
use crate::engine::medium::CheckError;
use crate::memory::image::Patch;
use crate::memory::judge::{Oracle, Reference, References, SerialExecution};
use crate::memory::plan::TestPlan;
use crate::memory::timeline::Timeline;
use crate::memory::worker::Worker;
use crate::process::output::{first_difference, lines};
use crate::process::run::{FinishedRun, RunEnd, RunTime};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error(transparent)]
    Worker(#[from] CheckError),
    #[error(
        "two runs from the same pool print different things{after}, line {line}: `{first}` and \
         `{second}`. Crashpoint cannot judge a program that is not deterministic: fix its seed, or \
         give a checker (test.check)"
    )]
    Nondeterministic {
        after: String,
        line: usize,
        first: String,
        second: String,
    },
    #[error("without any crash, {what} {end}{after}; it said:\n{stderr}")]
    Fails {
        what: &'static str,
        after: String,
        end: String,
        stderr: String,
    },
}

/// Recovery changed what the program prints, though nothing was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The last operation before the restart.
    pub operation: u32,
    /// The operation whose line differs.
    pub at: usize,
    pub expected: String,
    pub found: String,
}

/// Operations that ran at once and whose output says nothing of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unjudged {
    pub operation: u32,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Without any crash they leave something that no order of them leaves.
    NotLinearizable,
    /// What they print cannot be told from what is printed after them.
    Mixed,
}

/// All references, by list.
#[derive(Clone, Debug, Default)]
pub struct AllReferences {
    /// None for those that were not asked for.
    pub by_suffix: Vec<Option<References>>,
    pub forgotten: Vec<Forgotten>,
    pub unjudged: Vec<Unjudged>,
    /// Runs that it took.
    pub runs: u64,
    pub most: MostOfRuns,
}

/// The most that any run without a crash took.
#[derive(Clone, Copy, Debug, Default)]
pub struct MostOfRuns {
    /// Of different runs, perhaps.
    pub time: RunTime,
    /// What was printed, in bytes.
    pub output_bytes: usize,
}

/// The longest runs so far; times are in nanoseconds.
#[derive(Debug, Default)]
struct Longest {
    wall: AtomicU64,
    processor: AtomicU64,
    output_bytes: AtomicUsize,
}

impl Longest {
    fn see(&self, ended: &FinishedRun) {
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        self.wall
            .fetch_max(nanoseconds(ended.time.wall), Ordering::Relaxed);
        self.processor
            .fetch_max(nanoseconds(ended.time.processor), Ordering::Relaxed);
        let printed = ended.stdout.len().max(ended.stderr.len());
        self.output_bytes.fetch_max(printed, Ordering::Relaxed);
    }
}

/// One run to make: after so many nodes, for this list.
#[derive(Clone, Copy, Debug)]
struct Task {
    issued: usize,
    suffix: SuffixId,
    committed: bool,
    /// Whether a second run must print the same.
    twice: bool,
}

/// Makes the references of the lists that are asked for. The workers' pools are left somewhere;
/// rewind them.
pub fn references(
    plan: &TestPlan<'_>,
    timeline: &Timeline,
    workers: &mut [Worker<'_>],
    plain: &[u8],
    wanted: impl Fn(SuffixId) -> bool,
) -> Result<AllReferences, ReferenceError> {
    let tasks = tasks(timeline, wanted);
    let results: Vec<Mutex<Option<Made>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
    let failed: Mutex<Option<ReferenceError>> = Mutex::new(None);
    let stop = AtomicBool::new(false);
    let longest = Longest::default();
    let count = workers.len();
    std::thread::scope(|scope| {
        for (number, worker) in workers.iter_mut().enumerate() {
            let (tasks, results, failed, stop) = (&tasks, &results, &failed, &stop);
            let longest = &longest;
            scope.spawn(move || {
                let _pinned = worker.stay();
                let mut issued = 0;
                for (index, task) in tasks.iter().enumerate().skip(number).step_by(count) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match one(plan, timeline, worker, task, &mut issued, longest) {
                        Ok(made) => {
                            *results[index].lock().expect("no panic") = Some(made);
                        }
                        Err(error) => {
                            stop.store(true, Ordering::Relaxed);
                            failed.lock().expect("no panic").get_or_insert(error);
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().expect("no panic") {
        return Err(error);
    }
    let mut made = results.into_iter().map(|slot| {
        let made = slot.into_inner().expect("no panic");
        made.expect("every task is done")
    });
    let mut all = AllReferences {
        runs: tasks.iter().map(|task| 1 + u64::from(task.twice)).sum(),
        most: MostOfRuns {
            time: RunTime {
                wall: Duration::from_nanos(longest.wall.into_inner()),
                processor: Duration::from_nanos(longest.processor.into_inner()),
            },
            output_bytes: longest.output_bytes.into_inner(),
        },
        ..AllReferences::default()
    };
    let start = made.next().expect("there is a first task").reference;
    all.by_suffix.push(Some(References {
        rolled_back: start.clone(),
        committed: start,
        operations: 1,
        serial_executions: Vec::new(),
    }));
    all.by_suffix.resize(1 + timeline.operations.len(), None);
    let mut first_of_each = tasks.iter().skip(1).step_by(2);
    while let (Some(task), Some(rolled_back), Some(done)) =
        (first_of_each.next(), made.next(), made.next())
    {
        let several = plan.suffixes.get(task.suffix).overlapping.len();
        let judged = match several {
            0 | 1 => Ok(Vec::new()),
            _ => several::judged(rolled_back.serial_executions, &done.reference),
        };
        match judged {
            Ok(serial_executions) => {
                all.by_suffix[task.suffix.0 as usize] = Some(References {
                    rolled_back: rolled_back.reference,
                    committed: done.reference,
                    operations: several.max(1),
                    serial_executions,
                });
            }
            Err(why) => all.unjudged.push(Unjudged {
                operation: task.suffix.0 - 1,
                why,
            }),
        }
    }
    if plan.oracle == Oracle::Output {
        all.forgotten = forgotten(plan, &all.by_suffix, plain);
    }
    Ok(all)
}

/// So many lists are all run twice; of more, every [`RUN_TWICE_STRIDE`]th.
const ALWAYS_RUN_TWICE: usize = 64;
const RUN_TWICE_STRIDE: usize = 8;

/// In the order of lists: for the first list one, for each other one that is wanted two.
fn tasks(timeline: &Timeline, wanted: impl Fn(SuffixId) -> bool) -> Vec<Task> {
    let mut tasks = vec![Task {
        issued: 0,
        suffix: SuffixId(0),
        committed: true,
        twice: true,
    }];
    let spans = (1..).map(SuffixId).zip(&timeline.operations);
    for (number, (suffix, span)) in spans.filter(|(suffix, _)| wanted(*suffix)).enumerate() {
        let twice = number < ALWAYS_RUN_TWICE || number % RUN_TWICE_STRIDE == 0;
        for (issued, committed) in [(span.begin, false), (span.end, true)] {
            tasks.push(Task {
                issued,
                suffix,
                committed,
                twice,
            });
        }
    }
    tasks
}

/// What came of a task.
struct Made {
    reference: Reference,
    /// Of operations that ran at once; none if their output cannot be told apart.
    serial_executions: Option<Vec<SerialExecution>>,
}

fn one(
    plan: &TestPlan<'_>,
    timeline: &Timeline,
    worker: &mut Worker<'_>,
    task: &Task,
    issued: &mut usize,
    longest: &Longest,
) -> Result<Made, ReferenceError> {
    worker.advance(timeline.nodes[*issued..task.issued].iter())?;
    *issued = task.issued;
    let made = plan.suffixes.get(task.suffix);
    let suffix = made.suffix(task.suffix, task.committed);
    // A checker looks at a pool, whoever made it; a program that makes its own is consistent if it
    // goes on as if it had just begun.
    let from_nothing =
        task.suffix == SuffixId(0) && plan.makes_pool && plan.oracle != Oracle::Checker;
    let run = |worker: &mut Worker<'_>| {
        if from_nothing {
            worker.run_without_pool(&suffix)
        } else {
            worker.run(&Patch::new(), &suffix, false)
        }
    };
    let first = run(worker)?;
    longest.see(&first);
    let after = || match (task.suffix.0, task.committed) {
        (0, _) => " at the start".to_owned(),
        (suffix, true) => format!(" after operation {suffix}"),
        (suffix, false) => format!(
            " where operation {suffix} is left out (a crash may undo it: the operations behind it are \
             run on the pool as it was before)"
        ),
    };
    succeeds(plan, &first, after)?;
    let before = (task.suffix.0 as usize)
        .checked_sub(1)
        .filter(|_| !task.committed);
    let overlap = before.and_then(|operation| timeline.overlap_groups.get(operation));
    let mut made = Made {
        reference: Reference::from(first.clone()),
        serial_executions: None,
    };
    if let Some(overlap) = overlap.filter(|overlap| overlap.count() > 1) {
        made.serial_executions =
            several::linearised(plan, worker, (suffix, &first.stdout), overlap, longest)?;
    }
    if !task.twice {
        return Ok(made);
    }
    let second = run(worker)?;
    let compared = plan.oracle == Oracle::Output;
    let difference = if compared {
        first_difference(&first.stdout, &second.stdout)
    } else {
        None
    };
    if difference.is_some() || first.end != second.end {
        let (line, a, b) = difference.unwrap_or_default();
        return Err(ReferenceError::Nondeterministic {
            after: after(),
            line: line + 1,
            first: a.map_or_else(|| first.end.to_string(), text),
            second: b.map_or_else(|| second.end.to_string(), text),
        });
    }
    Ok(made)
}

/// A run without a crash must end well.
fn succeeds(
    plan: &TestPlan<'_>,
    ended: &FinishedRun,
    after: impl FnOnce() -> String,
) -> Result<(), ReferenceError> {
    let is_checker = plan.oracle == Oracle::Checker;
    let fails = match ended.end {
        RunEnd::Exited(0) => false,
        RunEnd::Exited(_) => is_checker,
        RunEnd::Killed { .. } | RunEnd::TimedOut | RunEnd::TooMuchOutput => true,
    };
    if fails {
        Err(ReferenceError::Fails {
            what: if is_checker {
                "the checker"
            } else {
                "the program"
            },
            after: after(),
            end: ended.end.to_string(),
            stderr: text(&ended.stderr).trim_end().to_owned(),
        })
    } else {
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compares what follows each restart with what followed without one.
fn forgotten(
    plan: &TestPlan<'_>,
    references: &[Option<References>],
    plain: &[u8],
) -> Vec<Forgotten> {
    let plain: Vec<&[u8]> = lines(plain).collect();
    let operations = plan.suffixes.count() - 1;
    if plain.len() != operations {
        return Vec::new();
    }
    let mut found = Vec::new();
    for operation in 0..operations {
        let Some(references) = &references[operation + 1] else {
            continue;
        };
        let suffix = plan.suffixes.get(SuffixId(operation as u32 + 1));
        let printed = &references.committed.stdout;
        let printed: Vec<&[u8]> = lines(printed).collect();
        if printed.len() != suffix.probes + suffix.operations + suffix.removals {
            continue;
        }
        let expected = &plain[operation + 1..operation + 1 + suffix.operations];
        let after = &printed[suffix.probes..];
        let differs = expected.iter().zip(after).position(|(a, b)| a != b);
        if let Some(at) = differs {
            found.push(Forgotten {
                operation: operation as u32,
                at: operation + 1 + at,
                expected: text(expected[at]),
                found: text(after[at]),
            });
        }
    }
    found
}
