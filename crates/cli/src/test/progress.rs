//! What a test tells while it goes on: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crashpoint_campaign::{Observer, TestEvent};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Output;

/// Between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// More crash points than this are announced where there is no terminal.
const MANY_CRASH_POINTS: usize = 100_000;

/// Shows the events of a run.
pub struct Terminal<'o> {
    shown: Mutex<Shown<'o>>,
    is_terminal: bool,
}

struct Shown<'o> {
    output: &'o mut Output,
    bar: ProgressBar,
    began: Instant,
    last_line: Instant,
}

impl<'o> Terminal<'o> {
    pub fn new(output: &'o mut Output) -> Terminal<'o> {
        let now = Instant::now();
        Terminal {
            shown: Mutex::new(Shown {
                output,
                bar: ProgressBar::hidden(),
                began: now,
                last_line: now,
            }),
            is_terminal: io::stderr().is_terminal(),
        }
    }
}

impl Observer for Terminal<'_> {
    fn event(&self, event: TestEvent) {
        let mut shown = self.shown.lock().expect("no panic");
        match event {
            TestEvent::Note(text) => shown.output.note(&text),
            TestEvent::Warning(text) => shown.output.warn(&text),
            TestEvent::ExplorationBegins { crash_points } => {
                shown.begin(crash_points, self.is_terminal);
            }
            TestEvent::Progress {
                crash_point,
                crash_points,
                states_tried,
                inconsistent,
            } => {
                let seconds = shown.began.elapsed().as_secs_f64();
                let rate = states_tried as f64 / seconds.max(0.001);
                let done = format!(
                    "{states_tried} states tried ({rate:.0}/s), {inconsistent} inconsistent"
                );
                if self.is_terminal {
                    shown.bar.set_position(crash_point as u64);
                    shown.bar.set_message(done);
                } else if shown.last_line.elapsed() >= LINE_INTERVAL {
                    shown.last_line = Instant::now();
                    let line = format!("crash point {crash_point} of {crash_points}, {done}");
                    shown.output.note(&line);
                }
            }
            TestEvent::ExplorationEnds => shown.bar.finish_and_clear(),
        }
    }
}

impl Shown<'_> {
    fn begin(&mut self, crash_points: usize, is_terminal: bool) {
        self.began = Instant::now();
        self.last_line = self.began;
        if is_terminal {
            let target = ProgressDrawTarget::stderr_with_hz(5);
            let bar = ProgressBar::with_draw_target(Some(crash_points as u64), target);
            let template = "{bar:30} {human_pos} of {human_len} crash points, {msg}, {eta} left";
            let style = ProgressStyle::with_template(template).expect("a valid template");
            self.bar = bar.with_style(style);
        } else if crash_points > MANY_CRASH_POINTS {
            self.output.note(&format!("{crash_points} crash points"));
        }
    }
}
