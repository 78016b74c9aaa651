//! What Redis holds of every room, looked at again and again past all proxies, as records for the
//! checker. Frames are read here by their stored form (`room-node/src/store/frame.rs`), not by the
//! code that wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use sim::history::{Phase, Record};
use tokio::time::{Instant, sleep_until};

use crate::brief::{BOUND_MS, EMPTY_MS};
use crate::crash::log::Log;
use crate::resp::{Link, Reply};
use crate::workload::Floor;

/// Between two looks: most frames stand for longer before a snapshot takes their place.
const EACH: Duration = Duration::from_secs(2);

/// One step, so that record and log belong together.
const LOOK: &str = "local m = redis.call('HMGET', KEYS[1], 'e', 'k', 'o', 's', 'p', 'c', 'x') \
                    m[8] = redis.call('LRANGE', KEYS[2], 0, -1) return m";

/// A frame: magic 2, version 1, checksum 4, then these.
const FRAME_HEAD: usize = 7;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    first: u64,
    count: u64,
    epoch: u64,
    nonce: u64,
    batch: String,
}

/// What has been seen of one generation of one room.
#[derive(Debug, Default)]
struct Seen {
    frames: BTreeMap<u64, Frame>,
    lsn: u64,
}

/// The looks of a campaign.
pub(crate) struct Stored {
    address: SocketAddr,
    log: Log,
    link: Option<Link>,
    /// In the order of their time.
    pub(crate) records: Vec<Record>,
    /// By room and generation.
    seen: BTreeMap<(String, String), Seen>,
    looks: usize,
    missed: usize,
    dead: BTreeSet<String>,
}

impl Stored {
    pub(crate) fn new(address: SocketAddr, log: Log) -> Self {
        let (records, seen) = (Vec::new(), BTreeMap::new());
        let dead = BTreeSet::new();
        Self { address, log, link: None, records, seen, looks: 0, missed: 0, dead }
    }

    /// Looks until told to stop.
    pub(crate) async fn watch(mut self, floor: Arc<Floor>) -> Self {
        while !floor.over.load(Ordering::Relaxed) {
            self.look().await;
            sleep_until(Instant::now() + EACH).await;
        }
        self
    }

    /// Looks on until these rooms are dead, or could not be later; then once more.
    pub(crate) async fn finish(&mut self, rooms: &BTreeSet<String>) {
        let give_up = Instant::now() + Duration::from_millis(EMPTY_MS + BOUND_MS) + EACH;
        while !rooms.is_subset(&self.dead) && Instant::now() < give_up {
            sleep_until(Instant::now() + EACH).await;
            self.look().await;
        }
        self.look().await;
    }

    /// One look at every room. A Redis that is away is not looked at.
    async fn look(&mut self) {
        if self.link.is_none() {
            self.link = Link::open(self.address).await;
        }
        let Some(mut link) = self.link.take() else {
            self.missed += 1;
            return;
        };
        let Some(Reply::Array(keys)) = link.call(&[b"KEYS", b"{b*}m:r:*"]).await else {
            self.missed += 1;
            return;
        };
        for key in keys {
            let meta = String::from_utf8(key.bytes()).unwrap();
            let Some((tag, room)) = meta.split_once("m:r:") else { continue };
            let log = format!("{tag}l:r:{room}");
            let begun = self.log.now();
            let words = [b"EVAL", LOOK.as_bytes(), b"2", meta.as_bytes(), log.as_bytes()];
            let Some(Reply::Array(answer)) = link.call(&words).await else {
                self.missed += 1;
                return;
            };
            self.note(room, begun, answer);
        }
        self.looks += 1;
        self.link = Some(link);
    }

    fn note(&mut self, room: &str, begun: u64, answer: Vec<Reply>) {
        let mut fields = answer.into_iter();
        let mut text = || String::from_utf8(fields.next().unwrap().bytes()).unwrap();
        let [epoch, nonce, owner, lsn, snapshot, generation, dead] = [(); 7].map(|()| text());
        if epoch.is_empty() {
            return;
        }
        let Some(Reply::Array(stored)) = fields.next() else { panic!("{room}: no list") };
        let frames: Vec<Frame> = stored.into_iter().map(|one| frame(room, &one.bytes())).collect();
        let dead = !dead.is_empty();
        if dead {
            self.dead.insert(room.to_owned());
        } else {
            self.dead.remove(room);
        }
        let number = |text: &str| text.parse::<u64>().ok();
        let nonce = u64::from_str_radix(&nonce, 16).ok();
        let begins = frames.first().map(|frame| frame.first);
        let mut detail = json!({"generation": generation, "dead": dead, "epoch": number(&epoch),
            "nonce": nonce, "node": owner, "lsn": number(&lsn), "snapshot": number(&snapshot),
            "begins": begins});
        let seen = self.seen.entry((room.to_owned(), generation)).or_default();
        detail["frames"] = seen.news(frames).iter().map(Frame::shown).collect();
        seen.lsn = seen.lsn.max(number(&lsn).unwrap_or_default());
        let key = format!("{room}-{}", self.looks);
        for (t, phase, detail) in
            [(begun, Phase::Invoke, Value::Null), (self.log.now(), Phase::Ok, detail)]
        {
            let (client, op) = ("redis".to_owned(), "log".to_owned());
            let (key, room) = (key.clone(), room.to_owned());
            self.records.push(Record { t, client, op, key, phase, room, sequence: None, detail });
        }
    }

    /// How much of the logs was seen.
    pub(crate) fn summary(&self) -> Value {
        let frames = || self.seen.values().flat_map(|seen| seen.frames.values());
        let fences: BTreeSet<_> = frames().map(|frame| (frame.epoch, frame.nonce)).collect();
        let begun = self.seen.keys().filter(|(_, generation)| !generation.is_empty());
        let generations = begun.clone().count();
        let rooms: BTreeSet<&String> = begun.map(|(room, _)| room).collect();
        json!({
            "looks": self.looks,
            "looks_missed": self.missed,
            "rooms": rooms.len(),
            "generations": generations,
            "rooms_destroyed_at_the_end": self.dead.len(),
            "frames_seen": frames().count(),
            "events_seen": frames().map(|frame| frame.count).sum::<u64>(),
            "events_stored": self.seen.values().map(|seen| seen.lsn).sum::<u64>(),
            "fences_seen": fences.len(),
        })
    }
}

impl Seen {
    /// Those that were not shown before, with the last one that was; all if a known one has changed.
    fn news(&mut self, frames: Vec<Frame>) -> Vec<Frame> {
        let known = |frame: &Frame| self.frames.get(&frame.first);
        let changed = frames.iter().any(|frame| known(frame).is_some_and(|was| was != frame));
        let new = frames.iter().position(|frame| known(frame).is_none());
        let from = if changed { 0 } else { new.unwrap_or(frames.len()).saturating_sub(1) };
        for frame in &frames {
            self.frames.insert(frame.first, frame.clone());
        }
        frames.into_iter().skip(from).collect()
    }
}

impl Frame {
    fn shown(&self) -> Value {
        json!({"first": self.first, "count": self.count, "epoch": self.epoch, "nonce": self.nonce,
            "batch": self.batch})
    }
}

/// Numbers are big-endian.
fn frame(room: &str, bytes: &[u8]) -> Frame {
    assert!(bytes.starts_with(b"RF\x01"), "{room}: no frame of version 1");
    let mut rest = &bytes[FRAME_HEAD..];
    let mut number = |len: usize| {
        let (head, tail) = rest.split_at(len);
        rest = tail;
        head.iter().fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte))
    };
    let [first, epoch, nonce] = [(); 3].map(|()| u64::try_from(number(8)).unwrap());
    let (batch, _schema) = (format!("{:032x}", number(16)), number(4));
    let count = u64::try_from(number(4)).unwrap();
    Frame { first, count, epoch, nonce, batch }
}
