//! Structs, unions and classes of the source language, from debug information.
//!
//! All composites that the module's debug information reaches are kept, also those that are only
//! pointed to. An anonymous composite takes the name of a typedef for it. Static members and
//! functions are no members; a base class is a member with the name of the class.

use super::locations::Locations;
use crate::llvm::{self, Meta};
use crashpoint_ir::{Layout, LayoutId, Member};
use rustc_hash::FxHashMap;

// Tags of DWARF 5, table 7.3.
const ARRAY: u32 = 0x01;
const CLASS: u32 = 0x02;
const ENUMERATION: u32 = 0x04;
const MEMBER: u32 = 0x0d;
const POINTER: u32 = 0x0f;
const REFERENCE: u32 = 0x10;
const STRUCTURE: u32 = 0x13;
const SUBROUTINE: u32 = 0x15;
const TYPEDEF: u32 = 0x16;
const UNION: u32 = 0x17;
const INHERITANCE: u32 = 0x1c;
const CONST: u32 = 0x26;
const VOLATILE: u32 = 0x35;
const RESTRICT: u32 = 0x37;
const NAMESPACE: u32 = 0x39;
const RVALUE_REFERENCE: u32 = 0x42;
const ATOMIC: u32 = 0x47;

/// How deep a type's name is spelled out.
const MAX_NAME_DEPTH: u32 = 8;

#[derive(Default)]
pub struct Layouts {
    pub list: Vec<Layout>,
    known: FxHashMap<Meta, LayoutId>,
    by_name: FxHashMap<String, Vec<LayoutId>>,
    /// Names that typedefs give to composites.
    aliases: FxHashMap<Meta, String>,
}

impl Layouts {
    pub fn collect(module: llvm::Module, locations: &mut Locations) -> Layouts {
        let mut layouts = Layouts::default();
        let types = module.debug_types();
        for &ty in types.iter().filter(|ty| ty.tag() == TYPEDEF) {
            if let Some(base) = ty.base().filter(|base| base.name().is_empty()) {
                layouts.aliases.entry(base).or_insert_with(|| ty.name());
            }
        }
        let composites: Vec<Meta> = types
            .into_iter()
            .filter(|ty| is_composite(*ty) && !ty.is_declaration())
            .collect();
        for (index, &ty) in composites.iter().enumerate() {
            layouts.known.insert(ty, LayoutId(index as u32));
        }
        for ty in composites {
            let layout = layouts.lower(ty, locations);
            let id = LayoutId(layouts.list.len() as u32);
            let plain = layout.name.split('<').next().unwrap_or_default();
            layouts
                .by_name
                .entry(plain.to_owned())
                .or_default()
                .push(id);
            layouts.list.push(layout);
        }
        layouts
    }

    /// Layouts of this name, template arguments left out.
    pub fn named(&self, name: &str) -> &[LayoutId] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    fn lower(&self, ty: Meta, locations: &mut Locations) -> Layout {
        let members = ty
            .elements()
            .into_iter()
            .flatten()
            .filter(|element| matches!(element.tag(), MEMBER | INHERITANCE))
            .filter(|element| !element.is_static_member())
            .map(|element| self.member(element))
            .collect();
        Layout {
            name: self.qualified_name(ty),
            union: ty.tag() == UNION,
            size_bytes: ty.size_bits() / 8,
            members,
            location: locations.of_declaration(ty),
        }
    }

    fn member(&self, member: Meta) -> Member {
        let base = member.base();
        let stripped = base.map(strip);
        let (element, count) = match stripped {
            Some(array) if array.tag() == ARRAY => (array.base().map(strip), array_length(array)),
            other => (other, 1),
        };
        let name = match member.tag() {
            INHERITANCE => base.map_or_else(String::new, |base| base.name()),
            _ => member.name(),
        };
        let size_bits = match (member.size_bits(), base) {
            (0, Some(base)) => base.size_bits(),
            (size, _) => size,
        };
        Member {
            name,
            offset_bits: member.offset_bits(),
            size_bits,
            type_name: base.map_or_else(String::new, |base| self.type_name(Some(base), 0)),
            composite: element.and_then(|ty| self.known.get(&ty).copied()),
            points_to: element
                .filter(|ty| is_pointer(*ty))
                .and_then(|pointer| pointer.base())
                .map(strip)
                .and_then(|target| self.known.get(&target).copied()),
            count,
        }
    }

    /// The name with the namespaces and classes around it.
    fn qualified_name(&self, ty: Meta) -> String {
        let own = match ty.name() {
            name if name.is_empty() => self.aliases.get(&ty).cloned().unwrap_or(name),
            name => name,
        };
        let mut name = own;
        let mut scope = ty.scope();
        while let Some(around) = scope {
            if !(around.tag() == NAMESPACE || is_composite(around)) {
                break;
            }
            let part = match around.name() {
                part if part.is_empty() && around.tag() == NAMESPACE => {
                    "(anonymous namespace)".to_owned()
                }
                part => part,
            };
            name = format!("{part}::{name}");
            scope = around.scope();
        }
        name
    }

    /// The type as source text.
    fn type_name(&self, ty: Option<Meta>, depth: u32) -> String {
        let Some(ty) = ty else {
            return "void".to_owned();
        };
        if depth > MAX_NAME_DEPTH {
            return "…".to_owned();
        }
        let base = || self.type_name(ty.base(), depth + 1);
        match ty.tag() {
            POINTER | REFERENCE | RVALUE_REFERENCE => {
                let mark = match ty.tag() {
                    POINTER => "*",
                    REFERENCE => "&",
                    _ => "&&",
                };
                match ty.base() {
                    Some(function) if function.tag() == SUBROUTINE => {
                        self.function_name(function, &format!("({mark})"), depth)
                    }
                    _ => {
                        let base = base();
                        let gap = if base.ends_with(['*', '&']) { "" } else { " " };
                        format!("{base}{gap}{mark}")
                    }
                }
            }
            CONST => format!("const {}", base()),
            VOLATILE => format!("volatile {}", base()),
            RESTRICT => format!("{} restrict", base()),
            ATOMIC => format!("_Atomic {}", base()),
            ARRAY => format!("{}[{}]", base(), array_length(ty)),
            SUBROUTINE => self.function_name(ty, "", depth),
            STRUCTURE => format!("struct {}", self.qualified_name(ty)),
            CLASS => format!("class {}", self.qualified_name(ty)),
            UNION => format!("union {}", self.qualified_name(ty)),
            ENUMERATION => format!("enum {}", ty.name()),
            _ => ty.name(),
        }
    }

    fn function_name(&self, function: Meta, declarator: &str, depth: u32) -> String {
        let types = function.elements();
        let result = types.first().copied().flatten();
        let parameters: Vec<String> = types
            .iter()
            .skip(1)
            .map(|ty| self.type_name(*ty, depth + 1))
            .collect();
        let result = self.type_name(result, depth + 1);
        format!("{result} {declarator}({})", parameters.join(", "))
    }
}

fn is_composite(ty: Meta) -> bool {
    matches!(ty.tag(), STRUCTURE | CLASS | UNION)
}

fn is_pointer(ty: Meta) -> bool {
    matches!(ty.tag(), POINTER | REFERENCE | RVALUE_REFERENCE)
}

/// Without typedefs and qualifiers.
fn strip(mut ty: Meta) -> Meta {
    while matches!(ty.tag(), TYPEDEF | CONST | VOLATILE | RESTRICT | ATOMIC) {
        match ty.base() {
            Some(base) => ty = base,
            None => break,
        }
    }
    ty
}

fn array_length(array: Meta) -> u64 {
    array
        .elements()
        .into_iter()
        .flatten()
        .map(Meta::subrange_count)
        .product()
}
