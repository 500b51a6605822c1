//! Crashes of programs that persist by memory: [`medium`] is the recording as the search for crash
//! states sees it, [`timeline`] finds its crash points, [`image`] and [`pool`] lay a state out,
//! [`references`] and [`judge`] say what is fine, and a [`worker`] runs the check.

pub mod behaviours;
pub mod image;
pub mod judge;
pub mod medium;
pub mod overlap;
pub mod plan;
pub mod pool;
pub mod reads;
pub mod references;
pub mod timeline;
pub mod worker;

pub use medium::MemoryMedium;
