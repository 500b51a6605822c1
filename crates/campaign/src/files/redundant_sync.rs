//! Redundant syncs: those that could go.
//!
//! A sync is taken out of the recording, with all others of its place in the program, and crashes
//! are tried as before. If none fails, it made no difference here, and stays out while the others
//! are looked at: so that all that are told could go together. They are looked at from the last to
//! the first.
//!
//! *Misses* what other workloads, other file systems, and states that were not tried need it for.

use std::time::{Duration, Instant};

use crashpoint_check::engine::explore::Budget;
use crashpoint_check::engine::explore::{self, Exploration};
use crashpoint_check::engine::medium::Checker as _;
use crashpoint_check::files::{CheckSetup, FileChecker, FileMedium};
use crashpoint_check::process::run::Limits;
use crashpoint_report::{Finding, Location};
use crashpoint_states::{Bounded, Strategy};
use crashpoint_trace::files::{Call, Effect, FileRecording};

use crashpoint_explain::files::describe;
use crashpoint_explain::manuals::EXTRA_SYNC;

use crate::observer::{Progress, Silent};
use crate::test::{Run, TestError};

pub struct RedundantSyncs<'r, 'a> {
    pub run: &'r Run<'r>,
    pub recording: &'a FileRecording,
    pub files: &'r FileMedium<'a>,
    pub setup: &'r CheckSetup,
    pub limits: Limits,
}

/// Calls that do nothing but sync, of one place in the program.
struct Group {
    name: String,
    place: Option<Location>,
    calls: Vec<usize>,
}

/// What was found out, and how many places there was no time for.
pub struct Redundant {
    pub findings: Vec<Finding>,
    pub left: usize,
}

fn only_syncs(call: &Call<'_>) -> bool {
    let is_sync = |effect: &Effect<'_>| matches!(effect, Effect::Sync(_));
    !call.effects.is_empty() && call.effects.iter().all(is_sync)
}

impl<'a> RedundantSyncs<'_, 'a> {
    pub fn find(&self) -> Result<Redundant, TestError> {
        let mut calls = self.files.calls.to_vec();
        let mut findings = Vec::new();
        let time = self.run.settings.test.budget.time;
        let end = time.map(|time| Instant::now() + time);
        let mut groups = self.groups();
        while let Some(group) = groups.pop() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                groups.push(group);
                break;
            }
            let mut without = calls.clone();
            for index in &group.calls {
                without[*index].effects.clear();
            }
            if !self.fails(&without, left)? {
                findings.push(self.finding(&group));
                calls = without;
            }
        }
        findings.reverse();
        Ok(Redundant {
            findings,
            left: groups.len(),
        })
    }

    /// Redundant syncs in the order of their last calls.
    fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (index, call) in self.files.calls.iter().enumerate() {
            if !only_syncs(call) {
                continue;
            }
            let place = describe::place(self.recording, call);
            let digits = |c: char| if c.is_ascii_digit() { '#' } else { c };
            let name: String = match &place {
                Some(_) => call.name().to_owned(),
                None => call.text.chars().map(digits).collect(),
            };
            let same = |group: &Group| match (&group.place, &place) {
                (Some(one), Some(two)) => (&one.file, one.line) == (&two.file, two.line),
                (None, None) => group.name == name,
                (Some(_), None) | (None, Some(_)) => false,
            };
            match groups.iter_mut().find(|group| same(group)) {
                Some(group) => group.calls.push(index),
                None => groups.push(Group {
                    name,
                    place,
                    calls: vec![index],
                }),
            }
        }
        groups.sort_by_key(|group| group.calls.last().copied());
        groups
    }

    /// Whether a crash state fails, without the syncs that were taken out.
    fn fails(&self, calls: &[Call<'_>], time: Option<Duration>) -> Result<bool, TestError> {
        let settings = self.run.settings;
        let files = self.files;
        let mut without = FileMedium::new(files.before, calls, files.model, files.oracle);
        // A sync also says that a version is complete: what counts as one stays the same.
        without.versions.clone_from(&files.versions);
        let jobs = settings.test.workers();
        let scratch = self.run.scratch.join("remarks");
        let start = |number| FileChecker::start(&without, self.setup, &scratch, number, jobs);
        let mut checkers = (0..jobs).map(start).collect::<Result<Vec<_>, _>>()?;
        for checker in &mut checkers {
            *checker.limits() = self.limits;
        }
        let exploration = Exploration {
            medium: &without,
            limits: Budget {
                time,
                ..settings.test.budget.of_exploration()
            },
            prune: false,
            count_lost: false,
            journal: None,
            known: &[],
            watcher: &Progress(&Silent),
        };
        let mut strategies: [Box<dyn Strategy>; 1] = [Box::new(Bounded::new(1))];
        let explored = explore::explore(&exploration, &mut strategies, &mut checkers)?;
        let cut = explored.statistics.points_left > 0 || explored.statistics.points_cut > 0;
        // What was not tried might fail.
        Ok(!explored.failing.is_empty() || explored.statistics.unstable > 0 || cut)
    }

    fn finding(&self, group: &Group) -> Finding {
        let first = &self.files.calls[group.calls[0]];
        let model = self.files.model.name();
        let count = group.calls.len() as u64;
        Finding {
            rule: EXTRA_SYNC.id.to_owned(),
            severity: EXTRA_SYNC.severity,
            count,
            total: count,
            message: format!(
                "`{}` could go: without it, no crash state that was tried fails",
                first.text
            ),
            help: format!(
                "judged by this recording on {model}; other file systems and other workloads may \
                 need it"
            ),
            location: group.place.clone(),
            stack: describe::stack(self.recording, first),
            history: Vec::new(),
            place: None,
            first_order: first.order,
            model: model.to_owned(),
            crash: None,
        }
    }
}
