//! Generated Apps: one bundle of HTML, CSS and JavaScript per Task, with a shared state that
//! humans replace by compare-and-swap (rooms 15).
//!
//! A bundle travels and is kept as a blob; the room holds what its publication says, a
//! fingerprint of its text, and the shared state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use object::{BlobId, Millis, ParticipantId};
use serde_json::{Value, json};

mod bundle;

pub use bundle::{
    BUNDLE_BYTES_MAX, Bundle, CSS_UTF16_MAX, Fault, HTML_UTF16_MAX, INITIAL_STATE_BYTES_MAX,
    JS_UTF16_MAX, TITLE_UTF16_MAX, compact,
};

/// Most apps of one room, one per Task.
pub const APPS_MAX: usize = 4;
/// Largest state a human writes, in bytes of compact JSON.
pub const STATE_WRITE_BYTES_MAX: usize = 4_096;
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

/// One published app.
#[derive(Clone, PartialEq, Eq)]
pub struct Publication {
    pub app: AppId,
    pub task: Arc<str>,
    pub title: Arc<str>,
    /// The kept bundle text.
    pub bundle: BlobId,
    /// Bytes of the bundle's compact text.
    pub bundle_bytes: u64,
    /// Fingerprint of the compact text in the received key order.
    pub fingerprint: u128,
    /// From 1, one more at each changed bundle.
    pub bundle_revision: u64,
    /// Compact JSON of the shared state.
    pub state: Arc<str>,
    /// From 0, one more at each write.
    pub state_revision: u64,
    pub created_at: Millis,
    pub updated_at: Millis,
}

// Titles and states are people's text: never printed.
impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publication")
            .field("app", &self.app)
            .field("bundle_revision", &self.bundle_revision)
            .field("state_revision", &self.state_revision)
            .finish_non_exhaustive()
    }
}

impl Publication {
    /// `{appInstanceId, taskRequestId, title, bundleBytes, bundleRevision, stateRevision,
    /// createdAt, updatedAt}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "appInstanceId": self.app.to_string(),
            "taskRequestId": &*self.task,
            "title": &*self.title,
            "bundleBytes": self.bundle_bytes,
            "bundleRevision": self.bundle_revision,
            "stateRevision": self.state_revision,
            "createdAt": self.created_at.0,
            "updatedAt": self.updated_at.0,
        })
    }
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

/// The Generated Apps of one room, by Task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Apps {
    by_task: BTreeMap<Arc<str>, Publication>,
}

impl Apps {
    /// The app of a Task.
    #[must_use]
    pub fn get(&self, task: &str) -> Option<&Publication> {
        self.by_task.get(task)
    }

    /// The app with an instance id.
    #[must_use]
    pub fn by_instance(&self, instance: &str) -> Option<&Publication> {
        let app = AppId::parse(instance)?;
        self.by_task.values().find(|publication| publication.app == app)
    }

    /// All apps, by Task id.
    pub fn iter(&self) -> impl Iterator<Item = &Publication> {
        self.by_task.values()
    }

    /// How many apps there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_task.len()
    }

    /// True if there is no app.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_task.is_empty()
    }

    /// Checks a valid bundle against what is published: authority, sameness, capacity.
    pub fn admit(
        &self,
        task: &str,
        bundle: &Bundle,
        author: ParticipantId,
        primary: Option<ParticipantId>,
    ) -> Result<Publish, AdmitError> {
        if primary != Some(author) {
            return Err(AdmitError::NotAuthorized);
        }
        match self.get(task) {
            Some(current) if current.fingerprint == bundle.fingerprint() => Ok(Publish::Duplicate),
            Some(current) => Ok(Publish::Changed { replaced: current.bundle }),
            None if self.by_task.len() >= APPS_MAX => Err(AdmitError::Capacity),
            None => Ok(Publish::New),
        }
    }

    /// Checks a write of the shared state; gives its compact text.
    ///
    /// Order: the app exists, the state is a small object, the revision is the current one.
    pub fn admit_state(
        &self,
        instance: &str,
        expected_revision: u64,
        state: &Value,
    ) -> Result<Arc<str>, StateError> {
        let publication = self.by_instance(instance).ok_or(StateError::NotFound)?;
        let text = state.to_string();
        if !state.is_object() || text.len() > STATE_WRITE_BYTES_MAX {
            return Err(StateError::Invalid);
        }
        if expected_revision != publication.state_revision {
            return Err(StateError::Conflict { revision: publication.state_revision });
        }
        Ok(text.into())
    }

    /// Publishes, in place of the Task's earlier publication.
    pub fn put(&mut self, publication: Publication) {
        self.by_task.insert(publication.task.clone(), publication);
    }

    /// Replaces the shared state and counts its revision.
    pub fn write_state(&mut self, app: AppId, state: Arc<str>, now: Millis) {
        if let Some(publication) = self.by_task.values_mut().find(|p| p.app == app) {
            publication.state = state;
            publication.state_revision += 1;
            publication.updated_at = now;
        }
    }

    /// Forgets the app of a Task that is gone; gives the blob to drop.
    pub fn remove(&mut self, task: &str) -> Option<BlobId> {
        self.by_task.remove(task).map(|publication| publication.bundle)
    }
}

#[cfg(test)]
mod tests;
