use super::*;

const DATA: BlobField =
    BlobField { name: "data", encoding: BlobEncoding::Base64, bytes_max: 1_000 };
const BUNDLE: BlobField =
    BlobField { name: "data", encoding: BlobEncoding::Json, bytes_max: 1_000 };

fn check(text: &str, field: Option<BlobField>, rest: &str, blob: Option<&[u8]>) {
    let arguments = Arguments::read(text, field).unwrap_or_else(|r| panic!("{text}: {r:?}"));
    assert_eq!(arguments.blob.as_deref(), blob, "{text}");
    assert_eq!(arguments.forwarded(text), rest, "{text}");
    assert_eq!(arguments.value, serde_json::from_str::<Value>(rest).unwrap(), "{text}");
}

#[test]
fn the_blob_is_taken_out_and_the_rest_is_kept_as_it_came() {
    for (text, field, rest, blob) in [
        (r#"{"a":1}"#, None, r#"{"a":1}"#, None),
        (r#" {"a" : 1.50e0 } "#, None, r#" {"a" : 1.50e0 } "#, None),
        (r#"{"data":"aGk="}"#, None, r#"{"data":"aGk="}"#, None),
        (r#"{"data":"aGk="}"#, Some(DATA), "{}", Some(&b"hi"[..])),
        (r#"{"data":"aGk"}"#, Some(DATA), "{}", Some(b"hi")),
        (r#"{"data":"aGl"}"#, Some(DATA), "{}", Some(b"hi")),
        (r#"{"data":""}"#, Some(DATA), "{}", Some(b"")),
        (
            r#"{"a":1.50, "data":"+/8=","b":"\u00e9"}"#,
            Some(DATA),
            r#"{"a":1.50,"b":"\u00e9"}"#,
            Some(&[0xfb, 0xff]),
        ),
        (r#"{"data":"+\/8="}"#, Some(DATA), "{}", Some(&[0xfb, 0xff])),
        (r#"{"d\u0061ta":"aGk="}"#, Some(DATA), "{}", Some(b"hi")),
        // Of two, the last counts, as for every other member.
        (r#"{"data":"aGk=","x":0,"data":"aG8="}"#, Some(DATA), r#"{"x":0}"#, Some(b"ho")),
        // Nested members of the name are somebody else's.
        (r#"{"x":{"data":"aGk="}}"#, Some(DATA), r#"{"x":{"data":"aGk="}}"#, None),
        // The wrong type is left in place for the check.
        (r#"{"data":5}"#, Some(DATA), r#"{"data":5}"#, None),
        (r#"{"data":null}"#, Some(DATA), r#"{"data":null}"#, None),
        (r#"{"a":1}"#, Some(DATA), r#"{"a":1}"#, None),
        // A JSON blob is its text exactly as received.
        (
            r#"{"a":1,"data":{"k" : [1.0, "\u0041"]}}"#,
            Some(BUNDLE),
            r#"{"a":1}"#,
            Some(br#"{"k" : [1.0, "\u0041"]}"#),
        ),
    ] {
        check(text, field, rest, blob);
    }
}

#[test]
fn undecodable_data_is_refused_with_the_ops_code() {
    for bad in ["a", "aGk==", "aG k=", "aGk=\\n", "aGk-", "aGk_", "é", "=", "aGk=aGk="] {
        let text = format!(r#"{{"data":"{bad}"}}"#);
        let refusal = Arguments::read(&text, Some(DATA)).err().unwrap();
        assert_eq!(refusal.code, "invalid_attachment", "{bad}");
        assert_eq!(refusal.field.as_deref(), Some("data"), "{bad}");
    }
}

#[test]
fn a_large_blob_is_decoded_for_the_check_to_judge() {
    let bytes = vec![7; 1_000_000];
    let text = format!(r#"{{"data":"{}"}}"#, BLOB_BASE64.encode(&bytes));
    check(&text, Some(DATA), "{}", Some(&bytes));
}

#[test]
fn unreadable_arguments_name_their_rule() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for (text, rule) in [
        ("[]", "type"),
        ("3", "type"),
        ("null", "type"),
        (&*deep, "json"),
        (r#"{"a":"\ud800"}"#, "json"),
        ("{\"a\":1e999}", "json"),
    ] {
        for field in [None, Some(DATA)] {
            let refusal = Arguments::read(text, field).err().unwrap();
            assert_eq!(refusal.code, "invalid_arguments", "{text}");
            assert_eq!(refusal.faults.first().unwrap().rule, rule, "{text}");
        }
    }
}
