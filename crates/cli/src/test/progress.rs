//! How far a test is: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crashpoint_check::engine::explore::Watcher;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Output;

/// Between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(30);

pub struct Progress {
    bar: ProgressBar,
    terminal: bool,
    began: Instant,
    last: Mutex<Instant>,
}

impl Progress {
    pub fn new(points: usize, output: &mut Output) -> Progress {
        let terminal = io::stderr().is_terminal();
        let bar = match terminal {
            true => ProgressBar::with_draw_target(
                Some(points as u64),
                ProgressDrawTarget::stderr_with_hz(5),
            ),
            false => ProgressBar::hidden(),
        };
        let template = "{bar:30} {human_pos} of {human_len} crash points, {msg}, {eta} left";
        let style = ProgressStyle::with_template(template).expect("a valid template");
        if !terminal && points > 100_000 {
            output.note(&format!("{points} crash points"));
        }
        let now = Instant::now();
        Progress {
            bar: bar.with_style(style),
            terminal,
            began: now,
            last: Mutex::new(now),
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watcher for Progress {
    fn progress(&self, point: usize, points: usize, tried: u64, inconsistent: u64) {
        let rate = tried as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let message = || format!("{tried} states tried ({rate:.0}/s), {inconsistent} inconsistent");
        if self.terminal {
            self.bar.set_position(point as u64);
            self.bar.set_message(message());
            return;
        }
        let mut last = self.last.lock().expect("no panic");
        if last.elapsed() >= LINE {
            *last = Instant::now();
            eprintln!("crashpoint: crash point {point} of {points}, {}", message());
        }
    }
}
