//! The section `[record]`: how a program is recorded.

use std::time::Duration;

use crashpoint_abi::Level;
use serde::Deserialize;

use super::wrong::{Reason, Wrong};
use crate::arguments::{self, RecordOptions};

/// As it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordSection {
    pm: Vec<String>,
    level: Option<String>,
    loads: bool,
    calls: Vec<String>,
    limit: Option<String>,
    timeout: Option<String>,
}

impl RecordSection {
    /// With the options of the command line on top.
    pub fn resolve(self, options: &RecordOptions) -> Result<RecordOptions, Wrong> {
        let wrong = |key: &'static str| move |reason| Reason::new(reason).at(&["record", key]);
        let level: Option<Level> = self
            .level
            .as_deref()
            .map(arguments::level)
            .transpose()
            .map_err(wrong("level"))?;
        let limit: Option<u64> = self
            .limit
            .as_deref()
            .map(arguments::size)
            .transpose()
            .map_err(wrong("limit"))?;
        let timeout: Option<Duration> = self
            .timeout
            .as_deref()
            .map(arguments::duration)
            .transpose()
            .map_err(wrong("timeout"))?;
        let mut record = options.clone();
        if record.pm.is_empty() {
            record.pm = self.pm;
        }
        record.calls.extend(self.calls);
        record.loads |= self.loads;
        record.level = record.level.or(level);
        record.limit = record.limit.or(limit);
        record.timeout = record.timeout.or(timeout);
        Ok(record)
    }
}
