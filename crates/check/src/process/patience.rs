//! How long a run is waited for.

use super::activity;
use std::time::{Duration, Instant};

/// How long a run is waited for.
pub struct Patience {
    pub began: Instant,
    time: Duration,
    /// What it had used when it was seen asleep.
    asleep: Option<Duration>,
}

impl Patience {
    pub fn new(time: Duration) -> Patience {
        Patience {
            began: Instant::now(),
            time,
            asleep: None,
        }
    }

    /// Whether what a server has started hangs.
    pub fn is_over(&mut self, server: u32) -> bool {
        let elapsed = self.began.elapsed();
        if elapsed < self.time {
            return false;
        }
        let Some(activity) = activity::below(server) else {
            return true;
        };
        let asleep = activity.asleep.then_some(activity.processor);
        let still_asleep = asleep.is_some() && self.asleep == asleep;
        self.asleep = asleep;
        still_asleep || activity.processor >= self.time || elapsed >= self.time * MAX_TIME_FACTOR
    }
}

/// A run is given up after so many times its limit, however little it got to do.
const MAX_TIME_FACTOR: u32 = 10;
