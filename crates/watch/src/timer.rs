//! Kills the program when its time is up, whatever it does.

use crate::ptrace::Tid;
use std::collections::BTreeSet;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often what is left is killed again: a process may be made while others are killed.
const AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Shared {
    processes: BTreeSet<Tid>,
    fired: Option<Duration>,
}

/// Knows all processes; one thread waits for the time.
#[derive(Debug)]
pub struct Timer {
    shared: Arc<Mutex<Shared>>,
    /// Dropped: the thread ends.
    _done: Option<Sender<()>>,
}

impl Timer {
    pub fn start(timeout: Option<Duration>) -> Timer {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let Some(timeout) = timeout else {
            return Timer {
                shared,
                _done: None,
            };
        };
        let (done, waiting) = mpsc::channel::<()>();
        let seen = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut wait = timeout;
            while waiting.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let mut shared = lock(&seen);
                shared.fired = Some(timeout);
                kill(&shared);
                wait = AGAIN;
            }
        });
        Timer {
            shared,
            _done: Some(done),
        }
    }

    pub fn add(&self, process: Tid) {
        lock(&self.shared).processes.insert(process);
    }

    /// Called before its number can mean another process: when we are told of its end.
    pub fn remove(&self, process: Tid) {
        lock(&self.shared).processes.remove(&process);
    }

    /// After how long everything was killed, if it was.
    pub fn fired(&self) -> Option<Duration> {
        lock(&self.shared).fired
    }

    pub fn kill_all(&self) {
        kill(&lock(&self.shared));
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().expect("no panic while it is held")
}

fn kill(shared: &Shared) {
    for process in &shared.processes {
        // SAFETY: sends a signal; the process is ours and was not waited for to its end.
        unsafe { libc::kill(process.0, libc::SIGKILL) };
    }
}
