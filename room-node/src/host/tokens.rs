//! A bucket of tokens a second: reserving names the moment at which the token is there.

use std::sync::{Mutex, PoisonError};

use crate::clock::Mono;

/// Holds one second's worth of tokens. A rate of 0 counts as 1.
#[derive(Debug)]
pub(crate) struct Tokens {
    per_second: u64,
    /// Microseconds at which the bucket is full again.
    full_at_us: Mutex<u64>,
}

const SECOND_US: u64 = 1_000_000;

impl Tokens {
    pub(crate) fn new(per_second: u32, now: Mono) -> Self {
        Self {
            per_second: u64::from(per_second.max(1)),
            full_at_us: Mutex::new(now.0.saturating_mul(1_000)),
        }
    }

    /// Takes the next token and says when it may be used.
    pub(crate) fn reserve(&self, now: Mono) -> Mono {
        let now_us = now.0.saturating_mul(1_000);
        let mut full_at_us = self.full_at_us.lock().unwrap_or_else(PoisonError::into_inner);
        *full_at_us = (*full_at_us).max(now_us) + SECOND_US / self.per_second;
        let wait_us = full_at_us.saturating_sub(now_us + SECOND_US);
        now.plus(wait_us.div_ceil(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_a_second_then_the_rate() {
        let tokens = Tokens::new(500, Mono(1_000));
        let times: Vec<u64> = (0..502).map(|_| tokens.reserve(Mono(1_000)).0).collect();
        assert!(times.iter().take(500).all(|at| *at == 1_000));
        assert_eq!(times.get(500..), Some(&[1_002, 1_004][..]));
        assert_eq!(tokens.reserve(Mono(9_000)), Mono(9_000));
    }
}
