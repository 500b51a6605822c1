//! `crashpoint-cc` and `crashpoint-c++`: clang 19 with our plugin and our runtime on the line.
//!
//! The driver reads the command line only to learn what clang will do with it ([`analysis`]), puts
//! its own options in front ([`command`]), and becomes clang by `exec`: diagnostics, exit status
//! and signals are clang's own. Nothing of the user's line is changed, reordered or dropped.
//!
//! The folder of `crashpoint.h`, which gives a target its `main`, is on the line too, so that
//! `#include <crashpoint.h>` needs no `-I`.
//!
//! What stays uninstrumented: runs that generate no code (`-E`, `-M`, `-fsyntax-only`, …), targets
//! other than x86-64 Linux, and everything while `CRASHPOINT_CC_DISABLE=1`. What is compiled but
//! not linked to the runtime: `-r`, `-nostdlib` and the like. Hooks are weak, so that such objects
//! work without it.
//!
//! **Architecture invariant:** this crate links no LLVM and never reads or writes a source or
//! object file; [`analysis`], [`response`] and [`command`] are pure.

pub mod analysis;
pub mod command;
pub mod libraries;
pub mod options;
pub mod response;

/// `1`: behave as plain clang.
pub const DISABLE: &str = "CRASHPOINT_CC_DISABLE";
/// Set for the compiler that a driver starts: should that turn out to be a wrapper which calls the
/// driver again, the second call runs plain clang.
pub const ACTIVE: &str = "CRASHPOINT_CC_ACTIVE";
