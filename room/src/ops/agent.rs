//! The tools.

pub mod create_room;
pub mod join_room;
pub mod leave_room;
pub mod room_info;
pub mod send_text;
pub mod wait_for_events;

mod capability;
mod runtime_host;
mod task_scope;

pub(crate) use capability::CAPABILITIES;
pub(crate) use runtime_host::{FEATURES, HOST, HostInput};
