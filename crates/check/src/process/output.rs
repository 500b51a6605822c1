//! What of a program's output counts, and where two outputs differ.
//!
//! Programs may greet, tell the time, or say that they had to recover. Lines that the user wants
//! ignored are taken out before anything is compared, counted or shown to a checker.

/// Globs of whole lines: `*` stands for anything, `?` for one byte.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ignored(pub Vec<String>);

impl Ignored {
    /// The output without the lines that are ignored.
    pub fn strip(&self, output: Vec<u8>) -> Vec<u8> {
        if self.0.is_empty() {
            return output;
        }
        let counts = |line: &&[u8]| {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            !self.0.iter().any(|glob| matches(glob.as_bytes(), text))
        };
        let lines = output.split_inclusive(|byte| *byte == b'\n');
        lines.filter(counts).flatten().copied().collect()
    }
}

/// Whether a glob matches all of a text.
pub fn matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut glob_rest, mut text_rest) = (glob, text);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (glob_rest.split_first(), text_rest.split_first()) {
            (None, None) => return true,
            (Some((b'*', after)), _) => {
                retry = Some((after, text_rest));
                glob_rest = after;
                continue;
            }
            (Some((wanted, after)), Some((found, rest))) if wanted == found || *wanted == b'?' => {
                (glob_rest, text_rest) = (after, rest);
                continue;
            }
            _ => {}
        }
        match retry {
            Some((after, [_, rest @ ..])) => {
                retry = Some((after, rest));
                (glob_rest, text_rest) = (after, rest);
            }
            Some((_, [])) | None => return false,
        }
    }
}

/// A line in which two outputs differ: its number from 0, and both sides.
pub type Difference<'a> = (usize, Option<&'a [u8]>, Option<&'a [u8]>);

/// The first line in which two outputs differ.
pub fn first_difference<'a>(expected: &'a [u8], found: &'a [u8]) -> Option<Difference<'a>> {
    let mut expected = lines(expected);
    let mut found = lines(found);
    for number in 0.. {
        match (expected.next(), found.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some((number, a, b)),
        }
    }
    None
}

pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_texts() {
        for (glob, text, expected) in [
            ("store_apply", "store_apply", true),
            ("store_*", "store_apply", true),
            ("*apply", "store_apply", true),
            ("s*e_a*y", "store_apply", true),
            ("store_appl?", "store_apply", true),
            ("apply", "store_apply", false),
            ("store_*x", "store_apply", false),
            ("*", "", true),
            ("", "a", false),
        ] {
            let found = matches(glob.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{glob} {text}");
        }
    }

    #[test]
    fn lines_that_are_ignored_are_taken_out_whole() {
        let ignored = Ignored(vec!["recovered *".into(), "hello".into()]);
        let strip = |text: &str| String::from_utf8(ignored.strip(text.into())).unwrap();
        assert_eq!(strip("hello\nrecovered 3 keys\nok\n"), "ok\n");
        assert_eq!(strip("say hello\nrecovered"), "say hello\nrecovered");
        assert_eq!(strip("ok\nhello"), "ok\n");
    }

    #[test]
    fn differences_are_found_by_line() {
        let line = |text: &'static str| Some(text.as_bytes());
        assert_eq!(first_difference(b"a\nb\n", b"a\nb\n"), None);
        assert_eq!(
            first_difference(b"a\nb\n", b"a\nc\n"),
            Some((1, line("b"), line("c")))
        );
        assert_eq!(
            first_difference(b"a\nb\n", b"a\n"),
            Some((1, line("b"), None))
        );
        assert_eq!(first_difference(b"", b"x"), Some((0, None, line("x"))));
    }
}
