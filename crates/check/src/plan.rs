//! What a test is about: the recording, the target, the operations after each crash, the limits.

use crate::image::ImageHash;
use crate::judge::{Observed, Oracle, References, World, Worlds};
use crate::server::Ended;
use crate::table::Key;
use crate::timeline::{ListId, Operations, Phase};
use crate::worker::{List, Manner, Setup, Worker, WorkerError};
use crashpoint_persist::graph::Model;
use crashpoint_trace::Recording;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub struct Plan<'a> {
    pub recording: &'a Recording,
    pub operations: Operations,
    pub model: Model,
    pub setup: Setup,
    /// The recorded program made its pool itself: at first there was none.
    pub makes_pool: bool,
    pub oracle: Oracle,
    pub lists: Lists<'a>,
    pub limits: Budget,
    /// States that differ only in what was not read are tried once.
    pub prune: bool,
    pub jobs: usize,
    /// For the files of workers; best in memory.
    pub scratch: PathBuf,
    /// What is recorded is a recovery: only what comes before the first operation is crashed.
    pub recovery: Option<Recovery>,
}

/// A recovery that is itself crashed: the worlds in which the first crash may have left the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Recovery(pub Worlds);

impl Recovery {
    /// What is in one of these worlds has passed, since a recovery has no phases of its own.
    pub fn observe(self, observed: Observed) -> Observed {
        match observed.worlds.meets(self.0) {
            true => Observed {
                worlds: observed.worlds.with(World::DONE),
                ..observed
            },
            false => observed,
        }
    }
}

/// What runs after a crash in one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListText {
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
    pub at_once: Vec<String>,
}

impl ListText {
    /// As a worker runs it.
    pub fn list(&self, id: ListId, acknowledged: bool) -> List<'_> {
        let length = match acknowledged {
            true => self.printed_after,
            false => self.printed_before,
        };
        List {
            id: Some(id),
            text: &self.text,
            printed: &self.printed[..length],
        }
    }
}

/// What runs after each crash, by [`ListId`]: one more than there are operations. A list is made when
/// it is asked for, as a long recording has very many and few of them are run.
pub struct Lists<'a> {
    count: usize,
    make: Box<dyn Fn(usize) -> ListText + Send + Sync + 'a>,
    lately: Mutex<FxHashMap<ListId, Arc<ListText>>>,
}

/// Lists that are remembered.
const LATELY: usize = 256;

impl<'a> Lists<'a> {
    pub fn new(count: usize, make: impl Fn(usize) -> ListText + Send + Sync + 'a) -> Lists<'a> {
        Lists {
            count,
            make: Box::new(make),
            lately: Mutex::default(),
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn get(&self, id: ListId) -> Arc<ListText> {
        assert!((id.0 as usize) < self.count, "a list of the recording");
        let mut lately = self.lately.lock().expect("no panic");
        if lately.len() >= LATELY && !lately.contains_key(&id) {
            lately.clear();
        }
        let list = lately.entry(id);
        Arc::clone(list.or_insert_with(|| Arc::new((self.make)(id.0 as usize))))
    }
}

/// How much may be tried; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub states: u64,
    pub states_per_point: u64,
    pub time: Option<Duration>,
}

impl Plan<'_> {
    /// Under which a state of a phase is known.
    pub fn key(&self, phase: Phase, image: ImageHash) -> Key {
        Key {
            list: phase.list(),
            acknowledged: self.setup.wants_printed && matches!(phase, Phase::After(_)),
            image,
        }
    }

    /// What a run of a list shows.
    pub fn observe(
        &self,
        list: ListId,
        ended: &Ended,
        references: &[Option<References>],
    ) -> Observed {
        let of_list = references.get(list.0 as usize).and_then(Option::as_ref);
        let observed = Observed::new(self.oracle, ended, of_list);
        match self.recovery {
            Some(recovery) => recovery.observe(observed),
            None => observed,
        }
    }

    /// Starts the workers, and finds out with the first how they can run.
    pub fn workers(&self) -> Result<Vec<Worker<'_>>, WorkerError> {
        let jobs = self.jobs.max(1);
        let start = |number, manner| {
            let numbers = (number, jobs);
            Worker::start(&self.setup, &self.scratch, numbers, manner)
        };
        let mut first = start(0, Manner::default())?;
        let list = self.lists.get(ListId(0));
        let manner = first.calibrate(&list.list(ListId(0), false))?;
        let mut workers = vec![first];
        for number in 1..jobs {
            workers.push(start(number, manner)?);
        }
        Ok(workers)
    }
}
