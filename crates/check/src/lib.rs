//! Does it recover: crash states materialised, recovery run on each, and a verdict.
//!
//! **Architecture invariant:** knows nothing of source lines or reports; whatever the target does
//! is a result, never an error of this crate.
#![deny(unsafe_code)]
