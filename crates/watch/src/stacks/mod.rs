//! Call stacks, by the unwind tables of the binaries.
//!
//! The stack of a thread that is stopped is read in one piece and unwound with `.eh_frame`; where
//! there is none (code made at run time), by frame pointers, as far as that goes. What code lies
//! where is read from `/proc/PID/maps` when an address is not known, and forgotten when code is
//! unmapped or a new program starts. Stacks are interned twice: by their addresses in a process,
//! which is what the hot path looks up, and over the recording, by module and offset.
//!
//! *Misses* frames of code that lies in no file: they are left out, and what called them is there
//! if frame pointers lead to it.

mod modules;
mod symbols;

use crate::ptrace::{self, Registers, Tid};
use crashpoint_trace::files::{RawFrame, StackFrame, StackId, Writer};
use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use modules::{CodeFiles, Region, Section};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// A stack is not followed further.
const MAX_FRAMES: usize = 128;
/// How much of a stack is read at first, and then at a time.
const FIRST_BYTES: usize = 2 << 10;
const MORE_BYTES: usize = 32 << 10;
/// Frames farther away than this from the innermost are not believed.
const MAX_STACK_BYTES: u64 = 64 << 20;

/// The code of a process.
struct Code {
    unwinder: UnwinderX86_64<Section>,
    regions: Vec<Region>,
    /// By the addresses of their frames.
    stacks: FxHashMap<Box<[u64]>, StackId>,
    /// Pages that are in no file: looking again will not help.
    strange: FxHashSet<u64>,
    /// Its memory, which is cheaper to read than by the number of the process.
    memory: Option<File>,
}

/// A stack that was kept when a function was called.
pub struct Snapshot<'a> {
    /// The first instruction of the function.
    pub at: u64,
    /// The address that stands for it.
    pub shown: u64,
    pub stack_pointer: u64,
    pub frame_pointer: u64,
    /// From the stack pointer upwards, to the end of the stack.
    pub bytes: &'a [u8],
}

/// Where unwinding begins.
struct Start<'a> {
    address: u64,
    stack_pointer: u64,
    frame_pointer: u64,
    /// The stack, if it is not to be read from the thread.
    kept: Option<&'a [u8]>,
}

impl<'a> Start<'a> {
    fn of_thread(registers: &Registers) -> Start<'a> {
        Start {
            address: registers.rip,
            stack_pointer: registers.rsp,
            frame_pointer: registers.rbp,
            kept: None,
        }
    }

    fn of_snapshot(snapshot: &Snapshot<'a>) -> Start<'a> {
        Start {
            address: snapshot.at,
            stack_pointer: snapshot.stack_pointer,
            frame_pointer: snapshot.frame_pointer,
            kept: Some(snapshot.bytes),
        }
    }
}

pub struct Stacks {
    enabled: bool,
    files: CodeFiles,
    cache: CacheX86_64,
    /// By the leader of the process.
    code: FxHashMap<Tid, Code>,
    stacks: FxHashMap<Vec<RawFrame>, StackId>,
    frames: FxHashSet<RawFrame>,
    /// Kept to be used again.
    addresses: Vec<u64>,
    memory: Vec<u8>,
}

impl Stacks {
    pub fn new(enabled: bool) -> Stacks {
        Stacks {
            enabled,
            files: CodeFiles::default(),
            cache: CacheX86_64::new(),
            code: FxHashMap::default(),
            stacks: FxHashMap::default(),
            frames: FxHashSet::default(),
            addresses: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// The process ended, or another program runs in it.
    pub fn forget(&mut self, leader: Tid) {
        self.code.remove(&leader);
    }

    /// Addresses mean nothing any more, or will mean something else.
    pub fn unmapped(&mut self, leader: Tid, range: &Range<u64>) {
        let code = self.code.get(&leader);
        let touches = |region: &Region| {
            region.addresses.start < range.end && range.start < region.addresses.end
        };
        if code.is_some_and(|code| code.regions.iter().any(touches)) {
            self.code.remove(&leader);
        }
    }

    /// The stack of a thread as it was.
    pub fn unwind_snapshot(
        &mut self,
        tid: Tid,
        leader: Tid,
        snapshot: &Snapshot<'_>,
        writer: &mut Writer,
    ) -> io::Result<StackId> {
        let start = Start::of_snapshot(snapshot);
        self.unwind_from(tid, leader, &start, Some(snapshot.shown), writer)
    }

    /// The stack of a stopped thread.
    pub fn unwind(
        &mut self,
        tid: Tid,
        leader: Tid,
        registers: &Registers,
        writer: &mut Writer,
    ) -> io::Result<StackId> {
        self.unwind_from(tid, leader, &Start::of_thread(registers), None, writer)
    }

    fn unwind_from(
        &mut self,
        tid: Tid,
        leader: Tid,
        start: &Start<'_>,
        shown: Option<u64>,
        writer: &mut Writer,
    ) -> io::Result<StackId> {
        assert!(self.enabled, "only asked for when stacks are recorded");
        if !self.code.contains_key(&leader) {
            self.load(leader);
        }
        let mut addresses = std::mem::take(&mut self.addresses);
        self.walk(tid, leader, start, &mut addresses);
        if self.is_strange(leader, &addresses) {
            self.load(leader);
            self.walk(tid, leader, start, &mut addresses);
            self.mark_strange(leader, &addresses);
        }
        if let (Some(first), Some(shown)) = (addresses.first_mut(), shown) {
            *first = shown;
        }
        let stack = self.intern(leader, &addresses, writer);
        self.addresses = addresses;
        stack
    }

    /// Follows the stack; the addresses are those of the calls.
    fn walk(&mut self, tid: Tid, leader: Tid, start: &Start<'_>, to: &mut Vec<u64>) {
        to.clear();
        let Some(code) = self.code.get(&leader) else {
            return;
        };
        let mut memory = std::mem::take(&mut self.memory);
        let base = start.stack_pointer;
        memory.clear();
        memory.extend_from_slice(start.kept.unwrap_or_default());
        let mut read_word = |address: u64| -> Result<u64, ()> {
            let from = address
                .checked_sub(base)
                .filter(|from| *from < MAX_STACK_BYTES)
                .ok_or(())?;
            let from = from as usize;
            // What was kept is all there was; by now, other things lie beyond.
            if memory.len() < from + 8 && start.kept.is_none() {
                let have = memory.len();
                let more = match have {
                    0 => FIRST_BYTES,
                    _ => MORE_BYTES,
                };
                memory.resize((from + 8).max(have + more), 0);
                let read = code.read(tid, base + have as u64, &mut memory[have..]);
                memory.truncate(have + read);
            }
            let word = memory.get(from..from + 8).ok_or(())?;
            Ok(u64::from_ne_bytes(word.try_into().map_err(|_| ())?))
        };
        let registers = UnwindRegsX86_64::new(start.address, base, start.frame_pointer);
        let mut frames =
            code.unwinder
                .iter_frames(start.address, registers, &mut self.cache, &mut read_word);
        // An error is the end of what can be known.
        while let Ok(Some(frame)) = frames.next() {
            to.push(frame.address_for_lookup());
            if to.len() == MAX_FRAMES {
                break;
            }
        }
        self.memory = memory;
    }

    /// Whether there is code that was not there when the map was read.
    fn is_strange(&self, leader: Tid, addresses: &[u64]) -> bool {
        let Some(code) = self.code.get(&leader) else {
            return false;
        };
        addresses
            .iter()
            .any(|address| code.find(*address).is_none() && !code.strange.contains(&page(*address)))
    }

    fn mark_strange(&mut self, leader: Tid, addresses: &[u64]) {
        let Some(code) = self.code.get_mut(&leader) else {
            return;
        };
        for address in addresses {
            if code.find(*address).is_none() {
                code.strange.insert(page(*address));
            }
        }
    }

    /// Reads what code the process has.
    fn load(&mut self, leader: Tid) {
        let mut unwinder = UnwinderX86_64::new();
        let regions = self.files.regions(leader);
        for region in &regions {
            if let Some(module) = self.files.module(region) {
                unwinder.add_module(module);
            }
        }
        let strange = self
            .code
            .remove(&leader)
            .map(|old| old.strange)
            .unwrap_or_default();
        let code = Code {
            unwinder,
            regions,
            stacks: FxHashMap::default(),
            strange,
            memory: File::open(format!("/proc/{}/mem", leader.0)).ok(),
        };
        self.code.insert(leader, code);
    }

    fn intern(
        &mut self,
        leader: Tid,
        addresses: &[u64],
        writer: &mut Writer,
    ) -> io::Result<StackId> {
        let Some(code) = self.code.get_mut(&leader) else {
            return Ok(StackId::NONE);
        };
        if let Some(stack) = code.stacks.get(addresses) {
            return Ok(*stack);
        }
        let mut raw = Vec::with_capacity(addresses.len());
        for address in addresses {
            if let Some(region) = code.find(*address) {
                let module = self.files.number(region.file, writer)?;
                let offset = address.wrapping_sub(region.bias);
                raw.push(RawFrame { module, offset });
            }
        }
        let stack = match self.stacks.get(&raw) {
            Some(stack) => *stack,
            None => {
                let stack = writer.stack(&raw)?;
                self.frames.extend(&raw);
                self.stacks.insert(raw, stack);
                stack
            }
        };
        code.stacks.insert(addresses.into(), stack);
        Ok(stack)
    }

    /// What stands at every address that was seen.
    pub fn symbols(&self) -> Vec<(RawFrame, Vec<StackFrame>)> {
        let mut frames: Vec<RawFrame> = self.frames.iter().copied().collect();
        frames.sort_by_key(|frame| (frame.module, frame.offset));
        symbols::resolve(&frames, |module| self.files.path(module))
    }
}

impl Code {
    fn read(&self, tid: Tid, address: u64, to: &mut [u8]) -> usize {
        match &self.memory {
            Some(memory) => memory.read_at(to, address).unwrap_or(0),
            None => ptrace::read_memory(tid, address, to),
        }
    }

    fn find(&self, address: u64) -> Option<&Region> {
        let at = self
            .regions
            .partition_point(|region| region.addresses.start <= address);
        let region = self.regions[..at].last()?;
        region.addresses.contains(&address).then_some(region)
    }
}

fn page(address: u64) -> u64 {
    address >> 12
}
