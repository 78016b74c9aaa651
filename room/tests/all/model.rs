//! Random commands against a naive model: lists, linear scans, and nothing of the room but its ops'
//! names and JSON. A failure names its seed and step.

mod naive;

use std::collections::BTreeSet;

use object::{Caller, ParticipantId};
use serde_json::{Value, json};

use crate::testing::Bench;
use naive::{Expected, Model};

/// The part of a wait's answer that the model foretells.
fn seen_wait(answer: &Value) -> Value {
    let events = answer["events"].as_array().unwrap().iter();
    let people = answer["participants"].as_array().unwrap().iter();
    json!({
        "events": events.map(|e| json!([e["sequence"], e["addressed"]])).collect::<Vec<_>>(),
        "cursor": answer["cursor"],
        "truncated": answer.get("truncated") == Some(&json!(true)),
        "people": people.map(|p| p["id"].clone()).collect::<Vec<_>>(),
    })
}

fn seen_context(answer: &Value) -> Value {
    let events = answer["events"].as_array().unwrap().iter();
    json!({
        "events": events.map(|e| e["sequence"].clone()).collect::<Vec<_>>(),
        "truncated": answer.get("truncated") == Some(&json!(true)),
        "before": answer["hasMoreBefore"],
        "after": answer["hasMoreAfter"],
        "oldest": answer["oldestSequence"],
        "newest": answer["newestSequence"],
    })
}

fn seen_change(answer: &Value) -> Value {
    let mut seen = json!({"sequence": answer["sequence"]});
    if let Some(duplicate) = answer.get("duplicate") {
        seen["duplicate"] = duplicate.clone();
    }
    seen
}

struct Run {
    bench: Bench,
    model: Model,
    random: fastrand::Rng,
    /// Everybody who ever joined: stale handles are part of the mix.
    ever: Vec<ParticipantId>,
    /// How many Task ids there are to choose from.
    tasks: u32,
}

impl Run {
    fn new(seed: u64, tasks: u32) -> Self {
        let bench = Bench::new();
        let model = Model { now: bench.now, ..Model::default() };
        let random = fastrand::Rng::with_seed(seed);
        Self { bench, model, random, ever: Vec::new(), tasks }
    }

    fn step(&mut self) -> (String, Expected, Expected) {
        let ms = match self.random.u32(0..400) {
            0 => 1_800_000,
            1 => 95_000,
            _ => self.random.u64(0..1_500),
        };
        self.bench.pass(ms);
        self.bench.settle();
        self.model.now += ms;
        self.model.settle();
        if self.ever.is_empty() || self.random.u32(0..30) == 0 {
            return self.join();
        }
        // Mostly people who are there, sometimes somebody who was.
        let here: Vec<ParticipantId> = self
            .ever
            .iter()
            .copied()
            .filter(|id| self.model.people.iter().any(|p| p.id == id.to_string()))
            .collect();
        let pool = if here.is_empty() || self.random.u32(0..40) == 0 { &self.ever } else { &here };
        let who = pool[self.random.usize(..pool.len())];
        match self.random.u32(0..20) {
            0 if here.len() > 2 => self.leave(who),
            0..=5 => self.wait(who),
            6..=7 => self.context(who),
            8..=9 => self.file(who),
            _ => self.change(who),
        }
    }

    fn join(&mut self) -> (String, Expected, Expected) {
        let id = self.bench.fresh_id();
        let args = json!({"roomId": "blue-otter", "name": "N"});
        let answer = self.bench.call_as("join_room", Caller::Joining(id), &args, None);
        let expected = self.model.join(&id.to_string());
        if answer.is_ok() {
            self.ever.push(id);
        }
        let seen = answer.map(|a| json!({"cursor": a["cursor"]})).map_err(|r| r.code);
        ("join".into(), seen, expected)
    }

    fn leave(&mut self, who: ParticipantId) -> (String, Expected, Expected) {
        let answer = self.bench.call("leave_room", who, &json!({})).map_err(|r| r.code);
        let id = who.to_string();
        let expected = match self.model.person(&id) {
            Ok(_) => {
                self.model.part(&id);
                Ok(json!({"ok": true}))
            }
            Err("invalid_participant_handle") => Err("already_left"),
            Err(code) => Err(code),
        };
        ("leave".into(), answer, expected)
    }

    fn wait(&mut self, who: ParticipantId) -> (String, Expected, Expected) {
        let top = self.model.sequence;
        let cursor = match self.random.u32(0..4) {
            0 => self.random.u64(..=top + 2),
            1 => 0,
            _ => top.saturating_sub(self.random.u64(..20)),
        };
        let answer = self.bench.call("wait_for_events", who, &json!({"cursor": cursor}));
        let seen = answer.map(|a| seen_wait(&a)).map_err(|r| r.code);
        (format!("wait {cursor}"), seen, self.model.wait(&who.to_string(), cursor))
    }

    fn context(&mut self, who: ParticipantId) -> (String, Expected, Expected) {
        let top = self.model.sequence + 2;
        let before = self.random.bool().then(|| self.random.u64(..=top));
        let after = self.random.bool().then(|| self.random.u64(..=top));
        let limit = self.random.usize(1..=50);
        let mut args = json!({"limit": limit});
        if let Some(before) = before {
            args["beforeSequence"] = json!(before);
        }
        if let Some(after) = after {
            args["afterSequence"] = json!(after);
        }
        let answer = self.bench.call("read_room_context", who, &args);
        let seen = answer.map(|a| seen_context(&a)).map_err(|r| r.code);
        let expected = self.model.context(&who.to_string(), before, after, limit);
        (format!("context {args}"), seen, expected)
    }

    fn file(&mut self, who: ParticipantId) -> (String, Expected, Expected) {
        let args = json!({"fileName": "f", "mimeType": "text/plain"});
        let answer = self.bench.send("send_attachment", who, &args, b"bytes");
        let id = who.to_string();
        let expected = self.model.person(&id).map(|_| {
            let file = answer.as_ref().ok().map(|a| a["attachment"]["id"].to_string());
            self.model.add(&id, None, Vec::new(), Some(file.unwrap_or_default()));
            self.model.remember(&id, None, "file");
            json!({"sequence": self.model.sequence})
        });
        let seen = answer.map(|a| seen_change(&a["attachment"])).map_err(|r| r.code);
        ("file".into(), seen, expected)
    }

    /// A text or a step of a Task, sometimes under one of a few client request ids.
    fn change(&mut self, who: ParticipantId) -> (String, Expected, Expected) {
        let task = format!("task-{:03}", self.random.u32(..self.tasks));
        let other = self.ever[self.random.usize(..self.ever.len())].to_string();
        let key = (self.random.u32(0..3) == 0).then(|| format!("k{}", self.random.u32(..40)));
        let kind = ["accepted", "declined", "completed", "failed"][self.random.usize(..4)];
        let pick = [0, 1, 2, 2, 2, 3, 4, 5, 6][self.random.usize(..9)];
        // Mostly the one that was asked answers.
        let asked = self.model.tasks.iter().find(|t| t.kept && t.id == task && self.random.bool());
        let target = asked.and_then(|t| self.ever.iter().find(|id| id.to_string() == t.to));
        let who = target.copied().filter(|_| pick == 2).unwrap_or(who);
        let (op, mut args) = match pick {
            0 | 1 => (
                "send_collab_request",
                json!({"targetParticipantId": other, "summary": "s", "requestId": task}),
            ),
            2 if kind == "accepted" || kind == "declined" => {
                ("send_collab_response", json!({"requestId": task, "decision": kind}))
            }
            2 => ("send_collab_result", json!({"requestId": task, "status": kind, "summary": "s"})),
            3 | 4 => (
                "send_text",
                json!({"text": "t", "taskRequestId": task, "targetParticipantIds": [other]}),
            ),
            5 => ("send_text", json!({"text": "t", "targetParticipantIds": [other]})),
            _ => ("send_text", json!({"text": "t"})),
        };
        let what = format!("{op} {args}");
        if let Some(key) = &key {
            args["clientRequestId"] = json!(key);
        }
        let answer = self.bench.call(op, who, &args);
        let id = who.to_string();
        let expected = self.foretell(&id, pick, &task, &other, kind, key.as_deref(), &what);
        let seen = answer.map(|a| seen_change(&a)).map_err(|r| r.code);
        (format!("{what} {key:?}"), seen, expected)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one random command")]
    fn foretell(
        &mut self,
        who: &str,
        pick: u32,
        task: &str,
        other: &str,
        kind: &str,
        key: Option<&str>,
        what: &str,
    ) -> Expected {
        self.model.person(who)?;
        if let Some(repeat) = self.model.repeat(who, key, what) {
            return repeat;
        }
        let targets = [other.to_owned()];
        let expected = match pick {
            0 | 1 => self.model.request(who, other, task),
            2 => self.model.answer(who, task, kind),
            3 | 4 => self.model.text(who, Some(task), &targets),
            5 => self.model.text(who, None, &targets),
            _ => self.model.text(who, None, &[]),
        };
        if expected.as_ref().is_ok_and(|answer| answer.get("duplicate").is_none()) {
            self.model.remember(who, key, what);
        }
        expected
    }
}

/// Runs one seed; gives every kind of ending that was met.
fn check(seed: u64, steps: usize, tasks: u32) -> BTreeSet<String> {
    let mut run = Run::new(seed, tasks);
    let mut met = BTreeSet::new();
    for step in 0..steps {
        let (what, seen, expected) = run.step();
        assert_eq!(seen, expected, "seed {seed} step {step}: {what}");
        met.insert(match &seen {
            Err(code) => (*code).to_owned(),
            Ok(answer) if answer.get("duplicate").is_some() => "duplicate".to_owned(),
            Ok(answer) if answer["truncated"] == true => "truncated".to_owned(),
            Ok(_) => "ok".to_owned(),
        });
        if step % 97 == 0 && run.bench.exists {
            run.bench.reload();
        }
    }
    met
}

#[test]
fn random_commands_agree_with_the_model() {
    let met: BTreeSet<String> = (0..12).flat_map(|seed| check(seed, 500, 12)).collect();
    let endings = "ok duplicate truncated already_left invalid_participant_handle \
        client_request_id_conflict request_id_conflict request_already_settled \
        request_already_accepted request_declined not_request_target unknown_request self_request \
        target_not_in_room task_target_not_in_room task_target_mismatch unknown_task_request";
    for ending in endings.split_whitespace() {
        assert!(met.contains(ending), "the mix never met {ending}");
    }
}

#[test]
fn many_tasks_agree_with_the_model() {
    for seed in 100..103 {
        assert!(check(seed, 1_200, 600).contains("truncated"));
    }
}
