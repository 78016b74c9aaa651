//! Randomness: the only place of this crate that draws any.

/// 64 random bits; 0 if the system has none, which spreads pauses and tokens less but is no fault.
pub(crate) fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}
