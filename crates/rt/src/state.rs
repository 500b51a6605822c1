//! The state of one thread: what instrumented code sees of it, and what is ours.
//!
//! It lies in the first page of the thread's PM stream, mapped from the file, so that positions
//! are exact whatever ends the process. A thread gets its state with its first event. While a
//! signal handler runs, the thread has another state with a stream of its own (see `signals`):
//! the interrupted one may be in the middle of a record.
//!
//! Instrumented activations keep the address of their state. So a state never moves; where a
//! thread needs new files (in a forked child), they are mapped over the old ones.

use crate::contexts::ContextTable;
use crate::memory;
use crate::order::OrderPage;
use crate::process;
use crate::run;
use crate::serve::marks::MarkRange;
use crate::stream;
use crate::sys::{self, Path};
use crate::tls;
use core::sync::atomic::{AtomicU32, Ordering};
use crashpoint_abi::layout::{STREAM_HEADER_BYTES, THREAD_OFFSET};
use crashpoint_abi::record::Memory;
use crashpoint_abi::{ShadowFrame, StreamHeader, Thread, flow};

#[repr(C)]
pub struct State {
    pub header: StreamHeader,
    gap: [u8; THREAD_OFFSET - size_of::<StreamHeader>()],
    pub thread: Thread,
    pub own: Own,
}

const _: () = assert!(core::mem::offset_of!(State, thread) == THREAD_OFFSET);
const _: () = assert!(size_of::<State>() <= sys::PAGE_BYTES);

/// The runtime's part.
#[repr(C)]
pub struct Own {
    /// A record may begin while `header.cursor` is at most this; 0 when nothing is recorded.
    pub limit: u64,
    pub memory: Memory,
    /// The context in which the stream stands, as kept in frames; never 0.
    pub context: u32,
    /// Not 0 at levels flow and value.
    pub flow: u32,
    pub order: *const OrderPage,
    /// The persistent region that was hit last: see `regions`.
    pub region_base: u64,
    pub region_span: u64,
    /// What to add to an address for its place in the shadow; 0: there is no shadow.
    pub shadow_delta: u64,
    pub region_generation: u64,
    /// In a child of a fork server: where the marks of that region are.
    pub marks: MarkRange,
    /// There too: the activation that has handed an address in persistent memory to a function of
    /// which we do not know whether it has hooks, or null; and the site of that call.
    pub escape_frame: *mut ShadowFrame,
    pub escape_site: u32,
    /// The last frame of the shadow stack. Deeper activations share it: their call stacks are
    /// wrong until they have returned.
    pub last_frame: *mut ShadowFrame,
    /// The first frame, which stands for whoever called instrumented code.
    pub bottom: *mut ShadowFrame,
    pub contexts: ContextTable,
    pub arena: *mut Arena,
    /// In a signal handler: the state that it interrupted.
    pub outer: *mut State,
    /// For signal handlers that interrupt this state, once there was one.
    pub inner: *mut State,
    /// Rounds of destructors that have run at the end of the thread.
    pub rounds: u32,
}

/// Activations that the shadow stack holds.
const FRAMES: usize = 1 << 20;

/// What a thread needs that is not in a file.
#[repr(C)]
pub struct Arena {
    pub pm_path: [u8; run::PATH_BYTES],
    pub flow_path: [u8; run::PATH_BYTES],
    /// Where flow goes that nobody reads.
    pub scratch: [u8; 2 * flow::ROOM_BYTES],
    frames: [ShadowFrame; FRAMES],
}

static NEXT_THREAD: AtomicU32 = AtomicU32::new(0);

/// A number for a thread, or for a signal handler.
pub fn next_number() -> u32 {
    NEXT_THREAD.fetch_add(1, Ordering::Relaxed)
}

/// In a forked child: numbers start again.
pub fn reset_numbers() {
    NEXT_THREAD.store(0, Ordering::Relaxed);
}

impl State {
    /// The state that instrumented code knows by its `Thread`.
    ///
    /// # Safety
    /// `thread` came from this runtime, and the caller runs in that thread.
    #[inline(always)]
    pub unsafe fn of<'a>(thread: *mut Thread) -> &'a mut State {
        // SAFETY: a thread lies in its state; nobody else has the state in hand, since signal
        // handlers use another one and hooks do not call each other while they hold it.
        unsafe { &mut *thread.byte_sub(THREAD_OFFSET).cast::<State>() }
    }

    pub fn path(&self, kind: stream::StreamKind) -> Option<Path<'_>> {
        // SAFETY: the arena lives as long as the state.
        let arena = unsafe { &*self.own.arena };
        let slot = match kind {
            stream::StreamKind::Pm => &arena.pm_path,
            stream::StreamKind::Flow => &arena.flow_path,
        };
        let end = slot.iter().position(|byte| *byte == 0)?;
        Path::new(&slot[..=end])
    }

    pub fn is_dead(&self) -> bool {
        self.own.limit == 0
    }

    /// Names the files of thread `number` of this run.
    fn name_files(&mut self, number: u32) -> Option<()> {
        // SAFETY: as in `path`.
        let arena = unsafe { &mut *self.own.arena };
        run::write_path(&mut arena.pm_path, format_args!(".t{number}.pm"))?;
        run::write_path(&mut arena.flow_path, format_args!(".t{number}.flow"))
    }

    /// Begins new streams under the number. Call stacks are kept, their contexts are forgotten.
    pub fn restart(&mut self, number: u32) {
        stream::detach(self);
        self.own.contexts.release();
        self.own.context = crate::contexts::BOTTOM;
        self.own.memory = Memory::default();
        self.own.region_span = 0;
        let mut frame = self.own.bottom;
        while frame <= self.thread.frame {
            // SAFETY: a frame of the shadow stack.
            unsafe {
                (*frame).context = 0;
                frame = frame.add(1);
            }
        }
        if self.name_files(number).is_none() || !stream::begin(self, number) {
            stream::give_up(self);
        }
    }

    /// Takes the state out of use.
    ///
    /// # Safety
    /// Nobody may use it afterwards.
    pub unsafe fn release(&mut self) {
        self.own.contexts.release();
        stream::release_flow(self);
        let arena = self.own.arena as usize;
        let own = (self as *mut State) as usize;
        // SAFETY: both ranges are ours and no longer used.
        unsafe {
            let _ = memory::unmap(arena, size_of::<Arena>());
            let _ = memory::unmap(own, STREAM_HEADER_BYTES);
        }
    }
}

/// Makes a state with streams. Where that fails, it is one that records nothing.
fn create(number: u32) -> *mut State {
    let arena = memory::anonymous(size_of::<Arena>());
    let place = memory::anonymous(STREAM_HEADER_BYTES);
    let (Ok(arena), Ok(place)) = (arena, place) else {
        // Instrumented code cannot go on without a place to note its frames.
        process::fatal(format_args!("no memory for the state of a thread"));
    };
    let arena = arena as *mut Arena;
    let state = place as *mut State;
    // SAFETY: both are fresh zeros of their size, and zeros are valid for all their fields.
    let state = unsafe {
        let bottom = (&raw mut (*arena).frames).cast::<ShadowFrame>();
        let own = &mut (*state).own;
        own.arena = arena;
        own.bottom = bottom;
        own.last_frame = bottom.add(FRAMES - 1);
        own.order = process::order().map_or(core::ptr::null(), core::ptr::from_ref);
        (*state).thread.frame = bottom;
        &mut *state
    };
    state.restart(number);
    state
}

/// The state of the running thread, made if need be.
#[inline(always)]
pub fn current() -> *mut State {
    let state = tls::get();
    if state.is_null() { first() } else { state }
}

#[cold]
#[inline(never)]
fn first() -> *mut State {
    adopt(next_number())
}

/// Gives the running thread a state with a number that is already its own.
pub fn adopt(number: u32) -> *mut State {
    if number > 0
        && let Some(order) = process::order()
    {
        order.share();
    }
    let state = create(number);
    tls::set(state);
    crate::threads::note(number);
    crate::threads::watch_end(state);
    state
}

/// The state for a signal handler that interrupts `outer`.
///
/// # Safety
/// `outer` is the state of the running thread.
pub unsafe fn for_handler(outer: *mut State) -> *mut State {
    // SAFETY: the interrupted code does not touch `inner`.
    unsafe {
        if (*outer).own.inner.is_null() {
            let inner = create(next_number());
            (*inner).own.outer = outer;
            (*outer).own.inner = inner;
        }
        (*outer).own.inner
    }
}
