//! Source text, as far as it can still be found, and which part of a line a column points at.
//!
//! The text is read when a report is made, not when the program was built: a file that changed in
//! between shows other lines. A column beyond the end of its line gives the text away as changed,
//! and the excerpt is left out.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

type Read = dyn Fn(&Path) -> Option<String>;

/// Texts by file name, read once.
pub struct Sources {
    texts: HashMap<String, Option<String>>,
    read: Box<Read>,
}

impl Sources {
    /// From the file system. Text that is not UTF-8 is shown with replacement characters.
    pub fn from_disk() -> Sources {
        Sources::new(|path| {
            let bytes = std::fs::read(path).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    pub fn new(read: impl Fn(&Path) -> Option<String> + 'static) -> Sources {
        Sources {
            texts: HashMap::new(),
            read: Box::new(read),
        }
    }

    /// Reads a file, unless that was tried before.
    pub fn load(&mut self, file: &str) {
        if !self.texts.contains_key(file) {
            let text = (self.read)(Path::new(file));
            self.texts.insert(file.to_owned(), text);
        }
    }

    /// The text of a file that was loaded and could be read.
    pub fn text(&self, file: &str) -> Option<&str> {
        self.texts.get(file)?.as_deref()
    }
}

/// The bytes that a place means, within a line: the word or operator at the column, with the
/// arguments if it is a call. `None` if the line does not reach that far.
pub fn span(line: &str, column: u32) -> Option<Range<usize>> {
    let text = line.trim_end();
    let indent = text.len() - text.trim_start().len();
    if column == 0 {
        return (indent < text.len()).then_some(indent..text.len());
    }
    let start = column as usize - 1;
    let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let operator = |c: char| "+-*/%&|^<>=!".contains(c);
    let first = rest.chars().next()?;
    let run = |accept: &dyn Fn(char) -> bool| -> usize {
        rest.chars()
            .take_while(|c| accept(*c))
            .map(char::len_utf8)
            .sum()
    };
    let length = if word(first) {
        let name = run(&word);
        name + call_length(&rest[name..])
    } else if operator(first) {
        run(&operator)
    } else {
        first.len_utf8()
    };
    Some(start..start + length)
}

/// Bytes of the parenthesised arguments that `rest` begins with; 0 if there are none, or if they
/// do not end on this line.
fn call_length(rest: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return at + 1,
            ')' if depth == 0 => return 0,
            ')' => depth -= 1,
            _ if depth == 0 => return 0,
            _ => {}
        }
    }
    0
}

/// The byte at which each line of a text begins, and the end of the text.
pub fn line_starts(text: &str) -> Vec<usize> {
    let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
    let mut starts: Vec<usize> = std::iter::once(0).chain(after_newlines).collect();
    if starts.last() != Some(&text.len()) {
        starts.push(text.len());
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_means_a_word_a_call_or_an_operator() {
        for (line, column, expected) in [
            ("    s->key = key;", 12, "="),
            ("    b->tokens |= bit;", 15, "|="),
            ("    pm_flush(&s->key, f(1));", 5, "pm_flush(&s->key, f(1))"),
            ("    pm_flush(&s->key,", 5, "pm_flush"),
            ("    count++;", 10, "++"),
            ("    return x;", 0, "return x;"),
            ("    *p = 1;", 5, "*"),
            ("  {", 3, "{"),
        ] {
            let found = span(line, column).map(|range| &line[range]);
            assert_eq!(found, Some(expected), "{line:?} at {column}");
        }
    }

    #[test]
    fn a_column_outside_of_the_line_means_nothing() {
        assert_eq!(span("x = 1;", 40), None);
        assert_eq!(span("", 1), None);
        assert_eq!(span("   ", 0), None);
        assert_eq!(span("é = 1;", 2), None);
    }

    #[test]
    fn lines_begin_after_newlines() {
        assert_eq!(line_starts("a\nbc\n"), [0, 2, 5]);
        assert_eq!(line_starts("a\nbc"), [0, 2, 4]);
    }

    #[test]
    fn a_file_is_read_once() {
        let reads = std::rc::Rc::new(std::cell::Cell::new(0));
        let counter = reads.clone();
        let mut sources = Sources::new(move |path| {
            counter.set(counter.get() + 1);
            (path == Path::new("/a.c")).then(|| "text".to_owned())
        });
        for file in ["/a.c", "/b.c", "/a.c", "/b.c"] {
            sources.load(file);
        }
        assert_eq!(sources.text("/a.c"), Some("text"));
        assert_eq!(sources.text("/b.c"), None);
        assert_eq!(reads.get(), 2);
    }
}
