//! Constants of LLVM as constants of the model.

use super::Lowering;
use crate::llvm::Value;
use crashpoint_ir::{BlockId, Constant, FunctionId, MAX_CONSTANT_DEPTH, Operand};
use llvm_sys::LLVMValueKind;
use rustc_hash::FxHashSet;

impl Lowering {
    /// What an instruction uses: a value of the function or a constant.
    pub fn operand(&mut self, value: Value) -> Operand {
        match self.values.get(&value) {
            Some(&id) => Operand::Value(id),
            None => Operand::Constant(self.constant(value)),
        }
    }

    pub fn operands(&mut self, values: impl IntoIterator<Item = Value>) -> Vec<Operand> {
        values
            .into_iter()
            .map(|value| self.operand(value))
            .collect()
    }

    pub fn constant(&mut self, value: Value) -> Constant {
        self.nested_constant(value, 0)
    }

    fn nested_constant(&mut self, value: Value, depth: u32) -> Constant {
        use LLVMValueKind::*;
        match value.kind() {
            LLVMConstantIntValueKind => integer(value),
            LLVMConstantFPValueKind => match value.float_bits() {
                Some(bits) => Constant::Float {
                    name: value.ty().print(),
                    bits,
                },
                None => Constant::Text(value.print()),
            },
            LLVMConstantPointerNullValueKind => Constant::Null,
            LLVMConstantAggregateZeroValueKind => Constant::Zero(self.ty(value.ty())),
            LLVMUndefValueValueKind => Constant::Undef,
            LLVMPoisonValueKind => Constant::Poison,
            LLVMFunctionValueKind
            | LLVMGlobalAliasValueKind
            | LLVMGlobalIFuncValueKind
            | LLVMGlobalVariableValueKind
            | LLVMConstantExprValueKind => self.address(value),
            LLVMBlockAddressValueKind => self.block_address(value),
            LLVMConstantArrayValueKind
            | LLVMConstantStructValueKind
            | LLVMConstantVectorValueKind
            | LLVMConstantDataArrayValueKind
            | LLVMConstantDataVectorValueKind => match value.data() {
                Some(bytes) => Constant::Data(bytes),
                None if depth >= MAX_CONSTANT_DEPTH => Constant::Text(value.print()),
                None => self.aggregate(value, depth),
            },
            LLVMMetadataAsValueValueKind => Constant::Text("metadata".to_owned()),
            // Values of the function are found before this, so what is left of them is a use of
            // something that the function does not define.
            LLVMArgumentValueKind
            | LLVMBasicBlockValueKind
            | LLVMMemoryUseValueKind
            | LLVMMemoryDefValueKind
            | LLVMMemoryPhiValueKind
            | LLVMConstantTokenNoneValueKind
            | LLVMInlineAsmValueKind
            | LLVMInstructionValueKind
            | LLVMConstantTargetNoneValueKind
            | LLVMConstantPtrAuthValueKind => Constant::Text(value.print()),
        }
    }

    /// A function, or a global plus an offset.
    fn address(&mut self, value: Value) -> Constant {
        let Some((base, offset_bytes)) = value.constant_base(self.module) else {
            return Constant::Text(value.print());
        };
        let object = base.aliased().unwrap_or(base);
        if let Some(&global) = self.globals.get(&object) {
            return Constant::Global {
                global,
                offset_bytes,
            };
        }
        let function = self.functions.get(&base).or(self.functions.get(&object));
        match function {
            Some(&id) if offset_bytes == 0 => Constant::Function(id),
            _ => Constant::Text(value.print()),
        }
    }

    fn block_address(&mut self, value: Value) -> Constant {
        let (function, block) = value.block_address();
        let index = function.blocks().iter().position(|other| *other == block);
        match (self.functions.get(&function), index) {
            (Some(&function), Some(index)) => Constant::Block {
                function,
                block: BlockId(index as u32),
            },
            _ => Constant::Text(value.print()),
        }
    }

    fn aggregate(&mut self, value: Value, depth: u32) -> Constant {
        let ty = self.ty(value.ty());
        let mut elements = Vec::new();
        while let Some(element) = value.aggregate_element(elements.len() as u32) {
            elements.push(self.nested_constant(element, depth + 1));
        }
        Constant::Aggregate { ty, elements }
    }

    /// The functions whose addresses an initializer holds, each once, in order.
    pub fn functions_in(&self, global: Value) -> Vec<FunctionId> {
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        let mut waiting: Vec<Value> = global.initializer().into_iter().collect();
        while let Some(constant) = waiting.pop() {
            if !seen.insert(constant) {
                continue;
            }
            match constant.kind() {
                LLVMValueKind::LLVMFunctionValueKind
                | LLVMValueKind::LLVMGlobalAliasValueKind
                | LLVMValueKind::LLVMGlobalIFuncValueKind => {
                    let object = constant.aliased().unwrap_or(constant);
                    let id = self
                        .functions
                        .get(&constant)
                        .or(self.functions.get(&object));
                    if let Some(&id) = id.filter(|id| !found.contains(*id)) {
                        found.push(id);
                    }
                }
                LLVMValueKind::LLVMConstantExprValueKind
                | LLVMValueKind::LLVMConstantArrayValueKind
                | LLVMValueKind::LLVMConstantStructValueKind
                | LLVMValueKind::LLVMConstantVectorValueKind => {
                    waiting.extend(constant.operands().rev());
                }
                _ => {}
            }
        }
        found
    }
}

fn integer(value: Value) -> Constant {
    let bits = value.ty().integer_bits().expect("an integer constant");
    let words = value.integer_words();
    match words.as_slice() {
        &[value] => Constant::Integer { bits, value },
        _ => Constant::WideInteger { bits, words },
    }
}
