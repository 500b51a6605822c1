//! Writes that do not stop the program: the watcher's side of [`crashpoint_abi::syscallbuf`].
//!
//! Whether the library may be preloaded is decided by the program: it must be one for glibc's
//! loader, and not one that insists on being the first to be loaded, as sanitizers do. Where it
//! cannot be, or is not there, every write stops; the recording is the same.
//!
//! Marks are set when two stops in a row were writes, at the end of the second: a program that syncs
//! after each write stops no more often than before.

use crate::WatchError;
use crate::calls::{Arguments, read_at};
use crate::descriptors::{Description, FdTarget};
use crate::ptrace::{Registers, Stop, Tid};
use crate::stacks::Snapshot;
use crate::watcher::{CallContext, Watcher};
use crashpoint_abi::syscallbuf::{self, Shared, WriteRecord};
use crashpoint_trace::files::{Remark, StackId, SystemCall};
use memmap2::MmapRaw;
use object::{Object as _, ObjectSection as _};
use rustc_hash::FxHashMap;
use rustix::fd::AsRawFd as _;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The loader that understands the library.
const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2\0";
/// Libraries that want to be loaded before all others.
const FIRST: [&[u8]; 3] = [b"libasan", b"libtsan", b"libclang_rt."];
/// How far into libc's `write` its system call may be.
const WRITE_BYTES: u64 = 256;

/// The shared memory.
pub struct SyscallBuffer {
    file: std::fs::File,
    map: MmapRaw,
    /// Whether any descriptor is marked.
    marking: bool,
    /// The thread and the last address in libc's `write` at a stop.
    caller: Option<(Tid, u64)>,
    /// Where writes to marked descriptors have come to.
    ends: FxHashMap<i32, u64>,
    /// Bytes of records that were read; only one that was not finished stays.
    read: u64,
    /// Records that were read at this very stop.
    fresh: usize,
    /// What the program is told to preload.
    library: OsString,
}

/// A finished record.
pub struct Written {
    pub descriptor: i32,
    pub wanted: u64,
    pub end: u64,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
    pub stack: Vec<u8>,
    pub bytes: Vec<u8>,
    pub done: bool,
}

impl SyscallBuffer {
    /// None: it cannot be used for this program, or not here.
    pub fn new(library: &Path, program: &Path) -> Option<SyscallBuffer> {
        let name = library.as_os_str();
        // The loader splits its list at these.
        if name.as_bytes().iter().any(|byte| b": \t".contains(byte)) || !takes(program) {
            return None;
        }
        if !library.is_file() {
            return None;
        }
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("crashpoint-syscallbuf", flags).ok()?;
        let file = std::fs::File::from(file);
        file.set_len(syscallbuf::SHARED_BYTES as u64).ok()?;
        let map = MmapRaw::map_raw(&file).ok()?;
        let buffer = SyscallBuffer {
            file,
            map,
            marking: false,
            caller: None,
            ends: FxHashMap::default(),
            read: 0,
            fresh: 0,
            library: name.to_owned(),
        };
        buffer
            .shared()
            .version
            .store(syscallbuf::VERSION, Ordering::Release);
        Some(buffer)
    }

    /// The environment with which the program loads the library.
    pub fn environment(&self, of: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let is_own = |name: &OsStr| name == "LD_PRELOAD" || name == syscallbuf::VARIABLE;
        let mut all: Vec<_> = of
            .iter()
            .filter(|(name, _)| !is_own(name))
            .cloned()
            .collect();
        let mut list = self.library.clone();
        let own = of.iter().rev().find(|(name, _)| name == "LD_PRELOAD");
        if let Some((_, own)) = own.filter(|(_, own)| !own.is_empty()) {
            list.push(":");
            list.push(own);
        }
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
        all.push(("LD_PRELOAD".into(), list));
        all.push((syscallbuf::VARIABLE.into(), path.into()));
        all
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped as long as we live, long enough, and made of atomics alone.
        unsafe { &*self.map.as_ptr().cast::<Shared>() }
    }

    fn mark(&mut self, descriptor: i32) {
        let index = usize::try_from(descriptor).unwrap_or(usize::MAX);
        if let Some(mark) = self.shared().marked.get(index) {
            mark.store(1, Ordering::Release);
            self.marking = true;
        }
    }

    fn is_marked(&self, descriptor: i32) -> bool {
        let index = usize::try_from(descriptor).unwrap_or(usize::MAX);
        let mark = self.shared().marked.get(index);
        mark.is_some_and(|mark| mark.load(Ordering::Relaxed) != 0)
    }

    fn unmark_all(&mut self) {
        if std::mem::take(&mut self.marking) {
            for mark in &self.shared().marked {
                mark.store(0, Ordering::Release);
            }
        }
    }

    /// The address in libc's `write` where the program stopped, if it came through the library.
    fn in_write(&self, registers: &Registers) -> bool {
        let shared = self.shared();
        let write = shared.write.load(Ordering::Relaxed);
        shared.ready.load(Ordering::Acquire) == 1
            && registers.rip > write
            && registers.rip - write < WRITE_BYTES
    }

    /// The next record; whether it is finished is for the caller to see.
    fn next(&mut self) -> Option<Written> {
        let used = self.shared().used.load(Ordering::Acquire);
        let room = (syscallbuf::SHARED_BYTES - syscallbuf::HEADER_BYTES) as u64;
        let header = size_of::<WriteRecord>() as u64;
        if used > room || self.read + header > used {
            return None;
        }
        let at = syscallbuf::HEADER_BYTES + self.read as usize;
        // SAFETY: within the shared memory, at a multiple of 8; atomics alone.
        let record = unsafe { &*self.map.as_ptr().add(at).cast::<WriteRecord>() };
        let length = u64::from(record.bytes.load(Ordering::Relaxed));
        let stack_bytes = u64::from(record.stack_bytes.load(Ordering::Relaxed));
        let done = record.state.load(Ordering::Acquire) == syscallbuf::DONE;
        let returned = if done {
            record.returned.load(Ordering::Relaxed)
        } else {
            0
        };
        let taken = returned.max(0) as u64;
        // The program shares this memory: what it says is not believed.
        if self.read + length > used || header + stack_bytes + taken > length {
            return None;
        }
        let part = |from: u64, length: u64| {
            let mut bytes = vec![0; length as usize];
            // SAFETY: within the record, which lies in the shared memory; the program is stopped.
            unsafe {
                let from = self.map.as_ptr().add(at + from as usize);
                std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len());
            }
            bytes
        };
        Some(Written {
            descriptor: record.descriptor.load(Ordering::Relaxed) as i32,
            wanted: record.wanted.load(Ordering::Relaxed),
            end: record.end.load(Ordering::Relaxed),
            stack_pointer: record.stack_pointer.load(Ordering::Relaxed),
            frame_pointer: record.frame_pointer.load(Ordering::Relaxed),
            stack: part(header, stack_bytes),
            bytes: part(header + stack_bytes, taken),
            done,
        })
    }

    /// The record that was last returned is not needed any more.
    fn consume(&mut self) {
        let at = syscallbuf::HEADER_BYTES + self.read as usize;
        // SAFETY: as in `next`, which returned it.
        let record = unsafe { &*self.map.as_ptr().add(at).cast::<WriteRecord>() };
        self.read += u64::from(record.bytes.load(Ordering::Relaxed));
        if self.read >= self.shared().used.load(Ordering::Acquire) {
            self.shared().used.store(0, Ordering::Release);
            self.read = 0;
        }
    }
}

/// Whether a program can be made to load the library without noticing.
fn takes(program: &Path) -> bool {
    let Ok(file) = std::fs::File::open(program) else {
        return false;
    };
    // SAFETY: read only; if somebody truncates a program that is about to run, it ends badly anyway.
    let Ok(map) = (unsafe { memmap2::Mmap::map(&file) }) else {
        return false;
    };
    let Ok(elf) = object::File::parse(&*map) else {
        return false;
    };
    let data = |name| {
        elf.section_by_name(name)
            .and_then(|section| section.data().ok())
    };
    let first = |names: &[u8]| {
        let has = |library: &&[u8]| names.windows(library.len()).any(|part| part == *library);
        FIRST.iter().any(has)
    };
    data(".interp") == Some(LOADER) && !data(".dynstr").is_none_or(first)
}

impl Watcher<'_> {
    /// Before anything else is done at a stop: what was written without one.
    pub fn read_records(&mut self, stop: Stop) -> Result<(), WatchError> {
        let Some(buffer) = &mut self.syscallbuf else {
            return Ok(());
        };
        buffer.fresh = 0;
        let write = buffer.shared().write.load(Ordering::Relaxed);
        let Some((tid, in_write)) = buffer.caller else {
            return Ok(());
        };
        while let Some(written) = self.syscallbuf.as_mut().and_then(SyscallBuffer::next) {
            let Some(description) = self.description(tid, written.descriptor) else {
                return Ok(());
            };
            let ends = matches!(stop, Stop::Exiting | Stop::Exited(_) | Stop::Killed(_));
            let Some(written) = self.finished(written, &description, ends)? else {
                return Ok(());
            };
            let stack = self.stack_of(tid, &written, write, in_write)?;
            let Some(buffer) = &mut self.syscallbuf else {
                return Ok(());
            };
            buffer.consume();
            buffer.fresh += 1;
            buffer.ends.insert(written.descriptor, written.end);
            let taken = written.bytes.len() as u64;
            if let (FdTarget::Inode(inode), 1..) = (description.target, taken) {
                let number = SystemCall(libc::SYS_write as u16);
                let offset = written.end.saturating_sub(taken);
                let flags = description.flags.get();
                self.wrote_at((tid, number, stack), inode, offset, &written.bytes, flags)?;
            }
        }
        Ok(())
    }

    /// The program was stopped or killed within a write that it was writing down. If it goes on, the
    /// record will be finished. If not, and the write took place, the position has moved, and the
    /// file holds what was written.
    fn finished(
        &mut self,
        mut written: Written,
        description: &Rc<Description>,
        ends: bool,
    ) -> Result<Option<Written>, WatchError> {
        let Some(buffer) = self.syscallbuf.as_mut().filter(|_| !written.done) else {
            return Ok(Some(written));
        };
        let (true, Some(own), Some(&before)) =
            (ends, &description.own, buffer.ends.get(&written.descriptor))
        else {
            return Ok(None);
        };
        written.end = rustix::fs::tell(own).unwrap_or(before);
        match written.end.checked_sub(before) {
            Some(0) => return Ok(None),
            Some(taken) if taken <= written.wanted => {
                if let Some(reader) = description.reader() {
                    read_at(reader, before, taken, &mut written.bytes);
                }
            }
            Some(_) | None => self.remark(Remark::Unseen {
                text: format!("write({}, {} bytes)", written.descriptor, written.wanted),
                reason: "the program was killed within it, after it had moved elsewhere".into(),
            })?,
        }
        Ok(Some(written))
    }

    /// Whether further writes to a description need not stop, once this one has returned.
    pub fn can_mark(
        &mut self,
        by: CallContext<'_>,
        arguments: &Arguments,
        description: &Description,
    ) -> bool {
        let alone = self.tasks.all.len() == 1 && self.inodes.mapped().is_empty();
        let Some(buffer) = &mut self.syscallbuf else {
            return false;
        };
        if !alone || arguments.call() != libc::SYS_write || !buffer.in_write(by.registers) {
            return false;
        }
        if buffer.is_marked(arguments.descriptor(0)) && buffer.fresh == 0 {
            // It was left to a stop: too long, or from too deep. Others will be, too.
            description.far.set(true);
            buffer.unmark_all();
        }
        !description.far.get() && (self.settled.is_some() || buffer.fresh > 0)
    }

    /// After a write: the next ones need not stop.
    pub fn mark(&mut self, by: CallContext<'_>, arguments: &Arguments, end: u64) {
        if let Some(buffer) = &mut self.syscallbuf {
            let descriptor = arguments.descriptor(0);
            buffer.caller = Some((by.tid, by.registers.rip));
            buffer.ends.insert(descriptor, end);
            buffer.mark(descriptor);
        }
    }

    /// Something else than a write happens.
    pub fn unmark(&mut self) {
        if let Some(buffer) = &mut self.syscallbuf {
            buffer.unmark_all();
        }
    }

    /// A new program runs: the library is gone with the one it was in.
    pub fn end_syscallbuf(&mut self) {
        let was_there =
            |buffer: &mut SyscallBuffer| buffer.shared().ready.load(Ordering::Acquire) == 1;
        self.syscallbuf.take_if(was_there);
    }

    fn stack_of(
        &mut self,
        tid: Tid,
        written: &Written,
        write: u64,
        in_write: u64,
    ) -> Result<StackId, WatchError> {
        let (true, Some(task)) = (self.options.stacks, self.tasks.get(tid)) else {
            return Ok(StackId::NONE);
        };
        let snapshot = Snapshot {
            at: write,
            shown: in_write,
            stack_pointer: written.stack_pointer,
            frame_pointer: written.frame_pointer,
            bytes: &written.stack,
        };
        let leader = task.process.leader;
        self.stacks
            .unwind_snapshot(tid, leader, &snapshot, &mut self.writer)
            .map_err(|source| WatchError::Write { source })
    }
}
