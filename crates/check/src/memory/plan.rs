//! What a test is about: the recording, the target, the operations after each crash, the limits.

use crate::engine::crash_points::{Phase, SuffixId};
use crate::engine::explore::Budget;
use crate::engine::medium::{CheckError, StateHash};
use crate::engine::outcome::{Observed, OutcomeSet, RecoveryOutcome};
use crate::engine::result_table::Key;
use crate::memory::judge::{Oracle, References};
use crate::memory::timeline::Operations;
use crate::memory::worker::{Manner, Setup, Suffix, Worker};
use crate::process::run::FinishedRun;
use crashpoint_persist::graph::Model;
use crashpoint_trace::Recording;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub struct TestPlan<'a> {
    pub recording: &'a Recording,
    pub operations: Operations,
    pub model: Model,
    pub setup: Setup,
    /// The recorded program made its pool itself: at first there was none.
    pub makes_pool: bool,
    pub oracle: Oracle,
    pub suffixes: Suffixes<'a>,
    pub limits: Budget,
    /// States that differ only in what was not read are tried once.
    pub prune: bool,
    pub jobs: usize,
    /// For the files of workers; best in memory.
    pub scratch: PathBuf,
    /// What is recorded is a recovery: only what comes before the first operation is crashed.
    pub recovery: Option<Recovery>,
}

/// A recovery that is itself crashed: the outcomes in which the first crash may have left the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recovery(pub OutcomeSet);

impl Recovery {
    /// What is in one of these outcomes has passed, since a recovery has no phases of its own.
    pub fn observe(self, observed: Observed) -> Observed {
        if observed.outcomes.meets(self.0) {
            Observed {
                outcomes: observed.outcomes.with(RecoveryOutcome::COMMITTED),
                ..observed
            }
        } else {
            observed
        }
    }
}

/// What runs after a crash in one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuffixText {
    /// The operations, one per line.
    pub text: String,
    /// How many of its lines are questions, which come first, how many are operations of the
    /// workload, and how many remove and ask again, which come last.
    pub probes: usize,
    pub operations: usize,
    pub removals: usize,
    /// What the program printed without a crash, and how many bytes of it when the operation began, and
    /// when it had returned.
    pub printed: Arc<[u8]>,
    pub printed_before: usize,
    pub printed_after: usize,
    /// The operations of the line before it that ran at once; empty where one ran alone.
    pub overlapping: Vec<String>,
}

impl SuffixText {
    /// As a worker runs it.
    pub fn suffix(&self, id: SuffixId, acknowledged: bool) -> Suffix<'_> {
        let length = if acknowledged {
            self.printed_after
        } else {
            self.printed_before
        };
        Suffix {
            id: Some(id),
            text: &self.text,
            printed: &self.printed[..length],
        }
    }
}

/// What runs after each crash, by [`SuffixId`]: one more than there are operations. A list is made when
/// it is asked for, as a long recording has very many and few of them are run.
pub struct Suffixes<'a> {
    count: usize,
    make: Box<dyn Fn(usize) -> SuffixText + Send + Sync + 'a>,
    cache: Mutex<FxHashMap<SuffixId, Arc<SuffixText>>>,
}

/// Suffixes that are remembered.
const MAX_CACHED_SUFFIXES: usize = 256;

impl<'a> Suffixes<'a> {
    pub fn new(
        count: usize,
        make: impl Fn(usize) -> SuffixText + Send + Sync + 'a,
    ) -> Suffixes<'a> {
        Suffixes {
            count,
            make: Box::new(make),
            cache: Mutex::default(),
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn get(&self, id: SuffixId) -> Arc<SuffixText> {
        assert!((id.0 as usize) < self.count, "a suffix of the recording");
        let mut cache = self.cache.lock().expect("no panic");
        if cache.len() >= MAX_CACHED_SUFFIXES && !cache.contains_key(&id) {
            cache.clear();
        }
        let suffix = cache.entry(id);
        Arc::clone(suffix.or_insert_with(|| Arc::new((self.make)(id.0 as usize))))
    }
}

impl TestPlan<'_> {
    /// Under which a state of a phase is known.
    pub fn key(&self, phase: Phase, image: StateHash) -> Key {
        Key {
            suffix: phase.suffix(),
            acknowledged: self.setup.wants_printed && matches!(phase, Phase::Returned(_)),
            image,
        }
    }

    /// What a run of a list shows.
    pub fn observe(
        &self,
        suffix: SuffixId,
        ended: &FinishedRun,
        references: &[Option<References>],
    ) -> Observed {
        let of_suffix = references.get(suffix.0 as usize).and_then(Option::as_ref);
        let observed = self.oracle.observe(ended, of_suffix);
        match self.recovery {
            Some(recovery) => recovery.observe(observed),
            None => observed,
        }
    }

    /// Starts the workers, and finds out with the first how they can run.
    pub fn workers(&self) -> Result<Vec<Worker<'_>>, CheckError> {
        let jobs = self.jobs.max(1);
        let start = |number, manner| {
            let numbers = (number, jobs);
            Worker::start(&self.setup, &self.scratch, numbers, manner)
        };
        let mut first = start(0, Manner::default())?;
        let suffix = self.suffixes.get(SuffixId(0));
        let manner = first.calibrate(&suffix.suffix(SuffixId(0), false))?;
        let mut workers = vec![first];
        for number in 1..jobs {
            workers.push(start(number, manner)?);
        }
        Ok(workers)
    }
}
