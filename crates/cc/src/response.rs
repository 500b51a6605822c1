//! `@file` arguments, expanded to see what they ask for. Clang gets them as they were.
//!
//! The syntax is clang's on Unix (LLVM's `TokenizeGNUCommandLine`): tokens end at white space, a
//! backslash keeps the next byte, and both kinds of quotes keep white space and still know the
//! backslash. A file that cannot be read, or that includes itself, stays as the argument it is;
//! clang has the word on what that means. `--rsp-quoting=windows` is not known here.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Replaces every `@file` by the arguments in it, nested ones too. `read` returns a file's content.
pub fn expand(
    arguments: &[OsString],
    read: &mut dyn FnMut(&OsStr) -> Option<Vec<u8>>,
) -> Vec<OsString> {
    let mut expanded = Vec::with_capacity(arguments.len());
    let mut open = Vec::new();
    expand_into(arguments, read, &mut open, &mut expanded);
    expanded
}

fn expand_into(
    arguments: &[OsString],
    read: &mut dyn FnMut(&OsStr) -> Option<Vec<u8>>,
    open: &mut Vec<OsString>,
    expanded: &mut Vec<OsString>,
) {
    for argument in arguments {
        let content = argument
            .as_bytes()
            .strip_prefix(b"@")
            .map(OsStr::from_bytes)
            .filter(|file| !open.iter().any(|outer| outer == file))
            .and_then(|file| Some((file, read(file)?)));
        match content {
            Some((file, content)) => {
                open.push(file.to_owned());
                expand_into(&tokens(&content), read, open, expanded);
                open.pop();
            }
            None => expanded.push(argument.clone()),
        }
    }
}

/// Splits the content of a response file.
fn tokens(content: &[u8]) -> Vec<OsString> {
    let content = content
        .strip_prefix(b"\xef\xbb\xbf".as_slice())
        .unwrap_or(content);
    let mut found = Vec::new();
    let mut token: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = content.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if bytes.peek().is_some() => {
                token.get_or_insert_default().extend(bytes.next());
            }
            _ if quote == Some(byte) => quote = None,
            b'"' | b'\'' if quote.is_none() => {
                quote = Some(byte);
                token.get_or_insert_default();
            }
            b' ' | b'\t' | b'\r' | b'\n' | 0 if quote.is_none() => {
                found.extend(token.take().map(OsString::from_vec));
            }
            _ => token.get_or_insert_default().push(byte),
        }
    }
    found.extend(token.map(OsString::from_vec));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: &[&str], files: &[(&str, &str)]) -> Vec<String> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let mut read = |name: &OsStr| {
            let (_, content) = files.iter().find(|(file, _)| *file == name)?;
            Some(content.as_bytes().to_vec())
        };
        expand(&arguments, &mut read)
            .into_iter()
            .map(|argument| argument.into_string().unwrap())
            .collect()
    }

    #[test]
    fn files_are_expanded_in_place_and_nested() {
        let files = [
            ("a", "-c\n@b  x.c"),
            ("b", "-o \"out put.o\"\t-DX='a b' y\\ z.c"),
        ];
        assert_eq!(
            expanded(&["-O2", "@a", "-g"], &files),
            [
                "-O2",
                "-c",
                "-o",
                "out put.o",
                "-DX=a b",
                "y z.c",
                "x.c",
                "-g"
            ],
        );
    }

    #[test]
    fn quotes_know_the_backslash_and_may_be_empty() {
        let files = [("a", r#"'it\'s' "a\"b" "" a'b'c \"#)];
        assert_eq!(expanded(&["@a"], &files), ["it's", "a\"b", "", "abc", "\\"]);
    }

    #[test]
    fn an_open_quote_ends_with_the_file() {
        assert_eq!(expanded(&["@a"], &[("a", "-c 'x y")]), ["-c", "x y"]);
    }

    #[test]
    fn missing_and_recursive_files_stay_as_they_are() {
        let files = [("a", "x.c @a")];
        assert_eq!(
            expanded(&["@a", "@none", "@"], &files),
            ["x.c", "@a", "@none", "@"]
        );
    }
}
