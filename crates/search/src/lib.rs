//! Which inputs to run: the generator of operations.
//!
//! **Architecture invariant:** pure; the same seed and settings give the same operations.
#![forbid(unsafe_code)]
