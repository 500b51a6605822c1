//! The library under the command line: from settings and a target to findings.
//!
//! [`test::test`] is one whole test. [`record`] and [`lint`] are the smaller jobs that it shares with
//! the other commands.
//!
//! **Architecture invariant:** prints nothing and decides no exit code; what a user may want to see
//! while a run goes on is an [`observer::TestEvent`].
#![forbid(unsafe_code)]

mod files;
mod identity;
mod left_out;
pub mod lint;
mod memory;
pub mod observer;
pub mod output_dir;
mod phases;
mod pipeline;
pub mod record;
pub mod recording_dir;
pub mod settings;
pub mod strategies;
pub mod supervise;
pub mod target;
pub mod test;
pub mod workload;

pub use files::{FilesError, file_system_model};
pub use observer::{Observer, TestEvent};
pub use settings::Settings;
pub use test::{TestError, Tested, test};
