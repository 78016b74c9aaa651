//! The files of the project, as git sees them: tracked, and new ones that are not ignored.

use std::path::Path;

use crate::child;
use crate::tidy::scan::Masked;

/// One text file.
#[derive(Debug)]
pub(crate) struct File {
    /// From the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// For Rust only.
    pub(crate) rust: Option<Masked>,
}

/// Everything the rules look at.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Reads the work tree. Files that are no UTF-8 are left out.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let args = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
        let listed = child::output(root, "git", &args)?;
        let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let read = |path: &&str| {
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(File::new(path, &text))
        };
        Ok(Self { files: paths.iter().filter_map(read).collect() })
    }

    /// A tree from paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| File::new(path, text)).collect() }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file of the tree or a folder with at least one.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// The Rust files with their masked text.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Masked)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        let rust = path.ends_with(".rs").then(|| Masked::new(text, is_test_path(path)));
        Self { path: path.to_owned(), text: text.to_owned(), rust }
    }
}

/// Whether the whole file is test code, by its place.
fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_known_by_their_place() {
        for (path, want) in [
            ("room/tests/model.rs", true),
            ("room/src/wait/tests.rs", true),
            ("room/src/wait/tests/table.rs", true),
            ("room-node/benches/store.rs", true),
            ("room/src/contests.rs", false),
        ] {
            assert_eq!(is_test_path(path), want, "{path}");
        }
    }

    #[test]
    fn a_folder_is_there_when_a_file_in_it_is() {
        let tree = Tree::of(&[("a/b/c.md", "")]);
        assert!(tree.has("a/b/c.md") && tree.has("a/b") && tree.has("a/") && !tree.has("a/bb"));
    }
}
