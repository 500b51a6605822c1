//! House rules as pure functions: text or metadata in, problems out. `tests/` applies them to this
//! repository; each function has unit tests that show that it fails when its rule is broken.
//! Nothing here is shipped.
#![forbid(unsafe_code)]

pub mod crates;
pub mod pages;
pub mod public_types;
pub mod source;
