//! Writing the flow stream inline; the format is `crashpoint_abi::flow`.

use super::events::Details;
use super::{Body, OFTEN, RARELY};
use crate::action::Action;
use crate::llvm::{self, BasicBlock, Builder, Value};
use crashpoint_abi::flow;
use crashpoint_abi::layout::offsets;
use llvm_sys::{LLVMIntPredicate, LLVMOpcode};
use rustc_hash::FxHashMap;

/// What is written at the end of a segment.
#[derive(Debug, Default)]
pub struct Group {
    /// The segment begins where a call returned.
    pub after_call: bool,
    /// The result of the invoke that the segment begins behind: its address and its value stand
    /// before everything else.
    pub head_root: Option<Value>,
    pub head_value: Option<Value>,
    pub roots: Vec<Value>,
    pub words: Vec<Value>,
    pub values: Vec<Value>,
    pub end: SegmentEnd,
    /// The limit must be checked before it is written; see [`super::room`].
    pub checked: bool,
}

/// How a segment ends.
#[derive(Clone, Copy, Debug, Default)]
pub enum SegmentEnd {
    /// A call, or a branch that needs no record.
    #[default]
    Silent,
    Branch {
        condition: Value,
    },
    Switch(Value),
    Return,
}

impl SegmentEnd {
    pub fn of(instruction: Value, tail: bool) -> SegmentEnd {
        match instruction.opcode() {
            _ if tail => SegmentEnd::Return,
            LLVMOpcode::LLVMRet => SegmentEnd::Return,
            LLVMOpcode::LLVMBr if instruction.successors().len() == 2 => SegmentEnd::Branch {
                condition: instruction.operand(0),
            },
            LLVMOpcode::LLVMSwitch => SegmentEnd::Switch(instruction),
            _ => SegmentEnd::Silent,
        }
    }
}

impl Group {
    pub fn is_empty(&self) -> bool {
        !self.after_call
            && self.roots.is_empty()
            && self.words.is_empty()
            && self.values.is_empty()
            && matches!(self.end, SegmentEnd::Silent)
            && !self.checked
    }

    /// Most bytes that it writes, without the values: what writes them makes room itself.
    pub fn most_bytes(&self) -> usize {
        let roots = self.roots.len() + usize::from(self.head_root.is_some());
        // AFTER_CALL and the end.
        1 + flow::SWITCH_BYTES + roots * flow::ADDRESS_BYTES + self.words.len() * flow::WORD_BYTES
    }
}

/// Whether the value of an instruction is recorded at level value: what comes from memory or from
/// code that the model does not have.
pub fn records_value(module: llvm::Module, action: &Action, instruction: Value) -> bool {
    let source = match instruction.opcode() {
        LLVMOpcode::LLVMLoad
        | LLVMOpcode::LLVMAtomicRMW
        | LLVMOpcode::LLVMAtomicCmpXchg
        | LLVMOpcode::LLVMVAArg => true,
        LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke => {
            matches!(action, Action::Call(_) | Action::Assembly(_))
        }
        _ => false,
    };
    source && value_class(module, instruction).is_some()
}

/// The power of two that a value's bytes are padded to.
fn value_class(module: llvm::Module, value: Value) -> Option<u8> {
    let ty = value.ty();
    if ty.is_void() || !ty.is_sized() || ty.is_scalable() {
        return None;
    }
    match ty.store_bytes(module) {
        0 => None,
        bytes @ 1..=64 => Some(bytes.next_power_of_two().trailing_zeros() as u8),
        _ => None,
    }
}

/// Blocks that indirect branches lead to, and the number of the successor they stand for.
pub type Arrivals = FxHashMap<BasicBlock, Value>;

/// Puts a phi into each target of an indirect branch or `asm goto` that tells how it was reached:
/// the number of the successor, or -1 from elsewhere.
pub fn arrivals(build: &Builder, blocks: &[Vec<Value>]) -> Arrivals {
    let terminators = || blocks.iter().filter_map(|block| block.last().copied());
    let indirect = |terminator: Value| {
        matches!(
            terminator.opcode(),
            LLVMOpcode::LLVMIndirectBr | LLVMOpcode::LLVMCallBr
        )
    };
    let mut edges: FxHashMap<BasicBlock, Vec<(Value, BasicBlock)>> = FxHashMap::default();
    let mut targets: Vec<BasicBlock> = Vec::new();
    if !terminators().any(indirect) {
        return Arrivals::default();
    }
    for terminator in terminators() {
        let successors = terminator.successors();
        for to in &successors {
            let first = successors.iter().position(|other| other == to);
            let number = if indirect(terminator) {
                targets.push(*to);
                first.expect("it is one of them") as u32
            } else {
                u32::MAX
            };
            let incoming = (build.number(number), terminator.block());
            edges.entry(*to).or_default().push(incoming);
        }
    }
    targets
        .into_iter()
        .map(|to| {
            build.at_front(to);
            (to, edges.remove(&to))
        })
        .filter_map(|(to, incoming)| Some((to, build.phi(build.i32, &incoming?))))
        .collect()
}

/// Where the next record goes.
struct Cursor {
    base: Value,
    offset: usize,
    /// Bytes since the limit was checked.
    unchecked: usize,
}

/// What one record may take beyond its bytes: addresses are written as eight bytes.
const SLACK_BYTES: usize = 80;

impl Body<'_> {
    /// Loads and the end of a segment, where they are recorded.
    pub fn details(&mut self, anchor: Value, details: &Details) {
        let build = self.build();
        let (flow, loads) = (self.activation.flow(build), self.activation.loads(build));
        match (&details.group, details.loads.is_empty()) {
            (None, _) => {
                build.if_then(loads, anchor, RARELY);
                self.loads(&details.loads);
            }
            (Some(group), true) => {
                let end = build.if_then(flow, anchor, RARELY);
                self.group(end, group);
            }
            (Some(group), false) => {
                let end = build.if_then(self.activation.busy(build), anchor, RARELY);
                build.if_then(loads, end, RARELY);
                self.loads(&details.loads);
                build.before(end);
                let end = build.if_then(flow, end, OFTEN);
                self.group(end, group);
            }
        }
    }

    /// Writes a group; the builder stands before `end`.
    fn group(&self, end: Value, group: &Group) {
        let mut cursor = if group.checked {
            self.check_limit(end)
        } else {
            self.unchecked_cursor()
        };
        if group.after_call {
            self.put_byte(&mut cursor, flow::AFTER_CALL);
        }
        if let Some(root) = group.head_root {
            self.put_address(&mut cursor, root, end);
        }
        if let Some(value) = group.head_value {
            cursor = self.put_values(cursor, &[value], end);
        }
        for &root in &group.roots {
            self.put_address(&mut cursor, root, end);
        }
        for &word in &group.words {
            self.make_room(&mut cursor, end);
            self.put_byte(&mut cursor, flow::WORD);
            let word = self.build().resize(word, self.build().i64);
            self.put(&mut cursor, word, 8);
        }
        if !group.values.is_empty() {
            cursor = self.put_values(cursor, &group.values, end);
        }
        match group.end {
            SegmentEnd::Silent => {}
            SegmentEnd::Return => self.put_byte(&mut cursor, flow::RETURN),
            SegmentEnd::Branch { condition } => {
                let build = self.build();
                // BRANCH for the first successor, one more for the second.
                let taken = build.resize(condition, build.i8);
                let second = build.constant(build.i8, u64::from(flow::BRANCH) + 1);
                self.put(&mut cursor, build.sub(second, taken), 1);
            }
            SegmentEnd::Switch(switch) => {
                let number = self.successor_number(switch, end);
                self.put_switch(&mut cursor, number);
            }
        }
        self.advance(&cursor);
    }

    /// Control came from an indirect branch, unless the number is negative.
    pub fn arrival(&mut self, anchor: Value, number: Value) {
        let build = self.build();
        let zero = build.number(0);
        let came = build.compare(LLVMIntPredicate::LLVMIntSGE, number, zero);
        let both = build.and(self.activation.flow(self.build()), came);
        let end = build.if_then(both, anchor, RARELY);
        let mut cursor = self.check_limit(end);
        self.put_switch(&mut cursor, number);
        self.advance(&cursor);
    }

    /// A cursor where room is known to be left.
    fn unchecked_cursor(&self) -> Cursor {
        let build = self.build();
        let thread = self.activation.entered(build);
        let at = build.offset(thread, offsets::THREAD_FLOW_CURSOR as i64);
        Cursor {
            base: build.own(build.load(build.pointer, at)),
            offset: 0,
            unchecked: 0,
        }
    }

    /// A cursor with room for [`flow::ROOM_BYTES`]; the builder stands before `end`.
    fn check_limit(&self, end: Value) -> Cursor {
        let build = self.build();
        let thread = self.activation.entered(build);
        let at = build.offset(thread, offsets::THREAD_FLOW_CURSOR as i64);
        let limit = build.offset(thread, offsets::THREAD_FLOW_LIMIT as i64);
        let here = build.own(build.load(build.pointer, at));
        let limit = build.own(build.load(build.pointer, limit));
        let full = build.compare(LLVMIntPredicate::LLVMIntUGT, here, limit);
        let head = end.block();
        let back = build.if_then(full, end, RARELY);
        self.object.call(self.object.hooks.flow_full, &[thread]);
        let renewed = build.own(build.load(build.pointer, at));
        build.before(end);
        let base = build.phi(build.pointer, &[(here, head), (renewed, back.block())]);
        Cursor {
            base,
            offset: 0,
            unchecked: 0,
        }
    }

    /// Checks the limit again where a long group comes near the room that the last check granted.
    fn make_room(&self, cursor: &mut Cursor, end: Value) {
        if cursor.unchecked + SLACK_BYTES > flow::ROOM_BYTES {
            self.advance(cursor);
            *cursor = self.check_limit(end);
        }
    }

    fn advance(&self, cursor: &Cursor) {
        let build = self.build();
        let thread = self.activation.entered(build);
        let at = build.offset(thread, offsets::THREAD_FLOW_CURSOR as i64);
        build.own(build.store(build.offset(cursor.base, cursor.offset as i64), at));
    }

    /// Writes a value, of which `bytes` count.
    fn put(&self, cursor: &mut Cursor, value: Value, bytes: usize) {
        let build = self.build();
        build.store_to_stream(value, build.offset(cursor.base, cursor.offset as i64));
        cursor.offset += bytes;
        cursor.unchecked += bytes;
    }

    fn put_byte(&self, cursor: &mut Cursor, byte: u8) {
        let value = self.build().constant(self.build().i8, byte.into());
        self.put(cursor, value, 1);
    }

    /// Tag and address in one word; what follows overwrites its last byte.
    fn put_address(&self, cursor: &mut Cursor, pointer: Value, end: Value) {
        self.make_room(cursor, end);
        let build = self.build();
        let address = build.shift_left(build.address(pointer), build.word(8));
        let record = build.or(address, build.word(flow::ADDRESS.into()));
        self.put(cursor, record, flow::ADDRESS_BYTES);
    }

    fn put_switch(&self, cursor: &mut Cursor, number: Value) {
        self.put_byte(cursor, flow::SWITCH);
        let number = self.build().resize(number, self.build().i16);
        self.put(cursor, number, flow::SWITCH_BYTES - 1);
    }

    /// Values, if the level asks for them. That level may take its time: helpers write them.
    fn put_values(&self, cursor: Cursor, values: &[Value], end: Value) -> Cursor {
        let build = self.build();
        let start = build.offset(cursor.base, cursor.offset as i64);
        let head = end.block();
        let inner = build.if_then(self.activation.value(build), end, RARELY);
        let thread = self.activation.entered(build);
        let at = build.offset(thread, offsets::THREAD_FLOW_CURSOR as i64);
        build.own(build.store(start, at));
        for &value in values {
            self.put_value(value, thread);
        }
        let finish = build.own(build.load(build.pointer, at));
        build.before(end);
        Cursor {
            base: build.phi(build.pointer, &[(start, head), (finish, inner.block())]),
            offset: 0,
            unchecked: cursor.unchecked,
        }
    }

    fn put_value(&self, value: Value, thread: Value) {
        let build = self.build();
        let object = self.object;
        let class = value_class(object.module, value).expect("only such values are recorded");
        let class_number = build.number(class.into());
        let small = (class <= 3).then(|| build.widen(value)).flatten();
        match small {
            Some(word) => {
                let helper = object.helpers.value(object);
                object.call(helper, &[thread, word, class_number]);
            }
            None => {
                let room = self.value_room.expect("a body with wide values has room");
                if value.ty().store_bytes(object.module) != 1 << class {
                    build.store(build.null(build.integer(8 << class)), room);
                }
                build.store(value, room);
                let helper = object.helpers.wide_value(object);
                object.call(helper, &[thread, room, class_number]);
            }
        }
    }

    /// The number of the successor that a switch is about to take: the first one that is that
    /// block.
    fn successor_number(&self, switch: Value, end: Value) -> Value {
        let build = self.build();
        let module = self.object.module;
        let successors = switch.successors();
        let function = end.block().function();
        let first_of = |block: &BasicBlock| {
            let position = successors.iter().position(|other| other == block);
            position.expect("it is one of them") as u64
        };
        // One block for each number; they meet where the records go on.
        let head = end.block();
        let rest = build.split(end);
        let mut numbers: Vec<(u64, BasicBlock)> = Vec::new();
        let mut block_of = |number: u64| match numbers.iter().find(|(n, _)| *n == number) {
            Some((_, block)) => *block,
            None => {
                let block = function.append_block(module);
                build.at_end(block);
                build.branch(rest);
                numbers.push((number, block));
                block
            }
        };
        let default = block_of(0);
        let cases: Vec<(Value, BasicBlock)> = switch
            .switch_cases()
            .into_iter()
            .map(|(value, block)| (value, block_of(first_of(&block))))
            .collect();
        build.replace_terminator(head, |build| {
            build.switch(switch.operand(0), default, &cases)
        });
        build.before(end);
        let incoming: Vec<(Value, BasicBlock)> = numbers
            .into_iter()
            .map(|(number, block)| (build.constant(build.i16, number), block))
            .collect();
        build.phi(build.i16, &incoming)
    }
}
