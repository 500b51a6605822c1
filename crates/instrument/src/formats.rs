//! What `printf` and its kin read, by a format that is known when the program is compiled.
//!
//! A format that is made at run time, or has conversions that are not understood here (wide
//! strings, numbered arguments, `%n`), says nothing: addresses that go with it escape.

/// What is done with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is printed, be it an address.
    Value,
    /// It is the address of a string that is printed, perhaps in part.
    String,
}

/// Which argument of a function is its format; the others come behind it.
pub fn format_of(name: &str) -> Option<u32> {
    Some(match name {
        "printf" => 0,
        "fprintf" | "dprintf" | "sprintf" | "asprintf" | "__printf_chk" => 1,
        "snprintf" | "__fprintf_chk" | "__dprintf_chk" | "__asprintf_chk" => 2,
        "__sprintf_chk" => 3,
        "__snprintf_chk" => 4,
        _ => return None,
    })
}

/// What a format does with the arguments behind it.
pub fn uses(format: &[u8]) -> Option<Vec<Use>> {
    let mut uses = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        rest = conversion(&rest[at + 1..], &mut uses)?;
    }
    Some(uses)
}

/// One conversion, behind its percent sign; what follows it.
fn conversion<'f>(format: &'f [u8], uses: &mut Vec<Use>) -> Option<&'f [u8]> {
    let mut rest = skip(format, b"-+ #0'");
    rest = number(rest, uses);
    if let Some(precision) = rest.strip_prefix(b".") {
        rest = number(precision, uses);
    }
    let modified = skip(rest, b"hlqLjzt");
    let is_long = rest.starts_with(b"l");
    let (kind, after) = modified.split_first()?;
    match kind {
        b'd' | b'i' | b'o' | b'u' | b'x' | b'X' | b'c' | b'e' | b'E' | b'f' | b'F' | b'g'
        | b'G' | b'a' | b'A' | b'p' => uses.push(Use::Value),
        b's' if !is_long => uses.push(Use::String),
        b'm' | b'%' => {}
        _ => return None,
    }
    Some(after)
}

/// A width or precision: digits, or an argument.
fn number<'f>(format: &'f [u8], uses: &mut Vec<Use>) -> &'f [u8] {
    match format.strip_prefix(b"*") {
        Some(after) => {
            uses.push(Use::Value);
            after
        }
        None => skip(format, b"0123456789"),
    }
}

fn skip<'f>(format: &'f [u8], any: &[u8]) -> &'f [u8] {
    let end = format.iter().position(|byte| !any.contains(byte));
    &format[end.unwrap_or(format.len())..]
}

#[cfg(test)]
mod tests {
    use super::Use::{String, Value};
    use super::*;

    #[test]
    fn arguments_are_counted_as_the_format_takes_them() {
        for (format, expected) in [
            ("", &[][..]),
            ("100%%\n", &[]),
            ("%s", &[String]),
            ("%d %s %p", &[Value, String, Value]),
            ("%-8.3s|%+05ld|%'zu", &[String, Value, Value]),
            ("%*.*s%Lf", &[Value, Value, String, Value]),
            ("%m: %hhx %lld", &[Value, Value]),
        ] {
            assert_eq!(
                uses(format.as_bytes()).as_deref(),
                Some(expected),
                "{format}"
            );
        }
    }

    #[test]
    fn what_is_not_understood_says_nothing() {
        for format in ["%ls", "%S", "%n", "%2$s", "%", "%l"] {
            assert_eq!(uses(format.as_bytes()), None, "{format}");
        }
    }
}
