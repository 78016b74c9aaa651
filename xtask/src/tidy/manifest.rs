//! Members inherit what the workspace decides: lints, edition, licence, versions.

use toml::Table;

use super::Finding;
use crate::tree::{File, Tree};

/// Keys of `[package]` that every member takes from the workspace.
const INHERITED: [&str; 5] = ["edition", "license", "publish", "rust-version", "version"];
const DEPENDENCY_TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// `lints.workspace = true` and the inherited keys.
pub(super) fn inherit(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, manifest) in members(tree) {
        if !from_workspace(manifest.get("lints")) {
            let what = "no `[lints] workspace = true`: the lints of the workspace hold everywhere";
            found.push(Finding::new(&file.path, 1, what));
        }
        let package = manifest.get("package").and_then(toml::Value::as_table);
        for key in INHERITED {
            if !from_workspace(package.and_then(|package| package.get(key))) {
                found.push(Finding::new(
                    &file.path,
                    line_with(&file.text, key),
                    format!("`{key}` is not inherited: write `{key}.workspace = true`"),
                ));
            }
        }
    }
    found
}

/// Versions and sources stand in `[workspace.dependencies]` and nowhere else.
pub(super) fn versions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, manifest) in members(tree) {
        for (name, spec) in dependencies(&manifest) {
            if !from_workspace(Some(spec)) {
                found.push(Finding::new(
                    &file.path,
                    line_with(&file.text, name),
                    format!("`{name}`: put its version in [workspace.dependencies] and inherit it"),
                ));
            }
        }
    }
    found
}

/// A `clippy.toml` inside a crate replaces the root's bans instead of adding to them.
pub(super) fn one_clippy(tree: &Tree) -> Vec<Finding> {
    let inner = tree
        .files
        .iter()
        .filter(|file| file.path.ends_with("/clippy.toml") || file.path.ends_with("/.clippy.toml"));
    inner
        .map(|file| {
            let what = "replaces the root's clippy.toml whole: move its lines there";
            Finding::new(&file.path, 1, what)
        })
        .collect()
}

fn members(tree: &Tree) -> Vec<(&File, Table)> {
    let manifests = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let parsed = manifests.filter_map(|file| Some((file, file.text.parse::<Table>().ok()?)));
    // A manifest with its own workspace (fuzz targets, probes) is no member.
    parsed.filter(|(_, manifest)| !manifest.contains_key("workspace")).collect()
}

fn dependencies(manifest: &Table) -> Vec<(&str, &toml::Value)> {
    let plain = std::iter::once(manifest);
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(Table::values).filter_map(toml::Value::as_table);
    plain
        .chain(of_targets)
        .flat_map(|table| DEPENDENCY_TABLES.iter().filter_map(|kind| table.get(*kind)?.as_table()))
        .flat_map(|table| table.iter().map(|(name, spec)| (name.as_str(), spec)))
        .collect()
}

fn from_workspace(value: Option<&toml::Value>) -> bool {
    value.and_then(|v| v.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
}

/// The first line that begins with `key`; 1 where there is none.
fn line_with(text: &str, key: &str) -> usize {
    text.lines().position(|line| line.starts_with(key)).map_or(1, |i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[package]
name = \"a\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true
[lints]
workspace = true
[dependencies]
serde.workspace = true
tokio = { workspace = true, features = [\"test-util\"] }
";

    #[test]
    fn a_member_that_inherits_passes() {
        let tree = Tree::of(&[("Cargo.toml", "[workspace]\n"), ("a/Cargo.toml", GOOD)]);
        assert_eq!(inherit(&tree), []);
        assert_eq!(versions(&tree), []);
        assert_eq!(one_clippy(&tree), []);
    }

    #[test]
    fn a_member_of_its_own_mind_is_found() {
        let bad = GOOD
            .replace("edition.workspace = true", "edition = \"2021\"")
            .replace("[lints]\nworkspace = true\n", "")
            .replace("serde.workspace = true", "serde = \"1\"");
        let tree = Tree::of(&[("a/Cargo.toml", &bad), ("a/clippy.toml", "")]);
        assert_eq!(inherit(&tree).len(), 2);
        assert_eq!(versions(&tree).iter().map(|f| f.line).collect::<Vec<_>>(), [9]);
        assert_eq!(one_clippy(&tree).len(), 1);
    }
}
