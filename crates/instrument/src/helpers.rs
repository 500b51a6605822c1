//! Small functions that an object brings along, for what bodies do often and need not do inline.
//!
//! They are merged by the linker like inline functions, and optimised, unlike the bodies that call
//! them.

use crate::llvm::{BasicBlock, Type, Value};
use crate::object::{Hook, Object};
use crashpoint_abi::flow;
use crashpoint_abi::layout::offsets;
use llvm_sys::LLVMIntPredicate;
use std::cell::OnceCell;

/// Made when first used.
#[derive(Default)]
pub struct Helpers {
    load: OnceCell<Hook>,
    value: OnceCell<Hook>,
    wide_value: OnceCell<Hook>,
}

/// Bytes that a wide value's room has.
const WIDE_BYTES: u64 = 64;

impl Helpers {
    /// `void (thread, site, address, size)`: reports a load if loads from there are recorded.
    pub fn load(&self, object: &Object) -> Hook {
        *self.load.get_or_init(|| {
            let build = &object.build;
            let parameters = [build.pointer, build.i32, build.pointer, build.i64];
            define(
                object,
                "__crashpoint.load",
                &parameters,
                |start, arguments| {
                    let &[_, _, address, _] = arguments else {
                        unreachable!("it has four parameters");
                    };
                    let function = start.function();
                    let report = function.append_block(object.module);
                    let end = function.append_block(object.module);
                    build.branch_if(object.in_loaded_memory(address), report, end);
                    build.at_end(report);
                    object.call(object.hooks.load, arguments);
                    build.branch(end);
                    build.at_end(end);
                    build.return_void();
                },
            )
        })
    }

    /// `void (thread, word, class)`: writes a value of 1 << class bytes, at most 8.
    pub fn value(&self, object: &Object) -> Hook {
        *self.value.get_or_init(|| {
            let build = &object.build;
            let parameters = [build.pointer, build.i64, build.i32];
            define(object, "__crashpoint.value", &parameters, |_, arguments| {
                let &[thread, word, class] = arguments else {
                    unreachable!("it has three parameters");
                };
                write_value(object, thread, class, |to| build.store_to_stream(word, to));
            })
        })
    }

    /// `void (thread, address, class)`: the same for up to 64 bytes; so many must be readable.
    pub fn wide_value(&self, object: &Object) -> Hook {
        *self.wide_value.get_or_init(|| {
            let build = &object.build;
            let parameters = [build.pointer, build.pointer, build.i32];
            define(object, "__crashpoint.wide", &parameters, |_, arguments| {
                let &[thread, from, class] = arguments else {
                    unreachable!("it has three parameters");
                };
                write_value(object, thread, class, |to| {
                    build.copy_bytes(to, from, WIDE_BYTES);
                });
            })
        })
    }
}

/// Defines a function without result; the builder stands at the start of its body.
fn define(
    object: &Object,
    name: &str,
    parameters: &[Type],
    body: impl FnOnce(BasicBlock, &[Value]),
) -> Hook {
    let build = &object.build;
    let place = build.place();
    let ty = build.function_type(build.void, parameters);
    let function = object.module.add_function(name, ty);
    function.merge_by_name();
    function.add_attribute(object.module, "nounwind");
    function.add_attribute(object.module, "noinline");
    function.add_unwind_table();
    let start = function.append_block(object.module);
    build.at_end(start);
    build.set_location(None);
    body(start, &function.parameters());
    build.return_to(place);
    Hook { ty, function }
}

/// Tag and bytes of a value; more bytes than count may be written, since there is room.
fn write_value(object: &Object, thread: Value, class: Value, put: impl FnOnce(Value)) {
    let build = &object.build;
    let at = build.offset(thread, offsets::THREAD_FLOW_CURSOR as i64);
    let limit = build.offset(thread, offsets::THREAD_FLOW_LIMIT as i64);
    let here = build.own(build.load(build.pointer, at));
    let limit = build.own(build.load(build.pointer, limit));
    let head = build.block();
    let function = head.function();
    let renew = function.append_block(object.module);
    let go_on = function.append_block(object.module);
    let full = build.compare(LLVMIntPredicate::LLVMIntUGT, here, limit);
    build.branch_if(full, renew, go_on).set_weights(1, 2000);
    build.at_end(renew);
    object.call(object.hooks.flow_full, &[thread]);
    let renewed = build.own(build.load(build.pointer, at));
    build.branch(go_on);
    build.at_end(go_on);
    let cursor = build.phi(build.pointer, &[(here, head), (renewed, renew)]);
    let tag = build.add(class, build.number(flow::VALUE.into()));
    build.store_to_stream(build.resize(tag, build.i8), cursor);
    let bytes = build.offset(cursor, 1);
    put(bytes);
    let length = build.shift_left(build.word(1), build.resize(class, build.i64));
    build.own(build.store(build.index_bytes(bytes, length), at));
    build.return_void();
}
