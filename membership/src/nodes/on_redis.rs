//! The functions of the node table on a real server, in steps taken by hand.

use std::future::Future;
use std::time::Duration;

use prometheus::Registry;
use redis_link::redis;
use redis_link::rig::Server;
use redis_link::{Durability, Settings};

use super::*;
use crate::clock::Clock;
use crate::view::MEMBERS_MAX;

const TABLE: &[Library] = &[NODES];

struct Stand {
    _server: Server,
    link: Arc<RedisLink>,
    table: NodeTable,
}

/// How a test's node joins; the rest does not matter to most.
#[derive(Clone, Copy)]
struct As {
    ttl_ms: u64,
    delay_ms: u64,
    schema: (u32, u32),
    address: &'static str,
    supersedes: bool,
}

const PLAIN: As =
    As { ttl_ms: 60_000, delay_ms: 0, schema: (1, 1), address: "10.0.0.1:7070", supersedes: false };

impl Stand {
    async fn new(grace_ms: u64) -> Self {
        Self::with(&[], grace_ms).await
    }

    async fn with(args: &[&str], grace_ms: u64) -> Self {
        let server = Server::start(args).unwrap();
        let settings = Settings::new(server.url().parse().unwrap(), Durability::D0, TABLE);
        let link = RedisLink::open(settings, &Registry::new()).await.unwrap();
        let table = NodeTable::new(Arc::clone(&link), "local", grace_ms);
        Self { _server: server, link, table }
    }

    async fn join_as(&self, me: &Incarnation, how: As) -> Answer {
        let joining = Joining {
            me,
            ttl_ms: how.ttl_ms,
            join_delay_ms: how.delay_ms,
            schema: how.schema,
            address: how.address,
            zone: "z",
            weight: 1,
            supersedes: how.supersedes,
        };
        self.table.join(Seen::default(), &joining, soon()).await.unwrap()
    }

    async fn join(&self, me: &Incarnation) -> Answer {
        self.join_as(me, PLAIN).await
    }

    async fn renew(&self, seen: Seen, me: &Incarnation, ttl_ms: u64) -> Answer {
        self.table.renew(seen, me, ttl_ms, 5, soon()).await.unwrap()
    }

    async fn view(&self) -> Answer {
        self.table.view(Seen::default(), soon()).await.unwrap()
    }

    async fn leave(&self, me: &Incarnation) -> Answer {
        self.table.leave(Seen::default(), me, soon()).await.unwrap()
    }

    async fn expire(&self, witnessed: bool, which: &Incarnation) -> Answer {
        let which = std::slice::from_ref(which);
        self.table.expire(Seen::default(), witnessed, which, soon()).await.unwrap()
    }

    async fn command(&self, words: &[&str]) {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.link.command(b"{nodes:local}v", command, soon()).await.unwrap();
    }
}

fn soon() -> Instant {
    let clock = Clock::system();
    clock.instant(clock.now().plus(10_000))
}

fn run(node: &str, boot: u64) -> Incarnation {
    Incarnation::new(node, boot).unwrap()
}

/// How often an answer is asked for, every 5 ms.
const TURNS_MAX: u32 = 2_000;

/// Asks until the answer is as wanted.
async fn until<F>(mut ask: impl FnMut() -> F, wanted: impl Fn(&Answer) -> bool) -> Answer
where
    F: Future<Output = Answer>,
{
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    for _ in 0..TURNS_MAX {
        tick.tick().await;
        let answer = ask().await;
        if wanted(&answer) {
            return answer;
        }
    }
    panic!("never as wanted")
}

fn states(answer: &Answer) -> Vec<(String, State)> {
    let members = &answer.news.as_ref().expect("news").members;
    let mut found: Vec<_> =
        members.iter().map(|m| (m.incarnation.node.to_string(), m.state)).collect();
    found.sort();
    found
}

fn has_ended(answer: &Answer, who: &Incarnation) -> bool {
    answer.news.as_ref().is_some_and(|news| news.ended.contains(who))
}

#[tokio::test]
async fn a_life_from_joining_to_leaving() {
    let stand = Stand::new(50).await;
    let (a, b) = (run("a", 1), run("b", 1));
    let first = stand.join(&a).await;
    assert_eq!((first.word, states(&first)), (Word::Ok, vec![("a".into(), State::Active)]));
    assert!(first.up_since_ms > 0 && first.up_since_ms == first.time_ms);
    let second = stand.join(&b).await;
    assert_eq!(second.up_since_ms, first.up_since_ms, "service went on");
    assert_eq!(second.seen.number, first.seen.number + 1);
    let again = stand.join(&b).await;
    assert_eq!((again.word, &again.seen), (Word::Ok, &second.seen), "joining may be repeated");
    let same = stand.renew(second.seen.clone(), &a, 60_000).await;
    assert_eq!((same.word, same.news), (Word::Ok, None), "nothing new costs nothing");
    let drained = stand.table.drain(Seen::default(), &b, soon()).await.unwrap();
    assert_eq!(states(&drained), [("a".into(), State::Active), ("b".into(), State::Draining)]);
    let twice = stand.table.drain(Seen::default(), &b, soon()).await.unwrap();
    assert_eq!(twice.seen, drained.seen);
    let left = stand.leave(&b).await;
    assert!(has_ended(&left, &b) && left.seen.number == drained.seen.number + 1);
    assert_eq!(stand.leave(&b).await.seen, left.seen, "leaving may be repeated");
    assert_eq!(stand.renew(Seen::default(), &b, 60_000).await.word, Word::Ended);
    assert_eq!(stand.join(&b).await.word, Word::Ended);
    let gone = stand.table.drain(Seen::default(), &b, soon()).await.unwrap();
    assert_eq!(gone.word, Word::Ended);
    assert_eq!(stand.renew(Seen::default(), &run("c", 1), 60_000).await.word, Word::Unknown);
    assert_eq!(stand.join(&run("b", 2)).await.word, Word::Ok);
}

#[tokio::test]
async fn a_lease_that_is_over_is_ended_by_anybody_and_never_renewed_again() {
    let stand = Stand::new(0).await;
    let (a, b) = (run("a", 1), run("b", 1));
    stand.join(&a).await;
    stand.join_as(&b, As { ttl_ms: 30, ..PLAIN }).await;
    let ended = until(|| stand.view(), |answer| has_ended(answer, &b)).await;
    assert_eq!(states(&ended), [("a".into(), State::Active)]);
    assert_eq!(stand.renew(Seen::default(), &b, 30).await.word, Word::Ended);
    // The other way round: who renews before anybody ended it keeps what it has.
    let c = run("c", 1);
    let joined = stand.join_as(&c, As { ttl_ms: 1, ..PLAIN }).await;
    let late = until(
        || stand.renew(Seen::default(), &c, 60_000),
        |answer| answer.time_ms > joined.time_ms + 1,
    );
    assert_eq!(late.await.word, Word::Ok);
}

#[tokio::test]
async fn after_a_silence_of_all_everybody_may_speak_first() {
    let stand = Stand::new(150).await;
    let a = run("a", 1);
    let joined = stand.join_as(&a, As { ttl_ms: 40, ..PLAIN }).await;
    // Silent for more than half a lease: from then on it has the grace, whenever it is over.
    let late = until(|| stand.view(), |answer| answer.time_ms > joined.time_ms + 40).await;
    assert!(!has_ended(&late, &a), "it was over, and not ended at once");
    let ended = until(|| stand.view(), |answer| has_ended(answer, &a)).await;
    let waited = ended.time_ms - joined.time_ms;
    assert!(waited >= 20 + 150, "{waited} ms");
    let b = run("b", 1);
    assert!(stand.join(&b).await.up_since_ms > joined.up_since_ms, "service begins anew");
}

#[tokio::test]
async fn an_earlier_incarnation_is_waited_for_unless_its_place_is_taken() {
    let stand = Stand::new(0).await;
    let taken = Word::Refused(Refusal::NodeIdTaken);
    stand.join(&run("a", 1)).await;
    assert_eq!(stand.join(&run("a", 2)).await.word, taken);
    let elsewhere = As { supersedes: true, address: "10.0.0.2:7070", ..PLAIN };
    assert_eq!(stand.join_as(&run("a", 2), elsewhere).await.word, taken);
    let here = stand.join_as(&run("a", 2), As { supersedes: true, ..PLAIN }).await;
    assert_eq!((here.word, states(&here)), (Word::Ok, vec![("a".into(), State::Active)]));
    assert!(has_ended(&here, &run("a", 1)));
}

#[tokio::test]
async fn nodes_that_do_not_fit_are_kept_out() {
    let stand = Stand::new(0).await;
    let schema = |node, schema| stand.join_as(node, As { schema, ..PLAIN });
    let nodes = ["a", "b", "c", "d"].map(|node| run(node, 1));
    let [a, b, c, d] = &nodes;
    assert_eq!(schema(a, (1, 2)).await.word, Word::Ok);
    assert_eq!(schema(b, (3, 3)).await.word, Word::Refused(Refusal::Schema));
    assert_eq!(schema(b, (2, 3)).await.word, Word::Ok);
    assert_eq!(schema(c, (1, 1)).await.word, Word::Refused(Refusal::Schema));
    stand.command(&["HSET", "{nodes:local}v", "p", "999"]).await;
    assert_eq!(schema(d, (2, 2)).await.word, Word::Refused(Refusal::Placement));
    assert_eq!(stand.renew(Seen::default(), a, 60_000).await.word, Word::Ok, "who is in stays in");
}

#[tokio::test]
async fn the_table_is_bounded() {
    let stand = Stand::new(0).await;
    stand.join(&run("n0", 1)).await;
    let line = "active\n10.0.0.1:7070\nz\n1\n1\n1";
    for i in 1..MEMBERS_MAX - 1 {
        let name = run(&format!("n{i}"), 1).to_string();
        stand.command(&["HSET", "{nodes:local}m", &name, line]).await;
        stand.command(&["ZADD", "{nodes:local}x", "9e15", &name]).await;
    }
    assert_eq!(stand.join(&run("the-last", 1)).await.word, Word::Ok);
    let full = stand.join(&run("one-more", 1)).await;
    assert_eq!(full.word, Word::Refused(Refusal::Full));
    assert_eq!(full.news.unwrap().members.len(), MEMBERS_MAX);
}

#[tokio::test]
async fn joins_begin_together_and_at_once_if_nobody_serves() {
    let stand = Stand::new(0).await;
    let delayed = As { delay_ms: 60, ..PLAIN };
    let nodes = ["a", "b", "c", "d"].map(|node| run(node, 1));
    let [a, b, c, d] = &nodes;
    assert_eq!(states(&stand.join_as(a, delayed).await), [("a".into(), State::Active)]);
    stand.join_as(b, delayed).await;
    let joined = stand.join_as(c, delayed).await;
    let is_active = |answer: &Answer| states(answer).iter().all(|(_, s)| *s == State::Active);
    assert!(!is_active(&joined));
    let begun = until(|| stand.view(), is_active).await;
    assert_eq!(begun.seen.number, joined.seen.number + 1, "both in one view");
    assert!(begun.time_ms >= joined.time_ms + 60);
    let waiting = stand.join_as(d, As { delay_ms: 600_000, ..PLAIN }).await;
    assert!(!is_active(&waiting));
    for one in [a, b, c] {
        stand.leave(one).await;
    }
    assert_eq!(states(&stand.view().await), [("d".into(), State::Active)]);
}

#[tokio::test]
async fn a_lost_table_makes_higher_numbers_and_knows_nobody() {
    let stand = Stand::new(0).await;
    let a = run("a", 1);
    let joined = stand.join(&a).await;
    let keys = ["v", "m", "x", "l", "t", "q"].map(|part| format!("{{nodes:local}}{part}"));
    let mut words = vec!["DEL"];
    words.extend(keys.iter().map(String::as_str));
    stand.command(&words).await;
    let refused = stand.renew(joined.seen.clone(), &a, 60_000).await;
    assert_eq!((refused.word, states(&refused)), (Word::Unknown, vec![]));
    assert!(refused.seen.number > joined.seen.number);
    let back = stand.join(&run("a", 2)).await;
    assert_eq!(states(&back), [("a".into(), State::Active)]);
    assert!(back.up_since_ms >= refused.time_ms, "service begins anew");
}

#[tokio::test]
async fn an_owner_the_table_never_heard_of_is_ended_after_two_leases() {
    let stand = Stand::new(20).await;
    let (a, forgotten) = (run("a", 1), run("forgotten", 1));
    stand.join_as(&a, As { ttl_ms: 60, ..PLAIN }).await;
    let renewing = async |who: &Incarnation| {
        stand.renew(Seen::default(), &a, 60).await;
        stand.expire(false, who).await
    };
    let asked = renewing(&forgotten).await;
    assert!(!has_ended(&asked, &forgotten));
    let ended = until(|| renewing(&forgotten), |answer| has_ended(answer, &forgotten)).await;
    assert!(ended.time_ms > asked.time_ms + 140, "{} ms", ended.time_ms - asked.time_ms);
    assert!(!has_ended(&renewing(&a).await, &a), "who is live is not ended by being asked for");
    let seen = stand.expire(true, &a).await;
    assert!(has_ended(&seen, &a), "but by who saw it end");
    assert_eq!(stand.renew(Seen::default(), &a, 60).await.word, Word::Ended);
}

#[tokio::test]
async fn a_primary_that_went_back_never_shows_an_old_number() {
    let stand = Stand::new(100).await;
    let (a, b, c) = (run("a", 1), run("b", 1), run("c", 1));
    stand.join(&a).await;
    stand.join(&b).await;
    let seen = stand.leave(&c).await.seen;
    // As a replica that had not heard of the last two changes.
    let behind = (seen.number - 1).to_string();
    stand.command(&["HSET", "{nodes:local}v", "n", &behind, "s", "1.1"]).await;
    let ahead = stand.table.view(seen.clone(), soon()).await.unwrap();
    assert!(ahead.seen.number > seen.number && has_ended(&ahead, &c), "all ends, not the last");
    // The same number for another history.
    stand.command(&["HSET", "{nodes:local}v", "s", "2.2"]).await;
    let other = stand.table.view(ahead.seen.clone(), soon()).await.unwrap();
    assert!(other.seen.number > ahead.seen.number && other.news.is_some());
    // Another primary: numbers leap, and leases get time to be renewed there.
    stand.command(&["HSET", "{nodes:local}v", "id", "abc", "d", "50"]).await;
    stand.command(&["ZADD", "{nodes:local}x", "1", &b.to_string()]).await;
    let changed = stand.table.view(other.seen.clone(), soon()).await.unwrap();
    assert!(changed.seen.number > other.seen.number + 1_000 && !has_ended(&changed, &b));
    let ended = until(|| stand.view(), |answer| has_ended(answer, &b)).await;
    assert!(ended.time_ms > changed.time_ms + 150, "the grace and one lease");
}

#[tokio::test]
async fn only_the_ends_since_the_last_view_are_sent() {
    let stand = Stand::new(0).await;
    let (a, b) = (run("a", 1), run("b", 1));
    stand.join(&run("c", 1)).await;
    let first = stand.leave(&a).await.seen;
    let second = stand.leave(&b).await;
    assert_eq!(second.news.unwrap().ended, [a.clone(), b.clone()]);
    let since = stand.table.view(first, soon()).await.unwrap();
    assert_eq!(since.news.unwrap().ended, [b]);
    let none = stand.table.view(second.seen, soon()).await.unwrap();
    assert_eq!(none.news, None);
}

#[tokio::test]
async fn leases_are_renewed_while_memory_is_full() {
    let stand = Stand::new(0).await;
    let a = run("a", 1);
    stand.join(&a).await;
    stand.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(stand.renew(Seen::default(), &a, 60_000).await.word, Word::Ok);
    assert_eq!(stand.join(&run("b", 1)).await.word, Word::Ok);
}

#[tokio::test]
async fn where_functions_are_forbidden_scripts_do_the_same() {
    let stand = Stand::with(&["--rename-command", "FUNCTION", ""], 0).await;
    let (a, b) = (run("a", 1), run("b", 1));
    stand.join(&a).await;
    stand.join_as(&b, As { ttl_ms: 30, ..PLAIN }).await;
    let ended = until(|| stand.view(), |answer| has_ended(answer, &b)).await;
    assert_eq!(states(&ended), [("a".into(), State::Active)]);
    stand.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(stand.renew(Seen::default(), &a, 60_000).await.word, Word::Ok);
}
