//! A fresh file of handle keys: all gateways of a cluster seal with the same.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const KEY_BYTES: usize = 32;
/// Only the owner reads it.
const PRIVATE: u32 = 0o600;

/// Writes one new key.
pub(super) fn write(path: &Path) -> io::Result<()> {
    let mut key = [0; KEY_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path)?;
    writeln!(file, "dev:{}", base64(&key))
}

/// Standard base64, padded.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| chunk.get(at).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = (bits >> (18 - 6 * place)) & 63;
            let letter = LETTERS.get(letter as usize).copied().map_or('=', char::from);
            out.push(if place <= chunk.len() { letter } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_standard_one() {
        for (text, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("fooba", "Zm9vYmE=")]
        {
            assert_eq!(base64(text.as_bytes()), expected);
        }
    }
}
