//! From causes to findings: source lines, what went wrong in words, and what replays it.

use std::path::PathBuf;
use std::time::Duration;

use crashpoint_check::engine::crash_points::Phase;
use crashpoint_check::engine::explore::Statistics;
use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::engine::minimise::{Cause, CauseKind, Causes};
use crashpoint_check::memory::behaviours;
use crashpoint_check::memory::plan::TestPlan;
use crashpoint_check::memory::references::{AllReferences, Forgotten};
use crashpoint_check::memory::timeline::Timeline;
use crashpoint_check::memory::worker::Worker;
use crashpoint_persist::graph::{Node, NodeId};
use crashpoint_report::resolve::Resolver;
use crashpoint_report::{
    Crash, Finding, Location, Place, Report, Rule, Severity, Spot, Step, TestFigures,
};
use crashpoint_states::representative::Facts;

use super::{Prepared, TestError, Tested, choose, plan};
use crate::config::Settings;
use crate::lint;
use crashpoint_campaign::output_dir::{FolderError, OutputDir};
use crashpoint_explain::manuals::{self, CrashRule};
use crashpoint_explain::outcome as story;
use crashpoint_explain::picture::{self, Picture};
use crashpoint_explain::replay::{self as replay_data, Replay};

/// What a cause looks like from outside.
pub struct Detail {
    pub category: &'static str,
    pub expected: Vec<String>,
    pub found: String,
    pub replay: Replay,
}

fn location(
    resolver: &Resolver<'_>,
    timeline: &Timeline,
    node: NodeId,
    outwards: usize,
) -> Option<Location> {
    let node = &timeline.nodes[node.index()];
    resolver.location_of(node.site, node.context, outwards)
}

/// Programs store through small functions of their own: where the stores of a cause stand in the
/// same line, they are told apart by who called it.
fn outwards(resolver: &Resolver<'_>, timeline: &Timeline, cause: &Cause) -> usize {
    let Some(ahead) = cause.ahead else { return 0 };
    let at = |node: NodeId| {
        let node = &timeline.nodes[node.index()];
        (node.site, node.context)
    };
    let needed = cause.needed.first();
    needed.map_or(0, |needed| {
        resolver.frames_in_common(at(ahead), at(*needed))
    })
}

/// Causes with the same root are one: a store that should have been made durable explains all that
/// goes wrong without it, and a store that goes ahead of several that one place in the program
/// should have made durable is one mistake.
pub fn merge(prepared: &Prepared, timeline: &Timeline, causes: &mut Causes) {
    let resolver = Resolver::new(&prepared.recording, &prepared.program);
    merge_by(causes, |cause, node| {
        let far = outwards(&resolver, timeline, cause);
        location(&resolver, timeline, node, far)
    });
}

/// The same for any way to tell where a node comes from.
pub fn merge_by(causes: &mut Causes, told: impl Fn(&Cause, NodeId) -> Option<Location>) {
    let mut merged: Vec<(Cause, Roots)> = Vec::new();
    for cause in std::mem::take(&mut causes.causes) {
        let mut cause = cause;
        let mut roots = Roots::of(&cause, |node| told(&cause, node));
        // What it connects becomes one with it.
        while let Some(at) = merged.iter().position(|(_, known)| known.meets(&roots)) {
            let (known, known_roots) = merged.remove(at);
            let mut one = known;
            absorb(&mut one, cause);
            cause = one;
            roots.absorb(known_roots);
        }
        merged.push((cause, roots));
    }
    merged.sort_by_key(|(cause, _)| (cause.state.point, cause.kind));
    causes.causes = merged.into_iter().map(|(cause, _)| cause).collect();
}

type Line = (String, u32);

/// By what causes are recognised.
struct Roots {
    kind: CauseKind,
    needed: Vec<Line>,
    /// The line that went ahead, with the functions of what it needed.
    ahead: Vec<(Line, String)>,
}

impl Roots {
    fn of(cause: &Cause, told: impl Fn(NodeId) -> Option<Location>) -> Roots {
        let line = |at: &Location| (at.file.clone(), at.line);
        let needed: Vec<Location> = cause.needed.iter().filter_map(|id| told(*id)).collect();
        let ahead = cause.ahead.and_then(&told);
        let functions = needed.iter().map(|at| at.function.clone());
        let pairs = functions.filter_map(|function| Some((line(ahead.as_ref()?), function)));
        Roots {
            kind: match cause.kind {
                CauseKind::Ordering | CauseKind::Durability => CauseKind::Ordering,
                CauseKind::Atomicity => CauseKind::Atomicity,
            },
            ahead: match needed.is_empty() {
                true => ahead.iter().map(|at| (line(at), String::new())).collect(),
                false => pairs.collect(),
            },
            needed: needed.iter().map(line).collect(),
        }
    }

    fn meets(&self, other: &Roots) -> bool {
        let same_needed = self.needed.iter().any(|line| other.needed.contains(line));
        let same_ahead = self.ahead.iter().any(|pair| other.ahead.contains(pair));
        self.kind == other.kind && (same_needed || same_ahead)
    }

    fn absorb(&mut self, other: Roots) {
        self.needed.extend(other.needed);
        self.ahead.extend(other.ahead);
    }
}

/// The smaller state tells the story of both.
fn absorb(known: &mut Cause, mut other: Cause) {
    // An order that is broken says more than that something is lost.
    let rank = |cause: &Cause| (cause.kind, cause.state.lost.len(), cause.state.point);
    if rank(&other) < rank(known) {
        std::mem::swap(known, &mut other);
    }
    known.states += other.states;
    known.fixed_by_persisting &= other.fixed_by_persisting;
    known.needed.extend(other.needed);
}

/// Runs each cause's state once more, with all the time it wants, for what it prints. One that no
/// longer fails is no finding.
pub fn details(
    plan: &TestPlan<'_>,
    timeline: &Timeline,
    references: &AllReferences,
    causes: &mut Causes,
    worker: &mut Worker<'_>,
) -> Result<Vec<Detail>, CheckError> {
    let mut order: Vec<usize> = (0..causes.causes.len()).collect();
    order.sort_by_key(|index| causes.causes[*index].state.durable);
    let mut found: Vec<Option<Detail>> = causes.causes.iter().map(|_| None).collect();
    let mut durable = 0;
    for index in order {
        let cause = &causes.causes[index];
        let new = &causes.durable[durable..cause.state.durable];
        worker.advance(new.iter().map(|id| &timeline.nodes[id.index()]))?;
        durable = cause.state.durable;
        let kept = cause
            .state
            .kept
            .iter()
            .map(|id| &timeline.nodes[*id as usize]);
        let patch = worker.image().patch(kept);
        let list_id = cause.state.phase.suffix();
        let acknowledged = matches!(cause.state.phase, Phase::Returned(_));
        let made = plan.suffixes.get(list_id);
        let list = made.suffix(list_id, acknowledged);
        let ended = worker.run(&patch, &list, false)?;
        let of_list = references.by_suffix.get(list_id.0 as usize);
        let of_list = of_list.and_then(Option::as_ref);
        let observed = plan.observe(list_id, &ended, &references.by_suffix);
        if !observed.fails(cause.state.phase) {
            continue;
        }
        let (category, expected, said) = story::describe(plan, cause, &ended, of_list);
        let mut image = worker.image().clone();
        for (word, value) in &patch {
            image.set_word(*word, *value);
        }
        found[index] = Some(Detail {
            category,
            expected,
            found: said,
            replay: Replay::new(plan, cause, image, list_id, of_list, &ended),
        });
    }
    let mut confirmed = found.iter().map(Option::is_some);
    causes.causes.retain(|_| confirmed.next().unwrap_or(false));
    Ok(found.into_iter().flatten().collect())
}

/// The findings of one exploration, written to folders with numbers from `first` on.
pub fn findings(
    settings: &Settings,
    held: &OutputDir,
    prepared: &Prepared,
    tested: &Tested,
    first: usize,
) -> Result<Vec<Finding>, TestError> {
    let resolver = Resolver::new(&prepared.recording, &prepared.program);
    let teller = Teller {
        settings,
        prepared,
        tested,
        resolver: &resolver,
    };
    let mut findings = Vec::new();
    let facts = match tested.causes.causes.is_empty() {
        true => Facts::default(),
        false => behaviours::facts(&prepared.recording, plan::model(settings.target.model)),
    };
    for (index, (cause, detail)) in tested.causes.causes.iter().zip(&tested.details).enumerate() {
        let folder = held.file("findings").join((index + first).to_string());
        replay_data::write(&folder, &detail.replay).map_err(|source| {
            TestError::Folder(FolderError::Io {
                path: folder.clone(),
                source,
            })
        })?;
        let finding = teller.finding(cause, detail, &shown(&folder));
        let picture = Picture {
            title: format!("{}: {}", finding.rule, finding.message),
            facts: &facts,
            nodes: picture::fates(&cause.state.kept, &cause.state.lost),
            tell: &|node| told(&resolver, &tested.timeline.nodes[node.index()]),
        };
        picture::write(&folder, &picture.graph()).map_err(|source| {
            TestError::Folder(FolderError::Io {
                path: folder.clone(),
                source,
            })
        })?;
        findings.push(finding);
    }
    let forgotten = tested.references.forgotten.first();
    findings.extend(forgotten.map(|first| teller.forgotten(first)));
    Ok(findings)
}

/// A store and where it was made, for pictures.
pub fn told(resolver: &Resolver<'_>, node: &Node) -> (String, String) {
    let place = resolver.location_of(node.site, node.context, 0).map(|at| {
        let file = at.file.rsplit('/').next().unwrap_or_default();
        format!("{file}:{} in {}", at.line, at.function)
    });
    let text = format!("store at {:#x}", node.address.offset());
    (text, place.unwrap_or_default())
}

pub fn report(
    settings: &Settings,
    held: &OutputDir,
    prepared: &Prepared,
    tested: &Tested,
    findings: Vec<Finding>,
    seconds: Vec<(String, f64)>,
) -> Report {
    let statistics = &tested.statistics;
    let total: f64 = seconds.iter().map(|(_, time)| time).sum();
    Report {
        recording: held.path.clone(),
        command: lint::command(&prepared.recording),
        figures: lint::figures(&prepared.recording, Duration::from_secs_f64(total)),
        rules: rules(),
        findings,
        problems: tested.problems.clone(),
        test: Some(TestFigures {
            model: plan::model(settings.target.model).name().to_owned(),
            operations: tested.timeline.operations.len() as u64,
            unexplained_states: tested.causes.unexplained,
            explaining_states: statistics.asked + tested.causes.checks,
            conditions: tested.conditions.clone(),
            strategy: tested.strategy.clone(),
            behaviours: tested.behaviours.0,
            representatives: tested.behaviours.1,
            ..figures(settings, statistics, seconds)
        }),
    }
}

/// What a search did, in numbers.
pub fn figures(
    settings: &Settings,
    statistics: &Statistics,
    seconds: Vec<(String, f64)>,
) -> TestFigures {
    let explore = seconds
        .iter()
        .filter(|(phase, _)| phase.starts_with("explore"));
    let explored: f64 = explore.map(|(_, time)| time).sum();
    TestFigures {
        strategy: choose::name(settings),
        crash_points: statistics.points,
        possible_states: statistics.possible.to_string(),
        possible_exact: statistics.exact,
        chosen_states: statistics.chosen,
        settled_states: statistics.known_to_fail,
        clusters: statistics.clusters,
        duplicate_states: statistics.duplicates,
        pruned_states: statistics.pruned,
        audited_states: statistics.audited,
        tried_states: statistics.tried,
        resumed_states: statistics.resumed,
        inconsistent_states: statistics.inconsistent,
        unstable_states: statistics.unstable,
        points_cut: statistics.points_cut,
        points_left: statistics.points_left,
        states_per_second: statistics.tried as f64 / explored.max(1e-9),
        by_strategy: by_strategy(statistics),
        seconds,
        ..TestFigures::default()
    }
}

/// Strategies of one name, one after the other, are one.
fn by_strategy(statistics: &Statistics) -> Vec<(String, u64, u64)> {
    let mut all: Vec<(String, u64, u64)> = Vec::new();
    for share in &statistics.by_strategy {
        match all.last_mut() {
            Some((name, chosen, tried)) if name == share.strategy => {
                *chosen += share.chosen;
                *tried += share.tried;
            }
            Some(_) | None => all.push((share.strategy.to_owned(), share.chosen, share.tried)),
        }
    }
    all
}

/// Relative to where we are, if that is shorter.
pub fn shown(path: &std::path::Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let relative = path.strip_prefix(&here).map(PathBuf::from);
    relative
        .unwrap_or_else(|_| path.to_owned())
        .display()
        .to_string()
}

/// The rules that every test asks.
pub fn rules() -> Vec<Rule> {
    let asked = [
        manuals::ORDERING,
        manuals::ATOMICITY,
        manuals::DURABILITY,
        manuals::RECOVERY,
        manuals::UNPERSISTED,
    ];
    asked.iter().map(CrashRule::describe).collect()
}

struct Teller<'t> {
    settings: &'t Settings,
    prepared: &'t Prepared,
    tested: &'t Tested,
    resolver: &'t Resolver<'t>,
}

impl Teller<'_> {
    fn location(&self, node: NodeId, outwards: usize) -> Option<Location> {
        location(self.resolver, &self.tested.timeline, node, outwards)
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
        let stored = &self.tested.timeline.nodes[node.index()];
        Step {
            what: what.to_owned(),
            location: self.location(node, outwards),
            order: stored.order,
            thread: Some(stored.thread.0),
        }
    }

    fn finding(&self, cause: &Cause, detail: &Detail, folder: &str) -> Finding {
        let far = outwards(self.resolver, &self.tested.timeline, cause);
        let needed = self.locations(&cause.needed, far);
        let ahead = cause.ahead.and_then(|node| self.location(node, far));
        let main = match cause.kind {
            CauseKind::Ordering | CauseKind::Atomicity => {
                cause.ahead.or(cause.needed.first().copied())
            }
            CauseKind::Durability => cause.needed.first().copied(),
        };
        let nodes = &self.tested.timeline.nodes;
        let stored = main.map(|node| &nodes[node.index()]);
        let stack = stored.map_or_else(Vec::new, |node| {
            self.resolver.stack(node.site, node.context)
        });
        let (message, help) = story::words(plan::model(self.settings.target.model), cause, &needed);
        let operation = cause.state.phase.operation();
        let acknowledged = matches!(cause.state.phase, Phase::Returned(_));
        let line = |operation: u32| {
            let line = self.prepared.workload.line(operation).to_owned();
            (u64::from(operation) + 1, line)
        };
        Finding {
            rule: rule_of(cause.kind).to_owned(),
            severity: Severity::Error,
            count: cause.states,
            total: cause.states,
            message,
            help,
            location: main.and_then(|node| self.location(node, far)),
            stack,
            history: self.history(cause, far),
            place: stored.map(|node| Place {
                file: self
                    .prepared
                    .recording
                    .file(node.address.file())
                    .path
                    .display()
                    .to_string(),
                offset: node.address.offset(),
                length: u64::from(node.length),
            }),
            first_order: stored.map_or(0, |node| node.order),
            model: plan::model(self.settings.target.model).name().to_owned(),
            crash: Some(Crash {
                category: detail.category.to_owned(),
                operation: operation.map(line),
                acknowledged,
                needed: needed.into_iter().map(Spot::from).collect(),
                ahead: ahead.map(Spot::from),
                expected: detail.expected.clone(),
                found: detail.found.clone(),
                states: cause.states,
                found_by: cause.found_by.to_owned(),
                mended: cause.fixed_by_persisting,
                replay: format!("crashpoint replay {folder}"),
                ..Crash::default()
            }),
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
                CauseKind::Atomicity => "this store would make it whole",
            };
            add(&mut steps, node, what);
        }
        steps.sort_by_key(|step| step.order);
        steps
    }

    /// Nothing was lost, and still it is not as it was.
    fn forgotten(&self, first: &Forgotten) -> Finding {
        let line = |operation: u32| self.prepared.workload.line(operation).to_owned();
        let count = self.tested.references.forgotten.len() as u64;
        Finding {
            rule: manuals::RECOVERY.id.to_owned(),
            severity: Severity::Error,
            count,
            total: count,
            message: "recovery forgets something though nothing was lost".to_owned(),
            help: "what the program needs after a restart must be in persistent memory, or be \
                   computed from it when the pool is opened"
                .to_owned(),
            location: None,
            stack: Vec::new(),
            history: Vec::new(),
            place: None,
            first_order: 0,
            model: plan::model(self.settings.target.model).name().to_owned(),
            crash: Some(Crash {
                category: "wrong after a restart".to_owned(),
                operation: Some((u64::from(first.operation) + 1, line(first.operation))),
                acknowledged: true,
                expected: vec![format!(
                    "`{}` prints {}",
                    line(first.at as u32),
                    first.expected
                )],
                found: format!("`{}` prints {}", line(first.at as u32), first.found),
                states: count,
                ..Crash::default()
            }),
        }
    }
}

pub fn rule_of(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Ordering => manuals::ORDERING.id,
        CauseKind::Atomicity => manuals::ATOMICITY.id,
        CauseKind::Durability => manuals::DURABILITY.id,
    }
}
