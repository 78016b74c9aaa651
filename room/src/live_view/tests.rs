//! Tables over the shape of drafts and over what a Task shows.

use serde_json::json;

use super::*;

fn draft_with(root: impl Into<Value>, data: impl Into<Value>) -> Value {
    let (root, data) = (root.into(), data.into());
    json!({"surfaceId": "score", "revision": 1, "root": root, "data": data})
}

fn parse(surface: &Value) -> Result<Draft, ShapeError> {
    Draft::parse(surface, "plan-0001")
}

/// The family only: texts may change.
fn family(surface: &Value) -> &'static str {
    match parse(surface) {
        Ok(_) => "ok",
        Err(ShapeError::View(_)) => "invalid_live_view",
        Err(ShapeError::TooLarge) => "live_view_too_large",
        Err(ShapeError::Data(_)) => "invalid_live_view_data",
        Err(ShapeError::Component(_)) => "invalid_live_view_component",
    }
}

fn written(view: &LiveView) -> Value {
    serde_json::to_value(SnapshotView::of(view, "plan-0001")).unwrap()
}

fn nested(depth: usize) -> Value {
    (1..depth).fold(
        json!({"type": "Text", "text": "x"}),
        |inner, _| json!({"type": "Card", "children": [inner]}),
    )
}

fn row(children: usize) -> Value {
    json!({"type": "Row", "children": vec![json!({"type": "Text", "text": "x"}); children]})
}

/// Checks rows of components within a view whose data has a number `n` and a string `word`.
fn check_components(rows: &[(bool, Value)]) {
    for (good, root) in rows {
        let surface = draft_with(root.clone(), json!({"n": 1, "word": "x"}));
        let expected = if *good { "ok" } else { "invalid_live_view_component" };
        assert_eq!(family(&surface), expected, "{root}");
    }
}

#[test]
fn texts_values_and_containers_have_exact_keys_and_bounds() {
    let text = |s: &str| json!({"type": "Text", "text": s});
    check_components(&[
        (true, text("hello")),
        (true, text(&"x".repeat(400))),
        (false, text(&"x".repeat(401))),
        (true, text(&"😀".repeat(200))),
        (false, text(&"😀".repeat(201))),
        (false, text("")),
        (false, text("a<b")),
        (false, text("a>b")),
        (false, text("see HTTP://x")),
        (false, text("see https://x")),
        (false, text("JavaScript:x")),
        (false, text("Data:x")),
        (false, json!({"type": "Text", "text": 1})),
        (false, json!({"type": "text", "text": "x"})),
        (false, json!({"type": "Text", "text": "x", "id": "t1"})),
        (false, json!({"type": "Text"})),
        (false, json!("Text")),
        (false, Value::Null),
        (true, json!({"type": "Value", "path": "missing_is_fine"})),
        (false, json!({"type": "Value", "path": "a.b"})),
        (false, json!({"type": "Value", "path": "1a"})),
        (true, row(1)),
        (true, row(63)),
        (false, row(64)),
        (false, row(0)),
        (false, json!({"type": "Column", "children": "x"})),
        (false, json!({"type": "Grid", "children": []})),
        (true, nested(8)),
        (false, nested(9)),
    ]);
}

#[test]
fn buttons_and_inputs_have_exact_keys_and_bounds() {
    let button =
        |label: &str, action: Value| json!({"type": "Button", "label": label, "action": action});
    let inc =
        |amount: Value| button("Add", json!({"type": "increment", "path": "n", "amount": amount}));
    let set = |value: Value| button("Set", json!({"type": "set", "path": "n", "value": value}));
    let input = |path: &str, more: Value| {
        let mut input = json!({"type": "Input", "path": path});
        if let (Value::Object(input), Value::Object(more)) = (&mut input, more) {
            input.extend(more);
        }
        input
    };
    check_components(&[
        (true, inc(json!(1))),
        (true, inc(json!(-1000))),
        (true, inc(json!(2.0))),
        (false, inc(json!(1001))),
        (false, inc(json!(0))),
        (false, inc(json!(0.5))),
        (false, inc(json!("1"))),
        (true, set(json!(true))),
        (true, set(json!("word"))),
        (false, set(json!(""))),
        (false, set(json!(null))),
        (false, set(json!([1]))),
        (true, button(&"x".repeat(80), json!({"type": "set", "path": "n", "value": 1}))),
        (false, button(&"x".repeat(81), json!({"type": "set", "path": "n", "value": 1}))),
        (false, button("Add", json!({"type": "set", "path": "n", "value": 1, "more": 1}))),
        (false, button("Add", json!({"type": "remove", "path": "n"}))),
        (false, json!({"type": "Button", "label": "Add"})),
        (true, input("word", json!({}))),
        (true, input("word", json!({"placeholder": "type"}))),
        (false, input("word", json!({"placeholder": "x".repeat(81)}))),
        (false, input("n", json!({}))),
        (false, input("absent", json!({}))),
    ]);
}

#[test]
fn data_is_flat_and_scalar() {
    let rows = [
        (true, json!({})),
        (true, json!({"a": true, "b": -1.5, "C_9": "x"})),
        (false, json!({"": 1})),
        (false, json!({"_a": 1})),
        (false, json!({"a-b": 1})),
        (true, json!({"a".repeat(32): 1})),
        (false, json!({"a".repeat(33): 1})),
        (false, json!({"a": null})),
        (false, json!({"a": {}})),
        (false, json!({"a": []})),
        (false, json!({"a": ""})),
        (false, json!({"a": "<"})),
    ];
    for (good, data) in rows {
        let surface = draft_with(json!({"type": "Text", "text": "x"}), data.clone());
        let expected = if good { "ok" } else { "invalid_live_view_data" };
        assert_eq!(family(&surface), expected, "{data}");
    }
}

#[test]
fn faults_come_in_the_contract_order() {
    let root = json!({"type": "Text", "text": "x"});
    let keys: Map<String, Value> = (0..33).map(|n| (format!("k{n}"), json!(1))).collect();
    let big = "x".repeat(33_000);
    let rows = [
        ("invalid_live_view", json!([])),
        ("invalid_live_view", json!("x")),
        ("invalid_live_view", json!({})),
        // Size is looked at before anything inside.
        ("live_view_too_large", json!({"nonsense": big})),
        (
            "invalid_live_view",
            json!({"surfaceId": "s", "revision": 1, "root": root, "data": {}, "id": 1}),
        ),
        ("invalid_live_view", json!({"surfaceId": "-s", "revision": 1, "root": root, "data": {}})),
        (
            "invalid_live_view",
            json!({"surfaceId": "s".repeat(65), "revision": 1, "root": root, "data": {}}),
        ),
        ("invalid_live_view", json!({"surfaceId": "s", "revision": 0, "root": root, "data": {}})),
        ("invalid_live_view", json!({"surfaceId": "s", "revision": 1.5, "root": root, "data": {}})),
        (
            "invalid_live_view",
            json!({"surfaceId": "s", "revision": 9_007_199_254_740_992_u64, "root": root, "data": {}}),
        ),
        ("invalid_live_view", json!({"surfaceId": "s", "revision": "1", "root": root, "data": {}})),
        ("invalid_live_view", json!({"surfaceId": "s", "revision": 1, "root": root, "data": []})),
        ("invalid_live_view", json!({"surfaceId": "s", "revision": 1, "root": root})),
        ("invalid_live_view", json!({"surfaceId": "s", "revision": 1, "root": root, "data": keys})),
        // Data is looked at before the components, the root last.
        (
            "invalid_live_view_data",
            json!({"surfaceId": "s", "revision": 1, "root": 1, "data": {"": 1}}),
        ),
        ("invalid_live_view_component", json!({"surfaceId": "s", "revision": 1, "data": {}})),
        (
            "invalid_live_view",
            json!({"surfaceId": "s", "revision": 1, "root": root, "data": {}, "taskRequestId": "other-1"}),
        ),
        (
            "ok",
            json!({"surfaceId": "s", "revision": 1, "root": root, "data": {}, "taskRequestId": "plan-0001"}),
        ),
        (
            "ok",
            json!({"surfaceId": "s", "revision": 2.0, "root": root, "data": {}, "authorityAgentId": "whoever"}),
        ),
    ];
    for (expected, surface) in rows {
        assert_eq!(family(&surface), expected, "{surface}");
    }
}

#[test]
fn the_size_is_that_of_the_completed_snapshot() {
    // Two-byte characters show that bytes are counted, not characters.
    let fitting = |fill: usize| {
        let mut children = vec![json!({"type": "Text", "text": "é".repeat(400)}); 38];
        children.push(json!({"type": "Text", "text": "y".repeat(400)}));
        children.push(json!({"type": "Text", "text": "z".repeat(400)}));
        children.push(json!({"type": "Text", "text": "x".repeat(fill)}));
        draft_with(json!({"type": "Row", "children": children}), json!({}))
    };
    let measure = |fill| completed_bytes(fitting(fill).as_object().unwrap(), "plan-0001");
    let fill = 1 + LIVE_VIEW_BYTES_MAX - measure(1);
    assert!((1..=400).contains(&fill), "{fill}");
    assert_eq!(measure(fill), LIVE_VIEW_BYTES_MAX);
    assert_eq!(family(&fitting(fill)), "ok");
    assert_eq!(family(&fitting(fill + 1)), "live_view_too_large");
    let done = parse(&fitting(fill)).unwrap().complete(1, ParticipantId(7));
    assert_eq!(written(&done).to_string().len(), LIVE_VIEW_BYTES_MAX);
}

#[test]
fn admission_follows_authority_surface_revision_capacity() {
    let (primary, other) = (ParticipantId(1), ParticipantId(2));
    let draft = |surface: &str, revision: u64| {
        let root = json!({"type": "Text", "text": "x"});
        let surface = json!({"surfaceId": surface, "revision": revision, "root": root, "data": {}});
        Draft::parse(&surface, "t").unwrap()
    };
    let check = |views: &[LiveView], task, surface, revision, who| {
        admit(views, task, &draft(surface, revision), who, Some(primary))
    };
    let mut views = vec![draft("s", 4).complete(1, primary)];
    let rows = [
        // A Task without a view: only its primary agent, and only revision 1.
        (2, "s", 1, other, Err(AdmitError::NotAuthorized)),
        (2, "s", 2, primary, Err(AdmitError::RevisionConflict)),
        (2, "s", 1, primary, Ok(())),
        // A Task with one: authority, then surface, then revision.
        (1, "x", 1, other, Err(AdmitError::NotAuthorized)),
        (1, "x", 1, primary, Err(AdmitError::SurfaceMismatch)),
        (1, "s", 3, primary, Err(AdmitError::RevisionConflict)),
        (1, "s", 4, primary, Err(AdmitError::RevisionConflict)),
        (1, "s", 9, primary, Ok(())),
    ];
    for (task, surface, revision, who, expected) in rows {
        assert_eq!(
            check(&views, task, surface, revision, who),
            expected,
            "{task} {surface} {revision}"
        );
    }
    // The current author keeps the authority, whoever the primary agent is now.
    assert_eq!(admit(&views, 1, &draft("s", 5), primary, Some(other)), Ok(()));
    assert_eq!(admit(&views, 2, &draft("s", 1), primary, None), Err(AdmitError::NotAuthorized));

    for task in 2..=16 {
        views.push(draft("s", 1).complete(task, primary));
    }
    assert_eq!(views.len(), LIVE_VIEWS_MAX);
    assert_eq!(check(&views, 17, "s", 1, primary), Err(AdmitError::Capacity));
    // A revision of a view that is there always fits.
    assert_eq!(check(&views, 1, "s", 5, primary), Ok(()));
}

#[test]
fn a_snapshot_is_written_as_the_contract_shows() {
    let surface = draft_with(
        json!({"type": "Column", "children": [{"type": "Value", "path": "points"}]}),
        json!({"points": 0}),
    );
    let draft = parse(&surface).unwrap();
    let done = draft.complete(4, ParticipantId(1));
    assert_eq!(
        written(&done),
        json!({
            "surfaceId": "score", "revision": 1,
            "root": {"type": "Column", "children": [{"type": "Value", "path": "points"}]},
            "data": {"points": 0}, "taskRequestId": "plan-0001",
            "authorityAgentId": "00000000-0000-0000-0000-000000000001",
        })
    );
    assert!(!format!("{draft:?} {done:?}").contains("points"));
}
