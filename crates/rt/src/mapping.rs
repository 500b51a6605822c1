//! `mmap`, `munmap`, `msync` and `fsync`, in place of libc's; `mremap` is in `remap`.
//!
//! Persistent memory comes and goes here: regions and the envelope in the gates are kept up to
//! date, and `Map`, `Unmap` and `Msync` are recorded. What does not concern persistent memory goes
//! to the kernel after a look at flags and addresses.

use crate::config::{self, Config};
use crate::events;
use crate::files::{self, Index};
use crate::image;
use crate::lock::{self, Guard};
use crate::memory;
use crate::modules;
use crate::pagemap;
use crate::placement::MapRequest;
use crate::process::{self, Process, Stop};
use crate::regions::{REGIONS, Region};
use crate::serve::{self, objects, private};
use crate::shadow;
use crate::state::State;
use crate::sys::{self, Errno, PAGE_BYTES, Result};
use core::arch::naked_asm;
use core::ffi::c_void;
use crashpoint_abi::record::MappingFields;
use crashpoint_abi::serve::notes;
use libc::{c_int, off_t, size_t};

const PAGE: u64 = PAGE_BYTES as u64;

/// The pages of a range.
pub fn pages(address: usize, length: usize) -> (u64, u64) {
    let base = address as u64 & !(PAGE - 1);
    let end = (address as u64).saturating_add(length as u64);
    (
        base,
        end.checked_next_multiple_of(PAGE)
            .unwrap_or(u64::MAX - PAGE + 1),
    )
}

pub fn touches_persistent(address: usize, length: usize) -> bool {
    let (base, end) = pages(address, length);
    REGIONS.count() != 0 && REGIONS.first_in(base, end).is_some()
}

/// Maps; returns the address.
fn map(request: &MapRequest) -> Result<usize> {
    let config = match config::get() {
        Some(config) if process::is_attentive() => config,
        // SAFETY: what the target asked for.
        _ => return unsafe { request.map() },
    };
    let kind = request.flags & libc::MAP_TYPE;
    let is_file =
        request.flags & libc::MAP_ANONYMOUS == 0 && request.descriptor >= 0 && request.length != 0;
    let is_shared = kind == libc::MAP_SHARED || kind == libc::MAP_SHARED_VALIDATE;
    let marks_loads = serve::marks_loads();
    let is_persistent = is_file
        && (is_shared || marks_loads)
        && files::is_persistent(config, request.descriptor, request.flags);
    // Not under the lock: the loader has one of its own.
    if is_persistent && marks_loads && !(is_shared && objects::has_hooks(request.caller)) {
        serve::note(notes::UNMARKED_READS);
    }
    let is_persistent = is_persistent && is_shared;
    let replaces = request.flags & libc::MAP_FIXED != 0
        && request.flags & libc::MAP_FIXED_NOREPLACE == 0
        && touches_persistent(request.address, request.length);
    if !is_persistent && !replaces {
        // SAFETY: what the target asked for.
        return unsafe { request.map() };
    }
    let mut process = lock::lock();
    if !process::join(&mut process) {
        // SAFETY: what the target asked for.
        return unsafe { request.map() };
    }
    let Some(state) = events::tracking_state() else {
        // SAFETY: what the target asked for.
        return unsafe { request.map() };
    };
    let (base, end) = pages(request.address, request.length);
    if replaces {
        private::leaves(&mut process, base, end);
        shadow::compare_range(&process, state, base, end);
    }
    let address = if is_persistent {
        map_persistent(&mut process, config, state, request, replaces)?
    } else {
        // SAFETY: what the target asked for.
        let address = unsafe { request.map() }?;
        forget(state, base, end);
        address
    };
    modules::update_gates(&process);
    Ok(address)
}

fn map_persistent(
    process: &mut Guard,
    config: &Config,
    state: &mut State,
    request: &MapRequest,
    replaces: bool,
) -> Result<usize> {
    let seen = process.files.see(config, request.descriptor);
    let (index, was_known) = match seen {
        Ok(seen) => seen,
        Err(error) => {
            process::stop(Stop::File(error));
            // SAFETY: what the target asked for.
            return unsafe { request.map() };
        }
    };
    let entry = *process.files.get(index);
    let mut address = process.places.map(config, request, &entry)?;
    if process::is_serving() {
        private::mapped(index, &entry, request, address);
    }
    if serve::is_private() {
        address = request.make_private(address)?;
    }
    let (base, end) = pages(address, request.length);
    if replaces {
        forget(state, base, end);
    }
    if config.shadow && entry.shadow != 0 {
        process.files.cover(index, request.offset + (end - base));
    }
    let entry = process.files.get(index);
    (entry.home, entry.home_offset) = (base, request.offset);
    let region = Region {
        base,
        end,
        file: u64::from(index.number()),
        offset: request.offset,
        shadow: match entry.shadow {
            0 => 0,
            shadow => shadow + request.offset,
        },
    };
    remember(state, &region, true);
    if was_known && region.shadow != 0 && request.protection & libc::PROT_READ != 0 {
        reconcile(state, &region, request.descriptor);
    }
    Ok(address)
}

/// A region appears.
pub fn remember(state: &mut State, region: &Region, shared: bool) {
    // SAFETY: the lock is held.
    if !unsafe { REGIONS.insert(region) } {
        process::stop(Stop::File(Errno(libc::ENOMEM)));
        return;
    }
    state.map(&MappingFields {
        address: region.base,
        length: region.length(),
        file: region.file as u32,
        file_offset: region.offset,
        shared,
    });
}

/// What was mapped in a range is gone.
pub fn forget(state: &mut State, base: u64, end: u64) {
    // SAFETY: the lock is held.
    unsafe { REGIONS.remove(base, end, |part| state.unmap(part.base, part.length())) };
}

/// A file is mapped again: whatever was written to it by other ways meanwhile counts as foreign.
fn reconcile(state: &mut State, region: &Region, descriptor: c_int) {
    let file = image::Reader::new(descriptor);
    let end = region.offset + region.length();
    let _ = shadow::with_buffers(|mut comparison| {
        image::each_extent(&file, region.offset, end, |from, to| {
            let (from, to) = (from & !(PAGE - 1), to.next_multiple_of(PAGE).min(end));
            let skip = from.saturating_sub(region.offset);
            let (base, shadow) = (region.base + skip, region.shadow + skip);
            comparison.compare(state, base, base + (to - from), shadow);
        });
        pagemap::each_present(
            region.shadow,
            region.shadow + region.length(),
            |from, to| {
                let skip = from - region.shadow;
                let base = region.base + skip;
                comparison.compare(state, base, base + (to - from), from);
            },
        );
    });
}

/// Takes over a mapping that is there already.
pub fn adopt(process: &mut Process, base: u64, end: u64, offset: u64, descriptor: c_int) {
    let (Some(config), Some(state)) = (config::get(), events::recording_state()) else {
        return;
    };
    let Ok((index, _)) = process.files.see(config, descriptor) else {
        return;
    };
    appear(process, state, index, (base, end), offset);
}

/// A shared mapping of a known file is there.
pub fn appear(
    process: &mut Process,
    state: &mut State,
    index: Index,
    (base, end): (u64, u64),
    offset: u64,
) {
    if process.files.get(index).shadow != 0 {
        process.files.cover(index, offset + (end - base));
    }
    let shadow = match process.files.get(index).shadow {
        0 => 0,
        shadow => shadow + offset,
    };
    let region = Region {
        base,
        end,
        file: u64::from(index.number()),
        offset,
        shadow,
    };
    remember(state, &region, true);
}

fn unmap(address: usize, length: usize) -> Result<()> {
    if !process::is_tracking() || !touches_persistent(address, length) {
        // SAFETY: what the target asked for.
        return unsafe { memory::unmap(address, length) };
    }
    let mut process = lock::lock();
    let (base, end) = pages(address, length);
    private::leaves(&mut process, base, end);
    if let Some(state) = events::tracking_state() {
        shadow::compare_range(&process, state, base, end);
    }
    // SAFETY: what the target asked for.
    unsafe { memory::unmap(address, length) }?;
    if let Some(state) = events::tracking_state() {
        forget(state, base, end);
    }
    modules::update_gates(&process);
    Ok(())
}

fn synchronise(address: usize, length: usize, flags: c_int) -> Result<()> {
    let arguments = [address, length, flags as usize, 0, 0, 0];
    let is_durable = flags & libc::MS_SYNC != 0;
    if !is_durable || !process::is_recording() || !touches_persistent(address, length) {
        // SAFETY: what the target asked for.
        return unsafe { sys::syscall(libc::SYS_msync, arguments) }.map(drop);
    }
    let (base, end) = pages(address, length);
    {
        let process = lock::lock();
        if let Some(state) = events::recording_state() {
            shadow::compare_range(&process, state, base, end);
        }
    }
    // SAFETY: what the target asked for.
    unsafe { sys::syscall(libc::SYS_msync, arguments) }?;
    if let Some(state) = events::recording_state() {
        state.msync(base, end - base);
    }
    Ok(())
}

/// What has been written to the mappings of a file is made durable with the file.
fn synchronise_file(descriptor: c_int, number: libc::c_long) -> Result<()> {
    let arguments = [descriptor as usize, 0, 0, 0, 0, 0];
    // SAFETY: what the target asked for.
    let run = || unsafe { sys::syscall(number, arguments) }.map(drop);
    if REGIONS.count() == 0 {
        return run();
    }
    if serve::is_private() && lock::lock().files.known(descriptor).is_some() {
        // Nothing was written, and what the checker has written need not last.
        return Ok(());
    }
    let Some(state) = events::recording_state() else {
        return run();
    };
    let file = {
        let mut process = lock::lock();
        let file = process.files.known(descriptor);
        if let Some(file) = file {
            each_region(file, |region| {
                shadow::compare_range(&process, state, region.base, region.end);
            });
        }
        file
    };
    run()?;
    if let Some(file) = file {
        let _process = lock::lock();
        each_region(file, |region| state.msync(region.base, region.length()));
    }
    Ok(())
}

/// The regions of a file. The lock is held.
fn each_region(file: Index, mut then: impl FnMut(&Region)) {
    (0..REGIONS.count())
        .filter_map(|index| REGIONS.get(index))
        .filter(|region| region.file == u64::from(file.number()))
        .for_each(|region| then(&region));
}

/// An error as libc reports it.
pub fn fail<T>(error: Errno, value: T) -> T {
    // SAFETY: the thread's own error number.
    unsafe { *libc::__errno_location() = error.0 };
    value
}

/// # Safety
/// As `mmap`, and with where that was called from.
unsafe extern "C" fn map_for(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: off_t,
    caller: u64,
) -> *mut c_void {
    let request = MapRequest {
        address: address as usize,
        length,
        protection,
        flags,
        descriptor,
        offset: offset as u64,
        caller,
    };
    match map(&request) {
        Ok(address) => address as *mut c_void,
        Err(error) => fail(error, libc::MAP_FAILED),
    }
}

/// The body of `mmap`: hands the address that it returns to on as the seventh argument.
macro_rules! map_for_caller {
    () => {
        naked_asm!(
            "push qword ptr [rsp]",
            "call {map_for}",
            "add rsp, 8",
            "ret",
            map_for = sym map_for,
        )
    };
}

/// # Safety
/// As `mmap`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn mmap() -> *mut c_void {
    map_for_caller!()
}

/// # Safety
/// As `mmap64`. It is the same: offsets have 64 bits.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn mmap64() -> *mut c_void {
    map_for_caller!()
}

/// # Safety
/// As `munmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: size_t) -> c_int {
    match unmap(address as usize, length) {
        Ok(()) => 0,
        Err(error) => fail(error, -1),
    }
}

/// # Safety
/// As `msync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(address: *mut c_void, length: size_t, flags: c_int) -> c_int {
    match synchronise(address as usize, length, flags) {
        Ok(()) => 0,
        Err(error) => fail(error, -1),
    }
}

/// # Safety
/// As `fsync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(descriptor: c_int) -> c_int {
    match synchronise_file(descriptor, libc::SYS_fsync) {
        Ok(()) => 0,
        Err(error) => fail(error, -1),
    }
}

/// # Safety
/// As `fdatasync`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(descriptor: c_int) -> c_int {
    match synchronise_file(descriptor, libc::SYS_fdatasync) {
        Ok(()) => 0,
        Err(error) => fail(error, -1),
    }
}
