//! The walker against a naive interpreter: generated programs are run with all values, which gives
//! the streams and, on the side, a graph of every executed instruction with its data and control
//! edges. What each access to persistent memory depends on is then found by searching that graph.

use crate::{Access, AccessKind, Accesses, Analysis, Mappings, Models, RecordedAccess, Walker};
use crashpoint_ir::cfg::Cfg;
use crashpoint_ir::control::ControlDependence;
use crashpoint_ir::dominance::PostDominators;
use crashpoint_ir::*;
use crashpoint_trace::flow::FlowEvent;
use crashpoint_trace::program::{ResolvedInst, ResolvedSite, SourcePlace};
use crashpoint_trace::{PmAddress, SiteId as Site, ThreadIndex};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Persistent words, and ordinary ones.
const PM: u64 = 0x10_0000;
const DRAM: u64 = 0x20_0000;
const WORDS: u64 = 8;

const I64: TypeId = TypeId(0);
const POINTER: TypeId = TypeId(1);

/// A source of small decisions.
struct Dice<'a>(&'a [u8], usize);

impl Dice<'_> {
    fn roll(&mut self, below: usize) -> usize {
        self.1 += 1;
        self.0
            .get(self.1 - 1)
            .map_or(0, |byte| usize::from(*byte) % below.max(1))
    }
}

fn integer(value: u64) -> Operand {
    Operand::Constant(Constant::Integer { bits: 64, value })
}

/// Functions call only later ones.
fn module(dice: &mut Dice<'_>) -> Module {
    let count = 1 + dice.roll(3);
    let mut module = Module {
        types: vec![
            Type::Integer { bits: 64 },
            Type::Pointer { address_space: 0 },
        ],
        ..Module::default()
    };
    for number in 0..count {
        let site = SiteId(module.sites.len() as u32);
        module.sites.push(Site_ {
            function: FunctionId(number as u32),
            instruction: None,
        });
        let function = function(dice, number, count, site, &mut module.sites);
        module.functions.push(function);
    }
    module
}

use crashpoint_ir::Site as Site_;

fn function(
    dice: &mut Dice<'_>,
    number: usize,
    count: usize,
    site: SiteId,
    sites: &mut Vec<Site_>,
) -> Function {
    let blocks = 1 + dice.roll(5);
    let parameter = Parameter {
        ty: I64,
        name: None,
        root: false,
    };
    let mut next_value = 2;
    let mut next_inst = 0;
    // Values of the entry block and the parameters can be used everywhere.
    let mut everywhere = vec![ValueId(0), ValueId(1)];
    let mut lowered = Vec::new();
    for block in 0..blocks {
        let mut here = everywhere.clone();
        let mut instructions = Vec::new();
        let mut push = |op: Op, ty: TypeId, reports: bool, root: bool, has_result: bool| {
            let result = has_result.then(|| {
                next_value += 1;
                ValueId(next_value - 1)
            });
            let site = reports.then(|| {
                sites.push(Site_ {
                    function: FunctionId(number as u32),
                    instruction: Some(InstId(next_inst)),
                });
                SiteId(sites.len() as u32 - 1)
            });
            next_inst += 1;
            instructions.push(Inst {
                result,
                ty,
                op,
                location: None,
                site,
                root,
            });
            result
        };
        for _ in 0..1 + dice.roll(5) {
            let pick = |dice: &mut Dice<'_>| Operand::Value(here[dice.roll(here.len())]);
            let made = match dice.roll(6) {
                0 => {
                    let operands = vec![pick(dice), pick(dice)];
                    let name = "add".to_owned();
                    push(Op::Arithmetic { name, operands }, I64, false, false, true)
                }
                1 if number + 1 < count => {
                    let callee = number + 1 + dice.roll(count - number - 1);
                    let arguments = vec![pick(dice), pick(dice)];
                    let op = Op::Call {
                        callee: Callee::Direct(FunctionId(callee as u32)),
                        arguments,
                        tail: false,
                    };
                    push(op, I64, true, false, true)
                }
                2 => {
                    let (condition, then, otherwise) = (pick(dice), pick(dice), pick(dice));
                    let op = Op::Select {
                        condition,
                        then,
                        otherwise,
                    };
                    push(op, I64, false, false, true)
                }
                kind => {
                    // Which word is computed: a constant base and an index.
                    let base = if dice.roll(2) == 0 { PM } else { DRAM };
                    let name = "word".to_owned();
                    let operands = vec![integer(base), pick(dice)];
                    let op = Op::Arithmetic { name, operands };
                    let pointer = push(op, POINTER, false, true, true).expect("it has one");
                    let pointer = Operand::Value(pointer);
                    let (size_bytes, ordering, volatile) = (8, Ordering::NotAtomic, false);
                    match kind {
                        3 | 4 => {
                            let op = Op::Load {
                                pointer,
                                size_bytes,
                                ordering,
                                volatile,
                            };
                            push(op, I64, true, false, true)
                        }
                        _ => {
                            let op = Op::Store {
                                value: pick(dice),
                                pointer,
                                size_bytes,
                                ordering,
                                volatile,
                                nontemporal: false,
                            };
                            push(op, I64, true, false, false)
                        }
                    }
                }
            };
            here.extend(made);
        }
        let value = Operand::Value(here[dice.roll(here.len())]);
        let target = |dice: &mut Dice<'_>| BlockId(1.max(dice.roll(blocks)) as u32);
        let op = match dice.roll(4) {
            _ if block + 1 == blocks => Op::Return { value: Some(value) },
            0 => Op::Return { value: Some(value) },
            1 => Op::Branch { to: target(dice) },
            _ => Op::ConditionalBranch {
                condition: value,
                then: target(dice),
                otherwise: target(dice),
            },
        };
        push(op, I64, false, false, false);
        if block == 0 {
            everywhere = here;
        }
        lowered.push(Block { instructions });
    }
    Function {
        name: format!("f{number}"),
        source_name: None,
        internal: false,
        location: None,
        result: I64,
        parameters: vec![parameter.clone(), parameter],
        variadic: false,
        hooks: Hooks::Hooked,
        site: Some(site),
        blocks: lowered,
    }
}

/// An executed instruction.
#[derive(Default)]
struct Node {
    data: Vec<usize>,
    /// Branches that decided.
    control: Vec<usize>,
    /// A read of this word of persistent memory: the search ends here.
    reads: Option<u64>,
}

struct Naive<'m> {
    module: &'m Module,
    nodes: Vec<Node>,
    flow: Vec<FlowEvent>,
    accesses: Vec<RecordedAccess>,
    memory: BTreeMap<u64, (u64, usize)>,
    /// What each access depends on: by data, by control.
    found: Vec<(u64, AccessKind, BTreeSet<u64>, BTreeSet<u64>)>,
    fuel: usize,
}

/// A value and who made it.
type Made = (u64, usize);

impl Naive<'_> {
    fn node(&mut self, data: Vec<usize>, control: Vec<usize>) -> usize {
        self.nodes.push(Node {
            data,
            control,
            reads: None,
        });
        self.nodes.len() - 1
    }

    /// Reads that are reached from some nodes: without, and with at least one control edge.
    fn search(&self, from: &[usize], control: &[usize]) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let (mut data, mut decided) = (BTreeSet::new(), BTreeSet::new());
        let mut seen = BTreeSet::new();
        let mut work: Vec<(usize, bool)> = from.iter().map(|node| (*node, false)).collect();
        work.extend(control.iter().map(|node| (*node, true)));
        while let Some((node, by_control)) = work.pop() {
            if !seen.insert((node, by_control)) {
                continue;
            }
            let node = &self.nodes[node];
            if let Some(word) = node.reads {
                if by_control {
                    decided.insert(word)
                } else {
                    data.insert(word)
                };
                continue;
            }
            work.extend(node.data.iter().map(|next| (*next, by_control)));
            work.extend(node.control.iter().map(|next| (*next, true)));
        }
        (data, decided)
    }

    fn access(&mut self, kind: AccessKind, at: u64, local: SiteId, from: &[usize], by: &[usize]) {
        let (data, control) = self.search(from, by);
        self.found.push((at, kind, data, control));
        self.accesses.push(RecordedAccess {
            kind,
            address: at,
            pm: PmAddress(at - PM),
            length: 8,
            site: Site(local.0 + 1),
            order: self.accesses.len() as u64,
        });
    }

    /// Runs a function; none if the fuel is spent. `outer` decided that it is called.
    fn call(&mut self, id: usize, arguments: [Made; 2], outer: Vec<usize>) -> Option<Made> {
        let module = self.module;
        let function = &module.functions[id];
        let cfg = Cfg::new(function);
        let post = PostDominators::new(&cfg);
        let dependence = ControlDependence::new(&cfg, &post);
        let site = function.site.expect("it has one");
        self.flow.push(FlowEvent::Enter {
            site: Site(site.0 + 1),
        });
        let mut values: BTreeMap<ValueId, Made> = BTreeMap::new();
        values.insert(ValueId(0), arguments[0]);
        values.insert(ValueId(1), arguments[1]);
        // The last branch of each block: its node, and where it led.
        let mut branches: BTreeMap<BlockId, (usize, BlockId, usize)> = BTreeMap::new();
        let mut block = BlockId(0);
        for time in 0.. {
            // What was decided before the ways met again decides no more.
            branches.retain(|branch, _| post.immediate(*branch) != Some(block));
            // The latest of the branches that the block depends on, if it led this way.
            let parents = dependence.of(block).iter();
            let taken = parents.filter_map(|on| {
                let (node, to, when) = *branches.get(&on.branch)?;
                (to == on.successor).then_some((when, node))
            });
            let control = match taken.max() {
                Some((_, node)) => vec![node],
                None => outer.clone(),
            };
            let (mut roots, mut pending) = (Vec::new(), Vec::new());
            for inst in &function.blocks[block.index()].instructions {
                self.fuel = self.fuel.checked_sub(1)?;
                let get = |operand: &Operand| match operand {
                    Operand::Value(value) => values[value],
                    Operand::Constant(Constant::Integer { value, .. }) => (*value, usize::MAX),
                    Operand::Constant(_) => (0, usize::MAX),
                };
                let from = |made: &[Made]| -> Vec<usize> {
                    let nodes = made.iter().map(|made| made.1);
                    nodes.filter(|node| *node != usize::MAX).collect()
                };
                let made = match &inst.op {
                    Op::Arithmetic { name, operands } => {
                        let (one, two) = (get(&operands[0]), get(&operands[1]));
                        let value = match name.as_str() {
                            "word" => one.0 + two.0 % WORDS * 8,
                            _ => one.0.wrapping_mul(3).wrapping_add(two.0).wrapping_add(1),
                        };
                        if inst.root {
                            roots.push(value);
                        }
                        (value, self.node(from(&[one, two]), Vec::new()))
                    }
                    Op::Select {
                        condition,
                        then,
                        otherwise,
                    } => {
                        let all = [get(condition), get(then), get(otherwise)];
                        let value = if all[0].0 % 2 == 1 {
                            all[1].0
                        } else {
                            all[2].0
                        };
                        let deciding = from(&all[..1]);
                        (value, self.node(from(&all), deciding))
                    }
                    Op::Load { pointer, .. } => {
                        let pointer = get(pointer);
                        let held = self.memory.get(&pointer.0).copied();
                        let value = held.map_or(pointer.0 / 8, |held| held.0);
                        let node = if pointer.0 < DRAM {
                            pending.push((inst, pointer, None, control.clone()));
                            let node = self.node(Vec::new(), Vec::new());
                            self.nodes[node].reads = Some(pointer.0);
                            node
                        } else {
                            let held = held.unwrap_or((0, usize::MAX));
                            self.node(from(&[pointer, held]), Vec::new())
                        };
                        (value, node)
                    }
                    Op::Store { value, pointer, .. } => {
                        let (value, pointer) = (get(value), get(pointer));
                        let node = if pointer.0 < DRAM {
                            pending.push((inst, pointer, Some(value), control.clone()));
                            usize::MAX
                        } else {
                            self.node(from(&[value, pointer]), control.clone())
                        };
                        self.memory.insert(pointer.0, (value.0, node));
                        continue;
                    }
                    Op::Call { arguments, .. } => {
                        let callee = match inst.op.callee() {
                            Some(Callee::Direct(callee)) => callee.index(),
                            _ => unreachable!("only such calls are generated"),
                        };
                        let given = [get(&arguments[0]), get(&arguments[1])];
                        self.flush(&mut roots, &mut pending, &from);
                        let result = self.call(callee, given, control.clone())?;
                        self.flow.push(FlowEvent::AfterCall);
                        result
                    }
                    Op::Return { value } => {
                        self.flush(&mut roots, &mut pending, &from);
                        self.flow.push(FlowEvent::Return);
                        return value.as_ref().map(get);
                    }
                    Op::Branch { to } => {
                        self.flush(&mut roots, &mut pending, &from);
                        block = *to;
                        break;
                    }
                    Op::ConditionalBranch {
                        condition,
                        then,
                        otherwise,
                    } => {
                        self.flush(&mut roots, &mut pending, &from);
                        let condition = get(condition);
                        let successor = u16::from(condition.0 % 2 == 0);
                        self.flow.push(FlowEvent::Branch { successor });
                        let to = if successor == 0 { *then } else { *otherwise };
                        let node = self.node(from(&[condition]), control.clone());
                        branches.insert(block, (node, to, time));
                        block = to;
                        break;
                    }
                    other => unreachable!("{other:?} is not generated"),
                };
                values.insert(inst.result.expect("all others have one"), made);
            }
        }
        None
    }

    /// A segment ends: addresses are written, and what was accessed is known.
    fn flush(
        &mut self,
        roots: &mut Vec<u64>,
        pending: &mut Vec<(&Inst, Made, Option<Made>, Vec<usize>)>,
        from: &dyn Fn(&[Made]) -> Vec<usize>,
    ) {
        let roots = roots.drain(..).map(FlowEvent::Address);
        self.flow.extend(roots);
        for (inst, pointer, value, control) in pending.drain(..) {
            let site = inst.site.expect("accesses report");
            match value {
                None => {
                    let pointer_from = from(&[pointer]);
                    self.access(AccessKind::Read, pointer.0, site, &pointer_from, &control);
                }
                Some(value) => {
                    let both = from(&[pointer, value]);
                    self.access(AccessKind::Write, pointer.0, site, &both, &control);
                }
            }
        }
    }
}

/// Labels are sets of words, as bits.
#[derive(Default)]
struct Bits {
    found: Vec<(u64, AccessKind, BTreeSet<u64>, BTreeSet<u64>)>,
}

fn words(bits: u64) -> BTreeSet<u64> {
    (0..64)
        .filter(|bit| bits >> bit & 1 == 1)
        .map(|bit| PM + 8 * bit)
        .collect()
}

impl Analysis for Bits {
    type Label = (u64, u64);
    type Control = u64;

    fn join(&mut self, one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
        (one.0 | other.0, one.1 | other.1)
    }

    fn chosen(&mut self, value: (u64, u64), control: u64) -> (u64, u64) {
        (value.0, value.1 | control)
    }

    fn decide(&mut self, control: u64, condition: (u64, u64)) -> u64 {
        control | condition.0 | condition.1
    }

    fn read(&mut self, access: &Access, pointer: (u64, u64), control: u64) -> (u64, u64) {
        let read = (
            AccessKind::Read,
            words(pointer.0),
            words(pointer.1 | control),
        );
        self.found.push((PM + access.pm.0, read.0, read.1, read.2));
        (1 << (access.pm.0 / 8), 0)
    }

    fn write(&mut self, access: &Access, pointer: (u64, u64), value: (u64, u64), control: u64) {
        let data = words(pointer.0 | value.0);
        let decided = words(pointer.1 | value.1 | control);
        self.found
            .push((PM + access.pm.0, AccessKind::Write, data, decided));
    }
}

struct One(Module);

impl Models for One {
    fn resolve(&self, site: Site) -> Option<ResolvedSite<'_>> {
        let entry = self.0.sites.get(site.index().checked_sub(1)?)?;
        let function = &self.0.functions[entry.function.index()];
        let inst = entry.instruction.and_then(|id| {
            let (block, inst) = function.instruction(id)?;
            Some(ResolvedInst { id, block, inst })
        });
        Some(ResolvedSite {
            model: 0,
            function_id: entry.function,
            function,
            inst,
            place: SourcePlace {
                file: "",
                line: 0,
                column: 0,
                function: String::new(),
            },
            inlined: Vec::new(),
        })
    }

    fn model(&self, _: usize) -> Option<&Module> {
        Some(&self.0)
    }
}

fn compare(bytes: &[u8]) -> usize {
    let models = One(module(&mut Dice(bytes, 0)));
    let mut naive = Naive {
        module: &models.0,
        nodes: Vec::new(),
        flow: Vec::new(),
        accesses: Vec::new(),
        memory: BTreeMap::new(),
        found: Vec::new(),
        fuel: 250,
    };
    let seed = u64::from(bytes.first().copied().unwrap_or(0));
    let none = usize::MAX;
    let finished = naive.call(0, [(seed, none), (seed / 3, none)], Vec::new());
    let mut bits = Bits::default();
    let mut walker = Walker::new(&models, &mut bits);
    walker.first_sites = vec![1];
    walker.mappings = Mappings::default();
    walker.mappings.add(PM, WORDS * 8, PmAddress(0));
    let accesses = Accesses::new(naive.accesses.clone().into_iter());
    walker.thread(ThreadIndex(0), naive.flow.iter().copied(), accesses);
    let lost = walker.followed.unfollowed.lost;
    assert!(finished.is_none() || lost == 0, "the walk was lost");
    assert_eq!(walker.followed.unfollowed.unmatched, 0);
    assert_eq!(bits.found, naive.found);
    naive.found.len()
}

#[test]
fn generated_programs_are_not_all_trivial() {
    let accesses: usize = (0..200u64)
        .map(|seed| {
            let bytes: Vec<u8> = (0..400u64)
                .map(|n| ((seed * 7919 + n * n * 104_729 + n * 31) >> 3) as u8)
                .collect();
            compare(&bytes)
        })
        .sum();
    assert!(accesses > 1000, "{accesses}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn labels_are_what_a_search_of_the_graph_finds(
        bytes in prop::collection::vec(any::<u8>(), 1..400),
    ) {
        compare(&bytes);
    }
}
