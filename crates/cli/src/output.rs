//! Everything that is printed goes through here: results to standard output, remarks to standard
//! error, colours only where they are wanted. A reader that closed the pipe has seen enough: that
//! is no error.

use std::io::{self, IsTerminal as _, Write as _};

use crate::arguments::Color;
use crate::printable::printable;

pub struct Output {
    color: Color,
    out: io::BufWriter<io::Stdout>,
    /// Nobody reads standard output any more.
    closed: bool,
}

impl Output {
    pub fn new(color: Color) -> Output {
        Output {
            color,
            out: io::BufWriter::new(io::stdout()),
            closed: false,
        }
    }

    /// Prints a part of the result for people: what a target printed or named cannot do anything to
    /// the terminal.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        self.print_document(&printable(text, self.colours()))
    }

    /// Prints a part of the result in a format for machines, which has escapes of its own.
    pub fn print_document(&mut self, text: &str) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let written = self.out.write_all(text.as_bytes());
        self.unless_closed(written)
    }

    /// Flushes standard output; to be called at the end.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let flushed = self.out.flush();
        self.unless_closed(flushed)
    }

    /// Whether there is anybody left to print for.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn unless_closed(&mut self, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other,
        }
    }

    pub fn note(&mut self, text: &str) {
        self.remark(&format!("crashpoint: {text}"));
    }

    pub fn warn(&mut self, text: &str) {
        self.remark(&format!(
            "crashpoint: {} {text}",
            self.styled("33", "warning:")
        ));
    }

    pub fn error(&mut self, text: &str) {
        self.remark(&format!(
            "crashpoint: {} {text}",
            self.styled("31", "error:")
        ));
    }

    /// Prints a line on standard error, after what was printed before, should both go to one terminal.
    pub fn remark(&mut self, line: &str) {
        let _ = self.finish();
        let line = printable(line, self.colours_on_stderr());
        let _ = writeln!(io::stderr(), "{line}");
    }

    fn styled(&self, colour: &str, word: &str) -> String {
        if self.colours_on_stderr() {
            format!("\x1b[1;{colour}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    pub fn colours(&self) -> bool {
        self.wanted(io::stdout().is_terminal())
    }

    pub fn colours_on_stderr(&self) -> bool {
        self.wanted(io::stderr().is_terminal())
    }

    fn wanted(&self, terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }
}
