//! Environment variables by which a recording is configured inside the target.
//!
//! They are inherited through fork and exec, so that a program that starts others is recorded
//! whole.

/// Folder of the recording. Absent: the runtime stays off.
pub const OUT: &str = "CRASHPOINT_OUT";
/// Name of a [`crate::Level`]; `pm` when absent.
pub const LEVEL: &str = "CRASHPOINT_LEVEL";
/// Glob patterns of files whose mappings are persistent memory, separated by `:`.
pub const PM: &str = "CRASHPOINT_PM";
/// Glob patterns of functions whose calls are recorded with arguments, separated by `:`.
pub const CALLS: &str = "CRASHPOINT_CALLS";
/// `1`: loads from persistent memory are recorded at level `pm` too.
pub const LOADS: &str = "CRASHPOINT_LOADS";
/// `0`: do not keep a second image to notice what uninstrumented code writes.
pub const SHADOW: &str = "CRASHPOINT_SHADOW";
/// Where to place mappings: lines of `address length file-offset path`, in a file with this name.
pub const PLACEMENT: &str = "CRASHPOINT_PLACEMENT";
/// Most bytes that one process may record; recording stops there and says so.
pub const LIMIT: &str = "CRASHPOINT_LIMIT";
/// Path of the socket of a checker: the target becomes a fork server; see [`crate::serve`].
pub const SERVE: &str = "CRASHPOINT_SERVE";
/// Path of the file in which loads are marked; see [`crate::serve::ReadsHeader`].
pub const READS: &str = "CRASHPOINT_READS";
