//! What one run of Crashpoint stands on: programs run to their end under supervision, the folder of
//! a recording, and the output folder of a test with its lock.
//!
//! **Architecture invariant:** prints nothing and decides no exit code.
#![forbid(unsafe_code)]

pub mod output_dir;
pub mod recording_dir;
pub mod supervise;
