//! Finding a tool and running it.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use http::StatusCode;
use room::catalog::Tool;
use serde_json::value::RawValue;

use super::dispatch::{Answer, Planned, fault};
use super::jsonrpc::{ErrorId, code};
use super::prepared::Prepared;
use super::render;
use crate::call::{Outcome, Pipeline, ToolCall};
use crate::client_addr::ClientAddr;
use crate::clock::Instant;
use crate::http::budget::Budget;

/// Who answers tool calls: the [`Pipeline`], or a script in tests.
pub trait Backend: Send + Sync + 'static {
    /// Carries one call through. Dropping the future cancels the call.
    fn call<'a>(&'a self, call: ToolCall<'a>) -> impl Future<Output = Outcome> + Send + 'a;

    /// Whether new calls can be served: the store behind is open.
    fn ready(&self) -> bool;
}

impl Backend for Arc<Pipeline> {
    fn call<'a>(&'a self, call: ToolCall<'a>) -> impl Future<Output = Outcome> + Send + 'a {
        Pipeline::call(self, call)
    }

    fn ready(&self) -> bool {
        self.is_open()
    }
}

/// All tools, by name.
#[derive(Debug)]
pub struct Catalog {
    tools: Vec<Tool>,
    /// Bounded by the tools.
    by_name: HashMap<&'static str, usize>,
    /// The arguments of a call that brings none.
    no_arguments: Box<RawValue>,
    pub(crate) prepared: Prepared,
}

impl Catalog {
    /// Takes the tools and prepares what is answered about them.
    #[must_use]
    pub fn new(tools: Vec<Tool>) -> Self {
        let by_name = tools.iter().enumerate().map(|(at, tool)| (tool.meta.name, at)).collect();
        let prepared = Prepared::new(&tools);
        Self { tools, by_name, no_arguments: no_arguments(), prepared }
    }

    /// All tools, in the order the seeds name them.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// One tool.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.get(*self.by_name.get(name)?)
    }
}

/// Whether the caller's going away may end a call. Set while a call that may change something is
/// on its way: that call is then finished without its caller (mcp.md 1.1, cancellation).
#[derive(Clone, Debug, Default)]
pub struct Detach(Arc<AtomicU8>);

const ATTENDED: u8 = 0;
const MUST_FINISH: u8 = 1;
const ORPHANED: u8 = 2;

impl Detach {
    /// Called when the caller is gone: whether the work must be finished all the same.
    #[must_use]
    pub fn orphan(&self) -> bool {
        let must_finish = self.0.load(Ordering::Relaxed) == MUST_FINISH;
        if must_finish {
            self.0.store(ORPHANED, Ordering::Relaxed);
        }
        must_finish
    }

    /// Whether the work went on without its caller.
    #[must_use]
    pub fn was_orphaned(&self) -> bool {
        self.0.load(Ordering::Relaxed) == ORPHANED
    }

    fn must_finish(&self, must: bool) {
        if !self.was_orphaned() {
            self.0.store(if must { MUST_FINISH } else { ATTENDED }, Ordering::Relaxed);
        }
    }
}

/// What a call needs besides its plan.
#[derive(Clone, Debug)]
pub struct Circumstances {
    pub client: ClientAddr,
    pub deadline: Instant,
    pub detach: Detach,
    pub budget: Arc<Budget>,
}

/// Runs a planned call and renders its result.
pub async fn run<B: Backend>(
    backend: &B,
    catalog: &Catalog,
    planned: Planned<'_>,
    around: &Circumstances,
) -> Answer {
    let Planned { era, id, tool, arguments } = planned;
    // A poll changes nothing that its repeat would miss; everything else that is not a plain read
    // must come to its end once it has begun.
    let detached = !(tool.meta.read_only || tool.meta.wait);
    let call = ToolCall {
        tool,
        arguments: arguments.unwrap_or(&catalog.no_arguments),
        client: around.client,
        deadline: around.deadline,
    };
    around.detach.must_finish(detached);
    let outcome = backend.call(call).await;
    around.detach.must_finish(false);
    let extras = &catalog.prepared.modern_extras;
    match outcome {
        Outcome::Refused(refusal) => {
            Answer::owned(StatusCode::OK, render::refusal(era, id, &refusal, extras))
        }
        Outcome::Success(success) => {
            let bound = render::success_bytes_bound(&success);
            // What has been done is always told: only an answer that can be asked for again may
            // be refused for want of memory.
            let charge =
                if detached { Some(around.budget.force(bound)) } else { around.budget.take(bound) };
            let Some(mut charge) = charge else {
                return Answer::overloaded(ErrorId::Of(id));
            };
            match render::success(era, id, &success, extras) {
                Ok(bytes) => {
                    charge.shrink(bytes.len());
                    Answer::charged(charge, bytes)
                }
                Err(error) => {
                    tracing::error!(tool = tool.meta.name, %error, "rendering a result failed");
                    fault(StatusCode::OK, ErrorId::Of(id), code::INTERNAL, "Internal error", None)
                }
            }
        }
    }
}

/// `{}` as raw text.
#[expect(clippy::expect_used, reason = "the text is a constant and valid JSON")]
fn no_arguments() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("valid JSON")
}

/// The text of the error for a tool that does not exist.
pub(crate) fn unknown_tool(name: &str) -> String {
    format!("Unknown tool: {}", super::headers::echo(name))
}

/// Arguments must be an object; absence is an empty one.
pub(crate) fn arguments_are_fit(arguments: Option<&RawValue>) -> bool {
    arguments.is_none_or(|raw| raw.get().starts_with('{'))
}
