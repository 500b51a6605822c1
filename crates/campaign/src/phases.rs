//! How long each phase of a run took.

use std::time::Duration;

/// Phases in the order in which they ended.
#[derive(Clone, Debug, Default)]
pub struct Phases(Vec<(String, Duration)>);

impl Phases {
    pub fn add(&mut self, phase: &str, time: Duration) {
        self.0.push((phase.to_owned(), time));
    }

    pub fn seconds(&self) -> Vec<(String, f64)> {
        let seconds = |(name, time): &(String, Duration)| (name.clone(), time.as_secs_f64());
        self.0.iter().map(seconds).collect()
    }

    /// The time of all phases whose names begin so.
    pub fn total(&self, prefix: &str) -> Duration {
        let wanted = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        wanted.map(|(_, time)| *time).sum()
    }
}
