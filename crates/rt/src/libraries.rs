//! Which libraries the process has loaded: whoever wrote unseen is one of them.

use crate::binaries;
use crate::maps;
use crate::run;
use crate::text::Text;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};

static TOLD: AtomicBool = AtomicBool::new(false);

/// Lists the libraries if that has not happened yet. Takes no lock: it may be called in a hook.
pub fn tell_once() {
    if !TOLD.swap(true, Ordering::Relaxed) {
        tell();
    }
}

/// In a forked child: they are to be listed again.
pub fn forget() {
    TOLD.store(false, Ordering::Relaxed);
}

/// Lists the files that code comes from.
fn tell() {
    let Ok(mut line) = Text::new() else { return };
    // Mappings of one file follow each other; what is not code comes between.
    let (mut base, mut end, mut has_code) = (0, 0, false);
    let Ok(mut path) = Text::new() else { return };
    let mut finish = |path: &Text, base: u64, end: u64| {
        line.clear();
        line.push(b"{\"library\":{\"path\":");
        line.json(path.bytes());
        let instrumented = binaries::any_between(base, end);
        let _ = write!(
            line,
            ",\"base\":{base},\"end\":{end},\"instrumented\":{instrumented}}}}}"
        );
        run::tell(&mut line);
    };
    maps::each(|mapping| {
        if mapping.path == path.bytes() {
            end = mapping.end;
            has_code |= mapping.is_executable;
            return;
        }
        if has_code {
            finish(&path, base, end);
        }
        path.clear();
        path.push(mapping.path);
        (base, end, has_code) = (mapping.base, mapping.end, mapping.is_executable);
    });
    if has_code {
        finish(&path, base, end);
    }
}
