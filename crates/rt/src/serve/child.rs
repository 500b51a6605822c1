//! A fork of the server becomes the target.

use super::server::Server;
use super::system;
use crate::process;
use crate::sys;
use core::sync::atomic::Ordering;
use crashpoint_abi::Level;
use crashpoint_abi::serve::{Request, flags};

/// Everything that tells the child from a program that was started in the usual way, but for
/// signals, which are still blocked.
pub fn begin(server: &Server, request: &Request) {
    system::close(server.socket);
    system::close(server.signals);
    let _ = system::control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as usize);
    if system::parent_id() != server.process {
        // The server had died before the kernel was asked to tell.
        sys::exit(1);
    }
    // A session for each run costs a third of a fork: the kernel schedules sessions as groups.
    if server.has_session {
        system::new_group()
    } else {
        system::new_session();
    }
    if let Some(ignored) = server.child_signal {
        let _ = system::disposition(libc::SIGCHLD, Some(ignored));
    }
    limit(request);
    super::FLAGS.store(request.flags, Ordering::Relaxed);
    if request.flags & flags::READS != 0 {
        process::set_level(Level::Pm);
        crate::modules::update_gates(&crate::lock::lock());
    }
}

fn limit(request: &Request) {
    let limits = [
        (libc::RLIMIT_AS, request.memory_bytes),
        (libc::RLIMIT_FSIZE, request.file_bytes),
        (libc::RLIMIT_NPROC, u64::from(request.processes)),
    ];
    for (resource, most) in limits {
        if most != 0 {
            system::limit(resource, most, most);
        }
    }
    if request.cpu_seconds != 0 {
        // At the first limit there is a signal of its own, at the second one the end.
        let seconds = u64::from(request.cpu_seconds);
        system::limit(libc::RLIMIT_CPU, seconds, seconds + 1);
    }
    // Crashes are what we are here for. 0 would keep files from being written, but a core that is
    // piped to a program knows only this limit: 1 keeps both away.
    system::limit(libc::RLIMIT_CORE, 1, 1);
}
