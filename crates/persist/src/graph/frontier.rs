//! What a crash may lose, as chains and the implications between them.
//!
//! A cut keeps a prefix of each chain; it is closed if it honours every implication. An implication
//! has one premise and one conclusion, and both grow with what is kept. So closed cuts are a
//! distributive lattice: chain by chain, the smaller and the larger of two closed cuts are closed.
//! Below every cut there is a largest closed one ([`Frontier::floor`]) and above it a smallest
//! ([`Frontier::ceiling`]), found by lowering or raising what is violated until nothing is.

use super::count::{self, Count};
use super::cuts::Cuts;
use super::node::NodeId;
use rustc_hash::FxHashSet;

/// Nodes that persist in this order, so that a crash keeps a prefix of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Pending ones, ascending; at least one.
    pub nodes: Vec<NodeId>,
}

/// If chain `if_chain` keeps more than `if_more_than` nodes, then chain `then_chain` keeps at least
/// `then_least`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Implication {
    pub if_chain: u32,
    pub if_more_than: u32,
    pub then_chain: u32,
    pub then_least: u32,
}

impl Implication {
    fn is_violated(&self, cut: &[u32]) -> bool {
        cut[self.if_chain as usize] > self.if_more_than
            && cut[self.then_chain as usize] < self.then_least
    }
}

/// For each chain, how many nodes are kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cut(pub Vec<u32>);

/// For each chain, the implications that it is on one side of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Side {
    /// Where the numbers of each chain begin; one more at the end.
    starts: Vec<u32>,
    numbers: Vec<u32>,
}

impl Side {
    fn new(chains: usize, implications: &[Implication], of: fn(&Implication) -> u32) -> Side {
        let mut starts = vec![0; chains + 1];
        for implication in implications {
            starts[of(implication) as usize + 1] += 1;
        }
        for chain in 0..chains {
            starts[chain + 1] += starts[chain];
        }
        let mut next = starts.clone();
        let mut numbers = vec![0; implications.len()];
        for (number, implication) in (0..).zip(implications) {
            let slot = &mut next[of(implication) as usize];
            numbers[*slot as usize] = number;
            *slot += 1;
        }
        Side { starts, numbers }
    }

    fn of(&self, chain: u32) -> &[u32] {
        let chain = chain as usize;
        &self.numbers[self.starts[chain] as usize..self.starts[chain + 1] as usize]
    }
}

/// What a crash at one moment may lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontier {
    /// Of the last event before the crash.
    pub order: u64,
    pub chains: Vec<Chain>,
    pub implications: Vec<Implication>,
    premises: Side,
    conclusions: Side,
}

impl Frontier {
    /// Each implication leads from a node to an older one of another chain. So none goes round in a
    /// circle, and every prefix of every chain occurs in some closed cut.
    pub fn new(order: u64, chains: Vec<Chain>, implications: Vec<Implication>) -> Frontier {
        let count = chains.len();
        for tie in &implications {
            let then = &chains[tie.then_chain as usize].nodes;
            let node = chains[tie.if_chain as usize].nodes[tie.if_more_than as usize];
            assert!(tie.if_chain != tie.then_chain && then[tie.then_least as usize - 1] < node);
        }
        Frontier {
            order,
            premises: Side::new(count, &implications, |implication| implication.if_chain),
            conclusions: Side::new(count, &implications, |implication| implication.then_chain),
            chains,
            implications,
        }
    }

    /// How many nodes a chain has.
    pub fn length(&self, chain: u32) -> u32 {
        self.chains[chain as usize].nodes.len() as u32
    }

    /// Implications whose premise is about the chain.
    pub fn premises(&self, chain: u32) -> impl Iterator<Item = &Implication> {
        let numbers = self.premises.of(chain).iter();
        numbers.map(|number| &self.implications[*number as usize])
    }

    /// Implications whose conclusion is about the chain.
    pub fn conclusions(&self, chain: u32) -> impl Iterator<Item = &Implication> {
        let numbers = self.conclusions.of(chain).iter();
        numbers.map(|number| &self.implications[*number as usize])
    }

    /// Nothing pending is kept.
    pub fn none(&self) -> Cut {
        Cut(vec![0; self.chains.len()])
    }

    /// Everything pending is kept.
    pub fn all(&self) -> Cut {
        let lengths = self.chains.iter().map(|chain| chain.nodes.len() as u32);
        Cut(lengths.collect())
    }

    pub fn is_closed(&self, cut: &Cut) -> bool {
        let mut implications = self.implications.iter();
        !implications.any(|implication| implication.is_violated(&cut.0))
    }

    /// The largest closed cut that keeps no more of any chain.
    pub fn floor(&self, mut cut: Cut) -> Cut {
        self.lower(&mut cut.0, self.implications.iter());
        cut
    }

    /// A closed cut, with one of its chains lowered to this many nodes and what that entails.
    pub fn lowered(&self, cut: &Cut, chain: u32, to: u32) -> Cut {
        let mut cut = cut.clone();
        cut.0[chain as usize] = to;
        self.lower(&mut cut.0, self.conclusions(chain));
        cut
    }

    /// [`Frontier::floor`] where only these chains, a group, may be violated.
    pub(super) fn floor_of(&self, group: &[u32], mut cut: Cut) -> Cut {
        let premises = group.iter().flat_map(|chain| self.premises(*chain));
        self.lower(&mut cut.0, premises);
        cut
    }

    fn lower<'a>(&self, cut: &mut [u32], first: impl Iterator<Item = &'a Implication>) {
        let mut lowered = Vec::new();
        let mut honour = |implication: &Implication, lowered: &mut Vec<u32>| {
            if implication.is_violated(cut) {
                cut[implication.if_chain as usize] = implication.if_more_than;
                lowered.push(implication.if_chain);
            }
        };
        first.for_each(|implication| honour(implication, &mut lowered));
        while let Some(chain) = lowered.pop() {
            for implication in self.conclusions(chain) {
                honour(implication, &mut lowered);
            }
        }
    }

    /// The smallest closed cut that keeps no less of any chain.
    pub fn ceiling(&self, mut cut: Cut) -> Cut {
        let mut raised = Vec::new();
        let raise = |implication: &Implication, cut: &mut [u32], raised: &mut Vec<u32>| {
            if implication.is_violated(cut) {
                cut[implication.then_chain as usize] = implication.then_least;
                raised.push(implication.then_chain);
            }
        };
        for implication in &self.implications {
            raise(implication, &mut cut.0, &mut raised);
        }
        while let Some(chain) = raised.pop() {
            for implication in self.premises(chain) {
                raise(implication, &mut cut.0, &mut raised);
            }
        }
        cut
    }

    /// Pending nodes that the cut keeps, ascending.
    pub fn kept(&self, cut: &Cut) -> Vec<NodeId> {
        self.select(cut, |nodes, kept| &nodes[..kept])
    }

    /// Pending nodes that the cut loses, ascending.
    pub fn lost(&self, cut: &Cut) -> Vec<NodeId> {
        self.select(cut, |nodes, kept| &nodes[kept..])
    }

    fn select(&self, cut: &Cut, part: fn(&[NodeId], usize) -> &[NodeId]) -> Vec<NodeId> {
        let chains = self.chains.iter().zip(&cut.0);
        let parts = chains.flat_map(|(chain, kept)| part(&chain.nodes, *kept as usize));
        let mut nodes: Vec<NodeId> = parts.copied().collect();
        nodes.sort_unstable();
        nodes
    }

    /// The largest closed cut that keeps none of these nodes. Nodes that are not pending do not
    /// matter: durable ones stay.
    pub fn without(&self, lost: &[NodeId]) -> Cut {
        let lost: FxHashSet<NodeId> = lost.iter().copied().collect();
        let kept = self.chains.iter().map(|chain| {
            let first = chain.nodes.iter().position(|node| lost.contains(node));
            first.unwrap_or(chain.nodes.len()) as u32
        });
        self.floor(Cut(kept.collect()))
    }

    /// The smallest closed cut that keeps all of these nodes, where they are pending.
    pub fn with(&self, kept: &[NodeId]) -> Cut {
        let wanted: FxHashSet<NodeId> = kept.iter().copied().collect();
        let kept = self.chains.iter().map(|chain| {
            let last = chain.nodes.iter().rposition(|node| wanted.contains(node));
            last.map_or(0, |last| last as u32 + 1)
        });
        self.ceiling(Cut(kept.collect()))
    }

    /// The same turned around: what this one keeps of a chain, that one loses, so that its cuts are
    /// these with all numbers subtracted from the chains' lengths. Nodes are numbered from the last
    /// number there is downwards.
    pub fn dual(&self) -> Frontier {
        let turned = |node: &NodeId| NodeId(u32::MAX - node.0);
        let chains = self.chains.iter().map(|chain| Chain {
            nodes: chain.nodes.iter().rev().map(turned).collect(),
        });
        let implications = self.implications.iter().map(|tie| Implication {
            if_chain: tie.then_chain,
            if_more_than: self.length(tie.then_chain) - tie.then_least,
            then_chain: tie.if_chain,
            then_least: self.length(tie.if_chain) - tie.if_more_than,
        });
        Frontier::new(self.order, chains.collect(), implications.collect())
    }

    /// How many closed cuts there are.
    pub fn count(&self) -> Count {
        count::count(self)
    }

    /// All closed cuts, each once, from the one that keeps everything: first those where one group
    /// of chains that implications tie together (mostly a single chain) loses something, then those
    /// where two do, and so on.
    pub fn cuts(&self) -> impl Iterator<Item = Cut> + '_ {
        Cuts::new(self)
    }

    /// Groups of chains that implications tie together, each ascending; by their first chains.
    pub fn groups(&self) -> Vec<Vec<u32>> {
        let mut group = vec![u32::MAX; self.chains.len()];
        let mut groups: Vec<Vec<u32>> = Vec::new();
        for first in 0..self.chains.len() as u32 {
            if group[first as usize] != u32::MAX {
                continue;
            }
            let number = groups.len() as u32;
            group[first as usize] = number;
            let mut members = vec![first];
            let mut next = 0;
            while let Some(chain) = members.get(next).copied() {
                next += 1;
                let behind = self.premises(chain).map(|tie| tie.then_chain);
                let ahead = self.conclusions(chain).map(|tie| tie.if_chain);
                for other in behind.chain(ahead) {
                    if group[other as usize] == u32::MAX {
                        group[other as usize] = number;
                        members.push(other);
                    }
                }
            }
            members.sort_unstable();
            groups.push(members);
        }
        groups
    }
}
