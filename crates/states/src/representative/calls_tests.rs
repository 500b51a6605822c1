//! Behaviours of files, on small recordings made by hand.

use std::collections::BTreeSet;

use super::super::facts::Fact;
use super::super::facts::samples::fact;
use super::*;

/// Lines of a program as calls: a stack as functions with lines, and what is done there.
struct Program {
    stacks: Vec<Vec<StackFrame>>,
    steps: Vec<CallStep>,
    kinds: Vec<u64>,
    facts: Facts,
    acknowledged: Vec<u64>,
}

impl Program {
    fn new() -> Program {
        Program {
            stacks: Vec::new(),
            steps: Vec::new(),
            kinds: Vec::new(),
            facts: Facts::default(),
            acknowledged: Vec::new(),
        }
    }

    /// A call with one node, unless it only syncs.
    fn call(&mut self, thread: u32, stack: &[(u32, u64)], kind: u64, node: Option<Fact>) {
        let frames: Vec<StackFrame> = stack
            .iter()
            .map(|(function, at)| StackFrame {
                function: FunctionId(*function),
                at: *at,
            })
            .collect();
        let known = self.stacks.iter().position(|known| *known == frames);
        let stack = known.unwrap_or_else(|| {
            self.stacks.push(frames);
            self.stacks.len() - 1
        });
        let first = self.facts.nodes.len() as u32;
        if let Some(node) = node {
            self.facts.nodes.push(node);
            self.kinds.push(kind);
        }
        self.steps.push(CallStep {
            thread,
            stack: stack as u32,
            order: self.steps.len() as u64 + 1,
            kind,
            nodes: first..self.facts.nodes.len() as u32,
        });
    }

    fn calls(&self) -> Calls<'_> {
        Calls {
            stacks: &self.stacks,
            steps: &self.steps,
            kinds: &self.kinds,
            facts: &self.facts,
            acknowledged: &self.acknowledged,
            is_divided: &|_| false,
        }
    }

    /// Functions with the steps of their behaviours, as positions from 1.
    fn grouped(&self, closeness: Closeness) -> Vec<(u32, Vec<u32>)> {
        let steps: Vec<u32> = (0..self.steps.len() as u32).collect();
        let calls = self.calls();
        let mut tree = Tree::new();
        for found in calls.subgraphs(&steps, &mut tree) {
            tree.nodes[found.at].own.push(found.steps);
        }
        let mut all = Vec::new();
        calls.group(tree, |branch, steps| {
            for near in closeness.split(&steps) {
                all.push((
                    branch.function.0,
                    near.iter().map(|step| step + 1).collect(),
                ));
            }
        });
        all.sort();
        all
    }

    fn plan(&self) -> super::super::RepresentativePlan {
        let mut builder = PlanBuilder::new(&self.facts, &self.acknowledged);
        let calls = self.calls();
        calls.behaviours(Closeness::default(), Rounds::default(), &mut builder);
        builder.finish()
    }
}

/// Figure 4: `Fn1` calls `Fn2`, which writes f1 twice, and `Fn3`; that calls `Fn4`, which writes f1,
/// and `Fn5`, which writes f2, syncs it, renames it, and syncs everything.
fn figure_4() -> Program {
    let mut program = Program::new();
    let (write, sync, rename) = (1, 2, 3);
    let fn2 = |line| [(1, 10), (2, line)];
    let fn4 = |line| [(1, 11), (3, 20), (4, line)];
    let fn5 = |line| [(1, 11), (3, 21), (5, line)];
    program.call(0, &fn2(1), write, Some(fact(1, &[], 7)));
    program.call(0, &fn2(2), write, Some(fact(2, &[0], 7)));
    program.call(0, &fn4(1), write, Some(fact(3, &[1], 7)));
    program.call(0, &fn5(1), write, Some(fact(4, &[], 5)));
    program.call(0, &fn5(2), sync, None);
    program.call(0, &fn5(3), rename, Some(fact(6, &[], 7)));
    program.call(0, &fn5(4), sync, None);
    program
}

#[test]
fn figure_7_functions_are_grouped_up_the_tree() {
    let grouped = figure_4().grouped(Closeness::default());
    let expected = [
        (1, vec![1, 2, 3, 4, 5, 6, 7]),
        (2, vec![1, 2]),
        (3, vec![3, 4, 5, 6, 7]),
        (5, vec![4, 5, 6, 7]),
    ];
    // `Fn4` makes one call, which the paper's algorithm puts with the next one, to `Fn5`, under
    // `Fn3`, and takes out again.
    assert_eq!(grouped, expected);
}

#[test]
fn figure_6_is_what_becomes_of_the_program_of_figure_4() {
    let mut program = figure_4();
    // Once more, and this time `Fn3` renames nothing.
    let (write, sync) = (1, 2);
    let stack = |line| [(1, 11), (3, line), (if line == 20 { 4 } else { 5 }, 1)];
    program.call(0, &stack(20), write, Some(fact(8, &[], 10)));
    program.call(0, &stack(21), write, Some(fact(9, &[], 10)));
    program.call(0, &[(1, 11), (3, 21), (5, 4)], sync, None);
    let plan = program.plan();
    let of = |function| {
        let all = plan.representatives.iter();
        let all = all.filter(move |one| one.of == function);
        all.map(|one| (one.nodes.len(), one.stands_for))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(3), [(3, 2)], "S3-1 represents S3-2");
    assert_eq!(of(2), [(2, 1)], "S2 is for itself");
}

#[test]
fn what_lies_far_apart_is_split_by_time() {
    let mut program = Program::new();
    // A background function every twenty calls.
    for round in 0..3 {
        program.call(
            0,
            &[(1, 1), (9, 1)],
            7,
            Some(fact(round * 22 + 1, &[], NEVER)),
        );
        program.call(
            0,
            &[(1, 1), (9, 2)],
            7,
            Some(fact(round * 22 + 2, &[], NEVER)),
        );
        for _ in 0..20 {
            let order = program.steps.len() as u64 + 1;
            program.call(0, &[(1, 1), (8, 1)], 5, Some(fact(order, &[], NEVER)));
        }
    }
    let grouped = program.grouped(Closeness::default());
    let background: Vec<_> = grouped
        .iter()
        .filter(|(function, _)| *function == 9)
        .collect();
    let expected = [(9, vec![1, 2]), (9, vec![23, 24]), (9, vec![45, 46])];
    assert!(background.into_iter().eq(&expected));
}

#[test]
fn a_loop_over_operations_is_one_behaviour_that_is_tried_once() {
    let mut program = Program::new();
    for round in 0..50_u64 {
        let first = round * 3 + 1;
        program.call(0, &[(1, 5), (2, 1)], 1, Some(fact(first, &[], first + 2)));
        program.call(
            0,
            &[(1, 5), (2, 2)],
            2,
            Some(fact(first + 1, &[], first + 2)),
        );
        program.call(0, &[(1, 5), (2, 3)], 3, None);
    }
    let plan = program.plan();
    let [one] = &plan.representatives[..] else {
        panic!("one representative: {plan:?}");
    };
    assert_eq!(one.nodes, [NodeId(0), NodeId(1)]);
    assert_eq!((one.begin, one.end), (1, 3));
    assert_eq!((plan.behaviours, one.stands_for), (50, 50));
}

#[test]
fn a_loop_that_makes_nothing_durable_ends_a_round_where_it_acknowledges() {
    let mut program = Program::new();
    for round in 0..50_u64 {
        let first = round * 2 + 1;
        program.call(0, &[(1, 5), (2, 1)], 1, Some(fact(first, &[], NEVER)));
        program.call(0, &[(1, 6)], 9, None);
        program.acknowledged.push(first + 1);
    }
    let plan = program.plan();
    assert!(plan.representatives.iter().all(|one| one.nodes.len() == 1));
    assert!(plan.representatives.len() <= 2, "{plan:?}");
}

#[test]
fn a_thread_with_one_call_has_a_behaviour() {
    let mut program = Program::new();
    program.call(0, &[(1, 1), (2, 1)], 1, Some(fact(1, &[], NEVER)));
    program.call(1, &[(1, 1), (3, 1)], 1, Some(fact(2, &[], NEVER)));
    let plan = program.plan();
    let of: Vec<u32> = plan.representatives.iter().map(|one| one.of).collect();
    assert_eq!(of, [2, 3]);
}

#[test]
fn stacks_with_nothing_in_common_have_the_outside_in_common() {
    let mut program = Program::new();
    program.call(0, &[], 1, Some(fact(1, &[], NEVER)));
    program.call(0, &[(4, 1)], 2, Some(fact(2, &[0], NEVER)));
    let plan = program.plan();
    assert!(plan.representatives.iter().any(|one| one.nodes.len() == 2));
}

#[test]
fn calls_that_do_different_things_in_one_place_are_not_alike() {
    let mut program = Program::new();
    for kind in [1, 2] {
        let order = program.steps.len() as u64 + 1;
        program.call(0, &[(1, 1)], kind, Some(fact(order, &[], order)));
        program.call(0, &[(1, 1)], kind, Some(fact(order + 1, &[], order + 1)));
    }
    let all: BTreeSet<ProgramPlace> = {
        let suffixes = Suffixes::new(&program.stacks);
        let place = |step: &CallStep| suffixes.place(step.stack, 1, step.kind);
        program.steps.iter().map(place).collect()
    };
    assert_eq!(all.len(), 2);
}

#[test]
fn a_stack_is_cut_where_a_function_is_entered_again() {
    let frame = |function, at| StackFrame {
        function: FunctionId(function),
        at,
    };
    let mut stacks = Stacks::default();
    let once = stacks.number(&[frame(1, 10), frame(2, 20), frame(3, 30)]);
    let deep = stacks.number(&[
        frame(1, 10),
        frame(2, 21),
        frame(2, 21),
        frame(2, 20),
        frame(3, 30),
    ]);
    let other = stacks.number(&[frame(1, 10), frame(2, 21), frame(3, 30)]);
    assert_eq!(once, deep);
    assert_ne!(once, other);
    // By way of each other.
    let in_turns = stacks.number(&[frame(1, 10), frame(2, 20), frame(1, 11)]);
    assert_eq!(stacks[in_turns as usize], [frame(1, 11)]);
}
