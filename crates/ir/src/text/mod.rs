//! The readable form of a model, for people and for `crashpoint show --ir`. It is not parsed back.
//!
//! ```text
//! function internal @put(ptr %b root, i64 %key) -> void  #122   ; hash.c:149
//! b0:
//!   %2 = address %struct.bucket %b, .slots[2].key  root   ; hash.c:150:26
//!   store %key to %2, 8  #123   ; hash.c:151:12
//!   if %4 then b1 else b2   ; hash.c:152:9
//! ```
//!
//! `%n` is a value, `bn` a block, `@name` a global or a function, `#n` a site. `root` marks values
//! whose addresses are recorded at level flow.

mod constant;
mod op;

use crate::{
    BlockId, Function, FunctionId, Hooks, Inst, LocationId, Module, Parameter, Type, ValueId,
};
use std::fmt::{self, Display, Formatter};

/// All of a module.
pub fn module(module: &Module) -> impl Display + '_ {
    ModuleText { module }
}

/// One function.
pub fn function(module: &Module, function: FunctionId) -> impl Display + '_ {
    FunctionText {
        module,
        function: &module.functions[function.index()],
    }
}

/// One instruction of a function, without its place.
pub fn instruction<'a>(
    module: &'a Module,
    function: &'a Function,
    inst: &'a Inst,
) -> impl Display + 'a {
    InstText {
        module,
        function,
        inst,
    }
}

struct ModuleText<'a> {
    module: &'a Module,
}

impl Display for ModuleText<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let module = self.module;
        writeln!(to, "module {}", Name(&module.source))?;
        writeln!(to, "producer {}", Name(&module.producer))?;
        for (ty, id) in module.types.iter().zip((0..).map(crate::TypeId)) {
            if let Type::Struct {
                name: Some(_),
                size_bytes,
                fields,
                ..
            } = ty
            {
                writeln!(to, "\n{} = {size_bytes} bytes {{", module.type_name(id))?;
                for (index, field) in fields.iter().enumerate() {
                    let ty = module.type_name(field.ty);
                    let field_name = FieldName(index as u32, field.name.as_deref());
                    writeln!(to, "  {}: {ty} {field_name}", field.offset_bytes)?;
                }
                writeln!(to, "}}")?;
            }
        }
        if !module.globals.is_empty() {
            writeln!(to)?;
        }
        for global in &module.globals {
            let storage = if global.thread_local {
                "thread_local "
            } else {
                ""
            };
            let constant = if global.constant {
                "constant"
            } else {
                "global"
            };
            let external = if global.defined { "" } else { "external " };
            let ty = module.type_name(global.ty);
            write!(
                to,
                "@{} = {external}{storage}{constant} {ty}",
                Name(&global.name)
            )?;
            for (index, function) in global.functions.iter().enumerate() {
                let before = if index == 0 { " of" } else { "," };
                let name = &module.functions[function.index()].name;
                write!(to, "{before} @{}", Name(name))?;
            }
            writeln!(to, "{}", Place(module, global.location))?;
        }
        for id in 0..module.functions.len() as u32 {
            write!(to, "\n{}", function(module, FunctionId(id)))?;
        }
        Ok(())
    }
}

struct FunctionText<'a> {
    module: &'a Module,
    function: &'a Function,
}

impl Display for FunctionText<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let FunctionText { module, function } = *self;
        let what = if function.is_declaration() {
            "declare"
        } else {
            "function"
        };
        let internal = if function.internal { " internal" } else { "" };
        write!(to, "{what}{internal} @{}(", Name(&function.name))?;
        for (index, parameter) in function.parameters.iter().enumerate() {
            if index > 0 {
                write!(to, ", ")?;
            }
            let value = Value(function, ValueId(index as u32));
            let Parameter { ty, root, .. } = parameter;
            write!(to, "{} {value}", module.type_name(*ty))?;
            write!(to, "{}", if *root { " root" } else { "" })?;
        }
        if function.variadic {
            let before = if function.parameters.is_empty() {
                ""
            } else {
                ", "
            };
            write!(to, "{before}...")?;
        }
        write!(to, ") -> {}", module.type_name(function.result))?;
        if let Some(site) = function.site {
            write!(to, "  #{}", site.0)?;
        }
        if let Hooks::Unhooked(reason) = &function.hooks {
            write!(to, "  unhooked: {}", reason.escape_debug())?;
        }
        write!(to, "{}", Place(module, function.location))?;
        if let Some(name) = &function.source_name
            && *name != function.name
        {
            write!(to, " {}", Name(name))?;
        }
        writeln!(to)?;
        for (id, block) in (0..).map(BlockId).zip(&function.blocks) {
            writeln!(to, "b{}:", id.0)?;
            for inst in &block.instructions {
                let text = instruction(module, function, inst);
                writeln!(to, "  {text}{}", Place(module, inst.location))?;
            }
        }
        Ok(())
    }
}

struct InstText<'a> {
    module: &'a Module,
    function: &'a Function,
    inst: &'a Inst,
}

impl Display for InstText<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let InstText {
            module,
            function,
            inst,
        } = *self;
        if let Some(result) = inst.result {
            write!(to, "{} = ", Value(function, result))?;
        }
        let writer = op::Writer {
            module,
            function,
            inst,
        };
        writer.write(to)?;
        if inst.root {
            write!(to, "  root")?;
        }
        match inst.site {
            Some(site) => write!(to, "  #{}", site.0),
            None => Ok(()),
        }
    }
}

/// A value: a parameter by its name where it has one, everything else by its number.
struct Value<'a>(&'a Function, ValueId);

impl Display for Value<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let parameter = self.0.parameters.get(self.1.index());
        match parameter.and_then(|parameter| parameter.name.as_deref()) {
            Some(name) if !name.is_empty() => write!(to, "%{}", Name(name)),
            Some(_) | None => write!(to, "%{}", self.1.0),
        }
    }
}

/// A name, in quotes where it is not plain, so that nothing in a file can confuse a terminal.
pub(crate) struct Name<'a>(pub(crate) &'a str);

impl Display for Name<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        match !self.0.is_empty() && self.0.bytes().all(plain) {
            true => to.write_str(self.0),
            false => write!(to, "\"{}\"", self.0.escape_debug()),
        }
    }
}

/// A field: its name, or its number.
struct FieldName<'a>(u32, Option<&'a str>);

impl Display for FieldName<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(name) => write!(to, ".{}", Name(name)),
            None => write!(to, ".{}", self.0),
        }
    }
}

/// A place in the source, with the calls that it was inlined through.
struct Place<'a>(&'a Module, Option<LocationId>);

impl Display for Place<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let Place(module, mut next) = *self;
        let mut before = "   ; ";
        while let Some(location) = next.map(|id| &module.locations[id.index()]) {
            let file = &module.files[location.file.index()];
            let file = file
                .rsplit_once('/')
                .map_or(file.as_str(), |(_, name)| name);
            write!(to, "{before}{}:{}", Name(file), location.line)?;
            if location.column != 0 {
                write!(to, ":{}", location.column)?;
            }
            if let Some(function) = &location.function {
                write!(to, " in {}", Name(function))?;
            }
            before = " inlined at ";
            next = location.inlined_at;
        }
        Ok(())
    }
}
