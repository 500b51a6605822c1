//! Call stacks of a recording as representative testing wants them.

use crashpoint_check::files::Files;
use crashpoint_check::files::behaviours::{self, Division};
use crashpoint_states::representative::Plan;
use crashpoint_states::representative::calls::{self, FunctionId, Rounds, TimeSplit};
use crashpoint_trace::files::{FileRecording, Frame, StackId};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash as _, Hasher as _};

use crate::config::Settings;

/// The functions of a recording, each with a number. Where there are no symbols, a function is what
/// the unwind tables say is one.
pub struct Functions<'r> {
    recording: &'r FileRecording,
    numbers: FxHashMap<(&'r str, &'r str), FunctionId>,
    names: Vec<&'r str>,
}

impl<'r> Functions<'r> {
    pub fn new(recording: &'r FileRecording) -> Functions<'r> {
        Functions {
            recording,
            numbers: FxHashMap::default(),
            names: Vec::new(),
        }
    }

    pub fn plan(&mut self, files: &Files<'_>, settings: &Settings) -> Plan {
        let representative = &settings.test.representative;
        let division = Division {
            time: TimeSplit {
                gap: representative.gap,
                least: representative.neighbours,
            },
            rounds: Rounds {
                most_steps: representative.round as usize,
            },
        };
        behaviours::plan(files, &division, |stack| self.frames(stack))
    }

    /// What a function is called.
    pub fn name(&self, function: u32) -> Option<&'r str> {
        self.names.get(function as usize).copied()
    }

    fn frames(&mut self, stack: StackId) -> Vec<calls::Frame> {
        let frames = self.recording.frames(stack).iter().rev();
        frames.map(|frame| self.frame(frame)).collect()
    }

    fn frame(&mut self, frame: &'r Frame) -> calls::Frame {
        let key = (frame.module.as_str(), frame.function.as_str());
        let function = *self.numbers.entry(key).or_insert_with(|| {
            self.names.push(&frame.function);
            FunctionId(self.names.len() as u32 - 1)
        });
        let mut hasher = FxHasher::default();
        (frame.offset, &frame.source).hash(&mut hasher);
        calls::Frame {
            function,
            at: hasher.finish(),
        }
    }
}
