//! The corpus of programs that persist by files, `corpus/files`: each program in each variant under
//! each file-system model.
//!
//! A variant may be wrong under one model and right under another, and its marks say under which.
//! So the unit that is judged is a variant under a model: where a mark names the model, the bug is
//! to be found, and everywhere else silence is.

mod cases;
mod judge;
mod marks;
mod runner;

pub use cases::{FileCase, Language, file_cases};
pub use judge::judge_files;
pub use marks::{FileMark, MODELS, Spot};
pub use runner::{FileCorpusRunner, Target};

pub(crate) use marks::{models_of, spot_of};
