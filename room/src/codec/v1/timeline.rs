//! Messages and files as stored.

use object::Millis;

use super::{
    Pair, Result, blob, damaged, id_bytes, kind, kind_number, load_pairs, pairs, participant, some,
    text,
};
use crate::state;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Author {
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(uint32, tag = "3")]
    pub kind: u32,
}

impl Author {
    fn store(author: &state::Author) -> Self {
        Self { id: id_bytes(author.id.0), name: text(&author.name), kind: kind_number(author.kind) }
    }

    fn load(self) -> Result<state::Author> {
        Ok(state::Author {
            id: participant(&self.id)?,
            name: self.name.into(),
            kind: kind(self.kind)?,
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TaskRef {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    #[prost(string, tag = "2")]
    pub request_id: String,
}

impl TaskRef {
    fn store(task: &state::TaskRef) -> Self {
        Self { sequence: task.sequence, request_id: text(&task.request_id) }
    }

    fn load(self) -> state::TaskRef {
        state::TaskRef { sequence: self.sequence, request_id: self.request_id.into() }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Message {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    #[prost(uint64, tag = "2")]
    pub at: u64,
    #[prost(message, optional, tag = "3")]
    pub author: Option<Author>,
    #[prost(message, optional, tag = "4")]
    pub task: Option<TaskRef>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub targets: Vec<Vec<u8>>,
    #[prost(uint32, tag = "6")]
    pub weight: u32,
    #[prost(oneof = "Body", tags = "7, 8, 9, 10")]
    pub body: Option<Body>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Body {
    #[prost(string, tag = "7")]
    Text(String),
    #[prost(message, tag = "8")]
    Action(Action),
    #[prost(message, tag = "9")]
    Collab(Collab),
    #[prost(message, tag = "10")]
    Permission(Box<super::grant::Note>),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Action {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub payload: Vec<Pair>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Collab {
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub target: Vec<u8>,
    #[prost(string, optional, tag = "3")]
    pub summary: Option<String>,
    #[prost(message, repeated, tag = "4")]
    pub details: Vec<Pair>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub attachments: Vec<Vec<u8>>,
    #[prost(bool, tag = "6")]
    pub implied_acceptance: bool,
}

const fn collab_number(kind: state::CollabKind) -> u32 {
    match kind {
        state::CollabKind::Request => 1,
        state::CollabKind::Accepted => 2,
        state::CollabKind::Declined => 3,
        state::CollabKind::Completed => 4,
        state::CollabKind::Failed => 5,
    }
}

fn collab_kind(number: u32) -> Result<state::CollabKind> {
    Ok(match number {
        1 => state::CollabKind::Request,
        2 => state::CollabKind::Accepted,
        3 => state::CollabKind::Declined,
        4 => state::CollabKind::Completed,
        5 => state::CollabKind::Failed,
        _ => return damaged("collaboration"),
    })
}

impl Message {
    pub(super) fn store(message: &state::Message) -> Self {
        let body = match &message.body {
            state::Body::Text(said) => Body::Text(text(said)),
            state::Body::Action { name, payload } => {
                Body::Action(Action { name: text(name), payload: pairs(payload) })
            }
            state::Body::Collab(collab) => Body::Collab(Collab {
                kind: collab_number(collab.kind),
                target: id_bytes(collab.target.0),
                summary: collab.summary.as_ref().map(text),
                details: pairs(&collab.details),
                attachments: collab.attachments.iter().map(|id| id_bytes(id.0)).collect(),
                implied_acceptance: collab.implied_acceptance,
            }),
            state::Body::Permission(note) => {
                Body::Permission(Box::new(super::grant::Note::store(note)))
            }
        };
        Self {
            sequence: message.sequence,
            at: message.at.0,
            author: Some(Author::store(&message.author)),
            task: message.task.as_ref().map(TaskRef::store),
            targets: message.targets.iter().map(|id| id_bytes(id.0)).collect(),
            weight: message.weight,
            body: Some(body),
        }
    }

    pub(super) fn load(self) -> Result<state::Message> {
        let body = match some(self.body, "message body")? {
            Body::Text(said) => state::Body::Text(said.into()),
            Body::Action(action) => state::Body::Action {
                name: action.name.into(),
                payload: load_pairs(action.payload),
            },
            Body::Collab(collab) => state::Body::Collab(load_collab(collab)?),
            Body::Permission(note) => state::Body::Permission(note.load()?),
        };
        let targets: Result<Vec<_>> = self.targets.iter().map(|id| participant(id)).collect();
        Ok(state::Message {
            sequence: self.sequence,
            at: Millis(self.at),
            author: some(self.author, "author")?.load()?,
            task: self.task.map(TaskRef::load),
            targets: targets?,
            body,
            weight: self.weight,
        })
    }
}

fn load_collab(collab: Collab) -> Result<state::Collab> {
    let attachments: Result<Vec<_>> = collab.attachments.iter().map(|id| blob(id)).collect();
    Ok(state::Collab {
        kind: collab_kind(collab.kind)?,
        target: participant(&collab.target)?,
        summary: collab.summary.map(Into::into),
        details: load_pairs(collab.details),
        attachments: attachments?,
        implied_acceptance: collab.implied_acceptance,
    })
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Attachment {
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    #[prost(uint64, tag = "3")]
    pub at: u64,
    #[prost(message, optional, tag = "4")]
    pub author: Option<Author>,
    #[prost(string, tag = "5")]
    pub mime: String,
    #[prost(string, tag = "6")]
    pub file_name: String,
    #[prost(uint64, tag = "7")]
    pub size: u64,
    #[prost(message, optional, tag = "8")]
    pub task: Option<TaskRef>,
    #[prost(bool, tag = "9")]
    pub wake: bool,
}

impl Attachment {
    pub(super) fn store(file: &state::Attachment) -> Self {
        Self {
            id: id_bytes(file.id.0),
            sequence: file.sequence,
            at: file.at.0,
            author: Some(Author::store(&file.author)),
            mime: text(&file.mime),
            file_name: text(&file.file_name),
            size: file.size,
            task: file.task.as_ref().map(TaskRef::store),
            wake: file.wake,
        }
    }

    pub(super) fn load(self) -> Result<state::Attachment> {
        Ok(state::Attachment {
            id: blob(&self.id)?,
            sequence: self.sequence,
            at: Millis(self.at),
            author: some(self.author, "author")?.load()?,
            mime: self.mime.into(),
            file_name: self.file_name.into(),
            size: self.size,
            task: self.task.map(TaskRef::load),
            wake: self.wake,
        })
    }
}
