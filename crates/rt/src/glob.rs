//! Glob patterns, of paths and of function names.
//!
//! `?` is one byte and `*` any number of bytes other than `/`; `**` is any number of bytes, and
//! `**/` also stands for no folder at all. Everything else stands for itself. Patterns come from
//! the user and are short, so that backtracking needs no bound of its own.

/// Whether the whole of `text` fits `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', b'*', b'/', rest @ ..] => {
            matches(rest, text)
                || (1..=text.len()).any(|at| text[at - 1] == b'/' && matches(rest, &text[at..]))
        }
        [b'*', b'*', rest @ ..] => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        [b'*', rest @ ..] => {
            let end = text
                .iter()
                .position(|byte| *byte == b'/')
                .unwrap_or(text.len());
            (0..=end).any(|at| matches(rest, &text[at..]))
        }
        [b'?', rest @ ..] => {
            matches!(text, [byte, tail @ ..] if *byte != b'/' && matches(rest, tail))
        }
        [byte, rest @ ..] => {
            matches!(text, [first, tail @ ..] if first == byte && matches(rest, tail))
        }
    }
}

/// The patterns of a list separated by `:`.
pub fn list(patterns: &[u8]) -> impl Iterator<Item = &[u8]> {
    patterns
        .split(|byte| *byte == b':')
        .filter(|pattern| !pattern.is_empty())
}

/// Whether a pattern is the path of one file, from the root on.
pub fn is_literal(pattern: &[u8]) -> bool {
    pattern.starts_with(b"/") && !pattern.iter().any(|byte| matches!(byte, b'*' | b'?'))
}

/// Splits a pattern behind the last `/` that comes before any wildcard: a folder that can be
/// looked up, and the pattern inside of it.
pub fn folder(pattern: &[u8]) -> (&[u8], &[u8]) {
    let literal = pattern
        .iter()
        .position(|byte| matches!(byte, b'*' | b'?'))
        .unwrap_or(pattern.len());
    let split = pattern[..literal]
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    pattern.split_at(split)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes())
    }

    #[test]
    fn a_star_stays_within_a_folder() {
        assert!(fits("/dev/shm/pool*", "/dev/shm/pool"));
        assert!(fits("/dev/shm/pool*", "/dev/shm/pool.1"));
        assert!(!fits("/dev/shm/pool*", "/dev/shm/pool/1"));
        assert!(!fits("/dev/shm/*", "/dev/shm/a/b"));
        assert!(fits("/*/b*d/*", "/a/bxd/"));
        assert!(fits("pmemobj_tx_*", "pmemobj_tx_add_range"));
        assert!(!fits("pmemobj_tx_*", "my_pmemobj_tx_begin"));
    }

    #[test]
    fn two_stars_cross_folders_and_may_be_none() {
        assert!(fits("/mnt/**", "/mnt/a/b/c"));
        assert!(fits("/mnt/**/pool", "/mnt/pool"));
        assert!(fits("/mnt/**/pool", "/mnt/a/b/pool"));
        assert!(!fits("/mnt/**/pool", "/mnt/a/xpool"));
        assert!(fits("**/pool", "a/pool"));
        assert!(fits("**/pool", "pool"));
        assert!(fits("**", ""));
    }

    #[test]
    fn a_question_mark_is_one_byte_but_no_slash() {
        assert!(fits("p?ol", "pool"));
        assert!(!fits("p?ol", "p/ol"));
        assert!(!fits("pool?", "pool"));
    }

    #[test]
    fn everything_else_is_literal() {
        assert!(fits("a[b].{c}", "a[b].{c}"));
        assert!(!fits("a.c", "abc"));
        assert!(!fits("", "a"));
    }

    #[test]
    fn lists_skip_empty_patterns() {
        let all: std::vec::Vec<&[u8]> = list(b"a::b:").collect();
        assert_eq!(all, [b"a", b"b"]);
    }

    #[test]
    fn the_folder_of_a_pattern_has_no_wildcard() {
        assert_eq!(folder(b"/a/b/c*"), (&b"/a/b/"[..], &b"c*"[..]));
        assert_eq!(folder(b"/a/b"), (&b"/a/"[..], &b"b"[..]));
        assert_eq!(folder(b"x?"), (&b""[..], &b"x?"[..]));
        assert_eq!(folder(b"/a/*/c"), (&b"/a/"[..], &b"*/c"[..]));
    }
}
