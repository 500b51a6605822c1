//! Crashes of programs that persist by files: system calls in words, fixes, findings.

pub mod describe;
pub mod effects;
pub mod findings;
pub mod fix;
pub mod frames;
