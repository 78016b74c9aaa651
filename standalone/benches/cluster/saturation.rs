//! CPU per request at saturation, and latency at a hundred requests a second.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::fleet::{Fleet, Fsync};
use super::pace::{latencies, pass, wakes};
use crate::median;
use crate::serve::ask::{self, CONNECTIONS, on_this_thread};
use crate::serve::figure::{print, ratios};
use crate::serve::server::{self, Server};
use crate::serve::words;

/// Where `cargo xtask bench` puts the peers, from the workspace's root.
pub(crate) const PEERS: &str = "target/bench/release";
const WORKER: &str = "bench/worker/rooms.capnp";
/// Rounds of all cases.
const ROUNDS: usize = 3;
const ROUNDS_ALONE: usize = 20;
/// Requests before the first round, per case.
const WARM_UP: usize = 3_200;
/// Rooms that are polled asleep: their agents poll in turn, so that each keeps its pace.
const POLLED: usize = 1_024;
/// Requests of one round at 100 a second.
const PACED: usize = 300;
/// Waits ended in one round.
const WOKEN: usize = 200;
/// Longest time until all rooms are asleep.
const ASLEEP: Duration = Duration::from_secs(300);

/// Who serves a case.
enum Who<'a> {
    Fleet(&'a Fleet),
    Peer(&'a Server),
}

struct Case<'a> {
    name: &'static str,
    who: Who<'a>,
    requests: Vec<Vec<u8>>,
    /// What every answer contains.
    answer: &'static str,
    /// Requests a round.
    count: usize,
}

/// Figures of one case, a value a round.
#[derive(Default)]
struct Figures {
    cpu_us: Vec<f64>,
    per_second: Vec<f64>,
}

const fn case<'a>(
    name: &'static str,
    who: Who<'a>,
    requests: Vec<Vec<u8>>,
    answer: &'static str,
    count: usize,
) -> Case<'a> {
    Case { name, who, requests, answer, count }
}

impl Who<'_> {
    fn at(&self) -> SocketAddr {
        match self {
            Self::Fleet(fleet) => fleet.at(),
            Self::Peer(server) => server.at,
        }
    }

    fn cpu_us(&self) -> f64 {
        match self {
            Self::Fleet(fleet) => fleet.cpu_us(),
            Self::Peer(server) => server.cpu_us(),
        }
    }
}

/// Rooms with one agent: its handle and the cursor to poll from.
pub(crate) fn create(at: SocketAddr, rooms: usize) -> Vec<(String, u64)> {
    on_this_thread(async {
        let mut making = tokio::task::JoinSet::new();
        for first in 0..CONNECTIONS {
            making.spawn(async move {
                let mut connection = ask::Connection::open(at).await;
                let mut made = Vec::new();
                for _ in (first..rooms).step_by(CONNECTIONS) {
                    connection.ask(&words::create()).await;
                    made.push(words::handle_and_cursor(connection.body()));
                }
                made
            });
        }
        let mut made = Vec::with_capacity(rooms);
        while let Some(done) = making.join_next().await {
            made.extend(done.unwrap());
        }
        made
    })
}

/// Waits until at least so many rooms of the node are asleep.
pub(crate) fn until_asleep(fleet: &Fleet, rooms: usize) {
    let begin = Instant::now();
    let asleep = || fleet.metric("roomring_rooms{state=\"stub\"}");
    while asleep() < rooms as f64 {
        assert!(begin.elapsed() < ASLEEP, "{} are asleep", asleep());
        on_this_thread(pass(Duration::from_millis(100)));
    }
}

/// A fleet with rooms that are sent to and rooms that sleep.
struct Town {
    fleet: Fleet,
    sends: Vec<Vec<u8>>,
    polls: Vec<Vec<u8>>,
}

impl Town {
    fn new(fsync: Fsync, sleepers: usize) -> Self {
        let fleet = Fleet::start(fsync);
        let at = fleet.at();
        let begin = Instant::now();
        let mut made = create(at, sleepers.max(POLLED));
        until_asleep(&fleet, made.len());
        println!("{} rooms made and asleep in {:.1?}", made.len(), begin.elapsed());
        made.truncate(POLLED);
        let polls = made.iter().map(|(handle, cursor)| words::wait_after(handle, *cursor, 0));
        let polls = polls.collect();
        let sends = create(at, CONNECTIONS).iter().map(|made| words::send(&made.0)).collect();
        Self { fleet, sends, polls }
    }
}

/// One case of ours alone, over and over, for whoever looks at the processes meanwhile.
pub(crate) fn alone(name: &str) {
    let town = Town::new(Fsync::EverySecond, 100);
    println!("the processes are {:?}", town.fleet.pids());
    let requests = match name {
        "send" => &town.sends,
        "hot_send" => &vec![town.sends[0].clone(); CONNECTIONS],
        "poll" => &town.polls,
        other => panic!("no case {other}"),
    };
    for _ in 0..ROUNDS_ALONE {
        let cpu = town.fleet.cpu_us_each();
        let asked = ask::run(town.fleet.at(), requests, 8_000, "") as f64;
        let after = town.fleet.cpu_us_each();
        let us: Vec<f64> =
            after.iter().zip(cpu).map(|(after, cpu)| (after - cpu) / asked).collect();
        println!("gateway, node, redis: {us:.1?} us a request");
    }
}

pub(crate) fn run(sleepers: usize) {
    let peers = Path::new(PEERS);
    assert!(peers.join("floor").is_file(), "no peers in {PEERS}: run `cargo xtask bench cluster`");
    let scratch = tempfile::tempdir_in("target/bench").unwrap();
    let floor = server::peer(&peers.join("floor"), &[]);
    let rmcp = server::peer(&peers.join("rmcp"), &[]);
    let storage = format!("--directory-path=rooms={}", scratch.path().display());
    let workerd = server::workerd(WORKER, &[&storage]).expect("install npm: workerd is a peer");
    let every_second = Town::new(Fsync::EverySecond, 100);
    let always = Town::new(Fsync::Always, 100);
    let grown = Town::new(Fsync::EverySecond, sleepers);

    let refused = vec![words::wait("x"); CONNECTIONS];
    let by_name: Vec<Vec<u8>> = (0..CONNECTIONS).map(words::peer_send).collect();
    let hot = vec![every_second.sends[0].clone(); CONNECTIONS];
    let nothing = "\"events\":[]";
    let cases = [
        case("floor", Who::Peer(&floor), refused, "wait_rate_limited", 16_000),
        case("rmcp_send", Who::Peer(&rmcp), by_name.clone(), "sequence", 8_000),
        case("workerd_send", Who::Peer(&workerd), by_name.clone(), "sequence", 3_200),
        case(
            "send",
            Who::Fleet(&every_second.fleet),
            every_second.sends.clone(),
            "sequence",
            8_000,
        ),
        case("hot_send", Who::Fleet(&every_second.fleet), hot, "sequence", 8_000),
        case("poll", Who::Fleet(&every_second.fleet), every_second.polls.clone(), nothing, 8_000),
        case("grown_send", Who::Fleet(&grown.fleet), grown.sends.clone(), "sequence", 8_000),
        case("grown_poll", Who::Fleet(&grown.fleet), grown.polls.clone(), nothing, 8_000),
        case("send_always", Who::Fleet(&always.fleet), always.sends.clone(), "sequence", 8_000),
    ];
    saturation(&cases, &every_second.fleet);
    fsyncs(&always);
    paced(&workerd, &by_name, &every_second, &always);
}

fn saturation(cases: &[Case<'_>], polled: &Fleet) {
    for case in cases {
        ask::run(case.who.at(), &case.requests, WARM_UP, case.answer);
    }
    let woken = || polled.metric("roomring_room_wakes_total{cause=\"poll\"}");
    let before = woken();
    let mut figures: Vec<Figures> = cases.iter().map(|_| Figures::default()).collect();
    for _ in 0..ROUNDS {
        for (case, figures) in cases.iter().zip(&mut figures) {
            let (cpu, begin) = (case.who.cpu_us(), Instant::now());
            let asked = ask::run(case.who.at(), &case.requests, case.count, case.answer) as f64;
            figures.per_second.push(asked / begin.elapsed().as_secs_f64());
            figures.cpu_us.push((case.who.cpu_us() - cpu) / asked);
        }
    }
    for (case, figures) in cases.iter().zip(&figures) {
        print(&format!("{}_cpu_us", case.name), figures.cpu_us.clone());
    }
    let of = |name: &str| &figures[cases.iter().position(|case| case.name == name).unwrap()];
    let cpu = |above: &str, below: &str| ratios(&of(above).cpu_us, &of(below).cpu_us);
    print("goal6_workerd_by_send_always_ratio", cpu("workerd_send", "send_always"));
    print("goal7_workerd_by_send_ratio", cpu("workerd_send", "send"));
    print("goal7_send_by_floor_ratio", cpu("send", "floor"));
    print("goal8_send_by_rmcp_ratio", cpu("send", "rmcp_send"));
    print("goal11_sleeping_poll_by_floor_ratio", cpu("poll", "floor"));
    print("goal11_wakes", vec![woken() - before]);
    let hot = ratios(&of("hot_send").per_second, &of("send").per_second);
    print("goal18_hot_room_by_64_rooms_ratio", hot);
    print("goal19_grown_send_ratio", cpu("grown_send", "send"));
    print("goal19_grown_poll_ratio", cpu("grown_poll", "poll"));
}

/// Messages a flush of the append-only file, counted by strace (goal 12).
fn fsyncs(always: &Town) {
    let mut strace = Command::new("strace");
    let redis = always.fleet.redis_pid().to_string();
    strace.args(["-f", "-qq", "-e", "trace=fdatasync,fsync", "-p", &redis]);
    let Ok(child) = strace.stderr(Stdio::piped()).spawn() else {
        println!("strace is not installed: goal 12 is not measured");
        return;
    };
    on_this_thread(pass(Duration::from_secs(1)));
    let asked = ask::run(always.fleet.at(), &always.sends, 16_000, "sequence");
    let stop = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(stop.unwrap().success());
    let said = child.wait_with_output().unwrap().stderr;
    let said = String::from_utf8_lossy(&said);
    let flushes = said.lines().filter(|line| line.contains("sync(")).count();
    assert!(flushes > 0, "no flush was seen: {said}");
    print("goal12_messages_a_flush", vec![asked as f64 / flushes as f64]);
}

/// Goals 9 and 10.
fn paced(workerd: &Server, by_name: &[Vec<u8>], every_second: &Town, always: &Town) {
    let mut sends = [vec![], vec![], vec![]];
    let mut woken = [vec![], vec![]];
    let at = every_second.fleet.at();
    // Nobody is woken by a message of its own.
    let made = ask::once(at, &words::create());
    let watch = words::handle(&ask::once(at, &words::join(&words::room(&made))));
    let send = words::send(&words::handle(&made));
    let current = |body: Vec<u8>| words::sequence(&body);
    for _ in 0..ROUNDS {
        sends[0].push(median(latencies(workerd.at, by_name, PACED)));
        sends[1].push(median(latencies(at, &every_second.sends, PACED)));
        sends[2].push(median(latencies(always.fleet.at(), &always.sends, PACED)));
        let cursor = current(ask::once(workerd.at, &by_name[0]));
        let wait = |cursor| words::peer_wait(0, cursor, 20);
        woken[0].push(median(wakes(workerd.at, cursor, &wait, &by_name[0], WOKEN)));
        let cursor = current(ask::once(at, &send));
        let wait = |cursor| words::wait_after(&watch, cursor, 20);
        woken[1].push(median(wakes(at, cursor, &wait, &send, WOKEN)));
    }
    print("goal9_send_by_workerd_ratio", ratios(&sends[1], &sends[0]));
    print("goal9_send_always_by_workerd_ratio", ratios(&sends[2], &sends[0]));
    print("goal10_wake_by_workerd_ratio", ratios(&woken[1], &woken[0]));
    let [workerd_ms, ours_ms, always_ms] = sends;
    print("workerd_send_p50_ms", workerd_ms);
    print("send_p50_ms", ours_ms);
    print("send_always_p50_ms", always_ms);
    let [workerd_ms, ours_ms] = woken;
    print("workerd_wake_p50_ms", workerd_ms);
    print("wake_p50_ms", ours_ms);
}
