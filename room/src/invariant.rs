//! What is true of every state, checked by tests after every step.

use object::Millis;

use crate::limits;
use crate::state::State;

/// Every broken rule of a state, as sentences; empty if all hold.
#[must_use]
pub fn broken(state: &State) -> Vec<String> {
    let mut out = Vec::new();
    let mut hold = |ok: bool, rule: &str| {
        if !ok {
            out.push(rule.to_owned());
        }
    };
    hold(state.participants.len() <= limits::PARTICIPANTS_MAX, "at most 32 participants");
    hold(unique(state.participants.iter().map(|p| p.id)), "participant ids are unique");
    hold(
        state.participants.is_empty() || state.expires_at == Millis::FAR_FUTURE,
        "an occupied room does not expire",
    );
    timeline(state, &mut hold);
    tasks(state, &mut hold);
    artifacts(state, &mut hold);
    grants(state, &mut hold);
    out
}

fn timeline(state: &State, hold: &mut impl FnMut(bool, &str)) {
    let weight: usize = state.messages.iter().map(|m| m.weight as usize).sum();
    hold(weight == state.message_bytes, "the ring's weight is the sum of its messages");
    hold(
        state.message_bytes <= limits::MESSAGES_BYTES_MAX || state.messages.len() == 1,
        "the ring keeps at most 80 KiB",
    );
    hold(state.messages.len() <= limits::MESSAGES_MAX, "at most 100 messages");
    hold(state.attachments.len() <= limits::ATTACHMENTS_MAX, "at most 8 attachments");
    hold(ascending(state.messages.iter().map(|m| m.sequence)), "messages ascend");
    hold(ascending(state.attachments.iter().map(|a| a.sequence)), "attachments ascend");
    let mut all: Vec<u64> = state.messages.iter().map(|m| m.sequence).collect();
    all.extend(state.attachments.iter().map(|a| a.sequence));
    all.sort_unstable();
    hold(ascending(all.iter().copied()), "no sequence is used twice");
    hold(
        all.last().is_none_or(|last| *last <= state.sequence),
        "nothing lies beyond the last assigned sequence",
    );
    hold(
        state
            .participants
            .iter()
            .all(|p| p.lost_live <= state.sequence && p.lost_history <= state.sequence),
        "nobody lost what was never assigned",
    );
    hold(
        state.participants.iter().all(|p| p.memory.entries.len() <= limits::REMEMBERED_MAX),
        "at most 64 remembered ids a participant",
    );
}

fn tasks(state: &State, hold: &mut impl FnMut(bool, &str)) {
    hold(state.tasks.len() <= limits::TASKS_MAX, "at most 128 Tasks");
    hold(ascending(state.tasks.iter().map(|t| t.sequence)), "Tasks ascend");
    hold(unique(state.tasks.iter().map(|t| &t.request_id)), "Task ids are unique");
    for task in &state.tasks {
        hold(
            task.admitted.len() <= limits::PARTICIPANTS_MAX
                && task.admitted.iter().all(|(id, _)| state.participant(*id).is_some()),
            "only present agents are admitted to a Task",
        );
        hold(!(task.declined > 0 && task.accepted > 0), "a Task is not both accepted and declined");
        hold(
            !(task.declined > 0 && (task.completed > 0 || task.failed > 0)),
            "a declined Task has no result",
        );
        hold(!(task.completed > 0 && task.failed > 0), "a Task has one result");
    }
}

fn artifacts(state: &State, hold: &mut impl FnMut(bool, &str)) {
    let surfaces = state.participants.iter().filter(|p| p.surface.is_some());
    hold(surfaces.clone().count() <= limits::SURFACES_MAX, "at most 3 surfaces");
    hold(surfaces.clone().all(|p| p.is_agent()), "only agents show a surface");
    hold(state.live_views.len() <= limits::LIVE_VIEWS_MAX, "at most 16 Live Views");
    hold(unique(state.live_views.iter().map(|v| v.task)), "one Live View a Task");
    hold(
        state.live_views.iter().all(|v| state.task_at(v.task).is_some()),
        "a Live View's Task is kept",
    );
    hold(state.apps.len() <= limits::APPS_MAX, "at most 4 apps");
    hold(unique(state.apps.iter().map(|a| a.task)), "one app a Task");
    hold(state.apps.iter().all(|a| state.task_at(a.task).is_some()), "an app's Task is kept");
}

fn grants(state: &State, hold: &mut impl FnMut(bool, &str)) {
    let bytes: usize = state.transcript.segments.iter().map(|s| s.weight as usize).sum();
    hold(bytes == state.transcript.bytes, "the transcript's weight is the sum of its segments");
    hold(
        state.transcript.segments.len() <= limits::TRANSCRIPT_SEGMENTS_MAX,
        "at most 500 segments",
    );
    hold(ascending(state.transcript.segments.iter().map(|s| s.sequence)), "segments ascend");
    hold(state.permissions.len() <= limits::PERMISSIONS_MAX, "at most 32 pending approvals");
    hold(
        state.permissions.iter().all(|p| state.participant(p.agent).is_some()),
        "an approval's agent is present",
    );
    hold(
        state.agent_voice.iter().all(|v| state.participant(v.agent).is_some()),
        "a voice grant's agent is present",
    );
    hold(
        state
            .hosts
            .iter()
            .all(|host| state.participants.iter().any(|p| p.host.as_ref() == Some(&host.id))),
        "every host is named by somebody",
    );
}

fn ascending(numbers: impl Iterator<Item = u64>) -> bool {
    let mut last = None;
    for number in numbers {
        if last.is_some_and(|last| last >= number) {
            return false;
        }
        last = Some(number);
    }
    true
}

fn unique<T: Ord>(items: impl Iterator<Item = T>) -> bool {
    let mut all: Vec<T> = items.collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    all.len() == count
}
