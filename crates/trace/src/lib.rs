//! What did the program do: the recording that the runtime leaves, read back.
//!
//! A [`Recording`] is a folder that was opened and scanned once: every stream is decoded from end
//! to end, so that what is wrong with it is known ([`Recording::problems`]) before anybody draws
//! conclusions. [`Recording::events`] then delivers all ordered events of all threads and
//! processes in the one global order, with
//!
//! - addresses translated to [`PmAddress`]: one byte of a persistent file has one address,
//!   through whatever mapping and process it is touched;
//! - sites numbered over the recording ([`SiteId`]): one place in the program has one number, in
//!   whatever process it runs;
//! - call stacks interned over the recording ([`ContextId`]).
//!
//! Nothing that is read is trusted, and nothing is dropped in silence: a damaged stream is read up
//! to the damage, and a [`Problem`] tells where, why, and what to do.
//!
//! **Architecture invariant:** only two functions change a recording that is there already:
//! [`program::save_models`] adds the models to it, and [`files::merge_stores()`] puts stores between
//! its calls. The crate knows nothing of persistence or of rules. The only unsafe code is the memory
//! mapping in `mapped`.
#![deny(unsafe_code)]

mod contexts;
mod event;
mod events;
pub mod files;
pub mod flow;
mod folder;
mod ids;
mod mapped;
mod meta;
mod problem;
mod process;
pub mod program;
mod range;
mod recording;
mod sites;
mod space;
mod statistics;
mod stream;
mod threads;
pub mod writer;

pub use event::{Arguments, Event, EventClass, EventKind, PmPlace, PmWrite, WrittenData};
pub use events::Events;
pub use ids::{ContextId, FileIndex, PmAddress, ProcessIndex, SiteId, ThreadIndex};
pub use mapped::create_for_mapping;
pub use problem::{OpenError, OpenErrorKind, Problem, ProblemKind};
pub use process::{ExitCall, Library, LoadedModule, PmFile, Process, ProcessEnd};
pub use recording::{Recording, ThreadInfo};
pub use sites::ModelSites;
pub use statistics::Statistics;

pub use crashpoint_abi::Level;
pub use crashpoint_abi::record::{FenceKind, FlushKind, StoreKind, ThreadSync};
