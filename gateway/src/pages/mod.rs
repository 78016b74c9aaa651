//! The two pages for people and agents that come without an MCP client: `/agent.md`, the contract
//! generated from the catalog, and `/room?id=`, which says what an invite is (ours 4).

mod agent_md;
mod room;

use ::room::catalog::Tool;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Request, Response, StatusCode};

use crate::http::reply::ReplyBody;
use crate::http::route::{only_reads, with_type};

/// The pages of one gateway.
#[derive(Clone, Debug)]
pub struct Pages {
    agent_md: Bytes,
    app_url: String,
}

impl Pages {
    /// Writes what does not change. `app_url` is the service's base, without a trailing slash.
    #[must_use]
    pub fn new(tools: &[Tool], app_url: &str) -> Self {
        let app_url = app_url.trim_end_matches('/').to_owned();
        Self { agent_md: Bytes::from(agent_md::write(tools, &app_url)), app_url }
    }

    /// The text of `/agent.md`.
    #[must_use]
    pub fn agent_md(&self) -> &str {
        std::str::from_utf8(&self.agent_md).unwrap_or("")
    }

    pub(crate) fn answer<R>(&self, request: &Request<R>) -> Response<ReplyBody> {
        if let Some(refused) = only_reads(request.method()) {
            return refused;
        }
        let mut response = if request.uri().path() == "/room" {
            let page = room::write(request.uri().query().unwrap_or(""), &self.app_url);
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            let mut response = with_type(page.status, html, Bytes::from(page.html));
            let headers = response.headers_mut();
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(room::POLICY));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        } else {
            let markdown = HeaderValue::from_static("text/markdown; charset=utf-8");
            let mut response = with_type(StatusCode::OK, markdown, self.agent_md.clone());
            let age = HeaderValue::from_static("public, max-age=3600");
            response.headers_mut().insert(CACHE_CONTROL, age);
            response
        };
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }
}
