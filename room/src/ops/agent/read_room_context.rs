//! `read_room_context`: pages of what is kept (rooms 6.2, 9.4; ours 15, 16).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::Annotations;
use crate::dedup::HANDLE;
use crate::limits;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, no_replay, output_schema, unknown_handle};
use crate::page::{Order, Page, Range};
use crate::spec::{self, Field, Kind};
use crate::view::{self, EventView, SegmentView};

pub static META: OpMeta = OpMeta {
    name: "read_room_context",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: true,
    minted: Minted::Nothing,
    guard: Guard::Call(1),
    wait: false,
    park_ms: 0,
    client_request_id: false,
    blob: None,
};

const SEQUENCE: Kind = Kind::Int { min: 0, max: limits::SAFE_INTEGER_MAX, default: None };

pub static INPUT: &[Field] = &[
    HANDLE,
    Field::optional("beforeSequence", SEQUENCE, "Only events before this sequence."),
    Field::optional("afterSequence", SEQUENCE, "Only events after this sequence."),
    Field::optional(
        "limit",
        spec::int(1, limits::CONTEXT_PAGE_MAX, limits::CONTEXT_PAGE_DEFAULT),
        "Events on the page.",
    ),
    Field::optional(
        "beforeTranscriptSequence",
        SEQUENCE,
        "Only transcript segments before this transcript sequence.",
    ),
    Field::optional(
        "afterTranscriptSequence",
        SEQUENCE,
        "Only transcript segments after this transcript sequence.",
    ),
    Field::optional(
        "transcriptLimit",
        spec::int(1, limits::CONTEXT_PAGE_MAX, limits::CONTEXT_PAGE_DEFAULT),
        "Transcript segments on the page.",
    ),
    Field::optional(
        "order",
        Kind::Word(&["oldest", "newest"]),
        "Without before/after: which end the page is taken from (default oldest); the page itself \
         always ascends.",
    ),
];

pub static TOOL: ToolText = ToolText {
    title: "Read room context",
    description: "Purpose: reads one page of kept events, your own included, and one page of the live transcript. \
Use: to catch up on what came before you joined or was truncated; for what is new use wait_for_events instead. \
Side effects: none; it moves no cursor and does not renew your lease. \
Limits: 50 entries a page of the 100 messages, 8 files and 500 segments kept; without before/after the oldest page comes first, order:\"newest\" gives the last one; event and transcript sequences are separate counters. \
Errors: invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: true,
    },
    input: INPUT,
    output: output_schema::<Output<'static>>,
};

pub static OP: Op = Op {
    meta: &META,
    check: |args, blob| spec::check(INPUT, args, blob),
    decide,
    gone: unknown_handle,
    replay: no_replay,
    tool: Some(&TOOL),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    before_sequence: Option<u64>,
    after_sequence: Option<u64>,
    limit: usize,
    before_transcript_sequence: Option<u64>,
    after_transcript_sequence: Option<u64>,
    transcript_limit: usize,
    #[serde(default)]
    order: Order,
}

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    /// Ascending by sequence.
    pub events: Vec<EventView<'a>>,
    /// Of all that is kept and visible to you; 0 if nothing is.
    pub oldest_sequence: u64,
    pub newest_sequence: u64,
    pub has_more_before: bool,
    pub has_more_after: bool,
    /// Something after your afterSequence that you could have seen is no longer kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    pub live_transcript: TranscriptPage<'a>,
}

/// A page of the transcript, in its own counter.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct TranscriptPage<'a> {
    pub segments: Vec<SegmentView<'a>>,
    pub oldest_sequence: u64,
    pub newest_sequence: u64,
    pub has_more_before: bool,
    pub has_more_after: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let me = ask.me()?;
    let state = ask.state;
    let visible: Vec<_> = view::after(state, 0)
        .filter(|entry| view::shown_in_history(&state.tasks, me, *entry))
        .collect();
    let range = Range {
        before: input.before_sequence,
        after: input.after_sequence,
        limit: input.limit,
        order: input.order,
    };
    let page = Page::of(&visible, |entry| entry.sequence(), range, me.lost_history);
    let segments: Vec<_> = state.transcript.segments.iter().collect();
    let range = Range {
        before: input.before_transcript_sequence,
        after: input.after_transcript_sequence,
        limit: input.transcript_limit,
        order: input.order,
    };
    let spoken = Page::of(&segments, |segment| segment.sequence, range, state.transcript.evicted);
    Step::reply(&Output {
        events: page.items.iter().map(|entry| EventView::of(state, me, *entry)).collect(),
        oldest_sequence: page.oldest,
        newest_sequence: page.newest,
        has_more_before: page.more_before,
        has_more_after: page.more_after,
        truncated: page.truncated,
        live_transcript: TranscriptPage {
            segments: spoken.items.iter().map(|segment| SegmentView::of(segment)).collect(),
            oldest_sequence: spoken.oldest,
            newest_sequence: spoken.newest,
            has_more_before: spoken.more_before,
            has_more_after: spoken.more_after,
            truncated: spoken.truncated,
        },
    })
}
