//! Declarations of `src/shim/`.

use llvm_sys::prelude::{
    LLVMBasicBlockRef, LLVMBuilderRef, LLVMContextRef, LLVMMetadataRef, LLVMModuleRef, LLVMTypeRef,
    LLVMValueRef,
};
use std::ffi::{c_char, c_void};

/// Bytes that LLVM owns; they live as long as the module.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    pub data: *const c_char,
    pub length: usize,
}

unsafe extern "C" {
    pub fn cp_register_callbacks(builder: *mut c_void);
    pub fn cp_fatal(message: *const c_char) -> !;
    pub fn cp_warn(context: LLVMContextRef, message: *const c_char);

    pub fn cp_inline_helpers(module: LLVMModuleRef);
    pub fn cp_inline_call(call: LLVMValueRef, analyses: *mut c_void) -> bool;
    pub fn cp_promote(function: LLVMValueRef, analyses: *mut c_void);
    pub fn cp_forget(function: LLVMValueRef, analyses: *mut c_void);
    pub fn cp_interposable(global: LLVMValueRef) -> bool;
    pub fn cp_dso_local(global: LLVMValueRef) -> bool;
    pub fn cp_has_comdat(global: LLVMValueRef) -> bool;
    pub fn cp_discardable(global: LLVMValueRef) -> bool;
    pub fn cp_aliased(global: LLVMValueRef) -> LLVMValueRef;
    pub fn cp_returns_twice(call: LLVMValueRef) -> bool;
    pub fn cp_must_tail(call: LLVMValueRef) -> bool;
    pub fn cp_does_not_return(call: LLVMValueRef) -> bool;
    pub fn cp_does_not_throw(call: LLVMValueRef) -> bool;
    pub fn cp_by_value_bytes(call: LLVMValueRef, index: u32) -> u64;
    pub fn cp_parameter_on_stack(argument: LLVMValueRef) -> bool;
    pub fn cp_block_address_escapes(function: LLVMValueRef) -> bool;
    pub fn cp_create_like(function: LLVMValueRef, name: *const c_char) -> LLVMValueRef;
    pub fn cp_merge_by_name(function: LLVMValueRef);
    pub fn cp_clone_body(from: LLVMValueRef, to: LLVMValueRef);
    pub fn cp_move_body(from: LLVMValueRef, to: LLVMValueRef);
    pub fn cp_disarm_calls(function: LLVMValueRef);
    pub fn cp_forget_effects(function: LLVMValueRef);
    pub fn cp_forget_call_effects(call: LLVMValueRef);
    pub fn cp_strip_entry_hooks(function: LLVMValueRef);
    pub fn cp_forward(
        from: LLVMValueRef,
        to: LLVMValueRef,
        at: LLVMBasicBlockRef,
        may_inline: bool,
    );

    pub fn cp_if(
        condition: LLVMValueRef,
        before: LLVMValueRef,
        taken: u32,
        not_taken: u32,
    ) -> LLVMValueRef;
    pub fn cp_split(before: LLVMValueRef) -> LLVMBasicBlockRef;
    pub fn cp_set_weights(branch: LLVMValueRef, then: u32, otherwise: u32);
    pub fn cp_split_normal_edge(invoke: LLVMValueRef) -> LLVMBasicBlockRef;
    pub fn cp_predecessor_count(block: LLVMBasicBlockRef) -> u32;
    pub fn cp_move_before(instruction: LLVMValueRef, before: LLVMValueRef);
    pub fn cp_insert_point(builder: LLVMBuilderRef) -> LLVMValueRef;
    pub fn cp_add_unwind_table(function: LLVMValueRef);
    pub fn cp_no_sanitize(instruction: LLVMValueRef);
    pub fn cp_own_access_tag(module: LLVMModuleRef, name: *const c_char) -> LLVMMetadataRef;
    pub fn cp_set_access_tag(instruction: LLVMValueRef, tag: LLVMMetadataRef);
    pub fn cp_no_sanitize_global(global: LLVMValueRef);
    pub fn cp_global_comdat(global: LLVMValueRef);
    pub fn cp_append_constructor(module: LLVMModuleRef, function: LLVMValueRef, priority: i32);
    pub fn cp_append_destructor(module: LLVMModuleRef, function: LLVMValueRef, priority: i32);

    pub fn cp_constant_base(
        value: LLVMValueRef,
        module: LLVMModuleRef,
        offset: *mut i64,
    ) -> LLVMValueRef;
    pub fn cp_integer_words(value: LLVMValueRef, words: *mut u64, capacity: u32) -> u32;
    pub fn cp_float_bits(value: LLVMValueRef, bits: *mut u64) -> bool;
    pub fn cp_data(value: LLVMValueRef, bytes: *mut Text) -> bool;
    pub fn cp_block_address_function(value: LLVMValueRef) -> LLVMValueRef;
    pub fn cp_block_address_block(value: LLVMValueRef) -> LLVMBasicBlockRef;

    pub fn cp_parameter_names(
        function: LLVMValueRef,
        report: extern "C" fn(*mut c_void, u32, Text),
        context: *mut c_void,
    );
    pub fn cp_opcode_name(instruction: LLVMValueRef) -> Text;
    pub fn cp_rmw_name(instruction: LLVMValueRef) -> Text;
    pub fn cp_predicate_name(instruction: LLVMValueRef) -> Text;
    pub fn cp_may_write(call: LLVMValueRef) -> bool;
    pub fn cp_accesses_memory(call: LLVMValueRef) -> bool;
    pub fn cp_is_debug(instruction: LLVMValueRef) -> bool;
    pub fn cp_mask_count(shuffle: LLVMValueRef) -> u32;
    pub fn cp_is_nontemporal(instruction: LLVMValueRef) -> bool;
    pub fn cp_element_type(call: LLVMValueRef, index: u32) -> LLVMTypeRef;

    pub fn cp_debug_types(
        module: LLVMModuleRef,
        report: extern "C" fn(*mut c_void, LLVMMetadataRef),
        context: *mut c_void,
    );
    pub fn cp_di_tag(node: LLVMMetadataRef) -> u32;
    pub fn cp_di_name(node: LLVMMetadataRef) -> Text;
    pub fn cp_di_scope(node: LLVMMetadataRef) -> LLVMMetadataRef;
    pub fn cp_di_base(node: LLVMMetadataRef) -> LLVMMetadataRef;
    pub fn cp_di_element_count(node: LLVMMetadataRef) -> u32;
    pub fn cp_di_element(node: LLVMMetadataRef, index: u32) -> LLVMMetadataRef;
    pub fn cp_di_declaration(node: LLVMMetadataRef) -> bool;
    pub fn cp_di_static(node: LLVMMetadataRef) -> bool;
    pub fn cp_di_size_bits(node: LLVMMetadataRef) -> u64;
    pub fn cp_di_offset_bits(node: LLVMMetadataRef) -> u64;
    pub fn cp_di_subrange_count(node: LLVMMetadataRef) -> u64;
    pub fn cp_di_line(node: LLVMMetadataRef) -> u32;
    pub fn cp_di_file(node: LLVMMetadataRef) -> LLVMMetadataRef;
    pub fn cp_di_filename(node: LLVMMetadataRef) -> Text;
    pub fn cp_di_directory(node: LLVMMetadataRef) -> Text;
    pub fn cp_debug_location(instruction: LLVMValueRef) -> LLVMMetadataRef;
    pub fn cp_location_line(node: LLVMMetadataRef) -> u32;
    pub fn cp_location_column(node: LLVMMetadataRef) -> u32;
    pub fn cp_location_scope(node: LLVMMetadataRef) -> LLVMMetadataRef;
    pub fn cp_location_inlined_at(node: LLVMMetadataRef) -> LLVMMetadataRef;
    pub fn cp_scope_subprogram(node: LLVMMetadataRef) -> LLVMMetadataRef;
    pub fn cp_subprogram(function: LLVMValueRef) -> LLVMMetadataRef;
    pub fn cp_global_variable(global: LLVMValueRef) -> LLVMMetadataRef;
    pub fn cp_producer(module: LLVMModuleRef) -> Text;
}
