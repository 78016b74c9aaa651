//! Words and names that have no place in the tree.

use super::Finding;
use super::scan::find_words;
use crate::tree::Tree;

/// Text that must not be in any file, and what to do. In two halves, so that this file does not
/// find itself. Case does not matter.
const BANNED: [(&str, &str); 12] = [
    (concat!("/wo", "rk/"), "no path of one machine: say it from the root"),
    (concat!("/ro", "ot/"), "no path of one machine: say it from the root"),
    (concat!("index.cra", "tes.io"), "name the package, not the registry's host"),
    (concat!("static.cra", "tes.io"), "name the package, not the registry's host"),
    (concat!("py", "pi.org"), "name the package, not the registry's host"),
    (concat!("pythonhost", "ed.org"), "name the package, not the registry's host"),
    (concat!("registry.np", "mjs.org"), "name the package, not the registry's host"),
    (concat!("deb.deb", "ian.org"), "name the package, not the registry's host"),
    (concat!("\"reso", "lved\": \"http"), "keep lock files free of download addresses"),
    (concat!("language ", "model"), "say what the code does, not who wrote it"),
    (concat!("generated ", "by ai"), "say what the code does, not who wrote it"),
    (concat!("co-auth", "ored-by"), "say what the code does, not who wrote it"),
];

/// Words the glossary replaces, in Rust files and documents.
const REPLACED: [(&str, &str); 6] = [
    (concat!("pass", "ivate"), "hibernate"),
    (concat!("pass", "ivation"), "hibernation"),
    (concat!("sl", "ave"), "replica"),
    (concat!("white", "list"), "allow list"),
    (concat!("black", "list"), "deny list"),
    (concat!("gr", "ain"), "object, or activation"),
];

/// File and folder names that say nothing.
const EMPTY_NAMES: [&str; 7] = ["util", "utils", "helper", "helpers", "common", "misc", "stuff"];

/// Files kept as they came: licences and lock files written by tools.
const AS_THEY_ARE: [&str; 3] = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| !AS_THEY_ARE.contains(&file.path.as_str())) {
        for (i, line) in file.text.lines().enumerate() {
            let lower = line.to_ascii_lowercase();
            let banned = BANNED.iter().filter(|(text, _)| lower.contains(text));
            let replaced = REPLACED
                .iter()
                .filter(|_| file.path.ends_with(".rs") || file.path.ends_with(".md"))
                .filter(|(word, _)| find_words(&lower, word).next().is_some());
            found.extend(
                banned
                    .map(|(text, what)| format!("`{text}`: {what}"))
                    .chain(replaced.map(|(word, better)| format!("`{word}`: say {better}")))
                    .map(|what| Finding::new(&file.path, i + 1, what)),
            );
        }
    }
    found
}

/// No `utils` and its kin: a module is named for what it holds.
pub(super) fn names(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, _) in tree.rust() {
        let mut parts = file.path.trim_end_matches(".rs").split('/');
        if let Some(part) = parts.find(|part| EMPTY_NAMES.contains(part)) {
            let what = format!("`{part}` says nothing: name the module for what it holds");
            found.push(Finding::new(&file.path, 1, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_text_is_found_in_every_kind_of_file() {
        let path = BANNED.first().unwrap().0;
        let host = BANNED.get(4).unwrap().0.to_ascii_uppercase();
        let tree = Tree::of(&[
            ("a.rs", &format!("// see {path}main\n")),
            ("b.sh", &format!("\ncurl {host}\n")),
            ("c.md", "the network is the machine's\n"),
            ("Cargo.lock", &format!("{path}\n")),
        ]);
        let places: Vec<(String, usize)> =
            check(&tree).into_iter().map(|f| (f.path, f.line)).collect();
        assert_eq!(places, [("a.rs".to_owned(), 1), ("b.sh".to_owned(), 2)]);
    }

    #[test]
    fn the_glossary_replaces_whole_words_only() {
        let word = REPLACED.last().unwrap().0;
        let tree = Tree::of(&[("a.md", &format!("a {word}\nfine-{word}ed\n"))]);
        assert_eq!(check(&tree).iter().map(|f| f.line).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn empty_names_are_found_as_file_and_as_folder() {
        let tree = Tree::of(&[
            ("a/src/utils.rs", ""),
            ("a/tests/common/mod.rs", ""),
            ("a/src/uncommon.rs", ""),
        ]);
        assert_eq!(names(&tree).len(), 2);
    }
}
