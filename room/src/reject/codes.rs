//! The table of codes. A code, once published, is never given another meaning.

use object::Class;

use super::Origin;

macro_rules! codes {
    ($($name:ident = $code:literal, $class:ident, $retryable:literal, $origin:ident,
        $message:literal;)*) => {
        /// A published refusal.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            /// All codes, in the order of their pages.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What clients program against.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// What kind of refusal it is.
            #[must_use]
            pub const fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }

            /// Whether repeating the very same call can succeed.
            #[must_use]
            pub const fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable,)* }
            }

            /// Who raises it.
            #[must_use]
            pub const fn origin(self) -> Origin {
                match self { $(Self::$name => Origin::$origin,)* }
            }

            /// What to do about it.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$name => $message,)* }
            }
        }
    };
}

codes! {
    // Edge.
    RateLimited = "rate_limited", TooFast, true, Edge,
        "Too many calls; wait `retryAfterMs` milliseconds and call again.";
    WaitRateLimited = "wait_rate_limited", TooFast, true, Edge,
        "This wait came too early; wait `retryAfterMs` milliseconds and call again.";
    WaitAlreadyPending = "wait_already_pending", Conflict, true, Edge,
        "Another wait of this participant is being held; let it end before the next one.";
    RoomUnavailable = "room_unavailable", Unavailable, true, Edge,
        "The room cannot be reached at the moment; repeat the same call after a short pause.";
    RoomIdCollision = "room_id_collision", Conflict, true, Edge,
        "Every generated room id was taken; call create_room again.";
    // Common.
    InvalidArguments = "invalid_arguments", Invalid, false, Room,
        "The arguments do not fit the tool's input schema; correct every entry of `fields` and call again.";
    InvalidParticipantHandle = "invalid_participant_handle", Unauthenticated, false, Room,
        "This handle names no participant of the room; join again to get a fresh one.";
    AgentOnly = "agent_only", Forbidden, false, Room,
        "Only an agent may do this; use a handle that an agent got from join_room or create_room.";
    HumanOnly = "human_only", Forbidden, false, Room,
        "Only a human may do this; use a human's own credential.";
    AlreadyLeft = "already_left", Gone, false, Room,
        "This participant is no longer in the room; nothing is left to do.";
    RoomExpired = "room_expired", Gone, false, Room,
        "This room does not exist any more; join it again to start it anew, or create another.";
    RoomFull = "room_full", Conflict, true, Room,
        "The room already has 32 participants; try again when somebody has left, or use another room.";
    ParticipantExists = "participant_exists", Conflict, false, Room,
        "This participant id is already in use; join again to get a fresh one.";
    RoomAlreadyExists = "room_already_exists", Conflict, false, Room,
        "A room with this id already exists; create one with another id, or join it.";
    OutcomeUnknown = "outcome_unknown", OutcomeUnknown, false, Room,
        "The first attempt may have taken effect and is no longer remembered; read the room before you decide to repeat it with a new clientRequestId.";
    ClientRequestIdConflict = "client_request_id_conflict", Conflict, false, Room,
        "This clientRequestId was used with other arguments; use a fresh id for a different call.";
    RoomStateBudgetExceeded = "room_state_budget_exceeded", Limit, false, Room,
        "The room cannot keep this entry within its 80 KiB; send something smaller.";
    InvalidRequest = "invalid_request", Invalid, false, Room,
        "The request does not have the documented shape; compare it with the tool's schema.";
    InvalidCapabilities = "invalid_capabilities", Invalid, false, Room,
        "A capability is 1 to 48 lower-case letters or digits, in groups joined by single '.', '_' or '-'; correct the list and call again.";
    InvalidRuntimeHost = "invalid_runtime_host", Invalid, false, Unused,
        "A runtime host has an id of 8 to 64 letters, digits or '._:-' and two speech flags; correct it and call again.";
    // Tasks.
    UnknownTaskRequest = "unknown_task_request", NotFound, false, Room,
        "No Task with this request id is kept in the room; use the exact requestId of its request.";
    InvalidTaskRequest = "invalid_task_request", Invalid, false, Room,
        "A Task request id has 4 to 64 letters, digits or '._:-' and starts with a letter or digit; use the id of an existing request.";
    TaskTargetNotInRoom = "task_target_not_in_room", NotFound, false, Room,
        "A target of this Task message is not in the room; take ids from the roster.";
    TaskTargetMismatch = "task_target_mismatch", Forbidden, false, Room,
        "This participant does not take part in the Task; ask to be targeted in it first.";
    InvalidTaskTargets = "invalid_task_targets", Invalid, false, Room,
        "Targets must be a list of participant ids; take them from the roster.";
    TooManyTaskTargets = "too_many_task_targets", Limit, false, Room,
        "A Task message has at most 8 targets; name fewer.";
    TaskTargetNotAgent = "task_target_not_agent", Invalid, false, Room,
        "This Task message may only target agents; name agents from the roster.";
    TaskSenderNotHuman = "task_sender_not_human", Forbidden, false, Unused,
        "Only a human may send this into the Task.";
    TaskAttachmentNotParticipant = "task_attachment_not_participant", Forbidden, false, Room,
        "This participant does not take part in the Task; upload without taskRequestId or ask to be targeted in it first.";
    // Collaboration.
    TargetNotInRoom = "target_not_in_room", NotFound, false, Room,
        "The target is not connected to the room; take an id from the roster of wait_for_events.";
    TargetNotAgent = "target_not_agent", Invalid, false, Room,
        "The target of this request must be an agent; take an agent's id from the roster.";
    SelfRequest = "self_request", Invalid, false, Room,
        "A participant cannot send a request to itself; name another participant.";
    RequestIdConflict = "request_id_conflict", Conflict, false, Room,
        "Another participant already used this request id; choose another or leave it out.";
    TaskRequestIdInUse = "task_request_id_in_use", Conflict, false, Room,
        "This request id is already in use; choose another or leave it out.";
    UnknownRequest = "unknown_request", NotFound, false, Room,
        "No request with this id is kept in the room; use the exact requestId of its event.";
    NotRequestTarget = "not_request_target", Forbidden, false, Room,
        "Only the target of the request may answer it.";
    RequestAlreadySettled = "request_already_settled", Conflict, false, Room,
        "The request already has its result; start a new request if there is more to do.";
    RequestAlreadyAccepted = "request_already_accepted", Conflict, false, Room,
        "The request was accepted and cannot be declined any more; send a failed result instead.";
    RequestDeclined = "request_declined", Conflict, false, Room,
        "The request was declined; its sender may start a new one.";
    InvalidCollabKind = "invalid_collab_kind", Invalid, false, Room,
        "This is no step of a collaboration; use accepted, declined, completed or failed.";
    InvalidRequestId = "invalid_request_id", Invalid, false, Room,
        "A request id has 4 to 64 letters, digits or '._:-' and starts with a letter or digit.";
    SummaryRequired = "summary_required", Invalid, false, Room,
        "A summary of 1 to 1,200 UTF-16 units is required.";
    SummaryTooLong = "summary_too_long", Limit, false, Room,
        "A summary has at most 1,200 UTF-16 units; shorten it.";
    InvalidAttachmentRefs = "invalid_attachment_refs", Invalid, false, Room,
        "Attachment references must be ids of kept attachments.";
    TooManyAttachmentRefs = "too_many_attachment_refs", Limit, false, Room,
        "At most 3 attachments can be referenced; name fewer.";
    UnknownAttachment = "unknown_attachment", NotFound, false, Room,
        "A referenced attachment is not kept in the room any more; upload it again.";
    AttachmentTaskMismatch = "attachment_task_mismatch", Conflict, false, Room,
        "A referenced attachment belongs to another Task; upload it to the room or to this Task.";
    // Files.
    InvalidAttachment = "invalid_attachment", Invalid, false, Room,
        "The file is empty or its base64 cannot be decoded; encode the bytes again.";
    AttachmentTooLarge = "attachment_too_large", Limit, false, Room,
        "A file has at most 786,432 bytes; send a smaller one.";
    UnsupportedAttachmentType = "unsupported_attachment_type", Invalid, false, Room,
        "This MIME type is not accepted; use one the schema lists.";
    AttachmentUnavailable = "attachment_unavailable", NotFound, false, Room,
        "The attachment is not kept any more or is not for this participant; ask its sender to upload it again.";
    MissingRoomCapability = "missing_room_capability", Invalid, false, Unused,
        "The request lacks the room, participant or token header.";
    // Surfaces.
    SurfaceAgentOnly = "surface_agent_only", Forbidden, false, Unused,
        "Only an agent may publish a workspace snapshot.";
    SurfaceMimeUnsupported = "surface_mime_unsupported", Invalid, false, Room,
        "A workspace snapshot is image/jpeg, image/png or image/webp.";
    SurfaceEmpty = "surface_empty", Invalid, false, Room,
        "The snapshot holds no bytes; send the encoded image.";
    SurfaceTooLarge = "surface_too_large", Limit, false, Room,
        "A snapshot has at most 786,432 bytes; send a smaller image.";
    SurfaceSizeMismatch = "surface_size_mismatch", Invalid, false, Unused,
        "The announced size differs from the bytes sent; send them again.";
    SurfaceRateLimited = "surface_rate_limited", TooFast, true, Room,
        "A snapshot may be replaced every 2 seconds; wait `retryAfterMs` milliseconds.";
    SurfaceCapacityExceeded = "surface_capacity_exceeded", Limit, true, Room,
        "Three agents already show a snapshot; try again when one has cleared its own.";
    SurfaceUnavailable = "surface_unavailable", NotFound, true, Unused,
        "The snapshot's bytes cannot be read; look at the roster for the current snapshotId.";
    SurfaceNotFound = "surface_not_found", NotFound, false, Room,
        "This participant is not in the room or shows no snapshot.";
    SurfaceChanged = "surface_changed", Gone, false, Room,
        "The snapshot was replaced; take the current snapshotId from the roster.";
    // Live views.
    InvalidLiveView = "invalid_live_view", Invalid, false, Room,
        "The Live View must have exactly surfaceId, revision, root and data in the documented form.";
    LiveViewTooLarge = "live_view_too_large", Limit, false, Room,
        "A Live View has at most 32,768 bytes of JSON; publish a smaller one.";
    InvalidLiveViewData = "invalid_live_view_data", Invalid, false, Room,
        "A data key or value of the Live View is not allowed; use flat keys and booleans, finite numbers or safe strings.";
    InvalidLiveViewComponent = "invalid_live_view_component", Invalid, false, Room,
        "A component of the Live View is not allowed; check its type, keys, depth and strings.";
    LiveViewNotAuthorized = "live_view_not_authorized", Forbidden, false, Room,
        "Only the Task's primary agent may publish its Live View.";
    LiveViewSurfaceMismatch = "live_view_surface_mismatch", Conflict, false, Room,
        "The Task's Live View has another surfaceId; publish under that one.";
    LiveViewRevisionConflict = "live_view_revision_conflict", Conflict, false, Room,
        "The first revision is 1 and each later one must be higher; publish with a higher revision.";
    LiveViewCapacity = "live_view_capacity", Limit, false, Room,
        "The room already keeps 16 Live Views.";
    // Generated apps.
    GeneratedAppBundleObject = "generated_app_bundle_object", Invalid, false, Room,
        "The bundle must be a JSON object.";
    GeneratedAppBundleInvalid = "generated_app_bundle_invalid", Invalid, false, Room,
        "The bundle's keys, manifest or sources break the documented rules; correct it and publish again.";
    GeneratedAppBundleTooLarge = "generated_app_bundle_too_large", Limit, false, Room,
        "A bundle has at most 49,152 bytes of JSON; publish a smaller one.";
    GeneratedAppNotAuthorized = "generated_app_not_authorized", Forbidden, false, Room,
        "Only the Task's primary agent may publish its app.";
    GeneratedAppCapacity = "generated_app_capacity", Limit, false, Room,
        "The room already keeps 4 generated apps.";
    GeneratedAppUnavailable = "generated_app_unavailable", NotFound, true, Unused,
        "The app's bytes cannot be read; publish it again.";
    GeneratedAppNotFound = "generated_app_not_found", NotFound, false, Room,
        "The room keeps no generated app with this instance id.";
    GeneratedAppStateInvalid = "generated_app_state_invalid", Invalid, false, Room,
        "The shared state must be a JSON object of at most 4 KiB.";
    GeneratedAppStateConflict = "generated_app_state_conflict", Conflict, false, Room,
        "The shared state has another revision; read it and try again.";
    GeneratedAppStateRateLimited = "generated_app_state_rate_limited", TooFast, true, Room,
        "Too many state updates; wait before the next one.";
    InvalidRevision = "invalid_revision", Invalid, false, Room,
        "A revision is a whole number from 0 on.";
    // Room apps.
    AppUnavailable = "app_unavailable", NotFound, false, Room,
        "The room offers no curated app with this instance id; take one from `roomApps`.";
    HostUnavailable = "host_unavailable", Conflict, true, Room,
        "Nobody's browser hosts this app at the moment; try again when somebody has it open.";
    HostDisconnected = "host_disconnected", Conflict, true, Room,
        "The browser that hosted the app lost its connection before it answered.";
    AgentDisconnected = "agent_disconnected", Conflict, false, Room,
        "The asking agent left before the app answered.";
    AgentUnavailable = "agent_unavailable", Conflict, true, Unused,
        "The agent has no connection that this needs.";
    TooManyRequests = "too_many_requests", TooFast, true, Room,
        "Four app requests are already in flight in this room; wait for one to end.";
    Timeout = "timeout", Conflict, true, Room,
        "The app did not answer within 15 seconds.";
    InvalidResponse = "invalid_response", Conflict, true, Room,
        "The app's answer was malformed or larger than 16 KiB.";
    AppError = "app_error", Conflict, false, Room,
        "The app refused the request; its own words follow.";
    // Grants, transcript, permissions, connections.
    LiveTranscriptUnavailable = "live_transcript_unavailable", Conflict, false, Room,
        "This host has no connected agent that is ready to transcribe.";
    LiveTranscriptMediaDisabled = "live_transcript_media_disabled", Conflict, false, Unused,
        "Speech is switched off on this server.";
    LiveTranscriptInactive = "live_transcript_inactive", Conflict, false, Room,
        "No transcript is running; a human has to start it.";
    LiveTranscriptEpochMismatch = "live_transcript_epoch_mismatch", Conflict, false, Room,
        "The transcript was started anew; use the current epoch.";
    LiveTranscriptNotAuthorized = "live_transcript_not_authorized", Forbidden, false, Room,
        "Only an agent on the producing host may append to the transcript.";
    InvalidLiveTranscriptSegmentId = "invalid_live_transcript_segment_id", Invalid, false, Room,
        "A segment id has 1 to 128 letters, digits or '._:-'.";
    InvalidLiveTranscriptSource = "invalid_live_transcript_source", Invalid, false, Room,
        "The speaker must be a human in the room.";
    InvalidLiveTranscriptText = "invalid_live_transcript_text", Invalid, false, Room,
        "A segment has 1 to 4,000 UTF-16 units of text.";
    AgentNotInRoom = "agent_not_in_room", NotFound, false, Room,
        "This agent is not in the room.";
    AgentVoiceUnavailable = "agent_voice_unavailable", Conflict, false, Room,
        "This agent's host is not ready to speak.";
    InvalidPermissionRequest = "invalid_permission_request", Invalid, false, Room,
        "The approval request does not have the documented shape.";
    InvalidPermissionResponse = "invalid_permission_response", Invalid, false, Room,
        "No pending approval offers this option.";
    PermissionCapacity = "permission_capacity", Limit, true, Room,
        "32 approvals are already pending; wait for one to end.";
    PermissionRequestExists = "permission_request_exists", Conflict, false, Room,
        "An approval with this request id is already pending.";
    PermissionRequiresStructuredResponse = "permission_requires_structured_response", Invalid, false, Room,
        "Answer an approval with permission-response, not with an action.";
    RoomConnectionLimit = "room_connection_limit", Limit, true, Room,
        "The room already has 64 connections.";
    MessageRateLimited = "message_rate_limited", TooFast, true, Room,
        "Too many frames; slow down.";
    InvalidMessage = "invalid_message", Invalid, false, Room,
        "The frame does not have the documented shape.";
    // Caught by the input schemas first; more of them above.
    TextRequired = "text_required", Invalid, false, Unused,
        "A text of 1 to 4,000 UTF-16 units is required.";
    InvalidDetails = "invalid_details", Invalid, false, Unused,
        "Details map strings to strings.";
    TooManyDetails = "too_many_details", Limit, false, Unused,
        "Details have at most 16 entries.";
    InvalidDetailEntry = "invalid_detail_entry", Invalid, false, Unused,
        "A detail has a key of 1 to 64 and a value of at most 512 UTF-16 units.";
}
