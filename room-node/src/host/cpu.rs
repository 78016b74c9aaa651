//! How much of the processors it may use this process uses. Other processes do not count: a busy
//! machine is no reason to refuse anything.

use super::pressure::Machine;
use crate::clock::Mono;

/// The kernel counts processor time for programs in hundredths of a second.
const TICK_MS: u64 = 10;

/// The processor time of a process.
pub trait CpuUse: Send + Sync + std::fmt::Debug + 'static {
    /// Processor time used since the process began, in milliseconds; `None` if that cannot be read.
    fn used_ms(&self) -> Option<u64>;
    /// Processor time it may use in one second, in milliseconds.
    fn allowed_ms(&self) -> u64;
}

impl CpuUse for Machine {
    fn used_ms(&self) -> Option<u64> {
        used_ms(&std::fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn allowed_ms(&self) -> u64 {
        let usable = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let limit = std::fs::read_to_string("/sys/fs/cgroup/cpu.max").ok();
        allowed_ms(usable, limit.as_deref().and_then(quota_ms))
    }
}

// `PID (NAME) STATE …`, with user time and system time as the 14th and 15th field. The name may
// hold blanks and parentheses.
fn used_ms(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    let ticks = user.parse::<u64>().ok()?.checked_add(system.parse().ok()?)?;
    ticks.checked_mul(TICK_MS)
}

// `QUOTA PERIOD` in microseconds, or `max PERIOD`.
fn quota_ms(limit: &str) -> Option<u64> {
    let (quota, period) = limit.trim().split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    quota.checked_mul(1_000)?.checked_div(period)
}

// The processors that are counted are cut to whole ones by the quota, too: fewer than those are
// the processors it is bound to.
const fn allowed_ms(usable: u64, quota_ms: Option<u64>) -> u64 {
    match quota_ms {
        Some(quota) => {
            let whole = if quota < 1_000 { 1 } else { quota / 1_000 };
            if usable < whole { usable * 1_000 } else { quota }
        }
        None => usable * 1_000,
    }
}

/// Turns readings into shares.
#[derive(Debug, Default)]
pub(super) struct Meter {
    before: Option<(Mono, u64)>,
}

impl Meter {
    /// The part of what it may use that the process used since the last reading, in percent.
    pub(super) fn percent(&mut self, now: Mono, usage: &dyn CpuUse) -> Option<u64> {
        let used = usage.used_ms()?;
        let (at, before) = self.before.replace((now, used))?;
        let allowed = usage.allowed_ms().saturating_mul(now.since(at)) / 1_000;
        used.saturating_sub(before).saturating_mul(100).checked_div(allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_word_is_read() {
        let stat = "4242 (a) b (c) S 1 2 3 0 -1 4194560 10 0 0 0 150 25 7 7 20 0 12 0 99 1 2";
        assert_eq!(used_ms(stat), Some(1_750));
        assert_eq!(used_ms("4242 (a) S 1 2"), None);
        assert_eq!(used_ms(""), None);
    }

    #[test]
    fn a_quota_counts_and_so_do_the_processors_it_is_bound_to() {
        for (usable, limit, expected) in [
            (2, "max 100000", 2_000),
            // What is said of a quota of one and a half.
            (1, "150000 100000", 1_500),
            (1, "50000 100000", 500),
            (8, "800000 100000", 8_000),
            (2, "800000 100000", 2_000),
            (4, "nonsense", 4_000),
            (4, "100 0", 4_000),
        ] {
            assert_eq!(allowed_ms(usable, quota_ms(limit)), expected, "{usable} {limit}");
        }
    }

    #[derive(Debug)]
    struct Used(Option<u64>);

    impl CpuUse for Used {
        fn used_ms(&self) -> Option<u64> {
            self.0
        }

        fn allowed_ms(&self) -> u64 {
            2_000
        }
    }

    #[test]
    fn the_share_is_that_of_the_time_between_two_readings() {
        let mut meter = Meter::default();
        for (now, used, expected) in [
            (1_000, Some(5_000), None),
            (2_000, Some(6_900), Some(95)),
            (3_000, None, None),
            // It was stopped for long, or not asked.
            (10_000, Some(7_700), Some(5)),
            (10_000, Some(7_700), None),
            (11_000, Some(7_600), Some(0)),
        ] {
            assert_eq!(meter.percent(Mono(now), &Used(used)), expected, "{now}");
        }
    }
}
