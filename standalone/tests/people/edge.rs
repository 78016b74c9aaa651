//! None of this is to be had through MCP, and nobody takes another's part at the node.

use std::collections::BTreeSet;

use object::Audience;
use serde_json::{Value, json};

use crate::link::Human;
use crate::stage::{Stage, both};

both!(mcp_knows_twenty_tools_and_nothing_else, nobody_takes_anothers_part);

/// The names of what only these may do.
fn ops(of: &[Audience]) -> Vec<&'static str> {
    room::ops::all()
        .map(|op| op.meta)
        .filter(|m| of.contains(&m.audience))
        .map(|m| m.name)
        .collect()
}

async fn mcp_knows_twenty_tools_and_nothing_else(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let listed = bo.request("tools/list", json!({})).await;
    let listed = listed["result"]["tools"].as_array().unwrap().clone();
    let listed: BTreeSet<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(listed.len(), 20);
    assert_eq!(listed, ops(&[Audience::Agent]).into_iter().collect());
    let inner = ops(&[Audience::Human, Audience::Resident]);
    assert!(inner.len() >= 29, "{inner:?}");
    let arguments = json!({"participantHandle": bo.handle, "roomId": bo.room, "name": "Ana"});
    for name in inner {
        let call = json!({"name": name, "arguments": arguments});
        let answer = bo.request("tools/call", call).await;
        assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
        assert_eq!(answer["error"]["message"], format!("Unknown tool: {name}"));
        assert_eq!(answer["result"], Value::Null);
    }
    assert_eq!(
        bo.info().await["participants"].as_array().unwrap().len(),
        1,
        "nothing has happened"
    );
}

async fn nobody_takes_anothers_part(stage: Stage) {
    let bo = stage.founder("Bo").await;
    let ana = stage.human(&bo.room, "Ana").await;
    let runtime = bo.runtime(stage.link().await);
    let stranger = Human::new(stage.link().await, &bo.room, stage.id());
    let args = || {
        json!({"text": "x", "actionType": "x", "requestId": "plan-0001", "appInstanceId": "a",
            "targetParticipantId": bo.id, "agentParticipantId": bo.id, "enabled": true,
            "decision": "accepted", "status": "completed", "summary": "s", "scopeId": "room",
            "selectedOptionId": "o", "attachmentId": "a", "sourceParticipantId": bo.id,
            "snapshotId": "s", "runtimeHostId": "host-0001", "epoch": 1, "segmentId": "s1",
            "toolCall": {"title": "t"}, "options": [{"optionId": "o", "name": "n"}]})
    };
    let uploads = ["human_send_attachment", "join_human"];
    for name in ops(&[Audience::Human]).into_iter().filter(|name| !uploads.contains(name)) {
        assert_eq!(runtime.code(name, args()).await, "human_only", "{name}");
        let gone = stranger.code(name, args()).await;
        let known =
            if name == "leave_human" { "already_left" } else { "invalid_participant_handle" };
        assert_eq!(gone, known, "{name}");
    }
    for name in ops(&[Audience::Resident]) {
        assert_eq!(ana.code(name, args()).await, "agent_only", "{name}");
        assert_eq!(stranger.code(name, args()).await, "invalid_participant_handle", "{name}");
    }
    for name in ["send_text", "wait_for_events", "leave_room"] {
        assert_eq!(ana.code(name, args()).await, "agent_only", "{name}");
    }
    assert_eq!(ana.code("nonsense", args()).await, "unknown_op");
}
