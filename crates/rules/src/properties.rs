//! All rules together, on programs that do everything right, and on the same with one mistake.

use crate::testing::Tape;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// One operation: stores, then a flush of every line they touched, then a fence.
#[derive(Clone, Debug)]
struct Operation {
    thread: u32,
    stores: Vec<(u64, u64)>,
}

impl Operation {
    fn lines(&self) -> Vec<u64> {
        let touched = self
            .stores
            .iter()
            .flat_map(|(at, length)| at / 64..=(at + length - 1) / 64);
        let lines: BTreeSet<u64> = touched.collect();
        lines.into_iter().map(|line| line * 64).collect()
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let store = (0..512u64, 1..24u64);
    let stores = prop::collection::vec(store, 1..5);
    (0..2u32, stores).prop_map(|(thread, stores)| Operation { thread, stores })
}

/// Sites of stores are below this.
const FLUSH: u32 = 100;
const FENCE: u32 = 200;
/// Added to the sites of the last operation.
const LAST: u32 = 1000;

/// What the last operation does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// Its first line is not flushed.
    MissingFlush,
    MissingFence,
    /// Its first line is flushed again.
    ExtraFlush,
    ExtraFence,
}

fn tape(operations: &[Operation], mistake: Mistake) -> Tape {
    let mut tape = Tape::default();
    for (number, operation) in operations.iter().enumerate() {
        let last = number + 1 == operations.len();
        let (base, mistake) = if last {
            (LAST, mistake)
        } else {
            (0, Mistake::None)
        };
        tape.thread(operation.thread);
        for (site, (at, length)) in (base..).zip(&operation.stores) {
            tape.store(site, *at..at + length);
        }
        let lines = operation.lines();
        let skipped = usize::from(mistake == Mistake::MissingFlush);
        for line in &lines[skipped..] {
            tape.flush(base + FLUSH, *line);
        }
        if mistake == Mistake::ExtraFlush {
            tape.flush(base + FLUSH + 1, lines[0]);
        }
        if mistake != Mistake::MissingFence {
            tape.fence(base + FENCE);
        }
        if mistake == Mistake::ExtraFence {
            tape.fence(base + FENCE + 1);
        }
    }
    tape
}

proptest! {
    #[test]
    fn a_program_that_flushes_and_fences_everything_is_left_alone(
        operations in prop::collection::vec(operation(), 0..20),
    ) {
        prop_assert_eq!(tape(&operations, Mistake::None).found(), []);
    }

    #[test]
    fn one_mistake_is_one_finding(operations in prop::collection::vec(operation(), 1..20)) {
        let expected = [
            (Mistake::MissingFence, "missing-fence", FLUSH),
            (Mistake::ExtraFlush, "extra-flush", FLUSH + 1),
            (Mistake::ExtraFence, "extra-fence", FENCE + 1),
        ];
        for (mistake, rule, site) in expected {
            let found = tape(&operations, mistake).found();
            prop_assert_eq!(found.len(), 1, "{:?}", mistake);
            prop_assert_eq!((found[0].0.as_str(), found[0].1), (rule, LAST + site));
        }
    }

    #[test]
    fn a_missing_flush_is_found_where_the_line_was_stored_to(
        operations in prop::collection::vec(operation(), 1..20),
    ) {
        let last = &operations[operations.len() - 1];
        let line = last.lines()[0];
        // With one line only, the fence has nothing to wait for, and that is told too.
        prop_assume!(last.lines().len() > 1);
        let found = tape(&operations, Mistake::MissingFlush).found();
        prop_assert!(!found.is_empty());
        for (rule, site, _) in found {
            prop_assert!(rule == "missing-flush" || rule == "unpersisted", "{rule}");
            let (at, length) = last.stores[(site - LAST) as usize];
            prop_assert!(at < line + 64 && line < at + length);
        }
    }
}
