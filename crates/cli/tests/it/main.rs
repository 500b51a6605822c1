//! The programs as a user meets them: every command, with good and bad input.
//!
//! Needs everything to be built: `make test`, or `cargo build --workspace` in the same profile.

mod checkers;
mod compiling;
mod explaining;
mod files;
mod inferring;
mod judging;
mod linting;
mod pruning;
mod recording;
mod recovering;
mod representing;
mod resuming;
mod showing;
mod support;
mod testing;
mod testing_bad_input;
mod threads;
mod verdicts;
mod watching;
