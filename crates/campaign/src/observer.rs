//! What a run tells while it goes on: events, for whoever wants to show them.

use crashpoint_check::engine::explore::Watcher;

/// Something that a user may want to know while a run goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestEvent {
    /// Worth a line; nothing is wrong.
    Note(String),
    /// Something limits what can be concluded.
    Warning(String),
    /// Crash states are tried from here on, at so many crash points.
    ExplorationBegins { crash_points: usize },
    /// How far the exploration is; sent often.
    Progress {
        crash_point: usize,
        crash_points: usize,
        states_tried: u64,
        inconsistent: u64,
    },
    /// All chosen crash states have been tried.
    ExplorationEnds,
}

/// Receives events, also from the threads that try crash states.
pub trait Observer: Sync {
    fn event(&self, event: TestEvent);

    fn note(&self, text: String) {
        self.event(TestEvent::Note(text));
    }

    fn warning(&self, text: String) {
        self.event(TestEvent::Warning(text));
    }
}

/// Nobody looks.
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: TestEvent) {}
}

/// The progress of an exploration as events.
pub(crate) struct Progress<'o>(pub &'o dyn Observer);

impl Watcher for Progress<'_> {
    fn progress(&self, point: usize, points: usize, tried: u64, inconsistent: u64) {
        self.0.event(TestEvent::Progress {
            crash_point: point,
            crash_points: points,
            states_tried: tried,
            inconsistent,
        });
    }
}
