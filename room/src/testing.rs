//! A host in one page for tests: one room, a clock that only tests move, blobs, leases, and every
//! rule that must hold after every step. Used by the unit tests and by `tests/all`.

#[path = "testing/conform.rs"]
pub(crate) mod conform;

use std::collections::{BTreeMap, BTreeSet};

use object::{
    BlobArg, BlobId, Call, Caller, Cx, Decision, Millis, Object, ObjectId, OpMeta, Outcome, Parked,
    ParticipantId, Reject, Reply, RequestId,
};
use serde_json::Value;

use conform::Outputs;

use super::event::Event;
use super::live::Signal;
use super::{Room, Settings};

/// The time at which every bench starts.
pub(crate) const START: u64 = 1_790_000_000_000;

/// How a call ended.
pub(crate) type Answer = Result<Value, Reject>;

/// What the edge knows of one attempt.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub request: u128,
    pub number: u32,
    pub age_ms: u64,
}

/// One room under test.
pub(crate) struct Bench {
    pub room: Room,
    pub id: ObjectId,
    pub now: u64,
    pub settings: Settings,
    pub exists: bool,
    /// Every stored event since the last generation began.
    /// Bounded by the steps of a test.
    pub log: Vec<Event>,
    /// Stored blobs that an append has made permanent.
    /// Bounded by the steps of a test.
    pub kept: BTreeSet<BlobId>,
    /// Bounded by the steps of a test.
    pub leases: BTreeMap<ParticipantId, Millis>,
    pub last: Option<Reply>,
    /// Where the last parked call wants to be asked again.
    pub parked_until: Option<u64>,
    outputs: Outputs,
    next: u128,
}

impl Bench {
    /// A room that does not exist yet.
    pub(crate) fn new() -> Self {
        let id = ObjectId::new(super::KIND, "blue-otter").unwrap();
        Self {
            room: Room::fresh(&id),
            id,
            now: START,
            settings: Settings::default(),
            exists: false,
            log: Vec::new(),
            kept: BTreeSet::new(),
            leases: BTreeMap::new(),
            last: None,
            parked_until: None,
            outputs: Outputs::default(),
            next: 1,
        }
    }

    /// Joins an agent and gives its id.
    pub(crate) fn join(&mut self, name: &str) -> ParticipantId {
        let id = self.fresh_id();
        let args = serde_json::json!({"roomId": "blue-otter", "name": name});
        self.call_as("join_room", Caller::Joining(id), &args, None).unwrap();
        id
    }

    /// An id that was not used before.
    pub(crate) fn fresh_id(&mut self) -> ParticipantId {
        ParticipantId::from_random(self.random())
    }

    /// Moves the clock.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now += ms;
    }

    /// A call by handle.
    pub(crate) fn call(&mut self, op: &str, who: ParticipantId, args: &Value) -> Answer {
        self.call_as(op, Caller::Participant(who), args, None)
    }

    /// A call by handle with bytes beside it.
    pub(crate) fn send(
        &mut self,
        op: &str,
        who: ParticipantId,
        args: &Value,
        bytes: &[u8],
    ) -> Answer {
        self.call_as(op, Caller::Participant(who), args, Some(bytes))
    }

    /// A call by anybody; a fresh request each.
    pub(crate) fn call_as(
        &mut self,
        op: &str,
        caller: Caller,
        args: &Value,
        bytes: Option<&[u8]>,
    ) -> Answer {
        let request = self.random();
        self.attempt(op, caller, args, bytes, Attempt { request, number: 1, age_ms: 0 })
    }

    /// One attempt of a call, as the edge would send it.
    pub(crate) fn attempt(
        &mut self,
        op: &str,
        caller: Caller,
        args: &Value,
        bytes: Option<&[u8]>,
        attempt: Attempt,
    ) -> Answer {
        let meta = super::op(op).unwrap();
        let text = serde_json::to_vec(args).unwrap();
        let blob = bytes.map(|b| (BlobId::from_random(self.random()), b));
        let call = self.request(meta, &text, blob, caller, attempt, None);
        self.run(&call)
    }

    /// Asks a parked wait again.
    pub(crate) fn again(
        &mut self,
        who: ParticipantId,
        args: &Value,
        since: u64,
        why: Parked,
    ) -> Answer {
        let meta = super::op("wait_for_events").unwrap();
        let text = serde_json::to_vec(args).unwrap();
        let first = Attempt { request: 7, number: 1, age_ms: 0 };
        let mut call = self.request(meta, &text, None, Caller::Participant(who), first, Some(why));
        call.since = Millis(since);
        self.run(&call)
    }

    fn request<'a>(
        &self,
        op: &'static OpMeta,
        args: &'a [u8],
        blob: Option<(BlobId, &'a [u8])>,
        caller: Caller,
        attempt: Attempt,
        parked: Option<Parked>,
    ) -> Call<'a> {
        Call {
            op,
            args,
            blob: blob.map(|(id, bytes)| BlobArg { id, bytes }),
            caller,
            request: RequestId(attempt.request),
            attempt: attempt.number,
            age_ms: attempt.age_ms,
            connection: 0,
            since: Millis(self.now),
            parked,
        }
    }

    fn random(&mut self) -> u128 {
        self.next += 1;
        self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }

    fn run(&mut self, call: &Call<'_>) -> Answer {
        self.settle();
        let settings = self.settings.clone();
        let random = self.random();
        let cx = Cx { now: Millis(self.now), random, settings: &settings };
        self.parked_until = None;
        let may_create = matches!(
            call.op.activation,
            object::Activation::MayCreate | object::Activation::MustCreate
        );
        if !self.exists && !may_create {
            let body = Room::absent(&cx, call).map(|reply| json(&reply))?;
            self.outputs.check(call.op.name, &body);
            return Ok(body);
        }
        let decision = self.room.decide(&cx, call);
        if let Some(blob) = &call.blob {
            self.apply(&decision, Some(blob.id));
        } else {
            self.apply(&decision, None);
        }
        match decision.outcome {
            Outcome::Reply(reply) => {
                let body = json(&reply);
                self.outputs.check(call.op.name, &body);
                self.last = Some(reply);
                Ok(body)
            }
            Outcome::Refuse(reject) => Err(reject),
            Outcome::Park { until } => {
                self.parked_until = Some(until.0);
                Ok(Value::Null)
            }
        }
    }

    /// Lets everything happen that time alone brings.
    pub(crate) fn settle(&mut self) {
        for _ in 0..8 {
            let due = self.room.next_due();
            if due.is_none_or(|due| due.0 > self.now) {
                return;
            }
            let settings = self.settings.clone();
            let random = self.random();
            let cx = Cx { now: Millis(self.now), random, settings: &settings };
            let decision = self.room.on_due(&cx);
            if decision.destroy {
                let fresh = Room::fresh(&self.id);
                self.room = fresh;
                self.exists = false;
                self.log.clear();
                self.kept.clear();
                self.leases.clear();
                return;
            }
            let changed = !decision.events.is_empty() || !decision.signals.is_empty();
            assert!(changed, "a due time that changes nothing is due for ever");
            self.apply(&decision, None);
        }
        panic!("time never settles");
    }

    /// Stores a decision as the host would, and checks everything that must hold.
    pub(crate) fn apply(&mut self, decision: &Decision<Event, Signal>, uploaded: Option<BlobId>) {
        for event in &decision.events {
            let mut bytes = Vec::new();
            Room::encode_event(event, &mut bytes);
            let read = Room::decode_event(Room::SCHEMA, &bytes).unwrap();
            assert_eq!(read, *event, "an event survives its stored form");
            self.room.evolve(event);
            self.log.push(event.clone());
            self.exists = true;
        }
        if let Some(renewal) = decision.renewal {
            self.room.renew(renewal.participant, renewal.end, Millis(self.now));
            let end = self.leases.entry(renewal.participant).or_default();
            *end = (*end).max(renewal.end);
        }
        for signal in &decision.signals {
            self.room.absorb(signal);
        }
        for blob in &decision.keep_blobs {
            assert_eq!(Some(*blob), uploaded, "only an uploaded blob can be kept");
            assert!(self.kept.insert(*blob), "a blob is kept once");
        }
        for blob in &decision.drop_blobs {
            assert!(self.kept.remove(blob), "only a kept blob can be dropped");
        }
        for participant in &decision.drop_leases {
            assert!(self.leases.remove(participant).is_some(), "a dropped lease was stored");
        }
        let broken = super::invariant::broken(self.room.state());
        assert!(broken.is_empty(), "{broken:?}");
        self.check_blobs();
    }

    /// The blobs that the state names are exactly the kept ones.
    fn check_blobs(&self) {
        let state = self.room.state();
        let mut named: BTreeSet<BlobId> = state.attachments.iter().map(|file| file.id).collect();
        named.extend(state.participants.iter().filter_map(|p| Some(p.surface.as_ref()?.snapshot)));
        named.extend(state.apps.iter().map(|app| app.bundle));
        assert_eq!(named, self.kept, "every kept blob is named by the state and the reverse");
    }

    /// The room as the store would give it back: snapshot, leases, nothing volatile.
    pub(crate) fn reload(&mut self) {
        let bytes = self.room.encode_snapshot();
        let mut room = Room::decode_snapshot(&self.id, Room::SCHEMA, &bytes).unwrap();
        for (participant, end) in &self.leases {
            room.renew(*participant, *end, Millis(self.now));
        }
        self.room = room;
    }
}

fn json(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap()
}

/// The code of a refusal.
#[track_caller]
pub(crate) fn code(answer: Answer) -> &'static str {
    match answer {
        Ok(value) => panic!("not refused: {value}"),
        Err(reject) => reject.code,
    }
}
