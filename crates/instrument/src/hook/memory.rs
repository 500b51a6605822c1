//! Hooks of loads, stores, atomics, flushes and fences.

use super::{Body, RARELY};
use crate::action::{Action, may_be_persistent};
use crate::llvm::{Builder, Value};
use crate::object::Object;
use crate::reads::{self, Extent, Reads};
use crashpoint_abi::CACHE_LINE_BYTES;
use crashpoint_abi::hooks::{LOAD_ESCAPE, LOAD_STRING};
use crashpoint_abi::layout::offsets;
use crashpoint_abi::record::{FenceKind, FlushKind, StoreKind};
use llvm_sys::{LLVMIntPredicate, LLVMOpcode};

/// Sizes of stores whose value the hook is handed.
pub fn is_vector(bytes: u64) -> bool {
    matches!(bytes, 16 | 32 | 64)
}

/// Whether the value may have to be handed on by address: it is no scalar, but not large.
pub fn is_handed_on(object: &Object, value: Value) -> bool {
    const MAX_BYTES: u64 = 64;
    let ty = value.ty();
    let word = ty.is_pointer() || ty.integer_bits().is_some_and(|bits| bits <= 64);
    ty.is_sized()
        && !ty.is_void()
        && !ty.is_scalable()
        && !word
        && ty.store_bytes(object.module) <= MAX_BYTES
}

/// Room for a value that is handed on by address, on the stack.
pub fn value_room(build: &Builder) -> Value {
    const MAX_BYTES: u32 = 64;
    let room = build.alloca(build.array(build.i8, MAX_BYTES.into()));
    room.set_alignment(MAX_BYTES);
    room
}

impl Body<'_> {
    /// A store of any type has been made.
    pub fn store(&mut self, anchor: Value, index: usize, kind: StoreKind) {
        let (_, store) = self.planned(index);
        let (value, pointer) = (store.operand(0), store.operand(1));
        if kind == StoreKind::Locked {
            self.locked(anchor, index);
        }
        self.stored(anchor, index, pointer, value, kind);
    }

    /// Reports that `value` is at `pointer` now, if that is persistent memory.
    fn stored(&self, anchor: Value, index: usize, pointer: Value, value: Value, kind: StoreKind) {
        let build = self.build();
        let bytes = value.ty().store_bytes(self.object.module);
        let condition = self.object.in_persistent_memory(pointer);
        let end = self.only_if(condition, anchor);
        let scalar = matches!(bytes, 1 | 2 | 4 | 8)
            .then(|| build.widen(value))
            .flatten();
        let thread = self.thread(end);
        let site = self.object.site(self.site(index));
        let size_and_kind = build.number(bytes as u32 | (kind as u32) << 8);
        match (scalar, self.value_room) {
            (Some(word), _) => {
                self.object.call(
                    self.object.hooks.store,
                    &[thread, site, pointer, word, size_and_kind],
                );
            }
            (None, Some(room)) if is_vector(bytes) => {
                build.store(value, room);
                self.object.call(
                    self.object.hooks.vector,
                    &[thread, site, pointer, room, size_and_kind],
                );
            }
            (None, _) => self.report_range(thread, site, pointer, build.word(bytes), kind),
        }
    }

    fn report_range(
        &self,
        thread: Value,
        site: Value,
        pointer: Value,
        length: Value,
        kind: StoreKind,
    ) {
        let kind = self.build().number(kind as u32);
        self.object.call(
            self.object.hooks.range,
            &[thread, site, pointer, length, kind],
        );
    }

    /// Reports that `length` bytes at `pointer` were written, if that is persistent memory.
    pub fn range(
        &self,
        anchor: Value,
        index: usize,
        pointer: Value,
        length: Value,
        kind: StoreKind,
    ) {
        let build = self.build();
        let mut condition = self.object.in_persistent_memory(pointer);
        if !length.is_constant_integer() {
            condition = build.and(condition, build.is_not_zero(length));
        }
        let end = self.only_if(condition, anchor);
        let thread = self.thread(end);
        let site = self.object.site(self.site(index));
        self.report_range(thread, site, pointer, length, kind);
    }

    /// A memory intrinsic has run.
    pub fn memory(&mut self, anchor: Value, index: usize) {
        let build = self.build();
        let (_, call) = self.planned(index);
        let length = build.resize(call.operand(2), build.i64);
        if length.small_integer() != Some(0) {
            self.range(anchor, index, call.operand(0), length, StoreKind::Memory);
        }
    }

    /// The start of the cache line, if that is what the instruction addresses.
    pub fn line_of(&self, pointer: Value, line: bool) -> Value {
        if !line {
            return pointer;
        }
        let build = self.build();
        let within = build.and(build.address(pointer), build.word(CACHE_LINE_BYTES - 1));
        build.index_bytes(pointer, build.sub(build.word(0), within))
    }

    /// Reports loads, where loads are recorded.
    pub fn loads(&self, loads: &[usize]) {
        for &index in loads {
            let (plan, instruction) = self.planned(index);
            if matches!(plan.action, Action::Load) {
                let bytes = instruction.ty().store_bytes(self.object.module);
                self.loaded(index, instruction.operand(0), self.build().word(bytes));
            } else {
                self.reads(
                    index,
                    &reads::of(self.object.module, &plan.action, instruction),
                );
            }
        }
    }

    /// Reports what an instruction is about to read, where loads are recorded.
    fn reads(&self, index: usize, reads: &Reads) {
        let build = self.build();
        let (_, instruction) = self.planned(index);
        let number = |operand: u32| build.resize(instruction.operand(operand), build.i64);
        let times = |left: Value, right: Value| build.binary(LLVMOpcode::LLVMMul, left, right);
        for read in &reads.known {
            let size = match read.extent {
                Extent::Bytes(bytes) => build.word(bytes),
                Extent::Argument { index, unit: 1 } => number(index),
                Extent::Argument { index, unit } => times(number(index), build.word(unit)),
                Extent::Product { left, right } => times(number(left), number(right)),
                Extent::String => build.word(u64::MAX),
                Extent::StringAtMost { limit } => build.or(number(limit), build.word(LOAD_STRING)),
            };
            self.loaded(index, instruction.operand(read.from), size);
        }
        // One report, however many addresses: the runtime waits for the callee to enter.
        let addresses = reads.escaping.iter().map(|from| instruction.operand(*from));
        let escaping = addresses.reduce(|rest, pointer| {
            let here = self.object.in_loaded_memory(pointer);
            build.select(here, pointer, rest)
        });
        if let Some(pointer) = escaping {
            self.loaded(index, pointer, build.word(LOAD_ESCAPE));
        }
    }

    /// Reports a load, where loads are recorded.
    pub fn loaded(&self, index: usize, pointer: Value, bytes: Value) {
        let build = self.build();
        let thread = self.activation.entered(build);
        let site = self.object.site(self.site(index));
        let helper = self.object.helpers.load(self.object);
        self.object.call(helper, &[thread, site, pointer, bytes]);
    }

    pub fn flush(&self, anchor: Value, index: usize, pointer: Value, kind: FlushKind) {
        let build = self.build();
        let condition = self.object.in_persistent_memory(pointer);
        let end = self.only_if(condition, anchor);
        let thread = self.thread(end);
        let site = self.object.site(self.site(index));
        let kind = build.number(kind as u32);
        self.object
            .call(self.object.hooks.flush, &[thread, site, pointer, kind]);
    }

    pub fn fence(&self, anchor: Value, index: usize, kind: FenceKind) {
        let end = self.if_active(anchor);
        let thread = self.thread(end);
        let site = self.object.site(self.site(index));
        let kind = self.build().number(kind as u32);
        self.object
            .call(self.object.hooks.fence, &[thread, site, kind]);
    }

    pub fn opaque(&self, anchor: Value, index: usize) {
        let end = self.if_active(anchor);
        let thread = self.thread(end);
        let site = self.object.site(self.site(index));
        self.object.call(self.object.hooks.opaque, &[thread, site]);
    }

    /// A locked operation is a fence, which matters if something waits for one.
    pub fn locked(&self, anchor: Value, index: usize) {
        let build = self.build();
        let end = self.if_active(anchor);
        let thread = self.activation.entered(build);
        let at = build.offset(thread, offsets::THREAD_PENDING as i64);
        let waiting = build.is_not_zero(build.own(build.load(build.i32, at)));
        build.if_then(waiting, end, RARELY);
        let site = self.object.site(self.site(index));
        let kind = build.number(FenceKind::Locked as u32);
        self.object
            .call(self.object.hooks.fence, &[thread, site, kind]);
        build.before(anchor);
    }

    /// Reports the fence of a locked instruction; the instruction and the address that it accesses,
    /// if that may be persistent memory.
    fn locked_access(&mut self, anchor: Value, index: usize) -> Option<(Value, Value)> {
        self.locked(anchor, index);
        let (_, instruction) = self.planned(index);
        let pointer = instruction.operand(0);
        may_be_persistent(self.object.module, pointer).then_some((instruction, pointer))
    }

    pub fn read_modify_write(&mut self, anchor: Value, index: usize) {
        let Some((instruction, pointer)) = self.locked_access(anchor, index) else {
            return;
        };
        let operand = instruction.operand(1);
        match self.new_value(instruction, operand) {
            Some(value) => self.stored(anchor, index, pointer, value, StoreKind::Locked),
            // Read back; another thread may have come in between.
            None => {
                let bytes = operand.ty().store_bytes(self.object.module);
                let length = self.build().word(bytes);
                self.range(anchor, index, pointer, length, StoreKind::Locked);
            }
        }
    }

    /// What a read-modify-write has written, from what it has read.
    fn new_value(&self, instruction: Value, operand: Value) -> Option<Value> {
        let build = self.build();
        let old = instruction;
        let larger = |predicate| {
            let keep = build.compare(predicate, old, operand);
            build.select(keep, old, operand)
        };
        Some(match instruction.rmw_name().as_str() {
            "xchg" => operand,
            "add" => build.add(old, operand),
            "sub" => build.sub(old, operand),
            "and" => build.and(old, operand),
            "or" => build.or(old, operand),
            "xor" => build.binary(LLVMOpcode::LLVMXor, old, operand),
            "nand" => {
                let ones = build.constant(operand.ty(), u64::MAX);
                build.binary(LLVMOpcode::LLVMXor, build.and(old, operand), ones)
            }
            "max" => larger(LLVMIntPredicate::LLVMIntSGT),
            "min" => larger(LLVMIntPredicate::LLVMIntSLT),
            "umax" => larger(LLVMIntPredicate::LLVMIntUGT),
            "umin" => larger(LLVMIntPredicate::LLVMIntULT),
            _ => return None,
        })
    }

    pub fn compare_exchange(&mut self, anchor: Value, index: usize) {
        let Some((instruction, pointer)) = self.locked_access(anchor, index) else {
            return;
        };
        let new = instruction.operand(2);
        let build = self.build();
        let succeeded = build.extract_value(instruction, 1);
        let end = self.only_if(succeeded, anchor);
        self.stored(end, index, pointer, new, StoreKind::Locked);
    }
}
