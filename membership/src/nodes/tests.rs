use super::*;
use crate::view::MEMBERS_MAX;

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn answer(number: u64, stamp: &str, live: &[&str], ended: &[&str]) -> Answer {
    let line = |name: &&str| {
        bulk(&format!("{name}/0000000000000001\nactive\n10.0.0.1:7070\nz\n1\n1\n2\n250"))
    };
    let gone = |name: &&str| bulk(&format!("{name}/0000000000000001"));
    let value = Value::Array(vec![
        bulk("OK"),
        Value::Int(1_000),
        Value::Int(i64::try_from(number).unwrap()),
        bulk(stamp),
        Value::Int(77),
        Value::Int(0),
        Value::Int(1),
        Value::Array(live.iter().map(line).collect()),
        Value::Array(ended.iter().map(gone).collect()),
    ]);
    Answer::parse(&value).unwrap()
}

fn incarnation(node: &str) -> Incarnation {
    Incarnation::new(node, 1).unwrap()
}

#[test]
fn an_answer_is_read_and_a_strange_one_is_not() {
    let read = answer(5, "1.2", &["a"], &["b"]);
    let news = read.news.unwrap();
    assert_eq!((read.word, read.time_ms, read.up_since_ms), (Word::Ok, 1_000, 77));
    assert_eq!(news.ended, [incarnation("b")]);
    let [member] = news.members.as_slice() else { panic!("one member") };
    assert_eq!((member.schema, member.load, member.state), ((1, 2), 250, State::Active));
    for strange in [Value::Nil, Value::Array(vec![bulk("OK")]), bulk("OK")] {
        assert_eq!(Answer::parse(&strange), None);
    }
    assert_eq!(member_of("a/0000000000000001\nsleeping\nx:1\nz\n1\n1\n2\n0"), None);
    assert_eq!(member_of("a/0000000000000001\nactive\nx:1\nz\n1\n1\n2"), None);
}

fn member_of(line: &str) -> Option<Member> {
    member(&bulk(line))
}

#[test]
fn the_roster_only_moves_forward() {
    let mut roster = Roster::default();
    assert!(roster.fold(&answer(5, "1.2", &["b", "a"], &[])));
    let nodes: Vec<&str> = roster.view.members.iter().map(|m| &*m.incarnation.node).collect();
    assert_eq!(nodes, ["a", "b"]);
    assert!(!roster.fold(&answer(5, "1.2", &["b", "a"], &[])), "the same again");
    assert!(!roster.fold(&answer(4, "1.1", &["c"], &["x"])), "an older one");
    assert_eq!((roster.view.number, roster.view.members.len()), (5, 2));
    assert!(roster.has_ended(&incarnation("x")), "an end counts from whatever answer");
    assert!(roster.fold(&answer(5, "9.9", &["a"], &[])), "another view of one number");
    assert!(roster.fold(&answer(6, "9.9", &["a", "x"], &[])));
    assert_eq!(roster.risen(), [incarnation("x")]);
    assert_eq!(roster.up_since_ms, 77);
}

#[test]
fn ends_are_remembered_up_to_a_bound_the_latest_ones() {
    let mut roster = Roster::default();
    for i in 0..ENDED_MAX + 10 {
        roster.end(incarnation(&format!("n{i}")));
        roster.end(incarnation(&format!("n{i}")));
    }
    assert_eq!((roster.ended.len(), roster.order.len()), (ENDED_MAX, ENDED_MAX));
    assert!(!roster.has_ended(&incarnation("n9")));
    assert!(roster.has_ended(&incarnation("n10")));
}

#[test]
fn the_script_has_the_same_bounds() {
    for (name, bound) in [("MEMBERS_MAX", MEMBERS_MAX), ("ENDED_MAX", ENDED_MAX)] {
        assert!(NODES.code.contains(&format!("local {name} = {bound}\n")), "{name}");
    }
}

#[test]
fn nothing_here_reads_a_wall_clock() {
    let sources = [
        include_str!("../clock.rs"),
        include_str!("../lease.rs"),
        include_str!("../member.rs"),
        include_str!("../nodes.rs"),
        include_str!("../redis_clock.rs"),
        include_str!("../watcher.rs"),
    ];
    let wall = concat!("System", "Time");
    assert!(sources.iter().all(|source| !source.contains(wall)), "a clock step must do nothing");
}
