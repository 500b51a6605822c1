//! The functions of the runtime that instrumented code calls.
//!
//! All are `extern "C"`, never unwind, and are declared `extern_weak` by instrumented objects, so
//! that an object links and runs (at level off) where there is no runtime. `thread` is what
//! [`ENTER`] returned for this activation. `site` is the module's [`crate::ModuleHeader::site_base`]
//! plus the index of the site in the program model.
//!
//! | name | C signature |
//! |---|---|
//! | [`REGISTER`] | `void (ModuleHeader *)`; from a constructor of each object, before user constructors |
//! | [`UNREGISTER`] | `void (ModuleHeader *)`; when a shared library is unloaded |
//! | [`ENTER`] | `Thread *(u32 site)`; pushes a frame |
//! | [`STORE`] | `void (Thread *, u32 site, void *address, u64 value, u32 size_and_kind)` |
//! | [`RANGE`] | `void (Thread *, u32 site, void *address, u64 length, u32 kind)` |
//! | [`VECTOR`] | `void (Thread *, u32 site, void *address, void const *value, u32 size_and_kind)` |
//! | [`LOAD`] | `void (Thread *, u32 site, void *address, u64 size)` |
//! | [`FLUSH`] | `void (Thread *, u32 site, void *address, u32 kind)` |
//! | [`FENCE`] | `void (Thread *, u32 site, u32 kind)` |
//! | [`OPAQUE`] | `void (Thread *, u32 site)` |
//! | [`CALL`] | `void (Thread *, u32 site, u64 const *arguments, u32 count)` |
//! | [`RETURN`] | `void (Thread *, u32 site, u64 value)` |
//! | [`SYNC`] | `void (Thread *, u32 site, void *object, u32 kind)` |
//! | [`RESYNC`] | `void (Thread *, ShadowFrame *, u32 site)` |
//! | [`FLOW_FULL`] | `void (Thread *)`; makes room for at least [`crate::flow::ROOM_BYTES`] |
//!
//! Stores: the hook runs right *after* the store, with the value zero-extended; `size_and_kind` is
//! `size | kind << 8` with size 1, 2, 4 or 8. Stores of 16, 32 or 64 bytes whose value is at hand
//! use `VECTOR` with a copy of it: reading back what a non-temporal store wrote would wait for
//! memory. Other stores, memory functions and assembly use `RANGE`, which reads the bytes back.
//!
//! Loads: `size` is a number of bytes; or [`LOAD_STRING`] with the most bytes that a string may
//! have: its length is the runtime's to find; or [`LOAD_ESCAPE`]: the address is handed to a
//! function that may have no hooks. Where the callee enters next, it has them; otherwise nobody
//! knows what it reads. A source that is copied is reported before the copy.
//!
//! Flushes and fences are reported *before* they execute for flushes and *after* for fences. A
//! locked read-modify-write is a `FENCE` of kind
//! `Locked` (only when `Thread::pending` is not zero) and then a store.

pub const REGISTER: &str = "__crashpoint_register";
pub const UNREGISTER: &str = "__crashpoint_unregister";
pub const ENTER: &str = "__crashpoint_enter";
pub const STORE: &str = "__crashpoint_store";
pub const RANGE: &str = "__crashpoint_range";
pub const VECTOR: &str = "__crashpoint_vector";
pub const LOAD: &str = "__crashpoint_load";
pub const FLUSH: &str = "__crashpoint_flush";
pub const FENCE: &str = "__crashpoint_fence";
pub const OPAQUE: &str = "__crashpoint_opaque";
/// A watched call is about to happen. Arguments are widened to 64 bits; at most 8 are passed.
pub const CALL: &str = "__crashpoint_call";
/// A watched call has returned. The value is 0 where there is none or it is not a scalar.
pub const RETURN: &str = "__crashpoint_return";
pub const SYNC: &str = "__crashpoint_sync";
/// Control came back by an exception or longjmp: the frame is this activation's own again.
pub const RESYNC: &str = "__crashpoint_resync";
pub const FLOW_FULL: &str = "__crashpoint_flow_full";

/// Size of a load: up to the end of a string, of at most so many bytes as the other bits say.
pub const LOAD_STRING: u64 = 1 << 63;
/// Size of a load that is none: an address leaves code with hooks.
pub const LOAD_ESCAPE: u64 = LOAD_STRING - 1;

/// The gate of a linked object: hidden, one per executable or shared library.
pub const GATE_SYMBOL: &str = "__crashpoint_gate";

/// Most arguments that a watched call passes on.
pub const MAX_CALL_ARGUMENTS: usize = 8;
