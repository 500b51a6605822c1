//! The section `[record]`: how a program is recorded.

use crashpoint_campaign::settings::RecordSettings;

use super::options;
use super::values::{RecordLevel, Size, Time};

options! {
    /// How a program is recorded.
    pub struct RecordOptions {
        /// Files whose mappings are persistent memory: a glob, may be repeated
        ///
        /// `*` stays within a folder, `**` does not. A relative glob starts in the folder where the
        /// program is started.
        #[arg(long, value_name = "GLOB")]
        pub pm: Vec<String>,
        /// How much is recorded: off, pm, flow or value [default: pm]
        ///
        /// `off`: nothing. `pm`: stores, flushes, fences and call stacks. `flow`: also branches and
        /// addresses. `value`: also the values of loads.
        #[arg(long, value_name = "LEVEL")]
        pub level: Option<RecordLevel>,
        /// Also record loads from persistent memory
        #[arg(long)]
        pub loads: bool,
        /// Also record calls of these functions, with their arguments: a glob, may be repeated
        ///
        /// Functions of the transactions that are known are always recorded.
        #[arg(long, value_name = "GLOB")]
        pub calls: Vec<String>,
        /// The most bytes that each process may record, such as 500M or 4G
        #[arg(long, value_name = "SIZE")]
        pub limit: Option<Size>,
        /// Kill the program after this time, such as 30s, 5m or 1h
        #[arg(long, value_name = "TIME")]
        pub timeout: Option<Time>,
    }
}

impl RecordOptions {
    /// The options of the command line on top of the keys of the file, whose `calls` stay.
    pub fn on_top_of(mut self, mut file: RecordOptions) -> RecordOptions {
        self.calls.append(&mut file.calls);
        self.or(file)
    }

    pub fn resolve(self) -> RecordSettings {
        RecordSettings {
            pm: self.pm,
            level: self.level.map(|level| level.0),
            loads: self.loads,
            calls: self.calls,
            limit: self.limit.map(|limit| limit.0),
            timeout: self.timeout.map(|timeout| timeout.0),
        }
    }
}
