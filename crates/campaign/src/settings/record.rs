//! How a program is recorded.

use std::time::Duration;

use crashpoint_abi::Level;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSettings {
    /// Globs of the files whose mappings are persistent memory.
    pub pm: Vec<String>,
    /// The level; `None` for [`Level::Pm`].
    pub level: Option<Level>,
    /// Whether loads from persistent memory are recorded too.
    pub loads: bool,
    /// Globs of functions whose calls are recorded with their arguments.
    pub calls: Vec<String>,
    /// The most bytes that each process may record.
    pub limit: Option<u64>,
    /// When the program is killed.
    pub timeout: Option<Duration>,
}
