//! What operators may turn about rooms; the same for all rooms of a node.

/// One curated app an operator offers in every room.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CuratedApp {
    /// Lower-case letters, digits and dashes, at most 32.
    pub app_id: String,
    /// Shown to people and agents.
    pub title: String,
}

/// Periods are in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How long a silent agent stays a participant.
    pub agent_lease_ms: u64,
    /// How long a room with no participant lives on.
    pub empty_room_ms: u64,
    /// Whether a wait with nothing new may be held.
    pub longpoll_enabled: bool,
    /// Longest hold.
    pub hold_ms_max: u64,
    /// Whether `room_app_request` works at all.
    pub room_apps_enabled: bool,
    /// The operator's app catalog.
    pub room_apps: Vec<CuratedApp>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // The reference's lease; clients read it as `agentLeaseMs`.
            agent_lease_ms: 90_000,
            // The reference's empty-room timer: time to come back after a restart of all agents.
            empty_room_ms: 1_800_000,
            // Holding keeps a connection busy: an explicit opt-in.
            longpoll_enabled: false,
            // Short enough for any proxy between agent and gateway.
            hold_ms_max: 5_000,
            room_apps_enabled: true,
            room_apps: Vec::new(),
        }
    }
}
