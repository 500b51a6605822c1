//! Building instructions and constants.

use super::{BasicBlock, Meta, Module, Type, Value, c_string, ffi, shim};
use llvm_sys::core::*;
use llvm_sys::prelude::LLVMBuilderRef;
use llvm_sys::{LLVMIntPredicate, LLVMOpcode, LLVMTypeKind};

/// Inserts instructions; all are marked as none of a sanitizer's business.
pub struct Builder {
    raw: LLVMBuilderRef,
    module: Module,
    pub i1: Type,
    pub i8: Type,
    pub i16: Type,
    pub i32: Type,
    pub i64: Type,
    pub pointer: Type,
    pub void: Type,
    invariant_load: u32,
    own_access: Option<Meta>,
    stream_access: Option<Meta>,
}

/// A place before an instruction.
pub struct InsertPoint(llvm_sys::prelude::LLVMValueRef);

impl Drop for Builder {
    fn drop(&mut self) {
        ffi!(LLVMDisposeBuilder(self.raw));
    }
}

impl Builder {
    pub fn new(module: Module) -> Builder {
        let context = module.context();
        let name = "invariant.load";
        Builder {
            raw: ffi!(LLVMCreateBuilderInContext(context)),
            module,
            i1: Type(ffi!(LLVMInt1TypeInContext(context))),
            i8: Type(ffi!(LLVMInt8TypeInContext(context))),
            i16: Type(ffi!(LLVMInt16TypeInContext(context))),
            i32: Type(ffi!(LLVMInt32TypeInContext(context))),
            i64: Type(ffi!(LLVMInt64TypeInContext(context))),
            pointer: Type(ffi!(LLVMPointerTypeInContext(context, 0))),
            void: Type(ffi!(LLVMVoidTypeInContext(context))),
            own_access: own_tag(module, "crashpoint state"),
            stream_access: own_tag(module, "crashpoint stream"),
            invariant_load: ffi!(LLVMGetMDKindIDInContext(
                context,
                name.as_ptr().cast(),
                name.len() as u32
            )),
        }
    }

    // ---- position -------------------------------------------------------------------------

    /// Inserts before an instruction, with its source location.
    pub fn before(&self, instruction: Value) {
        ffi!(LLVMPositionBuilderBefore(self.raw, instruction.0));
    }

    /// Inserts at the very front of a block, where only a phi may stand.
    pub fn at_front(&self, block: BasicBlock) {
        let first = ffi!(LLVMGetFirstInstruction(block.0));
        ffi!(LLVMPositionBuilderBeforeInstrAndDbgRecords(self.raw, first));
    }

    pub fn at_end(&self, block: BasicBlock) {
        ffi!(LLVMPositionBuilderAtEnd(self.raw, block.0));
    }

    /// The block that instructions are inserted into.
    pub fn block(&self) -> BasicBlock {
        BasicBlock(ffi!(LLVMGetInsertBlock(self.raw)))
    }

    /// Where instructions are inserted, to return to.
    pub fn place(&self) -> InsertPoint {
        InsertPoint(ffi!(shim::cp_insert_point(self.raw)))
    }

    pub fn return_to(&self, place: InsertPoint) {
        match Value::some(place.0) {
            Some(instruction) => self.before(instruction),
            None => ffi!(LLVMClearInsertionPosition(self.raw)),
        }
    }

    /// The location of what is inserted from now on.
    pub fn set_location(&self, location: Option<Meta>) {
        let raw = location.map_or(std::ptr::null_mut(), Meta::raw);
        ffi!(LLVMSetCurrentDebugLocation2(self.raw, raw));
    }

    // ---- types and constants --------------------------------------------------------------

    pub fn integer(&self, bits: u32) -> Type {
        Type(ffi!(LLVMIntTypeInContext(self.module.context(), bits)))
    }

    pub fn array(&self, element: Type, count: u64) -> Type {
        Type(ffi!(LLVMArrayType2(element.0, count)))
    }

    pub fn function_type(&self, result: Type, parameters: &[Type]) -> Type {
        let mut raw: Vec<_> = parameters.iter().map(|ty| ty.0).collect();
        let count = raw.len() as u32;
        Type(ffi!(LLVMFunctionType(result.0, raw.as_mut_ptr(), count, 0)))
    }

    pub fn constant(&self, ty: Type, value: u64) -> Value {
        Value(ffi!(LLVMConstInt(ty.0, value, 0)))
    }

    pub fn number(&self, value: u32) -> Value {
        self.constant(self.i32, value.into())
    }

    pub fn word(&self, value: u64) -> Value {
        self.constant(self.i64, value)
    }

    pub fn null(&self, ty: Type) -> Value {
        Value(ffi!(LLVMConstNull(ty.0)))
    }

    pub fn constant_bytes(&self, bytes: &[u8]) -> Value {
        Value(ffi!(LLVMConstStringInContext2(
            self.module.context(),
            bytes.as_ptr().cast(),
            bytes.len(),
            1
        )))
    }

    pub fn constant_struct(&self, fields: &[Value]) -> Value {
        let mut raw: Vec<_> = fields.iter().map(|value| value.0).collect();
        let count = raw.len() as u32;
        Value(ffi!(LLVMConstStructInContext(
            self.module.context(),
            raw.as_mut_ptr(),
            count,
            0
        )))
    }

    pub fn constant_array(&self, element: Type, values: &[Value]) -> Value {
        let mut raw: Vec<_> = values.iter().map(|value| value.0).collect();
        Value(ffi!(LLVMConstArray2(
            element.0,
            raw.as_mut_ptr(),
            values.len() as u64
        )))
    }

    /// The address of a global plus a constant.
    pub fn constant_offset(&self, global: Value, bytes: usize) -> Value {
        if bytes == 0 {
            return global;
        }
        let mut index = self.word(bytes as u64).0;
        Value(ffi!(LLVMConstInBoundsGEP2(
            self.i8.0, global.0, &mut index, 1
        )))
    }

    // ---- instructions ---------------------------------------------------------------------

    fn ours(&self, raw: llvm_sys::prelude::LLVMValueRef) -> Value {
        ffi!(shim::cp_no_sanitize(raw));
        Value(raw)
    }

    pub fn alloca(&self, ty: Type) -> Value {
        self.ours(ffi!(LLVMBuildAlloca(self.raw, ty.0, c"".as_ptr())))
    }

    pub fn load(&self, ty: Type, pointer: Value) -> Value {
        self.ours(ffi!(LLVMBuildLoad2(
            self.raw,
            ty.0,
            pointer.0,
            c"".as_ptr()
        )))
    }

    /// Marks a load or store of memory that no access of the program can reach.
    pub fn own(&self, access: Value) -> Value {
        if let Some(tag) = self.own_access {
            ffi!(shim::cp_set_access_tag(access.0, tag.raw()));
        }
        access
    }

    /// A load of what never changes once it may be read.
    pub fn load_invariant(&self, ty: Type, pointer: Value) -> Value {
        let load = self.own(self.load(ty, pointer));
        let context = self.module.context();
        let node = ffi!(LLVMMDNodeInContext2(context, std::ptr::null_mut(), 0));
        ffi!(LLVMSetMetadata(
            load.0,
            self.invariant_load,
            LLVMMetadataAsValue(context, node)
        ));
        load
    }

    pub fn store(&self, value: Value, pointer: Value) -> Value {
        self.ours(ffi!(LLVMBuildStore(self.raw, value.0, pointer.0)))
    }

    /// A store into a stream of ours, at any address.
    pub fn store_to_stream(&self, value: Value, pointer: Value) {
        let store = self.store(value, pointer);
        ffi!(LLVMSetAlignment(store.0, 1));
        if let Some(tag) = self.stream_access {
            ffi!(shim::cp_set_access_tag(store.0, tag.raw()));
        }
    }

    /// Copies so many bytes into a stream of ours.
    pub fn copy_bytes(&self, to: Value, from: Value, count: u64) {
        let count = self.word(count);
        self.ours(ffi!(LLVMBuildMemCpy(self.raw, to.0, 1, from.0, 1, count.0)));
    }

    /// The address `bytes` after `pointer`.
    pub fn offset(&self, pointer: Value, bytes: i64) -> Value {
        if bytes == 0 {
            return pointer;
        }
        self.index_bytes(pointer, self.word(bytes as u64))
    }

    pub fn index_bytes(&self, pointer: Value, bytes: Value) -> Value {
        let mut index = bytes.0;
        self.ours(ffi!(LLVMBuildGEP2(
            self.raw,
            self.i8.0,
            pointer.0,
            &mut index,
            1,
            c"".as_ptr()
        )))
    }

    pub fn add(&self, left: Value, right: Value) -> Value {
        self.binary(LLVMOpcode::LLVMAdd, left, right)
    }

    pub fn sub(&self, left: Value, right: Value) -> Value {
        self.binary(LLVMOpcode::LLVMSub, left, right)
    }

    pub fn or(&self, left: Value, right: Value) -> Value {
        self.binary(LLVMOpcode::LLVMOr, left, right)
    }

    pub fn and(&self, left: Value, right: Value) -> Value {
        self.binary(LLVMOpcode::LLVMAnd, left, right)
    }

    pub fn shift_left(&self, left: Value, right: Value) -> Value {
        self.binary(LLVMOpcode::LLVMShl, left, right)
    }

    pub fn binary(&self, opcode: LLVMOpcode, left: Value, right: Value) -> Value {
        self.ours(ffi!(LLVMBuildBinOp(
            self.raw,
            opcode,
            left.0,
            right.0,
            c"".as_ptr()
        )))
    }

    pub fn compare(&self, predicate: LLVMIntPredicate, left: Value, right: Value) -> Value {
        self.ours(ffi!(LLVMBuildICmp(
            self.raw,
            predicate,
            left.0,
            right.0,
            c"".as_ptr()
        )))
    }

    pub fn is_not_zero(&self, value: Value) -> Value {
        let zero = self.null(value.ty());
        self.compare(LLVMIntPredicate::LLVMIntNE, value, zero)
    }

    pub fn is_zero(&self, value: Value) -> Value {
        let zero = self.null(value.ty());
        self.compare(LLVMIntPredicate::LLVMIntEQ, value, zero)
    }

    pub fn is_below(&self, left: Value, right: Value) -> Value {
        self.compare(LLVMIntPredicate::LLVMIntULT, left, right)
    }

    pub fn select(&self, condition: Value, then: Value, otherwise: Value) -> Value {
        self.ours(ffi!(LLVMBuildSelect(
            self.raw,
            condition.0,
            then.0,
            otherwise.0,
            c"".as_ptr()
        )))
    }

    /// Zero extension or truncation of an integer.
    pub fn resize(&self, value: Value, ty: Type) -> Value {
        let (from, to) = (value.ty().integer_bits(), ty.integer_bits());
        if from == to {
            return value;
        }
        let opcode = if from < to {
            LLVMOpcode::LLVMZExt
        } else {
            LLVMOpcode::LLVMTrunc
        };
        self.cast(opcode, value, ty)
    }

    pub fn address(&self, pointer: Value) -> Value {
        self.cast(LLVMOpcode::LLVMPtrToInt, pointer, self.i64)
    }

    pub fn cast(&self, opcode: LLVMOpcode, value: Value, ty: Type) -> Value {
        self.ours(ffi!(LLVMBuildCast(
            self.raw,
            opcode,
            value.0,
            ty.0,
            c"".as_ptr()
        )))
    }

    pub fn extract_value(&self, aggregate: Value, index: u32) -> Value {
        self.ours(ffi!(LLVMBuildExtractValue(
            self.raw,
            aggregate.0,
            index,
            c"".as_ptr()
        )))
    }

    pub fn phi(&self, ty: Type, incoming: &[(Value, BasicBlock)]) -> Value {
        let phi = self.ours(ffi!(LLVMBuildPhi(self.raw, ty.0, c"".as_ptr())));
        for (value, block) in incoming {
            let (mut value, mut block) = (value.0, block.0);
            ffi!(LLVMAddIncoming(phi.0, &mut value, &mut block, 1));
        }
        phi
    }

    /// Calls a function of the given type.
    pub fn call(&self, ty: Type, callee: Value, arguments: &[Value]) -> Value {
        let mut raw: Vec<_> = arguments.iter().map(|value| value.0).collect();
        let count = raw.len() as u32;
        self.ours(ffi!(LLVMBuildCall2(
            self.raw,
            ty.0,
            callee.0,
            raw.as_mut_ptr(),
            count,
            c"".as_ptr()
        )))
    }

    pub fn branch(&self, to: BasicBlock) {
        self.ours(ffi!(LLVMBuildBr(self.raw, to.0)));
    }

    pub fn branch_if(&self, condition: Value, then: BasicBlock, otherwise: BasicBlock) -> Value {
        self.ours(ffi!(LLVMBuildCondBr(
            self.raw,
            condition.0,
            then.0,
            otherwise.0
        )))
    }

    pub fn switch(&self, value: Value, default: BasicBlock, cases: &[(Value, BasicBlock)]) {
        let switch = ffi!(LLVMBuildSwitch(
            self.raw,
            value.0,
            default.0,
            cases.len() as u32
        ));
        for (case, to) in cases {
            ffi!(LLVMAddCase(switch, case.0, to.0));
        }
    }

    pub fn return_void(&self) {
        ffi!(LLVMBuildRetVoid(self.raw));
    }

    /// Splits before `before`; what is inserted before the returned branch runs if the condition
    /// holds. Weights are `taken : not taken`. The builder stands in the new block afterwards.
    pub fn if_then(&self, condition: Value, before: Value, weights: (u32, u32)) -> Value {
        let raw = ffi!(shim::cp_if(condition.0, before.0, weights.0, weights.1));
        let branch = Value(raw);
        self.before(branch);
        branch
    }

    /// Splits the block before an instruction; returns the block that begins with it.
    pub fn split(&self, before: Value) -> BasicBlock {
        BasicBlock(ffi!(shim::cp_split(before.0)))
    }

    /// Ends a block in another way.
    pub fn replace_terminator(&self, block: BasicBlock, end: impl FnOnce(&Builder)) {
        let old = block.terminator();
        self.before(old);
        end(self);
        ffi!(LLVMInstructionEraseFromParent(old.0));
    }

    /// A scalar as a 64-bit word, zero extended; none for values that are not scalars.
    pub fn widen(&self, value: Value) -> Option<Value> {
        let ty = value.ty();
        Some(match ty.kind() {
            LLVMTypeKind::LLVMIntegerTypeKind => self.resize(value, self.i64),
            LLVMTypeKind::LLVMPointerTypeKind => self.address(value),
            LLVMTypeKind::LLVMHalfTypeKind
            | LLVMTypeKind::LLVMBFloatTypeKind
            | LLVMTypeKind::LLVMFloatTypeKind
            | LLVMTypeKind::LLVMDoubleTypeKind => {
                let bits = ty.bits(self.module) as u32;
                let number = self.cast(LLVMOpcode::LLVMBitCast, value, self.integer(bits));
                self.resize(number, self.i64)
            }
            _ => return None,
        })
    }

    /// The second of two words that are returned together: of libpmemobj's `PMEMoid` the offset,
    /// which tells objects apart.
    pub fn second_word(&self, pair: Value) -> Option<Value> {
        let ty = pair.ty();
        if ty.kind() != LLVMTypeKind::LLVMStructTypeKind {
            return None;
        }
        let is_pair = matches!(ty.struct_fields()[..], [a, b] if a == self.i64 && b == self.i64);
        is_pair.then(|| self.extract_value(pair, 1))
    }

    pub fn global(&self, name: &str, initializer: Value) -> Value {
        let global = self.module.add_global(name, initializer.ty());
        global.set_initializer(initializer);
        global.set_no_sanitize_global();
        global
    }

    pub fn declare(&self, name: &str, ty: Type) -> Value {
        self.module
            .named_function(name)
            .unwrap_or_else(|| self.module.add_function(name, ty))
    }
}

/// A mark for accesses to memory of ours, of one kind.
fn own_tag(module: Module, name: &str) -> Option<Meta> {
    let name = c_string(name);
    Meta::some(ffi!(shim::cp_own_access_tag(module.raw(), name.as_ptr())))
}
