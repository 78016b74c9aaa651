//! `clear_surface`: an agent shows its workspace no longer (rooms 6.15).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, Reject};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::catalog::Annotations;
use crate::dedup;
use crate::event::Event;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, output_schema, unknown_handle};
use crate::spec::{self, Field};
use crate::state::Fact;

pub static META: OpMeta = OpMeta {
    name: "clear_surface",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: false,
    minted: Minted::Nothing,
    guard: Guard::Call(1),
    wait: false,
    park_ms: 0,
    client_request_id: true,
    blob: None,
};

pub static INPUT: &[Field] = &[dedup::HANDLE, dedup::CLIENT_REQUEST_ID];

pub static OP: Op = Op {
    meta: &META,
    check,
    decide,
    gone: unknown_handle,
    replay,
    tool: Some(&ToolText {
        title: "Clear surface",
        description: "Purpose: takes away the workspace snapshot you show. \
            Use: when it is out of date or was a mistake; use publish_surface to replace it. \
            Side effects: the bytes are deleted and your lease is renewed; no event, wakes nobody. \
            Limits: none; without a snapshot it answers cleared:false. \
            Errors: client_request_id_conflict, outcome_unknown, \
            invalid_participant_handle, agent_only, room_expired, rate_limited, \
            invalid_arguments, room_unavailable.",
        annotations: Annotations {
            read_only: false,
            destructive: true,
            idempotent: true,
            open_world: false,
        },
        input: INPUT,
        output: output_schema::<Output>,
    }),
};

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output {
    ok: bool,
    /// False if there was nothing to clear.
    cleared: bool,
    /// When the room ends, Unix milliseconds.
    expires_at: u64,
    /// This repeats an earlier call; nothing was cleared again.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<bool>,
}

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    spec::check(INPUT, args, blob)
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let me = ask.me()?;
    let shown = me.surface.as_ref().map(|surface| surface.snapshot);
    let step = Step::reply(&output(ask, shown.is_some(), None))?.renewing();
    Ok(match shown {
        Some(blob) => step.event(Event::SurfaceCleared { participant: me.id }).drop_blobs([blob]),
        None => step,
    })
}

/// Only a call that cleared something is remembered.
fn replay(ask: &Ask<'_>, _: Fact) -> Result<Vec<u8>, Reject> {
    crate::ops::json(&output(ask, true, Some(true)))
}

const fn output(ask: &Ask<'_>, cleared: bool, duplicate: Option<bool>) -> Output {
    Output { ok: true, cleared, expires_at: ask.state.expires_at.0, duplicate }
}

#[cfg(test)]
mod tests {
    use object::Millis;
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn clearing_drops_the_bytes_once_and_always_renews() {
        let mut scene = Scene::new();
        let agent = scene.agent("a");
        let expires = Millis::FAR_FUTURE.0;
        let nothing = json!({"ok": true, "cleared": false, "expiresAt": expires});
        assert_eq!(scene.call(META.name, agent, json!({})).unwrap(), nothing);
        scene.blob("publish_surface", agent, json!({"mimeType": "image/webp"}), b"x").unwrap();
        let (kept, _) = scene.blobs();
        scene.pass(1_000);
        let args = json!({"clientRequestId": "once"});
        let cleared = scene.call(META.name, agent, args.clone()).unwrap();
        assert_eq!(cleared, json!({"ok": true, "cleared": true, "expiresAt": expires}));
        assert_eq!(scene.blobs().1, kept);
        let again = scene.call(META.name, agent, args).unwrap();
        assert_eq!(again["duplicate"], json!(true));
        assert_eq!(again["cleared"], json!(true));
        scene.pass(1_000);
        assert_eq!(scene.call(META.name, agent, json!({})).unwrap(), nothing);
        assert_eq!(scene.lease_left(agent), 90_000);
    }
}
