//! Keeps a worker and the target that it waits for on one processor.
//!
//! The two take turns: one waits while the other works. On one processor the hand-over is a switch;
//! on two it is an interrupt and a sleep, which cost a hundred microseconds more, a third of a
//! small check.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processor of the worker with this number; none if there are fewer than workers, or it
/// cannot be known.
pub fn processor(number: usize, workers: usize) -> Option<usize> {
    let allowed = sched_getaffinity(None).ok()?;
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    if workers <= usable.len() {
        usable.get(number).copied()
    } else {
        None
    }
}

/// Keeps the calling thread, and what it starts, on a processor while this lives.
#[derive(Debug)]
pub struct Pinned {
    before: Option<CpuSet>,
}

impl Pinned {
    pub fn to(processor: Option<usize>) -> Pinned {
        let before = processor.and_then(|processor| {
            let before = sched_getaffinity(None).ok()?;
            let mut one = CpuSet::new();
            one.set(processor);
            // Where it is not allowed, everything works as well, only slower.
            sched_setaffinity(None, &one).ok()?;
            Some(before)
        });
        Pinned { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_and_let_go() {
        let before = sched_getaffinity(None).unwrap();
        let first = processor(0, 1);
        {
            let _pinned = Pinned::to(first);
            let now = sched_getaffinity(None).unwrap();
            assert_eq!(now.count(), 1);
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert_eq!(processor(0, usize::MAX), None);
    }
}
