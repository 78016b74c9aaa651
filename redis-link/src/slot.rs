//! Which slot of a cluster a key belongs to.

/// Slots of a Redis Cluster.
pub const SLOTS: u16 = 16_384;

/// The part of a key that decides its slot: between the first `{` and the next `}`, if that is not
/// empty, else the whole key.
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let Some(rest) = key.get(open + 1..) else { return key };
    match rest.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => rest.get(..close).unwrap_or(key),
    }
}

/// The slot of a key, 0 to 16,383, as Redis Cluster computes it.
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// CRC16 as XMODEM has it: polynomial 0x1021, no reflection, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for byte in bytes {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // From the cluster specification, and from CLUSTER KEYSLOT of 7.0.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"bar"), 5_061);
    }

    #[test]
    fn only_the_first_tag_counts_and_only_if_it_holds_something() {
        for (key, tag) in [
            ("{b0371}m:room", "b0371"),
            ("x{b0371}y{z}", "b0371"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar", "foo{bar"),
            ("plain", "plain"),
            ("{", "{"),
            ("", ""),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }
}
