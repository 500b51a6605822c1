//! Hooks around calls.

use super::{Body, RARELY};
use crate::action::CallAction;
use crate::library::{self, If, Length, Write};
use crate::llvm::{Builder, Value};
use crashpoint_abi::hooks::MAX_CALL_ARGUMENTS;
use crashpoint_abi::layout::offsets;
use crashpoint_abi::record::{StoreKind, ThreadSync};
use llvm_sys::{LLVMIntPredicate, LLVMOpcode};

/// Most bytes of an argument passed by value in memory that are handed on as words.
const BY_VALUE_BYTES: u64 = 16;

/// Room for the arguments of a watched call, on the stack.
pub fn argument_room(build: &Builder) -> Value {
    build.alloca(build.array(build.i64, MAX_CALL_ARGUMENTS as u64))
}

impl Body<'_> {
    pub fn call_before(&mut self, anchor: Value, index: usize, call: &CallAction) {
        let (_, instruction) = self.planned(index);
        let build = self.build();
        let tail = instruction.is_opcode(LLVMOpcode::LLVMCall) && instruction.must_tail();
        let end = self.if_active(anchor);
        let site = self.object.site(self.site(index));
        if !tail {
            let at = build.offset(self.activation.frame(build), offsets::FRAME_SITE as i64);
            build.own(build.store(site, at));
        }
        if self.leaves_instrumented_code(call) {
            let thread = self.activation.entered(build);
            let at = build.offset(thread, offsets::THREAD_EXTERNAL_SITE as i64);
            build.own(build.store(site, at));
        }
        if let Some(sync) = call.sync
            && let Some(kind) = sync.before
        {
            self.sync(index, sync.object, kind);
        }
        if let Some(watched) = call
            .callee
            .and_then(|callee| self.object.is_watched(callee))
        {
            build.if_then(watched, end, RARELY);
            self.watched_call(index);
        }
    }

    /// Whether the callee may be code without hooks.
    fn leaves_instrumented_code(&self, call: &CallAction) -> bool {
        !call
            .callee
            .is_some_and(|callee| callee.is_function() && !callee.is_declaration())
    }

    pub fn call_after(&mut self, anchor: Value, index: usize, call: &CallAction) {
        let (_, instruction) = self.planned(index);
        let build = self.build();
        let may_catch = !instruction.does_not_throw()
            && !self.plan.function.has_attribute("nounwind")
            && self.leaves_instrumented_code(call);
        if may_catch {
            self.heal(anchor, index);
            build.before(anchor);
        }
        if instruction.returns_twice() {
            let name = call.callee.map(Value::name).unwrap_or_default();
            if library::is_setjmp(&name) {
                self.returned_again(anchor, index)
            } else {
                self.resync(anchor, index)
            }
            build.before(anchor);
        }
        if let Some(write) = call.write {
            self.library_write(anchor, index, write);
            build.before(anchor);
        }
        if let Some(sync) = call.sync
            && let Some(kind) = sync.after
        {
            self.sync_after(anchor, index, sync, kind);
            build.before(anchor);
        }
        if let Some(watched) = call
            .callee
            .and_then(|callee| self.object.is_watched(callee))
        {
            self.only_if(watched, anchor);
            let thread = self.activation.entered(build);
            let site = self.object.site(self.site(index));
            let value = build
                .widen(instruction)
                .or_else(|| build.second_word(instruction))
                .unwrap_or_else(|| build.word(0));
            self.object
                .call(self.object.hooks.call_returned, &[thread, site, value]);
        }
    }

    /// Uninstrumented code may have caught an exception that skipped frames above this one.
    fn heal(&self, anchor: Value, index: usize) {
        let build = self.build();
        let end = self.if_active(anchor);
        let thread = self.activation.entered(build);
        let at = build.offset(thread, offsets::THREAD_FRAME as i64);
        let top = build.own(build.load(build.pointer, at));
        let frame = self.activation.frame(build);
        let skipped = build.compare(LLVMIntPredicate::LLVMIntNE, top, frame);
        let end = build.if_then(skipped, end, RARELY);
        self.resync(end, index);
    }

    /// Hands the arguments to the runtime as words.
    fn watched_call(&self, index: usize) {
        let build = self.build();
        let (_, instruction) = self.planned(index);
        let room = self.arguments.expect("a body with named callees has room");
        let mut count = 0;
        let mut put = |word: Value| {
            if count < MAX_CALL_ARGUMENTS {
                build.store(word, build.offset(room, 8 * count as i64));
                count += 1;
            }
        };
        for (number, argument) in instruction.arguments().into_iter().enumerate() {
            match instruction.by_value_bytes(number as u32) {
                bytes @ 1..=BY_VALUE_BYTES if bytes % 8 == 0 => {
                    for offset in (0..bytes).step_by(8) {
                        put(build.load(build.i64, build.offset(argument, offset as i64)));
                    }
                }
                _ => put(build.widen(argument).unwrap_or_else(|| build.word(0))),
            }
        }
        let thread = self.activation.entered(build);
        let site = self.object.site(self.site(index));
        let count = build.number(count as u32);
        self.object
            .call(self.object.hooks.call, &[thread, site, room, count]);
    }

    // ---- synchronisation ------------------------------------------------------------------

    fn sync(&self, index: usize, object: u32, kind: ThreadSync) {
        let (_, instruction) = self.planned(index);
        self.report_sync(index, instruction.operand(object), kind);
    }

    fn report_sync(&self, index: usize, object: Value, kind: ThreadSync) {
        let build = self.build();
        let object = if object.ty().is_pointer() {
            object
        } else {
            let number = build.resize(object, build.i64);
            build.cast(LLVMOpcode::LLVMIntToPtr, number, build.pointer)
        };
        let thread = self.activation.entered(build);
        let site = self.object.site(self.site(index));
        let kind = build.number(kind as u32);
        self.object
            .call(self.object.hooks.sync, &[thread, site, object, kind]);
    }

    fn sync_after(&self, anchor: Value, index: usize, sync: library::SyncCall, kind: ThreadSync) {
        let build = self.build();
        let (_, instruction) = self.planned(index);
        let mut object = instruction.operand(sync.object);
        if sync.indirect {
            // The call may change what it is told about.
            build.before(instruction);
            object = build.load(build.i64, object);
            build.before(anchor);
        }
        match self.happened(instruction, sync.success) {
            Some(condition) => self.only_if(condition, anchor),
            None => self.if_active(anchor),
        };
        self.report_sync(index, object, kind);
    }

    /// The condition under which a function did what it is known for.
    fn happened(&self, call: Value, when: If) -> Option<Value> {
        let build = self.build();
        let scalar = call.ty().integer_bits().is_some() || call.ty().is_pointer();
        match when {
            If::Always => None,
            _ if !scalar => None,
            If::Zero => Some(build.is_zero(call)),
            If::NotNull => Some(build.is_not_zero(call)),
        }
    }

    // ---- functions of the library that write ----------------------------------------------

    fn library_write(&self, anchor: Value, index: usize, write: Write) {
        let build = self.build();
        let (_, call) = self.planned(index);
        let to = call.operand(write.to);
        let condition = self.object.in_persistent_memory(to);
        let condition = match self.happened(call, write.when) {
            Some(happened) => build.and(condition, happened),
            None => condition,
        };
        let end = self.only_if(condition, anchor);
        if let Some((start, length)) = self.written(call, to, write.length) {
            self.range(end, index, start, length, StoreKind::Memory);
        }
    }

    /// Where a function wrote and how much; nothing if the types are not what we think.
    fn written(&self, call: Value, to: Value, length: Length) -> Option<(Value, Value)> {
        let build = self.build();
        let number = |value: Value| {
            value
                .ty()
                .integer_bits()
                .map(|_| build.resize(value, build.i64))
        };
        let argument = |index: u32| number(call.operand(index));
        let times = |left: Value, right: Value| build.binary(LLVMOpcode::LLVMMul, left, right);
        let one = build.word(1);
        // Results are signed; a failure is negative.
        let result = || {
            let bits = call.ty().integer_bits()?;
            Some(if bits < 64 {
                build.cast(LLVMOpcode::LLVMSExt, call, build.i64)
            } else {
                call
            })
        };
        let at_least_zero = |value: Value, wanted: Value| {
            let zero = build.word(0);
            let fine = build.compare(LLVMIntPredicate::LLVMIntSGE, value, zero);
            build.select(fine, wanted, zero)
        };
        let bytes = match length {
            Length::Fixed(bytes) => build.word(bytes),
            Length::Argument { index, unit } => times(argument(index)?, build.word(unit)),
            Length::Product { left, right } => times(argument(left)?, argument(right)?),
            Length::String => build.add(self.string_length(to), one),
            Length::AppendedString { source } => {
                let tail = self.string_length(call.operand(source));
                return Some(self.appended(to, tail));
            }
            Length::AppendedAtMost { source, limit } => {
                let tail = self.bounded_length(call.operand(source), argument(limit)?);
                return Some(self.appended(to, tail));
            }
            Length::Result => {
                let result = result()?;
                at_least_zero(result, result)
            }
            Length::ResultTimes { index } => times(result()?, argument(index)?),
            Length::ResultAndEnd => {
                let result = result()?;
                at_least_zero(result, build.add(result, one))
            }
            Length::ResultAndEndAtMost { limit } => {
                let (result, limit) = (result()?, argument(limit)?);
                let whole = build.add(result, one);
                let cut = build.is_below(limit, whole);
                at_least_zero(result, build.select(cut, limit, whole))
            }
        };
        Some((to, bytes))
    }

    /// The tail of the string at `to`, with its end.
    fn appended(&self, to: Value, tail: Value) -> (Value, Value) {
        let build = self.build();
        let before = build.sub(self.string_length(to), tail);
        (
            build.index_bytes(to, before),
            build.add(tail, build.word(1)),
        )
    }

    fn string_length(&self, string: Value) -> Value {
        let build = self.build();
        let ty = build.function_type(build.i64, &[build.pointer]);
        build.call(ty, build.declare("strlen", ty), &[string])
    }

    fn bounded_length(&self, string: Value, limit: Value) -> Value {
        let build = self.build();
        let ty = build.function_type(build.i64, &[build.pointer, build.i64]);
        build.call(ty, build.declare("strnlen", ty), &[string, limit])
    }
}
