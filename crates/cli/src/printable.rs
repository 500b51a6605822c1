//! What may go to a terminal: names of files and what a program printed may hold anything.
//!
//! Control characters move the cursor, hide text or answer for the user; marks for the direction of
//! text make a name look like another one. They are shown as escapes, as Rust writes them. Of the
//! escape sequences those that set colours stay, if colours are wanted: they are our own.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A text that changes nothing on a terminal but colours, if these are wanted.
pub fn printable(text: &str, colours: bool) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let colour = if colours { colour_at(rest) } else { 0 };
        let length = colour.max(next.len_utf8());
        if colour == 0 && is_unsafe(next) {
            let _ = write!(shown, "{}", next.escape_default());
        } else {
            shown.push_str(&rest[..length]);
        }
        rest = &rest[length..];
    }
    Cow::Owned(shown)
}

fn is_unsafe(c: char) -> bool {
    let is_layout = matches!(c, '\n' | '\t');
    // Embeddings, overrides and isolates of the bidirectional algorithm, and its marks.
    let is_direction = matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() && !is_layout || is_direction
}

/// The length of a sequence that sets colours or weight, as ours do: `ESC [ numbers m`. Zero for
/// anything else, also for what hides text (8).
fn colour_at(text: &str) -> usize {
    let Some(numbers) = text.strip_prefix("\x1b[") else {
        return 0;
    };
    let Some(end) = numbers.find(|c: char| !c.is_ascii_digit() && c != ';') else {
        return 0;
    };
    let hides = numbers[..end].split(';').any(|number| number == "8");
    if numbers[end..].starts_with('m') && !hides {
        "\x1b[".len() + end + 1
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor_or_turns_text_around() {
        for (text, shown) in [
            ("plain\ttext\nä", "plain\ttext\nä"),
            ("bell\x07", "bell\\u{7}"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("\x1b[2J", "\\u{1b}[2J"),
            ("back\rover", "back\\rover"),
            ("nul\0", "nul\\u{0}"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("c1 \u{9b}2J", "c1 \\u{9b}2J"),
        ] {
            assert_eq!(printable(text, true), shown);
            assert_eq!(printable(text, false), shown);
        }
    }

    #[test]
    fn colours_stay_where_they_are_wanted() {
        let red = "\x1b[1;31merror\x1b[0m";
        assert_eq!(printable(red, true), red);
        assert_eq!(printable(red, false), "\\u{1b}[1;31merror\\u{1b}[0m");
        assert_eq!(printable("\x1b[8mhidden", true), "\\u{1b}[8mhidden");
    }
}
