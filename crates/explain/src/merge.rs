//! Causes with the same root are one finding.
//!
//! A store that should have been made durable explains all that goes wrong without it, and a store
//! that goes ahead of several that one place in the program should have made durable is one mistake.
//!
//! Two causes that have a line in common are still two bugs if their failures look different and one
//! fix does not end both: an append that tears and the same append that is acknowledged too early.

use crashpoint_check::engine::minimise::{Cause, CauseKind, Causes};
use crashpoint_persist::graph::NodeId;
use crashpoint_report::Location;

/// Merges causes; `origin` says where the program made a node of a cause. What is left is in the
/// order of crash points.
pub fn merge(causes: &mut Causes, origin: impl Fn(&Cause, NodeId) -> Option<Location>) {
    let mut merged: Vec<(Cause, Roots)> = Vec::new();
    for cause in std::mem::take(&mut causes.causes) {
        let mut cause = cause;
        let mut roots = Roots::of(&cause, |node| origin(&cause, node));
        // What it connects becomes one with it.
        let meets = |(known, known_roots): &(Cause, Roots), cause: &Cause, roots: &Roots| {
            known_roots.meets(roots) && is_one_bug(known, cause)
        };
        while let Some(at) = merged.iter().position(|known| meets(known, &cause, &roots)) {
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

/// Whether two causes with a common root may be one bug: their failures look alike, or making durable
/// what is needed ends both.
fn is_one_bug(one: &Cause, other: &Cause) -> bool {
    let is_alike = one.observed.iter().any(|failure| other.shows(failure));
    is_alike || one.fixed_by_persisting && other.fixed_by_persisting
}

type Line = (String, u32);

/// The features by which equal causes are recognised.
struct Roots {
    kind: CauseKind,
    needed: Vec<Line>,
    /// The line that went ahead, with the functions of what it needed.
    ahead: Vec<(Line, String)>,
}

impl Roots {
    fn of(cause: &Cause, origin: impl Fn(NodeId) -> Option<Location>) -> Roots {
        let line = |at: &Location| (at.file.clone(), at.line);
        let needed: Vec<Location> = cause.needed.iter().filter_map(|id| origin(*id)).collect();
        let ahead = cause.ahead.and_then(&origin);
        let functions = needed.iter().map(|at| at.function.clone());
        let pairs = functions.filter_map(|function| Some((line(ahead.as_ref()?), function)));
        Roots {
            kind: match cause.kind {
                CauseKind::Ordering | CauseKind::Durability => CauseKind::Ordering,
                CauseKind::Atomicity => CauseKind::Atomicity,
            },
            ahead: if needed.is_empty() {
                ahead.iter().map(|at| (line(at), String::new())).collect()
            } else {
                pairs.collect()
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
    known.absorb_states(&other);
    known.needed.extend(other.needed);
}
