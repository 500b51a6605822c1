//! Where the limit of the flow stream must be checked.
//!
//! A check grants [`ROOM_BYTES`]. The runtime checks when a body is entered. In a body whose groups
//! take less than that all together, a path on which no block repeats needs no other check, apart
//! from the group behind a call, since the callee has written too. So the groups behind calls, at
//! landing pads and at indirect targets check, and one on each way back in a loop. Larger bodies
//! check in every group.

use super::events::{Details, Event, EventsBefore};
use super::flow::Group;
use crate::llvm::{BasicBlock, Value};
use crashpoint_abi::flow::{ENTER_BYTES, LANDED_BYTES, ROOM_BYTES};
use llvm_sys::LLVMOpcode;
use rustc_hash::{FxHashMap, FxHashSet};

/// Decides for all groups of a body, and adds groups that do nothing but check.
pub fn decide(list: &mut Vec<EventsBefore>, blocks: &[Vec<Value>]) {
    let total: usize = groups(list).map(Group::most_bytes).sum();
    let small = total + ENTER_BYTES + LANDED_BYTES < ROOM_BYTES;
    let mut ends = if small {
        back_edge_ends(blocks)
    } else {
        FxHashSet::default()
    };
    for at in list.iter_mut() {
        let goes_back = ends.contains(&at.anchor);
        let landing = is_landing_pad(at.anchor.block());
        for event in &mut at.events {
            if let Event::Details(Details {
                group: Some(group), ..
            }) = event
            {
                group.checked = !small || group.after_call || landing || goes_back;
                ends.remove(&at.anchor);
            }
        }
    }
    // What is left has no group yet. The order of the list matters for what shares an anchor only.
    for at in list.iter_mut() {
        if ends.remove(&at.anchor) {
            at.events.push(check());
        }
    }
    let mut bare: Vec<Value> = blocks
        .iter()
        .filter_map(|block| block.last().copied())
        .collect();
    bare.retain(|end| ends.contains(end));
    list.extend(bare.into_iter().map(|anchor| EventsBefore {
        anchor,
        events: vec![check()],
    }));
}

/// A group that only checks.
fn check() -> Event {
    let group = Group {
        checked: true,
        ..Group::default()
    };
    Event::Details(Details {
        loads: Vec::new(),
        group: Some(group),
    })
}

fn is_landing_pad(block: BasicBlock) -> bool {
    block
        .first_behind_phis()
        .is_opcode(LLVMOpcode::LLVMLandingPad)
}

fn groups(list: &[EventsBefore]) -> impl Iterator<Item = &Group> {
    list.iter()
        .flat_map(|at| &at.events)
        .filter_map(|event| match event {
            Event::Details(details) => details.group.as_ref(),
            Event::Before(_) | Event::After(_) | Event::Arrival(_) | Event::Exit => None,
        })
}

/// The terminators of blocks from which an edge leads back. Every cycle contains one.
fn back_edge_ends(blocks: &[Vec<Value>]) -> FxHashSet<Value> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Not,
        OnPath,
        Done,
    }
    let numbers: FxHashMap<BasicBlock, usize> = blocks
        .iter()
        .enumerate()
        .map(|(number, block)| (block[0].block(), number))
        .collect();
    let successors: Vec<Vec<usize>> = blocks
        .iter()
        .map(|block| {
            let end = block.last().expect("a block ends with a terminator");
            // Edges of invokes may lead through blocks of our own.
            let through = |to: BasicBlock| {
                numbers.get(&to).copied().or_else(|| {
                    let beyond = to.terminator().successors();
                    beyond.first().and_then(|to| numbers.get(to).copied())
                })
            };
            end.successors().into_iter().filter_map(through).collect()
        })
        .collect();
    let mut seen = vec![Seen::Not; blocks.len()];
    let mut ends = FxHashSet::default();
    let mut path = vec![(0, 0)];
    seen[0] = Seen::OnPath;
    while let Some((block, next)) = path.last_mut() {
        let from = *block;
        let Some(&to) = successors[from].get(*next) else {
            seen[from] = Seen::Done;
            path.pop();
            continue;
        };
        *next += 1;
        match seen[to] {
            Seen::Not => {
                seen[to] = Seen::OnPath;
                path.push((to, 0));
            }
            Seen::OnPath => ends.extend(blocks[from].last()),
            Seen::Done => {}
        }
    }
    ends
}
