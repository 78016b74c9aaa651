//! The ops of a room: one file each, one line each in the list below.
//!
//! **How to add an op.** Write `agent/<op>.rs` (or `human/`, `resident/`) with `META`, `INPUT`,
//! `OP` and its table tests: copy the smallest neighbour. Add `mod <op>;` to its folder's module
//! file and one line to the `ops!` list. An agent op is a tool: its `OP` also names title,
//! description, annotations and output schema. Then run `cargo xtask golden`.

pub mod agent;
pub mod human;
pub mod resident;

mod ask;
mod dispatch;
#[cfg(test)]
pub(crate) mod scene;
mod tool;

use object::{OpMeta, Reject};

use crate::catalog::{Check, Tool};
use crate::state::Fact;

pub use ask::{Ask, Step, Verdict, json};
pub use tool::{ToolText, output_schema};

pub(crate) use dispatch::{absent, decide, occupied};

/// One op: everything dispatch needs.
#[derive(Debug)]
pub struct Op {
    pub meta: &'static OpMeta,
    /// The stateless check, the same at the edge and at the node.
    pub check: Check,
    /// Decides a call of a present participant (or of nobody, where the address allows it).
    pub decide: fn(&Ask<'_>) -> Verdict,
    /// Answers when the handle's participant is not in the room.
    pub gone: fn(&Ask<'_>) -> Verdict,
    /// Rebuilds the answer of a committed change (ours 11), without `duplicate`.
    pub replay: fn(&Ask<'_>, Fact) -> Result<Vec<u8>, Reject>,
    /// Only for tools.
    pub tool: Option<&'static ToolText>,
}

/// Calls that an overloaded node takes all the same: they free something, or say that a human or a
/// resident is still there.
pub(crate) static NEVER_SHED: [&OpMeta; 5] = [
    &agent::leave_room::META,
    &human::leave::META,
    &human::presence::META,
    &human::app_host_detach::META,
    &resident::heartbeat::META,
];

macro_rules! ops {
    ($($audience:ident :: $op:ident),* $(,)?) => {
        /// Every op.
        static OPS: &[&Op] = &[$(&$audience::$op::OP),*];
    };
}

// Tools in the order the seeds name them, then what people and residents use.
ops! {
    agent::room_info,
    agent::read_room_context,
    agent::join_room,
    agent::create_room,
    agent::wait_for_events,
    agent::send_text,
    agent::update_capabilities,
    agent::update_runtime_host,
    agent::send_collab_request,
    agent::send_collab_response,
    agent::send_collab_result,
    agent::send_attachment,
    agent::read_attachment,
    agent::publish_surface,
    agent::clear_surface,
    agent::read_surface,
    agent::publish_live_view,
    agent::publish_generated_app,
    agent::room_app_request,
    agent::leave_room,
    human::join,
    human::attach,
    human::presence,
    human::leave,
    human::chat,
    human::action,
    human::collab_request,
    human::collab_response,
    human::collab_result,
    human::send_attachment,
    human::read_attachment,
    human::read_surface,
    human::read_app,
    human::read_state,
    human::transcript_start,
    human::transcript_stop,
    human::meeting_notes_start,
    human::meeting_notes_stop,
    human::agent_voice_set,
    human::permission_respond,
    human::app_host_attach,
    human::app_host_detach,
    human::app_answer,
    human::app_state_set,
    resident::connect,
    resident::heartbeat,
    resident::activity,
    resident::permission_request,
    resident::transcript_append,
}

/// The declaration and functions of an op, by name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Op> {
    OPS.iter().copied().find(|op| op.meta.name == name)
}

/// All ops.
pub fn all() -> impl Iterator<Item = &'static Op> {
    OPS.iter().copied()
}

/// The tools, in the order the seeds name them.
pub(crate) fn tools() -> Vec<Tool> {
    let tools = all().filter_map(|op| Some((op, op.tool?)));
    tools.map(|(op, text)| tool::build(op, text)).collect()
}

/// For ops whose answers never need rebuilding.
pub(crate) fn no_replay(_: &Ask<'_>, _: Fact) -> Result<Vec<u8>, Reject> {
    Err(crate::reject::Code::OutcomeUnknown.reject())
}

/// The usual answer to a handle whose participant is gone (ours 3).
pub(crate) fn unknown_handle(_: &Ask<'_>) -> Verdict {
    Err(crate::reject::Code::InvalidParticipantHandle.reject())
}
