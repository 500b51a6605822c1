//! Numbers that hold over a whole recording.

use std::fmt;

crashpoint_ir::ids! {
    derive(Default)
    /// A place in the program; [`SiteId::NONE`] where there is none. Dense.
    SiteId
    /// A call stack; [`ContextId::BOTTOM`] is the empty one. Dense.
    ContextId
    /// Index into [`crate::Recording::threads`].
    ThreadIndex
    /// Index into [`crate::Recording::processes`].
    ProcessIndex
    /// Index into [`crate::Recording::files`]; below 2^16.
    FileIndex
}

impl SiteId {
    pub const NONE: SiteId = SiteId(0);
}

impl ContextId {
    pub const BOTTOM: ContextId = ContextId(0);
}

/// A byte of a persistent file: the file's index in the top 16 bits, the offset in it below. The
/// same byte has the same address through any mapping of any process. Mappings begin at page
/// boundaries of their files, so cache lines are the same as in the target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PmAddress(pub u64);

impl PmAddress {
    pub const OFFSET_BITS: u32 = 48;
    /// Files are at most this long.
    pub const MAX_OFFSET: u64 = (1 << Self::OFFSET_BITS) - 1;
    pub const MAX_FILES: usize = 1 << 16;

    pub fn new(file: FileIndex, offset: u64) -> PmAddress {
        assert!(file.index() < Self::MAX_FILES && offset <= Self::MAX_OFFSET);
        PmAddress(u64::from(file.0) << Self::OFFSET_BITS | offset)
    }

    pub fn file(self) -> FileIndex {
        FileIndex((self.0 >> Self::OFFSET_BITS) as u32)
    }

    pub fn offset(self) -> u64 {
        self.0 & Self::MAX_OFFSET
    }

    /// First byte of its cache line.
    pub fn line(self) -> PmAddress {
        PmAddress(self.0 & !(crashpoint_abi::CACHE_LINE_BYTES - 1))
    }
}

impl fmt::Debug for PmAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{:#x}", self.file().0, self.offset())
    }
}
