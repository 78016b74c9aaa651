//! Folds of surfaces, Live Views and generated apps.

use object::{Millis, ParticipantId};

use super::roster::with;
use crate::event::{AppPublished, AppUpdated};
use crate::state::{App, LiveView, State, Surface};
use crate::text::Text;

pub(super) fn surface_set(state: &mut State, id: ParticipantId, surface: Option<&Surface>) {
    with(state, id, |p| p.surface = surface.cloned());
}

pub(super) fn live_view_published(state: &mut State, view: &LiveView) {
    match state.live_views.iter_mut().find(|known| known.task == view.task) {
        Some(known) => known.clone_from(view),
        None => state.live_views.push(view.clone()),
    }
}

pub(super) fn app_published(state: &mut State, app: &AppPublished) {
    state.apps.push(App {
        instance: app.instance,
        task: app.task,
        title: app.title.clone(),
        bundle: app.bundle,
        bundle_bytes: app.bundle_bytes,
        digest: app.digest,
        bundle_revision: 1,
        state: app.state.clone(),
        state_revision: 0,
        created_at: app.at,
        updated_at: app.at,
    });
}

pub(super) fn app_updated(state: &mut State, update: &AppUpdated) {
    if let Some(app) = state.apps.iter_mut().find(|app| app.instance == update.instance) {
        app.title = update.title.clone();
        app.bundle = update.bundle;
        app.bundle_bytes = update.bundle_bytes;
        app.digest = update.digest;
        app.bundle_revision += 1;
        app.updated_at = update.at;
    }
}

pub(super) fn app_state_set(
    state: &mut State,
    instance: u128,
    json: &Text,
    revision: u64,
    at: Millis,
) {
    if let Some(app) = state.apps.iter_mut().find(|app| app.instance == instance) {
        app.state = json.clone();
        app.state_revision = revision;
        app.updated_at = at;
    }
}
