//! What is true only while the room is awake: connections and requests in flight.
//!
//! Changed only by [`Signal`]s, never stored, lost with the activation.

use object::{Millis, ParticipantId, RequestId};

use crate::budget::{Budgets, Use};
use crate::text::Text;

/// What came by a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// A human's control connection.
    Human,
    /// An agent's resident stream.
    Resident,
}

/// One attached connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    pub connection: u64,
    pub participant: ParticipantId,
    pub line: Line,
    /// Residents: the last sequence pushed down this connection.
    pub cursor: u64,
    /// App instances this human's browser hosts.
    /// Bounded by the app instances of the room.
    pub hosts: Vec<Text>,
}

/// A `room_app_request` in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppRequest {
    pub request: RequestId,
    pub from: ParticipantId,
    pub instance: Text,
    /// The host it went to.
    pub host: ParticipantId,
    pub connection: u64,
    pub until: Millis,
    pub answer: Option<AppAnswer>,
}

/// How a `room_app_request` ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AppAnswer {
    /// JSON of the host's result.
    Result(Text),
    /// The host's own word, at most 256 units.
    HostError(Text),
    InvalidResponse,
    /// The host said that it no longer hosts the app, or left.
    HostUnavailable,
    /// The host's connection was lost.
    HostDisconnected,
}

/// What an agent says it is doing; transient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activity {
    pub agent: ParticipantId,
    pub scope_id: Text,
    pub state: Text,
    pub turn: u64,
}

/// The volatile part of a room.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Live {
    /// In order of attachment.
    /// At most `CONNECTIONS_MAX`.
    pub connections: Vec<Connection>,
    /// At most `APP_REQUESTS_MAX`.
    pub requests: Vec<AppRequest>,
    /// At most `ACTIVITIES_MAX`.
    pub activities: Vec<Activity>,
    /// What humans have sent lately.
    pub budgets: Budgets,
}

/// A change of the volatile part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Signal {
    Attached {
        connection: u64,
        participant: ParticipantId,
        line: Line,
        cursor: u64,
    },
    Detached {
        connection: u64,
    },
    Pushed {
        connection: u64,
        cursor: u64,
    },
    AppHost {
        connection: u64,
        instance: Text,
        ready: bool,
    },
    RequestOpened(AppRequest),
    RequestAnswered {
        request: RequestId,
        answer: AppAnswer,
    },
    RequestClosed {
        request: RequestId,
    },
    ActivitySet(Activity),
    ActivityCleared {
        agent: ParticipantId,
        scope_id: Option<Text>,
    },
    /// Counts against a human's budget.
    Spent(Use),
}

impl Live {
    /// Applies one change.
    pub(crate) fn absorb(&mut self, signal: &Signal) {
        match signal {
            Signal::Attached { connection, participant, line, cursor } => {
                self.connections.retain(|c| c.connection != *connection);
                self.connections.push(Connection {
                    connection: *connection,
                    participant: *participant,
                    line: *line,
                    cursor: *cursor,
                    hosts: Vec::new(),
                });
            }
            Signal::Detached { connection } => {
                self.connections.retain(|c| c.connection != *connection);
            }
            Signal::Pushed { connection, cursor } => {
                if let Some(c) = self.connection_mut(*connection) {
                    c.cursor = *cursor;
                }
            }
            Signal::AppHost { connection, instance, ready } => {
                if let Some(c) = self.connection_mut(*connection) {
                    c.hosts.retain(|h| h != instance);
                    if *ready {
                        c.hosts.push(instance.clone());
                    }
                }
            }
            Signal::RequestOpened(request) => self.requests.push(request.clone()),
            Signal::RequestAnswered { request, answer } => {
                let open = self.requests.iter_mut().find(|r| r.request == *request);
                if let Some(open) = open
                    && open.answer.is_none()
                {
                    open.answer = Some(answer.clone());
                }
            }
            Signal::RequestClosed { request } => self.requests.retain(|r| r.request != *request),
            Signal::Spent(used) => self.budgets.spend(used),
            Signal::ActivitySet(activity) => {
                self.activities
                    .retain(|a| a.agent != activity.agent || a.scope_id != activity.scope_id);
                if self.activities.len() >= crate::limits::ACTIVITIES_MAX {
                    self.activities.remove(0);
                }
                self.activities.push(activity.clone());
            }
            Signal::ActivityCleared { agent, scope_id } => {
                self.activities.retain(|a| {
                    a.agent != *agent || scope_id.as_ref().is_some_and(|s| *s != a.scope_id)
                });
            }
        }
    }

    fn connection_mut(&mut self, connection: u64) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|c| c.connection == connection)
    }

    /// True while sleeping would lose something.
    #[must_use]
    pub(crate) fn busy(&self) -> bool {
        !self.connections.is_empty() || !self.requests.is_empty()
    }

    /// True if this participant has an attached connection.
    #[must_use]
    pub fn attached(&self, participant: ParticipantId) -> bool {
        self.connections.iter().any(|c| c.participant == participant)
    }
}
