//! Hooks of inline assembly.

use super::{Body, RARELY};
use crate::llvm::Value;
use crashpoint_abi::record::{FenceKind, StoreKind};
use crashpoint_program::asm::{AddressOperand, Effect, Length};
use llvm_sys::LLVMOpcode;

/// Whether the hook of an effect looks at the thread without a check before it.
pub fn needs_thread(effect: &Effect) -> bool {
    match effect {
        Effect::Fence(kind) => *kind == FenceKind::Locked,
        Effect::Store { locked, .. } => *locked,
        Effect::Flush { .. } | Effect::Load { .. } | Effect::Unknown(_) => false,
    }
}

/// The flushes that stand before everything else in the statement: they are reported before it.
fn leading(effects: &[Effect]) -> usize {
    effects
        .iter()
        .take_while(|effect| matches!(effect, Effect::Flush { .. } | Effect::Load { .. }))
        .count()
}

impl Body<'_> {
    pub fn assembly_before(&mut self, anchor: Value, index: usize, effects: &[Effect]) {
        for effect in &effects[..leading(effects)] {
            self.build().before(anchor);
            self.effect(anchor, index, effect);
        }
        // What follows `asm goto` has no one place: all that it may have done is opaque.
        let jumps = anchor.is_opcode(LLVMOpcode::LLVMCallBr);
        if jumps && leading(effects) < effects.len() {
            self.build().before(anchor);
            self.opaque(anchor, index);
        }
    }

    pub fn assembly_after(&mut self, anchor: Value, index: usize, effects: &[Effect]) {
        let mut opaque = false;
        for effect in &effects[leading(effects)..] {
            self.build().before(anchor);
            match effect {
                Effect::Unknown(_) if opaque => {}
                Effect::Unknown(_) => {
                    opaque = true;
                    self.opaque(anchor, index);
                }
                _ => self.effect(anchor, index, effect),
            }
        }
    }

    fn effect(&mut self, anchor: Value, index: usize, effect: &Effect) {
        match effect {
            Effect::Flush { kind, place } => {
                let pointer = self.place(index, *place);
                self.flush(anchor, index, pointer, *kind);
            }
            Effect::Fence(FenceKind::Locked) => self.locked(anchor, index),
            Effect::Fence(kind) => self.fence(anchor, index, *kind),
            Effect::Store {
                place,
                length,
                locked,
                nontemporal,
            } => {
                if *locked {
                    self.locked(anchor, index);
                }
                let kind = match (locked, nontemporal) {
                    (true, _) => StoreKind::Locked,
                    (false, true) => StoreKind::NonTemporal,
                    (false, false) => StoreKind::Assembly,
                };
                let pointer = self.place(index, *place);
                let bytes = self.length(index, *length);
                self.range(anchor, index, pointer, bytes, kind);
                // An exchange reads as well, and whether another instruction does is not known.
                if !nontemporal {
                    self.build().before(anchor);
                    self.load_effect(anchor, index, *place, *length);
                }
            }
            Effect::Load { place, length } => self.load_effect(anchor, index, *place, *length),
            Effect::Unknown(_) => self.opaque(anchor, index),
        }
    }

    fn load_effect(&mut self, anchor: Value, index: usize, place: AddressOperand, length: Length) {
        if let Length::Bytes(bytes) = length {
            let pointer = self.place(index, place);
            let build = self.build();
            build.if_then(self.activation.loads(build), anchor, RARELY);
            self.loaded(index, pointer, build.word(bytes));
        }
    }

    /// An address, from an argument that may be a number.
    fn place(&self, index: usize, place: AddressOperand) -> Value {
        let build = self.build();
        let (_, call) = self.planned(index);
        let argument = call.operand(place.argument);
        let pointer = if argument.ty().is_pointer() {
            argument
        } else {
            let number = build.resize(argument, build.i64);
            build.cast(LLVMOpcode::LLVMIntToPtr, number, build.pointer)
        };
        build.offset(pointer, place.offset)
    }

    fn length(&self, index: usize, length: Length) -> Value {
        let build = self.build();
        match length {
            Length::Bytes(bytes) => build.word(bytes),
            Length::Counted { argument, unit } => {
                let (_, call) = self.planned(index);
                let count = build.resize(call.operand(argument), build.i64);
                build.binary(LLVMOpcode::LLVMMul, count, build.word(unit))
            }
        }
    }
}
