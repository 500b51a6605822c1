//! Facts about the graph that are not about short programs: how stores are cut into nodes, what the
//! walker leaves alone, and that large things stay cheap.

use super::*;
use crate::graph::{Chain, Fed, Frontier, Implication, NodeId, Walker as _, count_within};
use crashpoint_trace::{
    ContextId, Event, EventKind, FenceKind, FileIndex, FlushKind, PmAddress, PmPlace, SiteId,
    StoreKind, ThreadIndex,
};
use num_bigint::BigUint;

/// Feeds one thread's events at offsets of file 0.
struct Tape {
    walker: MemoryWalker,
    order: u64,
}

fn at(offset: u64) -> PmPlace {
    let pm = PmAddress::new(FileIndex(0), offset);
    PmPlace { address: pm.0, pm }
}

impl Tape {
    fn new(model: Model) -> Tape {
        Tape {
            walker: MemoryWalker::new(model),
            order: 0,
        }
    }

    fn feed(&mut self, kind: EventKind<'_>) -> Fed {
        self.order += 1;
        self.walker.feed(&Event {
            order: self.order,
            thread: ThreadIndex(0),
            site: SiteId(7),
            context: ContextId(3),
            kind,
        })
    }

    fn store_as(&mut self, kind: StoreKind, offset: u64, bytes: &[u8]) -> Fed {
        let place = at(offset);
        self.feed(EventKind::Store { kind, place, bytes })
    }

    fn store(&mut self, offset: u64, bytes: &[u8]) -> Fed {
        self.store_as(StoreKind::Plain, offset, bytes)
    }

    fn fill(&mut self, kind: StoreKind, length: u64) -> Fed {
        self.feed(EventKind::Fill {
            kind,
            place: at(0),
            length,
            byte: 9,
        })
    }

    fn flush(&mut self, kind: FlushKind, offset: u64) -> Fed {
        let place = at(offset);
        self.feed(EventKind::Flush { kind, place })
    }

    fn fence(&mut self) -> Fed {
        let kind = FenceKind::Sfence;
        self.feed(EventKind::Fence { kind })
    }

    fn msync(&mut self, offset: u64, length: u64) -> Fed {
        let place = at(offset);
        self.feed(EventKind::Msync { place, length })
    }

    fn frontier(&self) -> Frontier {
        self.walker.frontier()
    }
}

#[test]
fn names_lead_back_to_their_models() {
    for (name, model) in Model::NAMES {
        assert_eq!(model.name(), name);
        assert_eq!(Model::from_name(name), Some(model));
    }
    assert_eq!(Model::from_name("ADR"), None);
}

#[test]
fn a_store_is_cut_where_words_begin() {
    let mut tape = Tape::new(Model::X86);
    let bytes: Vec<u8> = (1..=14).collect();
    tape.store(61, &bytes);
    let nodes = tape.walker.nodes();
    let parts: Vec<(u64, &[u8])> = nodes
        .iter()
        .map(|node| (node.address.offset(), node.bytes()))
        .collect();
    let expected = [(61, &bytes[..3]), (64, &bytes[3..11]), (72, &bytes[11..])];
    assert_eq!(parts, expected);
    assert!(
        nodes
            .iter()
            .all(|node| node.order == 1 && node.site == SiteId(7))
    );
    let chains: Vec<Vec<NodeId>> = tape
        .frontier()
        .chains
        .into_iter()
        .map(|chain| chain.nodes)
        .collect();
    assert_eq!(chains, [vec![NodeId(0)], vec![NodeId(1), NodeId(2)]]);
}

#[test]
fn events_tell_what_they_changed() {
    let appeared = Fed {
        fence: false,
        changed: true,
    };
    let settled = Fed {
        fence: true,
        changed: true,
    };
    let mut tape = Tape::new(Model::X86);
    assert_eq!(tape.fence(), Fed::default());
    assert_eq!(tape.store(0, &[1]), appeared);
    assert_eq!(tape.fence(), Fed::default());
    assert_eq!(tape.flush(FlushKind::Clflush, 63), Fed::default());
    assert_eq!(tape.feed(EventKind::Opaque), Fed::default());
    assert_eq!(tape.frontier().order, 5);
    assert!(!tape.walker.is_quiet());
    assert_eq!(tape.fence(), settled);
    assert!(tape.walker.is_quiet());
    assert_eq!(tape.fence(), Fed::default());
    assert_eq!(tape.walker.take_durable(), [NodeId(0)]);
    assert_eq!(tape.walker.take_durable(), []);
}

#[test]
fn an_ignored_file_has_no_nodes() {
    let mut tape = Tape::new(Model::X86);
    tape.walker.ignore(FileIndex(0));
    assert_eq!(tape.store(0, &[1; 100]), Fed::default());
    assert_eq!(tape.fill(StoreKind::Memory, 100), Fed::default());
    assert!(tape.walker.nodes().is_empty() && tape.walker.is_quiet());
}

#[test]
fn a_foreign_write_is_a_store_of_its_line() {
    let mut tape = Tape::new(Model::X86);
    tape.store(0, &[1; 8]);
    tape.store_as(StoreKind::Foreign, 8, &[2; 8]);
    tape.store(16, &[3; 8]);
    assert_eq!(tape.frontier().chains.len(), 1);
    tape.flush(FlushKind::Clwb, 0);
    tape.fence();
    assert_eq!(tape.walker.take_durable(), [0, 1, 2].map(NodeId));
}

#[test]
fn a_store_under_eadr_is_durable_and_can_be_torn() {
    let mut tape = Tape::new(Model::Eadr);
    tape.store(0, &[1; 8]);
    let fed = tape.store(60, &[2; 16]);
    assert!(fed.changed && !fed.fence);
    assert!(tape.walker.is_quiet());
    assert!(tape.frontier().chains.is_empty());
    let torn = tape.walker.torn();
    let kept: Vec<Vec<NodeId>> = torn.cuts().map(|cut| torn.kept(&cut)).collect();
    let [a, b, c] = [1, 2, 3].map(NodeId);
    assert_eq!(kept, [vec![a, b, c], vec![a, b], vec![a], vec![]]);
    tape.fence();
    assert!(tape.walker.torn().chains.is_empty());
    assert_eq!(tape.walker.take_durable().len(), 4);
}

#[test]
fn msync_reaches_the_pages_that_its_range_touches() {
    for (offset, length, pages) in [
        (0, 0, &[][..]),
        (0, 1, &[0]),
        (4095, 2, &[0, 1]),
        (4096, 4096, &[1]),
        (4097, PmAddress::MAX_OFFSET - 4097, &[1, 2, 3]),
        (0, 4 * 4096, &[0, 1, 2, 3]),
    ] {
        let mut tape = Tape::new(Model::Msync);
        for page in 0..4 {
            tape.store(page * 4096 + 100, &[1]);
        }
        let fed = tape.msync(offset, length);
        assert_eq!(fed.fence, !pages.is_empty());
        let pages: Vec<NodeId> = pages.iter().map(|page| NodeId(*page)).collect();
        assert_eq!(tape.walker.take_durable(), pages);
    }
}

#[test]
fn few_losses_come_first() {
    let mut tape = Tape::new(Model::X86);
    for line in 0..3 {
        tape.store(line * 64, &[1; 16]);
    }
    let frontier = tape.frontier();
    let cuts: Vec<Vec<u32>> = frontier.cuts().map(|cut| cut.0).collect();
    assert_eq!(cuts.len(), 27);
    let begin = [[2, 2, 2], [1, 2, 2], [0, 2, 2], [2, 1, 2], [2, 0, 2]];
    assert_eq!(cuts[..5], begin);
    assert_eq!(cuts[26], [0, 0, 0]);
    let chains = |cut: &Vec<u32>| cut.iter().filter(|kept| **kept < 2).count();
    assert!(cuts.is_sorted_by_key(chains));
}

#[test]
fn a_fill_of_a_mebibyte_is_131072_words() {
    let words = 131_072u32;
    let mut tape = Tape::new(Model::X86);
    tape.fill(StoreKind::Memory, 1 << 20);
    let frontier = tape.frontier();
    assert_eq!(frontier.chains.len(), 16_384);
    assert_eq!(frontier.count().value, BigUint::from(9u8).pow(16_384));
    assert_eq!(frontier.cuts().take(10).count(), 10);
    tape.msync(0, 1 << 40);
    assert_eq!(tape.walker.take_durable().len(), words as usize);

    let mut tape = Tape::new(Model::X86);
    tape.fill(StoreKind::NonTemporal, 1 << 20);
    assert_eq!(tape.frontier().count().value, BigUint::from(2u8).pow(words));
    assert!(tape.fence().fence);
    assert_eq!(tape.walker.take_durable().len(), words as usize);
}

#[test]
fn a_long_row_of_clflushes_has_few_implications_and_an_exact_count() {
    let lines = 20_000;
    let mut tape = Tape::new(Model::X86);
    for line in 0..lines {
        tape.store(line * 64, &[1; 8]);
        tape.flush(FlushKind::Clflush, line * 64);
    }
    let frontier = tape.frontier();
    assert_eq!(frontier.implications.len() as u64, lines - 1);
    let count = frontier.count();
    assert!(count.exact);
    assert_eq!(count.value, BigUint::from(lines + 1));
    let last = frontier.with(&[NodeId(lines as u32 - 1)]);
    assert_eq!(last, frontier.all());
    assert_eq!(frontier.without(&[NodeId(0)]), frontier.none());
    tape.flush(FlushKind::Clwb, (lines - 1) * 64);
    tape.fence();
    assert!(tape.walker.is_quiet());
}

#[test]
fn a_count_that_gives_up_is_a_lower_bound() {
    let mut tape = Tape::new(Model::X86);
    for line in 0..40 {
        tape.store(line * 64, &[1; 8]);
    }
    for line in 0..20 {
        tape.flush(FlushKind::Clflush, line * 64);
        tape.store((100 + line) * 64, &[2; 16]);
    }
    let frontier = tape.frontier();
    let exact = frontier.count();
    assert!(exact.exact);
    let mut last = BigUint::from(60u8);
    for work in [0, 100, 1_000, 10_000] {
        let rough = count_within(&frontier, work);
        assert!(last <= rough.value && rough.value <= exact.value, "{work}");
        assert!(rough.exact == (rough.value == exact.value), "{work}");
        last = rough.value;
    }
    assert!(last > BigUint::from(200u8));
}

#[test]
fn each_value_of_a_chain_that_many_are_tied_to_counts_as_work() {
    let (ties, mut nodes) = (20, 0..);
    let mut chain = |length: usize| Chain {
        nodes: nodes.by_ref().take(length).map(NodeId).collect(),
    };
    let mut chains = vec![chain(ties)];
    chains.extend((0..ties).map(|_| chain(1)));
    let implications = (1..=ties as u32).map(|number| Implication {
        if_chain: number,
        if_more_than: 0,
        then_chain: 0,
        then_least: number,
    });
    let frontier = Frontier::new(0, chains, implications.collect());
    let all = frontier.count();
    assert!(all.exact && all.value == (BigUint::from(1u8) << (ties + 1)) - 1u8);
    let rough = count_within(&frontier, ties * ties);
    assert!(!rough.exact && rough.value < all.value);
}
