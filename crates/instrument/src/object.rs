//! What one object carries besides its functions: gate, descriptor, hook declarations, the model's
//! section, and the constructor that tells the runtime about it all.

use crate::action::Action;
use crate::helpers::Helpers;
use crate::llvm::{self, Builder, Type, Value};
use crate::lower::{FunctionPlan, Lowered};
use crashpoint_abi::layout::offsets;
use crashpoint_abi::{ABI_VERSION, MODEL_SECTION, hooks};
use crashpoint_ir::SiteId;
use llvm_sys::LLVMLinkage;
use rustc_hash::FxHashMap;
use std::fmt::Write as _;

/// A hook: its type and its declaration.
#[derive(Clone, Copy)]
pub struct Hook {
    pub ty: Type,
    pub function: Value,
}

/// The hooks that bodies call; see `crashpoint_abi::hooks`.
pub struct Hooks {
    pub enter: Hook,
    pub store: Hook,
    pub range: Hook,
    pub vector: Hook,
    pub load: Hook,
    pub flush: Hook,
    pub fence: Hook,
    pub opaque: Hook,
    pub call: Hook,
    pub call_returned: Hook,
    pub sync: Hook,
    pub resync: Hook,
    pub flow_full: Hook,
}

pub struct Object {
    pub module: llvm::Module,
    pub build: Builder,
    pub hooks: Hooks,
    pub helpers: Helpers,
    gate: Value,
    descriptor: Value,
    watch: Value,
    callees: FxHashMap<String, u32>,
}

/// Constructors of users have priority 101 and later.
const FIRST: i32 = 0;

impl Object {
    /// Adds everything to the module but the bodies' hooks.
    pub fn new(module: llvm::Module, lowered: &Lowered) -> Object {
        let build = Builder::new(module);
        let hooks = declare_hooks(module, &build);
        let gate = gate(module, &build);
        let (callees, names) = callees(&lowered.plans);
        let bytes = build.array(build.i8, callees.len().max(1) as u64);
        let watch = build.global("__crashpoint_watch", build.null(bytes));
        watch.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        let (id, blob) = crashpoint_ir::binary::encode(&lowered.model);
        module.append_assembly(&section(&blob));
        let names = constant_global(&build, "__crashpoint_callees", build.constant_bytes(&names));
        let table = globals_table(&build, &lowered.globals);
        let id_bytes: Vec<Value> =
            id.0.iter()
                .map(|b| build.constant(build.i8, u64::from(*b)))
                .collect();
        // The order of `crashpoint_abi::Module`.
        let fields = [
            build.number(ABI_VERSION),
            build.number(lowered.model.sites.len() as u32),
            build.constant_array(build.i8, &id_bytes),
            build.number(0),
            build.number(callees.len() as u32),
            gate,
            watch,
            names,
            table,
            build.number(lowered.globals.len() as u32),
            build.number(0),
        ];
        let descriptor = build.global("__crashpoint_module", build.constant_struct(&fields));
        descriptor.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        let object = Object {
            module,
            build,
            hooks,
            helpers: Helpers::default(),
            gate,
            descriptor,
            watch,
            callees,
        };
        object.add_registration(hooks::REGISTER, "__crashpoint_construct");
        object.add_registration(hooks::UNREGISTER, "__crashpoint_destruct");
        object
    }

    /// A function that hands the descriptor to the runtime, if there is one.
    fn add_registration(&self, hook: &str, name: &str) {
        let build = &self.build;
        let ty = build.function_type(build.void, &[build.pointer]);
        let callee = declare_weak(build, hook, ty);
        let function = self
            .module
            .add_function(name, build.function_type(build.void, &[]));
        function.set_linkage(LLVMLinkage::LLVMInternalLinkage);
        function.add_attribute(self.module, "nounwind");
        let start = function.append_block(self.module);
        let call = function.append_block(self.module);
        let end = function.append_block(self.module);
        build.set_location(None);
        build.at_end(start);
        build.branch_if(build.is_not_zero(build.address(callee)), call, end);
        build.at_end(call);
        build.call(ty, callee, &[self.descriptor]);
        build.branch(end);
        build.at_end(end);
        build.return_void();
        if hook == hooks::REGISTER {
            self.module.append_constructor(function, FIRST)
        } else {
            self.module.append_destructor(function, FIRST)
        }
    }

    // ---- what bodies read -----------------------------------------------------------------

    fn gate_field(&self, ty: Type, offset: usize) -> Value {
        let at = self.build.constant_offset(self.gate, offset);
        self.build.own(self.build.load(ty, at))
    }

    pub fn level(&self) -> Value {
        self.gate_field(self.build.i32, offsets::GATE_LEVEL)
    }

    pub fn detail(&self) -> Value {
        self.gate_field(self.build.i32, offsets::GATE_DETAIL)
    }

    /// Whether an address lies in the envelope of persistent memory.
    pub fn in_persistent_memory(&self, pointer: Value) -> Value {
        self.in_envelope(pointer, offsets::GATE_PM_SPAN)
    }

    /// Whether a load from an address is recorded.
    pub fn in_loaded_memory(&self, pointer: Value) -> Value {
        self.in_envelope(pointer, offsets::GATE_LOAD_SPAN)
    }

    /// Whether an address is less than the span, a field of the gate, above the base of persistent
    /// memory.
    fn in_envelope(&self, pointer: Value, span: usize) -> Value {
        let build = &self.build;
        let address = build.address(pointer);
        let base = self.gate_field(build.i64, offsets::GATE_PM_BASE);
        let distance = build.sub(address, base);
        let span = self.gate_field(build.i64, span);
        build.is_below(distance, span)
    }

    /// The number of a site in this process. The runtime sets the base when the object registers,
    /// which is before any hooked body can run, and never again.
    pub fn site(&self, site: SiteId) -> Value {
        let build = &self.build;
        let at = build.constant_offset(self.descriptor, offsets::MODULE_SITE_BASE);
        let base = build.load_invariant(build.i32, at);
        build.add(base, build.number(site.0))
    }

    /// Whether calls of this function are recorded.
    pub fn is_watched(&self, callee: Value) -> Option<Value> {
        let index = *self.callees.get(&callee.name())?;
        let build = &self.build;
        let at = build.constant_offset(self.watch, index as usize);
        Some(build.is_not_zero(build.own(build.load(build.i8, at))))
    }

    pub fn call(&self, hook: Hook, arguments: &[Value]) -> Value {
        self.build.call(hook.ty, hook.function, arguments)
    }
}

fn declare_weak(build: &Builder, name: &str, ty: Type) -> Value {
    let function = build.declare(name, ty);
    function.set_linkage(LLVMLinkage::LLVMExternalWeakLinkage);
    function
}

fn declare_hooks(module: llvm::Module, build: &Builder) -> Hooks {
    let hook = |name: &str, result: Type, parameters: &[Type], cold: bool| {
        let ty = build.function_type(result, parameters);
        let function = declare_weak(build, name, ty);
        function.add_attribute(module, "nounwind");
        if cold {
            function.add_attribute(module, "cold");
        }
        Hook { ty, function }
    };
    let (void, pointer, i32, i64) = (build.void, build.pointer, build.i32, build.i64);
    Hooks {
        enter: hook(hooks::ENTER, pointer, &[i32], false),
        store: hook(hooks::STORE, void, &[pointer, i32, pointer, i64, i32], true),
        range: hook(hooks::RANGE, void, &[pointer, i32, pointer, i64, i32], true),
        vector: hook(
            hooks::VECTOR,
            void,
            &[pointer, i32, pointer, pointer, i32],
            true,
        ),
        load: hook(hooks::LOAD, void, &[pointer, i32, pointer, i64], true),
        flush: hook(hooks::FLUSH, void, &[pointer, i32, pointer, i32], true),
        fence: hook(hooks::FENCE, void, &[pointer, i32, i32], false),
        opaque: hook(hooks::OPAQUE, void, &[pointer, i32], true),
        call: hook(hooks::CALL, void, &[pointer, i32, pointer, i32], true),
        call_returned: hook(hooks::RETURN, void, &[pointer, i32, i64], true),
        sync: hook(hooks::SYNC, void, &[pointer, i32, pointer, i32], false),
        resync: hook(hooks::RESYNC, void, &[pointer, pointer, i32], false),
        flow_full: hook(hooks::FLOW_FULL, void, &[pointer], true),
    }
}

/// One gate for all objects that are linked together.
fn gate(module: llvm::Module, build: &Builder) -> Value {
    if let Some(gate) = module.named_global(hooks::GATE_SYMBOL) {
        return gate;
    }
    let bytes = size_of::<crashpoint_abi::Gate>() as u64;
    let zeros = build.null(build.array(build.i64, bytes / 8));
    let gate = build.global(hooks::GATE_SYMBOL, zeros);
    gate.set_linkage(LLVMLinkage::LLVMWeakAnyLinkage);
    gate.set_hidden();
    gate.set_alignment(align_of::<crashpoint_abi::Gate>() as u32);
    gate.set_comdat_of_its_own();
    gate
}

/// Every function that is called by name, numbered, and the names for the runtime.
fn callees(plans: &[FunctionPlan]) -> (FxHashMap<String, u32>, Vec<u8>) {
    let mut numbers = FxHashMap::default();
    let mut names = Vec::new();
    for instruction in plans.iter().flat_map(|plan| &plan.instructions) {
        if let Action::Call(call) = &instruction.action
            && let Some(callee) = call.callee
        {
            let next = numbers.len() as u32;
            numbers.entry(callee.name()).or_insert_with_key(|name| {
                names.extend(name.bytes());
                names.push(0);
                next
            });
        }
    }
    (numbers, names)
}

fn constant_global(build: &Builder, name: &str, value: Value) -> Value {
    let global = build.global(name, value);
    global.set_linkage(LLVMLinkage::LLVMInternalLinkage);
    global.set_global_constant(true);
    global
}

/// Addresses of the globals, null for those that have none of their own here: declarations (the
/// object that defines them lists them), thread-locals, constants (the linker may merge them), and
/// those in a group that the linker may drop.
fn globals_table(build: &Builder, globals: &[Value]) -> Value {
    let null = build.null(build.pointer);
    let addresses: Vec<Value> = globals
        .iter()
        .map(|&global| {
            let merged = global.has_comdat() && global.has_local_linkage();
            let listed = !global.is_declaration()
                && global.linkage() != LLVMLinkage::LLVMAvailableExternallyLinkage
                && !global.is_thread_local()
                && !global.is_global_constant()
                && !merged
                && global.ty().address_space() == 0;
            if listed { global } else { null }
        })
        .collect();
    let table = build.constant_array(build.pointer, &addresses);
    constant_global(build, "__crashpoint_globals", table)
}

/// The model as assembly that puts it into its section.
fn section(blob: &[u8]) -> String {
    const BYTES_PER_LINE: usize = 4096;
    let mut text = format!(".pushsection {MODEL_SECTION},\"\",@progbits\n");
    for chunk in blob.chunks(BYTES_PER_LINE) {
        text.push_str(".ascii \"");
        for &byte in chunk {
            match byte {
                b'"' | b'\\' => {
                    text.push('\\');
                    text.push(byte.into());
                }
                b' '..=b'~' => text.push(byte.into()),
                _ => write!(text, "\\{byte:03o}").expect("writing to a string"),
            }
        }
        text.push_str("\"\n");
    }
    text.push_str(".popsection\n");
    text
}

#[cfg(test)]
mod tests {
    use super::section;

    #[test]
    fn bytes_are_escaped_for_the_assembler() {
        let text = section(b"A\"\\\n\xff7");
        assert!(text.contains(r#".ascii "A\"\\\012\3777""#), "{text}");
    }
}
