//! The model: lists and linear scans, as naive as the rules allow.

use serde_json::{Value, json};

const LEASE_MS: u64 = 90_000;
const EMPTY_MS: u64 = 1_800_000;

pub(super) struct Person {
    pub(super) id: String,
    pub(super) lease: u64,
    /// Sequences gone from the rings that its wait would have shown, and its context.
    pub(super) lost: Vec<u64>,
    pub(super) lost_context: Vec<u64>,
}

pub(super) struct Entry {
    pub(super) sequence: u64,
    pub(super) author: String,
    pub(super) task: Option<u64>,
    pub(super) targets: Vec<String>,
    /// The attachment's id, for files.
    pub(super) file: Option<String>,
    pub(super) kept: bool,
}

pub(super) struct Task {
    pub(super) id: String,
    pub(super) sequence: u64,
    pub(super) from: String,
    pub(super) to: String,
    /// Kinds of answers given, with their sequences.
    pub(super) answers: Vec<(String, u64)>,
    pub(super) admitted: Vec<(String, u64)>,
    pub(super) kept: bool,
}

pub(super) struct Known {
    pub(super) who: String,
    pub(super) key: String,
    pub(super) what: String,
    pub(super) at: u64,
    pub(super) sequence: u64,
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) now: u64,
    pub(super) exists: bool,
    pub(super) people: Vec<Person>,
    pub(super) entries: Vec<Entry>,
    pub(super) tasks: Vec<Task>,
    pub(super) known: Vec<Known>,
    pub(super) sequence: u64,
    pub(super) empty_until: Option<u64>,
}

/// What the model expects: a refusal's code, or the part of the answer it can foretell.
pub(super) type Expected = Result<Value, &'static str>;

impl Model {
    pub(super) fn settle(&mut self) {
        let now = self.now;
        let gone: Vec<String> =
            self.people.iter().filter(|p| p.lease <= now).map(|p| p.id.clone()).collect();
        // The time at which the room is looked at is the time at which the expiry is recorded.
        gone.iter().for_each(|id| self.part(id));
        if self.empty_until.is_some_and(|until| until <= now) {
            *self = Self { now, ..Self::default() };
        }
    }

    pub(super) fn part(&mut self, id: &str) {
        self.people.retain(|p| p.id != id);
        self.known.retain(|known| known.who != id);
        for task in &mut self.tasks {
            task.admitted.retain(|(agent, _)| agent != id);
        }
        if self.people.is_empty() {
            self.empty_until = Some(self.now + EMPTY_MS);
        }
    }

    pub(super) fn join(&mut self, id: &str) -> Expected {
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
    pub(super) fn person(&self, id: &str) -> Result<usize, &'static str> {
        if !self.exists {
            return Err("room_expired");
        }
        self.people.iter().position(|p| p.id == id).ok_or("invalid_participant_handle")
    }

    pub(super) fn renew(&mut self, id: &str) {
        let at = self.people.iter().position(|p| p.id == id).unwrap();
        self.people[at].lease = self.people[at].lease.max(self.now + LEASE_MS);
    }

    /// From when on an agent has part in a Task; `None` for none.
    pub(super) fn part_from(&self, task: u64, agent: &str) -> Option<u64> {
        let task = self.tasks.iter().find(|t| t.sequence == task && t.kept)?;
        if task.from == agent || task.to == agent {
            return Some(task.sequence);
        }
        task.admitted.iter().find(|(id, _)| id == agent).map(|(_, from)| *from)
    }

    pub(super) fn shown(&self, entry: &Entry, reader: &str, live: bool) -> bool {
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

    pub(super) fn add(
        &mut self,
        author: &str,
        task: Option<u64>,
        targets: Vec<String>,
        file: Option<String>,
    ) {
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
    pub(super) fn repeat(&self, who: &str, key: Option<&str>, what: &str) -> Option<Expected> {
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

    pub(super) fn remember(&mut self, who: &str, key: Option<&str>, what: &str) {
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

    pub(super) fn text(&mut self, who: &str, task: Option<&str>, targets: &[String]) -> Expected {
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

    pub(super) fn request(&mut self, who: &str, to: &str, id: &str) -> Expected {
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

    pub(super) fn answer(&mut self, who: &str, id: &str, kind: &str) -> Expected {
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

    pub(super) fn wait(&mut self, who: &str, cursor: u64) -> Expected {
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

    pub(super) fn context(
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
