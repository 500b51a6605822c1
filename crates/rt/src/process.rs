//! This process's part in the recording: whether there is one, how it begins and how it stops.
//!
//! A process joins the recording when its first instrumented object registers or when it maps its
//! first persistent file, whichever comes first; a program without either leaves no files behind,
//! even with this library loaded.

use crate::config::{self, Config};
use crate::files::Files;
use crate::memory;
use crate::modules::Modules;
use crate::order::{self, OrderPage};
use crate::placement::Places;
use crate::run::{self, Folder, Lossy};
use crate::sys::{self, Errno};
use crate::text::Text;
use core::fmt::{Arguments, Write};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crashpoint_abi::{ABI_VERSION, Level};

/// What the lock guards.
pub struct Process {
    pub modules: Modules,
    pub files: Files,
    pub places: Places,
}

impl Process {
    pub const fn new() -> Process {
        Process {
            modules: Modules::new(),
            files: Files::new(),
            places: Places::new(),
        }
    }
}

/// How far this process is with recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Nobody has read the environment yet.
    Unknown = 0,
    /// Nothing is to be recorded.
    Off = 1,
    /// To be recorded, but there was nothing yet.
    Ready = 2,
    Recording = 3,
    /// A limit was reached, or the disk is full.
    Stopped = 4,
    /// A fork server or its child: persistent memory is tracked, nothing is recorded.
    Serving = 5,
}

static STATUS: AtomicU32 = AtomicU32::new(Status::Unknown as u32);
static LEVEL: AtomicU32 = AtomicU32::new(0);
static ORDER: AtomicPtr<OrderPage> = AtomicPtr::new(core::ptr::null_mut());
/// Bytes that this process has recorded, for the limit.
static RECORDED: AtomicU64 = AtomicU64::new(0);

pub fn status() -> Status {
    match STATUS.load(Ordering::Acquire) {
        0 => Status::Unknown,
        1 => Status::Off,
        2 => Status::Ready,
        3 => Status::Recording,
        4 => Status::Stopped,
        _ => Status::Serving,
    }
}

fn set_status(status: Status) {
    STATUS.store(status as u32, Ordering::Release);
}

pub fn is_recording() -> bool {
    status() == Status::Recording
}

pub fn is_serving() -> bool {
    status() == Status::Serving
}

/// Persistent memory is kept track of.
pub fn is_tracking() -> bool {
    matches!(status(), Status::Recording | Status::Serving)
}

/// Mappings concern us: something is or may yet be recorded, or they are to be placed.
pub fn is_attentive() -> bool {
    matches!(
        status(),
        Status::Ready | Status::Recording | Status::Serving
    )
}

pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        1 => Level::Pm,
        2 => Level::Flow,
        3 => Level::Value,
        _ => Level::Off,
    }
}

/// In a child of a fork server.
pub fn set_level(level: Level) {
    LEVEL.store(level as u32, Ordering::Relaxed);
}

/// The page of order numbers. Only while recording or serving.
pub fn order() -> Option<&'static OrderPage> {
    // SAFETY: published once, mapped for good.
    unsafe { ORDER.load(Ordering::Acquire).as_ref() }
}

/// Reads the environment, once.
pub fn prepare() {
    if status() != Status::Unknown {
        return;
    }
    let guard = crate::lock::lock();
    if status() == Status::Unknown {
        let status = match config::load() {
            None => Status::Off,
            Some(config) if config.out.is_empty() => Status::Serving,
            Some(_) => Status::Ready,
        };
        set_status(status);
        drop(guard);
        if status == Status::Ready {
            crate::exit::prepare();
            crate::threads::prepare();
            crate::fork::prepare();
        }
    }
}

/// Becomes a fork server if that is asked for; comes back in its children.
pub fn serve() {
    if !is_serving() {
        return;
    }
    let Some(config) = config::get() else { return };
    // States look at it, though they never take a number.
    match memory::anonymous(sys::PAGE_BYTES) {
        Ok(page) => ORDER.store(page as *mut OrderPage, Ordering::Release),
        Err(_) => fatal(format_args!("no memory for the fork server")),
    }
    crate::serve::run(config);
}

/// Joins the recording if there is one and this process has not done so. True if persistent memory
/// is tracked.
pub fn join(process: &mut Process) -> bool {
    match status() {
        Status::Recording | Status::Serving => return true,
        Status::Unknown | Status::Off | Status::Stopped => return false,
        Status::Ready => {}
    }
    let Some(config) = config::get() else {
        return false;
    };
    let level = checked_level(config);
    if level == Level::Off {
        set_status(Status::Off);
        return false;
    }
    let folder = Folder { out: config.out };
    folder.make();
    let order = order::open(&folder);
    let id = sys::process_id();
    order.join(id);
    ORDER.store(core::ptr::from_ref(order).cast_mut(), Ordering::Release);
    LEVEL.store(level as u32, Ordering::Relaxed);
    match run::begin(config.out, id) {
        Ok(run) => tell_start(config, level, id, run, None),
        Err(error) => folder.refuse(error),
    }
    set_status(Status::Recording);
    crate::maps::adopt(process);
    true
}

fn checked_level(config: &Config) -> Level {
    if config.limit.is_none() {
        fatal(format_args!("CRASHPOINT_LIMIT is not a number of bytes"));
    }
    if config.out.len() > config::OUT_BYTES {
        fatal(format_args!("the path in CRASHPOINT_OUT is too long"));
    }
    match config.level {
        Some(level) => level,
        None => fatal(format_args!(
            "CRASHPOINT_LEVEL is '{}'; there are off, pm, flow and value",
            Lossy(config.level_name)
        )),
    }
}

/// In a forked child: the recording goes on under a new name.
pub fn begin_child(parent: &[u8]) -> Result<(), Errno> {
    let config = config::get().ok_or(Errno(libc::EINVAL))?;
    let id = sys::process_id();
    let run = run::begin(config.out, id)?;
    RECORDED.store(0, Ordering::Relaxed);
    tell_start(config, level(), id, run, Some(parent));
    Ok(())
}

fn tell_start(config: &Config, level: Level, id: u32, run: u32, parent: Option<&[u8]>) {
    let Ok(mut line) = Text::new() else { return };
    let _ = write!(
        line,
        "{{\"crashpoint\":1,\"abi\":{ABI_VERSION},\"pid\":{id},\"run\":{run},\"parent\":"
    );
    match parent {
        Some(parent) => line.json(parent),
        None => line.push(b"null"),
    }
    let _ = write!(line, ",\"level\":\"{}\",\"executable\":", level.name());
    crate::proc::with_link(b"/proc/self/exe\0", |path| line.json(path));
    line.push(b",\"arguments\":[");
    let mut first = true;
    crate::proc::with_file(b"/proc/self/cmdline\0", |bytes| {
        for argument in bytes
            .strip_suffix(b"\0")
            .unwrap_or(bytes)
            .split(|byte| *byte == 0)
        {
            if !core::mem::take(&mut first) {
                line.push(b",");
            }
            line.json(argument);
        }
    });
    line.push(b"],\"directory\":");
    line.json(config.directory);
    let _ = write!(
        line,
        ",\"started_ns\":{}}}",
        sys::clock(libc::CLOCK_REALTIME)
    );
    run::tell(&mut line);
}

/// Counts bytes that are about to be recorded; false if that would pass the limit.
pub fn charge(bytes: u64) -> bool {
    let limit = config::get()
        .and_then(|config| config.limit)
        .unwrap_or(u64::MAX);
    RECORDED
        .fetch_add(bytes, Ordering::Relaxed)
        .saturating_add(bytes)
        <= limit
}

/// Why recording stopped before the target did.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    Limit,
    File(Errno),
}

/// Recording ends here; the target goes on.
pub fn stop(reason: Stop) {
    let recording = Status::Recording as u32;
    let stopped = Status::Stopped as u32;
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    if STATUS
        .compare_exchange(recording, stopped, success, failure)
        .is_err()
    {
        return;
    }
    match reason {
        Stop::Limit => complain(format_args!(
            "recording of process {} stopped at the limit of bytes (CRASHPOINT_LIMIT)",
            sys::process_id()
        )),
        Stop::File(error) => complain(format_args!(
            "recording of process {} stopped: {}",
            sys::process_id(),
            run::describe(error)
        )),
    }
    crate::modules::close_gates();
}

/// One line for the user.
pub fn complain(message: Arguments<'_>) {
    let mut bytes = [0; 512];
    let mut slot = run::Slot {
        bytes: &mut bytes[..511],
        length: 0,
    };
    let _ = slot.write_str("crashpoint: ");
    let _ = slot.write_fmt(message);
    let end = slot.length;
    bytes[end] = b'\n';
    sys::complain(&bytes[..=end]);
}

/// The recording that was asked for is not possible.
pub fn fatal(message: Arguments<'_>) -> ! {
    complain(message);
    sys::exit(1)
}
