//! Findings about persistent memory: source lines, what went wrong in words, and what replays it.

use std::io;
use std::path::Path;

use crashpoint_check::engine::crash_points::Phase;
use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::engine::minimise::{Cause, CauseKind};
use crashpoint_check::memory::behaviours;
use crashpoint_check::memory::judge::References;
use crashpoint_check::memory::medium::MemoryChecker;
use crashpoint_check::memory::plan::TestPlan;
use crashpoint_check::memory::references::Forgotten;
use crashpoint_check::memory::timeline::Timeline;
use crashpoint_persist::graph::{Model, NodeId};
use crashpoint_report::resolve::Resolver;
use crashpoint_report::{Category, Crash, FileRange, Finding, Location, Severity, Spot, Step};
use crashpoint_states::representative::Facts;

use crate::replay::MemoryReplay;
use crate::{Explainer, FailedAgain, main_node, manuals, outcome, rule_of};

/// Explains causes of one recording.
pub struct MemoryExplainer<'a> {
    pub plan: &'a TestPlan<'a>,
    pub timeline: &'a Timeline,
    pub references: &'a [Option<References>],
    pub resolver: &'a Resolver<'a>,
    /// The line of an operation, as the user knows it.
    pub operation_line: &'a dyn Fn(u32) -> String,
}

impl Explainer<MemoryChecker<'_, '_, '_>> for MemoryExplainer<'_> {
    fn origin(&self, cause: &Cause, node: NodeId) -> Option<Location> {
        self.location(node, self.outwards(cause))
    }

    fn describe(&self, node: NodeId) -> (String, String) {
        describe(self.resolver, self.timeline, node)
    }

    fn facts(&self) -> Facts {
        behaviours::facts(self.plan.recording, self.plan.model)
    }

    fn finding(
        &self,
        failed: &mut FailedAgain<'_, MemoryChecker<'_, '_, '_>>,
    ) -> Result<Finding, CheckError> {
        let cause = failed.cause;
        let far = self.outwards(cause);
        let needed = self.locations(&cause.needed, far);
        let ahead = cause.ahead.and_then(|node| self.location(node, far));
        let main = main_node(cause);
        let stored = main.map(|node| &self.timeline.nodes[node.index()]);
        let stack = stored.map_or_else(Vec::new, |node| {
            self.resolver.stack(node.site, node.context)
        });
        let model = self.plan.model;
        let (message, help) = outcome::words(model, cause, &needed);
        let references = self.references_of(cause.state.phase);
        let seen = outcome::describe(self.plan, cause, failed.ended, references);
        let operation = cause.state.phase.operation();
        Ok(Finding {
            rule: rule_of(cause.kind).to_owned(),
            severity: Severity::Error,
            count: cause.states,
            total: cause.states,
            message,
            help,
            location: main.and_then(|node| self.location(node, far)),
            stack,
            history: self.history(cause, far),
            place: stored.map(|node| {
                let file = self.plan.recording.file(node.address.file());
                FileRange {
                    file: file.path.display().to_string(),
                    offset: node.address.offset(),
                    length: u64::from(node.length),
                }
            }),
            first_order: stored.map_or(0, |node| node.order),
            model: model.name().to_owned(),
            crash: Some(Crash {
                category: seen.category,
                operation: operation.map(|number| self.operation(number)),
                acknowledged: matches!(cause.state.phase, Phase::Returned(_)),
                needed: needed.into_iter().map(Spot::from).collect(),
                ahead: ahead.map(Spot::from),
                expected: seen.expected,
                found: seen.found,
                states: cause.states,
                found_by: cause.found_by.to_owned(),
                fix_verified: cause.fixed_by_persisting,
                ..Crash::default()
            }),
        })
    }

    fn write_replay(
        &self,
        failed: &FailedAgain<'_, MemoryChecker<'_, '_, '_>>,
        _: &Finding,
        folder: &Path,
    ) -> io::Result<()> {
        let references = self.references_of(failed.cause.state.phase);
        let image = failed.checker.crashed_image(failed.patch);
        MemoryReplay::new(self.plan, failed.cause, image, references, failed.ended).write(folder)
    }
}

/// A store and where it was made, for pictures.
pub fn describe(resolver: &Resolver<'_>, timeline: &Timeline, node: NodeId) -> (String, String) {
    let node = &timeline.nodes[node.index()];
    let place = resolver.location_of(node.site, node.context, 0).map(|at| {
        let file = at.file.rsplit('/').next().unwrap_or_default();
        format!("{file}:{} in {}", at.line, at.function)
    });
    let text = format!("store at {:#x}", node.address.offset());
    (text, place.unwrap_or_default())
}

impl MemoryExplainer<'_> {
    fn operation(&self, number: u32) -> (u64, String) {
        (u64::from(number) + 1, (self.operation_line)(number))
    }

    fn references_of(&self, phase: Phase) -> Option<&References> {
        let of_list = self.references.get(phase.suffix().0 as usize);
        of_list.and_then(Option::as_ref)
    }

    fn location(&self, node: NodeId, outwards: usize) -> Option<Location> {
        let node = &self.timeline.nodes[node.index()];
        self.resolver.location_of(node.site, node.context, outwards)
    }

    /// Programs store through small functions of their own: where the stores of a cause stand in the
    /// same line, they are told apart by who called it.
    fn outwards(&self, cause: &Cause) -> usize {
        let Some(ahead) = cause.ahead else { return 0 };
        let at = |node: NodeId| {
            let node = &self.timeline.nodes[node.index()];
            (node.site, node.context)
        };
        let needed = cause.needed.first();
        needed.map_or(0, |needed| {
            self.resolver.frames_in_common(at(ahead), at(*needed))
        })
    }

    /// Distinct places of nodes, in order.
    fn locations(&self, nodes: &[NodeId], outwards: usize) -> Vec<Location> {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        let mut found: Vec<Location> = Vec::new();
        for location in nodes
            .iter()
            .filter_map(|node| self.location(*node, outwards))
        {
            let same =
                |known: &Location| known.file == location.file && known.line == location.line;
            if !found.iter().any(same) {
                found.push(location);
            }
        }
        found
    }

    fn step(&self, node: NodeId, what: &str, outwards: usize) -> Step {
        let stored = &self.timeline.nodes[node.index()];
        Step {
            what: what.to_owned(),
            location: self.location(node, outwards),
            order: stored.order,
            thread: Some(stored.thread.0),
        }
    }

    fn history(&self, cause: &Cause, outwards: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut lines: Vec<(String, u32)> = Vec::new();
        let mut add = |steps: &mut Vec<Step>, node: NodeId, what: &str| {
            let step = self.step(node, what, outwards);
            let line = step.location.as_ref().map(|at| (at.file.clone(), at.line));
            if line.as_ref().is_none_or(|line| !lines.contains(line)) {
                lines.extend(line);
                steps.push(step);
            }
        };
        let mut needed = cause.needed.clone();
        needed.sort_unstable();
        if let Some(ahead) = cause.ahead {
            let what = match cause.kind {
                CauseKind::Ordering => "this store is durable",
                CauseKind::Atomicity if cause.torn => "this part of the store is durable",
                CauseKind::Atomicity | CauseKind::Durability => {
                    "this store is durable, and power fails"
                }
            };
            add(&mut steps, ahead, what);
        }
        for node in needed {
            let what = match cause.kind {
                CauseKind::Ordering => "this store, which it needs, is lost",
                CauseKind::Durability => "this store is lost",
                CauseKind::Atomicity if cause.torn => "this part of the store is lost",
                CauseKind::Atomicity => "this store would make it whole",
            };
            add(&mut steps, node, what);
        }
        steps.sort_by_key(|step| step.order);
        steps
    }
}

/// Nothing was lost, and still it is not as it was. `operation_line` is the line of an operation, as
/// the user knows it.
pub fn forgotten(
    all: &[Forgotten],
    model: Model,
    operation_line: &dyn Fn(u32) -> String,
) -> Option<Finding> {
    let first = all.first()?;
    let count = all.len() as u64;
    let asked = operation_line(first.at as u32);
    Some(Finding {
        rule: manuals::RECOVERY.id.to_owned(),
        severity: Severity::Error,
        count,
        total: count,
        message: "recovery forgets something though nothing was lost".to_owned(),
        help:
            "what the program needs after a restart must be in persistent memory, or be computed \
               from it when the pool is opened"
                .to_owned(),
        location: None,
        stack: Vec::new(),
        history: Vec::new(),
        place: None,
        first_order: 0,
        model: model.name().to_owned(),
        crash: Some(Crash {
            category: Category::WrongAfterARestart,
            operation: Some((
                u64::from(first.operation) + 1,
                operation_line(first.operation),
            )),
            acknowledged: true,
            expected: vec![format!("`{asked}` prints {}", first.expected)],
            found: format!("`{asked}` prints {}", first.found),
            states: count,
            ..Crash::default()
        }),
    })
}
