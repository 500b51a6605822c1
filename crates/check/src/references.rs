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

use crate::image::Patch;
use crate::judge::{Between, Oracle, Reference, References, first_difference, lines};
use crate::plan::Plan;
use crate::server::{End, Ended};
use crate::timeline::{ListId, Timeline};
use crate::worker::{Worker, WorkerError};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error(transparent)]
    Worker(#[from] WorkerError),
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
    pub lists: Vec<Option<References>>,
    pub forgotten: Vec<Forgotten>,
    pub unjudged: Vec<Unjudged>,
    /// Runs that it took.
    pub runs: u64,
    /// The longest of them, and the one that used a processor most.
    pub slowest: Duration,
    pub busiest: Duration,
    /// The most that one of them printed, in bytes.
    pub longest: usize,
}

/// The longest runs so far; times are in nanoseconds.
#[derive(Debug, Default)]
struct Longest {
    wall: AtomicU64,
    processor: AtomicU64,
    output_bytes: AtomicUsize,
}

impl Longest {
    fn see(&self, ended: &Ended) {
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        self.wall
            .fetch_max(nanoseconds(ended.wall), Ordering::Relaxed);
        self.processor
            .fetch_max(nanoseconds(ended.processor), Ordering::Relaxed);
        let printed = ended.stdout.len().max(ended.stderr.len());
        self.output_bytes.fetch_max(printed, Ordering::Relaxed);
    }
}

/// One run to make: after so many nodes, for this list.
#[derive(Clone, Copy, Debug)]
struct Task {
    issued: usize,
    list: ListId,
    done: bool,
    /// Whether a second run must print the same.
    twice: bool,
}

/// Makes the references of the lists that are asked for. The workers' pools are left somewhere;
/// rewind them.
pub fn references(
    plan: &Plan<'_>,
    timeline: &Timeline,
    workers: &mut [Worker<'_>],
    plain: &[u8],
    wanted: impl Fn(ListId) -> bool,
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
        slowest: Duration::from_nanos(longest.wall.into_inner()),
        busiest: Duration::from_nanos(longest.processor.into_inner()),
        longest: longest.output_bytes.into_inner(),
        ..AllReferences::default()
    };
    let start = made.next().expect("there is a first task").reference;
    all.lists.push(Some(References {
        skipped: start.clone(),
        done: start,
        operations: 1,
        between: Vec::new(),
    }));
    all.lists.resize(1 + timeline.operations.len(), None);
    let mut first_of_each = tasks.iter().skip(1).step_by(2);
    while let (Some(task), Some(skipped), Some(done)) =
        (first_of_each.next(), made.next(), made.next())
    {
        let several = plan.lists.get(task.list).at_once.len();
        let judged = match several {
            0 | 1 => Ok(Vec::new()),
            _ => several::judged(skipped.between, &done.reference),
        };
        match judged {
            Ok(between) => {
                all.lists[task.list.0 as usize] = Some(References {
                    skipped: skipped.reference,
                    done: done.reference,
                    operations: several.max(1),
                    between,
                });
            }
            Err(why) => all.unjudged.push(Unjudged {
                operation: task.list.0 - 1,
                why,
            }),
        }
    }
    if plan.oracle == Oracle::Output {
        all.forgotten = forgotten(plan, &all.lists, plain);
    }
    Ok(all)
}

/// So many lists are all run twice; of more, every [`SAMPLE`]th.
const FEW: usize = 64;
const SAMPLE: usize = 8;

/// In the order of lists: for the first list one, for each other one that is wanted two.
fn tasks(timeline: &Timeline, wanted: impl Fn(ListId) -> bool) -> Vec<Task> {
    let mut tasks = vec![Task {
        issued: 0,
        list: ListId(0),
        done: true,
        twice: true,
    }];
    let spans = (1..).map(ListId).zip(&timeline.operations);
    for (number, (list, span)) in spans.filter(|(list, _)| wanted(*list)).enumerate() {
        let twice = number < FEW || number % SAMPLE == 0;
        for (issued, done) in [(span.begin, false), (span.end, true)] {
            tasks.push(Task {
                issued,
                list,
                done,
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
    between: Option<Vec<Between>>,
}

fn one(
    plan: &Plan<'_>,
    timeline: &Timeline,
    worker: &mut Worker<'_>,
    task: &Task,
    issued: &mut usize,
    longest: &Longest,
) -> Result<Made, ReferenceError> {
    worker.advance(timeline.nodes[*issued..task.issued].iter())?;
    *issued = task.issued;
    let made = plan.lists.get(task.list);
    let list = made.list(task.list, task.done);
    // A checker looks at a pool, whoever made it; a program that makes its own is consistent if it
    // goes on as if it had just begun.
    let from_nothing = task.list == ListId(0) && plan.makes_pool && plan.oracle != Oracle::Checker;
    let run = |worker: &mut Worker<'_>| match from_nothing {
        true => worker.run_without_pool(&list),
        false => worker.run(&Patch::new(), &list, false),
    };
    let first = run(worker)?;
    longest.see(&first);
    let after = || match (task.list.0, task.done) {
        (0, _) => " at the start".to_owned(),
        (list, true) => format!(" after operation {list}"),
        (list, false) => format!(
            " where operation {list} is left out (a crash may undo it: the operations behind it are \
             run on the pool as it was before)"
        ),
    };
    succeeds(plan, &first, after)?;
    let before = (task.list.0 as usize).checked_sub(1).filter(|_| !task.done);
    let at_once = before.and_then(|operation| timeline.at_once.get(operation));
    let mut made = Made {
        reference: Reference::from(first.clone()),
        between: None,
    };
    if let Some(at_once) = at_once.filter(|at_once| at_once.count() > 1) {
        made.between = several::linearised(plan, worker, (list, &first.stdout), at_once, longest)?;
    }
    if !task.twice {
        return Ok(made);
    }
    let second = run(worker)?;
    let compared = plan.oracle == Oracle::Output;
    let difference = match compared {
        true => first_difference(&first.stdout, &second.stdout),
        false => None,
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
    plan: &Plan<'_>,
    ended: &Ended,
    after: impl FnOnce() -> String,
) -> Result<(), ReferenceError> {
    let is_checker = plan.oracle == Oracle::Checker;
    let fails = match ended.end {
        End::Exited(0) => false,
        End::Exited(_) => is_checker,
        End::Killed { .. } | End::TimedOut | End::TooMuchOutput => true,
    };
    match fails {
        false => Ok(()),
        true => Err(ReferenceError::Fails {
            what: if is_checker {
                "the checker"
            } else {
                "the program"
            },
            after: after(),
            end: ended.end.to_string(),
            stderr: text(&ended.stderr).trim_end().to_owned(),
        }),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compares what follows each restart with what followed without one.
fn forgotten(plan: &Plan<'_>, references: &[Option<References>], plain: &[u8]) -> Vec<Forgotten> {
    let plain: Vec<&[u8]> = lines(plain).collect();
    let operations = plan.lists.count() - 1;
    if plain.len() != operations {
        return Vec::new();
    }
    let mut found = Vec::new();
    for operation in 0..operations {
        let Some(references) = &references[operation + 1] else {
            continue;
        };
        let list = plan.lists.get(ListId(operation as u32 + 1));
        let printed = &references.done.stdout;
        let printed: Vec<&[u8]> = lines(printed).collect();
        if printed.len() != list.probes + list.operations + list.removals {
            continue;
        }
        let expected = &plain[operation + 1..operation + 1 + list.operations];
        let after = &printed[list.probes..];
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
