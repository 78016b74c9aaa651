//! `publish_surface`: an agent shows one snapshot of its workspace (rooms 6.14).

use object::{
    Activation, Address, Audience, BlobEncoding, BlobField, Guard, Minted, OpMeta, Reject,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::Annotations;
use crate::dedup;
use crate::event::Event;
use crate::limits::{BASE64_DECODED_BYTES_MAX, SURFACE_BYTES_MAX};
use crate::ops::{Ask, Op, Step, ToolText, Verdict, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field, Kind};
use crate::state::{Fact, Surface};
use crate::surface::{self, AdmitError, Mime};
use crate::view::SurfaceView;

pub static META: OpMeta = OpMeta {
    name: "publish_surface",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: false,
    minted: Minted::Nothing,
    guard: Guard::Call(8),
    wait: false,
    park_ms: 0,
    client_request_id: true,
    blob: Some(BlobField {
        name: "dataBase64",
        encoding: BlobEncoding::Base64,
        // More than is kept, so that the refusal names the surface's own bound.
        bytes_max: BASE64_DECODED_BYTES_MAX,
    }),
};

const MIMES: [&str; 3] = [Mime::Jpeg.name(), Mime::Png.name(), Mime::Webp.name()];

pub static INPUT: &[Field] = &[
    dedup::HANDLE,
    Field::required("mimeType", Kind::Word(&MIMES), "Type of the encoded image."),
    Field::required(
        "dataBase64",
        Kind::Base64,
        "The image, base64; at most 786,432 bytes once decoded.",
    ),
    dedup::CLIENT_REQUEST_ID,
];

pub static OP: Op = Op {
    meta: &META,
    check,
    decide,
    gone: unknown_handle,
    replay,
    tool: Some(&ToolText {
        title: "Publish surface",
        description: "Purpose: shows humans and other agents one still image of your workspace. \
            Use: when a picture says more than text; use send_attachment for a file that is to \
            stay, publish_live_view for numbers and buttons. \
            Side effects: replaces your earlier snapshot, gives it a new snapshotId and renews \
            your lease; no event, wakes nobody; it goes when you leave. \
            Limits: JPEG, PNG or WebP of at most 786,432 bytes, one per agent, three per room, one \
            replacement every 2 seconds. \
            Errors: surface_mime_unsupported, surface_empty, surface_too_large, \
            surface_rate_limited, surface_capacity_exceeded, invalid_attachment, \
            client_request_id_conflict, outcome_unknown, \
            invalid_participant_handle, agent_only, room_expired, rate_limited, \
            invalid_arguments, room_unavailable.",
        annotations: Annotations {
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: false,
        },
        input: INPUT,
        output: output_schema::<Output<'static>>,
    }),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    mime_type: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    surface: SurfaceView<'a>,
    /// When the room ends, Unix milliseconds.
    expires_at: u64,
    /// This repeats an earlier call; nothing was published again.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<bool>,
}

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    let mime = args.get("mimeType").and_then(Value::as_str);
    if mime.is_some_and(|name| Mime::parse(name).is_none()) {
        return Err(Code::SurfaceMimeUnsupported.reject().field("mimeType"));
    }
    spec::check(INPUT, args, blob)?;
    match blob.map_or(0, <[u8]>::len) {
        0 => Err(Code::SurfaceEmpty.reject().field("dataBase64")),
        size if size > SURFACE_BYTES_MAX => {
            let limit = SURFACE_BYTES_MAX as u64;
            Err(Code::SurfaceTooLarge.reject().field("dataBase64").limit(limit))
        }
        _ => Ok(()),
    }
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let (me, blob) = (ask.me()?, ask.blob()?);
    let others = ask.state.participants.iter().filter(|p| p.id != me.id && p.surface.is_some());
    surface::admit(me.surface.as_ref(), others.count(), ask.now).map_err(refusal)?;
    let surface = Surface {
        snapshot: blob.id,
        mime: input.mime_type.as_str().into(),
        size: blob.bytes.len() as u64,
        updated_at: ask.now,
    };
    let output = output(ask, &surface, None);
    let step = Step::reply(&output)?
        .fact(ask.now.0, blob.id.0)
        .keep(blob.id)
        .drop_blobs(me.surface.as_ref().map(|old| old.snapshot));
    Ok(step.event(Event::SurfacePublished { participant: me.id, surface }))
}

/// The arguments are those of the first call; time and id are remembered.
fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let input: Input = ask.input(INPUT)?;
    let surface = Surface {
        snapshot: object::BlobId(fact.id),
        mime: input.mime_type.as_str().into(),
        size: ask.blob()?.bytes.len() as u64,
        updated_at: object::Millis(fact.sequence),
    };
    crate::ops::json(&output(ask, &surface, Some(true)))
}

fn output<'a>(ask: &Ask<'_>, surface: &'a Surface, duplicate: Option<bool>) -> Output<'a> {
    let surface = SurfaceView::of(surface);
    Output { surface, expires_at: ask.state.expires_at.0, duplicate }
}

fn refusal(error: AdmitError) -> Reject {
    match error {
        AdmitError::RateLimited { retry_after_ms } => {
            Code::SurfaceRateLimited.reject().retry_after(retry_after_ms)
        }
        AdmitError::CapacityExceeded => Code::SurfaceCapacityExceeded.reject(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn png() -> Value {
        json!({"mimeType": "image/png"})
    }

    #[test]
    fn every_refusal_of_the_section() {
        let mut scene = Scene::new();
        let agents = ["a", "b", "c", "d"].map(|name| scene.agent(name));
        for agent in agents.iter().take(3) {
            scene.blob(META.name, *agent, png(), b"png").unwrap();
        }
        let (first, fourth) = (agents[0], agents[3]);
        let big = vec![0; SURFACE_BYTES_MAX + 1];
        let human = scene.human("Ana");
        let rows: [(_, Value, &[u8], &str); 7] = [
            (first, json!({"mimeType": "image/gif"}), b"gif", "surface_mime_unsupported"),
            (first, png(), b"", "surface_empty"),
            (first, png(), &big, "surface_too_large"),
            (first, json!({}), b"png", "invalid_arguments"),
            (first, png(), b"png", "surface_rate_limited"),
            (fourth, png(), b"png", "surface_capacity_exceeded"),
            (human, png(), b"png", "agent_only"),
        ];
        for (who, args, bytes, code) in rows {
            let reject = scene.blob(META.name, who, args, bytes).unwrap_err();
            assert_eq!(reject.code, code);
        }
        let reject = scene.call(META.name, first, png()).unwrap_err();
        assert_eq!(reject.code, "invalid_arguments");
        scene.pass(500);
        let reject = scene.blob(META.name, first, png(), b"png").unwrap_err();
        assert_eq!(reject.retry_after_ms, Some(1_500));
    }

    #[test]
    fn a_replacement_keeps_new_bytes_and_drops_the_old() {
        let mut scene = Scene::new();
        let agent = scene.agent("a");
        let whole = vec![1; SURFACE_BYTES_MAX];
        let first = scene.blob(META.name, agent, png(), &whole).unwrap();
        let (kept, dropped) = scene.blobs();
        assert_eq!((kept.len(), dropped.len()), (1, 0));
        assert_eq!(first["surface"]["snapshotId"], json!(kept[0].to_string()));
        assert_eq!(first["surface"]["size"], json!(SURFACE_BYTES_MAX));
        scene.pass(2_000);
        let second = scene.blob(META.name, agent, png(), b"png").unwrap();
        assert_ne!(first["surface"]["snapshotId"], second["surface"]["snapshotId"]);
        let (_, dropped) = scene.blobs();
        assert_eq!(dropped, kept);
        assert_eq!(scene.state().sequence, 0, "no event of the timeline");
    }

    #[test]
    fn a_repeat_returns_the_first_result() {
        let mut scene = Scene::new();
        let agent = scene.agent("a");
        let args = json!({"mimeType": "image/png", "clientRequestId": "once"});
        let first = scene.blob(META.name, agent, args.clone(), b"png").unwrap();
        scene.pass(10);
        let mut again = scene.blob(META.name, agent, args.clone(), b"png").unwrap();
        assert_eq!(again.as_object_mut().unwrap().remove("duplicate"), Some(json!(true)));
        assert_eq!(again, first);
        let reject = scene.blob(META.name, agent, args, b"other").unwrap_err();
        assert_eq!(reject.code, "client_request_id_conflict");
    }
}
