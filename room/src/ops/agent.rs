//! The tools.

pub mod clear_surface;
pub mod create_room;
pub mod join_room;
pub mod leave_room;
pub mod publish_generated_app;
pub mod publish_live_view;
pub mod publish_surface;
pub mod read_attachment;
pub mod read_room_context;
pub mod read_surface;
pub mod room_app_request;
pub mod room_info;
pub mod send_attachment;
pub mod send_collab_request;
pub mod send_collab_response;
pub mod send_collab_result;
pub mod send_text;
pub mod update_capabilities;
pub mod update_runtime_host;
pub mod wait_for_events;

mod capability;
mod collab;
mod runtime_host;
pub(crate) mod task_scope;

pub(crate) use capability::CAPABILITIES;
pub(crate) use runtime_host::{FEATURES, HOST, HostInput};
