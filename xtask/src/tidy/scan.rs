//! A small scanner for Rust sources: enough to tell code from strings and comments, to match
//! braces, and to find functions and test code. It is no parser and needs none.

/// A source of the same length and lines as the original, with the content of every comment,
/// string and character literal blanked.
#[derive(Debug)]
pub(crate) struct Masked {
    pub(crate) code: String,
    /// For each line, whether it is test code.
    tests: Vec<bool>,
}

/// One function with a body; lines count from 1, both ends included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl Masked {
    /// Masks `text`; `all_tests` says that the whole file is test code by its place.
    pub(crate) fn new(text: &str, all_tests: bool) -> Self {
        let code = mask(text);
        let mut tests = vec![all_tests; code.lines().count()];
        for at in find_all(&code, "#[cfg(test)]").chain(find_all(&code, "#[cfg(all(test")) {
            let Some(end) = item_end(&code, at) else { continue };
            let (first, last) = (line_of(&code, at), line_of(&code, end));
            tests.iter_mut().take(last).skip(first - 1).for_each(|line| *line = true);
        }
        Self { code, tests }
    }

    /// Whether the line (from 1) is test code.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.tests.get(line.wrapping_sub(1)).copied().unwrap_or(false)
    }

    /// Lines with their numbers from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(i, line)| (i + 1, line))
    }

    /// Every function that has a body, nested ones too.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let code = &self.code;
        let found = find_words(code, "fn").filter_map(|at| {
            let name: String = code.get(at + 2..)?.trim_start().chars().take_while(ident).collect();
            if name.is_empty() {
                return None; // a function pointer type
            }
            let open = body_start(code, at)?;
            let close = matching(code, open)?;
            Some(Function { name, first: line_of(code, at), last: line_of(code, close) })
        });
        found.collect()
    }
}

/// Where `word` stands alone, as byte offsets.
pub(crate) fn find_words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    find_all(code, word).filter(move |&at| {
        let before = code.get(..at).and_then(|s| s.chars().next_back());
        let after = code.get(at + word.len()..).and_then(|s| s.chars().next());
        !before.is_some_and(|c| ident(&c)) && !after.is_some_and(|c| ident(&c))
    })
}

/// Every place of `needle`, as byte offsets.
pub(crate) fn find_all<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(needle).map(|(at, _)| at)
}

/// The line (from 1) of a byte offset.
pub(crate) fn line_of(code: &str, at: usize) -> usize {
    code.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1
}

/// The bracket that closes the one at `open`.
pub(crate) fn matching(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

pub(crate) fn ident(c: &char) -> bool {
    c.is_alphanumeric() || *c == '_'
}

/// The brace that opens the body of the function at `at`; none for a declaration.
fn body_start(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' if depth == 0 => return Some(i),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Where the item after the attribute at `at` ends: its closing brace, or its semicolon.
fn item_end(code: &str, at: usize) -> Option<usize> {
    let mut i = at;
    while code.get(i..)?.starts_with('#') {
        let open = i + code.get(i..)?.find('[')?;
        let close = matching(code, open)? + 1;
        let rest = code.get(close..)?;
        i = close + (rest.len() - rest.trim_start().len());
    }
    match body_start(code, i) {
        Some(open) => matching(code, open),
        None => Some(i + code.get(i..)?.find(';')?),
    }
}

/// Blanks comments and literals; newlines and the quotes themselves stay.
fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut i = 0;
    while let Some(&byte) = bytes.get(i) {
        let rest = bytes.get(i..).unwrap_or_default();
        let (skip, keep) = match byte {
            b'/' if rest.starts_with(b"//") => (until_newline(rest), 0),
            b'/' if rest.starts_with(b"/*") => (block_comment(rest), 0),
            b'"' => (string(rest), 1),
            b'r' if !after_ident(bytes, i) => raw_string(rest).map_or((1, 1), |n| (n, 0)),
            b'\'' => char_literal(rest).map_or((1, 1), |n| (n, 1)),
            _ => (1, 1),
        };
        // A literal keeps its first and last byte, a comment nothing, anything else all.
        let inner = if skip > 1 { i + keep..i + skip - keep } else { 0..0 };
        if let Some(blank) = out.get_mut(inner) {
            blank.iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        }
        i += skip;
    }
    // Blanking replaced whole characters, so what is left is still UTF-8.
    String::from_utf8(out).unwrap_or_default()
}

fn after_ident(bytes: &[u8], i: usize) -> bool {
    let before = i.checked_sub(1).and_then(|j| bytes.get(j)).copied().unwrap_or(b' ');
    // `br"..."` and `cr"..."` are raw strings as well.
    (before.is_ascii_alphanumeric() && before != b'b' && before != b'c') || before == b'_'
}

fn until_newline(rest: &[u8]) -> usize {
    rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut i = 0;
    while i < rest.len() {
        let here = rest.get(i..).unwrap_or_default();
        if here.starts_with(b"/*") {
            depth += 1;
            i += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut i = 1;
    while let Some(byte) = rest.get(i) {
        match byte {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest.iter().skip(1).take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = rest.get(2 + hashes..)?;
    let end = body.windows(close.len()).position(|window| window == close);
    Some(end.map_or(rest.len(), |at| 2 + hashes + at + close.len()))
}

/// The length of a character literal; none for a lifetime.
fn char_literal(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|b| *b == b'\'')?;
        return Some(end + 4);
    }
    let text = std::str::from_utf8(rest.get(1..rest.len().min(6))?);
    let width = match text {
        Ok(text) => text.chars().next()?.len_utf8(),
        Err(e) if e.valid_up_to() > 0 => {
            let valid = rest.get(1..=e.valid_up_to())?;
            std::str::from_utf8(valid).ok()?.chars().next()?.len_utf8()
        }
        Err(_) => return None,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

#[cfg(test)]
mod tests;
