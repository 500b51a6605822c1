//! Instrumented objects: their numbers, their gates, what they want to know.

use crate::binaries::{self, Binary};
use crate::config;
use crate::glob;
use crate::lock;
use crate::memory;
use crate::process::{self, Process};
use crate::regions::REGIONS;
use crate::run;
use crate::serve;
use crate::text::Text;
use core::ffi::CStr;
use core::fmt::Write;
use crashpoint_abi::layout::detail;
use crashpoint_abi::{ABI_VERSION, Gate, Level, ModuleHeader};

/// Objects that can be registered at a time; a program with more is recorded without the rest.
const CAPACITY: usize = 1 << 16;

/// The objects that are registered. Changed under the lock.
pub struct Modules {
    entries: *mut Entry,
    count: usize,
    /// The first number that no site has.
    next_site: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    module: *mut ModuleHeader,
    binary: &'static Binary,
}

impl Modules {
    pub const fn new() -> Modules {
        Modules {
            entries: core::ptr::null_mut(),
            count: 0,
            next_site: 1,
        }
    }

    fn all(&self) -> &[Entry] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: so many have been written.
        unsafe { core::slice::from_raw_parts(self.entries, self.count) }
    }

    fn add(&mut self, entry: Entry) -> bool {
        if self.entries.is_null() {
            match memory::anonymous(CAPACITY * size_of::<Entry>()) {
                Ok(place) => self.entries = place as *mut Entry,
                Err(_) => return false,
            }
        }
        if self.count == CAPACITY {
            return false;
        }
        // SAFETY: below the capacity.
        unsafe { self.entries.add(self.count).write(entry) };
        self.count += 1;
        true
    }

    fn remove(&mut self, module: *mut ModuleHeader) {
        if let Some(at) = self.all().iter().position(|known| known.module == module) {
            self.count -= 1;
            // SAFETY: both are entries; the last one takes the place of the one that goes.
            unsafe { *self.entries.add(at) = *self.entries.add(self.count) };
        }
    }

    /// In a forked child: tells the new meta file of all objects.
    pub fn tell_all(&self) {
        for entry in self.all() {
            // SAFETY: registered, and not unregistered.
            tell(unsafe { &*entry.module }, entry.binary);
        }
    }
}

/// A gate whose objects do not all speak our version stays closed; this marks it.
const REFUSED: u32 = 1;

/// Lowest address and length of persistent memory, as gates have them.
fn envelope() -> (u64, u64) {
    REGIONS
        .envelope()
        .map_or((0, 0), |(base, end)| (base, end - base))
}

/// The bits of a gate that tell what is recorded beyond level pm.
fn details(level: Level, loads: bool) -> u32 {
    let flow = if level >= Level::Flow {
        detail::FLOW
    } else {
        0
    };
    let value = if level >= Level::Value {
        detail::VALUE
    } else {
        0
    };
    let loads = if loads && level != Level::Off {
        detail::LOADS
    } else {
        0
    };
    flow | value | loads
}

/// # Safety
/// The gate is one of a loaded object.
unsafe fn set_gate(gate: *mut Gate, level: Level) {
    let (base, span) = envelope();
    // A child of a fork server looks at loads alone, and at stores for what loads find.
    let marks = serve::marks_loads();
    let stores = !process::is_serving() || marks;
    let loads = if process::is_serving() {
        marks
    } else {
        config::get().is_some_and(|config| config.loads)
    };
    // SAFETY: the caller vouches for the gate. Other threads may be reading it: while base and
    // span do not fit together, everything is a candidate.
    unsafe {
        if (*gate).reserved == REFUSED {
            return;
        }
        let (all_stores, stored) = if stores { (u64::MAX, span) } else { (0, 0) };
        let (all_loads, loaded) = if loads { (u64::MAX, span) } else { (0, 0) };
        (&raw mut (*gate).pm_span).write_volatile(all_stores);
        (&raw mut (*gate).load_span).write_volatile(all_loads);
        (&raw mut (*gate).pm_base).write_volatile(base);
        (&raw mut (*gate).pm_span).write_volatile(stored);
        (&raw mut (*gate).load_span).write_volatile(loaded);
        (&raw mut (*gate).detail).write_volatile(details(level, loads));
        (&raw mut (*gate).level).write_volatile(level as u32);
    }
}

/// Tells all gates where persistent memory is.
pub fn update_gates(process: &Process) {
    let level = process::level();
    for entry in process.modules.all() {
        // SAFETY: registered, and not unregistered.
        unsafe { set_gate((*entry.module).gate, level) };
    }
}

/// Recording has stopped: functions take their plain copies where they can. Not if somebody holds
/// the lock, who may be the caller; the hooks do nothing then, at their price.
pub fn close_gates() {
    if let Some(process) = lock::try_lock() {
        for entry in process.modules.all() {
            // SAFETY: registered, and not unregistered.
            unsafe { set_gate((*entry.module).gate, Level::Off) };
        }
    }
}

/// # Safety
/// `module` is what an instrumented object describes itself by, until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_register(module: *mut ModuleHeader) {
    process::prepare();
    // SAFETY: the caller's.
    let (version, gate) = unsafe { ((*module).abi_version, (*module).gate) };
    if version != ABI_VERSION {
        // SAFETY: the gate's place is the same in all versions.
        unsafe {
            (*gate).level = 0;
            (*gate).reserved = REFUSED;
        }
        if process::is_attentive() {
            process::complain(format_args!(
                "an object was built for version {version} of the runtime, this is version \
                 {ABI_VERSION}; it is not recorded (build it again with crashpoint-cc)"
            ));
        }
        return;
    }
    // SAFETY: the caller's.
    let module = unsafe { &mut *module };
    let binary = if process::is_attentive() && !process::is_serving() {
        binaries::of(core::ptr::from_ref(module) as u64)
    } else {
        &binaries::UNKNOWN
    };
    let mut process = lock::lock();
    module.site_base = process.modules.next_site;
    process.modules.next_site = module.site_base.saturating_add(module.site_count);
    if process::join(&mut process) && process.modules.add(Entry { module, binary }) {
        if !process::is_serving() {
            watch(module);
            tell(module, binary);
        }
        // SAFETY: the caller's.
        unsafe { set_gate(gate, process::level()) };
    }
}

/// # Safety
/// `module` has been registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __crashpoint_unregister(module: *mut ModuleHeader) {
    lock::lock().modules.remove(module);
}

/// Whether something in a range of addresses has registered.
pub fn any_between(base: u64, end: u64) -> bool {
    let process = lock::lock();
    let mut places = process
        .modules
        .all()
        .iter()
        .map(|entry| entry.module as u64);
    places.any(|place| (base..end).contains(&place))
}

/// Linked objects of which something has registered: each has one gate.
pub fn registered_objects() -> u32 {
    let process = lock::lock();
    let all = process.modules.all();
    // SAFETY: registered, and not unregistered.
    let gate = |entry: &Entry| unsafe { (*entry.module).gate };
    let is_first = |at: usize| all[..at].iter().all(|entry| gate(entry) != gate(&all[at]));
    (0..all.len()).filter(|&at| is_first(at)).count() as u32
}

/// Marks the callees whose calls are recorded.
fn watch(module: &mut ModuleHeader) {
    let Some(config) = config::get() else { return };
    let mut name = module.callee_names;
    for index in 0..module.callee_count as usize {
        // SAFETY: so many names, each terminated, and as many bytes to watch them.
        unsafe {
            let text = CStr::from_ptr(name.cast()).to_bytes();
            let mut patterns = glob::list(config.calls).chain(glob::list(config.default_calls));
            let is_watched = patterns.any(|pattern| glob::matches(pattern, text));
            *module.watch.add(index) = u8::from(is_watched);
            name = name.add(text.len() + 1);
        }
    }
}

fn tell(module: &ModuleHeader, binary: &Binary) {
    let Ok(mut line) = Text::new() else { return };
    line.push(b"{\"module\":{\"model\":\"");
    for byte in module.model_id {
        let _ = write!(line, "{byte:02x}");
    }
    let (base, count) = (module.site_base, module.site_count);
    let _ = write!(
        line,
        "\",\"site_base\":{base},\"site_count\":{count},\"binary\":"
    );
    line.json(binary.path);
    let _ = write!(line, ",\"bias\":{},\"globals\":[", binary.bias);
    for index in 0..module.global_count as usize {
        // SAFETY: so many addresses.
        let address = unsafe { *module.globals.add(index) } as u64;
        let separator = if index == 0 { "" } else { "," };
        let _ = write!(line, "{separator}{address}");
    }
    line.push(b"]}}");
    run::tell(&mut line);
}
