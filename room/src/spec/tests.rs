//! The check and the schema of one table agree.

use serde_json::{Value, json};

use super::*;

const INNER: &[Field] = &[Field::required("flag", Kind::Bool, "A flag of the inner object.")];

const TABLE: &[Field] = &[
    Field::required("handle", Kind::Handle, "Opened by the edge."),
    Field::required("name", trimmed(1, 4), "A short name."),
    Field::optional("count", int(1, 9, 5), "A small number."),
    Field::optional("word", Kind::Word(&["one", "two"]), "One of two words."),
    Field::optional("list", Kind::List { item: &Kind::Uuid, items_max: 2 }, "A few ids."),
    Field::optional(
        "map",
        Kind::Map {
            entries_max: 2,
            key: Text { trim: false, min: 1, max: 3, pattern: None },
            value: Text { trim: false, min: 0, max: 3, pattern: None },
        },
        "A few notes.",
    ),
    Field::optional("inner", Kind::Object(INNER), "An inner object."),
    Field::optional("any", Kind::Json { schema: r#"{"type":"object"}"# }, "Any object."),
    Field::required("data", Kind::Base64, "Some bytes."),
];

fn found(args: &Value, blob: Option<&[u8]>) -> Vec<(String, &'static str)> {
    match check(TABLE, args, blob) {
        Ok(()) => Vec::new(),
        Err(reject) => {
            assert_eq!(reject.code, "invalid_arguments");
            reject.faults.into_iter().map(|fault| (fault.path, fault.rule)).collect()
        }
    }
}

#[test]
fn each_rule_names_its_place() {
    let table = [
        (json!({"name": "ok"}), vec![]),
        (json!({"name": "  okay  "}), vec![]),
        (json!({"name": "okays"}), vec![("name", "maxLength")]),
        (json!({"name": "😀😀x"}), vec![("name", "maxLength")]),
        (json!({"name": " "}), vec![("name", "minLength")]),
        (json!({}), vec![("name", "required")]),
        (json!({"name": null}), vec![("name", "type")]),
        (json!({"name": "a", "count": 0}), vec![("count", "minimum")]),
        (json!({"name": "a", "count": 10}), vec![("count", "maximum")]),
        (json!({"name": "a", "count": -1}), vec![("count", "minimum")]),
        (json!({"name": "a", "count": 1.5}), vec![("count", "type")]),
        (json!({"name": "a", "count": 2.0}), vec![]),
        (json!({"name": "a", "count": 1e300}), vec![("count", "maximum")]),
        (json!({"name": "a", "word": "three"}), vec![("word", "enum")]),
        (json!({"name": "a", "list": "x"}), vec![("list", "type")]),
        (json!({"name": "a", "list": ["x"]}), vec![("list[0]", "format")]),
        (json!({"name": "a", "map": {"key": 1}}), vec![("map.key", "type")]),
        (json!({"name": "a", "map": {"long": "v"}}), vec![("map.long", "maxLength")]),
        (json!({"name": "a", "map": {"k": "long"}}), vec![("map.k", "maxLength")]),
        (json!({"name": "a", "map": {"a": "", "b": "", "c": ""}}), vec![("map", "maxProperties")]),
        (json!({"name": "a", "inner": {}}), vec![("inner.flag", "required")]),
        (json!({"name": "a", "inner": {"flag": 1, "else": 2}}), vec![("inner.flag", "type")]),
        (json!({"name": "a", "any": []}), vec![("any", "type")]),
        (
            json!({"count": 0, "word": 1}),
            vec![("name", "required"), ("count", "minimum"), ("word", "enum")],
        ),
        (json!([]), vec![("", "type")]),
    ];
    for (args, expected) in table {
        let expected: Vec<_> = expected.iter().map(|(p, r)| ((*p).to_owned(), *r)).collect();
        assert_eq!(found(&args, Some(b"x")), expected, "{args}");
    }
    assert_eq!(found(&json!({"name": "a"}), None), [("data".to_owned(), "required")]);
}

#[test]
fn faults_are_bounded() {
    const LONG: &[Field] =
        &[Field::required("list", Kind::List { item: &Kind::Bool, items_max: 50 }, "Many flags.")];
    for (entries, faults) in [(31, 31), (32, 32), (50, 32), (5_000, 32)] {
        let args = json!({"list": vec![1; entries]});
        assert_eq!(check(LONG, &args, None).unwrap_err().faults.len(), faults, "{entries}");
    }
}

#[test]
fn clean_arguments_are_trimmed_filled_and_only_the_declared_ones() {
    let args = json!({"name": " a ", "handle": "sealed", "data": "eA==", "else": 1,
        "inner": {"flag": true, "else": 2}});
    let cleaned = Value::Object(clean(TABLE, &args));
    assert_eq!(cleaned, json!({"name": "a", "count": 5, "inner": {"flag": true}}));
}

#[test]
fn the_schema_says_what_the_check_does() {
    let schema = input_schema("Title", TABLE);
    let at = |path: &str| schema.pointer(&format!("/properties/{path}")).cloned().unwrap();
    assert_eq!(schema["required"], json!(["handle", "name", "data"]));
    assert_eq!(schema["title"], "Title");
    assert_eq!(at("count/default"), 5);
    assert_eq!(at("list/maxItems"), 2);
    assert_eq!(at("map/additionalProperties/maxLength"), 3);
    assert_eq!(at("inner/properties/flag/type"), "boolean");
    assert_eq!(at("data/contentEncoding"), "base64");
    // A longer text may be valid once it is trimmed: only the note bounds it.
    assert_eq!(schema.pointer("/properties/name/maxLength"), None);
    assert!(at("name/description").as_str().unwrap().contains("1-4 UTF-16 code units"));
}
