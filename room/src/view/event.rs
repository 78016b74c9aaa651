//! Events as a reader sees them (rooms 7).

use schemars::JsonSchema;
use serde::Serialize;

use super::{AuthorView, Entry, Pairs, Uuid, addressed};
use crate::state::{
    Attachment, Body, Collab, CollabKind, Message, Participant, PermissionKind, PermissionNote,
    State,
};
use crate::text::Text;

/// One event.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventView<'a> {
    pub sequence: u64,
    /// `text`, `action` or `image` (any file).
    pub r#type: &'static str,
    /// `task:<requestId>` for events of a Task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
    pub participant: AuthorView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_payload: Option<Pairs<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collab: Option<CollabView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment: Option<FileView<'a>>,
    /// Whether this event was addressed to the reader.
    pub addressed: bool,
    /// Unix milliseconds.
    pub created_at: u64,
}

/// A collaboration step.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollabView<'a> {
    pub request_id: &'a str,
    pub kind: CollabKind,
    pub from_participant_id: Uuid,
    pub target_participant_id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Pairs<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachment_ids: Vec<Uuid>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub implied_acceptance: bool,
}

/// A private approval card.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionView<'a> {
    pub request_id: &'a str,
    /// `request`, `resolved` or `expired`.
    pub kind: &'static str,
    pub agent_participant_id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<ToolCallView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<OptionView<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected_option_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human_participant_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub human_name: Option<&'a str>,
}

/// What the agent wants to do.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallView<'a> {
    pub title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Pairs<'a>>,
}

/// One offered answer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OptionView<'a> {
    pub option_id: &'a str,
    pub name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
}

/// A file, in events and in `read_attachment`.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileView<'a> {
    pub id: Uuid,
    pub file_name: &'a str,
    pub mime_type: &'a str,
    /// Bytes.
    pub size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_request_id: Option<&'a str>,
}

impl<'a> FileView<'a> {
    pub(crate) fn of(file: &'a Attachment) -> Self {
        Self {
            id: file.id.into(),
            file_name: &file.file_name,
            mime_type: &file.mime,
            size: file.size,
            task_request_id: file.task.as_ref().map(|task| task.request_id.as_str()),
        }
    }
}

impl<'a> EventView<'a> {
    /// The event as this reader sees it; visibility was decided before.
    pub(crate) fn of(state: &State, reader: &Participant, entry: Entry<'a>) -> Self {
        let mut view = Self {
            sequence: entry.sequence(),
            r#type: "text",
            scope_id: entry.task().map(|task| format!("task:{}", &*task.request_id)),
            participant: AuthorView::of(entry.author()),
            text: None,
            action_type: None,
            action_payload: None,
            collab: None,
            permission: None,
            attachment: None,
            addressed: addressed(&state.tasks, reader, entry),
            created_at: entry.at().0,
        };
        match entry {
            Entry::Attachment(file) => {
                view.r#type = "image";
                view.attachment = Some(FileView::of(file));
            }
            Entry::Message(message) => view.fill(message),
        }
        view
    }

    fn fill(&mut self, message: &'a Message) {
        match &message.body {
            Body::Text(text) => self.text = Some(text),
            Body::Action { name, payload } => {
                self.r#type = "action";
                self.action_type = Some(name);
                self.action_payload = pairs(payload);
            }
            Body::Collab(collab) => {
                self.r#type = "action";
                self.action_type = Some("collab");
                self.collab = Some(CollabView::of(message, collab));
            }
            Body::Permission(note) => {
                self.r#type = "action";
                self.action_type = Some("permission");
                self.permission = Some(PermissionView::of(note));
            }
        }
    }
}

fn pairs(pairs: &[(Text, Text)]) -> Option<Pairs<'_>> {
    (!pairs.is_empty()).then_some(Pairs(pairs))
}

impl<'a> CollabView<'a> {
    pub(crate) fn of(message: &'a Message, collab: &'a Collab) -> Self {
        Self {
            request_id: message.task.as_ref().map_or("", |task| task.request_id.as_str()),
            kind: collab.kind,
            from_participant_id: message.author.id.into(),
            target_participant_id: collab.target.into(),
            summary: collab.summary.as_deref(),
            details: pairs(&collab.details),
            attachment_ids: collab.attachments.iter().map(|id| Uuid::from(*id)).collect(),
            implied_acceptance: collab.implied_acceptance,
        }
    }
}

impl<'a> PermissionView<'a> {
    pub(crate) fn of(note: &'a PermissionNote) -> Self {
        let mut view = Self {
            request_id: &note.request_id,
            kind: "expired",
            agent_participant_id: note.agent.into(),
            tool_call: None,
            options: None,
            expires_at: None,
            selected_option_id: None,
            human_participant_id: None,
            human_name: None,
        };
        match &note.kind {
            PermissionKind::Requested { tool, options, expires_at } => {
                view.kind = "request";
                view.tool_call = Some(ToolCallView {
                    title: &tool.title,
                    kind: tool.kind.as_deref(),
                    summary: tool.summary.as_deref(),
                    details: pairs(&tool.details),
                });
                let options = options.iter().map(|option| OptionView {
                    option_id: &option.id,
                    name: &option.name,
                    kind: option.kind.as_deref(),
                });
                view.options = Some(options.collect());
                view.expires_at = Some(expires_at.0);
            }
            PermissionKind::Resolved { option, human, human_name } => {
                view.kind = "resolved";
                view.selected_option_id = Some(option);
                view.human_participant_id = Some((*human).into());
                view.human_name = Some(human_name);
            }
            PermissionKind::Expired => {}
        }
        view
    }
}

super::opaque_debug!(EventView, CollabView, PermissionView, ToolCallView, OptionView, FileView);
