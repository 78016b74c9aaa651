//! Memory of what is being read and written, as one number for the whole gateway each (ours 2
//! and 20).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// The bytes all responses, or all request bodies, together may hold.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Budget {
    /// A budget of this many bytes.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { used: AtomicUsize::new(0), bytes_max }
    }

    /// Bytes in use, for the gauge.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes bytes out of the budget; `None` if they are not there.
    #[must_use]
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|total| *total <= self.bytes_max)
            })
            .ok()
            .map(|_| Charge { budget: Arc::clone(self), bytes })
    }

    /// Takes bytes even if they are not there: for answers that must be given. Bounded by the
    /// requests in flight.
    #[must_use]
    pub fn force(self: &Arc<Self>, bytes: usize) -> Charge {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Charge { budget: Arc::clone(self), bytes }
    }
}

/// Bytes taken out of a [`Budget`]; dropping gives them back.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Charge {
    /// Takes more, up to `bytes` in all; `false`, and nothing taken, if they are not there.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let Some(mut taken) = self.budget.take(more) else { return false };
        self.bytes += std::mem::take(&mut taken.bytes);
        true
    }

    /// Gives back what is more than `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.budget.used.fetch_sub(surplus, Ordering::Relaxed);
        self.bytes -= surplus;
    }

    /// Ties the charge to the response's bytes: it ends when the last of them has been written.
    #[must_use]
    pub fn bind(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Charged { bytes, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct Charged {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back_with_the_last_byte() {
        let budget = Arc::new(Budget::new(100));
        let mut first = budget.take(60).expect("fits");
        assert!(budget.take(41).is_none(), "over the bound");
        first.shrink(10);
        assert_eq!(budget.used(), 10);
        assert!(first.grow(60) && first.grow(20), "more, and never less");
        assert_eq!(budget.used(), 60);
        assert!(!first.grow(101));
        assert_eq!(budget.used(), 60, "nothing is taken in vain");
        first.shrink(10);
        let second = budget.take(90).expect("fits exactly");
        assert!(budget.take(1).is_none());
        let forced = budget.force(50);
        assert_eq!(budget.used(), 150);
        drop((second, forced));
        let bytes = first.bind(vec![0; 10]);
        let part = bytes.slice(3..4);
        drop(bytes);
        assert_eq!(budget.used(), 10, "a part of the bytes is still there");
        drop(part);
        assert_eq!(budget.used(), 0);
        assert!(budget.take(usize::MAX).is_none());
    }
}
