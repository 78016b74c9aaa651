//! A counter with members: the smallest object that joins, counts, waits, times out and ends.

use std::sync::Arc;

use object::*;

const fn op(name: &'static str, activation: Activation, wait: bool) -> OpMeta {
    OpMeta {
        name,
        address: Address::Handle,
        activation,
        audience: Audience::Agent,
        read_only: matches!(activation, Activation::Peek),
        minted: Minted::Nothing,
        guard: Guard::Call(1),
        wait,
        park_ms: 0,
        client_request_id: false,
        blob: None,
    }
}

static OPS: [OpMeta; 15] = [
    op("join", Activation::MayCreate, false),
    op("create", Activation::MustCreate, false),
    op("add", Activation::MustExist, false),
    op("get", Activation::Peek, false),
    op("wait", Activation::Peek, true),
    op("alarm", Activation::MustExist, false),
    op("keep", Activation::MustExist, false),
    op("work", Activation::MustExist, false),
    op("notify", Activation::MustExist, false),
    op("boom", Activation::MustExist, false),
    op("end", Activation::MustExist, false),
    op("leave", Activation::MustExist, false),
    op("trap", Activation::MustExist, false),
    op("steal", Activation::MustExist, false),
    op("rot", Activation::MustExist, false),
];

/// What tests turn.
#[derive(Clone, Debug)]
pub struct Settings {
    pub lease_ms: u64,
    /// How long a wait without news is held; 0 for not at all.
    pub hold_ms: u64,
}

#[derive(Clone, Debug)]
pub enum Event {
    Joined(ParticipantId),
    Left(ParticipantId),
    Added(u64),
    Alarm(Millis),
    Rang,
    /// Its stored form cannot be read.
    Rotten,
}

#[derive(Debug)]
pub struct Counter {
    value: u64,
    rang: u64,
    alarm: Option<Millis>,
    members: Vec<(ParticipantId, Millis)>,
    working: u64,
}

type Answer = Decision<Event, u64>;

fn body(text: String) -> Outcome {
    Outcome::Reply(Reply::new(text.into_bytes()))
}

fn number(args: &[u8]) -> u64 {
    std::str::from_utf8(args).unwrap().parse().unwrap_or(0)
}

fn poll(value: u64, cursor: u64, kind: Poll) -> Reply {
    let news = value != cursor;
    let body = format!(r#"{{"cursor":{value},"news":{news}}}"#).into_bytes();
    Reply { body, attached: None, poll: Some(kind) }
}

impl Object for Counter {
    const KIND: KindTag = KindTag(b'c');
    const SCHEMA: u32 = 1;
    type Event = Event;
    type Signal = u64;
    type Settings = Settings;

    fn op(name: &str) -> Option<&'static OpMeta> {
        OPS.iter().find(|op| op.name == name)
    }

    fn fresh(_id: &ObjectId) -> Self {
        Self { value: 0, rang: 0, alarm: None, members: Vec::new(), working: 0 }
    }

    fn absent(_cx: &Cx<'_, Settings>, call: &Call<'_>) -> Result<Reply, Reject> {
        assert!(call.args != b"boom", "a poisoned question");
        Err(Reject::new(Class::NotFound, "no_counter", "There is no such counter.", false))
    }

    fn occupied(_call: &Call<'_>) -> Reject {
        Reject::new(Class::Conflict, "counter_exists", "The counter exists.", false)
    }

    fn never_shed(op: &OpMeta) -> bool {
        op.name == "leave"
    }

    fn decide(&self, cx: &Cx<'_, Settings>, call: &Call<'_>) -> Answer {
        let caller = call.caller.participant();
        let member = caller.filter(|who| self.members.iter().any(|(known, _)| known == who));
        let mut made = Decision::only(body(format!(r#"{{"value":{}}}"#, self.value)));
        match call.op.name {
            "join" | "create" => made.events.extend(caller.map(Event::Joined)),
            "get" => {
                made.outcome = body(format!("{{\"value\":{},\"rang\":{}}}", self.value, self.rang))
            }
            _ if member.is_none() => {
                let gone = Reject::new(Class::Gone, "not_a_member", "Join first.", false);
                return Decision::refuse(gone);
            }
            "add" => {
                made.events.push(Event::Added(number(call.args)));
                let value = self.value + number(call.args);
                made.outcome = body(format!(r#"{{"value":{value}}}"#));
            }
            "alarm" => made.events.push(Event::Alarm(cx.now.plus(number(call.args)))),
            "keep" => {
                made.events.push(Event::Added(0));
                made.keep_blobs.extend(call.blob.as_ref().map(|blob| blob.id));
                let attached = call.blob.as_ref().map(|blob| Attached::Text { blob: blob.id });
                made.outcome = Outcome::Reply(Reply { attached, ..Reply::new(b"{}".to_vec()) });
            }
            "work" if call.parked.is_none() => {
                made.signals.push(self.working + 1);
                made.outcome = Outcome::Park { until: cx.now.plus(number(call.args)) };
            }
            "work" if call.parked == Some(Parked::Changed) => {
                made.outcome = Outcome::Park { until: call.since.plus(number(call.args)) };
            }
            "work" => made.signals.push(self.working - 1),
            "notify" => made.effects.extend(caller.map(|participant| Effect::NotifyParticipant {
                participant,
                frame: vec![0; number(call.args) as usize],
            })),
            "end" => made.destroy = true,
            "leave" => {
                made.events.extend(caller.map(Event::Left));
                made.drop_leases.extend(caller);
            }
            "trap" if call.parked.is_none() => {
                made.outcome = Outcome::Park { until: cx.now.plus(60_000) };
            }
            "steal" => {
                made.events.push(Event::Added(1));
                made.keep_blobs.push(BlobId(77));
            }
            "rot" => made.events.push(Event::Rotten),
            "wait" => made.outcome = self.wait(cx, call),
            _ => panic!("boom"),
        }
        made.renewal = caller
            .map(|participant| Renewal { participant, end: cx.now.plus(cx.settings.lease_ms) });
        made
    }

    fn on_due(&self, cx: &Cx<'_, Settings>) -> Answer {
        let mut made = Decision::only(body("{}".to_owned()));
        // A handler that is due and does nothing.
        if self.value == 667 {
            return made;
        }
        if self.alarm.is_some_and(|at| at <= cx.now) {
            made.events.push(Event::Rang);
            assert!(self.value != 666, "a poisoned counter");
        }
        for (who, end) in &self.members {
            if *end <= cx.now {
                made.events.push(Event::Left(*who));
                made.drop_leases.push(*who);
            }
        }
        made
    }

    fn on_disconnect(&self, _: &Cx<'_, Settings>, who: ParticipantId, _: u64) -> Answer {
        assert!(self.value != 665, "a poisoned farewell");
        let mut made = Decision::only(body("{}".to_owned()));
        made.events.push(Event::Left(who));
        made.drop_leases.push(who);
        made
    }

    fn evolve(&mut self, event: &Event) {
        match event {
            Event::Joined(who) => self.members.push((*who, Millis::FAR_FUTURE)),
            Event::Left(who) => self.members.retain(|(known, _)| known != who),
            Event::Added(more) => self.value += more,
            Event::Alarm(at) => self.alarm = Some(*at),
            Event::Rang => (self.alarm, self.rang) = (None, self.rang + 1),
            Event::Rotten => {}
        }
    }

    fn renew(&mut self, who: ParticipantId, end: Millis, _now: Millis) {
        for (known, known_end) in &mut self.members {
            if *known == who && (*known_end == Millis::FAR_FUTURE || *known_end < end) {
                *known_end = end;
            }
        }
    }

    fn absorb(&mut self, signal: &u64) {
        self.working = *signal;
    }

    fn next_due(&self) -> Option<Millis> {
        self.members.iter().map(|(_, end)| *end).chain(self.alarm).min()
    }

    fn busy(&self) -> bool {
        self.working > 0
    }

    fn idle_view(&self, _settings: &Settings) -> IdleView {
        let projection = Arc::from(self.members.len().to_string().into_bytes());
        IdleView { sequence: self.value, pollers: self.members.clone(), projection }
    }

    fn answer_idle_poll(_settings: &Settings, idle: &IdlePoll<'_>) -> Option<Reply> {
        (number(idle.args) == idle.sequence)
            .then(|| poll(idle.sequence, idle.sequence, Poll::Quiet))
    }

    fn hold_idle_poll(
        settings: &Settings,
        idle: &IdlePoll<'_>,
        since: Millis,
    ) -> Option<(Millis, Reply)> {
        let held = settings.hold_ms > 0 && number(idle.args) == idle.sequence;
        let quiet = poll(idle.sequence, idle.sequence, Poll::Quiet);
        held.then(|| (since.plus(settings.hold_ms), quiet))
    }

    fn encode_event(event: &Event, out: &mut Vec<u8>) {
        let (tag, number): (u8, u128) = match event {
            Event::Joined(who) => (1, who.0),
            Event::Left(who) => (2, who.0),
            Event::Added(more) => (3, u128::from(*more)),
            Event::Alarm(at) => (4, u128::from(at.0)),
            Event::Rang => (5, 0),
            Event::Rotten => (99, 0),
        };
        out.push(tag);
        out.extend(number.to_be_bytes());
    }

    fn decode_event(_schema: u32, bytes: &[u8]) -> Result<Event, CodecError> {
        let damaged = CodecError::Damaged { what: "event" };
        let (tag, rest) = bytes.split_first().ok_or_else(|| damaged.clone())?;
        let number = u128::from_be_bytes(rest.try_into().map_err(|_| damaged.clone())?);
        Ok(match tag {
            1 => Event::Joined(ParticipantId(number)),
            2 => Event::Left(ParticipantId(number)),
            3 => Event::Added(number as u64),
            4 => Event::Alarm(Millis(number as u64)),
            5 => Event::Rang,
            _ => return Err(damaged),
        })
    }

    fn encode_snapshot(&self) -> Vec<u8> {
        let alarm = self.alarm.map_or(0, |at| at.0);
        let head = [self.value, self.rang, alarm].map(u64::to_be_bytes).concat();
        let members = self.members.iter().flat_map(|(who, _)| who.0.to_be_bytes());
        head.into_iter().chain(members).collect()
    }

    fn decode_snapshot(_: &ObjectId, _: u32, bytes: &[u8]) -> Result<Self, CodecError> {
        let damaged = || CodecError::Damaged { what: "snapshot" };
        let (head, members) = bytes.split_at_checked(24).ok_or_else(damaged)?;
        let word = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().unwrap());
        let members = members.chunks(16).map(|who| {
            (ParticipantId(u128::from_be_bytes(who.try_into().unwrap())), Millis::FAR_FUTURE)
        });
        Ok(Self {
            value: word(0),
            rang: word(8),
            alarm: Some(Millis(word(16))).filter(|at| at.0 > 0),
            members: members.collect(),
            working: 0,
        })
    }
}

impl Counter {
    fn wait(&self, cx: &Cx<'_, Settings>, call: &Call<'_>) -> Outcome {
        let cursor = number(call.args);
        let until = call.since.plus(cx.settings.hold_ms);
        if cursor != self.value {
            Outcome::Reply(poll(self.value, cursor, Poll::News))
        } else if until <= cx.now || call.parked == Some(Parked::TimedOut) {
            Outcome::Reply(poll(self.value, cursor, Poll::Quiet))
        } else {
            Outcome::Park { until }
        }
    }
}
