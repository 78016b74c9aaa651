//! `human_read_surface`: a human looks at the snapshot an agent shows (humans A12).

use object::OpMeta;

use super::{internal, reading};
use crate::ops::agent::read_surface;
use crate::ops::{Op, no_replay};
use crate::spec::{self, Field, text};

pub static META: OpMeta = reading("human_read_surface");

pub static INPUT: &[Field] = &[
    Field::required("sourceParticipantId", text(1, 64), "Who shows it."),
    Field::required("snapshotId", text(1, 64), "The current snapshot's id."),
];

pub static OP: Op =
    internal(&META, |args, blob| spec::check(INPUT, args, blob), read_surface::decide, no_replay);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn a_human_reads_the_current_snapshot_only() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        let mime = json!({"mimeType": "image/png"});
        let shown = scene.blob("publish_surface", agent, mime, b"x").unwrap();
        let ask = |source: String, id: &serde_json::Value| json!({"sourceParticipantId": source, "snapshotId": id});
        let id = &shown["surface"]["snapshotId"];
        let read = scene.call(META.name, ana, ask(agent.to_string(), id)).unwrap();
        assert_eq!(read["surface"], shown["surface"]);
        assert!(scene.attached().is_some());
        let stale = scene.call(META.name, ana, ask(agent.to_string(), &json!("old")));
        assert_eq!(stale.unwrap_err().code, "surface_changed");
        let nothing = scene.call(META.name, ana, ask(ana.to_string(), id));
        assert_eq!(nothing.unwrap_err().code, "surface_not_found");
    }
}
