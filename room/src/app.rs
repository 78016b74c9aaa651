//! Generated Apps: one bundle of HTML, CSS and JavaScript per Task, with a shared state that
//! humans replace by compare-and-swap (rooms 15).
//!
//! A bundle travels and is kept as a blob; the room holds what its publication says, a
//! fingerprint of its text, and the shared state.

use std::fmt;

use object::{BlobId, ParticipantId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::limits::{APP_STATE_WRITE_BYTES_MAX, APPS_MAX};
use crate::state::App;
use crate::text::Text;

mod bundle;

pub use bundle::{
    Bundle, CSS_UTF16_MAX, Fault, HTML_UTF16_MAX, JS_UTF16_MAX, TITLE_UTF16_MAX, compact,
};

/// What an instance id of a Generated App begins with.
pub const INSTANCE_PREFIX: &str = "generated:";

/// The id of one Generated App, stable over its updates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AppId(pub BlobId);

impl AppId {
    /// A fresh id of 128 random bits.
    #[must_use]
    pub const fn from_random(bits: u128) -> Self {
        Self(BlobId::from_random(bits))
    }

    /// Reads `generated:<uuid>`.
    #[must_use]
    pub fn parse(instance: &str) -> Option<Self> {
        BlobId::parse(instance.strip_prefix(INSTANCE_PREFIX)?).map(Self)
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{INSTANCE_PREFIX}{}", self.0)
    }
}

/// What is told about a published app.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublicationView<'a> {
    /// `generated:` and a UUID; stable over updates.
    pub app_instance_id: String,
    pub task_request_id: &'a str,
    pub title: &'a str,
    /// Bytes of the bundle's compact JSON.
    pub bundle_bytes: u64,
    /// From 1, one more at each changed bundle.
    pub bundle_revision: u64,
    /// From 0, one more at each write of the shared state.
    pub state_revision: u64,
    /// Unix milliseconds.
    pub created_at: u64,
    /// Unix milliseconds.
    pub updated_at: u64,
}

crate::view::opaque_debug!(PublicationView);

impl<'a> PublicationView<'a> {
    /// The publication as clients see it; `task` is the Task's public id.
    #[must_use]
    pub fn of(app: &'a App, task: &'a str) -> Self {
        Self {
            app_instance_id: AppId(BlobId(app.instance)).to_string(),
            task_request_id: task,
            title: &app.title,
            bundle_bytes: app.bundle_bytes,
            bundle_revision: app.bundle_revision,
            state_revision: app.state_revision,
            created_at: app.created_at.0,
            updated_at: app.updated_at.0,
        }
    }
}

/// The app with an instance id.
#[must_use]
pub fn find<'a>(apps: &'a [App], instance: &str) -> Option<&'a App> {
    let AppId(BlobId(id)) = AppId::parse(instance)?;
    apps.iter().find(|app| app.instance == id)
}

/// What a valid bundle of an authorized agent comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Publish {
    /// The Task's first bundle.
    New,
    /// Another bundle in place of the current one, whose blob is named.
    Changed { replaced: BlobId },
    /// The very same text again.
    Duplicate,
}

/// Why a valid bundle is not published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AdmitError {
    #[error("only the Task's primary agent publishes its app")]
    NotAuthorized,
    #[error("a room keeps at most 4 Generated Apps")]
    Capacity,
}

/// Why a state write is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StateError {
    #[error("no such app")]
    NotFound,
    #[error("the state must be a JSON object of at most 4096 bytes")]
    Invalid,
    #[error("the state is at revision {revision}")]
    Conflict { revision: u64 },
}

/// Checks a valid bundle against what is published: authority, sameness, capacity. `task` is the
/// sequence of the Task's request, `primary` its primary agent.
pub fn admit(
    apps: &[App],
    task: u64,
    bundle: &Bundle,
    author: ParticipantId,
    primary: Option<ParticipantId>,
) -> Result<Publish, AdmitError> {
    if primary != Some(author) {
        return Err(AdmitError::NotAuthorized);
    }
    match apps.iter().find(|app| app.task == task) {
        Some(current) if current.digest == bundle.digest() => Ok(Publish::Duplicate),
        Some(current) => Ok(Publish::Changed { replaced: current.bundle }),
        None if apps.len() >= APPS_MAX => Err(AdmitError::Capacity),
        None => Ok(Publish::New),
    }
}

/// Checks a write of the shared state; gives its compact text.
///
/// Order: the app exists, the state is a small object, the revision is the current one.
pub fn admit_state(
    apps: &[App],
    instance: &str,
    expected_revision: u64,
    state: &Value,
) -> Result<Text, StateError> {
    let app = find(apps, instance).ok_or(StateError::NotFound)?;
    let text = state.to_string();
    if !state.is_object() || text.len() > APP_STATE_WRITE_BYTES_MAX {
        return Err(StateError::Invalid);
    }
    if expected_revision != app.state_revision {
        return Err(StateError::Conflict { revision: app.state_revision });
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests;
