//! What only humans do: never shown through MCP, reached by name through the node's service
//! (humans A1-A11).
//!
//! The sender is always the caller's participant; nothing in the arguments names it. Every frame
//! counts against the human's budget of 300 per 10 seconds.

pub mod action;
pub mod agent_voice_set;
pub mod app_answer;
pub mod app_host_attach;
pub mod app_host_detach;
pub mod app_state_set;
pub mod attach;
pub mod chat;
pub mod collab_request;
pub mod collab_response;
pub mod collab_result;
pub mod join;
pub mod leave;
pub mod meeting_notes_start;
pub mod meeting_notes_stop;
pub mod permission_respond;
pub mod presence;
pub mod read_app;
pub mod read_attachment;
pub mod read_state;
pub mod read_surface;
pub mod send_attachment;
pub mod transcript_start;
pub mod transcript_stop;

pub(crate) mod answer;
pub(crate) mod line;

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, ParticipantId, Reject};
use serde::Serialize;

use super::{Ask, Op, Verdict, unknown_handle};
use crate::budget::{Purpose, Use};
use crate::catalog::Check;
use crate::live::Signal;
use crate::reject::Code;
use crate::state::{Fact, Participant};

/// The declaration of an op of a present human.
pub(crate) const fn meta(name: &'static str) -> OpMeta {
    OpMeta {
        name,
        address: Address::Handle,
        activation: Activation::MustExist,
        audience: Audience::Human,
        read_only: false,
        minted: Minted::Nothing,
        guard: Guard::Call(1),
        wait: false,
        park_ms: 0,
        client_request_id: true,
        blob: None,
    }
}

/// The same, for an op that stores nothing.
pub(crate) const fn reading(name: &'static str) -> OpMeta {
    let mut meta = meta(name);
    meta.read_only = true;
    meta.client_request_id = false;
    meta
}

/// An op of humans or residents: no tool.
pub(crate) const fn internal(
    meta: &'static OpMeta,
    check: Check,
    decide: fn(&Ask<'_>) -> Verdict,
    replay: fn(&Ask<'_>, Fact) -> Result<Vec<u8>, Reject>,
) -> Op {
    Op { meta, check, decide, gone: unknown_handle, replay, tool: None }
}

/// Admits one frame; the signal that counts it goes with the op's answer.
pub(crate) fn frame(ask: &Ask<'_>) -> Result<Signal, Reject> {
    let used = Use { participant: ask.me()?.id, purpose: Purpose::Frames, bytes: 0, at: ask.now };
    match ask.state.live.budgets.admit(&used) {
        Ok(()) => Ok(Signal::Spent(used)),
        Err(ms) => Err(Code::MessageRateLimited.reject().retry_after(ms)),
    }
}

/// A present participant by the text of its id.
pub(crate) fn participant<'a>(ask: &Ask<'a>, id: &str) -> Option<&'a Participant> {
    ParticipantId::parse(id).and_then(|id| ask.state.participant(id))
}

/// A present agent by the text of its id.
pub(crate) fn agent<'a>(ask: &Ask<'a>, id: &str) -> Result<&'a Participant, Reject> {
    let found = participant(ask, id).filter(|p| p.is_agent());
    found.ok_or_else(|| Code::AgentNotInRoom.reject().field("agentParticipantId"))
}

/// The answer of an op that has nothing more to say.
#[derive(Serialize, Debug)]
pub(crate) struct Done {
    pub ok: bool,
}

/// `{"ok":true}`.
pub(crate) const DONE: Done = Done { ok: true };
