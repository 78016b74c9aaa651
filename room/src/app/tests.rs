//! Tables over bundles, publications and state writes.

use object::Millis;
use serde_json::json;

use super::*;
use crate::limits::APP_BUNDLE_BYTES_MAX;

fn bundle_json() -> Value {
    json!({
        "version": 1, "manifest": {"title": "Vote", "networkOrigins": []},
        "html": "<p>x</p>", "css": "p{}", "js": "1", "initialState": {"n": 0},
    })
}

fn with(path: &str, value: Value) -> Value {
    let mut bundle = bundle_json();
    match path.split_once('.') {
        Some((outer, inner)) => bundle[outer][inner] = value,
        None => bundle[path] = value,
    }
    bundle
}

fn family(bundle: &Value) -> &'static str {
    match Bundle::parse(bundle.to_string().as_bytes()) {
        Ok(_) => "ok",
        Err(Fault::Object) => "generated_app_bundle_object",
        Err(Fault::TooLarge) => "generated_app_bundle_too_large",
        Err(Fault::Invalid(_)) => "generated_app_bundle_invalid",
    }
}

#[test]
fn no_key_of_a_bundle_is_there_twice() {
    let text = bundle_json().to_string();
    assert!(Bundle::parse(text.as_bytes()).is_ok());
    for (key, twice) in [
        ("\"js\":", "\"js\":\"</script>\",\"js\":"),
        ("\"html\":", "\"\\u0068tml\":\"<iframe>\",\"html\":"),
        ("\"networkOrigins\":", "\"networkOrigins\":[\"x\"],\"networkOrigins\":"),
        ("\"version\":", "\"version\":2,\"version\":"),
    ] {
        let twice = text.replacen(key, twice, 1);
        assert_ne!(twice, text, "{key}");
        let fault = Bundle::parse(twice.as_bytes()).unwrap_err();
        assert_eq!(fault, Fault::Invalid("a key is there twice"), "{key}");
    }
}

#[test]
fn every_part_of_a_bundle_has_its_bound() {
    let without = |key: &str| {
        let mut bundle = bundle_json();
        bundle.as_object_mut().unwrap().remove(key);
        bundle
    };
    let state = |bytes: usize| json!({"k": "x".repeat(bytes - 8)});
    let rows = [
        (true, bundle_json()),
        (true, with("version", json!(1.0))),
        (false, with("version", json!(2))),
        (false, with("version", json!("1"))),
        (false, without("version")),
        (false, without("css")),
        (false, with("more", json!(1))),
        (false, with("manifest", json!("x"))),
        (false, with("manifest.more", json!(1))),
        (false, with("manifest.networkOrigins", json!(["x"]))),
        (false, with("manifest.networkOrigins", json!(null))),
        (false, with("manifest.title", json!(""))),
        (true, with("manifest.title", json!("x".repeat(80)))),
        (false, with("manifest.title", json!("x".repeat(81)))),
        (true, with("manifest.title", json!("😀".repeat(40)))),
        (false, with("manifest.title", json!("😀".repeat(41)))),
        (false, with("manifest.title", json!("a<b"))),
        (false, with("manifest.title", json!("a\u{7}b"))),
        (false, with("html", json!(""))),
        (false, with("html", json!(1))),
        (true, with("html", json!("x".repeat(20_480)))),
        (false, with("html", json!("x".repeat(20_481)))),
        (true, with("css", json!("x".repeat(12_288)))),
        (false, with("css", json!("x".repeat(12_289)))),
        (true, with("js", json!("x".repeat(32_768)))),
        (false, with("js", json!("x".repeat(32_769)))),
        (false, with("js", json!("a\0b"))),
        (false, with("js", json!("'</SCRIPT>'"))),
        (false, with("html", json!("<iframe>"))),
        (false, with("html", json!("<Object>"))),
        (false, with("html", json!("<embed>"))),
        (false, with("css", json!("url(JavaScript:1)"))),
        (false, with("initialState", json!([]))),
        (true, with("initialState", state(16_384))),
        (false, with("initialState", state(16_385))),
    ];
    for (good, bundle) in rows {
        let expected = if good { "ok" } else { "generated_app_bundle_invalid" };
        let text = bundle.to_string();
        assert_eq!(family(&bundle), expected, "{}", text.get(..200).unwrap_or(&text));
    }
}

#[test]
fn the_whole_is_measured_compact_before_its_parts() {
    assert_eq!(family(&json!([])), "generated_app_bundle_object");
    assert_eq!(Bundle::parse(b"{"), Err(Fault::Object));
    assert_eq!(Bundle::parse(b"\xff"), Err(Fault::Object));
    assert_eq!(family(&json!({"x": "y".repeat(49_152)})), "generated_app_bundle_too_large");
    let fill = |n: usize| {
        let mut bundle = with("js", json!("x".repeat(32_000)));
        bundle["html"] = json!("y".repeat(n));
        bundle
    };
    let base = fill(1).to_string().len() - 1;
    assert_eq!(family(&fill(APP_BUNDLE_BYTES_MAX - base)), "ok");
    assert_eq!(family(&fill(APP_BUNDLE_BYTES_MAX - base + 1)), "generated_app_bundle_too_large");
    // White space between tokens does not count.
    let wide = fill(APP_BUNDLE_BYTES_MAX - base).to_string().replacen('{', "{ \n\t ", 1);
    assert_eq!(Bundle::parse(wide.as_bytes()).map(|b| b.bytes()), Ok(APP_BUNDLE_BYTES_MAX));
}

#[test]
fn compact_text_keeps_order_and_meaning() {
    let rows = [
        (r#"{"b" : 1 , "a":[ 1, 2 ]}"#, r#"{"b":1,"a":[1,2]}"#),
        (r#"{"s":"a  \" b"}"#, r#"{"s":"a  \" b"}"#),
        (r#"{"s":"\u00e9\/\\"}"#, r#"{"s":"é/\\"}"#),
        (r#""\\""#, r#""\\""#),
        ("[]", "[]"),
        (r#""open"#, r#""open"#),
    ];
    for (text, expected) in rows {
        assert_eq!(compact(text), expected);
    }
    let print = |text: &str| Bundle::parse(text.as_bytes()).unwrap().digest();
    let a = r#"{"version":1,"manifest":{"title":"V","networkOrigins":[]},"html":"h","css":"c","js":"j","initialState":{}}"#;
    let b = r#"{"html":"h","version":1,"manifest":{"title":"V","networkOrigins":[]},"css":"c","js":"j","initialState":{}}"#;
    assert_eq!(print(a), print(&a.replace(',', ", ")));
    assert_ne!(print(a), print(b), "another key order is another bundle");
    assert_ne!(print(a), print(&a.replace("\"h\"", "\"H\"")));
}

fn app(task: u64, bundle: &Bundle) -> App {
    App {
        instance: u128::from(task),
        task,
        title: bundle.title().clone(),
        bundle: BlobId(100 + u128::from(task)),
        bundle_bytes: bundle.bytes() as u64,
        digest: bundle.digest(),
        bundle_revision: 1,
        state: bundle.initial_state().clone(),
        state_revision: 3,
        created_at: Millis(1),
        updated_at: Millis(2),
    }
}

fn bundle(html: &str) -> Bundle {
    Bundle::parse(with("html", json!(html)).to_string().as_bytes()).unwrap()
}

#[test]
fn publishing_follows_authority_sameness_capacity() {
    let (primary, other) = (ParticipantId(1), ParticipantId(2));
    let (first, second) = (bundle("one"), bundle("two"));
    let some: Vec<App> = (1..=3).map(|task| app(task, &first)).collect();
    let full: Vec<App> = (1..=4).map(|task| app(task, &first)).collect();
    let rows = [
        (&some, 5, &first, other, Err(AdmitError::NotAuthorized)),
        (&some, 1, &first, other, Err(AdmitError::NotAuthorized)),
        (&some, 5, &first, primary, Ok(Publish::New)),
        (&full, 1, &first, primary, Ok(Publish::Duplicate)),
        (&full, 1, &second, primary, Ok(Publish::Changed { replaced: BlobId(101) })),
        (&full, 5, &first, primary, Err(AdmitError::Capacity)),
    ];
    for (apps, task, bundle, who, expected) in rows {
        assert_eq!(admit(apps, task, bundle, who, Some(primary)), expected, "{task} {who:?}");
    }
    assert_eq!(admit(&[], 1, &first, primary, None), Err(AdmitError::NotAuthorized));
}

#[test]
fn a_state_write_is_compare_and_swap() {
    let apps = [app(1, &bundle("x"))];
    let instance = AppId(BlobId(1)).to_string();
    let state = |bytes: usize| json!({"k": "x".repeat(bytes - 8)});
    let rows = [
        ("generated:none", 3, json!({}), Err(StateError::NotFound)),
        ("whiteboard:00000000", 3, json!({}), Err(StateError::NotFound)),
        (&instance, 3, json!([]), Err(StateError::Invalid)),
        (&instance, 9, json!([]), Err(StateError::Invalid)),
        (&instance, 3, state(4_097), Err(StateError::Invalid)),
        (&instance, 2, json!({}), Err(StateError::Conflict { revision: 3 })),
        (&instance, 3, json!({"n": 1}), Ok(r#"{"n":1}"#.into())),
        (&instance, 3, state(4_096), Ok(state(4_096).to_string().into())),
    ];
    for (instance, revision, state, expected) in rows {
        assert_eq!(
            admit_state(&apps, instance, revision, &state),
            expected,
            "{instance} {revision}"
        );
    }
}

#[test]
fn a_publication_is_written_as_the_contract_shows() {
    let bundle = bundle("x");
    assert_eq!(
        serde_json::to_value(PublicationView::of(&app(1, &bundle), "plan-0001")).unwrap(),
        json!({
            "appInstanceId": "generated:00000000-0000-0000-0000-000000000001",
            "taskRequestId": "plan-0001", "title": "Vote", "bundleBytes": bundle.bytes(),
            "bundleRevision": 1, "stateRevision": 3, "createdAt": 1, "updatedAt": 2,
        })
    );
}
