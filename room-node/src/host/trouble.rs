//! Objects whose code panics or whose bytes are damaged: counted, then set aside for a time.

use crate::clock::Mono;
use crate::config::Config;

/// The record of one troubled object. Pure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trouble {
    window_from: Mono,
    panics: u32,
    retry_ms: u64,
    /// Set aside until then.
    pub(crate) until: Mono,
}

/// A damaged object stays aside for the life of the process.
const NEVER: Mono = Mono(u64::MAX);

/// First pause of a timer whose handler fails, doubled each time up to the longest.
const RETRY_MS: u64 = 2_000;
const RETRY_MS_MAX: u64 = 1_024_000;

impl Trouble {
    pub(crate) const fn new(now: Mono) -> Self {
        Self { window_from: now, panics: 0, retry_ms: 0, until: Mono(0) }
    }

    /// Notes a panic; true if the object is to be set aside.
    pub(crate) const fn panicked(&mut self, config: &Config, now: Mono) -> bool {
        if now.since(self.window_from) > config.trouble_window_ms {
            (self.window_from, self.panics) = (now, 0);
        }
        self.retry_ms = match self.retry_ms {
            0 => RETRY_MS,
            RETRY_MS_MAX.. => RETRY_MS_MAX,
            before => before * 2,
        };
        self.panics += 1;
        if self.panics < config.panics_max {
            return false;
        }
        self.panics = 0;
        self.until = now.plus(config.trouble_window_ms);
        true
    }

    /// How long a timer of this object waits before it is tried again; a quarter of it at most
    /// is chance, so that objects that failed together do not come again together.
    pub(crate) fn retry_ms(&self, now: Mono, random: u64) -> u64 {
        jittered(self.retry_ms.max(self.until.since(now)), random)
    }

    /// Notes damage: the object is set aside until an operator restarts the node.
    pub(crate) const fn damaged(&mut self) {
        self.until = NEVER;
    }

    pub(crate) fn is_aside(&self, now: Mono) -> bool {
        now < self.until
    }

    /// True once the record says nothing any more.
    pub(crate) fn is_over(&self, config: &Config, now: Mono) -> bool {
        let memory_ms = config.trouble_window_ms.max(self.retry_ms.saturating_mul(2));
        !self.is_aside(now) && now.since(self.window_from) > memory_ms
    }
}

/// Lengthens a pause by up to a quarter of it.
pub(super) const fn jittered(ms: u64, random: u64) -> u64 {
    ms.saturating_add(random % (ms / 4 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_lengthened_by_a_quarter_at_most_and_doubled_up_to_its_bound() {
        let config = Config { panics_max: 100, ..Config::default() };
        let mut trouble = Trouble::new(Mono(0));
        for least in [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000] {
            trouble.panicked(&config, Mono(0));
            assert_eq!(trouble.retry_ms(Mono(0), 0), least);
            assert_eq!(trouble.retry_ms(Mono(0), least / 4), least + least / 4);
            assert_eq!(trouble.retry_ms(Mono(0), least / 4 + 1), least);
        }
        for _ in 0..3 {
            trouble.panicked(&config, Mono(0));
        }
        assert_eq!(trouble.retry_ms(Mono(0), 0), RETRY_MS_MAX);
        assert_eq!(jittered(u64::MAX, u64::MAX - 1), u64::MAX);
        assert_eq!(jittered(3, 9), 3);
    }

    #[test]
    fn three_panics_in_a_minute_set_an_object_aside_for_a_minute() {
        let config = Config::default();
        let mut trouble = Trouble::new(Mono(0));
        for (at, expected) in [(0, false), (61_000, false), (62_000, false), (63_000, true)] {
            assert_eq!(trouble.panicked(&config, Mono(at)), expected, "{at}");
        }
        assert!(trouble.is_aside(Mono(122_999)));
        assert!(!trouble.is_aside(Mono(123_000)));
        assert!(trouble.is_over(&config, Mono(123_000)));
        trouble.damaged();
        assert!(trouble.is_aside(Mono(u64::MAX - 1)));
    }
}
