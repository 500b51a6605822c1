//! Crashes of programs that persist by files: system calls in words, fixes, replays.

pub mod describe;
pub mod fix;
pub mod frames;
pub mod replay;
