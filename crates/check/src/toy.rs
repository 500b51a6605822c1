//! A toy for tests: what a run prints is decided by which stores are there.

use crate::image::ImageHash;
use crate::judge::{Observed, World, Worlds};
use crate::pin::Pinned;
use crate::server::{End, Ended, Limits};
use crate::subject::{Checker, Content, Place, Show, Subject};
use crate::table::Key;
use crate::timeline::{ListId, Moment, Phase, Span};
use crate::worker::WorkerError;
use crashpoint_persist::graph::{Chain, Frontier, NodeId};
use std::time::Duration;

pub const BAD: &[u8] = b"bad";
pub const OLD: &[u8] = b"old";
pub const NEW: &[u8] = b"new";

/// Node `i` comes from place `sites[i]`; nothing becomes durable.
pub struct Toy {
    pub sites: Vec<u64>,
    pub spans: Vec<Span>,
    pub moments: Vec<At>,
    /// What a run prints where these nodes are there.
    pub prints: fn(&[u32]) -> &'static [u8],
}

pub struct At {
    pub phase: Phase,
    pub chains: Vec<Vec<u32>>,
}

impl Subject for Toy {
    type Patch = Vec<NodeId>;
    type Content = Present;

    fn before(&self) -> Present {
        Present
    }

    fn moments(&self, show: &mut Show<'_>) {
        for (index, at) in self.moments.iter().enumerate() {
            let chains = at.chains.iter().map(|nodes| Chain {
                nodes: nodes.iter().map(|id| NodeId(*id)).collect(),
            });
            let frontier = Frontier::new(index as u64, chains.collect(), Vec::new());
            let moment = Moment {
                index,
                order: index as u64,
                phase: at.phase,
                returned: matches!(at.phase, Phase::After(_)),
                issued: self.span(at.phase.list().0 - 1).end,
                durable: &[],
                frontier: &|| frontier.clone(),
            };
            if show(&moment, &mut Vec::new()).is_break() {
                return;
            }
        }
    }

    fn points(&self) -> usize {
        self.moments.len()
    }

    fn nodes(&self) -> usize {
        self.sites.len()
    }

    fn started(&self) -> usize {
        self.spans.first().map_or(self.nodes(), |first| first.begin)
    }

    fn span(&self, operation: u32) -> Span {
        self.spans[operation as usize]
    }

    fn list(&self, phase: Phase) -> ListId {
        phase.list()
    }

    fn key(&self, phase: Phase, image: ImageHash) -> Key {
        Key {
            list: phase.list(),
            acknowledged: false,
            image,
        }
    }

    fn varying(&self, _: ListId) -> Vec<Place> {
        Vec::new()
    }

    fn site(&self, node: NodeId) -> u64 {
        self.sites[node.index()]
    }

    fn is_same_place(&self, _: NodeId, _: NodeId) -> bool {
        false
    }

    fn observe(&self, _: Phase, ended: &Ended) -> Observed {
        let worlds = match &ended.stdout {
            printed if printed == OLD => Worlds::NONE.with(World::nothing_of(1)),
            printed if printed == NEW => Worlds::DONE,
            _ => Worlds::NONE,
        };
        Observed {
            worlds,
            end: ended.end,
        }
    }
}

pub struct Present;

impl Content for Present {
    type Patch = Vec<NodeId>;

    fn advance(&mut self, _: &[NodeId], _: u64) -> Result<(), WorkerError> {
        Ok(())
    }

    fn variants(&mut self, _: &[NodeId]) -> u8 {
        1
    }

    fn patch(&mut self, kept: &[NodeId], _: u8) -> Vec<NodeId> {
        kept.to_vec()
    }

    fn hash_with(&self, patch: &Vec<NodeId>) -> ImageHash {
        ImageHash(patch.iter().map(|id| 1 << id.0).sum())
    }

    fn value(&self, _: &Vec<NodeId>, _: Place) -> u64 {
        0
    }
}

pub struct Runs {
    prints: fn(&[u32]) -> &'static [u8],
    limits: Limits,
}

impl Content for Runs {
    type Patch = Vec<NodeId>;

    fn advance(&mut self, _: &[NodeId], _: u64) -> Result<(), WorkerError> {
        Ok(())
    }

    fn variants(&mut self, kept: &[NodeId]) -> u8 {
        Present.variants(kept)
    }

    fn patch(&mut self, kept: &[NodeId], variant: u8) -> Vec<NodeId> {
        Present.patch(kept, variant)
    }

    fn hash_with(&self, patch: &Vec<NodeId>) -> ImageHash {
        Present.hash_with(patch)
    }

    fn value(&self, patch: &Vec<NodeId>, place: Place) -> u64 {
        Present.value(patch, place)
    }
}

impl Checker for Runs {
    fn rewind(&mut self) -> Result<(), WorkerError> {
        Ok(())
    }

    fn run(&mut self, patch: &Vec<NodeId>, _: Phase, _: bool) -> Result<Ended, WorkerError> {
        let there: Vec<u32> = patch.iter().map(|id| id.0).collect();
        Ok(Ended {
            end: End::Exited(0),
            stdout: (self.prints)(&there).to_vec(),
            stderr: Vec::new(),
            notes: 0,
            left_processes: false,
            wall: Duration::ZERO,
            processor: Duration::ZERO,
        })
    }

    fn reads(&self, _: &[Place]) -> Result<Option<Vec<Place>>, WorkerError> {
        Ok(None)
    }

    fn limits(&mut self) -> &mut Limits {
        &mut self.limits
    }

    fn stay(&self) -> Pinned {
        Pinned::to(None)
    }

    fn restarts(&self) -> u32 {
        0
    }
}

impl Toy {
    pub fn runs(&self) -> Runs {
        Runs {
            prints: self.prints,
            limits: Limits::default(),
        }
    }
}

pub fn span(begin: usize, end: usize) -> Span {
    Span { begin, end }
}
