//! What would make a finding impossible, and what other file systems say about it.
//!
//! A fix is a sync that is put into the recording behind the calls that were needed. It is told only
//! if, with it, all that was needed is durable before the next call: then no failing state of the
//! finding can exist. Calls stay as they are, so this says nothing about what the program would do
//! differently.

use std::ops::ControlFlow;

use crashpoint_check::engine::medium::CheckError;
use crashpoint_check::engine::medium::{Checker as _, DurableState as _, Medium as _};
use crashpoint_check::engine::minimise::{Cause, CauseKind};
use crashpoint_check::files::{FileChecker, FileMedium};
use crashpoint_persist::files::{FileWalker, MicroOp, MicroOpKind, Model};
use crashpoint_persist::graph::{NodeId, Walker as _};
use crashpoint_trace::files::{Call, Effect, InodeId, SyncKind};

/// What is to be synced, and behind which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sync {
    /// Its place among the calls.
    pub behind: u32,
    pub inode: InodeId,
}

/// Syncs that make the needed calls durable before anything else happens, if there are such.
pub fn syncs(files: &FileMedium<'_>, cause: &Cause) -> Option<Vec<Sync>> {
    if cause.kind == CauseKind::Atomicity || cause.needed.is_empty() {
        return None;
    }
    if cause
        .ahead
        .is_some_and(|ahead| cause.needed.iter().any(|id| *id > ahead))
    {
        return None;
    }
    let mut wanted: Vec<Sync> = Vec::new();
    for id in &cause.needed {
        let op = &files.nodes[id.index()];
        let inode = op.kind.kept_by();
        match wanted.iter_mut().find(|sync| sync.inode == inode) {
            Some(sync) => sync.behind = sync.behind.max(op.call),
            None => wanted.push(Sync {
                behind: op.call,
                inode,
            }),
        }
    }
    wanted.sort_unstable();
    let last = wanted.iter().map(|sync| sync.behind).max()?;
    // What went ahead has to come behind the last of them.
    let ahead = cause.ahead.map(|ahead| files.nodes[ahead.index()].call);
    if ahead.is_some_and(|ahead| ahead <= last) {
        return None;
    }
    let mut walker = FileWalker::new(files.model, files.before);
    let mut durable: Vec<NodeId> = Vec::new();
    for (number, call) in (0u32..).zip(files.calls).take_while(|(at, _)| *at <= last) {
        walker.feed(call);
        for sync in wanted.iter().filter(|sync| sync.behind == number) {
            walker.feed(&Call {
                effects: vec![Effect::Sync(SyncKind::Full(sync.inode))],
                ..call.clone()
            });
        }
        durable.extend(walker.take_durable());
    }
    let all = cause.needed.iter().all(|id| durable.contains(id));
    all.then_some(wanted)
}

/// Whether two micro-operations, of different models, are about the same.
fn is_same(one: &MicroOp<'_>, two: &MicroOp<'_>) -> bool {
    let range = |kind: &MicroOpKind<'_>| match kind {
        MicroOpKind::Write { offset, data, .. } => Some((*offset, offset + data.len())),
        _ => None,
    };
    let overlap = match (range(&one.kind), range(&two.kind)) {
        (Some(one), Some(two)) => one.0 < two.1 && two.0 < one.1,
        (None, None) => one.kind.is_namespace() == two.kind.is_namespace(),
        // Some models let a size go with its data.
        (Some(_), None) => grows(&one.kind) && matches!(two.kind, MicroOpKind::Grow { .. }),
        (None, Some(_)) => grows(&two.kind) && matches!(one.kind, MicroOpKind::Grow { .. }),
    };
    one.call == two.call && one.kind.inode() == two.kind.inode() && overlap
}

fn grows(kind: &MicroOpKind<'_>) -> bool {
    matches!(kind, MicroOpKind::Write { grow: Some(_), .. })
}

/// Whether another model lets the same be lost at the same crash point, with the same result.
///
/// Two states are tried: all that can be kept without what was lost, and the least that goes with
/// what was kept. Where neither fails, it is not possible there as it is here.
pub fn is_possible_on<'a>(
    files: &FileMedium<'a>,
    model: &'a Model,
    cause: &Cause,
    order: u64,
    checker: &mut FileChecker<'_, 'a>,
) -> Result<bool, CheckError> {
    let other = FileMedium::new(files.before, files.calls, model, files.oracle);
    let ops = |ids: &[u32]| -> Vec<&MicroOp<'_>> {
        ids.iter().map(|id| &files.nodes[*id as usize]).collect()
    };
    let (lost, kept) = (ops(&cause.state.lost), ops(&cause.state.kept));
    let among = |ops: &[&MicroOp<'_>], op: &MicroOp<'_>| ops.iter().any(|one| is_same(one, op));
    let mut content = other.before();
    let mut found = Ok(false);
    other.crash_points(&mut |point, _| {
        if point.order < order {
            return ControlFlow::Continue(());
        }
        let frontier = point.frontier();
        let pending = frontier.chains.iter().flat_map(|chain| &chain.nodes);
        let (mut gone, mut there) = (Vec::new(), Vec::new());
        for id in pending {
            let op = &other.nodes[id.index()];
            match (among(&lost, op), among(&kept, op)) {
                (true, _) => gone.push(*id),
                (false, true) => there.push(*id),
                (false, false) => {}
            }
        }
        // What this model keeps for certain cannot be lost.
        let is_kept = |op: &&MicroOp<'_>| {
            let mut gone = gone.iter().map(|id| &other.nodes[id.index()]);
            !gone.any(|one| is_same(one, op))
        };
        if lost.iter().any(is_kept) {
            return ControlFlow::Break(());
        }
        found = content.advance(point.durable, point.order).map(|()| false);
        for cut in [frontier.without(&gone), frontier.with(&there)] {
            let kept = frontier.kept(&cut);
            if found.is_err() || gone.iter().any(|id| kept.contains(id)) {
                continue;
            }
            let layout = content.patch(&kept, 0);
            let phase = cause.state.phase;
            let ended = checker.run(&layout, phase, false);
            found = ended.map(|ended| files.observe(phase, &ended).fails(phase));
            if !matches!(found, Ok(false)) {
                break;
            }
        }
        ControlFlow::Break(())
    });
    found
}
