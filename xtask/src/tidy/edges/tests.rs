//! The edge rules against small graphs.

use super::*;

/// A graph from `name: dep dep` lines; every name that starts a line is a member.
fn graph(lines: &[(&str, &[&str])]) -> Graph {
    let mut graph = Graph::default();
    for (name, deps) in lines {
        let deps: Vec<String> = deps.iter().map(|dep| (*dep).to_owned()).collect();
        graph.members.push(Package {
            name: (*name).to_owned(),
            manifest: format!("{name}/Cargo.toml"),
            normal: deps.clone(),
            crate_roots: vec![format!("{name}/src/lib.rs")],
        });
        graph.edges.insert((*name).to_owned(), deps.into_iter().collect());
    }
    graph
}

#[test]
fn the_shape_as_drawn_passes() {
    let drawn = graph(&[
        ("object", &["serde", "thiserror"]),
        ("room", &["object", "serde"]),
        ("proto", &["object", "prost"]),
        ("gateway", &["room", "proto", "tokio"]),
        ("room-node", &["room", "proto", "tokio"]),
        ("standalone", &["gateway", "room-node"]),
        ("xtask", &["serde"]),
    ]);
    assert_eq!(members(&drawn), []);
    assert_eq!(pure(&drawn), []);
}

#[test]
fn a_forbidden_edge_is_found_through_others() {
    let bad = graph(&[
        ("gateway", &["glue"]),
        ("glue", &["room-node"]),
        ("room-node", &[]),
        ("object", &["room"]),
        ("room", &[]),
        ("tool", &["gateway", "room-node"]),
    ]);
    let places: Vec<String> = members(&bad).into_iter().map(|f| f.path).collect();
    assert_eq!(places, ["gateway/Cargo.toml", "object/Cargo.toml", "tool/Cargo.toml"]);
}

#[test]
fn a_pure_crate_names_and_reaches_nothing_else() {
    let mut bad = graph(&[("room", &["object", "serde", "rand_core"])]);
    bad.edges.insert("serde".to_owned(), BTreeSet::from(["tokio".to_owned()]));
    let whats: Vec<String> = pure(&bad).into_iter().map(|f| f.what).collect();
    assert_eq!(whats.len(), 2);
    assert!(whats.iter().any(|what| what.contains("rand_core")), "{whats:?}");
    assert!(whats.iter().any(|what| what.contains("tokio")), "{whats:?}");
}

#[test]
fn every_crate_root_forbids_unsafe_code() {
    let two = graph(&[("a", &[]), ("b", &[])]);
    let tree = Tree::of(&[
        ("a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n"),
        ("b/src/lib.rs", "//! `#![forbid(unsafe_code)]` in a comment is none.\n"),
    ]);
    let places: Vec<String> = forbid_unsafe(&two, &tree).into_iter().map(|f| f.path).collect();
    assert_eq!(places, ["b/src/lib.rs"]);
}

#[test]
fn metadata_is_read_with_its_kinds() {
    let json = r#"{
        "packages": [
            {"name": "a", "id": "a 1", "manifest_path": "/w/a/Cargo.toml",
             "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}],
             "targets": [{"kind": ["lib"], "src_path": "/w/a/src/lib.rs"},
                         {"kind": ["test"], "src_path": "/w/a/tests/t.rs"}]},
            {"name": "b", "id": "b 1", "manifest_path": "/r/b/Cargo.toml",
             "dependencies": [], "targets": []},
            {"name": "c", "id": "c 1", "manifest_path": "/r/c/Cargo.toml",
             "dependencies": [], "targets": []}
        ],
        "workspace_members": ["a 1"],
        "workspace_root": "/w",
        "resolve": {"nodes": [
            {"id": "a 1", "deps": [
                {"pkg": "b 1", "dep_kinds": [{"kind": null}]},
                {"pkg": "c 1", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "b 1", "deps": []}
        ]}
    }"#;
    let graph = Graph::parse(json).unwrap();
    assert_eq!(graph.reached("a"), BTreeSet::from(["b"]));
    let member = graph.members.first().unwrap();
    assert_eq!((member.manifest.as_str(), member.normal.len()), ("a/Cargo.toml", 1));
    assert_eq!(member.crate_roots, ["a/src/lib.rs"]);
}
