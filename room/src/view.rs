//! What a participant may see, and how it looks (rooms 5, 7, 8).

/// Views hold what people wrote: their `Debug` prints a fixed word.
macro_rules! opaque_debug {
    (plain $view:ident) => {
        impl std::fmt::Debug for $view {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($view), "(..)"))
            }
        }
    };
    ($($view:ident),*) => {
        $(impl std::fmt::Debug for $view<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($view), "(..)"))
            }
        })*
    };
}
pub(crate) use opaque_debug;

mod event;
mod roster;
mod transcript;

use std::collections::VecDeque;

use object::{Millis, ParticipantId};

use crate::state::{
    Attachment, Author, Body, Kind, Message, Participant, PermissionKind, State, Task, TaskRef,
};

pub use event::{CollabView, EventView, FileView, PermissionView};
pub use roster::{
    AuthorView, CapabilitiesView, HostView, HostsView, ParticipantView, RoomAppView, RosterEntry,
    SpeechView, SurfaceView,
};
pub use transcript::{SegmentView, TranscriptView};

/// One entry of the shared sequence.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    Message(&'a Message),
    Attachment(&'a Attachment),
}

impl<'a> Entry<'a> {
    /// Its place in the shared sequence.
    #[must_use]
    pub const fn sequence(self) -> u64 {
        match self {
            Self::Message(m) => m.sequence,
            Self::Attachment(a) => a.sequence,
        }
    }

    /// When it was written.
    #[must_use]
    pub const fn at(self) -> Millis {
        match self {
            Self::Message(m) => m.at,
            Self::Attachment(a) => a.at,
        }
    }

    /// Who wrote it.
    #[must_use]
    pub const fn author(self) -> &'a Author {
        match self {
            Self::Message(m) => &m.author,
            Self::Attachment(a) => &a.author,
        }
    }

    /// The Task it belongs to.
    #[must_use]
    pub const fn task(self) -> Option<&'a TaskRef> {
        match self {
            Self::Message(m) => m.task.as_ref(),
            Self::Attachment(a) => a.task.as_ref(),
        }
    }

    /// True for approval cards, which only one agent sees.
    #[must_use]
    pub const fn is_private(self) -> bool {
        matches!(self, Self::Message(Message { body: Body::Permission(_), .. }))
    }
}

/// Whether a wait shows this entry: what others wrote and the reader may see, a Task's part from
/// the reader's admission on (rooms 8, 13.2).
#[must_use]
pub fn shown_live(tasks: &VecDeque<Task>, reader: &Participant, entry: Entry<'_>) -> bool {
    if let Entry::Message(Message { body: Body::Permission(note), .. }) = entry {
        // The end of its own request is the one thing of its own an agent hears of.
        return note.agent == reader.id && !matches!(note.kind, PermissionKind::Requested { .. });
    }
    entry.author().id != reader.id
        && takes_part(tasks, reader, entry).is_some_and(|from| from <= entry.sequence())
}

/// Whether a context read shows this entry: all of a Task the reader takes part in, and its own.
#[must_use]
pub fn shown_in_history(tasks: &VecDeque<Task>, reader: &Participant, entry: Entry<'_>) -> bool {
    if let Entry::Message(Message { body: Body::Permission(note), .. }) = entry {
        return note.agent == reader.id;
    }
    takes_part(tasks, reader, entry).is_some()
}

/// From which sequence on the reader has part in what the entry belongs to.
fn takes_part(tasks: &VecDeque<Task>, reader: &Participant, entry: Entry<'_>) -> Option<u64> {
    let Some(reference) = entry.task() else { return Some(0) };
    if matches!(reader.kind, Kind::Human) {
        return Some(0);
    }
    // Entries of a dropped Task are hidden from agents.
    let at = tasks.binary_search_by_key(&reference.sequence, |task| task.sequence).ok()?;
    tasks.get(at)?.takes_part_from(reader.id)
}

/// Whether the reader gets this entry as an addressed turn (rooms 7.4).
#[must_use]
pub fn addressed(tasks: &VecDeque<Task>, reader: &Participant, entry: Entry<'_>) -> bool {
    match entry {
        Entry::Message(message) => message.targets.contains(&reader.id),
        Entry::Attachment(file) => {
            file.wake
                && matches!(file.author.kind, Kind::Human)
                && file.task.is_some()
                && reader.is_agent()
                && reader.connected
                && takes_part(tasks, reader, entry).is_some()
        }
    }
}

/// Whether a participant may read an attachment: Task files only with part in the Task.
#[must_use]
pub fn may_read(state: &State, reader: &Participant, file: &Attachment) -> bool {
    takes_part(&state.tasks, reader, Entry::Attachment(file)).is_some()
}

/// The entries after a sequence, ascending, messages and files merged.
pub(crate) fn after(state: &State, sequence: u64) -> impl Iterator<Item = Entry<'_>> {
    let from = state.messages.partition_point(|m| m.sequence <= sequence);
    let files = state.attachments.partition_point(|a| a.sequence <= sequence);
    merge(state.messages.range(from..), state.attachments.range(files..))
}

fn merge<'a>(
    messages: impl Iterator<Item = &'a Message>,
    files: impl Iterator<Item = &'a Attachment>,
) -> impl Iterator<Item = Entry<'a>> {
    let mut messages = messages.peekable();
    let mut files = files.peekable();
    std::iter::from_fn(move || {
        let file_first = match (messages.peek(), files.peek()) {
            (Some(m), Some(f)) => f.sequence < m.sequence,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if file_first {
            files.next().map(Entry::Attachment)
        } else {
            messages.next().map(Entry::Message)
        }
    })
}

/// An id that is written as a UUID without building a string first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uuid(pub u128);

impl From<ParticipantId> for Uuid {
    fn from(id: ParticipantId) -> Self {
        Self(id.0)
    }
}

impl From<object::BlobId> for Uuid {
    fn from(id: object::BlobId) -> Self {
        Self(id.0)
    }
}

impl serde::Serialize for Uuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&ParticipantId(self.0))
    }
}

impl schemars::JsonSchema for Uuid {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "uuid".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "format": "uuid"})
    }
}

/// String pairs written as one JSON object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pairs<'a>(pub &'a [(crate::text::Text, crate::text::Text)]);

impl serde::Serialize for Pairs<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(k, v)| (k, v)))
    }
}

impl schemars::JsonSchema for Pairs<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "strings".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "object", "additionalProperties": {"type": "string"}})
    }
}
