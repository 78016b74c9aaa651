//! The checker's own tests: a good history passes, each hand-broken one is rejected by name.

use std::collections::BTreeSet;

use super::{RULES, check, parse, write};

/// Two agents, one unknown text that landed, one refused text, an upload, a task, a restart.
const GOOD: &str = r#"
{"t":1,"client":"a","op":"join","key":"a","phase":"invoke","room":"r"}
{"t":2,"client":"a","op":"join","key":"a","phase":"ok","room":"r","detail":{"cursor":0,"leaseMs":1}}
{"t":3,"client":"b","op":"join","key":"b","phase":"invoke","room":"r"}
{"t":4,"client":"b","op":"join","key":"b","phase":"ok","room":"r","detail":{"cursor":0,"leaseMs":1}}
{"t":10,"client":"a","op":"send_text","key":"k1","phase":"invoke","room":"r"}
{"t":11,"client":"a","op":"send_text","key":"k1","phase":"ok","room":"r","sequence":1}
{"t":12,"client":"b","op":"send_text","key":"k2","phase":"invoke","room":"r"}
{"t":13,"client":"b","op":"send_text","key":"k2","phase":"ok","room":"r","sequence":2}
{"t":14,"client":"b","op":"send_text","key":"no","phase":"invoke","room":"r"}
{"t":15,"client":"b","op":"send_text","key":"no","phase":"fail","room":"r"}
{"t":20,"client":"a","op":"poll","key":"p1","phase":"invoke","room":"r"}
{"t":21,"client":"a","op":"poll","key":"p1","phase":"ok","room":"r","detail":{"cursor":0,"to":2,"truncated":false,"events":[{"sequence":2,"key":"k2"}]}}
{"t":30,"client":"a","op":"send_attachment","key":"f3","phase":"invoke","room":"r","detail":{"hash":"abc"}}
{"t":31,"client":"a","op":"send_attachment","key":"f3","phase":"ok","room":"r","sequence":3}
{"t":40,"client":"a","op":"collab_request","key":"q4","phase":"invoke","room":"r"}
{"t":41,"client":"a","op":"collab_request","key":"q4","phase":"ok","room":"r","sequence":4}
{"t":42,"client":"b","op":"poll","key":"p2","phase":"invoke","room":"r"}
{"t":43,"client":"b","op":"poll","key":"p2","phase":"ok","room":"r","detail":{"cursor":0,"to":4,"truncated":false,"events":[{"sequence":1,"key":"k1"},{"sequence":3,"key":"f3","attachment":true},{"sequence":4,"key":"q4","scoped":true}]}}
{"t":50,"client":"b","op":"collab_result","key":"q5","phase":"invoke","room":"r"}
{"t":51,"client":"b","op":"collab_result","key":"q5","phase":"ok","room":"r","sequence":5}
{"t":60,"client":"a","op":"send_text","key":"u6","phase":"invoke","room":"r"}
{"t":61,"client":"a","op":"send_text","key":"u6","phase":"unknown","room":"r"}
{"t":70,"client":"b","op":"lease","key":"l1","phase":"invoke","room":"r"}
{"t":71,"client":"b","op":"lease","key":"l1","phase":"ok","room":"r"}
{"t":72,"client":"b","op":"read_attachment","key":"f3","phase":"invoke","room":"r"}
{"t":73,"client":"b","op":"read_attachment","key":"f3","phase":"ok","room":"r","detail":{"hash":"abc"}}
{"t":74,"client":"b","op":"repeat","key":"q5","phase":"invoke","room":"r"}
{"t":75,"client":"b","op":"repeat","key":"q5","phase":"ok","room":"r","sequence":5,"detail":{"duplicate":true}}
{"t":76,"client":"c","op":"join","key":"c","phase":"invoke","room":"r"}
{"t":77,"client":"c","op":"join","key":"c","phase":"ok","room":"r","detail":{"cursor":0,"leaseMs":0}}
{"t":78,"client":"c","op":"lease","key":"l2","phase":"invoke","room":"r"}
{"t":79,"client":"c","op":"lease","key":"l2","phase":"fail","room":"r","detail":{"code":"invalid_participant_handle"}}
{"t":80,"client":"all","op":"read","key":"r1","phase":"invoke","room":"r"}
{"t":81,"client":"all","op":"read","key":"r1","phase":"ok","room":"r","detail":{"events":[{"sequence":1,"key":"k1"},{"sequence":2,"key":"k2"},{"sequence":3,"key":"f3","attachment":true},{"sequence":4,"key":"q4","scoped":true},{"sequence":5,"key":"q5","scoped":true},{"sequence":6,"key":"u6"}]}}
{"t":90,"client":"all","op":"log","key":"l1","phase":"invoke","room":"r"}
{"t":91,"client":"all","op":"log","key":"l1","phase":"ok","room":"r","detail":{"generation":"c1","lsn":9,"snapshot":0,"begins":1,"epoch":3,"nonce":9,"node":"n2.1","frames":[{"first":1,"count":4,"epoch":1,"nonce":11,"node":"n1.1"},{"first":5,"count":2,"epoch":1,"nonce":11,"node":"n1.1"},{"first":7,"count":3,"epoch":3,"nonce":9,"node":"n2.1"}]}}
{"t":92,"client":"c","op":"join","key":"c2","phase":"invoke","room":"r"}
{"t":93,"client":"c","op":"join","key":"c2","phase":"ok","room":"r","detail":{"cursor":6,"leaseMs":0}}
{"t":94,"client":"c","op":"lease","key":"l3","phase":"invoke","room":"r"}
{"t":95,"client":"c","op":"lease","key":"l3","phase":"ok","room":"r"}
{"t":100,"client":"m","op":"join","key":"m1","phase":"invoke","room":"s"}
{"t":101,"client":"m","op":"join","key":"m1","phase":"ok","room":"s","detail":{"cursor":0,"leaseMs":1}}
{"t":102,"client":"redis","op":"log","key":"s1","phase":"invoke","room":"s"}
{"t":103,"client":"redis","op":"log","key":"s1","phase":"ok","room":"s","detail":{"generation":"g1","lsn":1,"snapshot":0,"begins":1,"epoch":1,"nonce":5,"node":"n1.1","frames":[{"first":1,"count":1,"epoch":1,"nonce":5}]}}
{"t":110,"client":"m","op":"leave","key":"m1","phase":"invoke","room":"s","detail":{"emptyMs":2000,"boundMs":5000}}
{"t":111,"client":"m","op":"leave","key":"m1","phase":"ok","room":"s"}
{"t":1000000,"client":"redis","op":"log","key":"s2","phase":"invoke","room":"s"}
{"t":1000001,"client":"redis","op":"log","key":"s2","phase":"ok","room":"s","detail":{"generation":"g1","lsn":3,"snapshot":1,"begins":2,"epoch":2,"nonce":6,"node":"n2.1","frames":[{"first":2,"count":2,"epoch":1,"nonce":5}]}}
{"t":1500000,"client":"redis","op":"log","key":"s3","phase":"invoke","room":"s"}
{"t":1500001,"client":"redis","op":"log","key":"s3","phase":"ok","room":"s","detail":{"generation":"g1","lsn":4,"snapshot":3,"begins":4,"epoch":2,"nonce":6,"node":"n2.1","frames":[{"first":4,"count":1,"epoch":2,"nonce":6}]}}
{"t":2100000,"client":"redis","op":"log","key":"s4","phase":"invoke","room":"s"}
{"t":2100001,"client":"redis","op":"log","key":"s4","phase":"ok","room":"s","detail":{"dead":true,"frames":[],"epoch":3}}
{"t":2200000,"client":"m","op":"join","key":"m2","phase":"invoke","room":"s"}
{"t":2200001,"client":"m","op":"join","key":"m2","phase":"ok","room":"s","detail":{"cursor":0,"leaseMs":1}}
{"t":9000000,"client":"redis","op":"log","key":"s5","phase":"invoke","room":"s"}
{"t":9000001,"client":"redis","op":"log","key":"s5","phase":"ok","room":"s","detail":{"generation":"g2","lsn":1,"snapshot":0,"begins":1,"epoch":4,"nonce":8,"node":"n1.1","frames":[{"first":1,"count":1,"epoch":4,"nonce":8}]}}
"#;

/// Name, the text to replace wherever it stands, its replacement, the rule that must fire.
const BROKEN: &[(&str, &str, &str, &str)] = &[
    (
        "an acknowledged step is lost by the restart",
        r#",{"sequence":5,"key":"q5","scoped":true},{"sequence":6,"key":"u6"}"#,
        "",
        "acknowledged-present",
    ),
    (
        "an upload acknowledged and polled is missing from the read after restart",
        r#"{"sequence":2,"key":"k2"},{"sequence":3,"key":"f3","attachment":true},"#,
        r#"{"sequence":2,"key":"k2"},"#,
        "acknowledged-present",
    ),
    (
        "an acknowledged text stands elsewhere",
        r#""key":"k1","phase":"ok","room":"r","sequence":1"#,
        r#""key":"k1","phase":"ok","room":"r","sequence":0"#,
        "acknowledged-sequence",
    ),
    (
        "a sequence is left out",
        r#"{"sequence":6,"key":"u6"}"#,
        r#"{"sequence":7,"key":"u6"}"#,
        "no-gap",
    ),
    (
        "one sequence has two texts",
        r#"{"sequence":6,"key":"u6"}"#,
        r#"{"sequence":5,"key":"u6"}"#,
        "sequence-once",
    ),
    (
        "an acknowledged text is there twice",
        r#"{"sequence":6,"key":"u6"}"#,
        r#"{"sequence":6,"key":"k2"}"#,
        "key-once",
    ),
    (
        "an unacknowledged text is there twice",
        r#"{"sequence":6,"key":"u6"}"#,
        r#"{"sequence":6,"key":"u6"},{"sequence":7,"key":"u6"}"#,
        "unknown-at-most-once",
    ),
    (
        "a refused text is there",
        r#"{"sequence":6,"key":"u6"}"#,
        r#"{"sequence":6,"key":"no"}"#,
        "failed-absent",
    ),
    (
        "a text that nobody sent is there",
        r#"{"sequence":6,"key":"u6"}"#,
        r#"{"sequence":6,"key":"ghost"}"#,
        "known-key",
    ),
    (
        "an answer has no call",
        r#""t":10,"client":"a","op":"send_text","key":"k1","phase":"invoke""#,
        r#""t":10,"client":"a","op":"send_text","key":"other","phase":"invoke""#,
        "well-formed",
    ),
    (
        "a later text stands before an acknowledged one",
        r#""key":"q4","phase":"ok","room":"r","sequence":4"#,
        r#""key":"q4","phase":"ok","room":"r","sequence":3"#,
        "real-time-order",
    ),
    (
        "a poll leaves out a text of another",
        r#""truncated":false,"events":[{"sequence":1,"key":"k1"},"#,
        r#""truncated":false,"events":["#,
        "poll-contiguous",
    ),
    (
        "a poll begins where the last one did not end",
        r#""cursor":0,"to":2,"truncated":false,"events":[{"sequence":2,"key":"k2"}]"#,
        r#""cursor":1,"to":2,"truncated":false,"events":[{"sequence":2,"key":"k2"}]"#,
        "poll-contiguous",
    ),
    (
        "a poll is older than the poller's own acknowledged text",
        r#""t":20,"client":"a","op":"poll","key":"p1","phase":"invoke","room":"r"}
{"t":21,"client":"a","op":"poll","key":"p1","phase":"ok","room":"r","detail":{"cursor":0,"to":2,"truncated":false,"events":[{"sequence":2,"key":"k2"}]"#,
        r#""t":20,"client":"b","op":"poll","key":"p1","phase":"invoke","room":"r"}
{"t":21,"client":"b","op":"poll","key":"p1","phase":"ok","room":"r","detail":{"cursor":0,"to":0,"truncated":false,"events":[]"#,
        "poll-own-acks",
    ),
    (
        "a poll is older than another's acknowledged text",
        r#""cursor":0,"to":2,"truncated":false,"events":[{"sequence":2,"key":"k2"}]"#,
        r#""cursor":0,"to":1,"truncated":false,"events":[]"#,
        "poll-fresh",
    ),
    (
        "an upload comes back with other bytes",
        r#""phase":"ok","room":"r","detail":{"hash":"abc"}"#,
        r#""phase":"ok","room":"r","detail":{"hash":"xyz"}"#,
        "attachment-hash",
    ),
    (
        "an acknowledged upload cannot be read",
        r#""phase":"ok","room":"r","detail":{"hash":"abc"}"#,
        r#""phase":"fail","room":"r","detail":{"code":"attachment_unavailable"}"#,
        "attachment-hash",
    ),
    (
        "a task has forgotten its result",
        r#""sequence":5,"detail":{"duplicate":true}"#,
        r#""sequence":7,"detail":{}"#,
        "task-state",
    ),
    (
        "an agent heard within its lease is gone",
        r#""op":"lease","key":"l1","phase":"ok""#,
        r#""op":"lease","key":"l1","phase":"fail""#,
        "lease-kept",
    ),
    (
        "an agent that was told to be gone goes on without joining",
        r#"{"t":92,"client":"c","op":"join","key":"c2","phase":"invoke","room":"r"}
{"t":93,"client":"c","op":"join","key":"c2","phase":"ok","room":"r","detail":{"cursor":6,"leaseMs":0}}"#,
        "",
        "gone-stays",
    ),
    ("a frame is missing", r#""first":5,"count":2"#, r#""first":6,"count":1"#, "log-contiguous"),
    ("an old owner writes late", r#""epoch":3,"nonce":9"#, r#""epoch":0,"nonce":9"#, "fence-order"),
    (
        "one epoch is given to two claims",
        r#""epoch":3,"nonce":9"#,
        r#""epoch":1,"nonce":9"#,
        "fence-order",
    ),
    ("a look shows an older record", r#""epoch":3}}"#, r#""epoch":1}}"#, "fence-order"),
    (
        "the log begins behind its snapshot",
        r#""lsn":3,"snapshot":1"#,
        r#""lsn":3,"snapshot":0"#,
        "log-contiguous",
    ),
    ("the log ends before its record", r#""lsn":4,"#, r#""lsn":5,"#, "log-contiguous"),
    ("the log goes back", r#""lsn":4,"snapshot":3"#, r#""lsn":2,"snapshot":3"#, "log-immutable"),
    (
        "another frame stands where one stood",
        r#"{"first":2,"count":2,"epoch":1,"nonce":5}"#,
        r#"{"first":1,"count":3,"epoch":1,"nonce":5}"#,
        "log-immutable",
    ),
    (
        "a frame begins within another",
        r#"{"first":4,"count":1,"epoch":2,"nonce":6}"#,
        r#"{"first":3,"count":2,"epoch":2,"nonce":6}"#,
        "log-immutable",
    ),
    (
        "a room that is destroyed goes on",
        r#""generation":"g2""#,
        r#""generation":"g1""#,
        "nothing-after-destroy",
    ),
    (
        "an event of before the end comes after it",
        r#"{"first":1,"count":1,"epoch":4,"nonce":8}"#,
        r#"{"first":1,"count":1,"epoch":3,"nonce":8}"#,
        "nothing-after-destroy",
    ),
    (
        "a dead room has an event",
        r#""dead":true,"frames":[]"#,
        r#""dead":true,"frames":[{"first":5,"count":1,"epoch":2,"nonce":6}]"#,
        "nothing-after-destroy",
    ),
    (
        "an empty room dies before its time",
        r#""emptyMs":2000"#,
        r#""emptyMs":9000"#,
        "timer-on-time",
    ),
    (
        "an empty room does not die",
        r#""emptyMs":2000,"boundMs":5000"#,
        r#""emptyMs":400,"boundMs":500"#,
        "timer-on-time",
    ),
    (
        "a room dies with an agent in it",
        r#"{"t":110,"client":"m","op":"leave","key":"m1","phase":"invoke","room":"s","detail":{"emptyMs":2000,"boundMs":5000}}
{"t":111,"client":"m","op":"leave","key":"m1","phase":"ok","room":"s"}"#,
        r#"{"t":3000000,"client":"m","op":"leave","key":"m1","phase":"invoke","room":"s","detail":{"emptyMs":2000,"boundMs":5000}}"#,
        "timer-on-time",
    ),
    (
        "one fence has two owners",
        r#""epoch":3,"nonce":9"#,
        r#""epoch":1,"nonce":11"#,
        "fence-owner",
    ),
];

fn rules_fired(text: &str) -> BTreeSet<&'static str> {
    check(&parse(text).unwrap()).into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_good_history_is_accepted_and_survives_writing() {
    let records = parse(GOOD).unwrap();
    assert_eq!(check(&records), []);
    assert_eq!(parse(&write(&records).unwrap()).unwrap(), records);
}

#[test]
fn broken_histories_are_rejected_by_name() {
    for (name, from, to, rule) in BROKEN {
        assert!(GOOD.contains(from), "{name}: nothing to break");
        let fired = rules_fired(&GOOD.replace(from, to));
        assert!(fired.contains(rule), "{name}: {fired:?}");
        println!("rejected by {rule}: {name}");
    }
    assert!(BROKEN.len() >= 12, "the promise of the project's first milestone");
}

#[test]
fn every_rule_is_broken_by_some_history() {
    let broken: BTreeSet<&str> = BROKEN.iter().map(|(_, _, _, rule)| *rule).collect();
    assert_eq!(broken, RULES.into_iter().collect());
}

/// One agent speaks `sent` times before the other polls, who is told that the answer is cut and shown
/// what is left from `first` on, like the read at the end.
fn a_late_poll(sent: u64, first: u64) -> String {
    let mut text = String::new();
    let mut line = |t: u64, rest: String| text.push_str(&format!("{{\"t\":{t},{rest}}}\n"));
    for n in 1..=sent {
        let about = format!(r#""client":"a","op":"send_text","key":"k{n}","room":"r""#);
        line(2 * n, format!(r#"{about},"phase":"invoke""#));
        line(2 * n + 1, format!(r#"{about},"phase":"ok","sequence":{n}"#));
    }
    let shown = (first..=sent).map(|n| format!(r#"{{"sequence":{n},"key":"k{n}"}}"#));
    let shown = shown.collect::<Vec<_>>().join(",");
    let poll = r#""client":"b","op":"poll","key":"p","room":"r""#;
    let read = r#""client":"all","op":"read","key":"r1","room":"r""#;
    let cut = format!(r#""cursor":0,"to":{sent},"truncated":true,"events":[{shown}]"#);
    line(1_000, format!(r#"{poll},"phase":"invoke""#));
    line(1_001, format!(r#"{poll},"phase":"ok","detail":{{{cut}}}"#));
    line(1_002, format!(r#"{read},"phase":"invoke""#));
    line(1_003, format!(r#"{read},"phase":"ok","detail":{{"events":[{shown}]}}"#));
    text
}

#[test]
fn what_retention_let_go_before_anybody_polled_is_not_missed_and_nothing_else() {
    assert_eq!(check(&parse(&a_late_poll(104, 5)).unwrap()), []);
    let fired = rules_fired(&a_late_poll(104, 6));
    assert_eq!(fired, BTreeSet::from(["acknowledged-present", "no-gap"]));
    let uncut = a_late_poll(104, 5).replace("\"truncated\":true", "\"truncated\":false");
    assert!(rules_fired(&uncut).contains("acknowledged-present"));
}

#[test]
fn what_is_no_record_is_an_error_with_its_line() {
    let error = parse("\n{\"t\":1}\n").unwrap_err();
    assert!(error.starts_with("line 2: "), "{error}");
}
