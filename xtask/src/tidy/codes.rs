//! Every refusal code a client can meet has a page and is met by a test.
//!
//! A code is a row of the room's table, or a string beside a class (`Class::Limit, "room_full"`) in
//! code that is no test.

use std::collections::BTreeMap;

use super::Finding;
use super::scan::{find_words, ident, line_of};
use crate::tree::Tree;

/// Where refusals are made.
const FOLDERS: [&str; 5] =
    ["object/src/", "room/src/", "room-node/src/", "gateway/src/", "standalone/src/"];

/// Where the pages are: `docs/errors/CODE.md`.
pub(crate) const PAGES: &str = "docs/errors/";
/// The index of the pages is no page.
const INDEX: &str = "docs/errors/README.md";

/// The room's table: `RoomFull = "room_full", Limit, true, Room, ...` rows.
const TABLE: &str = "room/src/reject/codes.rs";
/// The origin of rows that nobody gives any more: they keep a page, but no test can meet them.
const NEVER_GIVEN: &str = "Unused";

/// Classes that end at the gateway, which follows or repeats: a code beside one is what a client
/// reads should the gateway give up.
const INTERNAL: [&str; 3] = ["NotOwner", "Fenced", "WrongRegion"];

/// A code with the class and the place where it is made first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Code {
    pub(crate) class: String,
    path: String,
    line: usize,
    /// Whether the very same call may succeed later, where the table says so.
    repeat: Option<bool>,
    /// Whether any code can still give it.
    given: bool,
}

/// All codes of the tree, by name; the table's row counts before any other place.
pub(crate) fn codes(tree: &Tree) -> BTreeMap<String, Code> {
    let mut codes = BTreeMap::new();
    for (name, code) in places(tree) {
        codes.entry(name).or_insert(code);
    }
    codes
}

/// Every place where a code is paired with its class, the table's rows first.
fn places(tree: &Tree) -> Vec<(String, Code)> {
    let mut places = tree.get(TABLE).map_or_else(Vec::new, |file| table(&file.text));
    for (file, masked) in tree.rust() {
        if !FOLDERS.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        for at in find_words(&masked.code, "Class") {
            let line = line_of(&masked.code, at);
            let Some((class, code)) = pair(&masked.code, &file.text, at) else { continue };
            if !masked.is_test(line) && !INTERNAL.contains(&class) {
                let (path, class) = (file.path.clone(), class.to_owned());
                places
                    .push((code.to_owned(), Code { class, path, line, repeat: None, given: true }));
            }
        }
    }
    places
}

/// A code has one class, wherever it is made.
pub(super) fn classes(tree: &Tree) -> Vec<Finding> {
    let codes = codes(tree);
    let mut found = Vec::new();
    for (name, code) in places(tree) {
        if let Some(first) = codes.get(&name).filter(|first| first.class != code.class) {
            let Code { class, path, line, .. } = first;
            let what = format!(
                "`{name}` is {} here and {class} in {path}:{line}: a code has one class",
                code.class
            );
            found.push(Finding::new(&code.path, code.line, what));
        }
    }
    found
}

/// The rows of the room's table.
fn table(text: &str) -> Vec<(String, Code)> {
    let rows = text.lines().enumerate().filter_map(|(i, line)| {
        let (_, row) = line.trim_start().split_once(" = \"")?;
        let (code, rest) = row.split_once("\", ")?;
        let mut words = rest.split(", ").map(|word| word.trim_end_matches(','));
        let (class, repeat, origin) = (words.next()?, words.next()?, words.next()?);
        let code_here = Code {
            class: class.to_owned(),
            path: TABLE.to_owned(),
            line: i + 1,
            repeat: repeat.parse().ok(),
            given: origin != NEVER_GIVEN,
        };
        Some((code.to_owned(), code_here))
    });
    rows.collect()
}

/// The class at `at` with the string before or after it.
fn pair<'a>(code: &'a str, text: &'a str, at: usize) -> Option<(&'a str, &'a str)> {
    let after = code.get(at..)?.strip_prefix("Class::")?;
    let class = after.get(..after.find(|c| !ident(&c))?)?;
    let end = at + "Class::".len() + class.len();
    let is_code = |s: &&str| {
        !s.is_empty()
            && s.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit())
    };
    let following = || {
        let rest = code.get(end..)?.trim_start().strip_prefix(',')?.trim_start();
        let rest = rest.strip_prefix("code:").unwrap_or(rest).trim_start();
        let open = code.len() - rest.strip_prefix('"')?.len();
        let close = open + code.get(open..)?.find('"')?;
        text.get(open..close).filter(is_code)
    };
    let preceding = || {
        let rest = code.get(..at)?.trim_end();
        let rest = rest.strip_suffix("class:").unwrap_or(rest).trim_end();
        let close = rest.strip_suffix(',')?.trim_end().strip_suffix('"')?.len();
        let open = code.get(..close)?.rfind('"')? + 1;
        // The result of a match arm belongs to the arm before it.
        if code.get(..open - 1)?.trim_end().ends_with("=>") {
            return None;
        }
        text.get(open..close).filter(is_code)
    };
    Some((class, following().or_else(preceding)?))
}

/// Codes without a page, and pages without a code.
pub(super) fn pages(tree: &Tree) -> Vec<Finding> {
    let codes = codes(tree);
    let mut found = Vec::new();
    for (name, code) in &codes {
        let page = format!("{PAGES}{name}.md");
        let mut want = format!("# {name}\n\nClass: {}.\n", spaced(&code.class));
        if let Some(repeat) = code.repeat {
            want.push_str(if repeat { "Repeat: yes" } else { "Repeat: no" });
        }
        let page_is_right = tree.get(&page).is_some_and(|file| file.text.starts_with(&want));
        if !page_is_right {
            let want = want.replace("\n\n", " / ").replace('\n', " / ");
            let what = format!("`{name}`: {page} must be there and begin with `{}`", want.trim());
            found.push(Finding::new(&code.path, code.line, what));
        }
    }
    let pages = tree.files.iter().filter(|file| file.path.starts_with(PAGES) && file.path != INDEX);
    let stale = pages.filter(|file| {
        let name = file.path.trim_start_matches(PAGES).trim_end_matches(".md");
        !codes.contains_key(name)
    });
    found.extend(stale.map(|file| {
        Finding::new(&file.path, 1, "no code of this name is ever given: delete the page")
    }));
    found
}

/// Codes that no test names, as a string or by its constant or constructor.
pub(super) fn tested(tree: &Tree) -> Vec<Finding> {
    let mut tests = String::new();
    for (file, masked) in tree.rust() {
        let lines = file.text.lines().enumerate().filter(|(i, _)| masked.is_test(i + 1));
        lines.for_each(|(_, line)| {
            tests.push_str(line);
            tests.push('\n');
        });
    }
    let named = |name: &str| find_words(&tests, name).next().is_some();
    let untested = codes(tree).into_iter().filter(|(name, code)| {
        code.given && !named(name) && !named(&name.to_ascii_uppercase()) && !named(&camel(name))
    });
    untested
        .map(|(name, code)| {
            let what = format!("no test names `{name}`: add a row to a table");
            Finding::new(&code.path, code.line, what)
        })
        .collect()
}

/// `TooFast` as pages say it: `too fast`.
fn spaced(class: &str) -> String {
    let mut words = String::new();
    for c in class.chars() {
        if c.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

/// `room_full` as a variant: `RoomFull`.
fn camel(name: &str) -> String {
    let mut words = String::new();
    for word in name.split('_') {
        let mut letters = word.chars();
        words.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        words.push_str(letters.as_str());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
const A: Reject = Reject::new(Class::Limit, \"room_full\", \"Full.\", true);
const B: Refusal = Self::new(
    Class::TooFast,
    \"rate_limited\",
    \"Too \\\" many.\",
    true,
);
const C: [(&str, Class); 1] = [(\"text_required\", Class::Invalid)];
const D: Reject = Reject { class: Class::Gone, code: \"already_left\", message };
match class { Class::Limit => \"limit\", Class::Gone => \"gone\" }
// Class::Limit, \"in_a_comment\"
#[cfg(test)]
mod tests {
    const T: Reject = Reject::new(Class::Limit, \"made_up\", \"\", true);
    fn t() { check(\"room_full\", RATE_LIMITED); }
}
";

    #[test]
    fn codes_are_found_beside_their_class() {
        let found = codes(&Tree::of(&[("room/src/a.rs", SOURCE), ("xtask/src/a.rs", SOURCE)]));
        let names: Vec<(&str, &str, usize)> =
            found.iter().map(|(n, c)| (n.as_str(), c.class.as_str(), c.line)).collect();
        let want = [
            ("already_left", "Gone", 9),
            ("rate_limited", "TooFast", 3),
            ("room_full", "Limit", 1),
            ("text_required", "Invalid", 8),
        ];
        assert_eq!(names, want);
    }

    #[test]
    fn a_code_wants_a_page_and_a_page_a_code() {
        let pages_of = |page: &str| {
            let line = "const A: Reject = new(Class::TooFast, \"room_full\");";
            let text = "# room_full\n\nClass: too fast.\n";
            let tree = Tree::of(&[("room/src/a.rs", line), (page, text), (INDEX, "")]);
            pages(&tree).into_iter().map(|f| f.path).collect::<Vec<_>>()
        };
        assert_eq!(pages_of("docs/errors/room_full.md"), Vec::<String>::new());
        assert_eq!(pages_of("docs/errors/gone.md"), ["room/src/a.rs", "docs/errors/gone.md"]);
    }

    #[test]
    fn a_code_has_one_class() {
        let a = "const A: Reject = new(Class::Limit, \"room_full\");";
        let b = "const B: Reject = new(Class::Conflict, \"room_full\");";
        assert_eq!(classes(&Tree::of(&[("room/src/a.rs", a), ("room/src/b.rs", a)])), []);
        assert_eq!(classes(&Tree::of(&[("room/src/a.rs", a), ("room/src/b.rs", b)])).len(), 1);
    }

    #[test]
    fn a_code_wants_a_test() {
        let found = tested(&Tree::of(&[("room/src/a.rs", SOURCE)]));
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [9, 8]);
    }

    #[test]
    fn the_rooms_table_is_read_and_its_dead_rows_want_no_test() {
        let source = "\
codes! {
    RoomFull = \"room_full\", Conflict, true, Room,
        \"Try again, later.\";
    TextRequired = \"text_required\", Invalid, false, Unused,
        \"A text is required.\";
    RoomExpired = \"room_expired\", Gone, false, Room, \"Gone.\";
}
";
        let test = "fn t() { check(Code::RoomExpired); }\n";
        let tree = Tree::of(&[(TABLE, source), ("room/src/a/tests.rs", test)]);
        let found = codes(&tree);
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            ["room_expired", "room_full", "text_required"]
        );
        assert_eq!(found.get("room_full").map(|code| code.class.as_str()), Some("Conflict"));
        assert_eq!(tested(&tree).iter().map(|f| f.line).collect::<Vec<_>>(), [2]);
        assert_eq!(pages(&tree).len(), 3);
    }
}
