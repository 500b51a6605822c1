//! The few things of the kernel that no safe interface offers: loop devices, tables of descriptors,
//! and forgetting what the kernel remembers of a device.
//!
//! **Architecture invariant:** the only file of this crate with code that the compiler cannot check.
#![expect(
    unsafe_code,
    reason = "ioctl and unshare are beyond what can be checked"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::thread;

use rustix::ioctl::{
    self, IntegerSetter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl as control,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::daemon::Shared;
use crate::errors::LabError;

/// From here on, the calling thread and all threads and processes it starts have mounts of their
/// own.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: a namespace of mounts leaves memory and descriptors as they are; only unsharing the
    // table of descriptors could break what others rely on.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?)
}

/// Who waits for a thread to be ready.
pub type Ready = Sender<Result<(), LabError>>;

/// Starts a thread with a table of descriptors of its own, empty but for the standard ones.
///
/// For a thread that answers for a device: when the process is killed, its descriptors are closed
/// although another thread of the process may hang in the very file system that it serves. What it
/// is given holds no descriptor, which would mean something else to it; hence no closure.
pub fn spawn_apart(
    shared: Shared,
    path: PathBuf,
    answer: Ready,
    work: fn(io::Result<()>, Shared, PathBuf, Ready),
) -> io::Result<()> {
    let thread = thread::Builder::new().name("disk".to_owned());
    thread.spawn(move || work(own_descriptors(), shared, path, answer))?;
    Ok(())
}

fn own_descriptors() -> io::Result<()> {
    // SAFETY: this is called by `spawn_apart` alone, in a thread that has just begun and that was
    // given no descriptor.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
    // SAFETY: the table is this thread's own now, and it holds no descriptor of it.
    match unsafe { libc::close_range(3, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
const BLKFLSBUF: Opcode = 0x1261;
const BTRFS_IOC_FORGET_DEV: Opcode = ioctl::opcode::write::<BtrfsVolume>(0x94, 5);

const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_config` of `linux/loop.h`.
#[repr(C)]
struct LoopConfig {
    descriptor: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// `struct loop_info64` of `linux/loop.h`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

/// `struct btrfs_ioctl_vol_args` of `linux/btrfs.h`.
#[repr(C)]
struct BtrfsVolume {
    descriptor: i64,
    name: [u8; 4088],
}

/// The answer is what the call returns.
struct GetFree;

// SAFETY: LOOP_CTL_GET_FREE takes no argument and writes nothing.
unsafe impl Ioctl for GetFree {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut libc::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        out: IoctlOutput,
        _pointer: *mut libc::c_void,
    ) -> rustix::io::Result<u32> {
        Ok(out.cast_unsigned())
    }
}

/// The number of a loop device that nobody uses; somebody else may take it at any moment.
pub fn free_loop(loop_control: &File) -> io::Result<u32> {
    // SAFETY: see `GetFree`.
    Ok(unsafe { control(loop_control.as_fd(), GetFree) }?)
}

/// Makes a loop device show a file, without a cache between the two. It lets go of the file when
/// its last user does.
pub fn bind_loop(loop_device: &File, file: &File, name: &str) -> io::Result<()> {
    let mut file_name = [0; 64];
    let bytes = &name.as_bytes()[..name.len().min(63)];
    file_name[..bytes.len()].copy_from_slice(bytes);
    let config = LoopConfig {
        descriptor: file.as_raw_fd().cast_unsigned(),
        block_size: 512,
        info: LoopInfo {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
            file_name,
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads a `struct loop_config`, whose size is asserted above.
    let request = unsafe { Setter::<LOOP_CONFIGURE, LoopConfig>::new(config) };
    // SAFETY: as above.
    Ok(unsafe { control(loop_device.as_fd(), request) }?)
}

/// Makes a loop device let go of its file.
pub fn clear_loop(loop_device: &File) -> io::Result<()> {
    // SAFETY: LOOP_CLR_FD takes no argument.
    let request = unsafe { IntegerSetter::<LOOP_CLR_FD>::new_usize(0) };
    // SAFETY: as above.
    Ok(unsafe { control(loop_device.as_fd(), request) }?)
}

/// Drops what the kernel has cached of a block device that nothing uses.
pub fn drop_cached(block_device: &File) -> io::Result<()> {
    // SAFETY: BLKFLSBUF takes no argument.
    let request = unsafe { NoArg::<BLKFLSBUF>::new() };
    // SAFETY: as above.
    Ok(unsafe { control(block_device.as_fd(), request) }?)
}

/// Makes btrfs forget that it has seen a device, whose content will change behind its back.
pub fn forget_btrfs(btrfs_control: &File, device: &Path) -> io::Result<()> {
    let mut volume = BtrfsVolume {
        descriptor: 0,
        name: [0; 4088],
    };
    let bytes = device.as_os_str().as_encoded_bytes();
    volume.name[..bytes.len()].copy_from_slice(bytes);
    // SAFETY: BTRFS_IOC_FORGET_DEV reads a `struct btrfs_ioctl_vol_args` of 4096 bytes.
    let request = unsafe { Setter::<BTRFS_IOC_FORGET_DEV, BtrfsVolume>::new(volume) };
    // SAFETY: as above.
    Ok(unsafe { control(btrfs_control.as_fd(), request) }?)
}

const _: () = assert!(size_of::<BtrfsVolume>() == 4096);

/// `sync_file_range` with all of its flags: it waits, writes out, and waits again.
pub fn sync_file_range(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let (offset, length) = (offset.cast_signed(), length.cast_signed());
    // SAFETY: the call reads no memory of this process.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A shared mapping of a whole file.
pub fn map(file: &File) -> io::Result<memmap2::MmapMut> {
    // SAFETY: files are mapped in folders that nothing else uses: nobody else changes or shortens
    // the file while the mapping lives.
    unsafe { memmap2::MmapMut::map_mut(file) }
}
