//! Goal 17: a cold room with a snapshot of about 64 KiB read back from Redis, beside a plain GET of
//! the same snapshot and its decoding alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object::{Caller, Object as _, ObjectId, ParticipantId};
use prometheus::Registry;
use redis_link::redis::aio::MultiplexedConnection;
use redis_link::redis::{Client, cmd};
use redis_link::rig::Server;
use room::Room;
use room_node::clock::Clock;
use room_node::cluster::Alone;
use room_node::config::Config;
use room_node::host::Host;
use room_node::store::redis::RedisStore;
use room_node::store::{ClaimRequest, Incarnation, Snapshot, Store as _};
use tokio::time::Instant;

use super::link;
use super::stubs::LEASE_MS;
use crate::{name, print_all, request, tick};

const ROOMS: usize = 200;
/// Messages of a room, and the bytes of each: about 64 KiB of state.
const MESSAGES: usize = 100;
const MESSAGE_BYTES: usize = 560;

/// What the host puts before the object's own bytes: magic, version, checksum (decision 0004).
const PRELUDE_BYTES: usize = 7;

/// Who reads snapshots beside the host.
const READER: &str = "reader";

pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = link::server();
        let (clock, registry) = (Clock::system(), Registry::new());
        let store = link::store(&server, clock, &registry).await;
        let host = start(Arc::clone(&store), clock, &registry);
        for room in 0..ROOMS {
            fill(&host, room).await;
        }
        cold(&host).await;
        let mut plain = plain(&server).await;
        let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
        for room in 0..ROOMS {
            let snapshot = stored(&store, room, clock).await;
            assert!(snapshot.bytes.len() > MESSAGES * MESSAGE_BYTES, "{}", snapshot.bytes.len());
            let base = get_and_decode(&mut plain, room, &snapshot).await;
            // What the call itself takes is the same awake, and no part of the figure.
            let woken = read(&host, room, 1).await;
            let awake = read(&host, room, 2).await;
            let rehydrated = woken.saturating_sub(awake).as_secs_f64() * 1e6;
            ours.push(rehydrated);
            theirs.push(base.as_secs_f64() * 1e6);
            ratios.push(rehydrated / (base.as_secs_f64() * 1e6));
        }
        print_all("goal17_rehydrate_by_get_and_decode_ratio", ratios);
        print_all("rehydrate_us", ours);
        print_all("get_and_decode_us", theirs);
    });
}

fn start(store: Arc<RedisStore>, clock: Clock, registry: &Registry) -> Host<Room> {
    let config = Config {
        idle_to_stub_ms: 1_000,
        stub_to_cold_ms: 1_000,
        agent_lease_ms: LEASE_MS,
        wakes_per_second: u32::MAX,
        ..Config::default()
    };
    let me = Incarnation { node: "10.20.30.40:7400".into(), boot: 1 };
    let settings = room::Settings { agent_lease_ms: LEASE_MS, ..room::Settings::default() };
    let alone = Arc::new(Alone::default());
    Host::start(config, settings, store, clock, me, alone, registry).unwrap()
}

const fn agent(room: usize) -> ParticipantId {
    ParticipantId(1 << 100 | room as u128)
}

async fn fill(host: &Host<Room>, room: usize) {
    let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(MESSAGE_BYTES));
    for number in 0..=MESSAGES {
        let (op, caller, args) = match number {
            0 => ("create_room", Caller::Joining(agent(room)), r#"{"name":"Ana"}"#.to_owned()),
            _ => ("send_text", Caller::Participant(agent(room)), text.clone()),
        };
        let id = (room * 1_000 + number) as u128 | 1 << 100;
        let call = request(host, op, &name(room), caller, id, Bytes::from(args));
        let response = host.call(call).await;
        assert!(response.result.is_ok(), "{op}: {response:?}");
    }
}

/// Waits until no room is in memory.
async fn cold(host: &Host<Room>) {
    let metrics = host.metrics();
    while metrics.stubs.get() + metrics.active.get() > 0 {
        tick(Duration::from_millis(20)).await;
    }
}

async fn plain(server: &Server) -> MultiplexedConnection {
    let client = Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// The snapshot of a cold room, read as another node would, and given back.
async fn stored(store: &RedisStore, room: usize, clock: Clock) -> Snapshot {
    let object = ObjectId::new(Room::KIND, &name(room)).unwrap();
    let me = Incarnation { node: READER.into(), boot: 1 };
    let claim = ClaimRequest {
        object: object.clone(),
        me,
        nonce: room as u64 + 1,
        may_create: false,
        observed: None,
    };
    let claimed = store.claim(claim, clock.now()).await.unwrap();
    assert!(claimed.tail.is_empty(), "the snapshot holds all");
    store.release(object, claimed.fence).await.unwrap();
    claimed.snapshot.unwrap()
}

async fn get_and_decode(
    plain: &mut MultiplexedConnection,
    room: usize,
    snapshot: &Snapshot,
) -> Duration {
    let name = name(room);
    let key = format!("{{b{:04}}}s:r:{name}", membership::bucket(name.as_bytes()).0);
    let object = ObjectId::new(Room::KIND, &name).unwrap();
    let (before, own) = snapshot.bytes.split_at(PRELUDE_BYTES);
    assert!(before.starts_with(b"RS"), "the stored form has changed");
    let begin = Instant::now();
    let got: Vec<u8> = cmd("GET").arg(&key).query_async(plain).await.unwrap();
    let state = Room::decode_snapshot(&object, snapshot.schema, own).unwrap();
    let took = begin.elapsed();
    assert!(got.len() >= snapshot.bytes.len());
    drop(state);
    took
}

async fn read(host: &Host<Room>, room: usize, number: u128) -> Duration {
    let caller = Caller::Participant(agent(room));
    let id = number << 64 | room as u128;
    let args = Bytes::from_static(b"{}");
    let call = request(host, "read_room_context", &name(room), caller, id, args);
    let begin = Instant::now();
    let response = host.call(call).await;
    let took = begin.elapsed();
    assert!(response.result.is_ok(), "{response:?}");
    took
}
