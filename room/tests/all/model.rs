//! Random commands against a naive model: lists, linear scans, and nothing of the room but its ops'
//! names and JSON. A failure names its seed and step.

use std::collections::BTreeSet;

use object::{Caller, ParticipantId};
use serde_json::{Value, json};

use crate::testing::Bench;

const LEASE_MS: u64 = 90_000;
const EMPTY_MS: u64 = 1_800_000;

struct Person {
    id: String,
    lease: u64,
    /// Sequences gone from the rings that its wait would have shown, and its context.
    lost: Vec<u64>,
    lost_context: Vec<u64>,
}

struct Entry {
    sequence: u64,
    author: String,
    task: Option<u64>,
    targets: Vec<String>,
    /// The attachment's id, for files.
    file: Option<String>,
    kept: bool,
}

struct Task {
    id: String,
    sequence: u64,
    from: String,
    to: String,
    /// Kinds of answers given, with their sequences.
    answers: Vec<(String, u64)>,
    admitted: Vec<(String, u64)>,
    kept: bool,
}

struct Known {
    who: String,
    key: String,
    what: String,
    at: u64,
    sequence: u64,
}

#[derive(Default)]
struct Model {
    now: u64,
    exists: bool,
    people: Vec<Person>,
    entries: Vec<Entry>,
    tasks: Vec<Task>,
    known: Vec<Known>,
    sequence: u64,
    empty_until: Option<u64>,
}

/// What the model expects: a refusal's code, or the part of the answer it can foretell.
type Expected = Result<Value, &'static str>;

impl Model {
    fn settle(&mut self) {
        let now = self.now;
        let gone: Vec<String> =
            self.people.iter().filter(|p| p.lease <= now).map(|p| p.id.clone()).collect();
        // The time at which the room is looked at is the time at which the expiry is recorded.
        gone.iter().for_each(|id| self.part(id));
        if self.empty_until.is_some_and(|until| until <= now) {
            *self = Self { now, ..Self::default() };
        }
    }

    fn part(&mut self, id: &str) {
        self.people.retain(|p| p.id != id);
        self.known.retain(|known| known.who != id);
        for task in &mut self.tasks {
            task.admitted.retain(|(agent, _)| agent != id);
        }
        if self.people.is_empty() {
            self.empty_until = Some(self.now + EMPTY_MS);
        }
    }

    fn join(&mut self, id: &str) -> Expected {
        if self.people.len() >= 32 {
            return Err("room_full");
        }
        self.exists = true;
        self.empty_until = None;
        let lost: Vec<u64> = self
            .entries
            .iter()
            .filter(|e| !e.kept && e.task.is_none())
            .map(|e| e.sequence)
            .collect();
        let lease = self.now + LEASE_MS;
        let lost_context = lost.clone();
        self.people.push(Person { id: id.into(), lease, lost, lost_context });
        Ok(json!({"cursor": self.sequence}))
    }

    /// The refusal that a stale handle gets; else the person's place.
    fn person(&self, id: &str) -> Result<usize, &'static str> {
        if !self.exists {
            return Err("room_expired");
        }
        self.people.iter().position(|p| p.id == id).ok_or("invalid_participant_handle")
    }

    fn renew(&mut self, id: &str) {
        let at = self.people.iter().position(|p| p.id == id).unwrap();
        self.people[at].lease = self.people[at].lease.max(self.now + LEASE_MS);
    }

    /// From when on an agent has part in a Task; `None` for none.
    fn part_from(&self, task: u64, agent: &str) -> Option<u64> {
        let task = self.tasks.iter().find(|t| t.sequence == task && t.kept)?;
        if task.from == agent || task.to == agent {
            return Some(task.sequence);
        }
        task.admitted.iter().find(|(id, _)| id == agent).map(|(_, from)| *from)
    }

    fn shown(&self, entry: &Entry, reader: &str, live: bool) -> bool {
        if live && entry.author == reader {
            return false;
        }
        match entry.task {
            None => true,
            Some(task) => {
                let from = self.part_from(task, reader);
                from.is_some_and(|from| !live || from <= entry.sequence)
            }
        }
    }

    fn add(&mut self, author: &str, task: Option<u64>, targets: Vec<String>, file: Option<String>) {
        self.sequence += 1;
        let is_file = file.is_some();
        let sequence = self.sequence;
        let author = author.to_owned();
        self.entries.push(Entry { sequence, author, task, targets, file, kept: true });
        let cap = if is_file { 8 } else { 100 };
        let kept: Vec<usize> = (0..self.entries.len())
            .filter(|n| self.entries[*n].kept && self.entries[*n].file.is_some() == is_file)
            .collect();
        if kept.len() > cap {
            let gone = kept[0];
            self.entries[gone].kept = false;
            let entry = &self.entries[gone];
            let losers: Vec<(bool, bool)> = self
                .people
                .iter()
                .map(|p| (self.shown(entry, &p.id, true), self.shown(entry, &p.id, false)))
                .collect();
            let sequence = self.entries[gone].sequence;
            for (person, (live, context)) in self.people.iter_mut().zip(losers) {
                person.lost.extend(live.then_some(sequence));
                person.lost_context.extend(context.then_some(sequence));
            }
        }
    }

    /// What a repeat means, if the id is known.
    fn repeat(&self, who: &str, key: Option<&str>, what: &str) -> Option<Expected> {
        let known = self
            .known
            .iter()
            .find(|k| k.who == who && Some(k.key.as_str()) == key && self.now - k.at < 600_000)?;
        Some(if known.what == what {
            Ok(json!({"sequence": known.sequence, "duplicate": true}))
        } else {
            Err("client_request_id_conflict")
        })
    }

    fn remember(&mut self, who: &str, key: Option<&str>, what: &str) {
        self.renew(who);
        let own = format!("edge-{}", self.known.len());
        let key = key.map_or(own, str::to_owned);
        let (who, what) = (who.to_owned(), what.to_owned());
        self.known.retain(|k| k.who != who || k.key != key);
        let mine = self.known.iter().filter(|k| k.who == who).count();
        if mine >= 64 {
            let oldest = self.known.iter().position(|k| k.who == who).unwrap();
            self.known.remove(oldest);
        }
        let (at, sequence) = (self.now, self.sequence);
        self.known.push(Known { who, key, what, at, sequence });
    }

    fn text(&mut self, who: &str, task: Option<&str>, targets: &[String]) -> Expected {
        let present = |m: &Self, id: &String| m.people.iter().any(|p| p.id == *id);
        let mut kept: Vec<String> = Vec::new();
        let mut scope = None;
        if let Some(id) = task {
            let found = self.tasks.iter().find(|t| t.kept && t.id == id);
            let sequence = found.ok_or("unknown_task_request")?.sequence;
            self.part_from(sequence, who).ok_or("task_target_mismatch")?;
            if targets.iter().any(|id| !present(self, id)) {
                return Err("task_target_not_in_room");
            }
            scope = Some(sequence);
        }
        for id in targets {
            if id != who && present(self, id) && !kept.contains(id) {
                kept.push(id.clone());
            }
        }
        if let Some(sequence) = scope {
            for id in &kept {
                if self.part_from(sequence, id).is_none() {
                    let next = self.sequence + 1;
                    let task = self.tasks.iter_mut().find(|t| t.sequence == sequence).unwrap();
                    task.admitted.push((id.clone(), next));
                    let gone: Vec<u64> = self
                        .entries
                        .iter()
                        .filter(|e| !e.kept && e.task == scope)
                        .map(|e| e.sequence)
                        .collect();
                    let person = self.people.iter_mut().find(|p| p.id == *id).unwrap();
                    person.lost_context.extend(gone);
                }
            }
        }
        self.add(who, scope, kept, None);
        Ok(json!({"sequence": self.sequence}))
    }

    fn request(&mut self, who: &str, to: &str, id: &str) -> Expected {
        if let Some(known) = self.tasks.iter().find(|t| t.kept && t.id == id) {
            return if known.from == who {
                Ok(json!({"sequence": known.sequence, "duplicate": true}))
            } else {
                Err("request_id_conflict")
            };
        }
        if !self.people.iter().any(|p| p.id == to) {
            return Err("target_not_in_room");
        }
        if to == who {
            return Err("self_request");
        }
        let kept: Vec<usize> = (0..self.tasks.len()).filter(|n| self.tasks[*n].kept).collect();
        if kept.len() >= 128 {
            let settled =
                |n: &&usize| self.tasks[**n].answers.iter().any(|(kind, _)| kind != "accepted");
            let victim = *kept.iter().find(settled).unwrap_or(&kept[0]);
            self.tasks[victim].kept = false;
        }
        let sequence = self.sequence + 1;
        let (from, to, id) = (who.to_owned(), to.to_owned(), id.to_owned());
        let target = vec![to.clone()];
        let (answers, admitted) = (Vec::new(), Vec::new());
        self.tasks.push(Task { id, sequence, from, to, answers, admitted, kept: true });
        self.add(who, Some(sequence), target, None);
        Ok(json!({"sequence": sequence}))
    }

    fn answer(&mut self, who: &str, id: &str, kind: &str) -> Expected {
        let found = self.tasks.iter().position(|t| t.kept && t.id == id);
        let at = found.ok_or("unknown_request")?;
        let task = &self.tasks[at];
        if task.to != who {
            return Err("not_request_target");
        }
        let has = |kind: &str| task.answers.iter().find(|(k, _)| k == kind).map(|(_, s)| *s);
        if let Some(sequence) = has(kind) {
            return Ok(json!({"sequence": sequence, "duplicate": true}));
        }
        if has("completed").or_else(|| has("failed")).is_some() {
            return Err("request_already_settled");
        }
        if has("declined").is_some() {
            return Err("request_declined");
        }
        if kind == "declined" && has("accepted").is_some() {
            return Err("request_already_accepted");
        }
        let (scope, requester) = (task.sequence, task.from.clone());
        self.add(who, Some(scope), vec![requester], None);
        let sequence = self.sequence;
        self.tasks[at].answers.push((kind.to_owned(), sequence));
        Ok(json!({"sequence": sequence}))
    }

    fn wait(&mut self, who: &str, cursor: u64) -> Expected {
        let person = &self.people[self.person(who)?];
        let lost = person.lost.iter().copied().max().unwrap_or(0);
        let truncated = lost > cursor;
        let events: Vec<Value> = self
            .entries
            .iter()
            .filter(|e| e.kept && e.sequence > cursor.max(lost) && self.shown(e, who, true))
            .map(|e| json!([e.sequence, e.targets.iter().any(|t| t == who)]))
            .collect();
        let answer = json!({"events": events, "cursor": self.sequence, "truncated": truncated,
            "people": self.people.iter().map(|p| p.id.clone()).collect::<Vec<_>>()});
        self.renew(who);
        Ok(answer)
    }

    fn context(
        &self,
        who: &str,
        before: Option<u64>,
        after: Option<u64>,
        limit: usize,
    ) -> Expected {
        let person = &self.people[self.person(who)?];
        let all: Vec<u64> = self
            .entries
            .iter()
            .filter(|e| e.kept && self.shown(e, who, false))
            .map(|e| e.sequence)
            .collect();
        let mut page: Vec<u64> = all
            .iter()
            .copied()
            .filter(|s| before.is_none_or(|b| *s < b) && after.is_none_or(|a| *s > a))
            .collect();
        if before.is_some() && after.is_none() {
            page = page[page.len().saturating_sub(limit)..].to_vec();
        }
        page.truncate(limit);
        let more = |other: Option<&u64>, own: Option<&u64>| own.is_some() && other != own;
        let truncated = after.is_some_and(|a| person.lost_context.iter().any(|s| *s > a));
        Ok(json!({"events": page, "truncated": truncated,
            "before": more(all.first(), page.first()), "after": more(all.last(), page.last()),
            "oldest": all.first().copied().unwrap_or(0),
            "newest": all.last().copied().unwrap_or(0)}))
    }
}

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
