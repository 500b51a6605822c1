//! Crashes of programs that persist by files: [`medium`] is the recording as the search for crash
//! states sees it, [`folder`] lays a state out, [`oracle`] says what is fine, and [`checker`] runs
//! the check.

pub mod behaviours;
pub mod checker;
pub mod folder;
pub mod layout;
pub mod medium;
mod names;
pub mod oracle;

#[cfg(test)]
mod tests;

pub use checker::{CheckSetup, FileChecker};
pub use folder::Folder;
pub use layout::Layout;
pub use medium::FileMedium;
pub use oracle::FileOracle;
