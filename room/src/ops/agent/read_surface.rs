//! `read_surface`: reads the snapshot somebody shows (rooms 6.16).

use object::{
    Activation, Address, Attached, Audience, Guard, Minted, OpMeta, ParticipantId, Reject,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::Annotations;
use crate::dedup;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, no_replay, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field};
use crate::surface::{self, ReadError};
use crate::view::SurfaceView;

pub static META: OpMeta = OpMeta {
    name: "read_surface",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: true,
    minted: Minted::Nothing,
    guard: Guard::Call(8),
    wait: false,
    park_ms: 0,
    client_request_id: false,
    blob: None,
};

pub static INPUT: &[Field] = &[
    dedup::HANDLE,
    Field::required(
        "sourceParticipantId",
        spec::text(1, crate::limits::TARGET_UTF16_MAX),
        "Who shows the snapshot; your own id is fine.",
    ),
    Field::required(
        "snapshotId",
        spec::text(1, 64),
        "The snapshotId that room_info shows for that participant.",
    ),
];

pub static OP: Op = Op {
    meta: &META,
    check,
    decide,
    gone: unknown_handle,
    replay: no_replay,
    tool: Some(&ToolText {
        title: "Read surface",
        description: "Purpose: fetches the workspace snapshot a participant shows, as an image. \
            Use: after room_info showed a surface with a snapshotId that is new to you; use \
            read_attachment for files. \
            Side effects: renews your lease; nothing else. \
            Limits: only the current snapshot can be read, at most 786,432 bytes. \
            Errors: surface_not_found, surface_changed, invalid_participant_handle, agent_only, \
            room_expired, rate_limited, invalid_arguments, room_unavailable.",
        annotations: Annotations {
            read_only: true,
            destructive: false,
            idempotent: true,
            open_world: false,
        },
        input: INPUT,
        output: output_schema::<Output<'static>>,
    }),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    source_participant_id: String,
    snapshot_id: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    surface: SurfaceView<'a>,
}

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    spec::check(INPUT, args, blob)
}

/// Also what humans read by.
pub(crate) fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let source = ParticipantId::parse(&input.source_participant_id);
    let source = source.and_then(|id| ask.state.participant(id));
    let shown = source.and_then(|participant| participant.surface.as_ref());
    let surface = surface::find(shown, &input.snapshot_id).map_err(|error| match error {
        ReadError::NotFound => Code::SurfaceNotFound.reject().field("sourceParticipantId"),
        ReadError::Changed => Code::SurfaceChanged.reject().field("snapshotId"),
    })?;
    let image = Attached::Image { blob: surface.snapshot, mime: surface.mime.as_str().to_owned() };
    Ok(Step::reply(&Output { surface: SurfaceView::of(surface) })?.attach(image).renewing())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn only_the_current_snapshot_of_a_participant_is_read() {
        let mut scene = Scene::new();
        let (source, reader) = (scene.agent("a"), scene.agent("b"));
        let mime = json!({"mimeType": "image/jpeg"});
        let first = scene.blob("publish_surface", source, mime.clone(), b"1").unwrap();
        scene.pass(2_000);
        let now = scene.blob("publish_surface", source, mime, b"22").unwrap();
        let id = |published: &Value| published["surface"]["snapshotId"].clone();
        let ask = |source: String, snapshot: Value| json!({"sourceParticipantId": source, "snapshotId": snapshot});
        let long = "x".repeat(65);
        let rows = [
            (ask(source.to_string(), id(&first)), Err("surface_changed")),
            (ask(source.to_string(), json!("nonsense")), Err("surface_changed")),
            (ask(reader.to_string(), id(&now)), Err("surface_not_found")),
            (ask("nobody".into(), id(&now)), Err("surface_not_found")),
            (ask(source.to_string(), json!(long)), Err("invalid_arguments")),
            (json!({}), Err("invalid_arguments")),
            (ask(source.to_string(), id(&now)), Ok(now["surface"].clone())),
        ];
        for who in [reader, source] {
            for (args, expected) in &rows {
                let read = scene.call(META.name, who, args.clone());
                let read = read.map(|body| body["surface"].clone()).map_err(|r| r.code);
                assert_eq!(&read, expected, "{args}");
            }
            let read = scene.attached().unwrap();
            assert!(matches!(read, Attached::Image { mime, .. } if mime == "image/jpeg"));
        }
    }

    #[test]
    fn reading_renews_the_lease() {
        let mut scene = Scene::new();
        let (source, reader) = (scene.agent("a"), scene.agent("b"));
        let mime = json!({"mimeType": "image/jpeg"});
        let shown = scene.blob("publish_surface", source, mime, b"1").unwrap();
        scene.pass(60_000);
        let snapshot = shown["surface"]["snapshotId"].clone();
        let args = json!({"sourceParticipantId": source.to_string(), "snapshotId": snapshot});
        scene.call(META.name, reader, args).unwrap();
        assert_eq!(scene.lease_left(reader), 90_000);
        assert_eq!(scene.lease_left(source), 30_000);
    }
}
