//! The index of `docs/errors/`: one line for each page, from the page itself.

use std::fmt::Write as _;
use std::path::Path;

use crate::tidy::PAGES;
use crate::tree::Tree;

const HEAD: &str = "\
# Error codes

A refused call is a tool result with `isError: true` whose text is
`{\"error\":CODE,\"message\":TEXT,\"retryable\":BOOL}`, with `retryAfterMs`, `field`, `limit` or
`fields` where they apply. Programs decide by the code; the message may change. A code has one
meaning and is never used again for another.

Written by `cargo xtask golden` from the pages; edit those.

| code | class | repeat the same call? | what it means |
|---|---|---|---|
";

/// The text of `docs/errors/README.md`.
pub(super) fn index(root: &Path) -> Result<String, String> {
    of(&Tree::read(root)?)
}

fn of(tree: &Tree) -> Result<String, String> {
    let mut text = HEAD.to_owned();
    for file in tree.files.iter().filter(|file| file.path.starts_with(PAGES)) {
        let name = file.path.trim_start_matches(PAGES);
        if name == "README.md" {
            continue;
        }
        let page = Page::parse(&file.text)
            .ok_or_else(|| format!("{}: wants a title, Class, Repeat and a sentence", file.path))?;
        let Page { code, class, repeat, sentence } = page;
        writeln!(text, "| [`{code}`]({name}) | {class} | {repeat} | {sentence} |")
            .map_err(|e| e.to_string())?;
    }
    Ok(text)
}

/// What the index takes from a page.
struct Page<'a> {
    code: &'a str,
    class: &'a str,
    /// `yes`, `no` or `after the time given`: up to the first full stop.
    repeat: &'a str,
    /// The first paragraph of "What happened", on one line.
    sentence: String,
}

impl<'a> Page<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let after = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let repeat = after("Repeat: ")?;
        let happened = text.lines().skip_while(|line| *line != "## What happened").skip(1);
        let paragraph = happened.skip_while(|line| line.is_empty()).take_while(|l| !l.is_empty());
        let sentence = paragraph.collect::<Vec<_>>().join(" ");
        Some(Self {
            code: after("# ")?,
            class: after("Class: ")?.trim_end_matches('.'),
            repeat: repeat.split(['.', ',']).next()?,
            sentence: Some(sentence).filter(|s| !s.is_empty())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# room_full

Class: limit.
Repeat: yes, once somebody has left.

## What happened

The room has
no free seat.

## What to do

Wait.
";

    #[test]
    fn the_index_has_a_row_for_each_page() {
        let tree =
            Tree::of(&[("docs/errors/README.md", "old"), ("docs/errors/room_full.md", PAGE)]);
        let text = of(&tree).unwrap();
        let row = "| [`room_full`](room_full.md) | limit | yes | The room has no free seat. |\n";
        assert!(text.ends_with(row), "{text}");
    }

    #[test]
    fn a_page_without_its_class_is_named() {
        let bad = PAGE.replace("Class: limit.\n", "");
        let tree = Tree::of(&[("docs/errors/room_full.md", &bad)]);
        assert!(of(&tree).is_err_and(|e| e.contains("docs/errors/room_full.md")));
    }
}
