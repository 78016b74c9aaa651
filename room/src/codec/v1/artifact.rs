//! Surfaces, Live Views and apps as stored.

use object::Millis;

use super::{Result, blob, id, id_bytes, participant, text};
use crate::{event, state};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Surface {
    #[prost(bytes = "vec", tag = "1")]
    pub snapshot: Vec<u8>,
    #[prost(string, tag = "2")]
    pub mime: String,
    #[prost(uint64, tag = "3")]
    pub size: u64,
    #[prost(uint64, tag = "4")]
    pub updated_at: u64,
}

impl Surface {
    pub(super) fn store(surface: &state::Surface) -> Self {
        Self {
            snapshot: id_bytes(surface.snapshot.0),
            mime: text(&surface.mime),
            size: surface.size,
            updated_at: surface.updated_at.0,
        }
    }

    pub(super) fn load(self) -> Result<state::Surface> {
        Ok(state::Surface {
            snapshot: blob(&self.snapshot)?,
            mime: self.mime.into(),
            size: self.size,
            updated_at: Millis(self.updated_at),
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LiveView {
    #[prost(uint64, tag = "1")]
    pub task: u64,
    #[prost(string, tag = "2")]
    pub surface_id: String,
    #[prost(uint64, tag = "3")]
    pub revision: u64,
    #[prost(bytes = "vec", tag = "4")]
    pub authority: Vec<u8>,
    #[prost(string, tag = "5")]
    pub root: String,
    #[prost(string, tag = "6")]
    pub data: String,
}

impl LiveView {
    pub(super) fn store(view: &state::LiveView) -> Self {
        Self {
            task: view.task,
            surface_id: text(&view.surface_id),
            revision: view.revision,
            authority: id_bytes(view.authority.0),
            root: text(&view.root),
            data: text(&view.data),
        }
    }

    pub(super) fn load(self) -> Result<state::LiveView> {
        Ok(state::LiveView {
            task: self.task,
            surface_id: self.surface_id.into(),
            revision: self.revision,
            authority: participant(&self.authority)?,
            root: self.root.into(),
            data: self.data.into(),
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct App {
    #[prost(bytes = "vec", tag = "1")]
    pub instance: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub task: u64,
    #[prost(string, tag = "3")]
    pub title: String,
    #[prost(bytes = "vec", tag = "4")]
    pub bundle: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub bundle_bytes: u64,
    #[prost(bytes = "vec", tag = "6")]
    pub digest: Vec<u8>,
    #[prost(uint64, tag = "7")]
    pub bundle_revision: u64,
    #[prost(string, tag = "8")]
    pub state: String,
    #[prost(uint64, tag = "9")]
    pub state_revision: u64,
    #[prost(uint64, tag = "10")]
    pub created_at: u64,
    #[prost(uint64, tag = "11")]
    pub updated_at: u64,
}

impl App {
    pub(super) fn store(app: &state::App) -> Self {
        Self {
            instance: id_bytes(app.instance),
            task: app.task,
            title: text(&app.title),
            bundle: id_bytes(app.bundle.0),
            bundle_bytes: app.bundle_bytes,
            digest: id_bytes(app.digest),
            bundle_revision: app.bundle_revision,
            state: text(&app.state),
            state_revision: app.state_revision,
            created_at: app.created_at.0,
            updated_at: app.updated_at.0,
        }
    }

    pub(super) fn load(self) -> Result<state::App> {
        Ok(state::App {
            instance: id(&self.instance)?,
            task: self.task,
            title: self.title.into(),
            bundle: blob(&self.bundle)?,
            bundle_bytes: self.bundle_bytes,
            digest: id(&self.digest)?,
            bundle_revision: self.bundle_revision,
            state: self.state.into(),
            state_revision: self.state_revision,
            created_at: Millis(self.created_at),
            updated_at: Millis(self.updated_at),
        })
    }
}

/// An app's first publication or a new bundle of it (then without Task and state).
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Bundle {
    #[prost(bytes = "vec", tag = "1")]
    pub instance: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub task: u64,
    #[prost(string, tag = "3")]
    pub title: String,
    #[prost(bytes = "vec", tag = "4")]
    pub bundle: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub bundle_bytes: u64,
    #[prost(bytes = "vec", tag = "6")]
    pub digest: Vec<u8>,
    #[prost(string, tag = "7")]
    pub state: String,
    #[prost(uint64, tag = "8")]
    pub at: u64,
}

impl Bundle {
    pub(super) fn store_first(app: &event::AppPublished) -> Self {
        Self {
            instance: id_bytes(app.instance),
            task: app.task,
            title: text(&app.title),
            bundle: id_bytes(app.bundle.0),
            bundle_bytes: app.bundle_bytes,
            digest: id_bytes(app.digest),
            state: text(&app.state),
            at: app.at.0,
        }
    }

    pub(super) fn load_first(self) -> Result<event::AppPublished> {
        Ok(event::AppPublished {
            instance: id(&self.instance)?,
            task: self.task,
            title: self.title.into(),
            bundle: blob(&self.bundle)?,
            bundle_bytes: self.bundle_bytes,
            digest: id(&self.digest)?,
            state: self.state.into(),
            at: Millis(self.at),
        })
    }

    pub(super) fn store_update(app: &event::AppUpdated) -> Self {
        Self {
            instance: id_bytes(app.instance),
            task: 0,
            title: text(&app.title),
            bundle: id_bytes(app.bundle.0),
            bundle_bytes: app.bundle_bytes,
            digest: id_bytes(app.digest),
            state: String::new(),
            at: app.at.0,
        }
    }

    pub(super) fn load_update(self) -> Result<event::AppUpdated> {
        Ok(event::AppUpdated {
            instance: id(&self.instance)?,
            title: self.title.into(),
            bundle: blob(&self.bundle)?,
            bundle_bytes: self.bundle_bytes,
            digest: id(&self.digest)?,
            at: Millis(self.at),
        })
    }
}
