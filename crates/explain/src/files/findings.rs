//! Findings about files: which calls, where in the program, what a crash leaves, what would prevent
//! it, and which file systems allow it.

use std::io;
use std::path::Path;
use std::time::Duration;

use crashpoint_check::engine::crash_points::Phase;
use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::engine::medium::Medium as _;
use crashpoint_check::engine::minimise::{Cause, CauseKind};
use crashpoint_check::files::oracle::acknowledged_output;
use crashpoint_check::files::{FileChecker, FileMedium, FileOracle, behaviours};
use crashpoint_check::process::launch::Launch;
use crashpoint_check::process::message::checker_message;
use crashpoint_check::process::run::{FinishedRun, RunEnd};
use crashpoint_persist::files::{MicroOp, Model};
use crashpoint_persist::graph::NodeId;
use crashpoint_report::{Category, Crash, Finding, Location, Severity, Spot, Step};
use crashpoint_states::representative::Facts;
use crashpoint_trace::files::{Call, FileRecording, SystemCall};

use super::{describe, fix};
use crate::replay::FilesReplay;
use crate::{Explainer, FailedAgain, main_node, rule_of};

/// Explains causes of one recording.
pub struct FilesExplainer<'t, 'a> {
    pub recording: &'a FileRecording,
    pub files: &'t FileMedium<'a>,
    /// Models that are asked whether a finding is possible there too.
    pub others: &'a [Model],
    /// The command that checks a crashed folder, if there is one, and the time it may take.
    pub check: Option<&'t Launch>,
    pub timeout: Duration,
}

/// The models beside one that are asked: file systems as they are mounted by default, and POSIX.
pub fn other_models(model: &Model) -> Vec<Model> {
    let others = Model::MAIN_NAMES.iter();
    let others = others.filter(|name| **name != model.name());
    others.filter_map(|name| Model::builtin(name)).collect()
}

/// What a check says, in a sentence.
pub fn verdict(files: &FileMedium<'_>, phase: Phase, ended: &FinishedRun) -> String {
    verdict_of(files, files.printed(files.suffix(phase)), ended)
}

/// The same, after this was printed.
pub fn verdict_of(files: &FileMedium<'_>, printed: &[u8], ended: &FinishedRun) -> String {
    let said = checker_message(ended).map_or(String::new(), |line| format!(": {line}"));
    match (files.oracle, ended.end) {
        (FileOracle::WholeFiles, _) => {
            let lines = String::from_utf8_lossy(&ended.stderr);
            lines.lines().collect::<Vec<_>>().join("; ")
        }
        (FileOracle::Acknowledged, RunEnd::Exited(0)) => {
            acknowledged_output(&files.printed, printed, &ended.stdout)
        }
        (FileOracle::Acknowledged | FileOracle::Checker, end) => format!("the checker {end}{said}"),
    }
}

fn category(files: &FileMedium<'_>, cause: &Cause, ended: &FinishedRun) -> Category {
    match (ended.end, files.oracle) {
        (RunEnd::Killed { .. }, _) => Category::CrashInRecovery,
        (RunEnd::TimedOut, _) => Category::Hang,
        (RunEnd::TooMuchOutput, _) => Category::EndlessOutput,
        (RunEnd::Exited(_), FileOracle::WholeFiles) => Category::DamagedFile,
        (RunEnd::Exited(_), FileOracle::Checker | FileOracle::Acknowledged) => match cause.kind {
            CauseKind::Durability => Category::Lost,
            CauseKind::Ordering | CauseKind::Atomicity => Category::Inconsistent,
        },
    }
}

impl<'a> Explainer<FileChecker<'_, 'a>> for FilesExplainer<'_, 'a> {
    /// The line in the source, or else the call and what kind of file it is about.
    fn origin(&self, _: &Cause, node: NodeId) -> Option<Location> {
        let call = self.call(node);
        let place = describe::place(self.recording, call);
        place.or_else(|| {
            let name = call.name();
            let digits = |c: char| if c.is_ascii_digit() { '#' } else { c };
            let path: String = self.op(node).path.chars().map(digits).collect();
            Some(Location {
                file: format!("{name} {path}"),
                line: 0,
                column: 0,
                function: name.to_owned(),
            })
        })
    }

    /// A call may be several micro-operations, of which some went ahead: the others of that call, or
    /// of one like it, are no news where something else was needed too.
    fn simplify(&self, cause: &mut Cause) {
        let Some(ahead) = cause.ahead.map(|node| self.call(node).text) else {
            return;
        };
        let other = |node: &NodeId| self.call(*node).text != ahead;
        if cause.needed.iter().any(other) {
            cause.needed.retain(other);
        }
    }

    fn describe(&self, node: NodeId) -> (String, String) {
        describe::call(self.recording, self.call(node))
    }

    fn facts(&self) -> Facts {
        behaviours::facts(self.files)
    }

    fn finding(
        &self,
        failed: &mut FailedAgain<'_, FileChecker<'_, 'a>>,
    ) -> Result<Finding, CheckError> {
        let cause = failed.cause;
        let phase = cause.state.phase;
        let operation = phase.operation().and_then(|number| self.operation(number));
        let syncs = fix::syncs(self.files, cause);
        let call = main_node(cause).map(|node| self.call(node));
        let (possible_on, impossible_on) = self.possible_on(failed)?;
        Ok(Finding {
            rule: rule_of(cause.kind).to_owned(),
            severity: Severity::Error,
            count: cause.states,
            total: cause.states,
            message: self.message(cause),
            help: self.help(cause, syncs.as_deref()),
            location: call.and_then(|call| describe::place(self.recording, call)),
            stack: call.map_or_else(Vec::new, |call| describe::stack(self.recording, call)),
            history: self.history(cause),
            place: None,
            first_order: call.map_or(0, |call| call.order),
            model: self.files.model.name().to_owned(),
            crash: Some(Crash {
                category: category(self.files, cause, failed.ended),
                operation,
                acknowledged: matches!(phase, Phase::Returned(_)),
                needed: self.spots(&cause.needed),
                ahead: cause
                    .ahead
                    .map(|node| describe::spot(self.recording, self.call(node))),
                expected: Vec::new(),
                found: verdict(self.files, phase, failed.ended),
                states: cause.states,
                found_by: cause.found_by.to_owned(),
                fix_verified: syncs.is_some(),
                possible_on,
                impossible_on,
                because: self.because(cause),
                ..Crash::default()
            }),
        })
    }

    fn write_replay(
        &self,
        failed: &FailedAgain<'_, FileChecker<'_, 'a>>,
        finding: &Finding,
        folder: &Path,
    ) -> io::Result<()> {
        let cause = failed.cause;
        let found = finding.crash.as_ref().map(|crash| crash.found.clone());
        let lost = cause.state.lost.iter().map(|id| self.op(NodeId(*id)));
        FilesReplay {
            oracle: self.files.oracle,
            model: self.files.model.name(),
            timeout: self.timeout,
            found: found.unwrap_or_default(),
            lost: lost.map(describe::lost).collect(),
            check: self.check,
            layout: failed.patch,
            printed: self.files.printed(self.files.suffix(cause.state.phase)),
            all_printed: &self.files.printed,
        }
        .write(folder)
    }
}

impl<'a> FilesExplainer<'_, 'a> {
    fn op(&self, node: NodeId) -> &MicroOp<'a> {
        &self.files.nodes[node.index()]
    }

    fn call(&self, node: NodeId) -> &Call<'a> {
        &self.files.calls[self.op(node).call as usize]
    }

    /// The models under which the same loss fails too, and those under which it does not.
    fn possible_on(
        &self,
        failed: &mut FailedAgain<'_, FileChecker<'_, 'a>>,
    ) -> Result<(Vec<String>, Vec<String>), CheckError> {
        let mut possible = vec![self.files.model.name().to_owned()];
        let mut impossible = Vec::new();
        for other in self.others {
            let (cause, order) = (failed.cause, failed.order);
            if fix::is_possible_on(self.files, other, cause, order, failed.checker)? {
                possible.push(other.name().to_owned());
            } else {
                impossible.push(other.name().to_owned());
            }
        }
        Ok((possible, impossible))
    }

    /// Distinct calls, in order.
    fn spots(&self, nodes: &[NodeId]) -> Vec<Spot> {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        let mut spots: Vec<Spot> = Vec::new();
        for node in nodes {
            let spot = describe::spot(self.recording, self.call(node));
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
        let lost = describe::all_lost(cause.needed.iter().map(|id| self.op(*id)));
        let ahead = cause.ahead.map(|node| self.call(node).text);
        match (cause.kind, ahead) {
            (CauseKind::Ordering, Some(ahead)) => {
                format!("`{ahead}` can be durable without {lost}")
            }
            (CauseKind::Ordering, None) => format!("{lost} can be lost alone"),
            (CauseKind::Durability, _) => format!("{lost} can be lost after it was acknowledged"),
            (CauseKind::Atomicity, Some(ahead)) if cause.torn => {
                format!("`{ahead}` can tear: {lost} is lost, and the rest is durable")
            }
            (CauseKind::Atomicity, Some(ahead)) => {
                format!("a crash right after `{ahead}` leaves what is neither old nor new")
            }
            (CauseKind::Atomicity, None) => "a crash leaves what is neither old nor new".to_owned(),
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
            CauseKind::Atomicity if cause.torn => {
                "no sync helps, as power can fail inside of the call: let recovery recognise what is \
                 incomplete, by a checksum or a length that is checked, and leave it out"
                    .to_owned()
            }
            CauseKind::Atomicity if turned => {
                "no sync helps where it is: store (2) before (1), and \
                                          sync in between unless both lie in one sector; or keep \
                                          a journal"
                    .to_owned()
            }
            CauseKind::Atomicity => {
                "no sync helps: write a new file, sync it and rename it over the \
                                old one, or keep a journal"
                    .to_owned()
            }
            CauseKind::Ordering | CauseKind::Durability => {
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
        let place = describe::place(self.recording, call);
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
                location: describe::place(self.recording, call),
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
        if let Some(ahead) = cause.ahead
            && !cause.torn
        {
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
            let what = describe::all_lost(of_call.map(|id| self.op(*id)));
            let text = match cause.kind {
                CauseKind::Ordering | CauseKind::Durability => {
                    format!("`{}`: {what} is lost", call.text)
                }
                CauseKind::Atomicity if cause.torn => {
                    format!("`{}`: {what} is lost, and the rest is durable", call.text)
                }
                CauseKind::Atomicity => format!("`{}` would make it whole", call.text),
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
