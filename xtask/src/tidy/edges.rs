//! Who may depend on whom, read from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::Finding;
use crate::tree::Tree;

/// Pairs that never depend on one another, in this direction, however indirectly; `*` is any
/// member.
const FORBIDDEN: [(&str, &str, &str); 13] = [
    ("gateway", "room-node", "the two meet on the wire only (proto)"),
    ("room-node", "gateway", "the two meet on the wire only (proto)"),
    ("object", "*", "the contract depends on nothing of ours"),
    ("proto", "room", "wire types know no rooms"),
    ("proto", "room-node", "wire types know no node"),
    ("proto", "gateway", "wire types know no edge"),
    ("membership", "object", "membership knows members and buckets, no objects"),
    ("membership", "room-node", "both halves build on membership, not the other way"),
    ("membership", "gateway", "both halves build on membership, not the other way"),
    ("redis-link", "*", "links know Redis and nothing of ours"),
    ("process", "*", "what every program does the same knows no program"),
    ("loadtest", "*", "the load tester is a black box"),
    ("xtask", "*", "the tasks must build when nothing else does"),
];

/// The only crates that may depend on both halves.
const COMPOSERS: [&str; 2] = ["standalone", "sim"];

/// Everything a pure crate may name in its `[dependencies]`.
const PURE: [(&str, &[&str]); 2] = [
    ("object", &["serde", "thiserror"]),
    ("room", &["object", "prost", "schemars", "serde", "serde_json", "thiserror", "xxhash-rust"]),
];

/// Crates that must not be reached from a pure crate even through others: clocks, IO, runtimes,
/// randomness.
const NEVER_REACHED: [&str; 16] = [
    "async-trait",
    "chrono",
    "fastrand",
    "futures-util",
    "getrandom",
    "h2",
    "hyper",
    "mio",
    "rand",
    "redis",
    "rustix",
    "socket2",
    "time",
    "tokio",
    "tonic",
    "tracing",
];

/// The packages that the workspace resolves to.
#[derive(Debug, Default)]
pub(super) struct Graph {
    members: Vec<Package>,
    /// Name to names, over normal and build edges of every package, members and others.
    edges: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct Package {
    name: String,
    manifest: String,
    /// Named in `[dependencies]`.
    normal: Vec<String>,
    /// Sources of its libraries and binaries, from the root.
    crate_roots: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetaPackage>,
    workspace_members: Vec<String>,
    workspace_root: String,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct MetaPackage {
    name: String,
    id: String,
    manifest_path: String,
    dependencies: Vec<MetaDependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct MetaDependency {
    name: String,
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<NodeDep>,
}

#[derive(Deserialize)]
struct NodeDep {
    pkg: String,
    dep_kinds: Vec<DepKind>,
}

#[derive(Deserialize)]
struct DepKind {
    kind: Option<String>,
}

impl Graph {
    /// Reads the output of `cargo metadata --format-version 1`.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        let meta: Metadata = serde_json::from_str(json)
            .map_err(|e| format!("cargo metadata is not what it was: {e}"))?;
        let names: BTreeMap<&str, &str> =
            meta.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect();
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in &meta.resolve.nodes {
            let from = names.get(node.id.as_str()).copied().unwrap_or_default();
            let normal = node.deps.iter().filter(|d| d.dep_kinds.iter().any(|k| k.kind.is_none()));
            let to = normal.filter_map(|dep| names.get(dep.pkg.as_str()));
            edges.entry(from.to_owned()).or_default().extend(to.map(|name| (*name).to_owned()));
        }
        let members = meta.packages.iter().filter(|p| meta.workspace_members.contains(&p.id));
        let members = members.map(|p| Package::new(p, &meta.workspace_root)).collect();
        Ok(Self { members, edges })
    }

    /// Every package reached from `name` over normal dependencies, without itself.
    fn reached(&self, name: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut next = vec![name];
        while let Some(at) = next.pop() {
            for to in self.edges.get(at).into_iter().flatten() {
                if seen.insert(to.as_str()) {
                    next.push(to);
                }
            }
        }
        seen
    }

    fn is_member(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name)
    }
}

impl Package {
    fn new(package: &MetaPackage, root: &str) -> Self {
        let below =
            |path: &str| path.strip_prefix(root).unwrap_or(path).trim_start_matches('/').to_owned();
        let normal = package.dependencies.iter().filter(|dep| dep.kind.is_none());
        let roots = package.targets.iter().filter(|target| {
            target.kind.iter().any(|kind| kind == "lib" || kind == "bin" || kind == "proc-macro")
        });
        Self {
            name: package.name.clone(),
            manifest: below(&package.manifest_path),
            normal: normal.map(|dep| dep.name.clone()).collect(),
            crate_roots: roots.map(|target| below(&target.src_path)).collect(),
        }
    }
}

/// Forbidden edges between members.
pub(super) fn members(graph: &Graph) -> Vec<Finding> {
    let mut found = Vec::new();
    for member in &graph.members {
        let reached = graph.reached(&member.name);
        for (from, to, why) in FORBIDDEN.iter().filter(|(from, _, _)| *from == member.name) {
            let hit = if *to == "*" {
                reached.iter().find(|name| graph.is_member(name)).copied()
            } else {
                reached.get(to).copied()
            };
            if let Some(hit) = hit {
                let what = format!("{from} reaches {hit}: {why}; remove the dependency");
                found.push(Finding::new(&member.manifest, 1, what));
            }
        }
        let both = reached.contains("gateway") && reached.contains("room-node");
        if both && !COMPOSERS.contains(&member.name.as_str()) {
            let what = "depends on gateway and on room-node: only the composition may";
            found.push(Finding::new(&member.manifest, 1, what));
        }
    }
    found
}

/// Pure crates name only what the table allows and reach no clock, IO or runtime.
pub(super) fn pure(graph: &Graph) -> Vec<Finding> {
    let mut found = Vec::new();
    for member in &graph.members {
        let Some((_, allowed)) = PURE.iter().find(|(name, _)| *name == member.name) else {
            continue;
        };
        for name in member.normal.iter().filter(|name| !allowed.contains(&name.as_str())) {
            let what = format!("`{name}` is not among the dependencies a pure crate may have");
            found.push(Finding::new(&member.manifest, 1, what));
        }
        let reached = graph.reached(&member.name);
        for name in NEVER_REACHED.iter().filter(|name| reached.contains(*name)) {
            let what = format!("reaches `{name}` through a dependency: pure crates must not");
            found.push(Finding::new(&member.manifest, 1, what));
        }
    }
    found
}

/// `#![forbid(unsafe_code)]` in the root of every library and binary.
pub(super) fn forbid_unsafe(graph: &Graph, tree: &Tree) -> Vec<Finding> {
    let roots = graph.members.iter().flat_map(|member| &member.crate_roots);
    let bare = roots.filter(|path| {
        let code = tree.get(path).and_then(|file| file.rust.as_ref()).map(|rust| &rust.code);
        !code.is_some_and(|code| code.contains("#![forbid(unsafe_code)]"))
    });
    bare.map(|path| Finding::new(path, 1, "add `#![forbid(unsafe_code)]` below the crate's doc"))
        .collect()
}

#[cfg(test)]
mod tests;
