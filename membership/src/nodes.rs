//! The node table in Redis: its functions, what is sent, and what comes back.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use redis_link::redis::Value;
use redis_link::{Call, Failure, Library, RedisLink};
use thiserror::Error;
use tokio::time::Instant;

use crate::PLACEMENT_VERSION;
use crate::view::{Incarnation, Member, State, View};

/// The functions of the node table, for the link that is opened.
pub const NODES: Library = Library {
    name: "nodes_v1",
    code: include_str!("nodes_v1.lua"),
    functions: &[],
    reads: &[],
    // The table is bounded, and a lease that could not be renewed while memory is full would close
    // the whole region, reads included.
    vital: &["join", "renew", "drain", "leave", "view", "expire"],
};

/// How many ends the table keeps, and a node remembers; `nodes_v1.lua` has the same number. An end
/// is asked for when somebody touches what the ended incarnation held: with fifty nodes restarted
/// ten times a day, this is a week. An older one costs the first who asks two lease times of
/// waiting, not correctness: see `expire`.
pub const ENDED_MAX: usize = 4_096;

/// The longest zone, in bytes.
pub(crate) const ZONE_BYTES_MAX: usize = 64;

/// The longest address, in bytes.
pub(crate) const ADDRESS_BYTES_MAX: usize = 255;

/// The view that a caller has; what came after it is sent.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) number: u64,
    /// Tells two views of one number apart, if a failover made two.
    pub(crate) stamp: String,
}

/// What the table said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) word: Word,
    /// Redis's clock, ms.
    pub(crate) time_ms: u64,
    pub(crate) seen: Seen,
    pub(crate) up_since_ms: u64,
    /// How many members this very call ended.
    pub(crate) tombstones: u64,
    pub(crate) news: Option<News>,
}

/// What is new since the caller's view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct News {
    /// All live members.
    pub(crate) members: Vec<Member>,
    /// Those that ended.
    /// Bounded by the store, which keeps no more ends than [`ENDED_MAX`].
    pub(crate) ended: Vec<Incarnation>,
}

/// The table's verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Ok,
    Ended,
    Unknown,
    Refused(Refusal),
}

/// Why the table does not let a node in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    #[error(
        "another process runs under this node id and holds its lease: give each node its own \
         --node-id, or stop the other one"
    )]
    NodeIdTaken,
    #[error(
        "the data of this region was placed by another version of the placement: run the version \
         that the other nodes run"
    )]
    Placement,
    #[error(
        "the stored schemas this version reads and those of the live nodes have none in common: \
         upgrade one version at a time"
    )]
    Schema,
    #[error("the region has 512 nodes, which is all it can have: stop some first")]
    Full,
    #[error("this incarnation has ended: start as a new one")]
    Ended,
}

/// Why the table could not be asked.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AskError {
    #[error(transparent)]
    Failed(#[from] Failure),
    #[error(
        "the node table gave an answer that this version cannot read: check that all nodes and \
         gateways run versions that fit"
    )]
    Malformed,
}

/// What a node says of itself when it joins.
#[derive(Clone, Debug)]
pub(crate) struct Joining<'a> {
    pub(crate) me: &'a Incarnation,
    pub(crate) ttl_ms: u64,
    pub(crate) join_delay_ms: u64,
    pub(crate) schema: (u32, u32),
    pub(crate) address: &'a str,
    pub(crate) zone: &'a str,
    pub(crate) weight: u32,
    /// Whoever listens at the address now took the place of who did before.
    pub(crate) supersedes: bool,
}

/// The table of one region.
#[derive(Clone, Debug)]
pub(crate) struct NodeTable {
    link: Arc<RedisLink>,
    keys: Vec<Bytes>,
    grace_ms: u64,
}

impl NodeTable {
    pub(crate) fn new(link: Arc<RedisLink>, region: &str, grace_ms: u64) -> Self {
        let key = |part| Bytes::from(format!("{{nodes:{region}}}{part}"));
        Self { link, keys: ["v", "m", "x", "l", "t", "q"].map(key).to_vec(), grace_ms }
    }

    pub(crate) async fn join(
        &self,
        seen: Seen,
        joining: &Joining<'_>,
        by: Instant,
    ) -> Result<Answer, AskError> {
        let args = [
            joining.me.to_string(),
            joining.ttl_ms.to_string(),
            joining.join_delay_ms.to_string(),
            PLACEMENT_VERSION.to_string(),
            joining.schema.0.to_string(),
            joining.schema.1.to_string(),
            joining.address.to_owned(),
            joining.zone.to_owned(),
            joining.weight.to_string(),
            u8::from(joining.supersedes).to_string(),
        ];
        self.ask("join", seen, args, by).await
    }

    pub(crate) async fn renew(
        &self,
        seen: Seen,
        me: &Incarnation,
        ttl_ms: u64,
        load: u32,
        by: Instant,
    ) -> Result<Answer, AskError> {
        let args = [me.to_string(), ttl_ms.to_string(), load.to_string()];
        self.ask("renew", seen, args, by).await
    }

    pub(crate) async fn drain(
        &self,
        seen: Seen,
        me: &Incarnation,
        by: Instant,
    ) -> Result<Answer, AskError> {
        self.ask("drain", seen, [me.to_string()], by).await
    }

    pub(crate) async fn leave(
        &self,
        seen: Seen,
        me: &Incarnation,
        by: Instant,
    ) -> Result<Answer, AskError> {
        self.ask("leave", seen, [me.to_string()], by).await
    }

    pub(crate) async fn view(&self, seen: Seen, by: Instant) -> Result<Answer, AskError> {
        self.ask("view", seen, [PLACEMENT_VERSION.to_string()], by).await
    }

    /// Asks the table to end incarnations: those that the caller saw ended, or those it never
    /// heard of.
    pub(crate) async fn expire(
        &self,
        seen: Seen,
        witnessed: bool,
        which: &[Incarnation],
        by: Instant,
    ) -> Result<Answer, AskError> {
        let flag = u8::from(witnessed).to_string();
        let args = std::iter::once(flag).chain(which.iter().map(ToString::to_string));
        self.ask("expire", seen, args, by).await
    }

    /// Every function may write, and what it wrote counts only once the level has confirmed it: an
    /// isolated primary must extend no lease and end nobody.
    async fn ask(
        &self,
        function: &'static str,
        seen: Seen,
        args: impl IntoIterator<Item = String>,
        by: Instant,
    ) -> Result<Answer, AskError> {
        let first = [seen.number.to_string(), seen.stamp, self.grace_ms.to_string()];
        let call = Call {
            key: self.keys.first().cloned().unwrap_or_default(),
            function,
            keys: self.keys.clone(),
            args: first.into_iter().chain(args).map(Bytes::from).collect(),
            writes: true,
            durable: true,
            deadline: by,
        };
        let value = self.link.call(call).await?;
        Answer::parse(&value).ok_or(AskError::Malformed)
    }
}

impl Answer {
    fn parse(value: &Value) -> Option<Self> {
        let Value::Array(parts) = value else { return None };
        let [word, time, number, stamp, up, tombstones, kind, members, ended] = parts.as_slice()
        else {
            return None;
        };
        let news = News {
            members: list(members)?.iter().map(member).collect::<Option<_>>()?,
            ended: list(ended)?.iter().map(|one| text(one)?.parse().ok()).collect::<Option<_>>()?,
        };
        Some(Self {
            word: Word::parse(text(word)?)?,
            time_ms: whole(time)?,
            seen: Seen { number: whole(number)?, stamp: text(stamp)?.to_owned() },
            up_since_ms: whole(up)?,
            tombstones: whole(tombstones)?,
            news: (whole(kind)? > 0).then_some(news),
        })
    }
}

impl Word {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "OK" => Self::Ok,
            "ENDED" => Self::Ended,
            "UNKNOWN" => Self::Unknown,
            "TAKEN" => Self::Refused(Refusal::NodeIdTaken),
            "PLACEMENT" => Self::Refused(Refusal::Placement),
            "SCHEMA" => Self::Refused(Refusal::Schema),
            "FULL" => Self::Refused(Refusal::Full),
            _ => return None,
        })
    }
}

fn member(value: &Value) -> Option<Member> {
    let fields: Vec<&str> = text(value)?.split('\n').collect();
    let [incarnation, state, address, zone, weight, low, high, load] = fields.as_slice() else {
        return None;
    };
    Some(Member {
        incarnation: incarnation.parse().ok()?,
        address: (*address).to_owned(),
        zone: (*zone).to_owned(),
        weight: weight.parse().ok()?,
        state: State::ALL.into_iter().find(|one| one.word() == *state)?,
        schema: (low.parse().ok()?, high.parse().ok()?),
        load: load.parse().ok()?,
    })
}

fn list(value: &Value) -> Option<&[Value]> {
    if let Value::Array(parts) = value { Some(parts) } else { None }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn whole(value: &Value) -> Option<u64> {
    if let Value::Int(number) = value { u64::try_from(*number).ok() } else { None }
}

/// What one process knows of the table. It only moves forward: a view of a lower number is left
/// aside, and an end that was seen once stays.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub(crate) seen: Seen,
    pub(crate) view: View,
    pub(crate) up_since_ms: u64,
    /// At most [`ENDED_MAX`], as in `order`.
    ended: HashSet<Incarnation>,
    /// At most [`ENDED_MAX`], the oldest first.
    order: VecDeque<Incarnation>,
}

impl Roster {
    pub(crate) fn has_ended(&self, incarnation: &Incarnation) -> bool {
        self.ended.contains(incarnation)
    }

    /// Takes an answer in. Says whether the view changed.
    pub(crate) fn fold(&mut self, answer: &Answer) -> bool {
        for incarnation in answer.news.iter().flat_map(|news| &news.ended) {
            self.end(incarnation.clone());
        }
        self.up_since_ms = self.up_since_ms.max(answer.up_since_ms);
        // Of two views with one number the table itself makes a third: no order is needed here.
        let is_news = answer.seen.number >= self.seen.number && answer.seen != self.seen;
        let Some(news) = answer.news.as_ref().filter(|_| is_news) else { return false };
        self.seen = answer.seen.clone();
        let mut members = news.members.clone();
        members.sort_by(|a, b| a.incarnation.cmp(&b.incarnation));
        self.view = View { number: answer.seen.number, members };
        true
    }

    /// Members that the table has as live though their end was seen: a failover lost the tombstone.
    pub(crate) fn risen(&self) -> Vec<Incarnation> {
        let members = self.view.members.iter().map(|member| &member.incarnation);
        members.filter(|incarnation| self.has_ended(incarnation)).cloned().collect()
    }

    fn end(&mut self, incarnation: Incarnation) {
        if self.ended.insert(incarnation.clone()) {
            self.order.push_back(incarnation);
        }
        while self.order.len() > ENDED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.ended.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod on_redis;
#[cfg(test)]
mod tests;
