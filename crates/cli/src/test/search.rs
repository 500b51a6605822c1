//! The search for failing states, with its journal: the same for memory and for files.

use std::path::Path;

use crashpoint_check::engine::explore::Budget;
use crashpoint_check::engine::explore::{self, Exploration, Explored, Watcher};
use crashpoint_check::engine::journal::{self, Identity, Journal, ResultOrigin};
use crashpoint_check::engine::medium::{Checker, Medium};
use crashpoint_states::Strategy;

use super::{Clock, TestError};

pub struct Search<'a, S> {
    pub medium: &'a S,
    pub limits: Budget,
    /// States that differ only in what was not read are tried once.
    pub prune: bool,
    /// Whether it is counted what was lost.
    pub count_lost: bool,
    pub journal: &'a Path,
    pub identity: &'a Identity,
    pub resume: bool,
    pub watcher: &'a dyn Watcher,
}

impl<S: Medium> Search<'_, S> {
    /// What was found, and whether leaving out what was not read turned out to be wrong: then
    /// nothing was left out.
    pub fn run<C: Checker<Patch = S::Patch>>(
        &self,
        strategies: &mut [Box<dyn Strategy>],
        checkers: &mut [C],
        clock: &mut Clock,
    ) -> Result<(Explored, bool), TestError> {
        let (journal, known) = match self.resume {
            true => Journal::resume(self.journal, self.identity)?,
            false => (Journal::create(self.journal, self.identity)?, Vec::new()),
        };
        let mut explore = |prune: bool, known: &[journal::JournalEntry]| -> Result<_, TestError> {
            for checker in checkers.iter_mut() {
                checker.rewind()?;
            }
            let exploration = Exploration {
                medium: self.medium,
                limits: self.limits,
                prune,
                count_lost: self.count_lost,
                journal: Some(&journal),
                known,
                watcher: self.watcher,
            };
            Ok(explore::explore(&exploration, strategies, checkers)?)
        };
        // The run that is resumed may have been killed after it had found this out.
        let refuted = known
            .iter()
            .any(|result| result.how == ResultOrigin::Refutes);
        if !refuted {
            let explored = clock.time("explore", || explore(self.prune, &known))?;
            if !explored.pruning_is_wrong {
                return Ok((explored, false));
            }
        }
        let (_, mut all) = Journal::resume(self.journal, self.identity)?;
        // What was seen, and not inferred.
        all.retain(|result| result.how != ResultOrigin::Pruned);
        let explored = clock.time("explore again", || explore(false, &all))?;
        Ok((explored, true))
    }
}
