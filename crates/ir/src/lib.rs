//! What is the program: the program model that `crashpoint-cc` embeds in every object.
//!
//! A model is typed SSA as clang's front end makes it after scalar replacement (no optimisation
//! beyond that), so that address computations still speak of structs and every instruction still
//! has its source line. The instrumenter lowers LLVM to these types; everybody else reads them
//! without LLVM.
//!
//! **Architecture invariant:** nothing here knows LLVM, runs a program, or reads a recording.

pub mod model;

pub use model::*;
