//! What the exhaustive check does not look at: history, epochs, `msync`, foreign writes.

use super::*;
use crate::memory::{LineId, Origin, Piece, pieces};
use crashpoint_trace::{FlushKind, PmAddress, ThreadIndex};

struct Bench {
    tracker: LineTracker,
    order: u64,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            tracker: LineTracker::default(),
            order: 0,
        }
    }

    fn who(&mut self, thread: u32, origin: u32) -> Who {
        self.order += 1;
        Who {
            order: self.order,
            origin: Origin(origin),
            thread: ThreadIndex(thread),
        }
    }

    fn store(&mut self, origin: u32, address: u64, length: u64) {
        self.store_how(origin, StoreRoute::Cached, address, length);
    }

    fn store_how(&mut self, origin: u32, how: StoreRoute, address: u64, length: u64) {
        let who = self.who(0, origin);
        for piece in pieces(PmAddress(address), length) {
            self.tracker.store(who, how, piece, |_, ()| ());
        }
    }

    fn flush(&mut self, origin: u32, address: u64) -> Flushed {
        let who = self.who(0, origin);
        self.tracker
            .flush(who, FlushKind::Clwb, PmAddress(address), |_, (), _| ())
    }

    fn fence(&mut self, origin: u32) -> Fenced {
        let who = self.who(0, origin);
        self.tracker.fence(who)
    }

    fn line(&self, address: u64) -> &LineState {
        self.tracker
            .line(LineId::of(PmAddress(address)))
            .expect("the line was touched")
    }
}

#[test]
fn a_line_remembers_its_last_store_flush_and_fence() {
    let mut bench = Bench::new();
    bench.store(1, 0, 8);
    bench.store(2, 8, 8);
    bench.flush(3, 0);
    bench.fence(4);
    let line = bench.line(0);
    assert_eq!(
        (line.flushed_store().origin, line.flushed_store().order),
        (Origin(2), 2)
    );
    assert_eq!((line.flush().origin, line.flush().order), (Origin(3), 3));
    assert_eq!((line.fence().origin, line.fence().order), (Origin(4), 4));
    assert!(line.last_writer().is_none());
}

#[test]
fn writers_are_merged_by_origin_and_the_latest_is_last() {
    let mut bench = Bench::new();
    bench.store(1, 0, 8);
    bench.store(2, 8, 8);
    bench.store(1, 16, 8);
    let writers: Vec<_> = bench
        .line(0)
        .writers()
        .map(|w| (w.origin.0, w.mask))
        .collect();
    assert_eq!(writers, [(2, 0xff00), (1, 0xff00ff)]);
}

#[test]
fn epochs_tell_whether_a_fence_lies_between_two_stores() {
    let mut bench = Bench::new();
    bench.store(1, 0, 8);
    bench.store(2, 8, 8);
    bench.fence(9);
    bench.store(3, 16, 8);
    bench.tracker.boundary(ThreadIndex(0));
    bench.store(4, 24, 8);
    let epochs: Vec<u32> = bench.line(0).writers().map(|writer| writer.epoch).collect();
    assert_eq!(epochs[0], epochs[1]);
    assert_ne!(epochs[1], epochs[2]);
    assert_ne!(epochs[2], epochs[3]);
}

#[test]
fn a_fence_after_a_useless_flush_is_not_idle() {
    let mut bench = Bench::new();
    assert_eq!(bench.fence(1), Fenced::Nothing);
    assert_eq!(bench.flush(1, 0), Flushed::Untouched);
    assert_eq!(bench.fence(1), Fenced::Completed { lines: 0 });
    assert_eq!(bench.fence(1), Fenced::Nothing);
}

#[test]
fn msync_makes_a_range_durable_whoever_stored_it() {
    let mut bench = Bench::new();
    bench.store(1, 0, 200);
    bench.flush(1, 64);
    let who = bench.who(1, 7);
    bench.tracker.msync(who, PmAddress(0), 128);
    assert_eq!(bench.line(0).durable, !0);
    assert_eq!(bench.line(64).durable, !0);
    assert_eq!(bench.line(64).pending, 0);
    assert_eq!(bench.line(128).dirty, !0);
    assert_eq!(bench.fence(1), Fenced::Completed { lines: 0 });
    assert_eq!(bench.line(64).durable, !0);
}

#[test]
fn a_foreign_write_is_in_no_state_until_the_line_is_flushed() {
    let mut bench = Bench::new();
    bench.store(1, 0, 8);
    bench.store_how(2, StoreRoute::Foreign, 0, 4);
    let line = bench.line(0);
    assert_eq!((line.dirty, line.foreign), (0xf0, 0x0f));
    bench.store_how(2, StoreRoute::Foreign, 0, 8);
    assert_eq!(bench.flush(3, 0), Flushed::Unknown);
    assert_eq!(bench.flush(3, 0), Flushed::Clean);
}

#[test]
fn closures_see_the_line_before_it_changes_and_keep_what_they_like() {
    let mut tracker: LineTracker<Vec<u64>> = LineTracker::default();
    let who = Bench::new().who(0, 1);
    let piece = Piece {
        line: LineId::of(PmAddress(0)),
        mask: 1,
    };
    for _ in 0..2 {
        tracker.store(who, StoreRoute::Cached, piece, |line, kept| {
            kept.push(line.dirty)
        });
    }
    tracker.flush(who, FlushKind::Clwb, PmAddress(0), |line, kept, found| {
        assert_eq!((line.dirty, found), (1, Flushed::Dirty(1)));
        kept.push(7);
    });
    assert_eq!(tracker.extra(piece.line), Some(&vec![0, 1, 7]));
    let unfenced: Vec<_> = tracker
        .unfenced(ThreadIndex(0))
        .map(|(id, _, mask)| (id, mask))
        .collect();
    assert_eq!(unfenced, [(piece.line, 1)]);
    assert_eq!(tracker.fence(who), Fenced::Completed { lines: 1 });
    assert_eq!(tracker.unfenced(ThreadIndex(0)).count(), 0);
}
