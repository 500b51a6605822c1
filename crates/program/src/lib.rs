//! What can be known about a program without running it: analyses over the program model of `ir`.
//!
//! **Architecture invariant:** pure: values in, values out; nothing here knows LLVM or runs a
//! program.
#![forbid(unsafe_code)]

pub mod asm;
pub mod helpers;
pub mod paths;
pub mod stored_types;
