//! Call stacks of a recording as representative testing wants them.
//!
//! An interpreter is one function, whatever it calls inside: what it is at depends on the program
//! that it runs, on how often it has run it, and on what it compiled meanwhile, and tells nothing of
//! that program. There, calls are told apart by what they do, and to which kind of file.

use crashpoint_check::files::FileMedium;
use crashpoint_check::files::behaviours::{self, Division};
use crashpoint_explain::files::frames::is_interpreter;
use crashpoint_states::representative::RepresentativePlan;
use crashpoint_states::representative::calls::{self, FunctionId, Rounds, TimeSplit};
use crashpoint_trace::files::{FileRecording, StackFrame, StackId};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash as _, Hasher as _};

use crate::settings::Settings;

/// Where an interpreter is.
const INSIDE: u64 = 0;

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

    pub fn plan(&mut self, files: &FileMedium<'_>, settings: &Settings) -> RepresentativePlan {
        let representative = &settings.test.strategies.representative;
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

    fn frames(&mut self, stack: StackId) -> Vec<calls::StackFrame> {
        let frames = self.recording.frames(stack).iter().rev();
        let mut frames: Vec<calls::StackFrame> = frames.map(|frame| self.frame(frame)).collect();
        frames.dedup_by(|one, before| one == before && one.at == INSIDE);
        frames
    }

    fn frame(&mut self, frame: &'r StackFrame) -> calls::StackFrame {
        let is_interpreter = is_interpreter(&frame.module);
        let key = if is_interpreter {
            (frame.module.as_str(), "")
        } else {
            (frame.module.as_str(), frame.function.as_str())
        };
        let function = *self.numbers.entry(key).or_insert_with(|| {
            self.names.push(if is_interpreter {
                &frame.module
            } else {
                &frame.function
            });
            FunctionId(self.names.len() as u32 - 1)
        });
        if is_interpreter {
            let at = INSIDE;
            return calls::StackFrame { function, at };
        }
        let mut hasher = FxHasher::default();
        match &frame.source {
            Some(source) => source.hash(&mut hasher),
            None => frame.offset.hash(&mut hasher),
        }
        calls::StackFrame {
            function,
            at: hasher.finish(),
        }
    }
}
