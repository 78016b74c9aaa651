//! Relations between values, and what they have in common in several programs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::GivenFlags;

/// What a program's relations may look at, and where they report to.
#[derive(Debug)]
pub struct Check<'a> {
    given: &'a GivenFlags,
    variables: &'a BTreeMap<String, String>,
    mistakes: &'a mut Vec<String>,
    warnings: &'a mut Vec<String>,
}

impl<'a> Check<'a> {
    pub(super) const fn new(
        given: &'a GivenFlags,
        variables: &'a BTreeMap<String, String>,
        mistakes: &'a mut Vec<String>,
        warnings: &'a mut Vec<String>,
    ) -> Self {
        Self { given, variables, mistakes, warnings }
    }

    /// Whether a flag stands on the command line.
    #[must_use]
    pub fn is_given(&self, flag: &str) -> bool {
        self.given.contains_key(flag)
    }

    /// Whether a flag has a value from anywhere, good or not.
    #[must_use]
    pub fn is_set(&self, flag: &str) -> bool {
        let variable = super::variable(flag);
        self.is_given(flag) || self.variables.get(&variable).is_some_and(|text| !text.is_empty())
    }

    /// Reports a mistake: nothing will be started.
    pub fn mistake(&mut self, text: impl Into<String>) {
        self.mistakes.push(text.into());
    }

    /// Reports what surprises but is allowed.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }

    /// Two listeners need two addresses.
    pub fn addresses(&mut self, listen: SocketAddr, admin: SocketAddr) {
        if listen == admin && listen.port() != 0 {
            self.mistake("--listen and --admin-listen name the same address");
        }
    }

    /// The two periods of the cadence.
    pub fn cadence(&mut self, active_period_ms: u64, period_ms: u64) {
        if active_period_ms > period_ms {
            self.mistake(
                "--wait-active-period-ms is longer than --wait-period-ms: news would come slower \
                 than silence",
            );
        }
    }

    /// Host names that are accepted: the seeds' switch for all, and what is missing beyond
    /// loopback.
    pub fn hosts(&mut self, listen: SocketAddr, allow_hosts: &mut Vec<String>) {
        let any_host = self.variables.get("ALLOW_ANY_HOST").map(String::as_str);
        if matches!(any_host, Some("true" | "1")) && allow_hosts.is_empty() {
            allow_hosts.push("*".to_owned());
        }
        if !listen.ip().is_loopback() && allow_hosts.is_empty() {
            self.warning(
                "listening beyond loopback without --allow-host: only IP addresses are accepted \
                 in the Host header",
            );
        }
    }
}
