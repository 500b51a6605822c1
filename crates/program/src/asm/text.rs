//! Cutting the text of a statement into instructions.

/// One instruction or directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// `lock`, `rep` and the like, in lower case.
    pub prefixes: Vec<String>,
    /// In lower case; a directive starts with a dot; empty for a label alone.
    pub mnemonic: String,
    pub operands: Vec<String>,
    /// A label stands before it.
    pub labelled: bool,
}

const PREFIXES: [&str; 13] = [
    "lock", "rep", "repe", "repz", "repne", "repnz", "data16", "rex64", "rex.w", "notrack", "bnd",
    "cs", "ds",
];

/// The instructions of a statement, with LLVM's escapes resolved: `$$` is a dollar sign, and of
/// `$(a$|b$)` the first alternative is taken, which is the AT&T one.
pub fn instructions(text: &str) -> Vec<Instruction> {
    let text = first_alternatives(&without_block_comments(text));
    let mut found = Vec::new();
    for line in text.split('\n') {
        // `#` starts a comment of GNU as on x86; so does `//`.
        let line = line.split('#').next().unwrap_or_default();
        let line = line.split("//").next().unwrap_or_default();
        for statement in line.split(';') {
            found.extend(instruction(statement.trim(), &mut Vec::new()));
        }
    }
    join_prefixes(found)
}

fn without_block_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once("/*") {
        kept.push_str(head);
        rest = tail.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

fn first_alternatives(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once("$(") {
        kept.push_str(head);
        let (inside, after) = tail.split_once("$)").unwrap_or((tail, ""));
        kept.push_str(inside.split("$|").next().unwrap_or_default());
        rest = after;
    }
    kept + rest
}

fn instruction(statement: &str, prefixes: &mut Vec<String>) -> Option<Instruction> {
    let (statement, labelled) = without_labels(statement);
    if statement.is_empty() && !labelled {
        return None;
    }
    let mut rest = statement;
    loop {
        let (word, tail) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let word = word.to_ascii_lowercase();
        if PREFIXES.contains(&word.as_str()) {
            prefixes.push(word);
            rest = tail.trim_start();
            continue;
        }
        return Some(Instruction {
            prefixes: std::mem::take(prefixes),
            mnemonic: word,
            operands: split_operands(tail),
            labelled,
        });
    }
}

/// Strips `1:` and `name:` from the front. LLVM writes unique labels as `name${:uid}:`.
fn without_labels(statement: &str) -> (&str, bool) {
    let mut rest = statement;
    let mut found = false;
    while let Some(end) = label_end(rest) {
        rest = rest[end..].trim_start();
        found = true;
    }
    (rest, found)
}

fn label_end(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ':' if depth == 0 => {
                // `%fs:0` and `fs:[0]` are segments, not labels.
                let segment = text[..at].trim_start_matches('%');
                return (!matches!(segment, "fs" | "gs" | "cs" | "ds" | "es" | "ss"))
                    .then_some(at + 1);
            }
            c if c.is_whitespace() || matches!(c, ',' | '(' | '[' | '%') => return None,
            _ => {}
        }
    }
    None
}

/// Splits at commas outside of brackets.
fn split_operands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut depth = 0;
    let mut current = String::new();
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(std::mem::take(&mut current).trim().to_owned());
                continue;
            }
            _ => {}
        }
        current.push(c);
    }
    if !current.trim().is_empty() {
        found.push(current.trim().to_owned());
    }
    found
}

/// `lock; addl …` is one instruction in two statements.
fn join_prefixes(instructions: Vec<Instruction>) -> Vec<Instruction> {
    let mut joined: Vec<Instruction> = Vec::new();
    let mut waiting: Vec<String> = Vec::new();
    for mut instruction in instructions {
        if instruction.mnemonic.is_empty() && !instruction.prefixes.is_empty() {
            waiting.append(&mut instruction.prefixes);
            continue;
        }
        waiting.append(&mut instruction.prefixes);
        instruction.prefixes = std::mem::take(&mut waiting);
        joined.push(instruction);
    }
    joined
}
