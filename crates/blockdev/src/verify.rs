//! Where do the models and the kernel disagree?
//!
//! Every litmus test runs on real file systems ([`observe()`]). A state that is seen and that the
//! model of the file system forbids is a hole in the model: programs that are told to be safe may
//! not be. A state that the model allows and that is not seen means little: a model may be careful
//! where the kernel promises nothing, and only timings that happened are known.
//!
//! What is compared is finer than what the tests expect: after each call, the states seen from then
//! on against those that the model allows from then on. So a loss of what a sync had covered is
//! noticed, though the same state was allowed before the sync.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crashpoint_persist::files::Model;
use crashpoint_persist::files::litmus::Litmus;
use rustix::fs::Mode;

use crate::allowed::{Allowed, allowed, describe};
use crate::errors::LabError;
use crate::execute::Executor;
use crate::file_system::FileSystem;
use crate::images::Choice;
use crate::lab::Lab;
use crate::observe::{Effort, LookedAt, ObserveError, Observed, Program, Sighting, observe};
use crate::rig::Rig;
use crate::summary::matches;
use crate::tree::FolderTree;

#[derive(Clone, Copy, Debug)]
pub struct VerifyPlan<'a> {
    pub file_systems: &'a [FileSystem],
    pub litmus: &'a [Litmus],
    /// In all; file systems are looked at side by side.
    pub time: Duration,
    /// Images for each test on each file system.
    pub images: usize,
    pub choice: Choice,
}

/// One test on one file system.
#[derive(Clone, Debug)]
pub struct Verified {
    pub file_system: FileSystem,
    pub litmus: String,
    pub rules: Vec<String>,
    pub outcome: LitmusOutcome,
}

#[derive(Clone, Debug)]
pub enum LitmusOutcome {
    Compared(Comparison),
    /// The test cannot be run: the file system lacks a call, say.
    Failed(String),
}

#[derive(Clone, Debug)]
pub struct Comparison {
    /// Seen, though the model forbids them.
    pub holes: Vec<Hole>,
    /// Different trees that the model allows at any time, and how many of them were seen.
    pub allowed: usize,
    pub seen: usize,
    pub unseen: Vec<String>,
    pub looked_at: LookedAt,
}

/// A state that was seen and that is forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    pub state: String,
    /// Whether the model allows the state at an earlier time: then something durable was lost.
    pub allowed_earlier: bool,
    /// The last call that had returned, and the one that may have been under way.
    pub after: Option<String>,
    pub before: Option<String>,
    pub sighting: Sighting,
}

/// Runs the tests; `told` hears of each as it is done, from several threads.
pub fn verify(
    plan: &VerifyPlan<'_>,
    told: &(dyn Fn(&Verified) + Sync),
) -> Result<Vec<Verified>, LabError> {
    let lacks = Lab::lacks(plan.file_systems);
    if !lacks.is_empty() {
        return Err(LabError::Needs(lacks));
    }
    let end = Instant::now() + plan.time;
    thread::scope(|scope| {
        let lanes = plan.file_systems.iter().map(|file_system| {
            scope.spawn(move || Lab::run(|lab| lane(lab, *file_system, plan, end, told)))
        });
        let lanes: Vec<_> = lanes.collect();
        let mut all = Vec::new();
        for lane in lanes {
            let verified = lane
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.extend(verified?);
        }
        Ok(all)
    })
}

/// All tests on one file system.
fn lane(
    lab: &Lab,
    file_system: FileSystem,
    plan: &VerifyPlan<'_>,
    end: Instant,
    told: &(dyn Fn(&Verified) + Sync),
) -> Result<Vec<Verified>, LabError> {
    // Of this thread alone: modes of new files are part of what is compared.
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    let rig = Rig::new(lab, file_system, 0)?;
    let model = Model::builtin(file_system.model()).expect("each file system has a model");
    let mut all = Vec::new();
    for (number, litmus) in plan.litmus.iter().enumerate() {
        let left = (plan.litmus.len() - number) as u32;
        let effort = Effort {
            time: end.saturating_duration_since(Instant::now()) / left,
            images: plan.images,
            choice: plan.choice,
        };
        let program = LitmusProgram {
            litmus,
            model: &model,
        };
        let outcome = match observe(&rig, &program, &effort) {
            Ok(observed) => compare(&model, litmus, observed),
            Err(ObserveError::Program(error)) => LitmusOutcome::Failed(error.to_string()),
            Err(ObserveError::Lab(error)) => return Err(error),
        };
        let verified = Verified {
            file_system,
            litmus: litmus.name.clone(),
            rules: litmus.rules.clone(),
            outcome,
        };
        told(&verified);
        all.push(verified);
    }
    Ok(all)
}

struct LitmusProgram<'a> {
    litmus: &'a Litmus,
    model: &'a Model,
}

impl Program for LitmusProgram<'_> {
    fn prepare(&self, folder: &Path) -> io::Result<()> {
        let mut executor = Executor::new(folder);
        let mut setup = self.litmus.setup.iter();
        setup.try_for_each(|op| executor.execute(op))
    }

    fn run(&self, folder: &Path, done: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let mut executor = Executor::new(folder);
        for op in &self.litmus.program {
            executor.execute(op)?;
            done()?;
        }
        Ok(())
    }

    fn describe(&self, folder: &Path) -> io::Result<String> {
        let tree = FolderTree::read(folder)?;
        Ok(describe(self.model, &tree.before()))
    }
}

fn compare(model: &Model, litmus: &Litmus, observed: Observed) -> LitmusOutcome {
    let (before, calls) = litmus.calls();
    let Allowed { states, truncated } = allowed(model, &before, &calls);
    if truncated {
        return LitmusOutcome::Failed("the model allows more states than can be listed".to_owned());
    }
    let text = |index: usize| calls.get(index).map(|call| call.text.to_owned());
    let is_allowed = |states: &BTreeSet<String>, seen: &str| {
        states.contains(seen) || states.iter().any(|state| matches(state, seen))
    };
    let mut holes = Vec::new();
    for ((returned, state), sighting) in &observed.states {
        let returned = *returned as usize;
        if !is_allowed(&states[returned], state) {
            let mut earlier = states[..returned].iter();
            holes.push(Hole {
                state: state.clone(),
                allowed_earlier: earlier.any(|states| is_allowed(states, state)),
                after: returned.checked_sub(1).and_then(text),
                before: text(returned),
                sighting: *sighting,
            });
        }
    }
    let any_time: BTreeSet<&str> = states.iter().flatten().map(String::as_str).collect();
    let seen: BTreeSet<&str> = observed.states.keys().map(|(_, state)| &**state).collect();
    let was_seen = |state: &str| seen.iter().any(|seen| matches(state, seen));
    let (seen, unseen): (Vec<&str>, Vec<&str>) = any_time.iter().partition(|state| was_seen(state));
    LitmusOutcome::Compared(Comparison {
        holes,
        allowed: any_time.len(),
        seen: seen.len(),
        unseen: unseen.into_iter().map(str::to_owned).collect(),
        looked_at: observed.looked_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::ImageKind;
    use crate::observe::Circumstance;

    /// What comes of seeing these states after so many calls.
    fn compared(seen: &[(u32, &str)]) -> Comparison {
        let text = "litmus l\nprogram\n  create f\n  fsync f\n  create g\n";
        let litmus = Litmus::parse(text).unwrap().remove(0);
        let sighting = Sighting {
            circumstance: Circumstance::Unmount,
            kind: ImageKind::Prefix,
            images: 1,
        };
        let states = seen.iter();
        let observed = Observed {
            states: states
                .map(|(returned, state)| ((*returned, (*state).to_owned()), sighting))
                .collect(),
            ..Observed::default()
        };
        match compare(&Model::builtin("ext4-ordered").unwrap(), &litmus, observed) {
            LitmusOutcome::Compared(comparison) => comparison,
            LitmusOutcome::Failed(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn what_a_model_forbids_is_a_hole_when_it_is_seen() {
        let comparison = compared(&[(0, "-"), (1, "g="), (3, "f= g=")]);
        let [hole] = &comparison.holes[..] else {
            panic!("{comparison:?}");
        };
        assert_eq!((&*hole.state, hole.allowed_earlier), ("g=", false));
        assert_eq!(hole.after.as_deref(), Some("create f"));
        assert_eq!(hole.before.as_deref(), Some("fsync f"));
        assert_eq!((comparison.allowed, comparison.seen), (3, 2));
        assert_eq!(comparison.unseen, ["f="]);
    }

    #[test]
    fn a_state_of_before_a_sync_is_a_hole_after_it() {
        let comparison = compared(&[(1, "-"), (2, "-")]);
        let [hole] = &comparison.holes[..] else {
            panic!("{comparison:?}");
        };
        assert!(hole.allowed_earlier);
        assert_eq!(hole.after.as_deref(), Some("fsync f"));
    }
}
