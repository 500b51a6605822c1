//! What is the program: the program model that `crashpoint-cc` embeds in every object.
//!
//! A model is typed SSA as clang's front end makes it after scalar replacement (no optimisation
//! beyond that), so that address computations still speak of structs and every instruction still
//! has its source line. The instrumenter lowers LLVM to these types; everybody else reads them
//! without LLVM.
//!
//! **Architecture invariant:** nothing here knows LLVM, runs a program, or reads a recording.
//! What [`binary::decode`] returns has been validated: every id in it may be used as an index.
#![forbid(unsafe_code)]

pub mod binary;
pub mod calls;
pub mod cfg;
pub mod control;
pub mod dominance;
pub mod elf;
mod id;
pub mod model;
mod nesting;
mod numbers;
mod ops;
pub mod text;
pub mod types;
mod validate;

pub use model::*;
pub use ops::OpClass;
pub use validate::Invalid;
