//! Stores of a program that was built with `crashpoint-cc`, which records them itself.
//!
//! The program is told by its environment to record stores into files of the folder, beside what is
//! seen from outside. It numbers them on a page that it shares with whoever reads it. Whenever
//! mappings are looked at, the next number is noted; when all is over, each store is put where it
//! belongs between the calls (see [`crashpoint_trace::files::merge_stores()`]).

use crate::watcher::Watcher;
use crate::{Options, WatchError};
use crashpoint_abi::layout::{ORDER_FILE, ORDER_NEXT_AT};
use crashpoint_abi::{Level, env};
use crashpoint_trace::files::{MergeStoresError, merge_stores};
use memmap2::MmapRaw;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that mean something in a list of patterns.
const SPECIAL: &[u8] = b":*?";

pub struct Stores {
    /// Where the program records; none if the folder's name cannot be told to it.
    out: Option<PathBuf>,
    /// Of the program's files there.
    pattern: OsString,
    /// The page of numbers, once there is one.
    page: Option<MmapRaw>,
    last: u64,
}

impl Stores {
    pub fn new(options: &Options<'_>, out: &Path) -> Stores {
        let folder = options.folder.as_os_str();
        let can_be_told = !folder.as_bytes().iter().any(|byte| SPECIAL.contains(byte));
        let mut pattern = folder.to_owned();
        pattern.push("/**");
        let out = out.canonicalize().ok().filter(|_| can_be_told);
        if let Some(out) = &out {
            // A program would go on where the last one stopped.
            let _ = std::fs::remove_dir_all(out.join("trace"));
        }
        Stores {
            out,
            pattern,
            page: None,
            last: 0,
        }
    }

    /// The environment in which the program records its stores, if it can.
    pub fn environment(&self, of: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let Some(out) = &self.out else {
            return of.to_vec();
        };
        let own: [(&str, OsString); 3] = [
            (env::OUT, out.into()),
            (env::LEVEL, Level::Pm.name().into()),
            (env::PM, self.pattern.clone()),
        ];
        let is_own = |name: &OsStr| own.iter().any(|(own, _)| name == *own);
        let others = of.iter().filter(|(name, _)| !is_own(name)).cloned();
        let own = own.iter().map(|(name, value)| (name.into(), value.clone()));
        others.chain(own).collect()
    }

    /// The number of the next store; none while nothing was recorded.
    fn next(&mut self) -> Option<u64> {
        if self.page.is_none() {
            let path = self.out.as_ref()?.join("trace").join(ORDER_FILE);
            let file = std::fs::File::options().read(true).write(true).open(path);
            let map = MmapRaw::map_raw(&file.ok()?).ok()?;
            self.page = (map.len() >= ORDER_NEXT_AT + size_of::<u64>()).then_some(map);
        }
        let page = self.page.as_ref()?;
        // SAFETY: within the mapping, at a multiple of 8; the program changes it by atomics alone.
        let next = unsafe { &*page.as_ptr().add(ORDER_NEXT_AT).cast::<AtomicU64>() };
        Some(next.load(Ordering::SeqCst))
    }

    /// Brings stores and calls together; returns how many there are, if anything was stored.
    pub fn merge_stores(&self) -> Result<Option<u64>, MergeStoresError> {
        match (&self.out, &self.page) {
            (Some(out), Some(_)) => merge_stores(out).map(Some),
            (Some(_), None) | (None, _) => Ok(None),
        }
    }
}

impl Watcher<'_> {
    /// Everything that was stored so far comes before what is written down next.
    pub fn note_stores(&mut self) -> Result<(), WatchError> {
        let next = self.stores.next().filter(|next| *next > self.stores.last);
        let Some(next) = next else {
            return Ok(());
        };
        self.stores.last = next;
        self.writer
            .stores(next)
            .map_err(|source| WatchError::Write { source })
    }
}
