//! Effects of a committed batch, in one match.

use std::sync::Arc;

use object::{Effect, Object, ObjectId};

use super::Inner;

/// Performs what a batch asked for. Called only after its commit.
pub(super) fn perform<O: Object>(host: &Arc<Inner<O>>, id: &ObjectId, effects: Vec<Effect>) {
    for effect in effects {
        let closed = match effect {
            Effect::Notify { connection, frame } => host.subscribers.notify(id, connection, &frame),
            Effect::NotifyParticipant { participant, frame } => {
                host.subscribers.notify_participant(id, participant, &frame)
            }
            Effect::Disconnect { participant, close_code } => {
                host.subscribers.disconnect(id, participant, close_code)
            }
        };
        for (participant, connection) in closed {
            host.connection_lost(id, participant, connection);
        }
    }
}
