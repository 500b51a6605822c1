//! The corpus is the specification: what its comments mark is reported, nothing else is. One test
//! for each program in each variant, by each strategy or under each file-system model, so that one
//! case can be run alone:
//!
//! | name | what is checked |
//! |---|---|
//! | `lint/PROGRAM/VARIANT` | marks of `crashpoint lint`, and the report in `NAME.expected` |
//! | `lint-random/PROGRAM/correct` | a correct store is silent on random operations too |
//! | `exhaustive/PROGRAM/VARIANT` | marks of `crashpoint test` by every state, and the report, if kept |
//! | `one-crash/PROGRAM/VARIANT` | a program of `recovery` is silent if power fails once |
//! | `second-crash/PROGRAM/VARIANT` | and is reported as its comments say if recovery is crashed too |
//! | `files/PROGRAM/VARIANT/MODEL` | the same as `exhaustive`, for a program that keeps files, under a model |
//! | `without-crash/PROGRAM/VARIANT` | what a program prints when nothing crashes |
//! | `misbehaving/PROGRAM` | a program that `crashpoint test` must survive |
//! | `facts/…` | what holds of the corpus as a whole |
//!
//! A report of `crashpoint test` is kept if `NAME.crash.expected` has a section for the case.
//!
//! Needs everything to be built (`make test`, or `cargo build --workspace` in the same profile), and
//! for `files` also cc, rustc, python3 and node.

mod facts;
mod files;
mod misbehaving;
mod shared;
mod stores;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::Arguments;
use shared::Corpus;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let corpus = Arc::new(Corpus::new());
    let mut trials = stores::trials(&corpus);
    trials.extend(files::trials(&corpus));
    trials.extend(misbehaving::trials());
    trials.extend(facts::trials(&corpus));
    libtest_mimic::run(&arguments, trials).exit_code()
}
