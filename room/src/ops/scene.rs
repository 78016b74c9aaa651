//! A room with people in it, for tables: calls go through the object exactly as a host makes
//! them (what is due, the decision, its facts, its renewals, its signals).
#![expect(clippy::needless_pass_by_value, reason = "tables hand over fresh JSON")]

use std::collections::BTreeSet;

use object::{
    Attached, BlobArg, BlobId, Call, Caller, Effect, Millis, Object, ObjectId, Outcome, Parked,
    ParticipantId, Reject, RequestId,
};
use serde_json::{Value, json};

use crate::room::{Cx, Decision, Room};
use crate::settings::{CuratedApp, Settings};
use crate::state::State;
use crate::testing::conform::Outputs;

/// Where every scene begins.
pub(crate) const START: Millis = Millis(1_790_000_000_000);
/// The room's id.
pub(crate) const ROOM: &str = "blue-otter";

/// A running room.
pub(crate) struct Scene {
    room: Room,
    pub settings: Settings,
    pub now: Millis,
    random: u128,
    /// The connection the next calls come by; 0 for none.
    pub connection: u64,
    last: Option<Decision>,
    /// Bounded by the steps of a test.
    kept: BTreeSet<BlobId>,
    outputs: Outputs,
    /// Every frame sent so far.
    /// Bounded by the steps of a test.
    pub frames: Vec<(u64, Value)>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let apps = ["bingo", "whiteboard"];
        let apps = apps.map(|id| CuratedApp { app_id: id.into(), title: id.to_uppercase() });
        let settings = Settings { room_apps: apps.into(), ..Settings::default() };
        let id = ObjectId::new(crate::KIND, ROOM).unwrap();
        Self {
            room: Room::fresh(&id),
            settings,
            now: START,
            random: 0x1000,
            connection: 0,
            last: None,
            kept: BTreeSet::new(),
            outputs: Outputs::default(),
            frames: Vec::new(),
        }
    }

    pub(crate) fn state(&self) -> &State {
        self.room.state()
    }

    /// When something happens by itself.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.room.next_due()
    }

    /// Lets time pass, and what is due happen.
    pub(crate) fn pass(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
        self.due();
    }

    /// A new agent.
    pub(crate) fn agent(&mut self, name: &str) -> ParticipantId {
        self.join("join_room", json!({"roomId": ROOM, "name": name}))
    }

    /// A new agent on a runtime host that hears and speaks as said.
    pub(crate) fn agent_on(&mut self, host: &str, stt: bool, tts: bool) -> ParticipantId {
        let host = json!({"runtimeHostId": host, "speech": {"stt": stt, "tts": tts}});
        self.join("join_room", json!({"roomId": ROOM, "name": "Scout", "runtimeHost": host}))
    }

    /// A new human, attached by a connection of its own.
    pub(crate) fn human(&mut self, name: &str) -> ParticipantId {
        self.connection = u64::try_from(self.fresh()).unwrap();
        let id = self.join("join_human", json!({"roomId": ROOM, "name": name}));
        self.connection = 0;
        id
    }

    /// A new human that no connection belongs to.
    pub(crate) fn human_without_line(&mut self, name: &str) -> ParticipantId {
        self.join("join_human", json!({"roomId": ROOM, "name": name}))
    }

    /// A call of a caller of any kind.
    pub(crate) fn ask_as(
        &mut self,
        caller: Caller,
        op: &str,
        args: Value,
    ) -> Result<Value, Reject> {
        let request = RequestId(self.fresh());
        self.ask(op, caller, &args, None, request, None)
    }

    fn join(&mut self, op: &str, args: Value) -> ParticipantId {
        let id = ParticipantId(self.fresh());
        let request = RequestId(self.fresh());
        self.ask(op, Caller::Joining(id), &args, None, request, None).unwrap();
        id
    }

    /// A connection of this participant.
    pub(crate) fn line_of(&self, participant: ParticipantId) -> u64 {
        let lines = &self.state().live.connections;
        lines.iter().find(|c| c.participant == participant).map_or(0, |c| c.connection)
    }

    /// Starts a Task from one participant to another; gives its id.
    pub(crate) fn task(&mut self, from: ParticipantId, to: ParticipantId, id: &str) -> String {
        let human = !self.state().participant(from).unwrap().is_agent();
        let op = if human { "human_collab_request" } else { "send_collab_request" };
        let args = json!({"targetParticipantId": to.to_string(), "summary": "Do", "requestId": id});
        self.call(op, from, args).unwrap();
        id.to_owned()
    }

    /// Starts a Task and publishes an app for it; gives the publication.
    pub(crate) fn app(&mut self, human: ParticipantId, agent: ParticipantId, id: &str) -> Value {
        self.task(human, agent, id);
        let bundle = json!({
            "version": 1, "manifest": {"title": "Vote", "networkOrigins": []},
            "html": "<p>", "css": "p{}", "js": "1", "initialState": {"n": 0},
        });
        let args = json!({"taskRequestId": id});
        let bundle = bundle.to_string();
        let answer = self.blob("publish_generated_app", agent, args, bundle.as_bytes());
        answer.unwrap()["publication"].clone()
    }

    pub(crate) fn call(
        &mut self,
        op: &str,
        who: ParticipantId,
        args: Value,
    ) -> Result<Value, Reject> {
        let request = RequestId(self.fresh());
        self.ask(op, Caller::Participant(who), &args, None, request, None)
    }

    pub(crate) fn blob(
        &mut self,
        op: &str,
        who: ParticipantId,
        args: Value,
        bytes: &[u8],
    ) -> Result<Value, Reject> {
        let request = RequestId(self.fresh());
        self.ask(op, Caller::Participant(who), &args, Some(bytes), request, None)
    }

    /// Decides a parked call again.
    pub(crate) fn again(
        &mut self,
        op: &str,
        who: ParticipantId,
        args: Value,
        request: RequestId,
        parked: Option<Parked>,
    ) -> Result<Value, Reject> {
        self.ask(op, Caller::Participant(who), &args, None, request, parked)
    }

    /// The answer of a call: its body, its refusal, or `parked` for a parked one.
    fn ask(
        &mut self,
        op: &str,
        caller: Caller,
        args: &Value,
        blob: Option<&[u8]>,
        request: RequestId,
        parked: Option<Parked>,
    ) -> Result<Value, Reject> {
        self.due();
        let meta = Room::op(op).unwrap();
        let text = args.to_string();
        let id = BlobId::from_random(self.fresh() << 64 | self.random);
        let call = Call {
            op: meta,
            args: text.as_bytes(),
            blob: blob.map(|bytes| BlobArg { id, bytes }),
            caller,
            request,
            attempt: 1,
            age_ms: 0,
            connection: self.connection,
            since: self.now,
            parked,
        };
        let random = self.fresh();
        let cx = Cx { now: self.now, random, settings: &self.settings };
        let decision = self.room.decide(&cx, &call);
        self.apply(&decision);
        let outcome = decision.outcome.clone();
        self.last = Some(decision);
        match outcome {
            Outcome::Reply(reply) => {
                let body = serde_json::from_slice(&reply.body).unwrap();
                self.outputs.check(op, &body);
                Ok(body)
            }
            Outcome::Refuse(reject) => Err(reject),
            Outcome::Park { until } => Ok(json!({"parked": until.0})),
        }
    }

    /// Loses a connection.
    pub(crate) fn disconnect(&mut self, who: ParticipantId, connection: u64) {
        let cx = Cx { now: self.now, random: 1, settings: &self.settings };
        let decision = self.room.on_disconnect(&cx, who, connection);
        self.apply(&decision);
        self.last = Some(decision);
    }

    fn due(&mut self) {
        if self.room.next_due().is_some_and(|due| due <= self.now) {
            let cx = Cx { now: self.now, random: 2, settings: &self.settings };
            let decision = self.room.on_due(&cx);
            self.apply(&decision);
        }
    }

    fn apply(&mut self, decision: &Decision) {
        for event in &decision.events {
            let mut bytes = Vec::new();
            Room::encode_event(event, &mut bytes);
            assert_eq!(Room::decode_event(Room::SCHEMA, &bytes).unwrap(), *event);
            self.room.evolve(event);
        }
        if let Some(renewal) = decision.renewal {
            self.room.renew(renewal.participant, renewal.end, self.now);
        }
        for signal in &decision.signals {
            self.room.absorb(signal);
        }
        for blob in &decision.keep_blobs {
            assert!(self.kept.insert(*blob), "a blob is kept once");
        }
        for blob in &decision.drop_blobs {
            assert!(self.kept.remove(blob), "only a kept blob can be dropped");
        }
        self.check();
        for effect in &decision.effects {
            if let Effect::Notify { connection, frame } = effect {
                self.frames.push((*connection, serde_json::from_slice(frame).unwrap()));
            }
        }
    }

    /// What must be true after every step: the invariants, the stored form of the state, and that
    /// exactly the kept blobs are named.
    fn check(&self) {
        let broken = crate::invariant::broken(self.state());
        assert!(broken.is_empty(), "{broken:?}");
        let state = self.state();
        let mut named: BTreeSet<BlobId> = state.attachments.iter().map(|file| file.id).collect();
        named.extend(state.participants.iter().filter_map(|p| Some(p.surface.as_ref()?.snapshot)));
        named.extend(state.apps.iter().map(|app| app.bundle));
        assert_eq!(named, self.kept);
    }

    /// Loses the activation: the volatile part is gone, the stored part comes back.
    pub(crate) fn crash(&mut self) {
        let bytes = self.room.encode_snapshot();
        let id = ObjectId::new(crate::KIND, ROOM).unwrap();
        let mut room = Room::decode_snapshot(&id, Room::SCHEMA, &bytes).unwrap();
        for p in self.state().participants.iter().filter(|p| p.is_agent()) {
            room.renew(p.id, p.lease_end, self.now);
        }
        self.room = room;
    }

    /// What the last decision keeps and drops.
    pub(crate) fn blobs(&self) -> (Vec<BlobId>, Vec<BlobId>) {
        let last = self.last.as_ref().unwrap();
        (last.keep_blobs.clone(), last.drop_blobs.clone())
    }

    /// The last decision.
    pub(crate) fn last(&self) -> &Decision {
        self.last.as_ref().unwrap()
    }

    /// What the last answer carries beside its body.
    pub(crate) fn attached(&self) -> Option<Attached> {
        match &self.last.as_ref()?.outcome {
            Outcome::Reply(reply) => reply.attached.clone(),
            Outcome::Refuse(_) | Outcome::Park { .. } => None,
        }
    }

    /// Milliseconds until an agent's lease ends.
    pub(crate) fn lease_left(&self, agent: ParticipantId) -> u64 {
        self.state().participant(agent).unwrap().lease_end.since(self.now)
    }

    fn fresh(&mut self) -> u128 {
        self.random += 1;
        self.random
    }
}

#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;
