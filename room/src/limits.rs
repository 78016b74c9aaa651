//! Every bound a client can meet, with its unit last. `utf16` means UTF-16 code units.

/// Participants of either kind, connected or not.
pub const PARTICIPANTS_MAX: usize = 32;
pub const ROOM_ID_UTF16_MAX: usize = 64;
pub const NAME_UTF16_MAX: usize = 32;

pub const CAPABILITIES_MAX: usize = 8;
pub const CAPABILITY_UTF16_MAX: usize = 48;
pub const RUNTIME_HOST_ID_UTF16_MIN: usize = 8;
pub const RUNTIME_HOST_ID_UTF16_MAX: usize = 64;

/// Messages kept in the ring.
pub const MESSAGES_MAX: usize = 100;
/// Total weight of the kept messages, about their size as UTF-8 JSON.
pub const MESSAGES_BYTES_MAX: usize = 80 * 1024;
pub const ATTACHMENTS_MAX: usize = 8;
pub const ATTACHMENT_BYTES_MAX: usize = 786_432;
pub const ATTACHMENT_CHUNK_BYTES: usize = 65_536;
pub const FILE_NAME_UTF16_MAX: usize = 256;
/// Largest accepted base64 argument, in characters, and what it decodes to, in bytes.
pub const BASE64_CHARS_MAX: usize = 1_400_000;
pub const BASE64_DECODED_BYTES_MAX: usize = BASE64_CHARS_MAX / 4 * 3;

pub const TEXT_UTF16_MAX: usize = 4_000;
pub const TARGETS_MAX: usize = 8;
pub const TARGET_UTF16_MAX: usize = 64;

/// Task records kept apart from the message ring (ours 14).
pub const TASKS_MAX: usize = 128;
pub const REQUEST_ID_UTF16_MIN: usize = 4;
pub const REQUEST_ID_UTF16_MAX: usize = 64;
pub const SUMMARY_UTF16_MAX: usize = 1_200;
pub const DETAILS_MAX: usize = 16;
pub const DETAIL_KEY_UTF16_MAX: usize = 64;
pub const DETAIL_VALUE_UTF16_MAX: usize = 512;
pub const ATTACHMENT_REFS_MAX: usize = 3;

pub const CONTEXT_PAGE_MAX: u64 = 50;
pub const CONTEXT_PAGE_DEFAULT: u64 = 25;
pub const WAIT_SECONDS_MAX: u64 = 25;
pub const WAIT_SECONDS_DEFAULT: u64 = 20;
/// Largest integer any argument may hold (2^53 - 1).
pub const SAFE_INTEGER_MAX: u64 = 9_007_199_254_740_991;

pub const TRANSCRIPT_SEGMENTS_MAX: usize = 500;
pub const TRANSCRIPT_BYTES_MAX: usize = 96 * 1024;
pub const SEGMENT_ID_UTF16_MAX: usize = 128;
pub const SPEAKER_UTF16_MAX: usize = 256;

pub const SURFACES_MAX: usize = 3;
pub const SURFACE_BYTES_MAX: usize = 786_432;
pub const SURFACE_PERIOD_MS: u64 = 2_000;
pub const LIVE_VIEWS_MAX: usize = 16;
pub const LIVE_VIEW_BYTES_MAX: usize = 32_768;
pub const APPS_MAX: usize = 4;
pub const APP_BUNDLE_BYTES_MAX: usize = 49_152;
pub const APP_STATE_BYTES_MAX: usize = 16 * 1024;
/// What a human writes of it at once.
pub const APP_STATE_WRITE_BYTES_MAX: usize = 4_096;

pub const PERMISSIONS_MAX: usize = 32;
pub const ACTIVITIES_MAX: usize = 64;
pub const CONNECTIONS_MAX: usize = 64;
pub const CONNECTIONS_PER_HUMAN_MAX: usize = 4;
pub const APP_REQUESTS_MAX: usize = 4;
pub const APP_REQUEST_MS_MAX: u64 = 15_000;
/// How long after its end a request is forgotten that nobody came back for.
pub const APP_REQUEST_OVERDUE_MS: u64 = 1_000;
pub const APP_PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// How long a disconnected human stays a participant.
pub const HUMAN_GRACE_MS: u64 = 30_000;
/// How often the room looks whether a connected human is still attached.
pub const HUMAN_CHECK_MS: u64 = 3_600_000;

/// Request ids remembered per participant, and for how long (ours 11).
pub const REMEMBERED_MAX: usize = 64;
pub const REMEMBERED_MS_MAX: u64 = 600_000;
pub const CLIENT_REQUEST_ID_UTF16_MAX: usize = 64;

// The ring must hold the largest single message, or nothing could ever be kept.
const _: () = assert!(MESSAGES_BYTES_MAX > 4 * TEXT_UTF16_MAX);
const _: () = assert!(BASE64_DECODED_BYTES_MAX > ATTACHMENT_BYTES_MAX);
const _: () = assert!(BASE64_DECODED_BYTES_MAX > SURFACE_BYTES_MAX);
