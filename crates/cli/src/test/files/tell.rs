//! From causes to findings about files: which calls, where in the program, what a crash leaves, what
//! would prevent it, and which file systems allow it.

use crashpoint_check::files::oracle::acknowledged_story;
use crashpoint_check::files::{FileChecker, FileOracle, Files, Layout, behaviours};
use crashpoint_check::launch::Paths;
use crashpoint_check::minimise::{Cause, Causes, Kind};
use crashpoint_check::server::{End, Ended};
use crashpoint_check::subject::{Checker as _, Content as _, Subject as _};
use crashpoint_check::timeline::Phase;
use crashpoint_persist::files::{MicroOp, Model};
use crashpoint_persist::graph::NodeId;
use crashpoint_report::{Crash, Finding, Location, Severity, Spot, Step};
use crashpoint_states::representative::Facts;
use crashpoint_trace::files::{Call, FileRecording, SystemCall};

use crashpoint_explain::files::replay::{self, Description};
use crashpoint_explain::files::{describe as words, fix};

use super::{FilesError, Test};
use crate::test::{TestError, target, tell};
use crashpoint_explain::picture::{self, Picture};

/// Other models that have a say.
pub fn other_models(model: &Model) -> Vec<Model> {
    MODELS
        .iter()
        .filter(|name| **name != model.name())
        .filter_map(|name| Model::builtin(name))
        .collect()
}

/// File systems as they are mounted by default, and what POSIX says.
const MODELS: [&str; 6] = [
    "posix",
    "ext4-ordered",
    "ext4-writeback",
    "ext4-journal",
    "xfs",
    "btrfs",
];

pub struct Teller<'t, 'a> {
    pub test: &'t Test<'t>,
    pub recording: &'a FileRecording,
    pub files: &'t Files<'a>,
}

/// What a check says, in a sentence.
pub fn verdict(files: &Files<'_>, phase: Phase, ended: &Ended) -> String {
    verdict_of(files, files.printed(files.list(phase)), ended)
}

/// The same, after this was printed.
pub fn verdict_of(files: &Files<'_>, printed: &[u8], ended: &Ended) -> String {
    let said = [&ended.stderr, &ended.stdout].into_iter().find_map(|text| {
        let text = String::from_utf8_lossy(text).into_owned();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.map(|line| format!(": {}", line.trim()))
    });
    let said = said.unwrap_or_default();
    match (files.oracle, ended.end) {
        (FileOracle::WholeFiles, _) => {
            let lines = String::from_utf8_lossy(&ended.stderr);
            lines.lines().collect::<Vec<_>>().join("; ")
        }
        (FileOracle::Acknowledged, End::Exited(0)) => {
            acknowledged_story(&files.printed, printed, &ended.stdout)
        }
        (FileOracle::Acknowledged | FileOracle::Checker, end) => format!("the checker {end}{said}"),
    }
}

fn category(files: &Files<'_>, cause: &Cause, ended: &Ended) -> &'static str {
    match (ended.end, files.oracle) {
        (End::Killed { .. }, _) => "crash in recovery",
        (End::TimedOut, _) => "hang",
        (End::TooMuchOutput, _) => "endless output",
        (End::Exited(_), FileOracle::WholeFiles) => "damaged file",
        (End::Exited(_), FileOracle::Checker | FileOracle::Acknowledged) => match cause.kind {
            Kind::Durability => "lost",
            Kind::Ordering | Kind::Atomicity => "inconsistent",
        },
    }
}

impl<'a> Teller<'_, 'a> {
    fn op(&self, node: NodeId) -> &MicroOp<'a> {
        &self.files.nodes[node.index()]
    }

    fn call(&self, node: NodeId) -> &Call<'a> {
        &self.files.calls[self.op(node).call as usize]
    }

    /// Where a node comes from, as far as causes are told apart by it: the line in the source, or
    /// else the call and what kind of file it is about.
    fn told(&self, node: NodeId) -> Location {
        let call = self.call(node);
        let place = words::place(self.recording, call);
        place.unwrap_or_else(|| {
            let name = call.name();
            let digits = |c: char| if c.is_ascii_digit() { '#' } else { c };
            let path: String = self.op(node).path.chars().map(digits).collect();
            Location {
                file: format!("{name} {path}"),
                line: 0,
                column: 0,
                function: name.to_owned(),
            }
        })
    }

    /// A call may be several micro-operations, of which some went ahead: the others of that call, or
    /// of one like it, are no news where something else was needed too.
    fn without_own_halves(&self, cause: &mut Cause) {
        let Some(ahead) = cause.ahead.map(|node| self.call(node).text) else {
            return;
        };
        let other = |node: &NodeId| self.call(*node).text != ahead;
        if cause.needed.iter().any(other) {
            cause.needed.retain(other);
        }
    }

    /// Causes with the same root are one.
    pub fn merge(&self, causes: &mut Causes) {
        tell::merge_by(causes, |_, node| Some(self.told(node)));
        for cause in &mut causes.causes {
            self.without_own_halves(cause);
        }
    }

    /// Runs each cause's state once more for what is said about it, asks the other models, and
    /// writes what replays it. What no longer fails is no finding.
    pub fn findings(
        &self,
        causes: &mut Causes,
        others: &'a [Model],
        checker: &mut FileChecker<'_, 'a>,
    ) -> Result<Vec<Finding>, TestError>
    where
        'a: 'a,
    {
        let mut findings = Vec::new();
        let all = std::mem::take(&mut causes.causes);
        let facts = match all.is_empty() {
            true => Facts::default(),
            false => behaviours::facts(self.files),
        };
        for cause in all {
            checker.rewind()?;
            let order = fix::order_of(self.files, cause.state.point);
            checker.advance(&causes.durable[..cause.state.durable], order)?;
            let kept: Vec<NodeId> = cause.state.kept.iter().map(|id| NodeId(*id)).collect();
            let variants = checker.variants(&kept);
            let layout = checker.patch(&kept, cause.state.variant.min(variants - 1));
            let phase = cause.state.phase;
            let ended = checker.run(&layout, phase, false)?;
            if !self.files.observe(phase, &ended).fails(phase) {
                continue;
            }
            let mut possible = vec![self.files.model.name().to_owned()];
            let mut impossible = Vec::new();
            for other in others {
                let is_possible = fix::is_possible_on(self.files, other, &cause, order, checker)?;
                let list = if is_possible {
                    &mut possible
                } else {
                    &mut impossible
                };
                list.push(other.name().to_owned());
            }
            let number = findings.len() + 1;
            let folder = self.test.held.file("findings").join(number.to_string());
            let mut finding = self.finding(&cause, &ended, &tell::shown(&folder));
            if let Some(crash) = &mut finding.crash {
                crash.possible_on = possible;
                crash.impossible_on = impossible;
            }
            self.write(&folder, &cause, &layout, &finding)?;
            let picture = Picture {
                title: format!("{}: {}", finding.rule, finding.message),
                facts: &facts,
                nodes: picture::fates(&cause.state.kept, &cause.state.lost),
                tell: &|node| words::told(self.recording, self.call(node)),
            };
            picture::write(&folder, &picture.graph()).map_err(super::io_error(&folder))?;
            findings.push(finding);
            causes.causes.push(cause);
        }
        Ok(findings)
    }

    fn write(
        &self,
        folder: &std::path::Path,
        cause: &Cause,
        layout: &Layout<'_>,
        finding: &Finding,
    ) -> Result<(), FilesError> {
        let settings = self.test.settings;
        let mut description = Description::new(self.files.oracle, self.files.model.name());
        description.seconds = settings.test.timeout.as_secs_f64();
        description.found = finding
            .crash
            .as_ref()
            .map_or(String::new(), |c| c.found.clone());
        let lost = cause.state.lost.iter().map(|id| self.op(NodeId(*id)));
        description.lost = lost.map(words::lost).collect();
        if let Some(check) = &settings.test.check {
            let launch = target::launch(check);
            let command = launch.fill(&Paths {
                pool: "{dir}".into(),
                ops: "{ops}".into(),
                printed: "{printed}".into(),
            });
            let words = command.words.iter();
            let words = words.map(|word| word.to_string_lossy().into_owned());
            description.check = Some(words.collect());
            let directory = std::path::absolute(&command.directory);
            let here = || std::env::current_dir().unwrap_or_default();
            description.directory = directory.unwrap_or_else(|_| here());
        }
        let printed = self.files.printed(self.files.list(cause.state.phase));
        let written = replay::write(folder, &description, layout, printed, &self.files.printed);
        written.map_err(|source| FilesError::Io {
            path: folder.to_owned(),
            source,
        })
    }

    /// Distinct calls, in order.
    fn spots(&self, nodes: &[NodeId]) -> Vec<Spot> {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        let mut spots: Vec<Spot> = Vec::new();
        for node in nodes {
            let spot = words::spot(self.recording, self.call(node));
            let same = |known: &Spot| match (&known.location, &spot.location) {
                (Some(known), Some(new)) => known.file == new.file && known.line == new.line,
                (None, None) => known.call == spot.call,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if !spots.iter().any(same) {
                spots.push(spot);
            }
        }
        spots
    }

    fn finding(&self, cause: &Cause, ended: &Ended, folder: &str) -> Finding {
        let main = match cause.kind {
            Kind::Ordering | Kind::Atomicity => cause.ahead.or(cause.needed.first().copied()),
            Kind::Durability => cause.needed.first().copied(),
        };
        let phase = cause.state.phase;
        let (operation, acknowledged) = match phase {
            Phase::Opening => (None, false),
            Phase::In(operation) | Phase::Amid { operation, .. } => {
                (self.operation(operation), false)
            }
            Phase::After(operation) => (self.operation(operation), true),
        };
        let syncs = fix::syncs(self.files, cause);
        let call = main.map(|node| self.call(node));
        Finding {
            rule: tell::rule_of(cause.kind).to_owned(),
            severity: Severity::Error,
            count: cause.states,
            total: cause.states,
            message: self.message(cause),
            help: self.help(cause, syncs.as_deref()),
            location: call.and_then(|call| words::place(self.recording, call)),
            stack: call.map_or_else(Vec::new, |call| words::stack(self.recording, call)),
            history: self.history(cause),
            place: None,
            first_order: call.map_or(0, |call| call.order),
            model: self.files.model.name().to_owned(),
            crash: Some(Crash {
                category: category(self.files, cause, ended).to_owned(),
                operation,
                acknowledged,
                needed: self.spots(&cause.needed),
                ahead: cause
                    .ahead
                    .map(|node| words::spot(self.recording, self.call(node))),
                expected: Vec::new(),
                found: verdict(self.files, phase, ended),
                states: cause.states,
                found_by: cause.found_by.to_owned(),
                fix_verified: syncs.is_some(),
                because: self.because(cause),
                replay: format!("crashpoint replay {folder}"),
                ..Crash::default()
            }),
        }
    }

    /// An operation is what ends with an output.
    fn operation(&self, operation: u32) -> Option<(u64, String)> {
        let all = String::from_utf8_lossy(&self.files.printed).into_owned();
        let number = u64::from(operation) + 1;
        let line = all.lines().nth(operation as usize);
        let text = line.map_or("what follows the last output".to_owned(), |line| {
            format!("the one that prints `{line}`")
        });
        (self.files.outputs() > 0).then_some((number, text))
    }

    fn because(&self, cause: &Cause) -> String {
        let lost = cause.state.lost.first().map(|id| NodeId(*id));
        let Some(node) = lost.or(cause.needed.first().copied()) else {
            return String::new();
        };
        let reason = self.files.model.explain(&self.op(node).kind);
        format!(
            "{}: {} ({})",
            self.files.model.name(),
            reason.says,
            reason.rule
        )
    }

    fn message(&self, cause: &Cause) -> String {
        let lost = words::all_lost(cause.needed.iter().map(|id| self.op(*id)));
        let ahead = cause.ahead.map(|node| self.call(node).text);
        match (cause.kind, ahead) {
            (Kind::Ordering, Some(ahead)) => {
                format!("`{ahead}` can be durable without {lost}")
            }
            (Kind::Ordering, None) => format!("{lost} can be lost alone"),
            (Kind::Durability, _) => format!("{lost} can be lost after it was acknowledged"),
            (Kind::Atomicity, Some(ahead)) => {
                format!("a crash right after `{ahead}` leaves what is neither old nor new")
            }
            (Kind::Atomicity, None) => "a crash leaves what is neither old nor new".to_owned(),
        }
    }

    fn help(&self, cause: &Cause, syncs: Option<&[fix::Sync]>) -> String {
        if let Some(syncs) = syncs {
            let texts = syncs.iter().map(|sync| self.sync_text(cause, sync));
            let texts: Vec<String> = texts.collect();
            return format!(
                "{} makes every failing state of this finding impossible (checked on this \
                 recording)",
                texts.join(" and ")
            );
        }
        let is_store = |node: NodeId| self.call(node).number == SystemCall::STORE;
        let turned = cause.ahead.is_some_and(|ahead| {
            let later = |needed: &NodeId| *needed > ahead && is_store(*needed);
            is_store(ahead) && cause.needed.iter().all(later)
        });
        match cause.kind {
            Kind::Atomicity if turned => "no sync helps where it is: store (2) before (1), and \
                                          sync in between unless both lie in one sector; or keep \
                                          a journal"
                .to_owned(),
            Kind::Atomicity => "no sync helps: write a new file, sync it and rename it over the \
                                old one, or keep a journal"
                .to_owned(),
            Kind::Ordering | Kind::Durability => {
                "make it durable, by a sync that covers it, before anything builds on it".to_owned()
            }
        }
    }

    fn sync_text(&self, cause: &Cause, sync: &fix::Sync) -> String {
        let call = &self.files.calls[sync.behind as usize];
        let needed = cause.needed.iter().map(|id| self.op(*id));
        let own = needed.clone().find(|op| op.kind.inode() == sync.inode);
        let what = match own {
            Some(op) => format!("`{}`", op.path),
            None => needed
                .clone()
                .find(|op| op.call == sync.behind)
                .and_then(|op| op.path.rsplit_once('/'))
                .map_or("the folder".to_owned(), |(folder, _)| {
                    format!("the directory `{folder}`")
                }),
        };
        let place = words::place(self.recording, call);
        let at = place.map_or_else(
            || format!("after `{}`", call.text),
            |at| format!("after {}:{}", short(&at.file), at.line),
        );
        format!("`fsync` of {what} {at}")
    }

    fn history(&self, cause: &Cause) -> Vec<Step> {
        let step = |node: NodeId, what: String| {
            let call = self.call(node);
            Step {
                what,
                location: words::place(self.recording, call),
                order: call.order,
                thread: Some(call.thread),
            }
        };
        let mut steps: Vec<Step> = Vec::new();
        let mut add = |new: Step| {
            if !steps.iter().any(|known| known.order == new.order) {
                steps.push(new);
            }
        };
        if let Some(ahead) = cause.ahead {
            let text = self.call(ahead).text;
            add(step(ahead, format!("`{text}` is durable")));
        }
        let mut needed = cause.needed.clone();
        needed.sort_unstable();
        for node in needed {
            let call = self.call(node);
            let of_call = cause
                .needed
                .iter()
                .filter(|id| self.op(**id).call == self.op(node).call);
            let what = words::all_lost(of_call.map(|id| self.op(*id)));
            let text = match cause.kind {
                Kind::Ordering | Kind::Durability => {
                    format!("`{}`: {what} is lost", call.text)
                }
                Kind::Atomicity => format!("`{}` would make it whole", call.text),
            };
            add(step(node, text));
        }
        steps.sort_by_key(|step| step.order);
        steps
    }
}

fn short(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}
