//! Values: instructions, parameters, constants, globals and functions.

use super::{BasicBlock, Meta, Module, Type, bytes, c_string, disposed, ffi, owned, shim};
use llvm_sys::core::*;
use llvm_sys::prelude::LLVMValueRef;
use llvm_sys::{
    LLVMAtomicOrdering, LLVMInlineAsmDialect, LLVMLinkage, LLVMOpcode, LLVMValueKind,
    LLVMVisibility,
};
use std::ffi::c_void;

/// Anything that has a type: an instruction, a parameter, a constant, a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value(pub LLVMValueRef);

impl Value {
    pub fn some(raw: LLVMValueRef) -> Option<Value> {
        (!raw.is_null()).then_some(Value(raw))
    }

    pub(super) fn list(
        first: LLVMValueRef,
        next: impl Fn(LLVMValueRef) -> LLVMValueRef,
    ) -> Vec<Value> {
        std::iter::successors(Value::some(first), |value| Value::some(next(value.0))).collect()
    }

    pub fn kind(self) -> LLVMValueKind {
        ffi!(LLVMGetValueKind(self.0))
    }

    pub fn is_function(self) -> bool {
        self.kind() == LLVMValueKind::LLVMFunctionValueKind
    }

    pub fn is_instruction(self) -> bool {
        self.kind() == LLVMValueKind::LLVMInstructionValueKind
    }

    pub fn is_argument(self) -> bool {
        self.kind() == LLVMValueKind::LLVMArgumentValueKind
    }

    pub fn is_global_variable(self) -> bool {
        self.kind() == LLVMValueKind::LLVMGlobalVariableValueKind
    }

    pub fn ty(self) -> Type {
        Type(ffi!(LLVMTypeOf(self.0)))
    }

    pub fn name(self) -> String {
        let mut length = 0;
        let data = ffi!(LLVMGetValueName2(self.0, &mut length));
        owned(shim::Text { data, length })
    }

    pub fn print(self) -> String {
        disposed(ffi!(LLVMPrintValueToString(self.0)))
    }

    pub fn operand_count(self) -> u32 {
        ffi!(LLVMGetNumOperands(self.0)) as u32
    }

    /// `index` must be below [`Value::operand_count`].
    pub fn operand(self, index: u32) -> Value {
        Value(ffi!(LLVMGetOperand(self.0, index)))
    }

    pub fn operands(self) -> impl DoubleEndedIterator<Item = Value> {
        (0..self.operand_count()).map(move |index| self.operand(index))
    }

    pub fn set_operand(self, index: u32, value: Value) {
        ffi!(LLVMSetOperand(self.0, index, value.0));
    }

    pub fn has_uses(self) -> bool {
        !ffi!(LLVMGetFirstUse(self.0)).is_null()
    }

    // ---- constants ------------------------------------------------------------------------

    pub fn is_constant_integer(self) -> bool {
        self.kind() == LLVMValueKind::LLVMConstantIntValueKind
    }

    /// The words of a constant integer.
    pub fn integer_words(self) -> Vec<u64> {
        let bits = self.ty().integer_bits().expect("an integer constant");
        let mut words = vec![0; bits.div_ceil(64).max(1) as usize];
        let capacity = words.len() as u32;
        ffi!(shim::cp_integer_words(self.0, words.as_mut_ptr(), capacity));
        words
    }

    /// A constant integer of at most 64 bits, zero extended.
    pub fn small_integer(self) -> Option<u64> {
        if !self.is_constant_integer() || self.ty().integer_bits()? > 64 {
            return None;
        }
        self.integer_words().first().copied()
    }

    /// The bits of a constant floating number that takes at most 64.
    pub fn float_bits(self) -> Option<u64> {
        let mut bits = 0;
        ffi!(shim::cp_float_bits(self.0, &mut bits)).then_some(bits)
    }

    /// The bytes of a constant array of 8-bit integers.
    pub fn data(self) -> Option<Vec<u8>> {
        let mut found = shim::Text {
            data: std::ptr::null(),
            length: 0,
        };
        ffi!(shim::cp_data(self.0, &mut found)).then(|| bytes(found).to_vec())
    }

    /// Element of a constant data sequence or aggregate.
    pub fn aggregate_element(self, index: u32) -> Option<Value> {
        Value::some(ffi!(LLVMGetAggregateElement(self.0, index)))
    }

    /// The global that a constant pointer is a constant offset away from.
    pub fn constant_base(self, module: Module) -> Option<(Value, i64)> {
        let mut offset = 0;
        let base = ffi!(shim::cp_constant_base(self.0, module.raw(), &mut offset));
        Value::some(base).map(|base| (base, offset))
    }

    /// Function and block of a block address.
    pub fn block_address(self) -> (Value, BasicBlock) {
        (
            Value(ffi!(shim::cp_block_address_function(self.0))),
            BasicBlock(ffi!(shim::cp_block_address_block(self.0))),
        )
    }

    // ---- globals and functions ------------------------------------------------------------

    /// Of a function or global variable.
    pub fn is_declaration(self) -> bool {
        ffi!(LLVMIsDeclaration(self.0)) != 0
    }

    pub fn linkage(self) -> LLVMLinkage {
        ffi!(LLVMGetLinkage(self.0))
    }

    pub fn has_local_linkage(self) -> bool {
        matches!(
            self.linkage(),
            LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage
        )
    }

    pub fn set_linkage(self, linkage: LLVMLinkage) {
        ffi!(LLVMSetLinkage(self.0, linkage));
    }

    pub fn set_hidden(self) {
        ffi!(LLVMSetVisibility(
            self.0,
            LLVMVisibility::LLVMHiddenVisibility
        ));
    }

    pub fn is_interposable(self) -> bool {
        ffi!(shim::cp_interposable(self.0))
    }

    pub fn is_dso_local(self) -> bool {
        ffi!(shim::cp_dso_local(self.0))
    }

    pub fn has_comdat(self) -> bool {
        ffi!(shim::cp_has_comdat(self.0))
    }

    pub fn is_discardable(self) -> bool {
        ffi!(shim::cp_discardable(self.0))
    }

    /// The function or variable behind aliases.
    pub fn aliased(self) -> Option<Value> {
        Value::some(ffi!(shim::cp_aliased(self.0)))
    }

    pub fn ifunc_resolver(self) -> Option<Value> {
        let resolver = Value::some(ffi!(LLVMGetGlobalIFuncResolver(self.0)))?;
        resolver.aliased()
    }

    pub fn is_thread_local(self) -> bool {
        ffi!(LLVMIsThreadLocal(self.0)) != 0
    }

    pub fn is_global_constant(self) -> bool {
        ffi!(LLVMIsGlobalConstant(self.0)) != 0
    }

    pub fn set_global_constant(self, constant: bool) {
        ffi!(LLVMSetGlobalConstant(self.0, constant.into()));
    }

    pub fn initializer(self) -> Option<Value> {
        Value::some(ffi!(LLVMGetInitializer(self.0)))
    }

    pub fn set_initializer(self, value: Value) {
        ffi!(LLVMSetInitializer(self.0, value.0));
    }

    pub fn set_alignment(self, bytes: u32) {
        ffi!(LLVMSetAlignment(self.0, bytes));
    }

    pub fn set_no_sanitize_global(self) {
        ffi!(shim::cp_no_sanitize_global(self.0));
    }

    pub fn set_comdat_of_its_own(self) {
        ffi!(shim::cp_global_comdat(self.0));
    }

    /// The type that a function or global variable is declared with.
    pub fn value_type(self) -> Type {
        Type(ffi!(LLVMGlobalGetValueType(self.0)))
    }

    pub fn calling_convention(self) -> u32 {
        ffi!(LLVMGetFunctionCallConv(self.0))
    }

    pub fn parameters(self) -> Vec<Value> {
        let count = ffi!(LLVMCountParams(self.0));
        (0..count)
            .map(|index| Value(ffi!(LLVMGetParam(self.0, index))))
            .collect()
    }

    /// Whether a parameter points to a copy of its own on the stack.
    pub fn is_parameter_on_stack(self) -> bool {
        ffi!(shim::cp_parameter_on_stack(self.0))
    }

    pub fn blocks(self) -> Vec<BasicBlock> {
        let mut found = Vec::new();
        let mut next = ffi!(LLVMGetFirstBasicBlock(self.0));
        while !next.is_null() {
            found.push(BasicBlock(next));
            next = ffi!(LLVMGetNextBasicBlock(next));
        }
        found
    }

    pub fn append_block(self, module: Module) -> BasicBlock {
        BasicBlock(ffi!(LLVMAppendBasicBlockInContext(
            module.context(),
            self.0,
            c"".as_ptr()
        )))
    }

    pub fn has_attribute(self, name: &str) -> bool {
        let kind = attribute_kind(name);
        !ffi!(LLVMGetEnumAttributeAtIndex(self.0, FUNCTION_INDEX, kind)).is_null()
    }

    pub fn add_attribute(self, module: Module, name: &str) {
        let attribute = ffi!(LLVMCreateEnumAttribute(
            module.context(),
            attribute_kind(name),
            0
        ));
        ffi!(LLVMAddAttributeAtIndex(self.0, FUNCTION_INDEX, attribute));
    }

    pub fn remove_attribute(self, name: &str) {
        let kind = attribute_kind(name);
        ffi!(LLVMRemoveEnumAttributeAtIndex(self.0, FUNCTION_INDEX, kind));
    }

    pub fn add_unwind_table(self) {
        ffi!(shim::cp_add_unwind_table(self.0));
    }

    pub fn block_address_escapes(self) -> bool {
        ffi!(shim::cp_block_address_escapes(self.0))
    }

    pub fn create_like(self, name: &str) -> Value {
        Value(ffi!(shim::cp_create_like(self.0, c_string(name).as_ptr())))
    }

    pub fn merge_by_name(self) {
        ffi!(shim::cp_merge_by_name(self.0));
    }

    pub fn clone_body_to(self, to: Value) {
        ffi!(shim::cp_clone_body(self.0, to.0));
    }

    pub fn move_body_to(self, to: Value) {
        ffi!(shim::cp_move_body(self.0, to.0));
    }

    /// Defuses calls that must not survive optimisation, in a body that will not be optimised.
    pub fn disarm_calls(self) {
        ffi!(shim::cp_disarm_calls(self.0));
    }

    pub fn forget_effects(self) {
        ffi!(shim::cp_forget_effects(self.0));
    }

    pub fn strip_entry_hooks(self) {
        ffi!(shim::cp_strip_entry_hooks(self.0));
    }

    pub fn forward_to(self, to: Value, at: BasicBlock, may_inline: bool) {
        ffi!(shim::cp_forward(self.0, to.0, at.0, may_inline));
    }

    /// Parameters that debug information names: (index, name).
    pub fn parameter_names(self) -> Vec<(u32, String)> {
        extern "C" fn report(context: *mut c_void, index: u32, name: shim::Text) {
            // SAFETY: `context` is the vector below, which outlives the call.
            let found = unsafe { &mut *context.cast::<Vec<(u32, String)>>() };
            found.push((index, owned(name)));
        }
        let mut found: Vec<(u32, String)> = Vec::new();
        ffi!(shim::cp_parameter_names(
            self.0,
            report,
            (&raw mut found).cast()
        ));
        found
    }

    /// Debug information of a function.
    pub fn subprogram(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_subprogram(self.0)))
    }

    /// Debug information of a global variable.
    pub fn global_variable(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_global_variable(self.0)))
    }

    // ---- instructions ---------------------------------------------------------------------

    pub fn opcode(self) -> LLVMOpcode {
        ffi!(LLVMGetInstructionOpcode(self.0))
    }

    pub fn is_opcode(self, opcode: LLVMOpcode) -> bool {
        self.is_instruction() && self.opcode() == opcode
    }

    pub fn opcode_name(self) -> String {
        owned(ffi!(shim::cp_opcode_name(self.0)))
    }

    pub fn rmw_name(self) -> String {
        owned(ffi!(shim::cp_rmw_name(self.0)))
    }

    pub fn predicate_name(self) -> String {
        owned(ffi!(shim::cp_predicate_name(self.0)))
    }

    pub fn is_debug_intrinsic(self) -> bool {
        ffi!(shim::cp_is_debug(self.0))
    }

    pub fn is_terminator(self) -> bool {
        !ffi!(LLVMIsATerminatorInst(self.0)).is_null()
    }

    pub fn next(self) -> Option<Value> {
        Value::some(ffi!(LLVMGetNextInstruction(self.0)))
    }

    pub fn block(self) -> BasicBlock {
        BasicBlock(ffi!(LLVMGetInstructionParent(self.0)))
    }

    pub fn successors(self) -> Vec<BasicBlock> {
        let count = ffi!(LLVMGetNumSuccessors(self.0));
        (0..count)
            .map(|index| BasicBlock(ffi!(LLVMGetSuccessor(self.0, index))))
            .collect()
    }

    /// Values and targets of a switch, without the default.
    pub fn switch_cases(self) -> Vec<(Value, BasicBlock)> {
        // Operands are the value, the default, then pairs.
        self.successors()
            .into_iter()
            .enumerate()
            .skip(1)
            .map(|(index, block)| (self.operand(2 * index as u32), block))
            .collect()
    }

    pub fn is_block(self) -> bool {
        self.kind() == LLVMValueKind::LLVMBasicBlockValueKind
    }

    pub fn debug_location(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_debug_location(self.0)))
    }

    pub fn ordering(self) -> LLVMAtomicOrdering {
        ffi!(LLVMGetOrdering(self.0))
    }

    pub fn success_ordering(self) -> LLVMAtomicOrdering {
        ffi!(LLVMGetCmpXchgSuccessOrdering(self.0))
    }

    pub fn is_volatile(self) -> bool {
        ffi!(LLVMGetVolatile(self.0)) != 0
    }

    pub fn set_volatile(self) {
        ffi!(LLVMSetVolatile(self.0, 1));
    }

    pub fn is_single_thread(self) -> bool {
        ffi!(LLVMIsAtomicSingleThread(self.0)) != 0
    }

    pub fn is_nontemporal(self) -> bool {
        ffi!(shim::cp_is_nontemporal(self.0))
    }

    pub fn allocated_type(self) -> Type {
        Type(ffi!(LLVMGetAllocatedType(self.0)))
    }

    /// An allocation of a constant size; in the entry block it is part of the frame.
    pub fn is_fixed_allocation(self) -> bool {
        self.is_opcode(LLVMOpcode::LLVMAlloca) && self.operand(0).is_constant_integer()
    }

    pub fn gep_source(self) -> Type {
        Type(ffi!(LLVMGetGEPSourceElementType(self.0)))
    }

    pub fn is_inbounds(self) -> bool {
        ffi!(LLVMIsInBounds(self.0)) != 0
    }

    /// Of `extractvalue` and `insertvalue`.
    pub fn indices(self) -> Vec<u32> {
        let count = ffi!(LLVMGetNumIndices(self.0)) as usize;
        let first = ffi!(LLVMGetIndices(self.0));
        (0..count).map(|i| ffi!(*first.add(i))).collect()
    }

    pub fn shuffle_mask(self) -> Vec<i32> {
        (0..ffi!(shim::cp_mask_count(self.0)))
            .map(|i| ffi!(LLVMGetMaskValue(self.0, i)))
            .collect()
    }

    pub fn incoming(self) -> Vec<(BasicBlock, Value)> {
        (0..ffi!(LLVMCountIncoming(self.0)))
            .map(|i| {
                (
                    BasicBlock(ffi!(LLVMGetIncomingBlock(self.0, i))),
                    Value(ffi!(LLVMGetIncomingValue(self.0, i))),
                )
            })
            .collect()
    }

    pub fn is_cleanup(self) -> bool {
        ffi!(LLVMIsCleanup(self.0)) != 0
    }

    // ---- calls ----------------------------------------------------------------------------

    pub fn is_call(self) -> bool {
        matches!(
            self.opcode(),
            LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke | LLVMOpcode::LLVMCallBr
        )
    }

    pub fn called(self) -> Value {
        Value(ffi!(LLVMGetCalledValue(self.0)))
    }

    /// The operand that holds the callee is the last one.
    pub fn set_called(self, callee: Value) {
        self.set_operand(self.operand_count() - 1, callee);
    }

    pub fn called_type(self) -> Type {
        Type(ffi!(LLVMGetCalledFunctionType(self.0)))
    }

    pub fn arguments(self) -> Vec<Value> {
        let count = ffi!(LLVMGetNumArgOperands(self.0));
        (0..count).map(|index| self.operand(index)).collect()
    }

    pub fn is_inline_assembly(self) -> bool {
        self.kind() == LLVMValueKind::LLVMInlineAsmValueKind
    }

    /// Of inline assembly: the destination comes first.
    pub fn is_intel_assembly(self) -> bool {
        ffi!(LLVMGetInlineAsmDialect(self.0)) == LLVMInlineAsmDialect::LLVMInlineAsmDialectIntel
    }

    pub fn may_write_memory(self) -> bool {
        ffi!(shim::cp_may_write(self.0))
    }

    pub fn accesses_memory(self) -> bool {
        ffi!(shim::cp_accesses_memory(self.0))
    }

    /// Text and constraints of inline assembly.
    pub fn assembly(self) -> (String, String) {
        let mut length = 0;
        let data = ffi!(LLVMGetInlineAsmAsmString(self.0, &mut length));
        let text = owned(shim::Text { data, length });
        let data = ffi!(LLVMGetInlineAsmConstraintString(self.0, &mut length));
        (text, owned(shim::Text { data, length }))
    }

    /// The type behind an indirect operand of inline assembly.
    pub fn element_type(self, argument: u32) -> Option<Type> {
        let raw = ffi!(shim::cp_element_type(self.0, argument));
        (!raw.is_null()).then_some(Type(raw))
    }

    pub fn returns_twice(self) -> bool {
        ffi!(shim::cp_returns_twice(self.0))
    }

    pub fn must_tail(self) -> bool {
        ffi!(shim::cp_must_tail(self.0))
    }

    pub fn does_not_return(self) -> bool {
        ffi!(shim::cp_does_not_return(self.0))
    }

    pub fn does_not_throw(self) -> bool {
        ffi!(shim::cp_does_not_throw(self.0))
    }

    pub fn by_value_bytes(self, argument: u32) -> u64 {
        ffi!(shim::cp_by_value_bytes(self.0, argument))
    }

    pub fn forget_call_effects(self) {
        ffi!(shim::cp_forget_call_effects(self.0));
    }

    pub fn invoke_normal(self) -> BasicBlock {
        BasicBlock(ffi!(LLVMGetNormalDest(self.0)))
    }

    pub fn invoke_unwind(self) -> BasicBlock {
        BasicBlock(ffi!(LLVMGetUnwindDest(self.0)))
    }

    pub fn split_normal_edge(self) -> BasicBlock {
        BasicBlock(ffi!(shim::cp_split_normal_edge(self.0)))
    }

    /// Of a conditional branch: how often each way is taken.
    pub fn set_weights(self, then: u32, otherwise: u32) {
        ffi!(shim::cp_set_weights(self.0, then, otherwise));
    }

    pub fn move_before(self, before: Value) {
        ffi!(shim::cp_move_before(self.0, before.0));
    }
}

const FUNCTION_INDEX: u32 = u32::MAX;

fn attribute_kind(name: &str) -> u32 {
    let kind = ffi!(LLVMGetEnumAttributeKindForName(
        name.as_ptr().cast(),
        name.len()
    ));
    assert!(kind != 0, "LLVM knows no attribute `{name}`");
    kind
}
