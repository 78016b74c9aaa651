//! Every setting of the gateway with its default and the reason for it.
//!
//! This is the plain result; reading flags and environment, and reporting every mistake at once,
//! is the binary's part (interfaces.md, command lines).

use std::num::NonZeroU32;
use std::time::Duration;

use crate::client_addr::Cidr;

/// All settings of one gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--region`: the clear tag of every handle minted here, 1 to [`REGION_BYTES_MAX`] bytes.
    pub region: String,
    /// `--app-url`: base of `roomUrl`, without a trailing slash. `None`: derived from the listen
    /// address.
    pub app_url: Option<String>,
    /// `--allow-host` and the seeds' `ALLOWED_HOSTNAMES`: host names that pass, besides loopback.
    pub allowed_hosts: Vec<String>,
    /// `--allow-origin`: origins that pass, besides those of allowed hosts.
    pub allowed_origins: Vec<String>,
    /// The seeds' `ALLOW_ANY_HOST`: turns both checks off.
    pub allow_any_host: bool,
    /// `--trusted-proxy`: peers whose `Forwarded` and `X-Forwarded-For` are believed. None by
    /// default: a header anybody can send must not choose a guard's bucket.
    pub trusted_proxies: Vec<Cidr>,
    /// `--wait-period-ms`: gap after an empty poll. 10 s, the reference's.
    pub wait_period: Duration,
    /// `--wait-active-period-ms`: P, the gap between polls with news, in the long run. 2 s.
    pub wait_active_period: Duration,
    /// `--wait-burst`: B, polls with news admitted at once. 3.
    pub wait_burst: NonZeroU32,
    /// `--hold-ms-max`: longest held wait. 5 s, below every proxy's idle timeout.
    pub hold_max: Duration,
    /// `--guard-join-per-minute`, per address: joins and creations. 10, the reference's number.
    pub guard_join_per_minute: NonZeroU32,
    /// `--guard-info-per-minute`, per address: reads without a handle. 60, the reference's.
    pub guard_info_per_minute: NonZeroU32,
    /// `--guard-call-per-minute`, per handle, in weight: all other calls. 240, the reference's.
    pub guard_call_per_minute: NonZeroU32,
    /// `--body-bytes-max`: whole request body. 2 MiB holds the largest legal upload (1.4 M
    /// characters of base64) with room to spare.
    pub body_bytes_max: usize,
    /// `--connections-max`: open client connections. 10,000 at about 20 KiB each stay under
    /// 200 MiB.
    pub connections_max: usize,
    /// `--inflight-max`: tool calls on their way to nodes, held waits included. More than this at
    /// once is answered `overloaded` instead of queued.
    pub inflight_max: usize,
    /// `--header-timeout-ms`: a request's head must arrive within this. 10 s.
    pub header_timeout: Duration,
    /// `--body-timeout-ms`: a request's body must arrive within this. 30 s: 2 MiB at 70 KB/s.
    pub body_timeout: Duration,
    /// Longest time one call may take, held time apart (cluster 2.10: at most 10 s with retries).
    pub call_timeout: Duration,
    /// `--pre-stop-ms`: from the signal to end, how long new connections are still taken, and how long
    /// idle ones stay open after that. Zero, for a process that nobody replaces; the cluster's
    /// gateway has its own default.
    pub pre_stop: Duration,
    /// Memory of all request bodies being read and worked on at once, in bytes, beyond a small part
    /// of each (ours 20). 256 MiB: more than a hundred of the largest.
    pub request_bytes_max: usize,
    /// Memory of all responses being written at once, in bytes (ours 2). 256 MiB.
    pub response_bytes_max: usize,
    /// Link streams kept open to a node. Two, so that one large message does not stall all calls.
    pub link_streams: usize,
}

/// Longest region name, in bytes: part of every handle, which is bounded (ours 5).
pub const REGION_BYTES_MAX: usize = 24;

/// A non-zero constant.
const fn nz(n: u32) -> NonZeroU32 {
    match NonZeroU32::new(n) {
        Some(n) => n,
        None => NonZeroU32::MIN,
    }
}

impl Config {
    /// From the signal to end until idle connections are closed.
    #[must_use]
    pub fn farewell(&self) -> Duration {
        self.pre_stop.saturating_mul(2)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            region: "local".to_owned(),
            app_url: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            allow_any_host: false,
            trusted_proxies: Vec::new(),
            wait_period: Duration::from_millis(10_000),
            wait_active_period: Duration::from_millis(2_000),
            wait_burst: nz(3),
            hold_max: Duration::from_millis(5_000),
            guard_join_per_minute: nz(10),
            guard_info_per_minute: nz(60),
            guard_call_per_minute: nz(240),
            body_bytes_max: 2 * 1024 * 1024,
            connections_max: 10_000,
            inflight_max: 4_096,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(10),
            pre_stop: Duration::ZERO,
            request_bytes_max: 256 * 1024 * 1024,
            response_bytes_max: 256 * 1024 * 1024,
            link_streams: 2,
        }
    }
}
