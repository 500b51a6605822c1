//! Debug information.

use super::{ffi, owned, shim};
use llvm_sys::prelude::LLVMMetadataRef;

/// A node of debug information.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Meta(LLVMMetadataRef);

impl Meta {
    pub fn some(raw: LLVMMetadataRef) -> Option<Meta> {
        (!raw.is_null()).then_some(Meta(raw))
    }

    pub fn raw(self) -> LLVMMetadataRef {
        self.0
    }

    /// The DWARF tag, 0 for nodes without one.
    pub fn tag(self) -> u32 {
        ffi!(shim::cp_di_tag(self.0))
    }

    pub fn name(self) -> String {
        owned(ffi!(shim::cp_di_name(self.0)))
    }

    pub fn scope(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_di_scope(self.0)))
    }

    /// The type that a derived type or an array is made of.
    pub fn base(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_di_base(self.0)))
    }

    /// Members of a composite, or result and parameters of a function type (null for void).
    pub fn elements(self) -> Vec<Option<Meta>> {
        (0..ffi!(shim::cp_di_element_count(self.0)))
            .map(|i| Meta::some(ffi!(shim::cp_di_element(self.0, i))))
            .collect()
    }

    pub fn is_declaration(self) -> bool {
        ffi!(shim::cp_di_declaration(self.0))
    }

    pub fn is_static_member(self) -> bool {
        ffi!(shim::cp_di_static(self.0))
    }

    pub fn size_bits(self) -> u64 {
        ffi!(shim::cp_di_size_bits(self.0))
    }

    pub fn offset_bits(self) -> u64 {
        ffi!(shim::cp_di_offset_bits(self.0))
    }

    /// Elements of a dimension of an array.
    pub fn subrange_count(self) -> u64 {
        ffi!(shim::cp_di_subrange_count(self.0))
    }

    pub fn line(self) -> u32 {
        ffi!(shim::cp_di_line(self.0))
    }

    pub fn file(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_di_file(self.0)))
    }

    /// Of a file.
    pub fn file_name(self) -> String {
        owned(ffi!(shim::cp_di_filename(self.0)))
    }

    /// Of a file.
    pub fn directory(self) -> String {
        owned(ffi!(shim::cp_di_directory(self.0)))
    }

    /// Of a location, as are the next three.
    pub fn location_line(self) -> u32 {
        ffi!(shim::cp_location_line(self.0))
    }

    pub fn location_column(self) -> u32 {
        ffi!(shim::cp_location_column(self.0))
    }

    pub fn location_scope(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_location_scope(self.0)))
    }

    pub fn inlined_at(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_location_inlined_at(self.0)))
    }

    /// The function that a local scope lies in.
    pub fn scope_subprogram(self) -> Option<Meta> {
        Meta::some(ffi!(shim::cp_scope_subprogram(self.0)))
    }
}
