//! Types of LLVM as types of the model.
//!
//! With opaque pointers a struct never contains itself, so plain recursion ends. A struct of LLVM
//! is joined with the source layout of the same name and size: that gives its fields names. clang
//! numbers types that share a name (`struct.node.12`) and leaves out template arguments, so there
//! may be several layouts of one name; the one whose members start where the fields do wins.

use super::layouts::Layouts;
use crate::llvm;
use crashpoint_ir::{Field, LayoutId, Type, TypeId};
use llvm_sys::LLVMTypeKind;
use rustc_hash::FxHashMap;

pub struct Types {
    module: llvm::Module,
    known: FxHashMap<llvm::Type, TypeId>,
    pub list: Vec<Type>,
}

impl Types {
    pub fn new(module: llvm::Module) -> Types {
        Types {
            module,
            known: FxHashMap::default(),
            list: Vec::new(),
        }
    }

    pub fn id(&mut self, ty: llvm::Type, layouts: &Layouts) -> TypeId {
        if let Some(&id) = self.known.get(&ty) {
            return id;
        }
        let lowered = self.lower(ty, layouts);
        let id = TypeId(self.list.len() as u32);
        self.list.push(lowered);
        self.known.insert(ty, id);
        id
    }

    fn lower(&mut self, ty: llvm::Type, layouts: &Layouts) -> Type {
        use LLVMTypeKind::*;
        match ty.kind() {
            LLVMVoidTypeKind => Type::Void,
            LLVMIntegerTypeKind => Type::Integer {
                bits: ty.integer_bits().expect("an integer type has a width"),
            },
            LLVMHalfTypeKind
            | LLVMBFloatTypeKind
            | LLVMFloatTypeKind
            | LLVMDoubleTypeKind
            | LLVMX86_FP80TypeKind
            | LLVMFP128TypeKind
            | LLVMPPC_FP128TypeKind => Type::Float {
                name: ty.print(),
                bits: ty.bits(self.module) as u32,
            },
            LLVMPointerTypeKind => Type::Pointer {
                address_space: ty.address_space(),
            },
            LLVMArrayTypeKind => Type::Array {
                element: self.id(ty.element(), layouts),
                count: ty.array_length(),
            },
            LLVMVectorTypeKind => Type::Vector {
                element: self.id(ty.element(), layouts),
                count: ty.vector_length(),
                scalable: false,
            },
            LLVMScalableVectorTypeKind => Type::Vector {
                element: self.id(ty.element(), layouts),
                count: ty.vector_length(),
                scalable: true,
            },
            LLVMFunctionTypeKind => Type::Function {
                result: self.id(ty.function_result(), layouts),
                parameters: ty
                    .function_parameters()
                    .into_iter()
                    .map(|parameter| self.id(parameter, layouts))
                    .collect(),
                variadic: ty.is_variadic(),
            },
            LLVMStructTypeKind if ty.is_sized() => self.lower_struct(ty, layouts),
            // An opaque struct has no size.
            LLVMStructTypeKind
            | LLVMLabelTypeKind
            | LLVMMetadataTypeKind
            | LLVMX86_MMXTypeKind
            | LLVMTokenTypeKind
            | LLVMX86_AMXTypeKind
            | LLVMTargetExtTypeKind => Type::Other(ty.print()),
        }
    }

    fn lower_struct(&mut self, ty: llvm::Type, layouts: &Layouts) -> Type {
        let name = ty.struct_name();
        let size_bytes = ty.alloc_bytes(self.module);
        let mut fields: Vec<Field> = ty
            .struct_fields()
            .into_iter()
            .enumerate()
            .map(|(index, field)| Field {
                ty: self.id(field, layouts),
                offset_bytes: ty.struct_offset(self.module, index as u32),
                name: None,
            })
            .collect();
        let layout = name
            .as_deref()
            .and_then(|name| choose(layouts, name, size_bytes, &fields));
        if let Some(id) = layout {
            let layout = &layouts.list[id.index()];
            for field in &mut fields {
                field.name = layout
                    .members
                    .iter()
                    .find(|member| !layout.union && member.offset_bits == field.offset_bytes * 8)
                    .filter(|member| !member.name.is_empty())
                    .map(|member| member.name.clone());
            }
        }
        Type::Struct {
            name,
            size_bytes,
            fields,
            layout,
        }
    }
}

/// The layout that a struct type of LLVM was made from.
fn choose(layouts: &Layouts, name: &str, size_bytes: u64, fields: &[Field]) -> Option<LayoutId> {
    let matches = |id: LayoutId| {
        let members = &layouts.list[id.index()].members;
        fields
            .iter()
            .filter(|field| {
                members
                    .iter()
                    .any(|member| member.offset_bits == field.offset_bytes * 8)
            })
            .count()
    };
    layouts
        .named(source_name(name))
        .iter()
        .copied()
        .filter(|id| layouts.list[id.index()].size_bytes == size_bytes)
        // Of equals the first, so that the choice depends on the input alone.
        .max_by_key(|&id| (matches(id), std::cmp::Reverse(id)))
}

/// `bucket` of `struct.bucket.12`.
fn source_name(name: &str) -> &str {
    let name = ["struct.", "class.", "union."]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    match name.rsplit_once('.') {
        Some((head, tail)) if tail.bytes().all(|b| b.is_ascii_digit()) => head,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::source_name;

    #[test]
    fn names_lose_what_clang_adds() {
        assert_eq!(source_name("struct.bucket"), "bucket");
        assert_eq!(source_name("class.std::vector.12"), "std::vector");
        assert_eq!(source_name("union.anon"), "anon");
        assert_eq!(source_name("plain"), "plain");
    }
}
