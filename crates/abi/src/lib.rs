//! What crosses into the target: the layouts, names and records that instrumented code, the
//! runtime inside the target, and the reader outside of it agree on.
//!
//! Three parties speak this protocol. The *instrumenter* (a clang plugin) emits code that touches
//! [`Gate`], [`ModuleHeader`], [`Thread`] and [`ShadowFrame`] by offset and calls the hooks in
//! [`hooks`]. The *runtime* answers those hooks and writes the streams described in [`record`] and
//! [`flow`]. The *reader* decodes them. When a layout, a hook or a record changes its meaning, bump
//! [`ABI_VERSION`] (instrumenter and runtime) or [`TRACE_VERSION`] (runtime and reader); each side
//! refuses what it does not know.
//!
//! **Architecture invariant:** this crate depends on nothing, allocates nothing, does no I/O of its
//! own.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod env;
pub mod flow;
pub mod hooks;
pub mod layout;
pub mod record;
pub mod serve;
pub mod syscallbuf;
#[cfg(target_arch = "x86_64")]
pub mod system_call;

pub use layout::{Gate, ModuleHeader, ShadowFrame, StreamHeader, Thread};

/// Version of what instrumented objects and the runtime agree on.
pub const ABI_VERSION: u32 = 1;

/// Version of the files of a recording.
pub const TRACE_VERSION: u32 = 1;

/// Name of the ELF section (not loaded) that carries the program model of every object.
pub const MODEL_SECTION: &str = ".crashpoint.model";

/// Bytes of a cache line: the unit that flush instructions work on.
pub const CACHE_LINE_BYTES: u64 = 64;

/// How much a recording keeps. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Level {
    /// Nothing: instrumented functions take their plain copies.
    Off = 0,
    /// Persistent-memory stores with values, flushes, fences, synchronisation, call stacks.
    Pm = 1,
    /// Also what a replay over the program model needs: branches taken and addresses.
    Flow = 2,
    /// Also the values of loads and the results of external calls.
    Value = 3,
}

impl Level {
    /// The names under which a user chooses a level.
    pub const NAMES: [(&'static str, Level); 4] = [
        ("off", Level::Off),
        ("pm", Level::Pm),
        ("flow", Level::Flow),
        ("value", Level::Value),
    ];

    pub fn from_name(name: &str) -> Option<Level> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, level)| *level)
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}
