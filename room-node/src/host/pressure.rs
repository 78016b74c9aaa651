//! Memory pressure: above a part of the node's limit, the least recently used stubs go cold.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::Object;

use super::{Host, Inner};

/// How often memory is read, in milliseconds.
const LOOK_MS: u64 = 5_000;
/// Stubs go from this part of the limit on, in percent, until the low mark is reached.
const HIGH_PERCENT: u64 = 80;
const LOW_PERCENT: u64 = 75;
/// The least that goes in one look, so that small limits are met, too.
const STUBS_MIN: u64 = 256;

const _: () = assert!(LOW_PERCENT < HIGH_PERCENT && HIGH_PERCENT < 100);

/// How much memory a process uses.
pub trait MemoryUse: Send + Sync + std::fmt::Debug + 'static {
    /// Bytes in use; `None` if that cannot be read now.
    fn used_bytes(&self) -> Option<u64>;
}

/// The memory of this process, as the kernel counts it.
#[derive(Debug)]
pub struct Machine;

impl Machine {
    /// What the control group of this process may use, in bytes; `None` without a limit.
    #[must_use]
    pub fn limit_bytes() -> Option<u64> {
        let text = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?;
        text.trim().parse().ok()
    }
}

impl MemoryUse for Machine {
    fn used_bytes(&self) -> Option<u64> {
        resident_bytes(&std::fs::read_to_string("/proc/self/status").ok()?)
    }
}

// The line `VmRSS:   1234 kB`.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

/// Decides how many stubs go. Pure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Watermark {
    limit_bytes: u64,
    /// The high mark was met and the low one not yet.
    above: bool,
}

impl Watermark {
    fn look(&mut self, used_bytes: u64, stubs: u64) -> u64 {
        let low = self.limit_bytes / 100 * LOW_PERCENT;
        let mark = if self.above { low } else { self.limit_bytes / 100 * HIGH_PERCENT };
        self.above = used_bytes > mark;
        if !self.above {
            return 0;
        }
        let excess = u128::from(used_bytes - low.min(used_bytes));
        let part = u128::from(stubs) * excess / u128::from(used_bytes.max(1));
        u64::try_from(part).unwrap_or(stubs).max(STUBS_MIN).min(stubs)
    }
}

/// Which stubs go: all of the older ages, and then so many of the last age. Pure.
fn oldest(ages: &BTreeMap<u64, usize>, wanted: usize) -> Vec<(u64, usize)> {
    let mut left = wanted;
    let mut chosen = Vec::new();
    for (age, count) in ages.iter().rev() {
        let some = left.min(*count);
        left -= some;
        if some > 0 {
            chosen.push((*age, some));
        }
    }
    chosen
}

impl<O: Object> Host<O> {
    /// Keeps the process below its memory limit for as long as the host lives: above 80 % of it
    /// the least recently used stubs are released until 75 % are reached.
    pub fn watch_memory(&self, limit_bytes: u64, usage: Arc<dyn MemoryUse>) {
        let host = Arc::clone(&self.inner);
        tokio::spawn(host.run_pressure(limit_bytes, usage));
    }
}

impl<O: Object> Inner<O> {
    async fn run_pressure(self: Arc<Self>, limit_bytes: u64, usage: Arc<dyn MemoryUse>) {
        let mut mark = Watermark { limit_bytes, above: false };
        loop {
            tokio::select! {
                () = self.dead.cancelled() => return,
                () = self.clock.sleep_until(self.clock.mono().plus(LOOK_MS)) => {}
            }
            let Some(used) = usage.used_bytes() else { continue };
            self.metrics.memory_used.set(i64::try_from(used).unwrap_or(i64::MAX));
            let wanted = mark.look(used, self.directory.stub_count() as u64);
            if wanted == 0 {
                continue;
            }
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            let before = self.directory.stub_count();
            for (age, stubs) in oldest(&self.stub_ages().await, wanted) {
                self.release_stubs(age, stubs).await;
            }
            let gone = before.saturating_sub(self.directory.stub_count());
            self.metrics.pressure_stubs.inc_by(gone as u64);
            tracing::info!(gone, "memory is short; the longest unused stubs were released");
        }
    }

    async fn stub_ages(&self) -> BTreeMap<u64, usize> {
        let mut ages = BTreeMap::new();
        // One moment for all: the ages then differ by whole units of what a stub keeps.
        let (wall, now) = (self.clock.now(), self.clock.mono());
        for shard in 0..self.directory.shard_count() {
            if let Some(shard) = self.directory.shard_at(shard) {
                let (page, _) = shard.stubs.page(0, usize::MAX, wall, now);
                for (_, stub) in page {
                    *ages.entry(now.since(stub.touched)).or_default() += 1;
                }
            }
            tokio::task::yield_now().await;
        }
        ages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_go_from_the_high_mark_on_until_the_low_one() {
        let mut mark = Watermark { limit_bytes: 1_000_000, above: false };
        for (used, expected) in [
            (799_999, 0),
            (800_000, 0),
            (800_001, 6_250),
            (760_000, 1_315),
            (750_001, 256),
            (750_000, 0),
            (790_000, 0),
            (1_500_000, 50_000),
        ] {
            assert_eq!(mark.look(used, 100_000), expected, "{used}");
        }
        assert_eq!(mark.look(900_000, 10), 10, "no more than there are");
    }

    #[test]
    fn the_oldest_go_first() {
        let ages = BTreeMap::from([(10, 5), (20, 3), (30, 1)]);
        assert_eq!(oldest(&ages, 1), [(30, 1)]);
        assert_eq!(oldest(&ages, 5), [(30, 1), (20, 3), (10, 1)]);
        assert_eq!(oldest(&ages, 99), [(30, 1), (20, 3), (10, 5)]);
        assert!(oldest(&ages, 0).is_empty());
    }

    #[test]
    fn the_kernels_word_is_read() {
        let status = "Name:\troomring\nVmHWM:\t    9 kB\nVmRSS:\t    1234 kB\n";
        assert_eq!(resident_bytes(status), Some(1_234 * 1_024));
        assert_eq!(resident_bytes("VmRSS: much"), None);
    }
}
