//! Random lives of a room with people, residents and agents: whatever they do, and whenever the
//! activation is lost, the invariants, the stored forms and the blobs hold (the scene checks them
//! after every step), every refusal has a known code, and nothing is left of whoever has gone.

use fastrand::Rng;
use object::ParticipantId;
use serde_json::{Value, json};

use super::{ROOM, Scene};
use crate::names::app_instance_id;
use crate::reject::Code;

const STEPS: usize = 400;
const SEEDS: u64 = 12;

struct Storm {
    scene: Scene,
    rng: Rng,
    people: Vec<ParticipantId>,
    agents: Vec<ParticipantId>,
    done: usize,
}

#[test]
fn whatever_they_do_the_rules_hold() {
    let mut done = 0;
    for seed in 0..SEEDS {
        let mut storm = Storm {
            scene: Scene::new(),
            rng: Rng::with_seed(seed),
            people: Vec::new(),
            agents: Vec::new(),
            done: 0,
        };
        for _ in 0..STEPS {
            storm.step();
            storm.check();
        }
        done += storm.done;
    }
    assert!(done > STEPS, "most of it must get through: {done}");
}

impl Storm {
    fn one(&mut self, of: &[ParticipantId]) -> ParticipantId {
        self.rng.choice(of).copied().unwrap_or(ParticipantId(1))
    }

    fn word(&mut self, of: &[&'static str]) -> &'static str {
        self.rng.choice(of).copied().unwrap_or("x")
    }

    fn step(&mut self) {
        match self.rng.u8(..20) {
            0 if self.people.len() + self.agents.len() < 12 => {
                let human = self.scene.human("Ana");
                self.people.push(human);
            }
            1 if self.people.len() + self.agents.len() < 12 => {
                let host = self.word(&["host-0001", "host-0002"]);
                let (stt, tts) = (self.rng.bool(), self.rng.bool());
                let agent = self.scene.agent_on(host, stt, tts);
                self.agents.push(agent);
            }
            2 => {
                let ms = self.rng.u64(..40_000);
                self.scene.pass(ms);
            }
            3 => self.scene.crash(),
            4 => {
                let who = self.one(&self.people.clone());
                let line = self.scene.line_of(who);
                self.scene.disconnect(who, line);
            }
            5..=11 => self.person(),
            _ => self.agent(),
        }
        // Tests never end for want of people.
        let state = self.scene.state();
        let here = |id: &ParticipantId| state.participant(*id).is_some();
        self.people.retain(here);
        self.agents.retain(here);
    }

    fn person(&mut self) {
        let (people, agents) = (self.people.clone(), self.agents.clone());
        let (me, agent) = (self.one(&people), self.one(&agents).to_string());
        let task = self.word(&["plan-0001", "plan-0002", "plan-0003"]);
        let board = app_instance_id(ROOM, "whiteboard");
        let host = self.word(&["host-0001", "host-0002"]);
        let on = self.rng.bool();
        let (op, args) = match self.rng.u8(..16) {
            0 => ("human_chat", json!({"text": "hi", "taskRequestId": task})),
            1 => ("human_chat", json!({"text": "hi", "targets": [agent]})),
            2 => ("human_action", json!({"actionType": "wave", "actionPayload": {"k": "v"}})),
            3 => (
                "human_collab_request",
                json!({"targetParticipantId": agent, "summary": "Do", "requestId": task}),
            ),
            4 => ("human_collab_response", json!({"requestId": task, "decision": "accepted"})),
            5 => (
                "human_collab_result",
                json!({"requestId": task, "status": "completed", "summary": "x"}),
            ),
            6 => ("transcript_start", json!({"runtimeHostId": host})),
            7 => ("transcript_stop", json!({})),
            8 => ("meeting_notes_start", json!({"agentParticipantId": agent})),
            9 => ("agent_voice_set", json!({"agentParticipantId": agent, "enabled": on})),
            10 => {
                ("permission_respond", json!({"requestId": "perm-0001", "selectedOptionId": "yes"}))
            }
            11 => ("app_host_attach", json!({"appInstanceId": board})),
            12 => ("app_host_detach", json!({"appInstanceId": board})),
            13 => ("attach_human", json!({})),
            14 => ("leave_human", json!({})),
            _ => {
                let args = json!({"mimeType": "image/png", "taskRequestId": task, "taskWake": on});
                let sent = self.scene.blob("human_send_attachment", me, args, b"x");
                return self.judge(sent);
            }
        };
        let line = self.scene.line_of(me);
        self.scene.connection = if line == 0 { 5_000 + self.rng.u64(..4) } else { line };
        let answer = self.scene.call(op, me, args);
        self.scene.connection = 0;
        self.judge(answer);
    }

    fn agent(&mut self) {
        let (people, agents) = (self.people.clone(), self.agents.clone());
        let (me, human) = (self.one(&agents), self.one(&people).to_string());
        let task = self.word(&["plan-0001", "plan-0002", "plan-0003"]);
        let board = app_instance_id(ROOM, "whiteboard");
        let n = self.rng.u64(1..4);
        let epoch = self.scene.state().transcript.epoch;
        let surface = json!({"surfaceId": "s", "revision": n, "data": {},
            "root": {"type": "Text", "text": "hi"}});
        let (op, args) = match self.rng.u8(..11) {
            0 => ("resident_connect", json!({})),
            1 => ("resident_heartbeat", json!({})),
            2 => ("resident_activity", json!({"scopeId": "room", "state": "working"})),
            3 => (
                "permission_request",
                json!({"requestId": "perm-0001",
                "toolCall": {"title": "Run"}, "options": [{"optionId": "yes", "name": "Yes"}]}),
            ),
            4 => (
                "transcript_append",
                json!({"epoch": epoch, "segmentId": format!("s{n}"),
                "text": "hello", "sourceParticipantId": human}),
            ),
            5 => ("publish_live_view", json!({"taskRequestId": task, "surface": surface})),
            6 => ("room_app_request", json!({"appInstanceId": board, "payload": {}})),
            7 => ("clear_surface", json!({})),
            8 => ("leave_room", json!({})),
            9 => {
                let mime = json!({"mimeType": "image/png"});
                let sent = self.scene.blob("publish_surface", me, mime, b"x");
                return self.judge(sent);
            }
            _ => {
                let bundle = json!({"version": 1, "css": "p", "js": "1", "initialState": {},
                    "manifest": {"title": "Vote", "networkOrigins": []}, "html": n.to_string()});
                let (bundle, args) = (bundle.to_string(), json!({"taskRequestId": task}));
                let sent = self.scene.blob("publish_generated_app", me, args, bundle.as_bytes());
                return self.judge(sent);
            }
        };
        if op == "resident_connect" {
            self.scene.connection = 6_000 + self.rng.u64(..4);
        }
        let answer = self.scene.call(op, me, args);
        self.scene.connection = 0;
        self.judge(answer);
    }

    fn judge(&mut self, answer: Result<Value, object::Reject>) {
        match answer {
            Ok(_) => self.done += 1,
            Err(reject) => assert!(Code::find(reject.code).is_some(), "{}", reject.code),
        }
    }

    /// Nothing is left of whoever has gone, and the transcript never runs without a producer.
    fn check(&self) {
        let state = self.scene.state();
        let here = |id: ParticipantId| state.participant(id).is_some();
        assert!(state.live.connections.iter().all(|line| here(line.participant)));
        assert!(state.live.activities.iter().all(|activity| here(activity.agent)));
        assert!(state.meeting_notes.is_none_or(|notes| here(notes.agent)));
        assert!(state.live.connections.len() <= crate::limits::CONNECTIONS_MAX);
        assert!(state.live.requests.len() <= crate::limits::APP_REQUESTS_MAX);
        if let Some(producer) = &state.transcript.active {
            assert!(state.host(&producer.host).is_some_and(|host| host.stt));
        }
    }
}
