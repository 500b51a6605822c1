//! What the environment asks for. Read once, early, and copied: the target may change its
//! environment.

use crate::text::Text;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};
use crashpoint_abi::{Level, env};

/// Functions whose calls are recorded unless the user says otherwise: PMDK's transactions, its
/// allocator, and what it offers to persist a range. Names that are added by `CRASHPOINT_CALLS`
/// come on top. The glob is matched against the name at the call, without prefix or suffix.
const DEFAULT_CALLS: &[u8] = b"pmemobj_tx_*:pmemobj_*alloc*:pmemobj_free:pmemobj_list_*:\
pmemobj_persist:pmemobj_flush:pmemobj_drain:pmemobj_mem*_persist:\
pmem_persist:pmem_flush:pmem_deep_*:pmem_drain:pmem_msync:pmem_mem*:\
pmemobj_open*:pmemobj_create*:pmemobj_close:pmem_map_file:pmem_unmap";

/// Longest path of a recording's folder. It must fit, with a file name, where paths of streams
/// are kept.
pub const OUT_BYTES: usize = 2048;

pub struct Config {
    /// Absolute path of the folder of the recording; empty: nothing is recorded.
    pub out: &'static [u8],
    /// Path of the checker's socket, if nothing is recorded; empty: there is none.
    pub serve: &'static [u8],
    /// Path of the file of marks; empty: none.
    pub reads: &'static [u8],
    /// `None`: no level has this name.
    pub level: Option<Level>,
    pub level_name: &'static [u8],
    /// Patterns of persistent files, separated by `:`.
    pub pm: &'static [u8],
    pub calls: &'static [u8],
    pub default_calls: &'static [u8],
    pub loads: bool,
    pub shadow: bool,
    /// Path of a file with wanted addresses; empty: none.
    pub placement: &'static [u8],
    /// `None`: not a number.
    pub limit: Option<u64>,
    /// Where the program was started: relative patterns start here.
    pub directory: &'static [u8],
}

static CONFIG: AtomicPtr<Config> = AtomicPtr::new(core::ptr::null_mut());

/// The configuration; `None` if nobody wants anything of us or nobody has looked yet.
#[inline]
pub fn get() -> Option<&'static Config> {
    // SAFETY: published once, complete, and never taken back.
    unsafe { CONFIG.load(Ordering::Acquire).as_ref() }
}

fn variable(name: &str) -> Option<&'static [u8]> {
    let mut text = Text::new().ok()?;
    text.push(name.as_bytes());
    text.push(b"\0");
    // SAFETY: the name is terminated; the value is copied before anybody can change it, since
    // this runs in a constructor.
    let value = unsafe {
        let value = libc::getenv(text.bytes().as_ptr().cast());
        if value.is_null() {
            return None;
        }
        CStr::from_ptr(value).to_bytes()
    };
    text.clear();
    text.push(value);
    Some(text.leak())
}

fn absolute(directory: &[u8], path: &'static [u8]) -> Option<&'static [u8]> {
    if path.starts_with(b"/") {
        return Some(path);
    }
    let mut text = Text::new().ok()?;
    text.push(directory);
    text.push(b"/");
    text.push(path);
    Some(text.leak())
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.trim().parse().ok()
}

fn read() -> Option<Config> {
    let out = variable(env::OUT).unwrap_or(b"");
    let serve = match out {
        b"" => variable(env::SERVE).filter(|path| !path.is_empty())?,
        _ => b"",
    };
    let mut here = crate::memory::ScratchBlock::new(crate::sys::PAGE_BYTES).ok()?;
    let length = crate::sys::current_directory(&mut here).unwrap_or(0);
    let mut directory = Text::new().ok()?;
    directory.push(&here[..length]);
    let directory = directory.leak();
    let level_name = variable(env::LEVEL).unwrap_or(b"pm");
    Some(Config {
        out: match out {
            b"" => out,
            _ => absolute(directory, out)?,
        },
        serve,
        reads: variable(env::READS).unwrap_or(b""),
        level: core::str::from_utf8(level_name)
            .ok()
            .and_then(Level::from_name),
        level_name,
        pm: variable(env::PM).unwrap_or(b""),
        calls: variable(env::CALLS).unwrap_or(b""),
        default_calls: DEFAULT_CALLS,
        loads: variable(env::LOADS) == Some(b"1"),
        shadow: variable(env::SHADOW) != Some(b"0"),
        placement: variable(env::PLACEMENT).unwrap_or(b""),
        limit: variable(env::LIMIT).map_or(Some(u64::MAX), number),
        directory,
    })
}

/// Reads the environment. To be called once.
pub fn load() -> Option<&'static Config> {
    let config = read()?;
    let place = crate::memory::anonymous(size_of::<Config>()).ok()? as *mut Config;
    // SAFETY: fresh pages, aligned and large enough.
    unsafe { place.write(config) };
    CONFIG.store(place, Ordering::Release);
    get()
}
